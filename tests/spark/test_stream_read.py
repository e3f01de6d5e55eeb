"""Streams against a whole simulated cluster: batches follow one another without gap, and what is gone is told."""

from __future__ import annotations

import json

import pytest

from replica.core import messages as m
from replica.ids import Epoch, Offset, TopicId, TopicPartition
from replica.spark.errors import DataLossError, PartitionUnreadableError, TopicTableError, TopicTruncatedError
from replica.spark.stream_offsets import StreamOffset, offset_from_json
from replica.spark.stream_plan import committed_ends, next_offset
from replica.spark.values import Position
from tests.replication.bench import Cluster
from tests.replication.unclean import cut, lose
from tests.spark.tables import Stream, Tables, spans

ORDERS = TopicPartition("orders", 0)


async def test_batches_follow_one_another(lone: Cluster) -> None:
    """Each batch begins where the last has ended; without anything new the offset stays as it is."""
    lone.create("orders", (1,), (1,))
    stream = Stream(Tables(lone))
    assert await stream.batch() == []
    lone.produce(ORDERS, b"a")
    assert await stream.batch() == [b"a"]
    before = stream.offset
    assert await stream.batch() == []
    assert stream.offset == before
    lone.produce(TopicPartition("orders", 1), b"b")
    lone.produce(ORDERS, b"c")
    assert await stream.batch() == [b"c", b"b"]


async def test_a_stream_from_the_end_reads_what_is_new(lone: Cluster) -> None:
    """``latest`` is where the log ended when the query began."""
    lone.create("orders", (1,))
    lone.produce(ORDERS, b"a")
    stream = Stream(Tables(lone), startingOffsets="latest")
    await stream.begin()
    lone.produce(ORDERS, b"b")
    assert await stream.batch() == [b"b"]


async def test_a_batch_is_limited(lone: Cluster) -> None:
    """``maxOffsetsPerTrigger`` bounds each batch over all partitions, until everything is read."""
    lone.create("orders", (1,), (1,))
    lone.produce(ORDERS, *[b"%d" % number for number in range(4)])
    lone.produce(TopicPartition("orders", 1), b"x", b"y")
    stream = Stream(Tables(lone), maxOffsetsPerTrigger="3")
    assert await stream.batch() == [b"0", b"1", b"x"]
    assert await stream.batch() == [b"2", b"3", b"y"]
    assert await stream.batch() == []


async def test_a_query_that_ends_reads_what_there_was(lone: Cluster) -> None:
    """With ends that were fixed before, nothing behind them is read, however much comes meanwhile."""
    lone.create("orders", (1,))
    lone.produce(ORDERS, b"a", b"b")
    tables = Tables(lone)
    stream = Stream(tables)
    begin = await stream.begin()
    ends = await tables.ask(stream.options, lambda logs: committed_ends(stream.options, logs))
    lone.produce(ORDERS, b"c")
    end = await tables.ask(stream.options, lambda logs: next_offset(stream.options, logs, begin, None, ends))
    assert end.positions[ORDERS] == Position(offset=Offset(2), leader_epoch=Epoch(0))
    again = await tables.ask(stream.options, lambda logs: next_offset(stream.options, logs, end, None, ends))
    assert again == end


async def test_the_first_batch_is_repeated_from_where_the_query_began(lone: Cluster) -> None:
    """After a restart in the first batch, Spark asks anew where to begin: the batch's end knows better."""
    lone.create("orders", (1,))
    lone.produce(ORDERS, b"a")
    tables = Tables(lone)
    stream = Stream(tables, startingOffsets="latest")
    await stream.begin()
    lone.produce(ORDERS, b"b")
    end, pieces = await stream.plan()
    restarted = Stream(tables, startingOffsets="latest")
    later = await restarted.begin()
    assert later.positions[ORDERS].offset == 2
    assert await restarted.pieces(later, offset_from_json(end.to_json())) == pieces
    assert spans(pieces) == [(ORDERS, 1, 2)]
    stream.offset = end
    lone.produce(ORDERS, b"c")
    second, _ = await stream.plan()
    assert second.begun_at is None


async def test_partitions_that_come_later_are_read_from_their_beginning(lone: Cluster) -> None:
    """A partition that the query has not known yet begins at offset 0, also if it has records already."""
    lone.create("orders", (1,), (1,))
    lone.produce(ORDERS, b"a")
    lone.produce(TopicPartition("orders", 1), b"b")
    stream = Stream(Tables(lone))
    begin = await stream.begin()
    known = {ORDERS: begin.positions[ORDERS]}
    stream.offset = StreamOffset(topic_ids=begin.topic_ids, positions=known)
    assert await stream.batch() == [b"a", b"b"]


@pytest.mark.parametrize(
    "replacements",
    [
        pytest.param((), id="shorter"),
        pytest.param((b"x", b"y"), id="as long"),
        pytest.param((b"w", b"x", b"y", b"z"), id="longer"),
    ],
)
async def test_a_truncation_is_an_error(cluster: Cluster, replacements: tuple[bytes, ...]) -> None:
    """What was read and is gone is told by the next look, with topic, partition, offset and epochs, again and again."""
    topic = cut(cluster)
    stream = Stream(Tables(cluster))
    assert await stream.batch() == [b"a", b"b", b"c"]
    lose(cluster, topic, *replacements)
    for _ in range(2):
        with pytest.raises(TopicTruncatedError, match="topic orders, partition 0 was truncated") as truncated:
            await stream.batch()
        assert (truncated.value.offset, truncated.value.leader_epoch) == (3, 0)
        assert "leaves it at offset 1, where its epoch 0 ends" in str(truncated.value)


