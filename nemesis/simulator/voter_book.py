"""Who votes in a quorum log by what stands in it: kept by the judges, beside what replicas believe.

Owns the sets of voters that records have named, replica by replica and committed, and what their order must be. Of a
log that begins at a snapshot, what is committed says who voted before. Knows nothing of roles and messages.

Source: KIP-853; Ongaro's thesis, section 4.1: of two sets that follow one another each majority meets the other's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping

from nemesis.simulator.node import Node
from nemesis.simulator.violations import BrokenInvariantError
from replica.core.quorum import QuorumLog
from replica.core.quorum.snapshot_header import split_snapshot
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.records import RecordBatch, decode_voters
from replica.voters import VoterEntry, VoterSet


class VoterBook:
    """The voters of one log. ``base`` are those before any record has named some."""

    def __init__(self, base: VoterSet, replica_ids: Iterable[ReplicaId]) -> None:
        self.base = base
        self.committed: list[VoterEntry] = []
        """What committed records have named, in order."""
        self.taken_back = 0
        """How often a truncation has dropped a record that named voters."""
        self.on_its_way: Callable[[VoterSet], VoterSet] | None = None
        """What a change that was asked for makes of a set, while it is not known what has come of it."""
        self._own: dict[ReplicaId, list[VoterEntry]] = {replica_id: [] for replica_id in replica_ids}
        """What the records in a replica's log have named, and those that its snapshot stands for."""

    def append(self, replica_id: ReplicaId, batch: RecordBatch) -> None:
        """Take a batch into a replica's log."""
        voters = decode_voters(batch) if batch.is_control else None
        if voters is not None:
            self._own[replica_id].append(VoterEntry(offset=batch.base_offset, voters=voters))

    def truncate(self, replica_id: ReplicaId, end_offset: Offset) -> None:
        """Drop what stands at and above ``end_offset``."""
        own = self._own[replica_id]
        self._own[replica_id] = kept = [entry for entry in own if entry.offset < end_offset]
        self.taken_back += len(kept) < len(own)

    def begin_after(self, replica_id: ReplicaId, end_offset: Offset) -> None:
        """Let the log begin anew: it stands for what is committed below."""
        self._own[replica_id] = self.committed[: self._count_below(end_offset)]

    def exchange(self, replica_id: ReplicaId, own: list[VoterEntry]) -> list[VoterEntry]:
        """Take what the log on another disk has named; give back what that on the last one had."""
        self._own[replica_id], former = own, self._own[replica_id]
        return former

    def commit(self, batch: RecordBatch) -> None:
        """Take the next committed batch. Convicts a set that differs from the one before by more than one voter."""
        voters = decode_voters(batch) if batch.is_control else None
        if voters is None:
            return
        before = {voter.key for voter in self.committed_at(batch.base_offset).voters}
        now = {voter.key for voter in voters.voters}
        if len(before ^ now) > 1:
            raise BrokenInvariantError(
                "one-voter-at-a-time",
                f"the voters are {sorted(now)} from offset {batch.base_offset} on, and were {sorted(before)}",
            )
        self.committed.append(VoterEntry(offset=batch.base_offset, voters=voters))

    # --- questions --------------------------------------------------------------------------------------------------

    def latest_of(self, replica_id: ReplicaId) -> VoterEntry | None:
        """What the last record in a replica's log has named, committed or not; None where none has named any."""
        own = self._own[replica_id]
        return own[-1] if own else None

    def in_force(self, replica_id: ReplicaId) -> VoterSet:
        """Who votes by a replica's log, committed or not."""
        own = self._own[replica_id]
        return own[-1].voters if own else self.base

    def before_last(self, replica_id: ReplicaId) -> VoterSet:
        """Who voted by a replica's log before the last record that named voters."""
        own = self._own[replica_id]
        return own[-2].voters if len(own) > 1 else self.base

    def entry_at(self, end_offset: Offset) -> VoterEntry | None:
        """What the last committed record below ``end_offset`` has named; None where there is none."""
        count = self._count_below(end_offset)
        return self.committed[count - 1] if count else None

    def committed_at(self, end_offset: Offset) -> VoterSet:
        """Who votes by all that is committed below ``end_offset``."""
        entry = self.entry_at(end_offset)
        return self.base if entry is None else entry.voters

    @property
    def latest_committed(self) -> VoterSet:
        """Who votes by all that is committed."""
        return self.committed[-1].voters if self.committed else self.base

    def possible(self) -> set[VoterSet]:
        """Every set by which anybody goes, or will if uncommitted records are dropped, or a change arrives."""
        sets = {self.latest_committed, *(voters for own in self._own.values() for voters in self._possible_to(own))}
        return sets if self.on_its_way is None else sets | {self.on_its_way(voters) for voters in sets}

    def _possible_to(self, own: list[VoterEntry]) -> Iterator[VoterSet]:
        """The sets of a log from the last that is committed on."""
        for entry in reversed(own):
            yield entry.voters
            if self.entry_at(Offset(entry.offset + 1)) == entry:
                return
        yield self.base

    def _count_below(self, end_offset: Offset) -> int:
        return bisect_left(self.committed, end_offset, key=lambda entry: entry.offset)


def check_voters(node: Node, log: QuorumLog, book: VoterBook) -> None:
    """A replica knows the voters that its log has named last, or else those that its disk was formatted with.

    So all replicas agree on them wherever their logs are the same, and on what is committed for ever.
    """
    history, own = log.voter_history, book.latest_of(node.replica_id)
    if own is None and history.latest_offset is not None:
        detail = f"replica {node.replica_id} has voters of offset {history.latest_offset}, and its log names none"
        raise BrokenInvariantError("voters-of-the-log", detail)
    if own is not None and (own.offset, own.voters) != (history.latest_offset, history.latest):
        detail = (
            f"replica {node.replica_id} has the voters {history.latest.ids} of offset {history.latest_offset}, its log "
            f"{own.voters.ids} of offset {own.offset}"
        )
        raise BrokenInvariantError("voters-of-the-log", detail)


def check_snapshot_voters(
    replica_id: ReplicaId, books: Mapping[TopicPartition, VoterBook], log: TopicPartition, end: Offset, data: bytes
) -> bytes:
    """A snapshot names the voters of the committed log below its end: give back what else it has."""
    voters, content = split_snapshot(data)
    entry = books[log].entry_at(end)
    named = None if voters.base_offset is None else VoterEntry(offset=voters.base_offset, voters=voters.base)
    if named != entry:
        raise BrokenInvariantError(
            "snapshot-voters",
            f"replica {replica_id} keeps {named} with its snapshot of {log} at {end}, committed there is {entry}",
        )
    return content
