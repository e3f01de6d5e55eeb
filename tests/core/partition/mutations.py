"""Scenarios of one replica of a partition that the right rules pass and a wrong one does not.

Each is asked with rules and raises AssertionError where they are wrong.
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.log.recovered import ProducerBatch, ProducerEntry
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, EpochEndOffset, Offset
from tests.core.harness import batches_of
from tests.core.partition.bench import CONFIG, PartitionBench, broker, registration
from tests.core.partition.followers import (
    FollowerBench,
    LeaderLog,
    converse,
    diverging,
    fetched,
    leader_log,
    offset,
    refused,
)

LAG_MS = CONFIG.replica_lag_time_max_ms


def leading(rules: Rules, *, isr: tuple[int, ...] = (1, 2), high_watermark: int = 0) -> PartitionBench:
    """Broker 1 leads epoch 5 with six records of epoch 4."""
    bench = PartitionBench(log=[(4, 6)], high_watermark=high_watermark, rules=rules)
    bench.metadata(registration(1, 5, isr=isr))
    return bench


def expanding(rules: Rules) -> tuple[PartitionBench, m.AlterPartition]:
    """Broker 1, alone in sync, has proposed broker 2."""
    bench = leading(rules, isr=(1,), high_watermark=6)
    bench.fetch(2, 6)
    proposal = bench.proposal()
    assert proposal is not None
    return bench, proposal


def answer_to(bench: PartitionBench, call_id: CallId) -> m.ProduceResponse:
    """The answer to a produce, which there must be."""
    assert call_id not in bench.open_calls, call_id
    return bench.produced(call_id)


# --- a leader -----------------------------------------------------------------------------------------------------


def what_was_committed_is_known_after_a_restart(rules: Rules) -> None:
    assert PartitionBench(log=[(4, 6)], high_watermark=4, rules=rules).high_watermark == 4


def a_late_copy_of_the_metadata_drops_no_candidate(rules: Rules) -> None:
    bench, _ = expanding(rules)
    bench.metadata(registration(1, 5, isr=(1,)), changed=[broker(3, fenced=True)])
    assert bench.maximal_isr == {1, 2}


def older_metadata_changes_nothing(rules: Rules) -> None:
    bench = leading(rules, isr=(1, 2))
    bench.metadata(registration(1, 5, partition_epoch=499, isr=(1,)))
    assert bench.isr == {1, 2}


def an_epoch_is_known_before_anything_is_written_in_it(rules: Rules) -> None:
    bench = leading(rules)
    read = bench.fetch(2, bench.ask(6, last=5))
    assert read.answer.error is ErrorCode.NONE


def a_new_leader_calls_nothing_committed(rules: Rules) -> None:
    assert leading(rules, high_watermark=4).high_watermark == 4


def an_end_of_an_earlier_leadership_counts_no_more(rules: Rules) -> None:
    bench = leading(rules)
    bench.fetch(2, 6)
    bench.metadata(registration(1, 7, isr=(1, 2)))
    bench.fill(1)
    assert bench.partition.role.remotes[broker(2).broker_id].log_end_offset is None  # type: ignore[union-attr]  # it leads


def a_write_with_too_few_replicas_is_refused(rules: Rules) -> None:
    bench = PartitionBench(rules=rules)
    bench.metadata(registration(1, 5, isr=(1,)), topic=replace(bench.topic, min_insync_replicas=2))
    answer = answer_to(bench, bench.produce())
    assert (answer.error, answer.not_appended, bench.end) == (ErrorCode.NOT_ENOUGH_REPLICAS, True, 0)


def a_fetch_of_an_earlier_epoch_acknowledges_nothing(rules: Rules) -> None:
    bench = leading(rules)
    bench.fetch(2, bench.ask(6, epoch=3))
    assert bench.high_watermark == 0


def a_former_incarnation_is_turned_away(rules: Rules) -> None:
    bench = leading(rules)
    assert bench.fetch(2, bench.ask(6), broker_epoch=19).answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def an_answer_names_the_epoch_that_ends(rules: Rules) -> None:
    bench = PartitionBench(log=[(1, 2), (3, 2)], rules=rules)
    bench.metadata(registration(1, 5))
    assert bench.fetch(2, bench.ask(2, last=2)).answer.diverging_epoch == EpochEndOffset(Epoch(1), Offset(2))


def a_diverged_follower_below_the_log_start_is_out_of_range(rules: Rules) -> None:
    bench = PartitionBench(log=[(1, 4), (3, 4)], log_start=4, high_watermark=12, rules=rules)
    bench.metadata(registration(1, 5))
    assert bench.fetch(2, bench.ask(3, last=2)).answer.error is ErrorCode.OFFSET_OUT_OF_RANGE


def one_fetch_behind_is_caught_up(rules: Rules) -> None:
    bench = leading(rules, isr=(1, 2))
    for _ in range(2 * LAG_MS // 500):
        bench.fetch(2, bench.end)
        bench.fill(1)
        bench.elapse(500)
    assert bench.proposal() is None


def who_has_everything_stays(rules: Rules) -> None:
    bench = leading(rules)
    bench.fetch(2, 6)
    bench.elapse(3 * LAG_MS)
    assert bench.proposal() is None


def a_fenced_broker_is_not_proposed(rules: Rules) -> None:
    bench = PartitionBench(log=[(4, 6)], rules=rules)
    bench.metadata(registration(1, 5, isr=(1,)), changed=[broker(2, fenced=True)])
    bench.fetch(2, 6)
    assert bench.proposal() is None


def who_lacks_earlier_epochs_does_not_join(rules: Rules) -> None:
    bench = leading(rules, isr=(1, 3), high_watermark=4)
    bench.fetch(2, 5)
    assert bench.maximal_isr == {1, 3}


def who_is_proposed_counts(rules: Rules) -> None:
    bench, _ = expanding(rules)
    bench.elapse(LAG_MS + 1)
    bench.fill(1)
    assert bench.high_watermark == 6


def who_is_to_leave_counts(rules: Rules) -> None:
    bench = leading(rules, isr=(1, 2))
    bench.elapse(2 * LAG_MS)
    assert bench.proposal() is not None
    bench.fill(1)
    assert bench.high_watermark == 0


def an_answer_after_newer_metadata_means_nothing(rules: Rules) -> None:
    bench, proposal = expanding(rules)
    bench.metadata(registration(1, 5, partition_epoch=502, isr=(1, 2, 3)))
    bench.altered(proposal)
    assert (bench.isr, bench.partition.partition_epoch) == ({1, 2, 3}, 502)


def who_was_proposed_in_vain_counts_until_it_is_sure(rules: Rules) -> None:
    bench, proposal = expanding(rules)
    bench.altered(proposal, None)
    assert bench.maximal_isr == {1, 2}


def nothing_is_committed_below_the_minimum(rules: Rules) -> None:
    bench = PartitionBench(rules=rules)
    bench.metadata(registration(1, 5, isr=(1,)), topic=replace(bench.topic, min_insync_replicas=2))
    bench.fill(1)
    assert bench.high_watermark == 0


def who_is_about_to_join_is_waited_for(rules: Rules) -> None:
    bench = leading(rules, isr=(1, 3), high_watermark=4)
    bench.fetch(2, 5)
    bench.fetch(2, 5)
    bench.fetch(3, 6)
    assert bench.high_watermark <= 5


def what_is_not_flushed_is_not_committed(rules: Rules) -> None:
    bench = leading(rules, isr=(1,))
    bench.produce(acks=1)
    assert bench.high_watermark == 6


def what_one_lacks_is_not_committed(rules: Rules) -> None:
    bench = leading(rules, isr=(1, 2, 3))
    bench.fetch(2, 6)
    assert bench.high_watermark == 0


def what_waited_for_who_is_gone_is_committed(rules: Rules) -> None:
    bench = leading(rules, isr=(1, 2))
    call_id = bench.produce(timeout_ms=10 * LAG_MS)
    bench.flush_all()
    bench.elapse(2 * LAG_MS)
    proposal = bench.proposal()
    assert proposal is not None
    bench.altered(proposal)
    assert answer_to(bench, call_id).error is ErrorCode.NONE


def clients_wait_until_a_new_leader_knows_the_end(rules: Rules) -> None:
    bench = leading(rules, high_watermark=4)
    request = m.ListOffsetsRequest(topic_partition=bench.partition.topic_partition, latest=True)
    assert bench.answer(request) == m.ListOffsetsResponse(
        error=ErrorCode.OFFSET_NOT_AVAILABLE, current_leader=bench.partition.current_leader
    )


def what_is_not_committed_is_not_forgotten(rules: Rules) -> None:
    bench = leading(rules, high_watermark=4)
    bench.partition.on_log_start_moved(Offset(6))
    assert bench.partition.log.log_start_offset == 4


# --- a follower ---------------------------------------------------------------------------------------------------


def a_new_follower_keeps_its_log(rules: Rules) -> None:
    bench = FollowerBench(log=[(1, 4)], high_watermark=2, rules=rules)
    assert (bench.fetches().fetch_offset, bench.end) == (4, 4)


def an_emptied_log_has_nothing_below_its_start(rules: Rules) -> None:
    bench = FollowerBench(log=[(1, 2)], high_watermark=2, rules=rules)
    bench.take(bench.fetches(), refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    bench.take(bench.asks(m.ListOffsetsRequest), offset(30))
    bench.take(bench.asks(m.ListOffsetsRequest), offset(20))
    assert bench.ends == (20, 20, 20)


def the_same_leader_in_a_new_epoch_is_asked_again(rules: Rules) -> None:
    bench = PartitionBench(log=[(1, 4)], rules=rules)
    bench.metadata(registration(2, 5))
    asked = bench.partition.next_request(bench.now_ms)
    assert isinstance(asked, m.FetchPartition)
    bench.partition.on_fetched(asked, refused(ErrorCode.FENCED_LEADER_EPOCH), bench.now_ms)
    bench.metadata(registration(2, 7))
    assert isinstance(bench.partition.next_request(bench.now_ms), m.FetchPartition)


def an_answer_of_an_earlier_epoch_brings_nothing(rules: Rules) -> None:
    bench = FollowerBench(log=[(1, 2)], rules=rules)
    asked = bench.fetches()
    bench.follow(3, 6)
    bench.take(asked, fetched(batches_of((5, 1), start=2)))
    assert bench.end == 2


def an_empty_epoch_is_not_named_for_ever(rules: Rules) -> None:
    bench = FollowerBench(log=[(3, 4)], epochs={3: 0, 4: 4}, rules=rules)
    converse(bench, leader_log((3, 4)))
    assert bench.epochs == {3: 0}


def logs_part_where_their_epochs_do(rules: Rules) -> None:
    bench = FollowerBench(log=[(0, 1), (2, 4)], rules=rules)
    leader = leader_log((0, 1), (1, 4), (3, 1))
    converse(bench, _Recorded(leader, rules))
    assert [batch.leader_epoch for batch in bench.batches] == [0, 1, 1, 1, 1, 3]


class _Recorded:
    """A leader's log that is answered from by the rules under test."""

    def __init__(self, log: LeaderLog, rules: Rules) -> None:
        self._log, self._rules = log, rules

    def answer(self, asked: object) -> m.FetchedPartition:
        """As the right leader, but for where an epoch ends and for what has diverged."""
        match asked:
            case m.FetchPartition(last_fetched_epoch=last, fetch_offset=at):
                end = None if last is None else self._end(last)
                assert end is not None and last is not None, asked  # noqa: PT018 - both say what is wrong
                if self._rules.has_diverged(end=end, fetch_offset=at, last_fetched_epoch=last):
                    return diverging(end.epoch, end.end_offset)
                return fetched(batch for batch in self._log.batches if batch.end_offset > at)
            case _:
                raise AssertionError(f"nobody answers {asked}")

    def _end(self, epoch: Epoch) -> EpochEndOffset | None:
        return self._rules.partition_epoch_end(
            epochs=self._log.cache, epoch=epoch, log_end_offset=Offset(self._log.end)
        )


