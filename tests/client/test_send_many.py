"""Many records in one call: where they go, and one outcome that is exact for each."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from replica.client.failures import NotWrittenError, OutcomeUnknownError, UnknownTopicError
from replica.client.many import ManyWritten, NotAllWrittenError, RowsOutcome
from replica.client.partitioner import partition_for_key
from replica.client.producer_config import Acks
from replica.core.messages import ProduceRequest, ProduceResponse
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.records import Compression, Record, decode_records, parse_batches
from tests.client.test_producer_cluster import SMALL, changed, producer_of
from tests.client.test_send_cost import CountingLoop
from tests.client.test_sender import WRITTEN, wrong_broker
from tests.client.test_sender import producer_of as scripted_producer_of
from tests.replication.bench import Cluster

VALUES = [b"%d" % number for number in range(500)]


def records_of(cluster: Cluster, partition: int = 0) -> list[Record]:
    """All records of a partition of the topic."""
    batches = parse_batches(cluster.fetch(TopicPartition("orders", partition)).records)
    return [record for batch in batches for record in decode_records(batch)]


def rows_of(outcomes: Sequence[RowsOutcome]) -> list[int]:
    """The rows of these outcomes."""
    return sorted(row for outcome in outcomes for row in outcome.rows)


FORMS: dict[str, Callable[[Any], Any]] = {
    "bytes": list,
    "a tuple": tuple,
    "binary": lambda rows: pa.array(rows, pa.binary()),
    "large_binary": lambda rows: pa.array(rows, pa.large_binary()),
    "string": lambda rows: pa.array([None if row is None else row.decode() for row in rows], pa.string()),
    "large_string": lambda rows: pa.array([None if row is None else row.decode() for row in rows], pa.large_string()),
    "a slice": lambda rows: pa.array([b"before", *rows, None, b"behind"]).slice(1, len(rows)),
    "chunks": lambda rows: pa.chunked_array([pa.array(rows[:3], pa.binary()), pa.array(rows[3:], pa.binary())]),
}
"""The forms in which rows may be handed over."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
async def test_rows_of_every_form_are_written_in_order(lone: Cluster, form: str, compression: Compression) -> None:
    """Values and keys arrive as they were, null ones and empty ones too, each with its time; all learn offsets."""
    lone.create("orders", (1,))
    values: list[bytes | None] = [b"a", None, b"", *VALUES]
    keys: list[bytes | None] = [None, b"", b"k"] * (len(values) // 3) + [b"last"] * (len(values) % 3)
    producer, _ = producer_of(lone, changed(compression=compression))
    async with producer:
        written = await producer.send_many(
            "orders", FORMS[form](values), keys=FORMS[form](keys), timestamps_ms=range(len(values))
        )
    assert written.offsets().tolist() == list(range(len(values)))
    assert [(record.value, record.key, record.timestamp_ms) for record in records_of(lone)] == [
        (value, key, row) for row, (value, key) in enumerate(zip(values, keys, strict=True))
    ]


async def test_keys_decide_as_for_single_records(lone: Cluster) -> None:
    """Equal keys meet in the partition in which ``send`` would put them, in order, and each row learns where it is."""
    lone.create("orders", (1,), (1,), (1,))
    keys = [b"key-%d" % (row % 7) for row in range(len(VALUES))]
    producer, _ = producer_of(lone)
    async with producer:
        written = await producer.send_many("orders", VALUES, keys=keys)
    assert written.partitions().tolist() == [partition_for_key(key, 3) for key in keys]
    for partition in range(3):
        mine = [row for row, key in enumerate(keys) if partition_for_key(key, 3) == partition]
        assert [record.value for record in records_of(lone, partition)] == [VALUES[row] for row in mine]
        assert [written.offsets()[row] for row in mine] == list(range(len(mine)))


async def test_rows_without_keys_are_spread_by_the_batch(lone: Cluster) -> None:
    """Every partition gets its share, whole batches at a time."""
    lone.create("orders", (1,), (1,), (1,))
    producer, _ = producer_of(lone, changed(batch_size=200))
    async with producer:
        shares = Counter((await producer.send_many("orders", VALUES)).partitions())
    assert sum(shares.values()) == len(VALUES)
    assert min(shares[partition] for partition in range(3)) > 50
    values = [record.value for partition in range(3) for record in records_of(lone, partition)]
    assert sorted(values) == sorted(VALUES)  # type: ignore[type-var] # there are no null ones


async def test_one_partition_may_be_named(lone: Cluster) -> None:
    """All rows go there, whatever their keys; a partition that does not exist gets none."""
    lone.create("orders", (1,), (1,))
    producer, _ = producer_of(lone)
    async with producer:
        written = await producer.send_many("orders", VALUES, keys=VALUES, partition=1, timestamps_ms=5)
        assert set(written.partitions()) == {1}
        with pytest.raises(NotWrittenError, match="none of 500 records is written: orders-2 does not exist"):
            await producer.send_many("orders", VALUES, partition=2)
    assert {record.timestamp_ms for record in records_of(lone, 1)} == {5}


async def test_many_are_more_than_the_buffer_holds(lone: Cluster) -> None:
    """Rows wait for room by themselves, and what is sent behind them stays behind them."""
    topic = lone.create("orders", (1,))
    producer, _ = producer_of(lone, SMALL)
    async with producer:
        first = producer.send_many("orders", VALUES[:250])
        second = producer.send_many("orders", VALUES[250:499])
        last = producer.send("orders", VALUES[499])
        assert (await last).offset == 499
        assert (first.done(), second.done()) == (True, True)
    assert lone.values(topic) == VALUES


async def test_nothing_is_nothing(lone: Cluster) -> None:
    """No rows are written at once."""
    lone.create("orders", (1,))
    producer, _ = producer_of(lone)
    async with producer:
        assert await producer.send_many("orders", []) == ManyWritten(record_count=0, batches=())
        assert (await producer.send_many("orders", pa.array([], pa.binary()))).record_count == 0
        assert (await producer.send_many("orders", pa.nulls(2))).record_count == 2


async def test_acks_none_claims_no_offsets(lone: Cluster) -> None:
    """Writes that ask for no acknowledgement are told none."""
    lone.create("orders", (1,))
    producer, _ = producer_of(lone, changed(acks=Acks.NONE))
    async with producer:
        written = await producer.send_many("orders", [b"a", b"b"])
    assert written.offsets() == array("q", [-1, -1])


async def test_each_row_has_its_outcome(lone: Cluster) -> None:
    """Of three batches one is written, one refused and one unknown: the error names the rows of each, and no others."""
    topic = lone.create("orders", (1,), max_message_bytes="300")
    lost: list[object] = []

    def lose(_: object, request: object) -> bool:
        if isinstance(request, ProduceRequest):
            lost.append(request)
        return isinstance(request, ProduceRequest) and len(lost) == 3

    config = changed(enable_idempotence=False, max_in_flight_requests_per_connection=1, batch_size=200)
    producer, _ = producer_of(lone, config, lose)
    values = [bytes(10), bytes(400), b"x" * 10]
    async with producer:
        with pytest.raises(NotAllWrittenError, match="not all of 3 records are acknowledged") as failed:
            await producer.send_many("orders", values)
    error = failed.value
    assert (rows_of(error.written), rows_of(error.not_written), rows_of(error.unknown)) == ([0], [1], [2])
    assert error.written[0].base_offset == 0
    assert error.not_written[0].error is not None
    assert error.not_written[0].error.error is ErrorCode.MESSAGE_TOO_LARGE
    assert isinstance(error, OutcomeUnknownError)
    assert lone.values(topic) == [values[0], values[2]]


async def test_a_row_that_is_too_large_is_the_only_one_that_is_missing(lone: Cluster) -> None:
    """What would make a batch above the producer's own limit is not sent, and all others are."""
    topic = lone.create("orders", (1,))
    producer, _ = producer_of(lone, SMALL)
    async with producer:
        with pytest.raises(NotAllWrittenError, match="above") as failed:
            await producer.send_many("orders", [b"a", bytes(600), b"b"])
        assert rows_of(failed.value.not_written) == [1]
        with pytest.raises(NotWrittenError, match="none of 1 records is written"):
            await producer.send_many("orders", [bytes(600)])
    assert lone.values(topic) == [b"a", b"b"]


async def test_rows_that_find_no_room_in_time_are_not_written(lone: Cluster) -> None:
    """With the leader gone rows give up waiting for room after ``max_block_ms``; those before it are told in time."""
    lone.create("orders", (1,))
    producer, _ = producer_of(lone, changed(**{**SMALL_FIELDS, "max_block_ms": 200, "delivery_timeout_ms": 2000}))
    await producer.send("orders", b"first")
    lone.kill(1)
    with pytest.raises(NotWrittenError, match="none of 500"):
        await producer.send_many("orders", VALUES)
    await producer.close(timeout_ms=0)


SMALL_FIELDS = {"buffer_memory": 1000, "max_request_size": 500, "batch_size": 500}


@pytest.mark.parametrize("timeout_ms", [None, 1])
async def test_a_close_accounts_for_all_rows(lone: Cluster, timeout_ms: int | None) -> None:
    """A close without a limit writes all rows; in a hurry each of them still is in one of three places, and truly."""
    topic = lone.create("orders", (1,))
    producer, _ = producer_of(lone, SMALL)
    await producer.send("orders", b"first")
    many = producer.send_many("orders", VALUES)
    await asyncio.sleep(0)
    await producer.close(timeout_ms)
    if timeout_ms is None:
        assert (await many).record_count == len(VALUES)
        return
    with pytest.raises((NotAllWrittenError, NotWrittenError)) as failed:
        await many
    if isinstance(failed.value, NotAllWrittenError):
        error = failed.value
        parts = [rows_of(part) for part in (error.written, error.not_written, error.unknown)]
        assert sorted(row for part in parts for row in part) == list(range(len(VALUES)))
        assert set(lone.values(topic)).isdisjoint(VALUES[row] for row in parts[1])
    else:
        assert set(lone.values(topic)) == {b"first"}


async def test_a_cancelled_future_takes_nothing_back(lone: Cluster) -> None:
    """Who ceases to wait has written all the same."""
    topic = lone.create("orders", (1,))
    producer, _ = producer_of(lone)
    async with producer:
        producer.send_many("orders", VALUES).cancel()
        await producer.flush()
    assert lone.values(topic) == VALUES


async def test_a_topic_that_does_not_come_is_not_written() -> None:
    """Rows wait for their topic as single records do."""
    producer, _ = producer_of(Cluster(1), changed(max_block_ms=300))
    async with producer:
        with pytest.raises(NotWrittenError, match="nothing does not exist"):
            await producer.send_many("nothing", VALUES)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"values": [b"a", "b"]}, TypeError),
        ({"values": [b"a", bytearray(b"b")]}, TypeError),
        ({"values": pa.array([1, 2])}, TypeError),
        ({"keys": [b"one"]}, ValueError),
        ({"keys": [b"one", 2]}, TypeError),
        ({"timestamps_ms": [1]}, ValueError),
        ({"timestamps_ms": [1, -1]}, ValueError),
        ({"timestamps_ms": -1}, ValueError),
        ({"timestamps_ms": [1, "2"]}, TypeError),
        ({"timestamps_ms": pa.array([1, None], pa.int64())}, ValueError),
        ({"partition": 0.0}, TypeError),
        ({"topic": 7}, TypeError),
    ],
)
async def test_what_are_no_records_is_refused_at_once(given: dict[str, Any], error: type[Exception]) -> None:
    """What cannot be encoded is raised by ``send_many`` itself, with nothing done."""
    producer, connections, _ = scripted_producer_of(WRITTEN)
    async with producer:
        with pytest.raises(error):
            producer.send_many(**{"topic": "orders", "values": [b"a", b"b"], **given})
    assert connections.asked(ProduceRequest) == []


