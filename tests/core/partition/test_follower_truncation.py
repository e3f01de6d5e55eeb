"""Where a follower cuts its log: told by an answer to its fetch where the logs part, or out of its leader's range.

Kafka's ReplicaFetcherThreadTest, with its numbers.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.effects import FindBatch, ScanProducers, StartLogAt, StoreEpochs, Truncate
from replica.core.partition import following
from replica.core.partition.roles import CommittedIsr, Leader
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.records import encode_batch
from tests.core.partition.followers import (
    BACKOFF_MS,
    OWN_ID,
    FollowerBench,
    diverging,
    fetched,
    offset,
    refused,
)


def bench_of(*log: tuple[int, int]) -> FollowerBench:
    return FollowerBench(log=log, leader_epoch=6)


# --- divergence -----------------------------------------------------------------------------------------------------


def test_should_not_fetch_leader_epoch_on_first_fetch_with_truncate_on_fetch() -> None:
    """The fetch itself asks where the logs part."""
    assert bench_of((3, 2)).fetches().last_fetched_epoch == 3


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        pytest.param((5, 156), 156, id="should_truncate_to_offset_specified_in_epoch_offset_response"),
        pytest.param((5, 172), 172, id="should_truncate_to_offset_specified_in_epoch_offset_response_2"),
        pytest.param((4, 156), 120, id="to_the_end_of_its_own_earlier_epoch"),
        pytest.param((5, 202), 200, id="never_beyond_its_own_end"),
    ],
)
def test_truncation_to_the_epochs_end(answer: tuple[int, int], end: int) -> None:
    """The follower cuts where both have an end of the epoch that both know, whichever is less."""
    bench = bench_of((3, 120), (5, 80))
    bench.take(bench.fetches(), diverging(*answer))
    assert bench.end == end


@pytest.mark.parametrize(("answer", "end"), [((5, 156), 156), ((4, 156), 0)])
def test_should_truncate_to_offset_if_follower_has_no_more_epochs(answer: tuple[int, int], end: int) -> None:
    """A follower with one epoch keeps what both have of it; where the leader has only older ones they share nothing."""
    bench = bench_of((5, 200))
    bench.take(bench.fetches(), diverging(*answer))
    assert bench.end == end
    assert bench.fetches().fetch_offset == end


def test_leader_takes_no_word_of_where_logs_part() -> None:
    """A replica that has become the leader meanwhile cuts nothing."""
    bench = bench_of((3, 2))
    late = bench.fetches()
    bench.state.role = Leader(
        epoch_start_offset=Offset(2), isr_state=CommittedIsr(isr=frozenset({OWN_ID})), shrink_check_at_ms=0
    )
    bench.take(late, diverging(3, 1))
    assert bench.end == 2


@pytest.mark.parametrize("more", [0, 1])
def test_should_truncate_if_leader_replies_with_diverging_epoch_not_known_to_follower(more: int) -> None:
    """Answer after answer the follower cuts to what both can have, and never stops fetching."""
    bench = bench_of((0, 119), (2, 10), (4, 71))
    for answer, end in (((4, 140 + more), 140 + more), ((3, 130 + more), 129), ((1, 120 + more), 119)):
        bench.take(bench.fetches(), diverging(*answer))
        assert bench.end == end


def test_answer_without_progress_is_not_asked_for_at_full_speed() -> None:
    """An answer that cuts nothing is followed by a pause."""
    bench = bench_of((3, 2))
    bench.take(bench.fetches(), diverging(3, 2))
    assert (bench.effects, bench.ask()) == ([], None)
    assert following.fetch_deadline_ms(bench.state) == bench.now_ms + BACKOFF_MS


def test_high_watermark_maintenance() -> None:
    """Cutting lowers the high watermark to the new end; beginning anew sets it to the new start (KAFKA-9491)."""
    bench = FollowerBench(log=[(1, 4), (2, 2)], high_watermark=6)
    bench.take(bench.fetches(), diverging(1, 3))
    assert bench.ends == (0, 3, 3)
    answer_range(bench, 9, 4)
    assert (bench.ends, bench.epochs) == ((4, 4, 4), {})


@pytest.mark.parametrize("leader_start", [0, 2])
def test_truncate_to_end_offset_clears_epoch_cache(leader_start: int) -> None:
    """An epoch that begins at the end and has no record goes, although no record does (KAFKA-10706)."""
    bench = FollowerBench(log=[(1, 2)], epochs={1: 0, 4: 2})
    bench.take(bench.fetches(), replace(diverging(1, 2), log_start_offset=Offset(leader_start)))
    assert (bench.epochs, bench.end) == ({1: 0}, 2)
    assert [type(each) for each in bench.effects] == [StoreEpochs]
    assert bench.fetches().last_fetched_epoch == 1


@pytest.mark.parametrize(
    ("answer", "start"),
    [pytest.param((1, 4), 4, id="exactly_at_its_start"), pytest.param((0, 2), 2, id="below_its_start")],
)
def test_divergence_from_the_start_of_the_log_on(answer: tuple[int, int], start: int) -> None:
    """Where nothing is left the log begins anew at the cut, as after an unclean election below the log's start."""
    bench = FollowerBench(log=[(1, 3)], log_start=4, high_watermark=5)
    bench.take(bench.fetches(), diverging(*answer))
    assert (bench.ends, bench.epochs) == ((start, start, start), {})
    assert [type(each) for each in bench.effects] == [StartLogAt, StoreEpochs, ScanProducers]
    assert bench.fetches().last_fetched_epoch is None


