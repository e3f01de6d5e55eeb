"""What has settings in the metadata log besides topics: brokers and users, each by its name or all of a kind together.

Owns what they are, and how those of one count for more than those of all. Knows neither what brokers can be told
(``core.settings``) nor users (``quotas``), nor who may tell them.

Source: Kafka's ``ConfigResource``, ``ConfigRecord.json``; KIP-226.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

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