@pytest.mark.parametrize("offsets", [[0, 9, 2], [1, 0, 2], [0, 2, 1]], ids=str)
async def test_a_malformed_array_is_refused(offsets: list[int]) -> None:
    """Arrow lets anybody make an array out of any bytes: one that leads out of its buffers is not read."""
    buffers = [None, pa.py_buffer(array("i", offsets).tobytes()), pa.py_buffer(b"ab")]
    wrong = pa.Array.from_buffers(pa.binary(), 2, buffers)
    producer, _, _ = scripted_producer_of(WRITTEN)
    async with producer:
        with pytest.raises(ValueError, match="offset"):
            producer.send_many("orders", wrong)


async def test_times_of_arrow_are_milliseconds(lone: Cluster) -> None:
    """Timestamps of any unit are written in milliseconds."""
    lone.create("orders", (1,))
    producer, _ = producer_of(lone)
    async with producer:
        for times in (
            pa.array([3000, 4000]),
            pa.array([3, 4], pa.timestamp("s")),
            pa.array([3_000_000, 4_000_000], pa.timestamp("us", tz="UTC")),
        ):
            await producer.send_many("orders", [b"a", b"b"], timestamps_ms=times)
    assert [record.timestamp_ms for record in records_of(lone)] == [3000, 4000] * 3


