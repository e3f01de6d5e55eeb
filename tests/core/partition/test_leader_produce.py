"""The way of a write: what is refused before it is appended, what is acknowledged when, and what stays unknown."""

from __future__ import annotations

import pytest

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.config import BrokerConfig
from replica.core.log.recovered import ProducerBatch, ProducerEntry
from replica.core.metadata.configs import TimestampType, TopicConfig
from replica.core.rules import Rules
from replica.errors import ErrorCode, write_definitely_failed
from replica.ids import Epoch, Offset, ReplicaId
from replica.records import Compression, Record, decode_records, encode_batch, leader_change_batch, parse_batches
from tests.core.partition.bench import LOG, PartitionBench, broker, registration
from tests.records.odd_batches import ODD_RECORDS, bomb

TWO_NEEDED = TopicConfig(min_insync_replicas=2)
CONTROL = leader_change_batch(
    leader_id=ReplicaId(1), voters=(), granting_voters=(), base_offset=Offset(0), leader_epoch=Epoch(0)
).data
ONE = encode_batch([b"a"]).data
TWO_BATCHES = ONE + encode_batch([b"b"]).data
LARGE = encode_batch([b"x" * 2000]).data


def leading(
    *,
    isr: tuple[int, ...] = (1, 2, 3),
    topic: TopicConfig | None = None,
    config: BrokerConfig | None = None,
) -> PartitionBench:
    """Let broker 1 lead epoch 5 with an empty log."""
    bench = PartitionBench(config=config or BrokerConfig())
    bench.metadata(registration(1, 5, isr=isr), topic=topic or TopicConfig())
    return bench


def request(
    *, acks: int = -1, records: bytes = ONE, cluster_id: str | None = None, epoch: int | None = None
) -> m.ProduceRequest:
    """Write a produce."""
    known = None if epoch is None else Epoch(epoch)
    return m.ProduceRequest(
        topic_partition=LOG,
        acks=acks,
        timeout_ms=1000,
        records=records,
        cluster_id=cluster_id,
        current_leader_epoch=known,
    )


def test_whoever_is_appointed_appends_nothing_by_itself() -> None:
    """Every offset of a partition holds a client's record: no leader opens its epoch with one of its own."""
    bench = leading()
    bench.fill(2)
    for leader_id, leader_epoch in ((1, 6), (2, 7), (1, 8)):
        bench.metadata(registration(leader_id, leader_epoch))
    bench.fill(1)
    assert [(batch.base_offset, batch.is_control) for batch in bench.disk.batches] == [
        (0, False),
        (1, False),
        (2, False),
    ]


def refused(bench: PartitionBench, asked: m.ProduceRequest) -> ErrorCode:
    """Hand in a produce that must be refused before anything is appended, and return why."""
    response = bench.answer(asked)
    assert isinstance(response, m.ProduceResponse), response
    assert (response.not_appended, response.base_offset) == (True, None)
    assert not bench.made(fx.Append)
    return response.error


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        pytest.param(request(acks=3), ErrorCode.INVALID_REQUIRED_ACKS, id="test_illegal_required_acks"),
        pytest.param(request(cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID, id="another_cluster"),
        pytest.param(request(epoch=4), ErrorCode.FENCED_LEADER_EPOCH, id="fenced_epoch"),
        pytest.param(request(epoch=6), ErrorCode.UNKNOWN_LEADER_EPOCH, id="unknown_epoch"),
        pytest.param(request(records=b"\x00garbage" * 10), ErrorCode.CORRUPT_MESSAGE, id="garbage"),
        pytest.param(request(records=ONE[:-1] + b"\xff"), ErrorCode.CORRUPT_MESSAGE, id="flipped"),
        pytest.param(request(records=b""), ErrorCode.INVALID_RECORD, id="no_batch"),
        pytest.param(request(records=TWO_BATCHES), ErrorCode.INVALID_RECORD, id="two_batches"),
        pytest.param(
            request(records=ONE + encode_batch([b"b"], base_offset=1).data),
            ErrorCode.INVALID_RECORD,
            id="two_batches_in_a_row",
        ),
        pytest.param(request(records=ONE + ONE[:-1]), ErrorCode.CORRUPT_MESSAGE, id="trailing_bytes"),
        pytest.param(request(records=CONTROL), ErrorCode.INVALID_RECORD, id="control_batch"),
        pytest.param(request(records=LARGE), ErrorCode.MESSAGE_TOO_LARGE, id="too_large"),
    ],
)
@pytest.mark.parametrize("limit", ["broker", "topic"])
def test_append_refused(asked: m.ProduceRequest, error: ErrorCode, limit: str) -> None:
    """What is wrong with a write is found before anything is appended; both limits of its size count."""
    config = BrokerConfig(message_max_bytes=1500 if limit == "broker" else 5000)
    topic = TopicConfig(max_message_bytes=1500 if limit == "topic" else 5000)
    assert refused(leading(config=config, topic=topic), asked) is error


