"""What happened rarely where the voters of logs change.

Owns the counting. Judges nothing. What is counted of changes is what was committed, as the judges' books have it.
"""

from __future__ import annotations

from collections.abc import Mapping

from nemesis.simulator.node import Node, Step
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import messages as m
from replica.core.quorum.roles import Leader
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.records import decode_voters
from replica.voters import ReplicaKey, VoterEntry, VoterSet

_COUNTED = frozenset[type]((fx.Append, fx.InstallSnapshot, fx.Reply))


class VoterCensus(Observer):
    """Counts ``Rare`` events of one world. It is told of a step after the judges that keep the books."""

    def __init__(self, record: Record, books: Mapping[TopicPartition, VoterBook]) -> None:
        self._rare = record.rare
        self._books = books
        self._ends: dict[tuple[ReplicaId, TopicPartition], Offset] = {}
        self._own_removals: set[tuple[TopicPartition, VoterEntry]] = set()
        self._restored: set[tuple[TopicPartition, ReplicaKey]] = set()
        self._newcomers: set[tuple[TopicPartition, ReplicaKey]] = set()
        """Who has led that was no voter at first."""

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        for effect in () if step.kinds.isdisjoint(_COUNTED) else step.effects:
            self._on_effect(node, effect)
        if node.core is None or not step.is_whole:
            return
        for log, book in self._books.items():
            if isinstance(node.core.logs[log].role, Leader) and not book.base.has(node.key):
                self._newcomers.add((log, node.key))

    def on_wiped(self, node: Node) -> None:
        """See ``Observer``."""
        had_vote = any(book.latest_committed.find(node.replica_id) is not None for book in self._books.values())
        self._rare[Rare.VOTER_DISK_WIPED if had_vote else Rare.OBSERVER_DISK_WIPED] += 1

    def _on_effect(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.Append(topic_partition=log, batches=batches) if log in self._books:
                for batch in batches:
                    self._on_voters(node, log, batch.base_offset, decode_voters(batch) if batch.is_control else None)
            case fx.InstallSnapshot(topic_partition=log):
                self._restored.add((log, node.key))
            case fx.Reply(call_id=call_id, response=m.ChangeVotersResponse() as response):
                self._on_answer(node.requests[call_id], response)
            case fx.Reply(response=m.VoteResponse(error=ErrorCode.INVALID_VOTER_KEY)):
                self._rare[Rare.OTHER_DISK_REFUSED_VOTE] += 1
            case fx.Reply(response=m.TransferLeadershipResponse(error=ErrorCode.NONE)):
                self._rare[Rare.LEADERSHIP_HANDED_OVER] += 1
            case _:
                pass

    def _on_voters(self, node: Node, log: TopicPartition, offset: Offset, voters: VoterSet | None) -> None:
        core = node.core
        leads = core is not None and isinstance(core.logs[log].role, Leader)
        if voters is not None and leads and not voters.has(node.key):
            self._own_removals.add((log, VoterEntry(offset=offset, voters=voters)))

    def _on_answer(self, request: m.Request, response: m.ChangeVotersResponse) -> None:
        match response:
            case m.ChangeVotersResponse(error=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
                self._rare[Rare.CHANGE_TOO_SOON] += 1
            case m.ChangeVotersResponse(error=ErrorCode.REQUEST_TIMED_OUT, not_appended=True):
                self._rare[Rare.NEWCOMER_TOO_SLOW] += isinstance(request, m.AddVoterRequest)
            case m.ChangeVotersResponse(error=error, not_appended=False) if error is not ErrorCode.NONE:
                self._rare[Rare.CHANGE_UNKNOWN] += 1
            case _:
                pass

    def finish(self) -> None:
        """Count what was committed, and who has voted then."""
        for log, book in self._books.items():
            before, voted = book.base, {voter.key for voter in book.base.voters}
            for entry in book.committed:
                self._on_committed(before, entry.voters, voted)
                voted |= {voter.key for voter in entry.voters.voters}
                self._rare[Rare.LEADER_REMOVED_ITSELF] += (log, entry) in self._own_removals
                before = entry.voters
            new = {key for key in voted if not book.base.has(key)}
            self._rare[Rare.SNAPSHOT_INSTALLED_BY_NEW_VOTER] += len(
                {key for name, key in self._restored if name == log} & new
            )
            self._rare[Rare.VOTERS_TAKEN_BACK] += book.taken_back
        self._rare[Rare.LED_BY_NEWCOMER] += len(self._newcomers)

    def _on_committed(self, before: VoterSet, now: VoterSet, voted: set[ReplicaKey]) -> None:
        added = [voter for voter in now.voters if before.find(voter.replica_id) is None]
        ids = {key.replica_id for key in voted}
        on_other_disks = [voter for voter in added if voter.replica_id in ids and voter.key not in voted]
        self._rare[Rare.VOTER_REPLACED] += len(on_other_disks)
        self._rare[Rare.VOTER_ADDED] += len(added)
        self._rare[Rare.VOTER_REMOVED] += len(before.voters) + len(added) - len(now.voters)
