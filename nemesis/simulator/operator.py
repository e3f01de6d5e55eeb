"""The operator who is asked in the end: a partition waits, and no replica is known to hold all that is committed.

Owns his choice: once all replicas of the partition are there, the one whose log ends in the highest epoch, and of those
the longest. Nobody holds more: a leader begins its epoch with all that is committed, and each log of that epoch begins
as the leader's does. One that ends before another begins is out of the question: what was deleted had been committed,
and an empty log, which ends in no epoch, may be the one that begins last. He looks into the logs himself, as ``replica
topic describe`` does for a live one. So he does where only those may lead whose disk was replaced: they are there, and
have no log. Those that have one and cannot read it he starts again first: it may have been the disk, for a moment.

Source: KIP-966, unclean recovery.
"""

from __future__ import annotations

from functools import partial
from random import Random

from nemesis.history import EventType
from nemesis.simulator.asking import Caller
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.record import Record
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.core.log.log_state import LogState
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition

LOOK_MS = 500


class Operator:
    """Looks for partitions that wait, for as long as the world lasts, and lets somebody lead them."""

    def __init__(self, world: World, partitions: PartitionInvariants, record: Record, dice: Random) -> None:
        self._world = world
        self._partitions = partitions
        self._record = record
        self._caller = Caller(world, dice)
        self._restarted: set[tuple[TopicPartition, ReplicaId]] = set()

    def start(self) -> None:
        """Choose for the first partition that waits, and look again."""
        for name, registration in self._partitions.image.partitions():
            replicas = [replica for replica in registration.replicas if self._is_there(name, replica)]
            lost = {replica for replica in registration.replicas if self._has_lost(name, replica)}
            waits = registration.leader_id is None and registration.may_lead <= lost
            if not waits or len(replicas) + len(lost) < len(registration.replicas):
                continue
            unread = sorted(replica for replica in lost if (name, replica) not in self._restarted)
            if unread:
                self._restart(name, unread[0])
                return
            if replicas:
                start = max(self._log(name, replica).log_start_offset for replica in replicas)
                whole = [replica for replica in replicas if self._log(name, replica).log_end_offset >= start]
                self._elect(name, max(whole, key=partial(self._end, name)))
                return
        self._later()

    def _restart(self, name: TopicPartition, replica_id: ReplicaId) -> None:
        """Let a new process read the log, once."""
        self._restarted.add((name, replica_id))
        detail = {"log": f"{name}", "replicas": [replica_id]}
        self._record.nemesis(EventType.INVOKE, "restart", detail)
        self._world.nodes[replica_id].kill("restarted")
        self._record.nemesis(EventType.INFO, "restart", detail)
        self._later()

    def _elect(self, name: TopicPartition, leader_id: ReplicaId) -> None:
        detail = {"log": f"{name}", "replicas": [leader_id]}
        self._record.nemesis(EventType.INVOKE, "elect-unclean", detail)

        def on_reply(response: m.Response | None) -> None:
            assert isinstance(response, m.ElectLeaderResponse | None), response
            error = None if response is None else response.error
            self._record.nemesis(EventType.INFO, "elect-unclean", detail, error=error)
            self._caller.follow(None if response is None else response.current_leader)
            self._later()

        def on_silence() -> None:
            self._caller.turn()
            self._later()

        request = m.ElectLeaderRequest(topic_partition=name, election_type=m.ElectionType.UNCLEAN, leader_id=leader_id)
        self._caller.ask(request, on_reply, on_silence, only_in_time=True)

    def _is_there(self, name: TopicPartition, replica_id: ReplicaId) -> bool:
        core = self._world.nodes[replica_id].core
        broker = self._partitions.image.brokers.get(replica_id)
        is_active = broker is not None and broker.is_active
        return is_active and core is not None and core.broker is not None and name in core.broker.partitions

    def _has_lost(self, name: TopicPartition, replica_id: ReplicaId) -> bool:
        core = self._world.nodes[replica_id].core
        return core is not None and core.broker is not None and name in core.broker.offline

    def _log(self, name: TopicPartition, replica_id: ReplicaId) -> LogState:
        core = self._world.nodes[replica_id].core
        assert core is not None, replica_id
        assert core.broker is not None, replica_id
        return core.broker.partitions[name].log

    def _end(self, name: TopicPartition, replica_id: ReplicaId) -> tuple[Epoch, Offset]:
        """The epoch of a log's last record, and where the log ends."""
        log = self._log(name, replica_id)
        epoch = log.epochs.epoch_for_offset(Offset(log.log_end_offset - 1))
        return Epoch(-1) if epoch is None else epoch, log.log_end_offset

    def _later(self) -> None:
        self._world.queue.after(LOOK_MS * US_PER_MS, self.start)
