"""The climate of a world of one quorum log, and what any kind of world has of it, drawn from a seed.

Owns the proportions. Each seed is another climate (swarm testing): a fault that is possible everywhere hides those that
need its absence, so most climates leave most faults out, and make those that they have frequent. How many have a fault
is part of what ``faults`` says of it.

Source: Groce et al., "Swarm Testing" (ISSTA 2012); TigerBeetle's VOPR.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from random import Random

from nemesis.faults.disks import PowerLoss
from nemesis.faults.partitions import Partition
from nemesis.simulator.climate import Climate
from nemesis.simulator.faults import drawn_anywhere

CLIMATE_VOTERS = (3, 3, 3, 3, 3, 3, 5, 5, 4, 2, 1)
"""Cluster sizes in the proportion in which seeds have them."""


class Mood(StrEnum):
    """What a climate is like as a whole: faults now and then, one upon the other, or only blows at new leaders."""

    CHANGEABLE = "changeable"
    HECTIC = "hectic"
    AMBUSH = "ambush"


BATCHES_SHARE = 0.3
"""How many climates have appends of several records."""
BATCH_RECORDS = 4
SLOW_LANES_SHARE = 0.2
"""How many climates have disks that take their time."""
REFUSALS_SHARE = 0.3
"""How many climates have evidence of the end of processes."""


def draw_climate(random: Random) -> Climate:
    """The climate of a seed, of a world of one quorum log."""
    return with_batches(draw_common_climate(random), Random(random.getrandbits(64)))


def with_batches(climate: Climate, dice: Random) -> Climate:
    """The same climate, perhaps with appends of several records. It has dice of its own: what it draws, it adds."""
    return replace(climate, batch_records=BATCH_RECORDS) if dice.random() < BATCHES_SHARE else climate


def with_slow_lanes(climate: Climate, dice: Random) -> Climate:
    """The same climate where disks take their time, some of them for some logs only."""
    return replace(
        climate,
        slow_lanes=dice.choice((0.2, 0.5, 0.9)),
        slow_lane_ms=dice.choice(((5.0, 60.0), (20.0, 200.0), (200.0, 1500.0))),
    )


def with_refusals(climate: Climate, dice: Random) -> Climate:
    """The same climate where machines have evidence of the end of each other's processes: soon, late, and wrong."""
    return replace(
        climate,
        refusals=True,
        refusal_ms=dice.choice(((1.0, 30.0), (1.0, 30.0), (20.0, 600.0), (200.0, 5000.0))),
        false_refusals=dice.choice((0.0, 6.0, 40.0)),
    )


def draw_common_climate(random: Random) -> Climate:
    """What there is in any kind of world: network, disks, clocks, clients and weather."""
    mood = random.choices(tuple(Mood), weights=(50, 30, 20))[0]
    climate = _draw(random, is_hectic=mood is not Mood.CHANGEABLE)
    if mood is not Mood.AMBUSH:
        return climate
    return replace(
        climate,
        voters=random.choice((3, 3, 3, 5)),
        spike=0.0,
        loss=0.0,
        duplication=0.0,
        crash_in_step=0.0,
        power_in_step=0.0,
        ambush=random.choice((0.5, 0.9, 1.0)),
        weather=(),
        fetch_max_bytes=random.choice((1, 1, 1 << 20)),
    )


def _draw(random: Random, *, is_hectic: bool) -> Climate:
    fast = is_hectic or random.random() < 0.3
    climate = Climate(
        voters=random.choice(CLIMATE_VOTERS),
        latency_ms=random.choice(((0.3, 2.0), (1.0, 10.0), (5.0, 40.0))),
        spike=_sometimes(random, 0.4, 0.03),
        spike_ms=random.choice((50.0, 400.0, 3000.0)),
        loss=_sometimes(random, 0.4, 0.06),
        duplication=_sometimes(random, 0.4, 0.06),
        ordered=random.random() < 0.3,
        refuses=random.random() < 0.5,
        flush_ms=random.choice(((0.5, 4.0), (1.0, 40.0), (20.0, 300.0))),
        crash_in_step=_sometimes(random, 0.4, 0.02 if is_hectic else 0.004),
        power_in_step=_sometimes(random, 0.4, 0.02 if is_hectic else 0.004),
        ambush=_sometimes(random, 0.3, 0.9) if is_hectic else 0.0,
        drift_ppm=random.choice((0, 100, 10_000, 100_000)),
        weather=tuple(fault for fault, dice in drawn_anywhere() if random.random() < dice.share),
        calm_ms=(20, 600) if is_hectic else random.choice(((100, 1500), (500, 5000), (3000, 12_000))),
        fault_ms=(50, 1200) if is_hectic else random.choice(((50, 1500), (200, 6000), (2500, 12_000))),
        overlap=random.choice((0.0, 0.2, 0.6)),
        concurrency=random.choice((1, 3, 6)),
        rate=random.choice((2.0, 5.0, 9.0) if is_hectic else (1.0, 2.0, 5.0)),
        appends=random.choice((0.4, 0.6, 0.9)),
        election_timeout_ms=300 if fast else 1000,
        fetch_timeout_ms=600 if fast else 2000,
        fetch_max_wait_ms=500 if fast else random.choice((500, 1500)),
        fetch_max_bytes=1 if random.random() < 0.3 else 1 << 20,
        restart_ms=random.choice(((5, 100), (200, 3000))),
    )
    random.random()  # A choice that there was once: without it every seed that is written down would be another world.
    return climate


def with_lying_disks(climate: Climate) -> Climate:
    """The same climate where disks break their word, and lose their power often enough to be found out."""
    weather = tuple(dict.fromkeys((*climate.weather, PowerLoss, Partition)))
    return replace(climate, lying=0.5, weather=weather)


def _sometimes(random: Random, share: float, most: float) -> float:
    """Zero, or in ``share`` of all climates up to ``most``."""
    return random.uniform(0, most) if random.random() < share else 0.0
