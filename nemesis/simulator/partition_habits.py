"""What a replica owes beyond safety, checked after every step: to go on as soon as it may, and to add who can follow.

Owns promises whose breach loses nothing and costs time: writes that are not acknowledged, records that are not shown,
replicas that leave for nothing. Nobody would notice afterwards, since everything is made good in the end; so they are
seen in what one replica believes, at once.

Source: KAFKA-769, KAFKA-7152, KAFKA-13091.

A leader that adds voters must see first that they have caught up: else nothing can be committed once another voter
fails, until the newcomer has the whole log. Source: Ongaro's thesis, section 4.2.1; KIP-853.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from nemesis.simulator.node import Node, Step
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core.partition import Partition
from replica.core.partition.roles import Leader, PendingShrink, Role
from replica.core.quorum.roles import Leader as ElectedLeader
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.records import decode_voters
from replica.voters import ReplicaKey, VoterSet

_STORED = frozenset[type](
    (fx.StoreHighWatermarks, fx.Truncate, fx.StartLogAt, fx.CreateLog, fx.DeleteLog, fx.ReplaceLog)
)
Place = tuple[ReplicaId, TopicPartition]


class PartitionHabits(Observer):
    """The habits of all replicas of all partitions of a world."""

    def __init__(self) -> None:
        self._stored: dict[Place, Offset] = {}
        """The high watermark that a replica has put on its disk last."""
        self._seen: dict[ReplicaId, dict[TopicPartition, tuple[Role, Offset]]] = {}
        """Role and flushed end of each replica when it was looked at last, since its process began."""

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        del torn_bytes
        self._seen[node.replica_id] = {}

    def on_disk_changed(self, node: Node) -> None:
        self._stored = {place: offset for place, offset in self._stored.items() if place[0] != node.replica_id}

    def on_step(self, node: Node, step: Step) -> None:
        if node.core is not None and node.core.broker is not None and step.is_whole:
            seen = self._seen[node.replica_id]
            for name, partition in node.core.broker.partitions.items():
                before, role, flushed_end = seen.get(name), partition.role, partition.log.flushed_end_offset
                if before is None or before[0] is not role or before[1] != flushed_end:
                    seen[name] = (role, flushed_end)
                    self._look((node.replica_id, name), partition, node, None if before is None else before[0])
        for effect in () if step.kinds.isdisjoint(_STORED) else step.effects:
            if isinstance(effect, fx.StoreHighWatermarks):
                self._stored |= {(node.replica_id, name): offset for name, offset in effect.offsets.items()}
            self._take_back(node.replica_id, effect)
        self._take_back(node.replica_id, step.interrupted)  # First of all the high watermark.

    def _take_back(self, replica_id: ReplicaId, effect: fx.Effect | None) -> None:
        """What was stored of records that go, says no more of those that come in their place."""
        match effect:
            case (
                fx.Truncate(topic_partition=name, end_offset=end)
                | fx.StartLogAt(topic_partition=name, start_offset=end)
            ):
                place = (replica_id, name)
                if place in self._stored:
                    self._stored[place] = min(end, self._stored[place])
            case (
                fx.CreateLog(topic_partition=name)
                | fx.DeleteLog(topic_partition=name)
                | fx.ReplaceLog(topic_partition=name)
            ):
                self._stored.pop((replica_id, name), None)
            case _:
                pass

    def _look(self, place: Place, partition: Partition, node: Node, before: Role | None) -> None:
        """Look at what has changed since the last time, when its role was ``before``; absent the first time."""
        role = partition.role
        if before is None and not node.disk.is_damaged:
            _check_beginning(place, partition, self._stored.get(place, Offset(0)))
        if isinstance(role, Leader):
            if not (isinstance(before, Leader) and isinstance(before.isr_state, PendingShrink)):
                _check_shrink(place, partition, role)
            _check_high_watermark(place, partition, role)


def _check_beginning(place: Place, partition: Partition, stored: Offset) -> None:
    """A replica begins with what it knew to be committed, as far as its log still reaches."""
    known = min(stored, partition.log.log_end_offset)
    if partition.high_watermark < known:
        raise BrokenInvariantError(
            "forgotten-high-watermark",
            f"replica {place[0]} begins with the high watermark {partition.high_watermark} of {place[1]}, and had "
            f"stored {stored}",
        )


def _check_shrink(place: Place, partition: Partition, role: Leader) -> None:
    """Nobody is to leave who has everything."""
    leaving = role.isr_state.leaving if isinstance(role.isr_state, PendingShrink) else frozenset()
    for replica_id in leaving:
        if role.remotes[replica_id].log_end_offset == partition.log.log_end_offset:
            raise BrokenInvariantError(
                "needless-shrink",
                f"replica {place[0]} wants {replica_id} out of the ISR of {place[1]}, which has everything up to "
                f"{partition.log.log_end_offset}",
            )


def _check_high_watermark(place: Place, partition: Partition, role: Leader) -> None:
    """What all have that may count is committed at once."""
    if len(role.isr_state.isr) < partition.effective_min_isr:
        return
    ends = list(_ends(partition, role))
    reached = None if None in ends else min(end for end in ends if end is not None)
    if reached is not None and reached > partition.high_watermark:
        raise BrokenInvariantError(
            "late-high-watermark",
            f"replica {place[0]} leads {place[1]} with the high watermark {partition.high_watermark}, and all that "
            f"count have everything up to {reached}",
        )


def _ends(partition: Partition, role: Leader) -> Iterator[Offset | None]:
    """The ends of all that are in sync, or might be about to join."""
    yield partition.log.flushed_end_offset
    for replica_id, remote in role.remotes.items():
        broker = partition.brokers.get(replica_id)
        if replica_id in role.isr_state.maximal_isr or (broker is not None and broker.is_active):
            yield remote.log_end_offset


class VoterHabits(Observer):
    """Watches who is added. It is told of a step after the judges that keep the books."""

    def __init__(self, books: Mapping[TopicPartition, VoterBook]) -> None:
        self._books = books
        self._flushed: defaultdict[tuple[TopicPartition, ReplicaKey], Offset] = defaultdict(lambda: Offset(0))
        """How far a log has ever been on a disk."""

    def on_step(self, node: Node, step: Step) -> None:
        for log in self._books:
            end_offset = node.flushed_end.get(log, Offset(0))
            self._flushed[log, node.key] = max(self._flushed[log, node.key], end_offset)
        for effect in step.effects if fx.Append in step.kinds else ():
            if isinstance(effect, fx.Append):
                for voters in filter(None, map(decode_voters, effect.batches)):
                    self._on_voters(node, effect.topic_partition, voters)

    def _on_voters(self, node: Node, log: TopicPartition, voters: VoterSet) -> None:
        role = None if node.core is None else node.core.logs[log].role
        if not isinstance(role, ElectedLeader):
            return
        before = self._books[log].before_last(node.replica_id)
        for voter in voters.voters:
            if not before.has(voter.key) and self._flushed[log, voter.key] <= role.epoch_start_offset:
                detail = (
                    f"replica {node.replica_id} adds {voter.replica_id}, which has flushed up to "
                    f"{self._flushed[log, voter.key]}; its epoch begins at {role.epoch_start_offset}"
                )
                raise BrokenInvariantError("newcomer-has-caught-up", detail)
