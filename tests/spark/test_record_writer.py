"""The sink against a whole simulated cluster: every row is there when a task is done, and says which row it is."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from replica.client.arrow_records import HEADERS_TYPE
from replica.ids import TopicPartition
from replica.records import Header, decode_records
from replica.spark.columns import batch_of, check_columns
from replica.spark.errors import ColumnError
from replica.spark.options import WriteOptions, write_options
from replica.spark.record_writer import Origin, RowsNotWrittenError, write_rows
from tests.client.virtual import ClusterConnections, bootstrap
from tests.replication.bench import Cluster
from tests.spark.tables import Tables

ORIGIN = Origin(query="q", batch=4, partition=2)


def options_of(cluster: Cluster, **options: str) -> WriteOptions:
    """Options of a sink that lingers no longer than it must."""
    return write_options(
        {"bootstrap.servers": ",".join(bootstrap(cluster)), "topic": "orders", "linger.ms": "1", **options}
    )


async def write(cluster: Cluster, batches: Iterator[pa.RecordBatch], **options: str) -> int:
    """Write as one task does."""
    connections = ClusterConnections(cluster)
    return await write_rows(
        options_of(cluster, **options), ORIGIN, batches, connections=connections, clock=connections.clock
    )


def table(**columns: list[object]) -> pa.RecordBatch:
    """A batch of rows; headers get their type."""
    arrays = {
        name: pa.array(values, HEADERS_TYPE) if name == "headers" else pa.array(values)
        for name, values in columns.items()
    }
    return pa.RecordBatch.from_pydict(arrays)


Written = tuple[bytes | None, bytes | None, list[Header]]


def written(cluster: Cluster, topic: TopicPartition) -> list[Written]:
    """Key, value and headers of all records of a partition."""
    batches = cluster.batches(cluster.leader(topic), topic)
    return [(record.key, record.value, list(record.headers)) for batch in batches for record in decode_records(batch)]


def headers(row: int) -> list[Header]:
    """What the sink writes into each record."""
    return [
        ("highwater.query", b"q"),
        ("highwater.batch", b"4"),
        ("highwater.partition", b"2"),
        ("highwater.row", b"%d" % row),
    ]


async def test_each_row_says_which_it_is(lone: Cluster) -> None:
    """Rows are counted over all batches of a task; text becomes bytes; headers of the user's own are kept."""
    topic = lone.create("orders", (1,))
    first = table(key=["k", None], value=["a", None], headers=[[("h", b"v")], None])
    count = await write(lone, iter([first, table(value=[b"b"])]))
    assert count == 3
    assert written(lone, topic) == [
        (b"k", b"a", [("h", b"v"), *headers(0)]),
        (None, None, headers(1)),
        (None, b"b", headers(2)),
    ]


async def test_rows_may_choose_topic_and_partition(lone: Cluster) -> None:
    """Without the option the column says where to; with it the option counts."""
    lone.create("orders", (1,), (1,))
    other = lone.create("payments", (1,))
    rows = table(topic=["payments"], value=["a"])
    connections = ClusterConnections(lone)
    options = write_options({"bootstrap.servers": bootstrap(lone)[0], "linger.ms": "1"})
    await write_rows(options, ORIGIN, iter([rows]), connections=connections, clock=connections.clock)
    await write(lone, iter([table(topic=["payments"], partition=[1], value=["b"])]))
    assert [value for _, value, _ in written(lone, other)] == [b"a"]
    assert [value for _, value, _ in written(lone, TopicPartition("orders", 1))] == [b"b"]


async def test_what_was_read_can_be_written_anew(lone: Cluster) -> None:
    """Rows that were read from a sink's topic become rows of the new query: its headers take the old ones' place."""
    topic = lone.create("orders", (1,))
    old = [("highwater.query", b"old"), ("highwater.row", b"9"), ("h", None)]
    await write(lone, iter([table(value=["a"], headers=[old])]))
    assert written(lone, topic) == [(None, b"a", [("h", None), *headers(0)])]


