"""The accumulator as a table of moments: what is sent when, under which numbers, and what becomes of failures."""

from __future__ import annotations

import pytest

from replica.client.accumulator import RecordAccumulator, record_bytes_bound
from replica.client.delivery import Delivery
from replica.client.producer_config import ProducerConfig
from replica.client.producer_values import (
    BatchId,
    BufferFullError,
    GivenUp,
    ProducerIdentity,
    ReadyBatch,
    RecordTooLargeError,
)
from replica.ids import TopicPartition
from replica.records import HEADER_BYTES, Compression, Header, decode_records, encode_batch

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
IDENTITY = ProducerIdentity(producer_id=7, producer_epoch=0)
LINGER_MS, TIMEOUT_MS, BACKOFF_MS = 5, 1000, 10


def accumulator_of(
    *,
    identity: ProducerIdentity | None = IDENTITY,
    batch_bytes: int = 1000,
    max_in_flight: int = 5,
    enable_idempotence: bool = True,
    compression: Compression = Compression.NONE,
) -> RecordAccumulator:
    config = ProducerConfig(
        linger_ms=LINGER_MS,
        batch_size=batch_bytes,
        max_request_size=5000,
        buffer_memory=20_000,
        max_in_flight_requests_per_connection=max_in_flight,
        request_timeout_ms=TIMEOUT_MS - LINGER_MS,
        delivery_timeout_ms=TIMEOUT_MS,
        retry_backoff_ms=BACKOFF_MS,
        retry_backoff_max_ms=4 * BACKOFF_MS,
        enable_idempotence=enable_idempotence,
        compression=compression,
    )
    accumulator = RecordAccumulator(config)
    if identity is not None:
        accumulator.on_producer_id(identity)
    return accumulator


@pytest.fixture
def accumulator() -> RecordAccumulator:
    """An empty one of an idempotent producer."""
    return accumulator_of()


def append(
    accumulator: RecordAccumulator,
    to: TopicPartition,
    value: bytes | None,
    *,
    key: bytes | None = None,
    headers: tuple[Header, ...] = (),
    timestamp_ms: int = 0,
    now_ms: int,
) -> Delivery:
    """Append one record."""
    size = record_bytes_bound(key, value, headers)
    return accumulator.append(accumulator.queue(to), size, value, key, headers, timestamp_ms, lambda: now_ms)


def batch_id_of(delivery: Delivery) -> BatchId:
    batch_id = delivery.batch.batch_id
    assert batch_id is not None
    return batch_id


def put(accumulator: RecordAccumulator, *values: bytes, now_ms: int = 0, to: TopicPartition = P0) -> BatchId:
    """Append ``values`` and close their batch. Returns its id."""
    deliveries = [append(accumulator, to, value, now_ms=now_ms) for value in values]
    accumulator.flush()
    assert len({delivery.batch for delivery in deliveries}) == 1
    return batch_id_of(deliveries[0])


def known(accumulator: RecordAccumulator) -> None:
    """Have a first batch of one record acknowledged, so that the leader knows the producer."""
    first = put(accumulator, b"first")
    assert sent(accumulator, 0) == [first]
    accumulator.on_written(first)


def sent(accumulator: RecordAccumulator, now_ms: int) -> list[BatchId]:
    return [ready.batch_id for ready in accumulator.drain(now_ms)]


def numbers(ready: ReadyBatch) -> tuple[int, int, int]:
    """Return the producer's epoch and the first and last sequence number."""
    return ready.batch.producer_epoch, ready.batch.base_sequence, ready.batch.last_sequence


def values(ready: ReadyBatch) -> list[bytes | None]:
    return [record.value for record in decode_records(ready.batch)]