@pytest.mark.parametrize("odd", [*ODD_RECORDS, "lz4 bomb", "zstd bomb"])
def test_records_behind_the_header_are_checked(odd: str) -> None:
    """What no consumer could decode is refused with a reason; nothing is appended, and no retry would help."""
    batch = ODD_RECORDS[odd] if odd in ODD_RECORDS else bomb(Compression(odd.split(maxsplit=1)[0]), 40 << 20)
    assert refused(leading(), request(records=batch.data)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("compression", Compression)
def test_compressed_records_are_taken(compression: Compression) -> None:
    """A batch that is as its header says is appended as it came, however it is compressed."""
    bench = leading()
    sent = encode_batch([b"a" * 100] * 10, compression=compression)
    bench.call(request(acks=1, records=sent.data))
    assert bench.disk.batches[-1].data[21:] == sent.data[21:]


def told_time(topic: TopicConfig) -> PartitionBench:
    """A leader that knows what time it is: 10,000."""
    bench = leading(topic=topic)
    bench.partition.clock.on_told(10_000, bench.now_ms)
    return bench


def stamped(*stamps_ms: int) -> bytes:
    """A batch with a record of each of these times."""
    records = [Record(offset=Offset(at), timestamp_ms=ms, key=None, value=b"v") for at, ms in enumerate(stamps_ms)]
    return encode_batch(records).data


@pytest.mark.parametrize(
    ("stamps_ms", "is_taken"),
    [
        ((10_100,), True),
        ((9_800,), True),
        ((10_101,), False),
        ((9_799,), False),
        ((10_000, 10_101, 10_000), False),
        ((10_000, 9_799, 10_000), False),
        ((-1,), True),
        ((-1, 9_799), False),
        ((0, 10_000), False),
        ((4_070_908_800_000,), False),
    ],
)
def test_timestamps_are_within_what_their_topic_allows(stamps_ms: tuple[int, ...], is_taken: bool) -> None:
    """Each record's time lies within the two spans around the present; one without a time has none to be wrong."""
    bench = told_time(TopicConfig(message_timestamp_after_max_ms=100, message_timestamp_before_max_ms=200))
    asked = request(acks=1, records=stamped(*stamps_ms))
    if is_taken:
        assert bench.produced(bench.call(asked)).error is ErrorCode.NONE
    else:
        assert refused(bench, asked) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(("stamp_ms", "is_taken"), [(0, True), (3_610_000, True), (3_610_001, False)])
def test_an_hour_ahead_is_what_a_topic_allows_by_default(stamp_ms: int, is_taken: bool) -> None:
    """A record of 2099 cannot hold back retention; one of 1970 is as old as it says (Kafka 4.0's defaults)."""
    bench = told_time(TopicConfig())
    response = bench.produced(bench.call(request(acks=1, records=stamped(stamp_ms))))
    assert response.error is (ErrorCode.NONE if is_taken else ErrorCode.INVALID_TIMESTAMP)


def test_a_time_that_has_jumped_refuses_nobody() -> None:
    """For as long as a jump is not believed, records are right by the cluster's time or by this machine's own."""
    bench = leading(topic=TopicConfig())
    right_ms = 90_000_000
    bench.partition.clock.on_read(right_ms, bench.now_ms)
    for told_ms in (right_ms, 0):
        bench.partition.clock.on_told(told_ms, bench.now_ms)
    for stamp_ms in (0, right_ms):
        assert bench.produced(bench.call(request(acks=1, records=stamped(stamp_ms)))).error is ErrorCode.NONE
    assert refused(bench, request(acks=1, records=stamped(2 * right_ms))) is ErrorCode.INVALID_TIMESTAMP
    bench.elapse(bench.partition.config.log_retention_check_interval_ms)
    assert refused(bench, request(acks=1, records=stamped(right_ms))) is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_is_the_leaders_own_after_a_jump() -> None:
    """What was appended while the cluster's time was wrong is not too old, or too young, once that is right again."""
    bench = told_time(TopicConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    bench.partition.clock.on_read(10_000, bench.now_ms)
    bench.partition.clock.on_told(90_000_000, bench.now_ms)
    bench.call(request(acks=1, records=stamped(0)))
    assert bench.disk.batches[-1].max_timestamp_ms == 10_000


@pytest.mark.parametrize("stamp_ms", [0, 10_000, 4_070_908_800_000])
def test_log_append_time_is_the_leaders(stamp_ms: int) -> None:
    """With LogAppendTime all records bear the time of their append, whatever their producer believed."""
    bench = told_time(TopicConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    bench.elapse(5)
    bench.call(request(acks=1, records=stamped(stamp_ms, stamp_ms)))
    (batch,) = parse_batches(bench.disk.batches[-1].data)
    assert (batch.has_log_append_time, batch.max_timestamp_ms) == (True, 10_005)
    assert [record.timestamp_ms for record in decode_records(batch)] == [10_005, 10_005]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (request(acks=3, records=b"", cluster_id="another"), ErrorCode.INVALID_REQUIRED_ACKS),
        (request(records=b"", cluster_id="another", epoch=4), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (request(records=b"", epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (request(records=b""), ErrorCode.NOT_ENOUGH_REPLICAS),
        (request(records=b"", acks=1), ErrorCode.INVALID_RECORD),
    ],
)
def test_order_of_checks(asked: m.ProduceRequest, error: ErrorCode) -> None:
    """Acks, cluster, epoch, leadership, in-sync replicas, and only then the bytes."""
    assert refused(leading(isr=(1,), topic=TWO_NEEDED), asked) is error


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_append_failed_with_not_leader(acks: int) -> None:
    """A write to a follower is refused at the door, definitely not appended, whatever the ISR."""
    bench = PartitionBench()
    bench.metadata(registration(2, 5, isr=(2,)), topic=TWO_NEEDED)
    assert refused(bench, request(acks=acks)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("acks", [0, 1])
def test_min_isr_does_not_block_weaker_writes(acks: int) -> None:
    """min.insync.replicas concerns acks=all only; the high watermark waits all the same."""
    bench = leading(isr=(1,), topic=TWO_NEEDED)
    assert bench.produced(bench.produce(acks=acks)).error is ErrorCode.NONE
    bench.flush_all()
    assert (bench.end, bench.high_watermark) == (1, 0)


def test_acks_leader_is_answered_after_the_append() -> None:
    """acks=1 waits for the leader's log only, not for its disk and not for others."""
    bench = leading()
    response = bench.produced(bench.produce(acks=1))
    assert (response.error, response.base_offset, response.leader_epoch) == (ErrorCode.NONE, 0, 5)
    assert [type(effect) for effect in bench.effects] == [fx.Append, fx.Flush, fx.Reply]


def test_acks_none_promises_nothing() -> None:
    """acks=0 is answered without an offset; the record is appended all the same."""
    bench = leading()
    response = bench.produced(bench.produce(acks=0))
    assert (response.error, response.base_offset, bench.end) == (ErrorCode.NONE, None, 1)


def test_acks_all_is_answered_when_the_isr_has_it() -> None:
    """acks=-1 waits for every in-sync replica, and is answered in the order of the log."""
    bench = leading()
    calls = [bench.produce() for _ in range(3)]
    bench.flush_all()
    bench.fetch(2, 3)
    assert bench.open_calls == set(calls)
    bench.fetch(3, 2)
    assert [bench.produced(call_id).base_offset for call_id in calls[:2]] == [0, 1]
    assert bench.open_calls == {calls[2]}


def test_leader_stamps_offset_and_epoch() -> None:
    """Whatever a producer wrote into the stamp, the leader's own stands there; records and CRC are not touched."""
    bench = leading()
    sent = encode_batch([b"a", b"b"], base_offset=77, leader_epoch=3)
    bench.call(request(acks=1, records=sent.data))
    batch = bench.disk.batches[-1]
    assert (batch.base_offset, batch.end_offset, batch.leader_epoch) == (0, 2, 5)
    assert batch.data[16:] == sent.data[16:]


def test_produce_timeout_is_unknown() -> None:
    """A write that is not committed in time may be committed later: timed out, and not known to have failed."""
    bench = leading()
    call_id = bench.produce(timeout_ms=250)
    bench.elapse(249)
    assert call_id in bench.open_calls
    bench.elapse(1)
    response = bench.produced(call_id)
    assert response.error is ErrorCode.REQUEST_TIMED_OUT
    assert not write_definitely_failed(response.error, not_appended=response.not_appended)


@pytest.mark.parametrize(("timeout_ms", "wait_ms"), [(0, 0), (-5, 0), (1 << 40, 500)])
def test_produce_timeout_is_bounded(timeout_ms: int, wait_ms: int) -> None:
    """No write waits longer than the configured maximum, and one that would not wait is answered at once."""
    bench = leading(config=BrokerConfig(produce_timeout_max_ms=500))
    call_id = bench.produce(timeout_ms=timeout_ms)
    bench.elapse(wait_ms)
    assert bench.produced(call_id).error is ErrorCode.REQUEST_TIMED_OUT


def test_leadership_lost_while_a_write_waits_is_unknown() -> None:
    """The same code as at the door, but not the same meaning: what the next leader has decides."""
    bench = leading()
    call_id = bench.produce()
    bench.metadata(registration(2, 6))
    response = bench.produced(call_id)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)


def test_write_waits_on_when_its_leader_is_appointed_again() -> None:
    """A leader that leads on in a new epoch still has the record, and answers for it with the epoch of its stamp."""
    bench = leading()
    call_id = bench.produce()
    bench.flush_all()
    bench.metadata(registration(1, 6))
    assert call_id in bench.open_calls
    bench.fetch(2, 1)
    bench.fetch(3, 1)
    assert (bench.produced(call_id).base_offset, bench.produced(call_id).leader_epoch) == (0, 5)


def test_close_leaves_the_outcome_unknown() -> None:
    """A write to a partition that goes away is answered, and nobody is told that it failed."""
    bench = leading()
    call_id = bench.produce()
    bench.partition.close()
    response = bench.produced(call_id)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)


def test_full_purgatory_refuses_writes() -> None:
    """One write more than can wait is refused before it is appended."""
    bench = leading(config=BrokerConfig(parked_produces_max=1))
    bench.produce()
    assert refused(bench, request()) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_not_enough_replicas_refuses_before_append() -> None:
    """acks=all with too few in-sync replicas: nothing is appended, and the answer says so."""
    bench = leading(isr=(1,), topic=TWO_NEEDED)
    assert refused(bench, request()) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.end == 0


def test_min_isr_counts_the_committed_isr() -> None:
    """A follower that is merely proposed is not yet one of the replicas that a write may count on."""
    bench = leading(isr=(1,), topic=TWO_NEEDED)
    bench.fetch(2, 0)
    assert bench.maximal_isr == {1, 2}
    assert refused(bench, request()) is ErrorCode.NOT_ENOUGH_REPLICAS


class Ungated(Rules):
    """Lets the high watermark advance with too few in-sync replicas, as it did before KAFKA-15583."""

    def may_advance_high_watermark(self, *, isr_size: int, min_insync_replicas: int) -> bool:
        return True


@pytest.mark.parametrize(
    ("rules", "error"),
    [(Rules(), ErrorCode.REQUEST_TIMED_OUT), (Ungated(), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)],
    ids=["gated", "ungated"],
)
def test_not_enough_replicas_after_append(rules: Rules, error: ErrorCode) -> None:
    """A write whose replicas leave while it waits has an unknown outcome, whether the high watermark waits or not."""
    bench = PartitionBench(rules=rules)
    bench.metadata(registration(1, 5, isr=(1, 2)), topic=TWO_NEEDED)
    call_id = bench.produce()
    bench.flush_all()
    bench.metadata(registration(1, 5, partition_epoch=501, isr=(1,)), changed=[broker(2, fenced=True)])
    bench.elapse(1000)
    response = bench.produced(call_id)
    assert (response.error, response.not_appended) == (error, False)
    assert not write_definitely_failed(response.error, not_appended=response.not_appended)


def test_shrunken_isr_answers_who_waits_for_it() -> None:
    """When the controller puts out the follower that a write waits for, the write is committed by that."""
    bench = leading(isr=(1, 2))
    call_id = bench.produce()
    bench.flush_all()
    assert call_id in bench.open_calls
    bench.metadata(registration(1, 5, partition_epoch=501, isr=(1,)), changed=[broker(2, fenced=True)])
    assert bench.produced(call_id).base_offset == 0


# --- idempotent producers ---------------------------------------------------------------------------------------------


def test_duplicate_is_answered_with_the_original_offset() -> None:
    """A batch that is sent again is not appended again; its answer names where it stands."""
    bench = leading()
    first = bench.produced(bench.produce(acks=1, sequence=0))
    bench.produce(acks=1, sequence=1)
    again = bench.produced(bench.produce(acks=1, sequence=0))
    assert (again, bench.end) == (first, 2)


def test_duplicate_waits_for_its_commit() -> None:
    """With acks=all, a duplicate is acknowledged when its original is committed, not before."""
    bench = leading()
    bench.produce(acks=1, sequence=0)
    again = bench.produce(sequence=0)
    bench.flush_all()
    assert again in bench.open_calls
    bench.fetch(2, 1)
    bench.fetch(3, 1)
    assert bench.produced(again).base_offset == 0
    assert bench.produced(bench.produce(sequence=0)).base_offset == 0, "once it is committed, at once"


def test_out_of_order_sequence_is_definitely_not_appended() -> None:
    """A gap in the sequence numbers is refused before the append."""
    bench = leading()
    bench.produce(acks=1, sequence=0)
    response = bench.produced(bench.produce(sequence=2))
    assert (response.error, response.not_appended) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, True)


def test_idempotent_writes_wait_for_the_scan_after_a_truncation() -> None:
    """Until a log that was cut has been read again, no sequence number can be judged; others are not concerned."""
    bench = leading()
    bench.produce(acks=1, sequence=0)
    bench.produce(acks=1, sequence=1)
    bench.flush_all()
    kept = bench.partition.producers.entries[0]
    bench.metadata(registration(2, 6))
    bench.partition.truncate(Offset(1))
    assert bench.made(fx.ScanProducers)
    bench.metadata(registration(1, 7))
    response = bench.produced(bench.produce(sequence=1))
    assert (response.error, response.not_appended) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)
    assert bench.produced(bench.produce(acks=1)).error is ErrorCode.NONE
    bench.partition.on_producers_scanned([type(kept)(producer_id=5, producer_epoch=0, batches=kept.batches[:1])])
    assert bench.produced(bench.produce(acks=1, sequence=1)).base_offset == 2


def numbered(bench: PartitionBench, producer_id: int, sequence: int = 0) -> m.ProduceResponse:
    """Write the batch of this number of an idempotent producer."""
    batch = encode_batch([b"v"], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return bench.produced(bench.call(request(acks=1, records=batch.data)))


def test_many_producer_ids_have_nobody_forgotten() -> None:
    """Forged ids fill the memory and no more: an honest producer's repetition is known, and only new ones wait."""
    config = BrokerConfig(producer_ids_max=3, producer_id_expiration_ms=60_000, log_retention_check_interval_ms=1000)
    bench = leading(config=config)
    assert numbered(bench, 5).base_offset == 0
    answers = [numbered(bench, producer_id) for producer_id in range(100, 110)]
    assert [answer.error for answer in answers] == [ErrorCode.NONE] * 2 + [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 8
    assert answers[-1].not_appended
    assert answers[-1].message.startswith("3 producers are remembered here")
    assert (numbered(bench, 5).base_offset, numbered(bench, 5, sequence=1).base_offset) == (0, 3)
    bench.elapse(62_000)
    assert numbered(bench, 110).error is ErrorCode.NONE


def test_a_follower_forgets_producers_as_well() -> None:
    """Whoever was a follower for long has room for new producers when it leads."""
    entry = ProducerEntry(
        producer_id=5,
        producer_epoch=0,
        batches=(
            ProducerBatch(
                base_sequence=0, last_sequence=0, base_offset=Offset(0), end_offset=Offset(1), max_timestamp_ms=-1
            ),
        ),
    )
    config = BrokerConfig(producer_ids_max=1, producer_id_expiration_ms=60_000, log_retention_check_interval_ms=1000)
    bench = PartitionBench(config=config, producers=(entry,))
    bench.metadata(registration(2, 5))
    bench.elapse(62_000)
    bench.metadata(registration(1, 6))
    assert numbered(bench, 6).error is ErrorCode.NONE
