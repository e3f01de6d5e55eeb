"""Wrong protocols of quorum logs: a test that the right rules pass convicts every one of them.

Every mutant that can be run on a quorum log is here, and some more that differ from the right rules by one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pytest

from nemesis.variants.catalogue import BUILT
from nemesis.variants.mutant import overridden
from nemesis.variants.reconciling import EpochZeroNotRecovered
from nemesis.variants.worlds import WorldKind
from replica.core.rules import Rules
from replica.core.rules.log import LogRules
from replica.core.rules.quorum import QuorumRules
from replica.ids import Offset
from tests.core import membership_wrong_rules as voters
from tests.core import snapshot_wrong_rules as snapshots
from tests.core import test_raft_catching_up as catching_up
from tests.core import test_raft_fencing as fencing
from tests.core import test_raft_follower as follower
from tests.core import test_raft_leader as leader
from tests.core import test_raft_leader_state as leader_state
from tests.core import test_raft_membership as membership
from tests.core import test_raft_membership_recovery as recovery
from tests.core import test_raft_membership_votes as membership_votes
from tests.core import test_raft_produce as produce
from tests.core import test_raft_reconfig as reconfig
from tests.core import test_raft_restart as restart
from tests.core import test_raft_snapshots as snapshotting
from tests.core import test_raft_votes as votes
from tests.core.group.test_group_mutations import CONVICTED as OF_GROUPS
from tests.core.ruled import assert_convicts, rules_now
from tests.core.scenarios import fetch
from tests.storage.lanes import a_vote_waits_for_what_its_log_does
from tests.storage.recovering import every_epoch_of_the_batches_is_recovered


class VoteForShorterLogs(Rules):
    """Compares epochs and forgets lengths."""

    def candidate_log_is_up_to_date(
        self, *, candidate_epoch: int, candidate_end: int, own_epoch: int, own_end: int
    ) -> bool:
        return candidate_epoch >= own_epoch


class CommitWithHalf(Rules):
    """Counts one voter too few in a quorum of even size."""

    def quorum_high_watermark(
        self, *, voter_end_offsets: Sequence[Offset], epoch_start_offset: Offset, current: Offset | None
    ) -> Offset | None:
        reached = sorted(voter_end_offsets, reverse=True)[(len(voter_end_offsets) - 1) // 2]
        return reached if reached > epoch_start_offset else current


class LetHighWatermarkFall(Rules):
    """Follows a voter that has gone back."""

    def quorum_high_watermark(
        self, *, voter_end_offsets: Sequence[Offset], epoch_start_offset: Offset, current: Offset | None
    ) -> Offset | None:
        reached = sorted(voter_end_offsets, reverse=True)[len(voter_end_offsets) // 2]
        return reached if reached > epoch_start_offset else current


class AcknowledgeEarly(Rules):
    """Takes the high watermark for an inclusive end."""

    def produce_is_committed(self, *, end_offset: Offset, high_watermark: Offset | None) -> bool:
        return high_watermark is not None and end_offset <= high_watermark + 1


Test = Callable[[], None]

SHORTER_LOG = partial(votes.test_vote_is_for_a_log_that_is_not_behind, last=(2, 3), good=False, pre_vote=False)
OLDER_LOG = partial(votes.test_vote_is_for_a_log_that_is_not_behind, last=(1, 9), good=False, pre_vote=False)
OWN_EPOCH = partial(fencing.test_current_epoch_validation, fencing.replica_fetch, "leader", fencing.EQUAL)
DIVERGED = partial(fencing.test_follower_state_not_updated_if_fetch_is_refused, fetch(9, 6, 6))

BUILT_CONVICTED: Mapping[str, Test] = {
    "truncate-to-high-watermark": follower.test_new_follower_keeps_its_log,
    "high-watermark-before-truncation": follower.test_truncate_on_fetch_does_not_update_high_watermark,
    "diverged-fetch-acknowledges": DIVERGED,
    "unknown-epoch-ends-at-log-end": fencing.test_diverging_answer_has_the_high_watermark_and_no_records,
    "high-watermark-starts-at-zero": leader.test_high_watermark_is_unknown_until_a_record_of_the_own_epoch_commits,
    "no-check-quorum": leader_state.test_check_quorum,
    "high-watermark-before-own-epoch": leader.test_high_watermark_is_unknown_until_a_record_of_the_own_epoch_commits,
    "inclusive-high-watermark-read": leader.test_fetch_beyond_high_watermark,
    "high-watermark-never-rises": leader.test_leader_counts_itself_only_once_flushed,
    "fence-own-epoch": OWN_EPOCH,
    "vote-not-persisted": votes.test_restarted_voter_does_not_vote_twice,
    "message-before-its-log": lambda: a_vote_waits_for_what_its_log_does(rules_now()),
    "fetch-before-fsync": follower.test_follower_replication,
    "lazy-epoch-checkpoint": restart.test_epochs_are_stored_before_the_batches_that_begin_them,
    "restarted-leader-leads-on": partial(
        restart.test_restarted_leader_neither_appends_nor_votes_in_its_epoch, power_loss=True
    ),
    "truncate-below-high-watermark": follower.test_truncate_below_high_watermark,
    "acknowledge-after-leadership": produce.test_leadership_lost_while_a_write_waits_is_unknown,
    "diverging-at-equal-end": fencing.test_fetch_at_the_exact_end_of_its_epoch_has_not_diverged,
    "read-beyond-high-watermark": leader.test_fetch_beyond_high_watermark,
    "high-watermark-beyond-log-end": follower.test_empty_record_set_in_fetch_response,
    "ack-before-replication": produce.test_acks_all_is_answered_when_committed,
    "append-without-reconciling": follower.test_follower_log_reconciliation,
    "vote-without-comparing-logs": SHORTER_LOG,
    "high-watermark-of-the-fastest": leader_state.test_update_high_watermark_quorum_size_three,
    "take-nothing-back": follower.test_follower_log_reconciliation,
    "trust-the-leaders-offset": (
        follower.test_should_truncate_if_leader_replies_with_diverging_epoch_not_known_to_follower
    ),
    "vote-for-the-longer-log": OLDER_LOG,
}

CONVICTED: Sequence[tuple[type[Rules], Test]] = [
    *((BUILT[name].rules, test) for name, test in BUILT_CONVICTED.items()),
    (VoteForShorterLogs, SHORTER_LOG),
    (CommitWithHalf, leader_state.test_update_high_watermark_quorum_size_two),
    (LetHighWatermarkFall, leader_state.test_non_monotonic_high_watermark_update),
    (AcknowledgeEarly, produce.test_acks_all_is_answered_when_committed),
    (EpochZeroNotRecovered, lambda: every_epoch_of_the_batches_is_recovered(rules_now())),
    (snapshots.BeginAtTheNewestSnapshot, snapshotting.test_the_first_snapshot_deletes_nothing),
    (snapshots.BeginAfterTheSnapshot, snapshotting.test_update_log_start_offset_will_remove_older_snapshot),
    (snapshots.ClaimNothingAfterASnapshot, catching_up.test_a_log_that_is_empty_after_a_snapshot_votes_by_it),
    (snapshots.ForgetThatSnapshotsAreCommitted, catching_up.test_nothing_in_a_snapshot_is_cut),
    (
        snapshots.CompareNoEpochsAtTheLogStart,
        snapshotting.test_a_fetch_that_is_sent_to_a_snapshot_acknowledges_nothing,
    ),
    (snapshots.ServeBelowTheLogStart, snapshotting.test_leader_immediately_sends_snapshot_id),
    (snapshots.LoadAnySnapshot, partial(catching_up.test_fetch_response_with_invalid_snapshot_id, 6, 1)),
    (voters.VotersInForceOnceCommitted, membership.test_an_old_majority_does_not_commit),
    (
        voters.ChangeBeforeTheLastIsCommitted,
        reconfig.test_remove_voter_timed_out,
    ),
    (
        voters.ChangeBeforeTheEpochHasBegun,
        reconfig.test_remove_voter_without_fenced_previous_leaders,
    ),
    (voters.CompareNoDisks, membership.test_a_wiped_voter_acknowledges_nothing),
    (voters.OnlyVotersCampaign, membership_votes.test_who_is_about_to_leave_campaigns),
    (voters.ARemovedLeaderCountsItself, membership.test_a_leader_outside_the_set_needs_a_majority_of_it),
    (voters.AddBeforeCaughtUp, membership.test_who_has_nothing_is_waited_for),
    (voters.TruncationLeavesVoters, recovery.test_a_truncated_record_gives_its_set_back),
    (voters.SnapshotsWithoutVoters, recovery.test_a_snapshot_says_who_votes),
]


@pytest.mark.parametrize(("wrong", "test"), [pytest.param(*pair, id=pair[0].__name__) for pair in CONVICTED])
def test_wrong_rules_are_convicted(wrong: type[Rules], test: Test) -> None:
    """A test of the rule holds under the right rules and not under the wrong one."""
    assert_convicts(test, wrong())


def test_every_rule_has_a_wrong_one() -> None:
    """No decision about a quorum log goes without a test that would notice it wrong."""
    rules = {name for part in (LogRules, QuorumRules) for name in vars(part) if not name.startswith("_")}
    assert {name for wrong, _ in [*CONVICTED, *OF_GROUPS] for name in overridden(wrong)} >= rules


def test_every_mutant_that_can_be_run_on_a_quorum_log_is_convicted() -> None:
    """None of them is without a test."""
    assert BUILT_CONVICTED.keys() == {name for name, variant in BUILT.items() if variant.world is WorldKind.QUORUM}
