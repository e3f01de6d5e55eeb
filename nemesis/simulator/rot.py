"""Cold batches of partitions that rot under a running broker, and somebody who reads them there.

Owns the choice of the moment and of the log: one that others do not depend on, since one that is in sync, and intact,
has all that is committed. That looks at all disks, which no rot does; but where the only copy rots, a cluster is right
to wait for ever. Who comes upon it first is open: a client, a follower, the replica itself, or the next start.
"""

from __future__ import annotations

from random import Random

from nemesis.history import EventType
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.record import Record
from nemesis.simulator.world import World
from replica.core.messages import FetchPartition, FetchRequest
from replica.ids import Offset, ReplicaId, TopicPartition

MINUTE_MS = 60_000
WAYS = ("flip", "zero", "misdirect")
READ_MS = (0, 3_000)
"""How long after that a client reads it."""
AGAIN_MS = 1_000
"""How often it reads again what is still rotten."""

Place = tuple[ReplicaId, TopicPartition]


class Rot:
    """Spoils one log after the other, until it is stopped; ``partitions`` know where what is committed stands."""

    def __init__(
        self, world: World, cluster: ClusterClimate, record: Record, dice: Random, *, partitions: PartitionInvariants
    ) -> None:
        assert cluster.rot > 0, cluster
        self._world = world
        self._pause_ms = int(MINUTE_MS / cluster.rot)
        self._record = record
        self._dice = dice
        self._partitions = partitions
        self._rotten: dict[Place, Offset] = {}
        """Where a segment begins that was spoiled last."""
        self._is_stopped = False

    def start(self) -> None:
        """Spoil a log after a pause, and then the next."""
        self._world.queue.after(self._dice.randint(1, 2 * self._pause_ms) * US_PER_MS, self._spoil)

    def stop(self) -> None:
        """No more rots; what has, is read."""
        self._is_stopped = True

    def _spoil(self) -> None:
        if self._is_stopped:
            return
        places = [
            (node.replica_id, log)
            for node in self._world.up()
            for log in self._world.used_logs
            if log in node.stores and self._partitions.can_do_without(node.replica_id, log)
        ]
        if places:
            self._spoil_one(self._dice.choice(places))
        self.start()

    def _spoil_one(self, place: Place) -> None:
        replica_id, log = place
        node = self._world.nodes[replica_id]
        how = self._dice.choice(WAYS)
        offset = node.disk.rot(how, log, node.recovery_points[log], self._dice)
        if offset is None:
            return
        self._record.nemesis(EventType.INFO, "rot", {"replicas": [replica_id], "log": f"{log}", "how": how})
        if place not in self._rotten:
            self._world.queue.after(self._dice.randint(*READ_MS) * US_PER_MS, lambda: self._read(place))
        self._rotten[place] = offset

    def _read(self, place: Place) -> None:
        """Read there as a client, again and again until the log is another one."""
        replica_id, log = place
        node = self._world.nodes[replica_id]
        if log not in node.disk.rotten:
            del self._rotten[place]
            return
        part = FetchPartition(topic_partition=log, fetch_offset=self._rotten[place])
        self._world.ask(replica_id, FetchRequest(partitions=(part,)), lambda _: None)
        self._world.queue.after(AGAIN_MS * US_PER_MS, lambda: self._read(place))