async def test_a_refused_batch_is_sent_again() -> None:
    """Rows have the retries of any batch."""
    producer, connections, _ = scripted_producer_of(wrong_broker(3), WRITTEN)
    async with producer:
        written = await producer.send_many("orders", [b"a", b"b"])
    assert written.offsets().tolist() == [4, 5]
    assert connections.asked(ProduceRequest) == [1, 3]


async def test_nothing_is_made_for_a_row() -> None:
    """Ten thousand rows cost no more tasks than their few batches do."""
    producer, connections, _ = scripted_producer_of(*[WRITTEN] * 50)
    async with producer:
        await producer.send("orders", b"first")
        loop = CountingLoop()
        await producer.send_many("orders", [bytes(100)] * 10_000)
        batches = len(connections.asked(ProduceRequest)) - 1
    assert batches == 3
    assert loop.tasks <= 2 * batches + 3


async def test_who_catches_two_outcomes_is_safe() -> None:
    """NotWrittenError says that none of the rows is in the log; all that is less certain is OutcomeUnknownError."""
    refused = ProduceResponse(error=ErrorCode.INVALID_RECORD, not_appended=True)
    producer, _, _ = scripted_producer_of(refused)
    async with producer:
        with pytest.raises(NotWrittenError, match="none of 2 records") as failed:
            await producer.send_many("orders", [b"a", b"b"])
    assert failed.value.error is ErrorCode.INVALID_RECORD
    assert not issubclass(NotAllWrittenError, NotWrittenError)
    assert issubclass(UnknownTopicError, NotWrittenError)
