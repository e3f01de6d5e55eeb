"""Wrong decisions about snapshots; ``test_mutations`` has a test that convicts each of them."""

from __future__ import annotations

from collections.abc import Sequence

from replica.core.rules import Rules
from replica.ids import Epoch, Offset, SnapshotId


class BeginAtTheNewestSnapshot(Rules):
    """Keeps no record that a snapshot holds."""

    def log_start_after_snapshot(self, *, snapshots: Sequence[SnapshotId], log_start_offset: Offset) -> Offset:
        return snapshots[-1].end_offset


class BeginAfterTheSnapshot(Rules):
    """Takes the end of a snapshot for its last offset, and deletes the record that is there."""

    def log_start_after_snapshot(self, *, snapshots: Sequence[SnapshotId], log_start_offset: Offset) -> Offset:
        right = super().log_start_after_snapshot(snapshots=snapshots, log_start_offset=log_start_offset)
        return right if right == log_start_offset else Offset(right + 1)


class ClaimNothingAfterASnapshot(Rules):
    """Takes a log without records for one that has never had any."""

    def last_epoch_of_log(self, *, record_epoch: Epoch | None, snapshot_epoch: Epoch | None) -> Epoch | None:
        return record_epoch


class ForgetThatSnapshotsAreCommitted(Rules):
    """Begins with the high watermark that was stored, of which a quorum log has none."""

    def high_watermark_at_start(self, *, checkpointed: Offset | None, snapshot_end_offset: Offset) -> Offset:
        return checkpointed or Offset(0)


class CompareNoEpochsAtTheLogStart(Rules):
    """Sends only those to a snapshot whose offset is too low."""

    def needs_snapshot(
        self, *, fetch_offset: Offset, last_fetched_epoch: Epoch, log_start_offset: Offset, oldest: SnapshotId
    ) -> bool:
        return fetch_offset == 0 or fetch_offset < log_start_offset


class ServeBelowTheLogStart(Rules):
    """Compares epochs only, as if all records were still there."""

    def needs_snapshot(
        self, *, fetch_offset: Offset, last_fetched_epoch: Epoch, log_start_offset: Offset, oldest: SnapshotId
    ) -> bool:
        return last_fetched_epoch < oldest.epoch


class LoadAnySnapshot(Rules):
    """Believes whatever the leader sends it to."""

    def may_load_snapshot(
        self, *, snapshot_id: SnapshotId, high_watermark: Offset, committed_epoch: Epoch, leader_epoch: Epoch
    ) -> bool:
        return True
