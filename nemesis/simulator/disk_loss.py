"""Whoever takes brokers out of service and gives them other disks, at any time and in all weathers.

Owns the choice of the moment. A broker goes for a while, alone, or with all others at once; it comes back with an empty
disk, with one that it had before, or as it was, only far behind. Whoever is counted on loses its disk like anybody
else: the last in sync, who is eligible, who led last. What no cluster survives is left out, and for that the caller
looks at all disks, which no operator can: the only copy of what is committed, and the majority of those who vote.

Source: Kafka's operations guide, the replacement of a failed disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from nemesis.history import EventType
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.node import Node
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.record import Record
from nemesis.simulator.voter_administrator import voters_survive_without
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.world import World
from replica.ids import ReplicaId, TopicPartition

MINUTE_MS = 60_000
LOOK_MS = 100
SOON_MS, LATE_MS = (0, 500), (0, 15_000)
"""For how long a broker is away: just as long as it takes, or until the others have gone far ahead."""
PATIENCE_MS = 3_000
"""How long a broker is kept away at most until its disk can be done without."""
KEEPS_DISK = 0.3
"""How many come back as they were."""
ALL_AT_ONCE = 0.3
"""How often all others are killed with it, and come back soon, before it or after it."""
_KEY = -1
"""Under which brokers are held down; faults have numbers from 0."""


class DiskLoss:
    """Takes one broker after the other out of service, until it is stopped.

    ``partitions`` know where what is committed stands, ``books`` who votes in the metadata log.
    """

    def __init__(
        self,
        world: World,
        cluster: ClusterClimate,
        record: Record,
        dice: Random,
        *,
        partitions: PartitionInvariants,
        books: Mapping[TopicPartition, VoterBook],
    ) -> None:
        assert cluster.disk_losses > 0, cluster
        self._world = world
        self._pause_ms = int(MINUTE_MS / cluster.disk_losses)
        self._has_moves = cluster.reassignments > 0
        self._has_single_copies = cluster.replication_factor == 1
        self._record = record
        self._dice = dice
        self._partitions = partitions
        self._books = books
        self._away: set[ReplicaId] = set()
        self._is_stopped = False

    def start(self) -> None:
        """Take a broker out of service after a pause, and then the next."""
        self._after(self._dice.randint(1, 2 * self._pause_ms), self._take_out)

    def stop(self) -> None:
        """Bring back who is away; nobody is taken out any more."""
        self._is_stopped = True
        for replica_id in sorted(self._away):
            self._bring_back(replica_id)

    def _take_out(self) -> None:
        up = self._world.up()
        if self._is_stopped or self._away or not up:
            self.start()
            return
        node = self._dice.choice(up)
        is_alone = self._dice.random() >= ALL_AT_ONCE
        for other in [] if is_alone else [other for other in up if other is not node]:
            self._take(other)
            self._after(self._dice.randint(*SOON_MS), partial(self._bring_back, other.replica_id))
        self._take(node)
        away_ms = self._dice.choice((SOON_MS, LATE_MS)) if is_alone else SOON_MS
        keeps_disk = self._dice.random() < KEEPS_DISK
        self._after(self._dice.randint(*away_ms), lambda: self._replace(node, keeps_disk, PATIENCE_MS))

    def _take(self, node: Node) -> None:
        self._away.add(node.replica_id)
        self._world.hold_down(node.replica_id, _KEY)
        node.kill("taken-out")

    def _replace(self, node: Node, keeps_disk: bool, patience_ms: int) -> None:
        """Put in another disk once the last one can be done without; or let the broker begin as it was."""
        if self._is_stopped:
            return
        is_needed = not keeps_disk and not self._can_do_without(node.replica_id)
        if is_needed and patience_ms > 0:
            self._after(LOOK_MS, lambda: self._replace(node, keeps_disk, patience_ms - LOOK_MS))
            return
        if not keeps_disk and not is_needed and not node.is_retired:
            detail = {"replicas": [node.replica_id]}
            self._record.nemesis(EventType.INVOKE, "replace-disk", detail)
            self._world.replace_disk(node, self._dice)
            self._record.nemesis(EventType.INFO, "replace-disk", detail)
        self._bring_back(node.replica_id)
        self.start()

    def _can_do_without(self, replica_id: ReplicaId) -> bool:
        """Whether somebody else has what this disk holds, and keeps it.

        Where partitions move, one who does not know yet which disks are gone may take away the last good copy: so only
        one disk is gone unknown there, and the partition must have two.
        """
        if self._has_moves and (self._has_single_copies or not self._partitions.all_disks_are_known()):
            return False
        return self._partitions.survive_without(replica_id) and voters_survive_without(
            self._world, self._books, replica_id
        )

    def _bring_back(self, replica_id: ReplicaId) -> None:
        if replica_id in self._away:
            self._away.discard(replica_id)
            self._world.release(replica_id, _KEY)

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        if not self._is_stopped:
            self._world.queue.after(delay_ms * US_PER_MS, action)