def test_a_batch_goes_at_once_where_nothing_is_in_flight(accumulator: RecordAccumulator) -> None:
    """A record that comes alone waits for nobody; those behind it share a batch once its answer is there."""
    first = append(accumulator, P0, b"0", now_ms=0)
    assert accumulator.deadline_ms == 0
    assert sent(accumulator, 0) == [batch_id_of(first)]
    deliveries = [append(accumulator, P0, b"%d" % now_ms, now_ms=now_ms) for now_ms in (1, 2)]
    assert accumulator.drain(2) == ()
    accumulator.on_written(batch_id_of(first))
    (ready,) = accumulator.drain(2)
    assert values(ready) == [b"1", b"2"]
    assert [delivery.position for delivery in deliveries] == [0, 1]


def test_records_linger_for_company_behind_what_is_in_flight(accumulator: RecordAccumulator) -> None:
    """A batch behind another is sent ``linger_ms`` after its first record, with all that came meanwhile."""
    known(accumulator)
    put(accumulator, b"in flight")
    assert len(sent(accumulator, 0)) == 1
    deliveries = [append(accumulator, P0, b"%d" % now_ms, now_ms=now_ms) for now_ms in (0, 2, 4)]
    assert [(batch_id_of(each), each.position) for each in deliveries] == [(BatchId(2), at) for at in range(3)]
    assert accumulator.deadline_ms == LINGER_MS
    assert accumulator.drain(LINGER_MS - 1) == ()
    (ready,) = accumulator.drain(LINGER_MS)
    assert (ready.batch_id, ready.topic_partition, ready.attempt) == (2, P0, 1)
    assert values(ready) == [b"0", b"2", b"4"]
    assert accumulator.drain(LINGER_MS) == ()
    assert accumulator.deadline_ms == TIMEOUT_MS


def test_a_full_batch_does_not_linger() -> None:
    """A record that does not fit opens the next batch, and the full one is sent at once."""
    accumulator = accumulator_of(batch_bytes=200)
    known(accumulator)
    put(accumulator, b"in flight")
    assert len(sent(accumulator, 0)) == 1
    batch_ids = [batch_id_of(append(accumulator, P0, bytes(50), now_ms=0)) for _ in range(2)]
    assert batch_ids == [2, 3]
    assert sent(accumulator, 0) == [2]


def test_a_record_above_the_batch_size_goes_alone() -> None:
    """A large record makes a batch of its own, and takes nothing with it."""
    accumulator = accumulator_of(batch_bytes=200)
    for size in (1, 1000, 1):
        append(accumulator, P0, bytes(size), now_ms=0)
    (first,) = accumulator.drain(LINGER_MS)
    accumulator.on_written(first.batch_id)
    large, last = accumulator.drain(LINGER_MS)
    assert [ready.batch.record_count for ready in (first, large, last)] == [1, 1, 1]
    assert large.batch.size_bytes > 1000


def test_a_batch_that_was_sent_takes_no_more(accumulator: RecordAccumulator) -> None:
    """A record that comes while a batch is in flight goes into the next, however empty that one was."""
    known(accumulator)
    append(accumulator, P0, b"a", now_ms=0)
    (ready,) = accumulator.drain(LINGER_MS)
    assert batch_id_of(append(accumulator, P0, b"b", now_ms=LINGER_MS)) != ready.batch_id


def test_keys_headers_and_times_arrive_in_the_batch() -> None:
    """What makes a record is in the batch, compressed or not, each with its own time."""
    for compression in Compression:
        accumulator = accumulator_of(compression=compression)
        append(accumulator, P0, b"v", key=b"k", headers=(("h", None),), timestamp_ms=77, now_ms=0)
        append(accumulator, P0, None, key=b"k", timestamp_ms=70, now_ms=0)
        (ready,) = accumulator.drain(LINGER_MS)
        first, second = decode_records(ready.batch)
        assert (first.key, first.value, first.headers, first.timestamp_ms) == (b"k", b"v", (("h", None),), 77)
        assert (second.key, second.value, second.headers, second.timestamp_ms) == (b"k", None, (), 70)
        assert ready.batch.compression is compression