async def test_a_truncation_between_plan_and_read_is_an_error(cluster: Cluster) -> None:
    """Records in the place of those that a batch was planned with are not taken for them, after a restart either."""
    topic = cut(cluster)
    tables = Tables(cluster)
    stream = Stream(tables, maxOffsetsPerTrigger="2")
    begin = await stream.begin()
    end, pieces = await stream.plan()
    assert spans(pieces) == [(topic, 0, 2)]
    lose(cluster, topic, b"x", b"y", b"z")
    for plan in (pieces, await stream.pieces(begin, end)):
        with pytest.raises(TopicTruncatedError, match="offset 2, written in leader epoch 0, is not what it was"):
            await tables.read(stream.options, plan)


async def test_a_truncation_of_what_was_not_read_is_none(cluster: Cluster) -> None:
    """A query that has read up to where the log was cut goes on with what was written there since."""
    topic = cut(cluster)
    stream = Stream(Tables(cluster), maxOffsetsPerTrigger="1")
    assert await stream.batch() == [b"a"]
    lose(cluster, topic, b"x")
    assert await stream.batch() == [b"x"]


async def test_a_clean_election_is_no_truncation(cluster: Cluster) -> None:
    """A new leader that has all that was read goes on where the last has stopped."""
    topic = cluster.create("orders", (1, 2, 3))
    cluster.produce(topic, b"a")
    stream = Stream(Tables(cluster))
    assert await stream.batch() == [b"a"]
    cluster.kill(1)
    cluster.wait(lambda: cluster.registration(topic).leader_id not in (1, None), "another leads")
    assert await stream.batch() == []
    cluster.produce(topic, b"b")
    assert await stream.batch() == [b"b"]


async def test_a_topic_that_was_replaced_is_a_truncation(lone: Cluster) -> None:
    """An offset in a topic that was deleted means nothing in a new one of the same name, however long that is."""
    lone.create("orders", (1,))
    lone.produce(ORDERS, b"a")
    stream = Stream(Tables(lone))
    assert await stream.batch() == [b"a"]
    lone.ask(1, m.DeleteTopicRequest(name="orders"), m.DeleteTopicResponse)
    lone.create("orders", (1,))
    lone.produce(ORDERS, b"x", b"y")
    with pytest.raises(TopicTruncatedError, match=r"offset 1, .* deleted and created again"):
        await stream.batch()


async def test_deleted_records_are_an_error_unless_allowed(lone: Cluster) -> None:
    """What retention has deleted before it was read is told; by choice the stream goes on with what is left."""
    lone.create("orders", (1,))
    lone.produce(ORDERS, b"a")
    strict, lenient = Stream(Tables(lone)), Stream(Tables(lone), failOnDataLoss="false")
    for stream in (strict, lenient):
        assert await stream.batch() == [b"a"]
    lone.produce(ORDERS, b"b", b"c")
    lone.delete_records(ORDERS, 2)
    with pytest.raises(DataLossError, match=r"topic orders, partition 0: offset 1 is not there any more.*starts at 2"):
        await strict.batch()
    assert await lenient.batch() == [b"c"]


async def test_a_partition_that_is_read_no_more_is_an_error(lone: Cluster) -> None:
    """A checkpoint of other partitions than the options name is not passed over."""
    lone.create("orders", (1,))
    lone.create("payments", (1,))
    lone.produce(ORDERS, b"a")
    tables = Tables(lone)
    stream = Stream(tables)
    await stream.batch()
    other = Stream(tables, subscribe="payments")
    other.offset = stream.offset
    with pytest.raises(PartitionUnreadableError, match="orders-0, which this query has read, is not among"):
        await other.batch()


def test_offsets_come_back_from_json() -> None:
    """What a checkpoint keeps is read as it was, in the same order always."""
    first = Position(offset=Offset(12), leader_epoch=Epoch(3))
    second = Position(offset=Offset(0))
    positions = {TopicPartition("orders", 10): first, TopicPartition("orders", 2): second}
    offset = StreamOffset(topic_ids={"orders": TopicId(7)}, positions=positions, begun_at=positions)
    kept = json.dumps(offset.to_json())
    assert kept == (
        '{"topics": {"orders": {"topic_id": 7, "partitions": {"2": {"offset": 0}, '
        '"10": {"offset": 12, "leader_epoch": 3}}}}, '
        '"begun_at": {"orders": {"2": {"offset": 0}, "10": {"offset": 12, "leader_epoch": 3}}}}'
    )
    assert offset_from_json(json.loads(kept)) == offset
    assert json.dumps(offset_from_json(json.loads(kept)).to_json()) == kept


@pytest.mark.parametrize(
    "kept", [{}, {"orders": {"0": 3}}, {"topics": []}, {"topics": {"orders": {"topic_id": "x", "partitions": {}}}}]
)
def test_other_checkpoints_are_refused(kept: dict[str, object]) -> None:
    """The checkpoint of another source is told as what it is."""
    with pytest.raises(TopicTableError, match="which is no offset of this source"):
        offset_from_json(kept)
