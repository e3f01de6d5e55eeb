"""Reading as columns: the records that ``poll`` returns, without an object for each."""

from __future__ import annotations

import gc
from dataclasses import replace

import pyarrow as pa
import pytest

from replica.client.arrow_records import RECORDS_SCHEMA
from replica.client.failures import UnreadableBatchError
from replica.client.polled import PolledRecords
from replica.client.producer import Producer
from replica.client.reading import Reading
from replica.client.values import ConsumerRecord
from replica.ids import Epoch, Offset, TopicPartition
from replica.records import RecordBatch, encode_batch
from tests.client.test_consumer_cluster import EARLIEST, consumer_of
from tests.client.test_producer_cluster import producer_of
from tests.client.views import ORDERS
from tests.records.odd_batches import ODD_RECORDS
from tests.replication.bench import Cluster

RECORDS = 1000


async def written(cluster: Cluster) -> Producer:
    """A producer that has written records of every kind to both partitions."""
    producer, _ = producer_of(cluster)
    deliveries = [
        producer.send(
            "orders",
            None if number % 5 == 0 else b"value-%d" % number,
            key=None if number % 3 else b"key-%d" % number,
            partition=number % 2,
            headers=[("n", b"%d" % number), ("empty", None)][: number % 3],
            timestamp_ms=number,
        )
        for number in range(60)
    ]
    for delivery in deliveries:
        await delivery
    return producer


async def test_columns_are_the_same_records(lone: Cluster) -> None:
    """What comes as objects, as columns and as a table of Arrow is the same, record by record."""
    names = [lone.create("orders", (1,), (1,)), TopicPartition("orders", 1)]
    async with await written(lone):
        pass
    as_records: list[ConsumerRecord] = []
    as_batches: list[PolledRecords] = []
    as_tables: list[pa.Table] = []
    consumer, _ = consumer_of(lone, replace(EARLIEST, max_poll_records=7), *names)
    async with consumer:
        while len(as_records) < 60:
            polled = await consumer.poll()
            assert len(polled) <= 7
            as_records += polled
        consumer.seek_to_beginning()
        while sum(map(len, as_batches)) < 60:
            as_batches += await consumer.poll_batches()
        consumer.seek_to_beginning()
        while sum(map(len, as_tables)) < 60:
            as_tables.append(await consumer.poll_arrow())
        assert {await consumer.position(name) for name in names} == {30}
    as_records.sort()
    assert sorted(record for each in as_batches for record in each.records()) == as_records
    assert all(each.first_offset == each.records()[0].offset for each in as_batches)
    assert all((each.last_offset, each.last_epoch) == each.records()[-1][1:3] for each in as_batches)
    rows = [row for table in as_tables for row in table.to_pylist()]
    assert len(as_batches) < 20
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    for row, record in zip(rows, as_records, strict=True):
        assert (row["topic"], row["partition"]) == record.topic_partition
        assert (row["offset"], row["leader_epoch"]) == (record.offset, record.leader_epoch)
        assert row["timestamp"].timestamp() * 1000 == pytest.approx(record.timestamp_ms)
        assert (row["key"], row["value"]) == (record.key, record.value)
        assert tuple((header["key"], header["value"]) for header in row["headers"]) == record.headers


def reading_of(*batches: RecordBatch, start: int = 0) -> Reading:
    """A reader that holds these ready."""
    reading = Reading(ORDERS)
    reading.seek(Offset(start), None)
    reading.add(batches)
    return reading


def test_arrow_takes_the_buffers_as_they_are() -> None:
    """Values are not copied on their way into Arrow, and a table that outlives the poll is whole."""
    batch = encode_batch([b"v%d" % number for number in range(RECORDS)])
    polled = reading_of(batch).take(RECORDS)
    arrow = polled.to_arrow()
    assert arrow.schema == RECORDS_SCHEMA
    assert arrow.column("value").buffers()[2].address == pa.py_buffer(polled.columns.values.data).address
    del polled
    gc.collect()
    arrow.validate(full=True)
    assert arrow.column("value").to_pylist() == [b"v%d" % number for number in range(RECORDS)]
    assert arrow.column("timestamp").null_count == RECORDS


def test_columns_make_no_objects_for_records() -> None:
    """A thousand records in columns are a few objects, as objects they are a thousand."""
    reading = reading_of(encode_batch([b"v"] * RECORDS, timestamp_ms=1))
    gc.collect()
    before = len(gc.get_objects())
    polled = reading.take(RECORDS)
    arrow = polled.to_arrow()
    assert len(gc.get_objects()) - before < 50
    records = polled.records()
    assert len(gc.get_objects()) - before > RECORDS
    assert len(records) == arrow.num_rows == RECORDS


def test_portions_go_on_where_the_last_has_ended() -> None:
    """Columns are handed out in portions as records are, from the position on, with the position behind them."""
    first = encode_batch([b"a", b"b", b"c"], leader_epoch=1)
    second = encode_batch([b"d", b"e"], base_offset=3, leader_epoch=2)
    reading = reading_of(first, second, start=1)
    portions = [reading.take(3), reading.take(3)]
    assert [portion.to_arrow().column("value").to_pylist() for portion in portions] == [[b"b", b"c", b"d"], [b"e"]]
    assert [portion.last_epoch for portion in portions] == [Epoch(2), Epoch(2)]
    assert (reading.offset, reading.is_empty) == (5, True)
    below = portions[0].below(2)
    assert below is not None
    assert [record.value for record in below.records()] == [b"b"]
    assert portions[0].below(1) is None


def test_what_stands_before_an_odd_batch_comes_first() -> None:
    """A batch that cannot be read ends the columns before it, and is told when nothing else is left."""
    odd = ODD_RECORDS["the same offset twice"].stamped(base_offset=Offset(1), leader_epoch=Epoch(1))
    reading = reading_of(encode_batch([b"a"], leader_epoch=1), odd)
    assert len(reading.take(9)) == 1
    with pytest.raises(UnreadableBatchError):
        reading.add([odd])
