"""A follower of a partition: fetch, append, follow the leader's offsets, and take refusals. Kafka's fetcher threads."""

from __future__ import annotations

import pytest

from nemesis.variants import producing
from replica.core import messages as m
from replica.core.config import BrokerConfig, LogFlush
from replica.core.effects import Append, Effect, Flush, RaiseLogStart, StartLogAt, StoreEpochs, Truncate
from replica.core.partition import following
from replica.core.partition.roles import Unassigned
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset
from replica.records import RecordBatch, encode_batch
from tests.core.harness import batches_of
from tests.core.partition.followers import (
    BACKOFF_MS,
    LOG,
    TOPIC_ID,
    FollowerBench,
    converse,
    diverging,
    fetched,
    leader_log,
    refused,
)

SENT_BY_8 = encode_batch([b"a", b"b"], leader_epoch=5, producer_id=8, producer_epoch=0, base_sequence=0)


def deadline_of(bench: FollowerBench) -> int | None:
    return following.fetch_deadline_ms(bench.state)


# --- what is asked --------------------------------------------------------------------------------------------------


def test_fetch_names_what_this_replica_has() -> None:
    """A fetch carries both epochs, all three offsets, and the partition's share of the bytes."""
    bench = FollowerBench(log=[(1, 2), (3, 1)], log_start=4, high_watermark=5)
    assert bench.fetches() == m.FetchPartition(
        topic_partition=LOG,
        topic_id=TOPIC_ID,
        fetch_offset=Offset(7),
        current_leader_epoch=Epoch(5),
        last_fetched_epoch=Epoch(3),
        log_start_offset=Offset(4),
        high_watermark=Offset(5),
        max_bytes=BrokerConfig().replica_fetch_max_bytes,
    )


@pytest.mark.parametrize(("epochs", "expected"), [({}, None), ({4: 9}, 4)])
def test_empty_log_names_an_epoch_only_if_it_knows_one(epochs: dict[int, int], expected: int | None) -> None:
    """A log that has lost all records to retention still knows their epoch; one that began anew knows none."""
    assert FollowerBench(log_start=9, epochs=epochs).fetches().last_fetched_epoch == expected


def test_fetch_is_asked_for_until_its_answer_comes() -> None:
    """Asking twice what a follower wants changes nothing."""
    bench = FollowerBench(log=[(1, 2)])
    assert bench.ask() == bench.ask()


def test_nothing_is_asked_without_a_leader() -> None:
    """A follower of nobody, and a replica that has not been told what it is, wait for metadata."""
    bench = FollowerBench()
    bench.follow(None, 6)
    assert bench.ask() is None
    bench.state.role = Unassigned()
    assert bench.ask() is None
    assert deadline_of(bench) is None


def test_next_fetch_waits_for_the_flush() -> None:
    """What a fetch offset acknowledges is on stable storage before the fetch goes out."""
    bench = FollowerBench()
    bench.take(bench.fetches(), fetched(batches_of((5, 2))), flush=False)
    assert [type(each) for each in bench.effects] == [StoreEpochs, Append, Flush]
    assert bench.ask() is None
    bench.flush_all()
    assert bench.fetches().fetch_offset == 2


def test_next_fetch_goes_at_once_where_the_system_is_trusted() -> None:
    """With ``log_flush = os`` there is no flush to wait for."""
    bench = FollowerBench(config=BrokerConfig(log_flush=LogFlush.OS))
    bench.take(bench.fetches(), fetched(batches_of((5, 2))), flush=False)
    assert bench.fetches().fetch_offset == 2


# --- records and offsets --------------------------------------------------------------------------------------------


def test_simple_fetch() -> None:
    """Log, epochs and high watermark follow the leader's."""
    bench, leader = FollowerBench(), leader_log((3, 2), (5, 1), high_watermark=2)
    converse(bench, leader)
    assert (bench.ends, bench.epochs) == ((0, 2, 3), {3: 0, 5: 2})


