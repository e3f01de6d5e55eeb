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

from nemesis.simulator.climate import Climate, draw_climate
from nemesis.simulator.group_climate import GroupClimate

PIECE_BYTES = (80, 400)
"""How much one answer brings where it brings little: a batch or two, part of a snapshot."""
STEPS_RATIO = 2
"""A world of groups takes more steps a second than one of a log, each of which may be the last."""
GROUPS_RATIO = 2
"""What is written must be read as well, and there may be two groups."""


def draw_group_climate(random: Random) -> Climate:
    """The climate of a seed."""
    climate = draw_climate(random)
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
