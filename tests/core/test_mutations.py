"""Wrong protocols of quorum logs: a scenario that the right rules pass convicts every one of them.

Every mutant that can be run on a quorum log is here, and some more that differ from the right rules by one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from nemesis.variants.catalogue import BUILT
from nemesis.variants.groups import ReadIndexOfAnOldFetch
from nemesis.variants.mutant import overridden
from nemesis.variants.reconciling import EpochZeroNotRecovered
from nemesis.variants.worlds import WorldKind
from replica.core import messages as m
from replica.core.rules import Rules
from replica.core.rules.log import LogRules
from replica.core.rules.quorum import QuorumRules
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset
from tests.core.group.convictions import OF_LOGS, a_fetch_that_was_sent_before_the_question_does_not_confirm_it
from tests.core.harness import Bench, batches_of, epochs_of, stored
from tests.core.membership_mutations import MEMBERSHIP_CONVICTED
from tests.core.scenarios import (
    answer_fetch,
    commit,
    consume,
    diverging,
    fetch,
    fetched,
    follow,
    follower_bench,
    leader_bench,
    pending_fetch,
    produce,
    records,
    reply_of,
    vote,
    voted,
)
from tests.core.snapshot_mutations import SNAPSHOTS_CONVICTED
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


def a_shorter_log_gets_no_vote(rules: Rules) -> None:
    bench = Bench(rules=rules, quorum_state=stored(5), log=[(2, 4)])
    assert not voted(bench, vote(6, last=(2, 3))).vote_granted


def a_log_of_an_older_epoch_gets_no_vote(rules: Rules) -> None:
    bench = Bench(rules=rules, quorum_state=stored(5), log=[(2, 4)])
    assert not voted(bench, vote(6, last=(1, 9))).vote_granted


def an_older_epochs_record_on_a_majority_is_not_committed(rules: Rules) -> None:
    bench = leader_bench(rules=rules, log=[(2, 1)])
    assert fetched(bench, fetch(1, 2, 6)).high_watermark is None


def half_of_four_voters_commit_nothing(rules: Rules) -> None:
    bench = leader_bench(rules=rules, voters=(0, 1, 2, 3))
    assert fetched(bench, fetch(2, 6, 6)).high_watermark is None


def a_voter_that_goes_back_takes_nothing_back(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    bench.call(produce(acks=1))
    bench.flush_all()
    commit(bench, 1)
    assert fetched(bench, fetch(2, 6, 6)).high_watermark == 3


def a_write_on_one_disk_is_not_acknowledged(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    commit(bench, 1)
    call_id = bench.call(produce())
    bench.flush_all()
    assert call_id in bench.open_calls


def an_uncommitted_record_is_not_read(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    commit(bench, 1)
    bench.call(produce(acks=1))
    assert fetched(bench, consume(2)).records == b""


def a_follower_names_its_last_records_epoch(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(1, 2)])
    assert pending_fetch(bench).last_fetched_epoch == 1


def a_follower_cuts_to_its_own_floor(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(0, 1), (2, 4)])
    answer_fetch(bench, diverging(1, 5, leader_id=1, leader_epoch=5))
    assert (bench.disk.end, pending_fetch(bench).last_fetched_epoch) == (1, 0)


def a_leader_that_does_not_know_the_high_watermark_says_nothing(rules: Rules) -> None:
    bench = leader_bench(rules=rules, log=[(2, 1)])
    assert bench.high_watermark is None


def a_second_write_is_committed(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    commit(bench, 1)
    call_id = bench.call(produce())
    bench.flush_all()
    commit(bench, 1)
    assert reply_of(bench, call_id).error is ErrorCode.NONE


def a_fetch_of_an_earlier_epoch_is_fenced(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    assert fetched(bench, fetch(2, 5, 5)).error is ErrorCode.FENCED_LEADER_EPOCH


def a_fetch_of_the_leaders_epoch_is_taken(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    assert fetched(bench, fetch(2, 6, 6)).error is ErrorCode.NONE


def a_vote_survives_a_restart(rules: Rules) -> None:
    bench = Bench(rules=rules, quorum_state=stored(5))
    assert voted(bench, vote(6, candidate=1)).vote_granted
    bench.restart()
    assert not voted(bench, vote(6, candidate=2)).vote_granted


def a_new_epoch_is_stored_with_its_first_batch(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    assert bench.disk.epochs == epochs_of(bench.disk.batches)


def a_follower_flushes_before_it_fetches_on(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(1, 2)])
    answer_fetch(bench, records(batches_of((5, 1), start=2), leader_id=1, epoch=5))
    assert not bench.requests(m.FetchRequest)


def a_restarted_leader_resigns(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    bench.call(produce(acks=1))
    bench.restart(power_loss=True)
    assert bench.role == "resigned"


def a_new_follower_keeps_its_log(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(1, 2)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=1))
    follow(bench, 2, 6)
    assert bench.disk.end == 2


def an_epoch_that_the_leader_never_had_has_diverged(rules: Rules) -> None:
    bench = leader_bench(rules=rules, log=[(1, 3), (3, 2)])
    assert fetched(bench, fetch(4, 2, 6)).diverging_epoch == EpochEndOffset(Epoch(1), Offset(3))


def a_follower_with_everything_has_not_diverged(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    assert fetched(bench, fetch(2, 6, 6)).diverging_epoch is None


def a_diverged_fetch_commits_nothing(rules: Rules) -> None:
    bench = leader_bench(rules=rules, log=[(1, 3), (3, 2)])
    assert fetched(bench, fetch(6, 2, 6)).diverging_epoch is not None
    assert bench.high_watermark is None


def a_diverging_answer_says_nothing_of_what_is_committed(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(1, 2), (2, 2)])
    answer_fetch(bench, diverging(1, 2, leader_id=1, leader_epoch=5, high_watermark=1))
    assert bench.high_watermark is None


def a_follower_knows_of_no_commit_beyond_its_log(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(1, 2)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=9))
    assert bench.high_watermark == 2


def nothing_committed_is_cut(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(1, 2), (2, 2)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=3))
    answer_fetch(bench, diverging(1, 2, leader_id=1, leader_epoch=5))
    assert bench.halted is not None


def a_leader_without_a_majority_resigns(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    bench.elapse(bench.config.quorum.check_quorum_timeout_ms)
    assert bench.role == "resigned"


def a_write_that_waits_is_unknown_when_the_leadership_ends(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    call_id = bench.call(produce())
    follow(bench, 1, 7)
    assert reply_of(bench, call_id).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


Scenario = Callable[[Rules], None]

BUILT_CONVICTED: Mapping[str, Scenario] = {
    "truncate-to-high-watermark": a_new_follower_keeps_its_log,
    "high-watermark-before-truncation": a_diverging_answer_says_nothing_of_what_is_committed,
    "diverged-fetch-acknowledges": a_diverged_fetch_commits_nothing,
    "unknown-epoch-ends-at-log-end": an_epoch_that_the_leader_never_had_has_diverged,
    "high-watermark-starts-at-zero": a_leader_that_does_not_know_the_high_watermark_says_nothing,
    "no-check-quorum": a_leader_without_a_majority_resigns,
    "high-watermark-before-own-epoch": an_older_epochs_record_on_a_majority_is_not_committed,
    "inclusive-high-watermark-read": an_uncommitted_record_is_not_read,
    "high-watermark-never-rises": a_second_write_is_committed,
    "fence-own-epoch": a_fetch_of_the_leaders_epoch_is_taken,
    "vote-not-persisted": a_vote_survives_a_restart,
    "message-before-its-log": a_vote_waits_for_what_its_log_does,
    "fetch-before-fsync": a_follower_flushes_before_it_fetches_on,
    "lazy-epoch-checkpoint": a_new_epoch_is_stored_with_its_first_batch,
    "restarted-leader-leads-on": a_restarted_leader_resigns,
    "truncate-below-high-watermark": nothing_committed_is_cut,
    "acknowledge-after-leadership": a_write_that_waits_is_unknown_when_the_leadership_ends,
    "diverging-at-equal-end": a_follower_with_everything_has_not_diverged,
    "read-beyond-high-watermark": an_uncommitted_record_is_not_read,
    "high-watermark-beyond-log-end": a_follower_knows_of_no_commit_beyond_its_log,
    "ack-before-replication": a_write_on_one_disk_is_not_acknowledged,
    "append-without-reconciling": a_follower_names_its_last_records_epoch,
    "vote-without-comparing-logs": a_shorter_log_gets_no_vote,
    "high-watermark-of-the-fastest": a_write_on_one_disk_is_not_acknowledged,
    "take-nothing-back": a_follower_cuts_to_its_own_floor,
    "trust-the-leaders-offset": a_follower_cuts_to_its_own_floor,
    "vote-for-the-longer-log": a_log_of_an_older_epoch_gets_no_vote,
}

CONVICTED: list[tuple[type[Rules], Scenario]] = [
    *((BUILT[name].rules, scenario) for name, scenario in BUILT_CONVICTED.items()),
    (VoteForShorterLogs, a_shorter_log_gets_no_vote),
    (CommitWithHalf, half_of_four_voters_commit_nothing),
    (LetHighWatermarkFall, a_voter_that_goes_back_takes_nothing_back),
    (AcknowledgeEarly, a_write_on_one_disk_is_not_acknowledged),
    (EpochZeroNotRecovered, every_epoch_of_the_batches_is_recovered),
    (ReadIndexOfAnOldFetch, a_fetch_that_was_sent_before_the_question_does_not_confirm_it),
    *SNAPSHOTS_CONVICTED,
    *MEMBERSHIP_CONVICTED,
    *OF_LOGS,
]


@pytest.mark.parametrize(("wrong", "scenario"), CONVICTED, ids=lambda value: value.__name__)
def test_wrong_rules_are_convicted(wrong: type[Rules], scenario: Scenario) -> None:
    """The scenario holds under the right rules and not under the wrong one."""
    scenario(Rules())
    with pytest.raises(AssertionError):
        scenario(wrong())


def test_every_rule_has_a_wrong_one() -> None:
    """No decision about a quorum log goes without a scenario that would notice it wrong."""
    rules = {name for part in (LogRules, QuorumRules) for name in vars(part) if not name.startswith("_")}
    assert {name for wrong, _ in CONVICTED for name in overridden(wrong)} >= rules


def test_every_mutant_that_can_be_run_on_a_quorum_log_is_convicted() -> None:
    """None of them is without a scenario."""
    assert BUILT_CONVICTED.keys() == {name for name, variant in BUILT.items() if variant.world is WorldKind.QUORUM}