def test_the_size_of_a_record_is_estimated_from_above(accumulator: RecordAccumulator) -> None:
    """No batch turns out larger than its estimate, whatever the widths of its numbers."""
    headers = (("name" * 40, bytes(300)), ("", None))
    for timestamp_ms in (0, 2**62, -(2**62)):
        append(accumulator, P0, bytes(9), key=bytes(70), headers=headers, timestamp_ms=timestamp_ms, now_ms=0)
    accumulator.flush()
    bound = record_bytes_bound(bytes(70), bytes(9), headers)
    while not accumulator.is_empty:
        for ready in accumulator.drain(0):
            assert ready.batch.size_bytes <= HEADER_BYTES + ready.batch.record_count * bound
            accumulator.on_written(ready.batch_id)


def test_nothing_is_sent_before_the_producer_id_is_known() -> None:
    """An idempotent producer asks for an id when it has something to send, and numbers from 0 when it has one."""
    accumulator = accumulator_of(identity=None)
    wanted = [accumulator.wants_producer_id]
    put(accumulator, b"a", b"b")
    wanted.append(accumulator.wants_producer_id)
    assert accumulator.drain(0) == ()
    assert accumulator.deadline_ms == TIMEOUT_MS
    accumulator.on_producer_id(IDENTITY)
    wanted.append(accumulator.wants_producer_id)
    assert wanted == [False, True, False]
    (ready,) = accumulator.drain(0)
    assert (ready.batch.producer_id, *numbers(ready)) == (7, 0, 0, 1)


def test_sequence_numbers_are_given_per_partition_when_sent(accumulator: RecordAccumulator) -> None:
    """Numbers count the records of one partition, in the order in which its batches are sent."""
    for batch in ((b"a", b"b"), (b"c",), (b"d", b"e", b"f")):
        put(accumulator, *batch, to=P0)
        put(accumulator, *batch[:1], to=P1)
    given: dict[TopicPartition, list[tuple[int, int, int]]] = {P0: [], P1: []}
    while not accumulator.is_empty:
        for ready in accumulator.drain(0):
            given[ready.topic_partition].append(numbers(ready))
            accumulator.on_written(ready.batch_id)
    assert given == {P0: [(0, 0, 1), (0, 2, 2), (0, 3, 5)], P1: [(0, 0, 0), (0, 1, 1), (0, 2, 2)]}


def test_the_first_batch_of_a_partition_goes_alone(accumulator: RecordAccumulator) -> None:
    """A leader that does not know the producer would take the second batch as its first."""
    batch_ids = [put(accumulator, b"v") for _ in range(3)]
    assert sent(accumulator, 0) == batch_ids[:1]
    accumulator.on_written(batch_ids[0])
    assert sent(accumulator, 0) == batch_ids[1:]


@pytest.mark.parametrize("max_in_flight", [1, 3, 5])
def test_no_more_than_the_limit_is_in_flight_per_partition(max_in_flight: int) -> None:
    """The limit holds per partition, and each acknowledgement lets one more go."""
    accumulator = accumulator_of(max_in_flight=max_in_flight)
    known(accumulator)
    batch_ids = [put(accumulator, b"v") for _ in range(7)]
    elsewhere = put(accumulator, b"v", to=P1)
    assert sent(accumulator, 0) == [*batch_ids[:max_in_flight], elsewhere]
    assert accumulator.deadline_ms == TIMEOUT_MS
    accumulator.on_written(batch_ids[0])
    assert sent(accumulator, 0) == batch_ids[max_in_flight : max_in_flight + 1]


@pytest.mark.parametrize("may_be_written", [True, False])
def test_a_repetition_is_the_same_bytes(accumulator: RecordAccumulator, may_be_written: bool) -> None:
    """After a pause a batch is sent again under the numbers it had: that is how a leader knows it."""
    batch_id = put(accumulator, b"a")
    (first,) = accumulator.drain(0)
    assert accumulator.on_retriable(batch_id, may_be_written=may_be_written, now_ms=3) is None
    assert accumulator.deadline_ms == 3 + BACKOFF_MS
    assert accumulator.drain(2 + BACKOFF_MS) == ()
    (again,) = accumulator.drain(3 + BACKOFF_MS)
    assert (again.batch_id, again.attempt, again.batch) == (batch_id, 2, first.batch)


