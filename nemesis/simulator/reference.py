"""What the state of a group must be after each committed batch: one fold beside all replicas.

Owns the reference: the committed log of one group, folded once, with the state at each batch boundary, and the outcome
of each entry. Whether a replica's state is right, is a comparison with it at an offset. It is the fold of the replicas,
on the one log that is known to be committed; whether the fold itself is right, the history of the clients tells.
"""

from __future__ import annotations

from hashlib import sha256

from nemesis.simulator.group_climate import new_machine
from replica.ids import Epoch, Offset, SnapshotId, TopicPartition
from replica.machines import AppliedEntry, Outcome, Snapshot, committed_batch, encode_outcome
from replica.machines.snapshots import CHECKSUM_BYTES
from replica.records import RecordBatch


class Reference:
    """The states of one group by what was committed."""

    def __init__(self, log: TopicPartition) -> None:
        self._log = log
        self._machine = new_machine(log)
        self._earlier = new_machine(log)
        """The state that was asked last of those that are over."""
        self._snapshots: dict[Offset, Snapshot] = {}
        self._digests: dict[Offset, str] = {Offset(0): self._machine.digest()}
        self._outcomes: dict[Offset, bytes] = {}

    def on_commit(self, batch: RecordBatch) -> None:
        """Take the next committed batch."""
        self._machine.apply(committed_batch(batch), self._note)
        taken = self._machine.snapshot()
        self._snapshots[taken.id.end_offset] = taken
        self._digests[taken.id.end_offset] = sha256(taken.data[:-CHECKSUM_BYTES]).hexdigest()

    def _note(self, applied: AppliedEntry) -> None:
        self._outcomes[applied.offset] = encode_outcome(applied.outcome)

    def digest_at(self, applied_offset: Offset) -> str | None:
        """The hash of the state below an offset; None where no committed batch ends."""
        return self._digests.get(applied_offset)

    def snapshot_at(self, end_offset: Offset) -> Snapshot | None:
        """The whole state below an offset; None where no committed batch ends."""
        return self._snapshots.get(end_offset)

    def epoch_below(self, end_offset: Offset) -> Epoch | None:
        """The epoch of the last record below an offset; None where no committed batch ends."""
        snapshot = self._snapshots.get(end_offset)
        return None if snapshot is None else snapshot.id.epoch

    def is_of_the_log(self, snapshot_id: SnapshotId) -> bool:
        """Whether a committed batch of this epoch ends there."""
        return self.epoch_below(snapshot_id.end_offset) == snapshot_id.epoch

    def outcomes(self, base_offset: Offset, count: int) -> tuple[bytes | None, ...]:
        """What the entries from an offset on have come to; None for those that are not committed."""
        return tuple(self._outcomes.get(Offset(base_offset + place)) for place in range(count))

    def answer_at(self, applied_offset: Offset, question: bytes) -> Outcome | None:
        """What the state below an offset answers; None where no committed batch ends."""
        if applied_offset == self._machine.applied_offset:
            return self._machine.query(question)  # As nearly always: it changes nothing.
        if self._earlier.applied_offset != applied_offset:
            machine, snapshot = new_machine(self._log), self._snapshots.get(applied_offset)
            if snapshot is None and applied_offset > 0:
                return None
            if snapshot is not None:
                machine.restore(snapshot)
            self._earlier = machine
        return self._earlier.query(question)
