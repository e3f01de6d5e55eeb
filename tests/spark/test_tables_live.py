"""Spark on three real replicas: tables, streams and sinks, while leaders are killed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica.ids import TopicPartition
from replica.spark import deduplicated, write_batch
from tests.spark.live import Live

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.timeout(900)]

ORDERS = TopicPartition("orders", 0)


def numbers(*range_: int) -> list[bytes]:
    """Distinct values, one per number."""
    return [b"%d" % number for number in range(*range_)]


def table(spark: SparkSession, live: Live, topic: str = "orders", **options: str) -> DataFrame:
    """A topic as a table."""
    return spark.read.format("highwater").options(**source(live, topic)).options(**options).load()


def source(live: Live, topic: str = "orders") -> dict[str, str]:
    """The options of a source."""
    return {"bootstrap.servers": live.servers, "subscribe": topic}


def stream(spark: SparkSession, live: Live, **options: str) -> DataFrame:
    """A topic as a stream from its beginning."""
    reader = spark.readStream.format("highwater").options(**source(live)).option("startingOffsets", "earliest")
    return reader.options(**options).load()


def values(records: DataFrame) -> list[bytes]:
    """The values of a table."""
    return [bytes(row["value"]) for row in records.select("value").collect()]


@contextmanager
def killing(live: Live, name: TopicPartition, path: Path) -> Iterator[None]:
    """Kill the leader of a partition as soon as there is a file at ``path``, which a task writes."""

    def kill() -> None:
        while not path.exists() and not is_over.wait(0.02):
            pass
        if path.exists():
            live.kill_leader(name)
            killed.set()

    is_over, killed = threading.Event(), threading.Event()
    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert killed.is_set(), "nothing was killed"


def slowly(records: DataFrame, path: Path) -> DataFrame:
    """The same records, so slowly that something can happen meanwhile; the first ones write ``path``."""
    where = str(path)

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        import time
        from pathlib import Path

        for batch in batches:
            Path(where).touch()
            time.sleep(0.2)  # The stage needs time to pass, not an event: records must be left for after the kill.
            yield batch

    return records.mapInArrow(pass_on, records.schema)


def until_written(servers: str, topic: str) -> Callable[[], None]:
    """What waits in a task until a topic holds anything, however slow everybody is."""

    def wait() -> None:
        import asyncio

        from replica.client import Consumer

        async def look() -> None:
            async with asyncio.timeout(120), Consumer(servers) as consumer:
                names = await consumer.partitions_of(topic)
                while not sum((await consumer.end_offsets(names)).values()):
                    await asyncio.sleep(0.05)

        asyncio.run(look())

    return wait


def test_a_topic_is_a_table(spark: SparkSession, live: Live) -> None:
    """All records with all columns; the same in as many pieces as wished; nothing of an empty topic."""
    live.create("orders", partitions=3)
    live.create("empty")
    live.write("orders", numbers(1000))
    rows = table(spark, live).collect()
    assert sorted(bytes(row["value"]) for row in rows) == sorted(numbers(1000))
    expected = {
        (record.topic_partition.partition, record.offset, record.leader_epoch, record.value)
        for record in live.read("orders")
    }
    assert {(row["partition"], row["offset"], row["leader_epoch"], bytes(row["value"])) for row in rows} == expected
    assert {row["topic"] for row in rows} == {"orders"}
    assert all(row["timestamp"] is not None and row["headers"] == [] and row["key"] is None for row in rows)
    cut = table(spark, live, minPartitions="7")
    assert cut.rdd.getNumPartitions() == 7
    assert sorted(values(cut)) == sorted(numbers(1000))
    assert table(spark, live, "empty").count() == 0


def test_errors_say_what_to_do(spark: SparkSession, live: Live) -> None:
    """A wrong option, a missing topic and an unreachable cluster are told as such through Spark."""
    from pyspark.errors import PySparkException

    for options, complaint in (
        ({"startingOffsets": "begin"}, "option startingOffsets is 'begin'; allowed are earliest, latest, or JSON"),
        ({"subscribe": "nothing"}, "topic nothing does not exist on 127.0.0.1"),
        (
            {"bootstrap.servers": "127.0.0.1:1,127.0.0.1:2", "default.api.timeout.ms": "1500"},
            "no broker of 127.0.0.1:1,127.0.0.1:2 answers",
        ),
    ):
        with pytest.raises(PySparkException) as told:
            table(spark, live, **options).count()
        assert complaint in str(told.value)


def test_a_batch_outlives_its_leader(spark: SparkSession, live: Live, tmp_path: Path) -> None:
    """With the leader killed in the middle of a read, every acknowledged record is there, once."""
    live.create("orders", partitions=2, min_insync_replicas="2")
    live.write("orders", numbers(20_000))
    records = table(spark, live, **{"max.partition.fetch.bytes": "16384"})
    with killing(live, ORDERS, tmp_path / "read"):
        read = values(slowly(records, tmp_path / "read"))
    assert Counter(read) == Counter(numbers(20_000))


def test_a_stream_outlives_its_leader(spark: SparkSession, live: Live, tmp_path: Path) -> None:
    """Batches of a stream go on over a killed leader, and over the end of the query: nothing is lost or read twice."""
    live.create("orders", partitions=2, min_insync_replicas="2")
    live.write("orders", numbers(5000))
    options = {"maxOffsetsPerTrigger": "1500", "max.partition.fetch.bytes": "16384"}

    def run() -> None:
        records = slowly(stream(spark, live, **options), tmp_path / "read")
        query = (
            records.writeStream.format("parquet")
            .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with killing(live, ORDERS, tmp_path / "read"):
        run()
    assert Counter(values(spark.read.parquet(str(tmp_path / "out")))) == Counter(numbers(5000))
    live.write("orders", numbers(5000, 8000))
    run()
    assert Counter(values(spark.read.parquet(str(tmp_path / "out")))) == Counter(numbers(8000))


def test_a_sink_outlives_its_leader(spark: SparkSession, live: Live, tmp_path: Path) -> None:
    """Rows of a stream that are written while the leader is killed are all there, once without their repeats."""
    live.create("orders", partitions=2)
    live.create("copies", partitions=2, min_insync_replicas="2")
    live.write("orders", numbers(5000))
    options = {"maxOffsetsPerTrigger": "1500", "max.partition.fetch.bytes": "16384"}
    rows = slowly(stream(spark, live, **options), tmp_path / "read").select("key", "value")
    with killing(live, TopicPartition("copies", 0), tmp_path / "read"):
        query = (
            rows.writeStream.format("highwater")
            .options(**{"bootstrap.servers": live.servers, "topic": "copies"})
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    copies = table(spark, live, "copies")
    assert set(values(copies)) == set(numbers(5000))
    assert Counter(values(deduplicated(copies))) == Counter(numbers(5000))
    batches = {header["key"]: bytes(header["value"]) for row in copies.collect() for header in row["headers"]}
    assert batches["highwater.query"] == str(query.id).encode()


def test_a_batch_that_fails_is_written_again(spark: SparkSession, live: Live, tmp_path: Path) -> None:
    """A query that fails in the middle of a batch writes it again after a restart, and repeats are known as such.

    1. Both partitions have their task. 2. One of them stands still. 3. The other writes. 4. The first fails, and with
    it the batch, of which something is written.
    """
    live.create("orders", partitions=2)
    live.create("copies", partitions=2)
    for partition in (0, 1):
        live.write("orders", numbers(partition, 3000, 2), partition=partition)
    failed, wait = str(tmp_path / "failed"), until_written(live.servers, "copies")

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        from pathlib import Path

        for batch in batches:
            try:
                Path(failed).touch(exist_ok=False)
            except FileExistsError:
                yield batch
            else:
                wait()
                raise RuntimeError("halfway")

    def run() -> None:
        records = stream(spark, live)
        query = (
            records.mapInArrow(fail_once, records.schema)
            .select("value")
            .writeStream.format("highwater")
            .options(**{"bootstrap.servers": live.servers, "topic": "copies", "linger.ms": "0", "batch.size": "100"})
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with pytest.raises(Exception, match="halfway"):
        run()
    run()
    copies = table(spark, live, "copies")
    written = values(copies)
    assert len(written) > 3000
    assert set(written) == set(numbers(3000))
    assert Counter(values(deduplicated(copies))) == Counter(numbers(3000))


def test_a_table_is_written_under_a_name(spark: SparkSession, live: Live) -> None:
    """A job that is run again under the same name writes repeats; under another, or none, it writes other rows."""
    live.create("orders", partitions=2)
    live.write("orders", numbers(10), partition=0)
    rows = spark.createDataFrame([(f"k{number}", f"{number}") for number in range(10)], "key STRING, value STRING")
    ordered = rows.repartition(1).sortWithinPartitions("key")
    sink = {"bootstrap_servers": live.servers, "topic": "orders"}
    for batch_id in (0, 1, 1):
        write_batch(ordered, batch_id, query="load", **sink)
    options = {"bootstrap.servers": live.servers, "topic": "orders"}
    ordered.write.format("highwater").mode("append").options(**options).save()
    orders = table(spark, live)
    assert orders.count() == 50
    assert Counter(values(deduplicated(orders))) == Counter(numbers(10) * 4)


def test_a_truncation_is_an_error(spark: SparkSession, live: Live, tmp_path: Path) -> None:
    """After an unclean election has lost what was read, the query fails, and says what is gone and where."""
    live.create("orders", replication_factor=2, unclean_leader_election_enable="true")
    live.write("orders", numbers(10))
    registration = live.wait(ORDERS, lambda found: len(found.isr) == 2)
    first = live.leader(ORDERS)
    (second,) = set(registration.replicas) - {first}

    def run() -> None:
        query = (
            stream(spark, live)
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    live.kill(second)
    live.wait(ORDERS, lambda found: list(found.isr) == [first])
    live.write("orders", numbers(10, 20))
    run()
    live.kill(first)
    live.restart(second)
    live.wait(ORDERS, lambda found: found.leader_id == second)
    live.write("orders", numbers(100, 130))
    with pytest.raises(Exception, match="topic orders, partition 0 was truncated: the log up to offset 20") as told:
        run()
    assert "leaves it at offset 10, where its epoch 0 ends" in str(told.value)