def test_pauses_double_up_to_their_limit(accumulator: RecordAccumulator) -> None:
    """The pause before each attempt is twice the last, up to ``retry_backoff_max_ms``."""
    batch_id = put(accumulator, b"a")
    now_ms, pauses = 0, []
    for _ in range(5):
        assert sent(accumulator, now_ms) == [batch_id]
        accumulator.on_retriable(batch_id, may_be_written=True, now_ms=now_ms)
        deadline_ms = accumulator.deadline_ms
        assert deadline_ms is not None
        pauses.append(deadline_ms - now_ms)
        now_ms = deadline_ms
    assert pauses == [10, 20, 40, 40, 40]


def test_order_holds_while_batches_are_repeated(accumulator: RecordAccumulator) -> None:
    """The first of three fails, those behind it are refused: all go again one by one, in order, before new ones."""
    known(accumulator)
    a, b, c = (put(accumulator, b"v") for _ in range(3))
    assert sent(accumulator, 0) == [a, b, c]
    new = put(accumulator, b"v")
    assert accumulator.on_out_of_order(c, now_ms=0) is None
    assert accumulator.on_out_of_order(b, now_ms=1) is None
    assert accumulator.deadline_ms == TIMEOUT_MS
    assert accumulator.on_retriable(a, may_be_written=True, now_ms=5) is None
    order = []
    for now_ms in range(5, 100):
        for batch_id in sent(accumulator, now_ms):
            order.append(batch_id)
            accumulator.on_written(batch_id)
    assert order == [a, b, c, new]


@pytest.mark.parametrize("answered_first", [True, False])
def test_numbers_start_again_behind_a_batch_that_was_refused(
    accumulator: RecordAccumulator, answered_first: bool
) -> None:
    """A batch that is refused for good leaves a hole: what follows gets a new epoch, numbered from 0, in order."""
    known(accumulator)
    a, b, c = put(accumulator, b"a"), put(accumulator, b"b", b"b"), put(accumulator, b"c")
    assert [numbers(ready) for ready in accumulator.drain(0)] == [(0, 1, 1), (0, 2, 3), (0, 4, 4)]
    if answered_first:
        accumulator.on_out_of_order(b, now_ms=0)
    assert accumulator.on_refused(a, may_be_written=False) == GivenUp(
        batch_id=a, topic_partition=P0, may_be_written=False
    )
    new = put(accumulator, b"new")
    assert accumulator.drain(50) == ()
    if not answered_first:
        accumulator.on_out_of_order(b, now_ms=0)
    assert accumulator.drain(50) == ()
    accumulator.on_out_of_order(c, now_ms=0)
    (again,) = accumulator.drain(50)
    assert (again.batch_id, again.attempt, numbers(again)) == (b, 2, (1, 0, 1))
    accumulator.on_written(b)
    assert [(ready.batch_id, numbers(ready)) for ready in accumulator.drain(50)] == [(c, (1, 2, 2)), (new, (1, 3, 3))]


def test_other_partitions_keep_their_epoch(accumulator: RecordAccumulator) -> None:
    """A hole in one partition is no concern of another: a leader compares epochs within a partition."""
    put(accumulator, b"a", to=P1)
    bad = put(accumulator, b"a", to=P0)
    for ready in accumulator.drain(0):
        if ready.batch_id == bad:
            accumulator.on_refused(bad, may_be_written=False)
        else:
            accumulator.on_written(ready.batch_id)
    put(accumulator, b"b", to=P0)
    put(accumulator, b"b", to=P1)
    assert {r.topic_partition: numbers(r) for r in accumulator.drain(0)} == {P0: (1, 0, 0), P1: (0, 1, 1)}