async def test_a_leader_that_dies_loses_no_row(cluster: Cluster) -> None:
    """Rows that are on their way while their leader dies are acknowledged by the next one; each is there once."""
    topic = cluster.create("orders", (1, 2, 3))

    def batches() -> Iterator[pa.RecordBatch]:
        yield table(value=[f"{number}" for number in range(20)])
        cluster.kill(1)
        yield table(value=[f"{number}" for number in range(20, 40)])

    assert await write(cluster, batches()) == 40
    assert cluster.leader(topic) != 1
    assert [value for _, value, _ in written(cluster, topic)] == [b"%d" % number for number in range(40)]


async def test_a_row_that_is_not_acknowledged_fails_the_task(lone: Cluster) -> None:
    """A row that the leader refuses is an error that names the task, the servers and the reason."""
    lone.create("orders", (1,), max_message_bytes="100")
    with pytest.raises(RowsNotWrittenError, match=r"query='q', batch=4.*replica-1:9092: .*MESSAGE_TOO_LARGE"):
        await write(lone, iter([table(value=["a", "b" * 1000, "c"])]))


async def test_a_task_that_is_repeated_writes_the_same_headers(lone: Cluster) -> None:
    """The repeats of a task's rows are equal to the first in everything but the offset."""
    topic = lone.create("orders", (1,))
    for _ in range(2):
        await write(lone, iter([table(value=["a", "b"])]))
    records = written(lone, topic)
    assert records[:2] == records[2:]


async def test_a_row_needs_a_topic(lone: Cluster) -> None:
    """A row whose topic is null is an error, and so is a header without a key."""
    connections = ClusterConnections(lone)
    options = write_options({"bootstrap.servers": bootstrap(lone)[0]})
    for rows, complaint in (
        (table(topic=[None], value=["a"]), "a row names no topic"),
        (table(topic=["orders"], value=["a"], headers=[[(None, b"v")]]), "a header without a key"),
    ):
        with pytest.raises(ColumnError, match=complaint):
            await write_rows(options, ORIGIN, iter([rows]), connections=connections, clock=connections.clock)


@pytest.mark.parametrize(
    ("types", "complaint"),
    [
        ({"key": "string"}, "there is no column value"),
        ({"value": "int"}, "column value is int; it must be string or binary"),
        ({"value": "string", "offset": "bigint"}, "column offset cannot be written; select what can: topic string"),
        (
            {"value": "string", "headers": "map<string,binary>"},
            "column headers is map<string,binary>; it must be array<struct",
        ),
        ({"value": "string", "partition": "bigint"}, "column partition is bigint; it must be int"),
    ],
)
def test_columns_that_cannot_be_written_are_named(types: dict[str, str], complaint: str) -> None:
    """Columns are checked before anything is written."""
    with pytest.raises(ColumnError, match=complaint):
        check_columns(types, has_topic=True)


def test_rows_go_somewhere() -> None:
    """Without the option there must be the column; all columns together are accepted."""
    with pytest.raises(ColumnError, match="give the option topic, or a column topic"):
        check_columns({"value": "binary"}, has_topic=False)
    headers_type = "array<struct<key:string,value:binary>>"
    all_of_them = {"topic": "string", "partition": "int", "key": "string", "value": "binary", "headers": headers_type}
    check_columns(all_of_them, has_topic=False)


async def test_records_become_columns(lone: Cluster) -> None:
    """A record's time, key, value, headers, offset and epoch stand in their columns; what is not there is null."""
    topic = lone.create("orders", (1,))
    await write(lone, iter([table(key=["k"], value=["a"], headers=[[("h", None)]])]))
    lone.send(topic, b"late")
    tables = Tables(lone)
    stream = tables.batch_options()
    from replica.spark.batch_plan import batch_pieces

    polled = await tables.polled(stream, await tables.ask(stream, lambda logs: batch_pieces(stream, logs)))
    rows = [row for each in polled for row in batch_of(each).to_pylist()]
    assert [(row["topic"], row["partition"], row["offset"], row["leader_epoch"]) for row in rows] == [
        ("orders", 0, 0, 0),
        ("orders", 0, 1, 0),
    ]
    assert rows[0]["headers"][0] == {"key": "h", "value": None}
    assert (rows[0]["key"], rows[0]["value"], rows[1]["key"], rows[1]["headers"]) == (b"k", b"a", None, [])
    assert rows[0]["timestamp"] is not None
    assert rows[1]["timestamp"] is None