@pytest.mark.parametrize(
    ("known", "told", "expected"),
    [
        pytest.param(1, 3, 3, id="rises"),
        pytest.param(3, 2, 2, id="falls_under_a_leader_that_knows_less"),
        pytest.param(1, 9, 4, id="never_beyond_its_own_end"),
        pytest.param(2, 0, 1, id="never_below_its_own_start"),
        pytest.param(2, None, 2, id="stays_if_the_leader_does_not_know"),
    ],
)
def test_maybe_update_high_watermark_as_follower(known: int, told: int | None, expected: int) -> None:
    """The high watermark is the leader's, within the follower's own log, up or down."""
    bench = FollowerBench(log=[(1, 3)], log_start=1, high_watermark=known)
    bench.take(bench.fetches(), fetched(high_watermark=told))
    assert bench.high_watermark == expected


def test_truncate_on_fetch_does_not_update_high_watermark() -> None:
    """An answer that says that the logs part does not raise the high watermark (KAFKA-14704)."""
    bench = FollowerBench(log=[(1, 2), (2, 3)], high_watermark=1)
    bench.take(bench.fetches(), diverging(1, 4, high_watermark=5))
    assert bench.ends == (0, 1, 2)


def test_log_start_follows_the_leaders() -> None:
    """What the leader has forgotten is forgotten; the epoch that holds the new start is kept."""
    bench = FollowerBench(log=[(1, 2), (2, 3)], high_watermark=1)
    bench.take(bench.fetches(), fetched(high_watermark=4, log_start=3))
    assert (bench.ends, bench.epochs) == ((3, 4, 5), {2: 3})
    assert [type(each) for each in bench.effects] == [RaiseLogStart, StoreEpochs]
    bench.take(bench.fetches(), fetched(high_watermark=4, log_start=2))
    assert bench.effects == []


@pytest.mark.parametrize(
    ("high_watermark", "effect", "known"), [(0, StartLogAt, []), (1, StartLogAt, []), (2, RaiseLogStart, [8])]
)
def test_log_that_ends_where_the_leaders_begins_forgets_what_lies_below(
    high_watermark: int, effect: type[Effect], known: list[int]
) -> None:
    """The leader cannot tell any more whether it agrees about that, so nobody may read it, from then on.

    What was not known to be committed may be in this log alone: its producers have not written it.
    """
    bench = FollowerBench(leader_epoch=5)
    bench.take(bench.fetches(), fetched([SENT_BY_8], high_watermark=high_watermark))
    bench.follow(3, 6)
    bench.take(bench.fetches(), fetched(batches_of((5, 1), start=2), high_watermark=3, log_start=2))
    assert (bench.ends, bench.epochs) == ((2, 3, 3), {5: 2})
    kinds = [type(each) for each in bench.effects]
    assert kinds.index(effect) < kinds.index(Append)
    assert [entry.producer_id for entry in bench.state.producers.entries] == known


def test_log_that_has_agreed_with_the_leaders_does_not_doubt_what_lies_below() -> None:
    """A follower is one answer behind: that its records are committed, and deleted already, comes in the same one."""
    bench = FollowerBench(leader_epoch=5)
    bench.take(bench.fetches(), fetched([SENT_BY_8], high_watermark=0))
    bench.take(bench.fetches(), fetched(high_watermark=2, log_start=2))
    assert bench.ends == (2, 2, 2)
    assert StartLogAt not in [type(each) for each in bench.effects]
    assert [entry.producer_id for entry in bench.state.producers.entries] == [8]


def test_log_start_stays_below_the_high_watermark() -> None:
    """Nothing is forgotten that is not known to be committed."""
    bench = FollowerBench(log=[(1, 5)])
    bench.take(bench.fetches(), fetched(high_watermark=2, log_start=4))
    assert bench.ends == (2, 2, 5)