def test_what_may_be_written_is_never_numbered_anew(accumulator: RecordAccumulator) -> None:
    """Behind a hole a batch of unknown outcome is repeated as it is, and given up as unknown if it does not fit."""
    known(accumulator)
    a, b, c = (put(accumulator, b"v") for _ in range(3))
    first = {ready.batch_id: ready.batch for ready in accumulator.drain(0)}
    accumulator.on_out_of_order(b, now_ms=0)
    accumulator.on_retriable(c, may_be_written=True, now_ms=0)
    accumulator.on_refused(a, may_be_written=False)
    (again,) = accumulator.drain(50)
    assert (again.batch_id, again.batch) == (c, first[c])
    assert accumulator.on_out_of_order(c, now_ms=50) == GivenUp(batch_id=c, topic_partition=P0, may_be_written=True)
    (restarted,) = accumulator.drain(50)
    assert (restarted.batch_id, numbers(restarted)) == (b, (1, 0, 0))


def test_an_acknowledged_batch_that_the_leader_misses_is_not_papered_over(accumulator: RecordAccumulator) -> None:
    """Out of order with nothing before it means that the leader lost what it had acknowledged: the batch fails."""
    known(accumulator)
    a = put(accumulator, b"v")
    assert sent(accumulator, 0) == [a]
    assert accumulator.on_out_of_order(a, now_ms=0) == GivenUp(batch_id=a, topic_partition=P0, may_be_written=False)
    put(accumulator, b"v")
    assert [numbers(ready) for ready in accumulator.drain(0)] == [(1, 0, 0)]


def test_a_late_out_of_order_is_judged_by_what_stood_before_it_when_it_was_sent(accumulator: RecordAccumulator) -> None:
    """The batch before it is acknowledged in the meantime: the old refusal is no sign of loss."""
    known(accumulator)
    a, b = put(accumulator, b"v"), put(accumulator, b"v")
    assert sent(accumulator, 0) == [a, b]
    accumulator.on_written(a)
    assert accumulator.on_out_of_order(b, now_ms=0) is None
    assert sent(accumulator, BACKOFF_MS) == [b]


def test_an_epoch_that_can_grow_no_more_asks_for_a_new_id() -> None:
    """Behind the largest epoch comes another producer id, and nothing is sent until it is there."""
    accumulator = accumulator_of(identity=ProducerIdentity(producer_id=7, producer_epoch=2**15 - 1))
    a, b = put(accumulator, b"v"), put(accumulator, b"v")
    assert sent(accumulator, 0) == [a]
    accumulator.on_refused(a, may_be_written=False)
    assert accumulator.wants_producer_id
    assert accumulator.drain(0) == ()
    accumulator.on_producer_id(ProducerIdentity(producer_id=8, producer_epoch=0))
    (ready,) = accumulator.drain(0)
    assert (ready.batch_id, ready.batch.producer_id, numbers(ready)) == (b, 8, (0, 0, 0))


def test_a_batch_expires_wherever_it_is(accumulator: RecordAccumulator) -> None:
    """The delivery timeout counts from the first record; a batch that expires in flight may be written."""
    known(accumulator)
    in_flight = put(accumulator, b"v", now_ms=0)
    assert sent(accumulator, 0) == [in_flight]
    elsewhere = put(accumulator, b"v", now_ms=0, to=P1)
    assert sent(accumulator, 0) == [elsewhere]
    refused = accumulator.on_retriable(elsewhere, may_be_written=False, now_ms=990)
    assert refused is None
    lingering = batch_id_of(append(accumulator, P0, b"v", now_ms=1))
    assert accumulator.expire(TIMEOUT_MS - 1) == ()
    assert accumulator.expire(TIMEOUT_MS) == (
        GivenUp(batch_id=in_flight, topic_partition=P0, may_be_written=True),
        GivenUp(batch_id=elsewhere, topic_partition=P1, may_be_written=False),
    )
    assert accumulator.deadline_ms is not None
    assert accumulator.expire(TIMEOUT_MS + 1) == (
        GivenUp(batch_id=lingering, topic_partition=P0, may_be_written=False),
    )
    assert accumulator.is_empty
    assert accumulator.deadline_ms is None


