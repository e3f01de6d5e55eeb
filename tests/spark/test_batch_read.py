"""Batches against a whole simulated cluster: what is planned is what is read, or an error says why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.ids import Offset, TopicPartition
from replica.spark.batch_plan import batch_pieces
from replica.spark.errors import (
    DataLossError,
    OptionError,
    PartitionUnreadableError,
    TopicTruncatedError,
    UnreachableError,
)
from replica.spark.options import ReadOptions
from replica.spark.values import Piece, Position
from tests.replication.bench import Cluster
from tests.replication.unclean import cut, lose
from tests.spark.tables import Tables, spans


async def planned(tables: Tables, options: ReadOptions) -> list[Piece]:
    """What a batch with these options reads."""
    return await tables.ask(options, lambda logs: batch_pieces(options, logs))


async def values(tables: Tables, options: ReadOptions, pieces: list[Piece] | None = None) -> list[bytes | None]:
    """What a batch has read."""
    pieces = await planned(tables, options) if pieces is None else pieces
    return [record.value for record in await tables.read(options, pieces)]


async def test_all_that_is_committed_is_read(cluster: Cluster) -> None:
    """One piece per partition that has records, with the offset and epoch of each record."""
    first = cluster.create("orders", (1, 2), (2, 3), (3, 1))
    cluster.produce(first, b"a", b"b")
    cluster.produce(TopicPartition("orders", 2), b"c")
    tables = Tables(cluster)
    options = tables.batch_options()
    pieces = await planned(tables, options)
    assert spans(pieces) == [(first, 0, 2), (TopicPartition("orders", 2), 0, 1)]
    assert [piece.end.leader_epoch for piece in pieces] == [0, 0]
    records = await tables.read(options, pieces)
    assert [(record.topic_partition.partition, record.offset, record.value) for record in records] == [
        (0, 0, b"a"),
        (0, 1, b"b"),
        (2, 0, b"c"),
    ]


async def test_the_end_is_fixed_when_a_batch_is_planned(lone: Cluster) -> None:
    """Records that come later are not read, though they are fetched together with the others."""
    topic = lone.create("orders", (1,))
    lone.produce(topic, b"a")
    tables = Tables(lone)
    options = tables.batch_options()
    pieces = await planned(tables, options)
    lone.produce(topic, b"b")
    assert await values(tables, options, pieces) == [b"a"]


@pytest.mark.parametrize("min_partitions", ["1", "3", "10"])
async def test_pieces_are_the_whole(lone: Cluster, min_partitions: str) -> None:
    """However a partition is cut, its records are read once and in order, batches of records across cuts included."""
    topic = lone.create("orders", (1,))
    lone.produce(topic, *[b"%d" % number for number in range(7)])
    tables = Tables(lone)
    assert await values(tables, tables.batch_options(minPartitions=min_partitions)) == [
        b"%d" % number for number in range(7)
    ]


async def test_offsets_can_be_chosen(lone: Cluster) -> None:
    """JSON offsets choose by partition, -2 and -1 for the bounds; the end is exclusive."""
    topic = lone.create("orders", (1,), (1,))
    for partition in (0, 1):
        lone.produce(TopicPartition(topic.topic, partition), *[b"%d%d" % (partition, at) for at in range(4)])
    tables = Tables(lone)
    options = tables.batch_options(
        startingOffsets='{"orders": {"0": 1, "1": -2}}', endingOffsets='{"orders": {"0": -1, "1": 2}}'
    )
    assert await values(tables, options) == [b"01", b"02", b"03", b"10", b"11"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"endingOffsets": '{"orders": {"0": 3}}'}, "endingOffsets is '3 for orders-0'; it is committed up to 2"),
        ({"startingOffsets": '{"orders": {"0": 3}}'}, "startingOffsets is '3 for orders-0'; it is committed up to 2"),
        ({"startingOffsets": '{"orders": {"1": 0}}'}, "startingOffsets is 'silent about orders-0'"),
        ({"startingOffsets": '{"orders": {"0": 0, "1": 0}}'}, "startingOffsets is 'about orders-1'"),
        (
            {"startingOffsets": '{"orders": {"0": 2}}', "endingOffsets": '{"orders": {"0": 1}}'},
            "endingOffsets is '1 for orders-0'; reading begins at 2",
        ),
    ],
)
async def test_offsets_that_make_no_sense_are_named(lone: Cluster, options: dict[str, str], complaint: str) -> None:
    """Offsets beyond what is committed, or of other partitions, are told together with what there is."""
    lone.produce(lone.create("orders", (1,)), b"a", b"b")
    tables = Tables(lone)
    with pytest.raises(OptionError, match=complaint):
        await planned(tables, tables.batch_options(**options))


async def test_what_does_not_exist_is_named(lone: Cluster) -> None:
    """A topic and a partition that are not there are told with the servers that were asked."""
    lone.create("orders", (1,))
    tables = Tables(lone)
    with pytest.raises(PartitionUnreadableError, match="topic nothing does not exist on replica-1:9092"):
        await planned(tables, tables.batch_options(subscribe="nothing"))
    options = tables.batch_options()
    with pytest.raises(PartitionUnreadableError, match="orders-7 does not exist on replica-1:9092"):
        await planned(tables, replace(options, partitions=frozenset({TopicPartition("orders", 7)})))


async def test_a_cluster_that_cannot_be_reached_is_named() -> None:
    """Without any broker the error names all servers that were tried."""
    cluster = Cluster(2)
    tables = Tables(cluster)
    cluster.kill(1)
    cluster.kill(2)
    with pytest.raises(UnreachableError, match="no broker of replica-1:9092,replica-2:9092 answers"):
        await planned(tables, tables.batch_options())


async def test_deleted_records_are_an_error_unless_allowed(lone: Cluster) -> None:
    """An offset below the log's start is a loss, when planned and when read; by choice reading begins at the start."""
    topic = lone.create("orders", (1,))
    lone.produce(topic, b"a", b"b", b"c")
    tables = Tables(lone)
    strict = tables.batch_options(startingOffsets='{"orders": {"0": 0}}')
    lenient = tables.batch_options(startingOffsets='{"orders": {"0": 0}}', failOnDataLoss="false")
    pieces = await planned(tables, strict)
    lone.delete_records(topic, 2)
    complaint = "topic orders, partition 0: offset 0 is not there any more, the log starts at 2"
    with pytest.raises(DataLossError, match=complaint):
        await values(tables, strict, pieces)
    with pytest.raises(DataLossError, match=complaint):
        await planned(tables, strict)
    assert await values(tables, lenient, pieces) == [b"c"]
    assert await values(tables, lenient) == [b"c"]


