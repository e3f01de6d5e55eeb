"""Wrong decisions about snapshots, each with a scenario that the right rules pass and that convicts it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replica.core import messages as m
from replica.core.rules import Rules
from replica.ids import Epoch, Offset, SnapshotId
from tests.core.scenarios import (
    answer_fetch,
    commit,
    diverging,
    fetch,
    fetched,
    follower_bench,
    leader_bench,
    records,
    vote,
    voted,
)
from tests.core.snapshot_scenarios import installed_bench, leader_with_snapshots, sent_to


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


def a_follower_a_little_behind_finds_records(rules: Rules) -> None:
    bench = leader_bench(rules=rules, log=[(5, 9)])
    commit(bench, 1)
    for end_offset in (4, 8):
        bench.store(end_offset, 5)
        bench.finish_storing()
    assert fetched(bench, fetch(6, 5, 6, replica=2)).records


def one_that_has_installed_does_not_vote_for_an_older_log(rules: Rules) -> None:
    bench = installed_bench(rules=rules)
    bench.to_role("prospective")
    assert not voted(bench, vote(bench.epoch + 1, last=(3, 99))).vote_granted


def nothing_in_a_snapshot_is_cut_after_a_restart(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(1, 9)], snapshots=[(6, 1)])
    answer_fetch(bench, diverging(1, 5, leader_id=1, leader_epoch=5))
    assert bench.halted is not None


def another_history_at_the_log_start_is_sent_to_the_snapshot(rules: Rules) -> None:
    bench = leader_with_snapshots(rules=rules)
    assert fetched(bench, fetch(10, 3, 6, replica=2)).snapshot_id is not None


def one_below_the_log_start_is_sent_to_the_snapshot(rules: Rules) -> None:
    bench = leader_with_snapshots(rules=rules)
    assert fetched(bench, fetch(9, 2, 6, replica=2)).snapshot_id is not None


def nothing_committed_gives_way_to_a_snapshot(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(1, 9)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=7))
    answer_fetch(bench, sent_to(6, 1))
    assert not bench.requests(m.FetchSnapshotRequest)


SNAPSHOTS_CONVICTED: Sequence[tuple[type[Rules], Callable[[Rules], None]]] = (
    (BeginAtTheNewestSnapshot, a_follower_a_little_behind_finds_records),
    (BeginAfterTheSnapshot, a_follower_a_little_behind_finds_records),
    (ClaimNothingAfterASnapshot, one_that_has_installed_does_not_vote_for_an_older_log),
    (ForgetThatSnapshotsAreCommitted, nothing_in_a_snapshot_is_cut_after_a_restart),
    (CompareNoEpochsAtTheLogStart, another_history_at_the_log_start_is_sent_to_the_snapshot),
    (ServeBelowTheLogStart, one_below_the_log_start_is_sent_to_the_snapshot),
    (LoadAnySnapshot, nothing_committed_gives_way_to_a_snapshot),
)
"""Every decision about snapshots is among them."""
