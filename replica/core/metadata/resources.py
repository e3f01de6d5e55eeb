"""What has settings in the metadata log besides topics: brokers and users, each by its name or all of a kind together.

Owns what they are, how those of one count for more than those of all, and the settings of users, which are quotas.
Knows nothing of what brokers can be told (``core.settings``), nor of who may tell them.

Source: Kafka's ``ConfigResource``, ``ConfigRecord.json``, ``ClientQuotaRecord.json``; KIP-226, KIP-257, KIP-546.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from replica.bounds import INT64_MAX
from replica.core.config import InvalidConfigError
from replica.core.limits import Limits, LimitTable
from replica.core.metadata.acls import PRINCIPAL_TYPE
from replica.core.setting_kinds import Number, UpdateMode
from replica.ids import ReplicaId


class ConfigResourceType(StrEnum):
    """What has settings."""

    BROKER = "broker"
    USER = "user"


class ConfigResource(Struct, frozen=True, order=True, kw_only=True):
    """One broker, by its id, or one user; without a name all of them, as far as they have no settings of their own."""

    resource_type: ConfigResourceType
    name: str = ""


ALL_BROKERS = ConfigResource(resource_type=ConfigResourceType.BROKER)
Configs = Mapping[ConfigResource, Mapping[str, str]]

QUOTAS: Mapping[str, Number] = MappingProxyType(
    {
        "producer_byte_rate": Number(
            "bytes", "Written through one replica in a second.", 1, INT64_MAX, UpdateMode.CLUSTER_WIDE
        ),
        "consumer_byte_rate": Number(
            "bytes", "Read through one replica in a second.", 1, INT64_MAX, UpdateMode.CLUSTER_WIDE
        ),
        "request_rate": Number("requests", "Of one replica in a second.", 1, INT64_MAX, UpdateMode.CLUSTER_WIDE),
    }
)
"""What a user may be given of each replica, with Kafka's names where there are such."""


def broker_resource(broker_id: ReplicaId) -> ConfigResource:
    """The broker of this id."""
    return ConfigResource(resource_type=ConfigResourceType.BROKER, name=str(broker_id))


def with_config(configs: Configs, resource: ConfigResource, name: str, value: str | None) -> Configs:
    """The same with one setting, or without it, in the one order that there is."""
    of_resource = {key: text for key, text in configs.get(resource, {}).items() if key != name}
    if value is not None:
        of_resource[name] = value
    others = {other: settings for other, settings in configs.items() if other != resource}
    if of_resource:
        others[resource] = dict(sorted(of_resource.items()))
    return dict(sorted(others.items()))


def told_to(configs: Configs, broker_id: ReplicaId) -> dict[str, str]:
    """What a broker is told: what holds for it alone counts for more than what holds for all."""
    return {**configs.get(ALL_BROKERS, {}), **configs.get(broker_resource(broker_id), {})}


def limit_table(configs: Configs) -> LimitTable:
    """The quotas of all users. What cannot be read, since another release has written it, is no limit."""
    limits = {
        resource.name: _limits(settings)
        for resource, settings in configs.items()
        if resource.resource_type is ConfigResourceType.USER
    }
    default = limits.pop("", Limits())
    return LimitTable(default=default, by_principal={f"{PRINCIPAL_TYPE}{name}": own for name, own in limits.items()})


def _limits(settings: Mapping[str, str]) -> Limits:
    read: dict[str, int] = {}
    for name, text in settings.items():
        with suppress(InvalidConfigError, KeyError):
            read[name] = QUOTAS[name].read(name, text)
    return Limits(**read)