async def test_a_leader_that_dies_is_followed_by_the_next(cluster: Cluster) -> None:
    """A piece that is begun at one leader is read to its end at the next, without gap or repeat."""
    topic = cluster.create("orders", (1, 2, 3))
    cluster.produce(topic, *[b"%d" % number for number in range(5)])
    tables = Tables(cluster)
    options = tables.batch_options()
    (piece,) = await planned(tables, options)
    cluster.kill(1)
    cluster.wait(lambda: cluster.registration(topic).leader_id not in (1, None), "another leads")
    cluster.produce(topic, b"5")
    assert await values(tables, options, [piece]) == [b"%d" % number for number in range(5)]
    (later,) = await planned(tables, options)
    assert (piece.end.leader_epoch, later.end.offset) == (0, 6)
    assert (later.end.leader_epoch or 0) > 0
    assert await values(tables, options, [later]) == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize(
    "replacements",
    [
        pytest.param((), id="shorter"),
        pytest.param((b"x", b"y"), id="as long"),
        pytest.param((b"w", b"x", b"y", b"z"), id="longer"),
    ],
)
@pytest.mark.parametrize("first_read", [0, 1])
async def test_a_log_that_was_cut_after_planning_is_an_error(
    cluster: Cluster, replacements: tuple[bytes, ...], first_read: int
) -> None:
    """Records in the place of those that were planned are not taken for them, and missing ones not waited for."""
    topic = cut(cluster)
    tables = Tables(cluster)
    options = tables.batch_options(startingOffsets=f'{{"orders": {{"0": {first_read}}}}}')
    pieces = await planned(tables, options)
    lose(cluster, topic, *replacements)
    with pytest.raises(TopicTruncatedError, match="topic orders, partition 0 was truncated: the log up to offset 3"):
        await values(tables, options, pieces)


async def test_the_epoch_below_an_offset_is_found(cluster: Cluster) -> None:
    """Through several changes of leader, some without a record, each offset has the epoch of the record below it."""
    topic = cluster.create("orders", (1, 2, 3))
    expected: list[int | None] = [None]
    for number in range(4):
        cluster.wait_for_isr(topic, 1, 2, 3)
        if number != 1:
            cluster.produce(topic, b"a", b"b")
            expected += [cluster.registration(topic).leader_epoch] * 2
        cluster.bounce(cluster.leader(topic))
    cluster.leader(topic)
    tables = Tables(cluster)
    options = tables.batch_options()

    async def found(offset: int) -> int | None:
        return (await tables.ask(options, lambda logs: logs.position_at(topic, Offset(offset)))).leader_epoch

    assert len(set(expected)) == 4
    assert [await found(offset) for offset in range(7)] == expected


async def test_a_record_that_was_deleted_has_no_epoch(cluster: Cluster) -> None:
    """Below the log's start nothing is known any more, and nothing is claimed."""
    topic = cluster.create("orders", (1, 2))
    cluster.produce(topic, b"a", b"b")
    for leader in (1, 2):
        cluster.bounce(leader)
        cluster.wait_for_isr(topic, 1, 2)
    cluster.leader(topic)
    cluster.produce(topic, b"c", b"d")
    cluster.delete_records(topic, 3)
    tables = Tables(cluster)
    options = tables.batch_options()

    async def position(offset: int) -> Position:
        return await tables.ask(options, lambda logs: logs.position_at(topic, Offset(offset)))

    below, start, above = [await position(offset) for offset in (1, 3, 4)]
    assert (below.leader_epoch, start.leader_epoch) == (None, None)
    assert above.leader_epoch == cluster.registration(topic).leader_epoch
    await tables.ask(options, lambda logs: logs.check(topic, above))
