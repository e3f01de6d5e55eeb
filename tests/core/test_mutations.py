"""Wrong protocols, one overridden rule each: a scenario that the right rules pass convicts every one of them.

The origin of each is a bug that was once in Kafka, or a classic; the numbers are those of Kafka's issues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from replica.core.epoch_cache import LeaderEpochCache
from replica.core.rules import Rules, Truncation
from replica.ids import Epoch, EpochEndOffset, Offset
from tests.core.harness import Bench, batches_of, stored
from tests.core.scenarios import (
    answer_fetch,
    commit,
    consume,
    diverging,
    fetch,
    fetched,
    follower_bench,
    leader_bench,
    pending_fetch,
    produce,
    records,
    vote,
    voted,
)


class VoteForShorterLogs(Rules):
    """Compares epochs and forgets lengths."""

    def candidate_log_is_up_to_date(
        self, *, candidate_epoch: int, candidate_end: int, own_epoch: int, own_end: int
    ) -> bool:
        return candidate_epoch >= own_epoch


class VoteForLongerLogs(Rules):
    """Compares lengths and forgets epochs."""

    def candidate_log_is_up_to_date(
        self, *, candidate_epoch: int, candidate_end: int, own_epoch: int, own_end: int
    ) -> bool:
        return candidate_end >= own_end


class CommitOlderEpochs(Rules):
    """Exposes the high watermark before a record of the own epoch is committed (KAFKA-12619)."""

    def quorum_high_watermark(
        self, *, voter_end_offsets: Sequence[Offset], epoch_start_offset: Offset, current: Offset | None
    ) -> Offset | None:
        return sorted(voter_end_offsets, reverse=True)[len(voter_end_offsets) // 2]


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


class ReadUncommitted(Rules):
    """Lets consumers read to the log's end."""

    def consumer_read_bound(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset | None:
        return log_end_offset


class HideDivergence(Rules):
    """Names the epoch that the follower has reached instead of its last record's."""

    def last_fetched_epoch(self, *, last_epoch: Epoch | None, leader_epoch: Epoch) -> Epoch:
        return leader_epoch


class TrustTheLeadersOffset(Rules):
    """Takes the leader's offset without looking the epoch up in the own cache (before KIP-279)."""

    def truncation(self, *, epochs: LeaderEpochCache, log_end_offset: Offset, leader: EpochEndOffset) -> Truncation:
        return Truncation(end_offset=min(leader.end_offset, log_end_offset), done=True)


class TruncateToHighWatermark(Rules):
    """Cuts everything that is not known to be committed (before KIP-101)."""

    def truncation(self, *, epochs: LeaderEpochCache, log_end_offset: Offset, leader: EpochEndOffset) -> Truncation:
        return Truncation(end_offset=Offset(0), done=True)


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
    assert fetched(bench, fetch(1, 6, 6)).high_watermark is None


def a_voter_that_goes_back_takes_nothing_back(rules: Rules) -> None:
    bench = leader_bench(rules=rules)
    bench.call(produce(acks=1))
    bench.flush_all()
    commit(bench, 1)
    assert fetched(bench, fetch(1, 6, 6)).high_watermark == 2


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
    assert fetched(bench, consume(1)).records == b""


def a_follower_names_its_last_records_epoch(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(1, 2)])
    assert pending_fetch(bench).last_fetched_epoch == 1


def a_follower_cuts_to_its_own_floor(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(0, 1), (2, 4)])
    answer_fetch(bench, diverging(1, 5, leader_id=1, leader_epoch=5))
    assert (bench.disk.end, pending_fetch(bench).last_fetched_epoch) == (1, 0)


def a_follower_keeps_what_it_shares(rules: Rules) -> None:
    bench = follower_bench(rules=rules, log=[(1, 2)])
    answer_fetch(bench, records(batches_of((2, 2), start=2), leader_id=1, epoch=5))
    bench.flush_all()
    answer_fetch(bench, diverging(2, 3, leader_id=1, leader_epoch=5))
    assert bench.disk.end == 3


Scenario = Callable[[Rules], None]

CONVICTED: list[tuple[type[Rules], Scenario]] = [
    (VoteForShorterLogs, a_shorter_log_gets_no_vote),
    (VoteForLongerLogs, a_log_of_an_older_epoch_gets_no_vote),
    (CommitOlderEpochs, an_older_epochs_record_on_a_majority_is_not_committed),
    (CommitWithHalf, half_of_four_voters_commit_nothing),
    (LetHighWatermarkFall, a_voter_that_goes_back_takes_nothing_back),
    (AcknowledgeEarly, a_write_on_one_disk_is_not_acknowledged),
    (ReadUncommitted, an_uncommitted_record_is_not_read),
    (HideDivergence, a_follower_names_its_last_records_epoch),
    (TrustTheLeadersOffset, a_follower_cuts_to_its_own_floor),
    (TruncateToHighWatermark, a_follower_keeps_what_it_shares),
]


@pytest.mark.parametrize(("wrong", "scenario"), CONVICTED, ids=lambda value: value.__name__)
def test_wrong_rules_are_convicted(wrong: type[Rules], scenario: Scenario) -> None:
    """The scenario holds under the right rules and not under the wrong one."""
    scenario(Rules())
    with pytest.raises(AssertionError):
        scenario(wrong())


def test_every_rule_has_a_wrong_one() -> None:
    """No decision of the protocol goes without a scenario that would notice it wrong."""
    rules = {name for name in vars(Rules) if not name.startswith("_")}
    overridden = {name for wrong, _ in CONVICTED for name in vars(wrong) if not name.startswith("_")}
    assert overridden == rules
