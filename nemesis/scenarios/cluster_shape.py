"""What one cluster of a story is like: how many brokers, which replicas, and what is switched on.

Owns the words of the ``cluster`` command as a value, and the climate that follows from it. Knows nothing of worlds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nemesis.scenarios.stage import CALM
from nemesis.simulator.climate import Climate
from nemesis.simulator.cluster_climate import ClusterClimate
from replica.core.rules import Rules

NEVER_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """What is special about one cluster; ``replicas`` is the assignment of its partition, preferred leader first.

    ``lag_ms`` is ``replica.lag.time.max.ms``. ``fsync`` is off where records reach the disk when the system pleases.
    """

    brokers: int
    replicas: tuple[int, ...]
    min_isr: int = 1
    lag_ms: int = 30_000
    elr: bool = True
    fsync: bool = True
    seed: int = 1
    rules: Callable[[], Rules] = Rules

    @property
    def cluster(self) -> ClusterClimate:
        """The brokers, the controller and the topic; otherwise as the simulator has them."""
        return ClusterClimate(
            min_insync_replicas=self.min_isr,
            elr_enable=self.elr,
            fsync=self.fsync,
            replica_lag_time_max_ms=self.lag_ms,
            leader_imbalance_check_interval_seconds=NEVER_S,
        )

    @property
    def climate(self) -> Climate:
        """The whole world: the brokers, and one machine more for the controller."""
        return replace(CALM, voters=self.brokers + 1, cluster=self.cluster)
