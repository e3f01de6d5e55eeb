"""Whoever takes brokers out of service and gives them empty disks: those that have no vote in the metadata log.

Owns the choice of the moment. A broker is first away for a while, for as long as the cluster would still miss what its
disk holds; once the committed metadata say that it is fenced, in no ISR and eligible for nothing, nobody will count on
that disk again. Some come back with it all the same, far behind. A disk that somebody may still have to be elected by
is never lost: that no cluster survives, and how voters lose theirs is another matter (``voter_administrator``).

Source: Kafka's operations guide, the replacement of a failed disk.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from nemesis.history import EventType
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.node import Node
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.record import Record
from nemesis.simulator.recovery import latest_image
from nemesis.simulator.world import World
from replica.core.metadata.image import MetadataImage
from replica.ids import ReplicaId

MINUTE_MS = 60_000
LOOK_MS = 100
AWAY_MS = (0, 15_000)
"""For how long a broker is away beside what it takes to be missed no more."""
PATIENCE_MS = 15_000
"""How long a broker is kept away at most for that."""
KEEPS_DISK = 0.3
"""How many come back as they were, only far behind."""
_KEY = -1
"""Under which brokers are held down; faults have numbers from 0."""


class DiskLoss:
    """Takes one broker after the other out of service, until it is stopped, each for a time drawn from ``away_ms``.

    ``decided`` tells what the controller has committed. What a machine that happens to be up knows of that may be old,
    or nothing: a partition can have moved to a broker since.
    """

    def __init__(
        self,
        world: World,
        cluster: ClusterClimate,
        record: Record,
        dice: Random,
        *,
        away_ms: tuple[int, int] = AWAY_MS,
        decided: Callable[[], MetadataImage] | None = None,
    ) -> None:
        assert cluster.disk_losses > 0, cluster
        self._world = world
        self._pause_ms = int(MINUTE_MS / cluster.disk_losses)
        self._record = record
        self._dice = dice
        self._away_ms = away_ms
        self._decided = decided or (lambda: latest_image(world))
        self._away: ReplicaId | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Take a broker out of service after a pause, and then the next."""
        self._after(self._dice.randint(1, 2 * self._pause_ms), self._take_out)

    def stop(self) -> None:
        """Bring back who is away; nobody is taken out any more."""
        self._is_stopped = True
        self._bring_back()

    def _take_out(self) -> None:
        others = set(self._world.nodes) - set(self._world.voters)
        nodes = [self._world.nodes[other] for other in sorted(others) if self._world.nodes[other].is_up]
        if self._is_stopped or not nodes:
            self.start()
            return
        node = self._dice.choice(nodes)
        self._away = node.replica_id
        self._world.hold_down(node.replica_id, _KEY)
        node.kill("taken-out")
        keeps_disk = self._dice.random() < KEEPS_DISK
        self._after(self._dice.randint(*self._away_ms), lambda: self._replace(node, keeps_disk, PATIENCE_MS))

    def _replace(self, node: Node, keeps_disk: bool, patience_ms: int) -> None:
        """Put in an empty disk once nobody misses the old one, and let the broker begin; or let it begin as it was."""
        if self._is_stopped:
            return
        is_missed = not keeps_disk and is_counted_on(self._decided(), node.replica_id)
        if is_missed and patience_ms > 0:
            self._after(LOOK_MS, lambda: self._replace(node, keeps_disk, patience_ms - LOOK_MS))
            return
        if not keeps_disk and not is_missed and not node.is_retired:
            detail = {"replicas": [node.replica_id]}
            self._record.nemesis(EventType.INVOKE, "wipe-disk", detail)
            self._world.wipe(node)
            self._record.nemesis(EventType.INFO, "wipe-disk", detail)
        self._bring_back()
        self.start()

    def _bring_back(self) -> None:
        away, self._away = self._away, None
        if away is not None:
            self._world.release(away, _KEY)

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        if not self._is_stopped:
            self._world.queue.after(delay_ms * US_PER_MS, action)


def is_counted_on(image: MetadataImage, broker_id: ReplicaId) -> bool:
    """Whether a broker may join an ISR, or may be elected for what its disk holds."""
    broker = image.brokers.get(broker_id)
    if broker is not None and not broker.fenced:
        return True
    return any(
        broker_id in (*registration.isr, *registration.elr, registration.leader_id, registration.last_known_leader)
        for _, registration in image.partitions()
    )
