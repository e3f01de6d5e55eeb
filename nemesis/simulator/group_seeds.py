"""The climate of a world of state machines, drawn from a seed.

Owns the proportions. Network, disks, clocks and weather are those of any other world; what is drawn here beside them is
what the machines are, how often they are written down, and what clients ask of them.

Whatever is drawn must let a healed replica catch up once clients have stopped. A snapshot that is superseded before it
has been fetched, piece by piece over the slowest network, would never be there: so a piece has 80 bytes or more,
and ticks alone take longer to fill a snapshot than it takes to fetch one.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from nemesis.faults.damage import DamageDisk
from nemesis.faults.timekeeping import JumpClock
from nemesis.simulator.climate import Climate
from nemesis.simulator.common_seeds import draw_common_climate
from nemesis.simulator.group_climate import GroupClimate

PIECE_BYTES = (80, 400)
"""How much one answer brings where it brings little: a batch or two, part of a snapshot."""
STEPS_RATIO = 2
"""A world of groups takes more steps a second than one of a log, each of which may be the last."""
GROUPS_RATIO = 2
"""What is written must be read as well, and there may be two groups."""
CHANGING = 0.4
"""The share of climates in which voters come and go."""
LEASES = 0.3
"""The share of climates in which leaders have leases."""


LEASE_DRIFT_PPM = 47_000
"""How far clocks run from true at most where leases count on them: between two there is a tenth, and not more."""


def draw_group_climate(random: Random) -> Climate:
    """The climate of a seed."""
    climate = _draw(random)
    if random.random() < LEASES:
        climate = with_leases(climate, share=random.choice((0.5, 0.9)))
    return _with_changing_voters(climate, random) if random.random() < CHANGING else climate


def _with_changing_voters(climate: Climate, random: Random) -> Climate:
    """The same climate where voters come and go. No disk rots: those that are lost are enough."""
    assert climate.group is not None, climate
    voters = random.choice((3, 4, 5, 5))
    group = replace(
        climate.group,
        changing_voters=True,
        initial_voters=min(voters, random.choice((1, 2, 3, 3, 3, 4))),
        change_pause_ms=random.choice(((20, 500), (300, 3000), (300, 3000))),
        change_timeout_ms=random.choice((200, 1500)),
        handovers=random.choice((0.0, 0.1, 0.3)),
        wipes=random.choice((0.0, 0.1, 0.3)),
    )
    weather = tuple(kind for kind in climate.weather if kind is not DamageDisk)
    return replace(climate, voters=voters, weather=weather, group=group)


def with_leases(climate: Climate, *, share: float) -> Climate:
    """The same climate where a share of the questions is content with a lease, and no clock leaps."""
    assert climate.group is not None, climate
    return replace(
        climate,
        drift_ppm=min(climate.drift_ppm, LEASE_DRIFT_PPM),
        weather=tuple(kind for kind in climate.weather if kind is not JumpClock),
        group=replace(climate.group, lease_reads=share),
    )


def _draw(random: Random) -> Climate:
    climate = draw_common_climate(random)
    return replace(
        climate,
        fetch_max_bytes=random.choice(PIECE_BYTES) if climate.fetch_max_bytes == 1 else climate.fetch_max_bytes,
        crash_in_step=climate.crash_in_step / STEPS_RATIO,
        power_in_step=climate.power_in_step / STEPS_RATIO,
        rate=climate.rate * GROUPS_RATIO,
        group=GroupClimate(
            keys=random.choice((1, 2, 4)),
            counter=random.random() < 0.4,
            sessions=random.choice((0.0, 0.5, 1.0, 1.0)),
            session_ttl_ms=random.choice((2_000, 60_000)),
            ask_anyone=random.choice((0.0, 0.3, 0.8)),
            stale_reads=random.choice((0.0, 0.0, 0.3)),
            compactions=random.choice((0.05, 0.15)),
            read_ms=random.choice((0.0, 10.0, 100.0)),
            tick_interval_ms=random.choice((250, 500, 2000)),
            snapshot_max_interval_ms=random.choice((3_000, 20_000)),
            snapshot_max_record_bytes_between=random.choice((600, 1500, 4000)),
        ),
    )