# --- producers ----------------------------------------------------------------------------------------------------


def a_new_leader_knows_what_its_predecessor_appended(rules: Rules) -> None:
    bench = PartitionBench(log=[(4, 2)], rules=rules)
    bench.metadata(registration(2, 4))
    asked = bench.partition.next_request(bench.now_ms)
    assert isinstance(asked, m.FetchPartition)
    leader = PartitionBench(log=[(4, 2)])
    leader.metadata(registration(1, 4))
    leader.produce(sequence=0)
    bench.partition.on_fetched(asked, fetched(leader.disk.batches[2:]), bench.now_ms)
    bench.flush_all()
    bench.metadata(registration(1, 5))
    bench.produce(sequence=0)
    assert bench.end == 3


def nobody_is_forgotten_for_a_new_producer(rules: Rules) -> None:
    bench = PartitionBench(config=dataclasses.replace(CONFIG, producer_ids_max=2), rules=rules)
    bench.metadata(registration(1, 5))
    for producer_id in (7, 8, 9, 7):
        bench.produce(sequence=0, producer_id=producer_id)
    assert [batch.producer_id for batch in bench.disk.batches] == [7, 8]


def nothing_is_too_old_by_a_clock_that_has_just_jumped(rules: Rules) -> None:
    bench = PartitionBench(
        log=[(4, 6)], config=dataclasses.replace(CONFIG, log_retention_check_interval_ms=1000), rules=rules
    )
    bench.metadata(registration(1, 5))
    for unix_ms in (1_000_000, 90_000_000):
        bench.partition.clock.on_told(unix_ms, bench.now_ms)
    bench.elapse(999)
    bench.partition.clock.on_told(1_000_999, bench.now_ms)
    bench.elapse(1)
    assert [effect.unix_ms for effect in bench.made(fx.ApplyRetention)] == [None]


def a_sequence_with_a_gap_is_refused(rules: Rules) -> None:
    kept = ProducerBatch(
        base_sequence=0, last_sequence=0, base_offset=Offset(0), end_offset=Offset(1), max_timestamp_ms=0
    )
    known = ProducerEntry(producer_id=5, producer_epoch=0, batches=(kept,))
    bench = PartitionBench(log=[(4, 1)], producers=(known,), rules=rules)
    bench.metadata(registration(1, 5))
    answer = answer_to(bench, bench.produce(sequence=2))
    assert answer.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
