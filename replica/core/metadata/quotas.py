"""The quotas of users: settings of theirs, how they are read from text, and the table of limits that they make.

Source: Kafka's ``QuotaConfigs``, ``ClientQuotaImage``; KIP-257, KIP-546.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from replica.core.config import InvalidConfigError
from replica.core.limits import Limits, LimitTable
from replica.core.metadata.acls import PRINCIPAL_TYPE
from replica.core.metadata.resources import ConfigResourceType, Configs
from replica.core.setting_kinds import Number
from replica.core.settings import NUMBERS

QUOTAS: Mapping[str, Number] = MappingProxyType({name: NUMBERS[name] for name in Limits.__struct_fields__})
"""What a user may be given of each replica; a setting of the same name holds for everybody who is given nothing."""


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
    for name in settings.keys() & QUOTAS.keys():
        try:
            read[name] = QUOTAS[name].read(name, settings[name])
        except InvalidConfigError:
            continue
    return Limits(**read)