def test_append_records_as_follower_below_log_start_offset() -> None:
    """An empty log takes the batch that holds its end, and so begins before it; then it forgets as the leader has."""
    bench = FollowerBench(log_start=5, epochs={4: 5}, high_watermark=5)
    batch = encode_batch([b"a", b"b", b"c"], base_offset=3, leader_epoch=4)
    bench.take(bench.fetches(), fetched([batch, *batches_of((5, 1), start=6)], high_watermark=6, log_start=5))
    assert (bench.ends, bench.epochs) == ((5, 6, 7), {4: 5, 5: 6})
    assert [type(each) for each in bench.effects].count(StartLogAt) == 1


def test_leaders_start_inside_a_batch_at_the_end_of_another_log() -> None:
    """A log with records does the same if it ends where the leader's begins: nothing of it is in the leader's."""
    bench = FollowerBench(log=[(1, 5)])
    batch = encode_batch([b"a", b"b"], base_offset=4, leader_epoch=4)
    bench.take(bench.fetches(), fetched([batch], high_watermark=6, log_start=5))
    assert (bench.ends, bench.epochs) == ((5, 6, 6), {4: 5})


# --- damaged answers ------------------------------------------------------------------------------------------------


def test_corrupt_message() -> None:
    """A flipped byte is not appended; the same offset is fetched again after a pause."""
    bench = FollowerBench()
    whole = fetched(batches_of((5, 2)))
    damaged = bytearray(whole.records)
    damaged[-1] ^= 1
    bench.take(bench.fetches(), m.FetchedPartition(topic_partition=LOG, error=ErrorCode.NONE, records=bytes(damaged)))
    assert (bench.end, bench.ask()) == (0, None)
    bench.now_ms += BACKOFF_MS
    bench.take(bench.fetches(), whole)
    assert bench.end == 2


def assert_refused(records: list[RecordBatch]) -> None:
    """A log of two records of epoch 3 stays as it is, and asks again after a pause."""
    bench = FollowerBench(log=[(3, 2)])
    bench.take(bench.fetches(), fetched(records, high_watermark=2, log_start=1))
    assert (bench.ends, bench.effects) == ((0, 0, 2), [])
    assert deadline_of(bench) == bench.now_ms + BACKOFF_MS


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(batches_of((4, 1), start=3), id="append_with_a_gap"),
        pytest.param([*batches_of((4, 1), start=2), *batches_of((4, 1), start=4)], id="append_with_a_gap_inside"),
        pytest.param(batches_of((2, 1), start=2), id="epoch_below_the_last"),
        pytest.param(batches_of((6, 1), start=2), id="epoch_above_the_leaders"),
        pytest.param(batches_of((-1, 1), start=2), id="no_epoch"),
    ],
)
def test_append_with_out_of_order_offsets_throws_exception(records: list[RecordBatch]) -> None:
    """Batches that leave a gap or go back in epochs are not appended, nor is anything believed that came with them."""
    assert_refused(records)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(batches_of((4, 2), start=1), id="begins_before_the_end"),
        pytest.param([encode_batch([b"a", b"b"], base_offset=1, leader_epoch=4)], id="overlaps_a_log_with_records"),
    ],
)
def test_append_below_expected_offset_throws_exception(records: list[RecordBatch]) -> None:
    """Batches that begin before the log's end are not appended, nor is anything believed that came with them."""
    assert_refused(records)


def test_batch_of_an_epoch_before_the_one_that_was_named_is_refused() -> None:
    """A leader that did not say that the logs part has nothing older than the epoch that the fetch named."""
    bench = FollowerBench(log=[(1, 2)], epochs={1: 0, 4: 2})
    bench.take(bench.fetches(), fetched(batches_of((3, 1), start=2)))
    assert (bench.end, bench.epochs) == (2, {1: 0, 4: 2})


