"""Which voters counted from which record of a quorum log on: the last entry is in force, committed or not.

Owns the values and how they follow the log: a VotersRecord adds an entry, a truncation takes entries back, a snapshot
stands for those before its end. Knows nothing of roles, files or messages.

That a set counts as soon as it stands in the log, and not when it is committed, is what lets the old and the new
majority never decide without each other. Source: KIP-853; Kafka ``VoterSetHistory``; Ongaro's thesis, section 4.1.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from replica.core.config import ReplicaConfig
from replica.ids import Offset
from replica.records import RecordBatch, decode_voters
from replica.voters import VoterEntry, VoterSet


class VoterHistory(Struct, frozen=True, kw_only=True):
    """``base`` counts up to the first of ``entries``, which are in the order of their offsets.

    ``base_offset`` is where the record of the base stood; absent for the voters that the disk was formatted with.
    """

    base: VoterSet
    base_offset: Offset | None = None
    entries: tuple[VoterEntry, ...] = ()

    @property
    def latest(self) -> VoterSet:
        """The last set, committed or not."""
        return self.entries[-1].voters if self.entries else self.base

    @property
    def latest_offset(self) -> Offset | None:
        """Where the record of the last set stands; absent where no record has named any."""
        return self.entries[-1].offset if self.entries else self.base_offset

    @property
    def previous(self) -> VoterSet:
        """The set before the last one; the last one where nothing is known of another."""
        return self.entries[-2].voters if len(self.entries) > 1 else self.base

    def extended(self, entries: Iterable[VoterEntry]) -> VoterHistory:
        """Add what was appended to the log."""
        return replace(self, entries=(*self.entries, *entries))

    def truncated(self, end_offset: Offset) -> VoterHistory:
        """Take back what stood at and above ``end_offset``."""
        return replace(self, entries=tuple(entry for entry in self.entries if entry.offset < end_offset))

    def as_of(self, end_offset: Offset) -> VoterHistory:
        """Make the history of what stands below ``end_offset`` alone: one set, as a snapshot that ends there has it."""
        below = self.truncated(end_offset)
        return VoterHistory(base=below.latest, base_offset=below.latest_offset)

    def begun_at(self, end_offset: Offset) -> VoterHistory:
        """Let a snapshot that ends at ``end_offset`` stand for what is below."""
        kept = tuple(entry for entry in self.entries if entry.offset >= end_offset)
        return replace(self.as_of(end_offset), entries=kept)


def formatted_history(config: ReplicaConfig) -> VoterHistory:
    """Begin with the voters that the disk was formatted with."""
    return VoterHistory(base=config.initial_voters)


def voters_in(batches: Iterable[RecordBatch]) -> tuple[VoterEntry, ...]:
    """Find the sets of voters that batches name. Raises CorruptRecordError."""
    found = ((batch.base_offset, decode_voters(batch)) for batch in batches if batch.is_control)
    return tuple(VoterEntry(offset=offset, voters=voters) for offset, voters in found if voters is not None)