def test_what_is_told_of_a_settled_batch_is_ignored(accumulator: RecordAccumulator) -> None:
    """An answer that comes after the batch was given up or acknowledged changes nothing."""
    late = put(accumulator, b"v")
    assert sent(accumulator, 0) == [late]
    assert len(accumulator.expire(TIMEOUT_MS)) == 1
    accumulator.on_written(late)
    assert accumulator.on_retriable(late, may_be_written=True, now_ms=TIMEOUT_MS) is None
    assert accumulator.on_out_of_order(late, now_ms=TIMEOUT_MS) is None
    assert accumulator.on_refused(late, may_be_written=True) is None
    assert accumulator.is_empty


def test_the_end_of_an_attempt_counts_once(accumulator: RecordAccumulator) -> None:
    """A batch that waits for its next attempt is not moved by a second report on the last one."""
    batch_id = put(accumulator, b"v")
    assert sent(accumulator, 0) == [batch_id]
    accumulator.on_retriable(batch_id, may_be_written=False, now_ms=0)
    accumulator.on_retriable(batch_id, may_be_written=True, now_ms=50)
    assert accumulator.on_refused(batch_id, may_be_written=True) is None
    accumulator.on_written(batch_id)
    assert sent(accumulator, BACKOFF_MS) == [batch_id]


def test_without_idempotence_nothing_unknown_is_repeated() -> None:
    """A definite refusal is sent again, without numbers; a lost answer ends the batch as unknown."""
    accumulator = accumulator_of(identity=None, enable_idempotence=False)
    a, b = put(accumulator, b"v"), put(accumulator, b"w")
    (ready, _) = accumulator.drain(0)
    assert not ready.batch.is_idempotent
    assert not accumulator.wants_producer_id
    assert accumulator.on_retriable(a, may_be_written=False, now_ms=0) is None
    assert accumulator.on_retriable(b, may_be_written=True, now_ms=0) == GivenUp(
        batch_id=b, topic_partition=P0, may_be_written=True
    )
    assert sent(accumulator, BACKOFF_MS) == [a]


def test_memory_has_a_limit(accumulator: RecordAccumulator) -> None:
    """A full buffer refuses records until a batch is settled, and a record that never fits is refused as that."""
    with pytest.raises(RecordTooLargeError, match="is above"):
        append(accumulator, P0, bytes(5000), now_ms=0)
    assert accumulator.is_empty
    taken = 0
    with pytest.raises(BufferFullError, match="of 20000 bytes"):
        while True:
            append(accumulator, P0, bytes(4000), now_ms=0)
            taken += 1
    assert taken == 4
    (ready,) = accumulator.drain(0)
    accumulator.on_written(ready.batch_id)
    append(accumulator, P0, bytes(4000), now_ms=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"linger_ms": -1}, "must not be below 0"),
        ({"batch_size": 0}, "must be above 0"),
        ({"max_in_flight_requests_per_connection": 0}, "must be above 0"),
        ({"max_in_flight_requests_per_connection": 6}, "must be at most 5"),
        ({"delivery_timeout_ms": 5, "linger_ms": 5}, "no attempt has its time"),
        ({"max_request_size": 64 << 20}, "a record could fit nowhere"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(wrong: dict[str, int], message: str) -> None:
    """Each limit is checked at the start, alone and against the others."""
    with pytest.raises(ValueError, match=message):
        ProducerConfig(**wrong)  # type: ignore[arg-type]  # the table holds whole numbers for fields of that type


def test_the_encoded_batch_is_what_the_format_says(accumulator: RecordAccumulator) -> None:
    """A drained batch is byte for byte what the encoder makes of the same values."""
    put(accumulator, b"a", b"b")
    (ready,) = accumulator.drain(0)
    assert ready.batch == encode_batch([b"a", b"b"], timestamp_ms=0, producer_id=7, producer_epoch=0, base_sequence=0)