def test_append_empty_log_below_log_start_offset_throws_exception() -> None:
    """An empty log does not take a batch that ends before it."""
    bench = FollowerBench(log_start=7, high_watermark=7)
    bench.take(bench.fetches(), fetched(batches_of((4, 1), start=3)))
    assert (bench.ends, bench.effects) == ((7, 7, 7), [])


# --- refusals -------------------------------------------------------------------------------------------------------


def test_fenced_fetch() -> None:
    """A leader in a later epoch stops the follower, which cuts nothing; it goes on with new metadata."""
    bench, leader = FollowerBench(log=[(1, 3)], leader_epoch=4), leader_log((1, 1), leader_epoch=5)
    bench.take(asked := bench.fetches(), leader.answer(asked))
    assert bench.role.is_failed
    bench.now_ms += 10 * BACKOFF_MS
    assert (bench.ask(), deadline_of(bench), bench.end) == (None, None, 3)
    bench.follow(1, 5)
    converse(bench, leader)
    assert bench.end == 1


def test_fenced_answer_of_an_earlier_epoch_stops_nothing() -> None:
    """A follower whose epoch has moved on is not the one that was fenced."""
    bench = FollowerBench(leader_epoch=4)
    late = bench.fetches()
    bench.follow(1, 5)
    bench.take(late, refused(ErrorCode.FENCED_LEADER_EPOCH))
    assert bench.fetches().current_leader_epoch == 5


def test_unknown_leader_epoch_while_fetching() -> None:
    """While the leader does not know this epoch yet, the follower asks again and again, and cuts nothing."""
    bench, leader = FollowerBench(log=[(1, 3)], leader_epoch=5), leader_log((1, 1), leader_epoch=4)
    for _ in range(3):
        bench.take(asked := bench.fetches(), leader.answer(asked))
        assert (bench.ask(), bench.end) == (None, 3)
        bench.now_ms += BACKOFF_MS
    converse(bench, leader_log((1, 1), leader_epoch=5))
    assert bench.end == 1


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_should_poll_indefinitely_if_leader_returns_any_exception(error: ErrorCode) -> None:
    """Any other refusal is answered with a pause, after which the same is asked again."""
    bench = FollowerBench(log=[(1, 3)])
    asked = bench.fetches()
    bench.take(asked, refused(error))
    assert (bench.ask(), bench.effects, deadline_of(bench)) == (None, [], bench.now_ms + BACKOFF_MS)
    bench.now_ms += BACKOFF_MS
    assert bench.fetches() == asked
    assert deadline_of(bench) is None


def test_failed_request_is_repeated_after_a_pause() -> None:
    """No answer at all is as good as a refusal; but one of an earlier epoch does not hold up the present one."""
    bench = FollowerBench()
    asked = bench.fetches()
    following.on_ask_failed(bench.state, asked, bench.now_ms)
    assert bench.ask() is None
    bench.follow(1, 6)
    following.on_ask_failed(bench.state, asked, bench.now_ms)
    assert bench.fetches().current_leader_epoch == 6


# --- answers that came too late -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [6, 7])
@pytest.mark.parametrize(
    "answer", [fetched(batches_of((5, 1), start=2), high_watermark=2), diverging(1, 1), diverging(0, 0)]
)
def test_answer_of_an_earlier_epoch_is_not_taken(answer: m.FetchedPartition, epoch: int) -> None:
    """Neither records nor a truncation of an earlier leader epoch are applied, even from the same leader."""
    bench = FollowerBench(log=[(1, 2)])
    late = bench.fetches()
    bench.follow(1, epoch)
    bench.take(late, answer)
    assert (bench.effects, bench.ends) == ([], (0, 0, 2))


def test_answer_for_another_offset_is_not_taken() -> None:
    """An answer to a fetch that was answered already is not applied a second time."""
    bench = FollowerBench()
    asked = bench.fetches()
    answer = fetched(batches_of((5, 2)))
    bench.take(asked, answer)
    for late in (answer, diverging(5, 1), refused(ErrorCode.OFFSET_OUT_OF_RANGE)):
        bench.take(asked, late)
        assert (bench.effects, bench.end, deadline_of(bench)) == ([], 2, None)
    assert bench.fetches().fetch_offset == 2