# --- out of range ---------------------------------------------------------------------------------------------------


def answer_range(bench: FollowerBench, leader_end: int, leader_start: int) -> list[bool]:
    """Let the leader refuse a fetch and name its end and its start; return which of them it was asked for."""
    bench.take(bench.fetches(), refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    asked = []
    while isinstance(request := bench.ask(), m.ListOffsetsRequest):
        assert request.replica_id == bench.state.replica_id
        assert request.current_leader_epoch == bench.state.leader_epoch
        asked.append(request.latest)
        bench.take(request, offset(leader_end if request.latest else leader_start))
    return asked


def test_log_beyond_the_leaders_end_is_cut_there() -> None:
    """A follower that has more than its leader, and is out of its range, keeps what the leader may have."""
    bench = FollowerBench(log=[(1, 6)], high_watermark=2)
    assert answer_range(bench, 4, 0) == [True]
    assert bench.ends == (0, 2, 4)
    assert bench.fetches().fetch_offset == 4


def test_log_before_the_leaders_start_begins_anew() -> None:
    """A follower that the leader's retention has overtaken begins where the leader does (KAFKA-9491)."""
    bench = FollowerBench(log=[(1, 3)], high_watermark=2)
    assert answer_range(bench, 9, 7) == [True, False]
    assert (bench.ends, bench.epochs, bench.batches) == ((7, 7, 7), {}, [])
    assert bench.fetches().last_fetched_epoch is None


def test_log_within_the_leaders_range_is_kept() -> None:
    """A follower that is in range after all keeps everything, and fetches again after a pause."""
    bench = FollowerBench(log=[(1, 3)], high_watermark=2)
    assert answer_range(bench, 9, 3) == [True, False]
    assert (bench.ends, bench.ask()) == ((0, 2, 3), None)
    bench.now_ms += BACKOFF_MS
    assert bench.fetches().fetch_offset == 3


def test_empty_log_beyond_the_leaders_end_begins_anew_there() -> None:
    """After an unclean election the leader may end before the follower's log begins; it is not stuck."""
    bench = FollowerBench(log_start=8, high_watermark=8)
    assert answer_range(bench, 3, 0) == [True]
    assert bench.ends == (3, 3, 3)


def test_fenced_offset_reset_after_out_of_range() -> None:
    """The question for the leader's range is fenced as well: a follower of an older epoch stops and cuts nothing."""
    bench = FollowerBench(log=[(1, 3)])
    bench.take(bench.fetches(), refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    bench.take(bench.asks(m.ListOffsetsRequest), offset(None, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert (bench.role.is_failed, bench.ask(), bench.end) == (True, None, 3)


def test_retry_after_unknown_leader_epoch_in_latest_offset_fetch() -> None:
    """A leader that does not know the epoch yet is asked the same again after a pause."""
    bench = FollowerBench(log=[(1, 3)])
    bench.take(bench.fetches(), refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    for _ in range(3):
        bench.take(asked := bench.asks(m.ListOffsetsRequest), offset(None, error=ErrorCode.UNKNOWN_LEADER_EPOCH))
        assert (asked.latest, bench.ask()) == (True, None)
        bench.now_ms += BACKOFF_MS
    bench.take(bench.asks(m.ListOffsetsRequest), offset(2))
    assert bench.end == 2


@pytest.mark.parametrize("value", [0, 2, 9])
@pytest.mark.parametrize("latest", [True, False])
def test_range_of_an_earlier_leader_is_not_taken(value: int, latest: bool) -> None:
    """Where an earlier epoch's leader began or ended is nothing to this one, nor is the answer to another question."""
    bench = FollowerBench(log=[(1, 3)])
    bench.take(bench.fetches(), refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    late = bench.asks(m.ListOffsetsRequest)
    if not latest:
        bench.take(late, offset(Offset(3)))
        late = bench.asks(m.ListOffsetsRequest)
    bench.follow(1, 6)
    bench.take(late, offset(value))
    assert (bench.effects, bench.end) == ([], 3)
    assert bench.fetches().fetch_offset == 3


def test_answered_question_is_not_taken_twice() -> None:
    """When the leader's end was taken and its start is asked for, another answer about its end came too late."""
    bench = FollowerBench(log=[(1, 3)])
    bench.take(bench.fetches(), refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    asked = bench.asks(m.ListOffsetsRequest)
    for leader_end in (9, 1):
        bench.take(asked, offset(leader_end))
        assert bench.end == 3
    assert not bench.asks(m.ListOffsetsRequest).latest


def test_cut_has_the_producers_read_again() -> None:
    """After a truncation storage is asked for the producers of what is left, once."""
    bench = FollowerBench(log=[(1, 4), (2, 2)])
    bench.take(bench.fetches(), diverging(1, 3))
    assert [type(each) for each in bench.effects] == [FindBatch, Truncate, StoreEpochs, ScanProducers]
    assert bench.state.producers.awaits_scan


# --- inside a batch -------------------------------------------------------------------------------------------------


def bench_of_threes(*, log_start: int = 0) -> FollowerBench:
    """Three batches of three records each, all of epoch 1."""
    batches = [encode_batch([b"a", b"b", b"c"], base_offset=offset, leader_epoch=1) for offset in (0, 3, 6)]
    return FollowerBench(batches=batches, log_start=log_start, epochs={1: log_start}, high_watermark=6)


@pytest.mark.parametrize(("leader_end", "end"), [(8, 6), (7, 6), (6, 6), (5, 3), (1, 0)])
def test_epoch_that_ends_inside_a_batch_takes_all_of_it(leader_end: int, end: int) -> None:
    """Kafka's truncation: the batch that holds the offset goes, and all behind it; the rest is fetched again."""
    bench = bench_of_threes()
    bench.take(bench.fetches(), diverging(1, leader_end))
    assert (bench.end, bench.high_watermark) == (end, min(6, end))
    assert bench.fetches().fetch_offset == end


@pytest.mark.parametrize(("leader_end", "end"), [(8, 6), (4, 3), (1, 0)])
def test_leaders_log_that_ends_inside_a_batch_takes_all_of_it(leader_end: int, end: int) -> None:
    """So it is with the end that a leader names after a fetch that was out of its range."""
    bench = bench_of_threes()
    bench.take(bench.fetches(), refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    bench.take(bench.asks(m.ListOffsetsRequest), offset(leader_end))
    assert bench.end == end
    assert bench.fetches().fetch_offset == end


def test_batch_across_the_logs_start_leaves_nothing() -> None:
    """A log that begins inside the batch that has to go holds nothing any more, and begins where it did."""
    bench = bench_of_threes(log_start=1)
    bench.take(bench.fetches(), diverging(1, 2))
    assert bench.ends == (1, 1, 1)


def test_nothing_is_asked_until_the_batch_is_found() -> None:
    """A fetch meanwhile would acknowledge what is about to go; and an answer that comes then means nothing any more."""
    bench = bench_of_threes()
    asked = bench.fetches()
    following.on_fetched(bench.state, asked, diverging(1, 8), bench.now_ms)
    assert following.next_request(bench.state, bench.now_ms) is None
    assert following.fetch_deadline_ms(bench.state) is None
    following.on_fetched(bench.state, asked, fetched(), bench.now_ms)
    bench.find_batches()
    assert bench.fetches().fetch_offset == 6


def test_batch_that_is_found_too_late_is_kept() -> None:
    """What another leader's log shares is another question: in a new epoch nothing goes for the last one's sake."""
    bench = bench_of_threes()
    following.on_fetched(bench.state, bench.fetches(), diverging(1, 8), bench.now_ms)
    bench.follow(1, 6)
    bench.find_batches()
    assert bench.end == 9
    assert bench.fetches().fetch_offset == 9
