"""What the judges know of one partition: the log of every replica, and what of it is committed.

Owns the record only; what must hold of it ``partition_invariants`` says.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from nemesis.simulator.chains import ROOT, Chain
from replica.core.metadata.records import PartitionRegistration
from replica.ids import Epoch, Offset, ReplicaId, TopicId, TopicPartition
from replica.records import RecordBatch
from replica.voters import ReplicaKey

Sequence = tuple[int, int, int]
"""A batch of an idempotent producer: producer id, producer epoch, first sequence number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """An election of a leader that need not have all that was committed: what stood from ``end_offset`` up to
    ``committed_end_offset`` is gone.

    ``isr`` and ``elr`` are those who might have led before, ``led_last`` says that the new leader is the one that led
    last.
    """

    epoch: Epoch
    leader_id: ReplicaId
    isr: tuple[ReplicaId, ...]
    elr: tuple[ReplicaId, ...]
    led_last: bool
    end_offset: Offset
    committed_end_offset: Offset


@dataclass(slots=True)
class History:
    """One partition of one topic: every replica's log, and what of it is committed."""

    name: TopicPartition
    topic_id: TopicId
    registration: PartitionRegistration
    """What the controller has committed last."""
    chains: dict[ReplicaId, Chain] = field(default_factory=dict)
    lost: dict[ReplicaKey, tuple[Chain | None, Offset | None]] = field(default_factory=dict)
    """Logs on disks that were taken out of their machines, each with where it was let begin last."""
    away: dict[ReplicaId, Chain] = field(default_factory=dict)
    """Logs on disks that have failed, which a replica does without; they may be there again with their disks."""
    committed: Chain = field(default_factory=Chain)
    links: dict[tuple[int, bytes], int] = field(default_factory=dict)
    link_of: dict[tuple[Offset, Epoch], int] = field(default_factory=dict)
    leaders: dict[Epoch, ReplicaId] = field(default_factory=dict)
    sequences: dict[int, Sequence] = field(default_factory=dict)
    """The links that are batches of idempotent producers."""
    written: dict[Sequence, int] = field(default_factory=dict)
    """By which link each of them is committed."""
    begins_at: dict[ReplicaId, Offset] = field(default_factory=dict)
    """Where a replica has let its log begin last, or died as it did so."""
    inherited: dict[Epoch, Offset] = field(default_factory=dict)
    """The high watermark that a leader brought with it into its epoch, after an unclean election."""
    given_up: list[GivenUp] = field(default_factory=list)
    """The elections of leaders that need not have all that was committed."""

    @property
    def was_unclean(self) -> bool:
        """Whether there was any of them."""
        return bool(self.given_up)

    def chain(self, replica_id: ReplicaId) -> Chain:
        """The log of one replica."""
        chain = self.chains.get(replica_id)
        if chain is None:
            chain = self.chains[replica_id] = Chain()
        return chain

    def change_disk(self, replica_id: ReplicaId, former: ReplicaKey, now: ReplicaKey) -> None:
        """A replica has another disk than before, perhaps one that it had earlier."""
        self.lost[former] = (self.chains.pop(replica_id, None), self.begins_at.pop(replica_id, None))
        self.away.pop(replica_id, None)
        chain, begins_at = self.lost.pop(now, (None, None))
        if chain is not None:
            self.chains[replica_id] = chain
        if begins_at is not None:
            self.begins_at[replica_id] = begins_at

    def put_away(self, replica_id: ReplicaId) -> None:
        """A replica does without its log from now on."""
        chain = self.chains.pop(replica_id, None)
        if chain is not None:
            self.away[replica_id] = chain

    def recovered(self, replica_id: ReplicaId, end_offset: Offset) -> Chain:
        """The log that a replica has found to end there, at its start: perhaps one that was away."""
        chain = self.chain(replica_id)
        away = self.away.get(replica_id)
        if chain.link_at(end_offset) is None and away is not None and away.link_at(end_offset) is not None:
            chain = self.chains[replica_id] = self.away.pop(replica_id)
        return chain

    def is_committed(self, batch: RecordBatch) -> bool:
        """Whether just these bytes stand in the committed log."""
        committed = self.committed
        index = bisect_left(committed.ends, batch.end_offset)
        before = committed.links[index - 1] if index else ROOT
        return index < len(committed.links) and self.links.get((before, batch.data)) == committed.links[index]