def test_truncation_on_fetch_skipped_if_partition_removed() -> None:
    """A replica that follows no more takes no answer."""
    bench = FollowerBench(log=[(1, 2)])
    asked = bench.fetches()
    bench.state.role = Unassigned()
    bench.take(asked, diverging(1, 1))
    assert bench.effects == []


def test_same_leader_in_a_new_epoch_is_compared_with_anew() -> None:
    """A follower that missed who led in between asks its old leader where the logs part (KAFKA-7164)."""
    bench = FollowerBench(log=[(1, 2)])
    bench.take(bench.fetches(), fetched())
    bench.follow(1, 6)
    asked = bench.fetches()
    assert (asked.current_leader_epoch, asked.last_fetched_epoch, bench.role.agrees) == (6, 1, False)
    bench.take(asked, diverging(1, 1))
    assert bench.end == 1


# --- what a new follower keeps --------------------------------------------------------------------------------------


class TruncateToHighWatermark(Rules):
    """Kafka before KIP-101."""

    def kept_by_new_follower(self, *, high_watermark: Offset | None, log_end_offset: Offset) -> Offset:
        """Keep what is known to be committed."""
        return log_end_offset if high_watermark is None else high_watermark


def test_new_follower_keeps_its_whole_log() -> None:
    """What lies above the high watermark may be committed: only the leader can tell."""
    bench = FollowerBench(log=[(1, 2)], high_watermark=1)
    assert bench.fetches().fetch_offset == 2


def test_wrong_variant_cuts_before_the_first_fetch() -> None:
    """The seam: where the rules keep less, it is cut once the log is flushed, before the first fetch, and only then."""
    bench = FollowerBench(log=[(1, 3)], high_watermark=1, rules=TruncateToHighWatermark())
    assert (bench.fetches().fetch_offset, bench.end) == (1, 1)
    assert [type(each) for each in bench.effects].count(Truncate) == 1
    bench.take(bench.fetches(), fetched(batches_of((5, 1), start=1), high_watermark=1), flush=False)
    bench.follow(3, 6)
    assert (bench.ask(), bench.end) == (None, 2)
    bench.flush_all()
    assert bench.fetches().fetch_offset == 1


class AcknowledgeBeforeFlush(TruncateToHighWatermark):
    """Two wrong variants at once: fetches go out before the flush as well."""

    def may_fetch(self, *, flushed_end_offset: Offset, log_end_offset: Offset) -> bool:
        """Always."""
        return True


def test_wrong_variants_cut_only_a_log_at_rest() -> None:
    """Even where a fetch need not wait for the flush, nothing is cut while a flush is owed."""
    bench = FollowerBench(rules=AcknowledgeBeforeFlush())
    bench.take(bench.fetches(), fetched(batches_of((5, 2))), flush=False)
    bench.take(bench.fetches(), diverging(5, 1), flush=False)
    assert bench.end == 2
    bench.follow(3, 6)
    assert (bench.ask(), bench.end) == (None, 2)
    bench.flush_all()
    assert bench.fetches().fetch_offset == 0


# --- producers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rules", "known"), [(Rules(), [8]), (producing.ProducerStateNotRebuilt(), [])])
def test_replicated_producers_are_known(rules: Rules, known: list[int]) -> None:
    """A follower remembers whose batches it replicates, so that as a leader it knows them again."""
    bench = FollowerBench(rules=rules)
    batch = encode_batch([b"a"], leader_epoch=5, producer_id=8, producer_epoch=0, base_sequence=0)
    bench.take(bench.fetches(), fetched([batch]))
    assert [entry.producer_id for entry in bench.state.producers.entries] == known
