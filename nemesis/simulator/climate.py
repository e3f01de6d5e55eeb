"""How hostile one world is: every rate and every habit of its network, disks, clocks and clients.

Owns the climate as a value. How one is drawn from a seed, ``common_seeds`` says. Knows nothing of worlds.
"""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.faults.disks import PowerLoss
from nemesis.faults.fault import Fault
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.group_climate import GroupClimate
from nemesis.variants.worlds import WorldKind

QUICK_LANE_MS = (0.0, 3.0)
"""How long what waits for a disk takes in a lane that is not slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Climate:
    """The constants of one world. Rates are probabilities per message or per step, times milliseconds.

    ``spike`` is the share of messages that take up to ``spike_ms``. ``ordered`` keeps the messages of a link in their
    order, as one connection would. ``refuses`` tells a sender at once that nobody listens, instead of by silence. With
    ``refusals`` whoever watches a machine is refused there soon after its process has ended, and its core hears of that
    after ``refusal_ms``; ``false_refusals`` is how often a minute a process that lives seems to refuse. With
    ``slow_lanes`` above 0 whatever waits for a disk takes its time, for that share of the logs of each machine
    ``slow_lane_ms``; otherwise all of it but flushes is done at once. ``crash_in_step`` is how often a process dies
    between two effects, ``power_in_step`` how often the machine dies before some file operation of a step. ``ambush``
    is how often a new leader is struck right after its election. ``lying`` is how often a disk says that the log is
    flushed when it is not: no protocol survives that unharmed, so no seed draws it; what is judged then is whether a
    replica that knows better stops. ``drift_ppm`` bounds how far clocks run from true. ``weather`` are the faults that
    the schedule may do, with ``calm_ms`` between and ``fault_ms`` the length of each fault. ``rate`` is operations a
    second of all ``concurrency`` clients together, ``appends`` the share of appends among them; each of these has up to
    ``batch_records`` records. A supervisor starts a process that ended by itself after ``restart_ms``.
    ``fetch_max_bytes`` of 1 makes every fetch bring one batch. ``cluster`` and ``group`` are absent in a world of one
    quorum log; one may be there.
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
    weather: tuple[type[Fault], ...] = ()
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
        has_power_losses = self.power_in_step > 0 or PowerLoss in self.weather
        return self.cluster is not None and has_power_losses and not self.cluster.fsync


CALM = Climate()
"""A world in which nothing goes wrong but what a schedule does."""
