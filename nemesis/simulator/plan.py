"""The schedule of a seed: what befalls a simulated cluster and when, in the same form as for live runs.

Owns the drawing of a schedule from a climate; how each fault is drawn, ``faults`` says. Whom a step hits is decided
when it strikes, by the word in the schedule and the step's own dice. Damage is bounded here: never more machines than
a cluster can lose.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from nemesis.faults.damage import DamageDisk
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step
from nemesis.simulator.climate import Climate
from nemesis.simulator.faults import drawn

FIRST_FAULT_MS = 1500


def draw_schedule(climate: Climate, random: Random, *, time_limit_s: float) -> Schedule:
    """Faults of the climate's weather with calm between them, sometimes several at once."""
    steps = sorted(_steps(climate, random, int(time_limit_s * 1000)), key=lambda step: step.at_s)
    return Schedule(name="simulated", time_limit_s=time_limit_s, steps=tuple(steps))


def _steps(climate: Climate, random: Random, end_ms: int) -> Iterator[Step]:
    at_ms, fault_id = FIRST_FAULT_MS, 0
    damages_left = damages_max(climate)
    while climate.weather and at_ms < end_ms:
        kind = random.choice(climate.weather)
        if kind is DamageDisk and at_ms < end_ms // 2:
            kind = random.choice(climate.weather)  # There is little to damage yet.
        until_ms = min(at_ms + random.randint(*climate.fault_ms), end_ms)
        if kind is not DamageDisk or damages_left:
            damages_left -= kind is DamageDisk
            fault = drawn(kind, climate, random)
            draw = random.getrandbits(32)
            yield Step(at_s=at_ms / 1000, action=Inject(fault_id=fault_id, fault=fault, draw=draw))
            yield Step(at_s=until_ms / 1000, action=Heal(fault_id=fault_id))
            fault_id += 1
        if random.random() >= climate.overlap:
            at_ms = until_ms
        at_ms += random.randint(*climate.calm_ms)


def damages_max(climate: Climate) -> int:
    """How many machines may lose what they had: less than half of a quorum, and no more than writes can do without."""
    minority = (climate.voters - 1) // 2
    if climate.cluster is None:
        return minority
    return min(minority, climate.cluster.replication_factor - climate.cluster.min_insync_replicas)
