"""How hostile one world is: every rate and every habit of its network, disks, clocks and clients.

Owns the climate as a value, and the drawing of one from a seed. Each seed is another climate (swarm testing): a fault
that is possible everywhere hides those that need its absence, so most climates leave most faults out, and make those
that they have frequent. Knows nothing of worlds.

Source: Groce et al., "Swarm Testing" (ISSTA 2012); TigerBeetle's VOPR.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.group_climate import GroupClimate
from nemesis.variants.worlds import WorldKind

CLIMATE_VOTERS = (3, 3, 3, 3, 3, 3, 5, 5, 4, 2, 1)
"""Cluster sizes in the proportion in which seeds have them."""


class Weather(StrEnum):
    """The kinds of trouble that a climate has or has not."""

    PARTITION = "partition"
    KILL = "kill"
    PAUSE = "pause"
    POWER = "power"
    STOP = "stop"
    CLOG = "clog"
    CLOCK = "clock"
    CLOCK_STOP = "clock-stop"
    SPACE = "space"
    SLOW_DISK = "slow-disk"
    IO_ERROR = "io-error"
    DAMAGE = "damage"
    STALE_METADATA = "stale-metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Climate:
    """The constants of one world. Rates are probabilities per message or per step, times milliseconds.

    ``spike`` is the share of messages that take up to ``spike_ms``. ``ordered`` keeps the messages of a link in their
    order, as one connection would. ``refuses`` tells a sender at once that nobody listens, instead of by silence. With
    ``refusals`` whoever watches a machine is refused there soon after its process has ended, and its core hears of that
    after ``refusal_ms``; ``false_refusals`` is how often a minute a process that lives seems to refuse.
    With ``slow_lanes`` above 0 whatever waits for a disk takes its time, for that share of the logs of each machine
    ``slow_lane_ms``; otherwise all of it but flushes is done at once. ``crash_in_step`` is how often a process dies
    between two effects, ``power_in_step`` how often the machine dies before some file operation of a step. ``ambush``
    is how often a new leader is struck right after its election.
    ``lying`` is how often a disk says that the log is flushed when it is not: no protocol survives that unharmed, so no
    seed draws it; what is judged then is whether a replica that knows better stops. ``drift_ppm`` bounds how far clocks
    run from true. ``weather`` is what the schedule may do, with ``calm_ms`` between and ``fault_ms`` the length of
    each fault. ``rate`` is operations a second of all ``concurrency`` clients together, ``appends`` the share of
    appends among them; each of these has up to ``batch_records`` records. A supervisor starts a process that ended
    by itself after ``restart_ms``. ``fetch_max_bytes`` of 1 makes every fetch bring one batch. ``cluster`` and
    ``group`` are absent in a world of one quorum log; one may be there.
    """

    voters: int = 3
    latency_ms: tuple[float, float] = (0.3, 2.0)
    spike: float = 0.0
    spike_ms: float = 50.0
    loss: float = 0.0
    duplication: float = 0.0
    ordered: bool = False
    refuses: bool = True
    refusals: bool = False
    refusal_ms: tuple[float, float] = (1.0, 30.0)
    false_refusals: float = 0.0
    flush_ms: tuple[float, float] = (0.5, 4.0)
    slow_lanes: float = 0.0
    slow_lane_ms: tuple[float, float] = (20.0, 200.0)
    crash_in_step: float = 0.0
    power_in_step: float = 0.0
    ambush: float = 0.0
    lying: float = 0.0
    drift_ppm: int = 0
    weather: tuple[Weather, ...] = ()
    calm_ms: tuple[int, int] = (500, 5000)
    fault_ms: tuple[int, int] = (200, 6000)
    overlap: float = 0.2
    concurrency: int = 4
    rate: float = 5.0
    appends: float = 0.6
    batch_records: int = 1
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    restart_ms: tuple[int, int] = (200, 3000)
    cluster: ClusterClimate | None = None
    group: GroupClimate | None = None

    @property
    def world(self) -> WorldKind:
        """What kind of world it is the climate of."""
        if self.group is not None:
            return WorldKind.GROUP
        return WorldKind.QUORUM if self.cluster is None else WorldKind.CLUSTER

    @property
    def may_forget(self) -> bool:
        """Whether the power can take what was acknowledged: then not everything can be read in the end."""
        has_power_losses = self.power_in_step > 0 or Weather.POWER in self.weather
        return self.cluster is not None and has_power_losses and not self.cluster.fsync


CALM = Climate()
"""A world in which nothing goes wrong but what a schedule does."""


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
QUICK_LANE_MS = (0.0, 3.0)
"""How long what waits for a disk takes there in a lane that is not slow."""


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
        weather=tuple(kind for kind, share in _SHARES.items() if random.random() < share),
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
    weather = tuple(dict.fromkeys((*climate.weather, Weather.POWER, Weather.PARTITION)))
    return replace(climate, lying=0.5, weather=weather)


_SHARES = {
    Weather.PARTITION: 0.6,
    Weather.KILL: 0.4,
    Weather.PAUSE: 0.4,
    Weather.POWER: 0.5,
    Weather.STOP: 0.25,
    Weather.CLOG: 0.3,
    Weather.CLOCK: 0.25,
    Weather.SPACE: 0.15,
    Weather.SLOW_DISK: 0.25,
    Weather.IO_ERROR: 0.15,
    Weather.DAMAGE: 0.12,
}
"""How often a climate has each kind of trouble that there is in any world."""


def _sometimes(random: Random, share: float, most: float) -> float:
    """Zero, or in ``share`` of all climates up to ``most``."""
    return random.uniform(0, most) if random.random() < share else 0.0
