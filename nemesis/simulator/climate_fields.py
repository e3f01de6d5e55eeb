"""The fields of a climate by name, those of its cluster or groups among them: who writes or varies one need not care.

Owns the names. In a world of one quorum log there are those of ``Climate`` only. What is usual is what a calm climate
of the same kind of world has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.group_climate import GroupClimate
from nemesis.variants.worlds import WorldKind

CLUSTER, GROUP = "cluster", "group"
_QUORUM_FIELDS = tuple(field.name for field in dataclasses.fields(Climate) if field.name not in (CLUSTER, GROUP))
_CLUSTER_FIELDS = tuple(field.name for field in dataclasses.fields(ClusterClimate))
_GROUP_FIELDS = tuple(field.name for field in dataclasses.fields(GroupClimate))
_PART_OF = {**dict.fromkeys(_CLUSTER_FIELDS, CLUSTER), **dict.fromkeys(_GROUP_FIELDS, GROUP)}
"""In which part of a climate a field is that is not its own."""
FIELDS: Mapping[WorldKind, tuple[str, ...]] = MappingProxyType(
    {
        WorldKind.QUORUM: _QUORUM_FIELDS,
        WorldKind.CLUSTER: (*_QUORUM_FIELDS, *_CLUSTER_FIELDS),
        WorldKind.GROUP: (*_QUORUM_FIELDS, *_GROUP_FIELDS),
    }
)
"""The names that a climate has, in order."""
CALM_CLIMATES: Mapping[WorldKind, Climate] = MappingProxyType(
    {
        WorldKind.QUORUM: CALM,
        WorldKind.CLUSTER: dataclasses.replace(CALM, cluster=ClusterClimate()),
        WorldKind.GROUP: dataclasses.replace(CALM, group=GroupClimate()),
    }
)


def field_of(climate: Climate, name: str) -> Any:
    """The value of a field."""
    return getattr(getattr(climate, _PART_OF[name]) if name in _PART_OF else climate, name)


def calm_field(climate: Climate, name: str) -> Any:
    """The usual value of a field, in this kind of world."""
    return field_of(CALM_CLIMATES[climate.world], name)


def with_fields(climate: Climate, fields: Mapping[str, Any]) -> Climate:
    """The same climate with other values of these fields."""
    own = {name: value for name, value in fields.items() if name not in _PART_OF}
    for part in (CLUSTER, GROUP):
        of_part = {name: value for name, value in fields.items() if _PART_OF.get(name) == part}
        if of_part:
            own[part] = dataclasses.replace(getattr(climate, part), **of_part)
    return dataclasses.replace(climate, **own)


def with_calm_fields(climate: Climate, names: tuple[str, ...]) -> Climate:
    """The same climate with the usual values of these fields, as far as it has them, and replicas for its brokers."""
    present = FIELDS[climate.world]
    return fitted(with_fields(climate, {name: calm_field(climate, name) for name in names if name in present}))


def fitted(climate: Climate) -> Climate:
    """The same climate with no more replicas than there are brokers, nor more of them needed in sync."""
    cluster = climate.cluster
    if cluster is None:
        return climate
    replicas = min(cluster.replication_factor, climate.voters)
    in_sync = min(cluster.min_insync_replicas, replicas)
    return dataclasses.replace(
        climate, cluster=dataclasses.replace(cluster, replication_factor=replicas, min_insync_replicas=in_sync)
    )
