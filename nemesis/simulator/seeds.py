"""The climate of a seed: what its kind of world draws, and what was added later.

Owns the additions. Each is drawn from dice of its own, so that the worlds of seeds that do not get it stay what they
were. What a kind of world draws, ``common_seeds``, ``cluster_seeds`` and ``group_seeds`` say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

from nemesis.simulator.climate import Climate
from nemesis.simulator.cluster_seeds import (
    SETTING_CHANGES_SHARE,
    UPGRADES_SHARE,
    draw_cluster_climate,
    with_setting_changes,
    with_upgrades,
)
from nemesis.simulator.common_seeds import (
    REFUSALS_SHARE,
    SLOW_LANES_SHARE,
    draw_climate,
    with_refusals,
    with_slow_lanes,
)
from nemesis.simulator.group_seeds import draw_group_climate
from nemesis.variants.worlds import WorldKind

DRAWN: Mapping[WorldKind, Callable[[Random], Climate]] = MappingProxyType(
    {
        WorldKind.QUORUM: draw_climate,
        WorldKind.CLUSTER: draw_cluster_climate,
        WorldKind.GROUP: draw_group_climate,
    }
)
"""How the climate of a seed is drawn, for each kind of world."""


def climate_of(seed: int, world: WorldKind) -> Climate:
    """The climate of a seed."""
    climate = DRAWN[world](Random(f"{seed} climate"))
    dice = Random(f"{seed} lanes")
    if dice.random() < SLOW_LANES_SHARE:
        climate = with_slow_lanes(climate, dice)
    dice = Random(f"{seed} refusals")
    if dice.random() < REFUSALS_SHARE:
        climate = with_refusals(climate, dice)
    if world is not WorldKind.CLUSTER:
        return climate
    dice = Random(f"{seed} settings")
    if dice.random() < SETTING_CHANGES_SHARE:
        climate = with_setting_changes(climate, a_minute=dice.choice((20.0, 60.0, 200.0)))
    dice = Random(f"{seed} upgrades")
    if dice.random() < UPGRADES_SHARE:
        climate = with_upgrades(climate, a_minute=dice.choice((6.0, 20.0, 60.0)))
    return climate
