"""What the micro-batches of a stream read: where it begins, how far it goes, and that the log still is what it was.

Every look at the cluster checks every position with its epoch, whether there is anything new or not: a truncation of
what was read is an error at once. Partitions that a topic gets later are read from their beginning.
Source: Spark's ``KafkaMicroBatchStream``; KIP-320.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica.ids import Offset, TopicPartition
from replica.spark.errors import PartitionUnreadableError, TopicTruncatedError
from replica.spark.logs import TopicLogs
from replica.spark.options import ReadOptions
from replica.spark.partitions import check_covers, each, existing, layouts, partitions_of, pieces_of, resolved
from replica.spark.planning import limited, split
from replica.spark.stream_offsets import StreamOffset
from replica.spark.values import OffsetRange, Piece, Position, TopicLayout

BEGINNING = Position(offset=Offset(0))
Ends = Mapping[TopicPartition, Offset]


async def first_offset(options: ReadOptions, logs: TopicLogs) -> StreamOffset:
    """Where a new query begins. Raises TopicTableError."""
    found = await layouts(options, logs)
    names = partitions_of(options, found)
    check_covers("startingOffsets", options.starting, names)

    async def position(name: TopicPartition) -> Position:
        bounds = await logs.bounds(name)
        asked = resolved("startingOffsets", options.starting, name, bounds)
        start = existing(name, asked, bounds, fail_on_data_loss=options.fail_on_data_loss)
        return await logs.position_at(name, start)

    positions = await each(names, position)
    ids = {topic: layout.topic_id for topic, layout in found.items()}
    return StreamOffset(topic_ids=ids, positions=positions, begun_at=positions)


async def committed_ends(options: ReadOptions, logs: TopicLogs) -> Ends:
    """Up to where each partition is committed now."""
    names = partitions_of(options, await layouts(options, logs))
    bounds = await each(names, logs.bounds)
    return {name: bounds[name].end for name in names}


async def next_offset(
    options: ReadOptions, logs: TopicLogs, start: StreamOffset, offsets_max: int | None, ends: Ends | None = None
) -> StreamOffset:
    """How far the next batch goes: ``start`` itself if there is nothing new; up to ``ends`` where they are given.

    Raises TopicTruncatedError if the log is not what was read, and DataLossError.
    """
    found = await layouts(options, logs, start.topic_ids)
    _check_same_topics(start, found)
    names = partitions_of(options, found)
    _check_none_gone(start, names)

    async def waiting(name: TopicPartition) -> OffsetRange:
        return await _waiting(options, logs, name, start.positions.get(name, BEGINNING), ends)

    ranges = await each(names, waiting)
    goals = _goals(list(ranges.values()), offsets_max)
    moved = [name for name in names if goals[name] > start.positions.get(name, BEGINNING).offset]
    if not moved:
        return start

    async def reached(name: TopicPartition) -> Position:
        return await logs.position_at(name, goals[name], start.positions.get(name, BEGINNING).leader_epoch)

    return StreamOffset(
        topic_ids={topic: layout.topic_id for topic, layout in found.items()},
        positions={**start.positions, **await each(moved, reached)},
        begun_at=start.begun_at if start.is_beginning else None,
    )


async def stream_pieces(options: ReadOptions, logs: TopicLogs, start: StreamOffset, end: StreamOffset) -> list[Piece]:
    """Say who reads what of one micro-batch; the same for the same two offsets, so that a repeat reads the same."""
    starts = start.positions if end.begun_at is None else end.begun_at
    ranges = [
        OffsetRange(topic_partition=name, start=starts.get(name, BEGINNING).offset, end=position.offset)
        for name, position in sorted(end.positions.items())
    ]
    known = {(name, at.offset): at for positions in (starts, end.positions) for name, at in positions.items()}
    return await pieces_of(split(ranges, options.min_partitions), end.topic_ids, known, logs)


async def _waiting(
    options: ReadOptions, logs: TopicLogs, name: TopicPartition, position: Position, ends: Ends | None
) -> OffsetRange:
    """What is committed behind a position, after a check that the log is what was read up to there."""
    bounds = await logs.bounds(name, position.leader_epoch)
    start = existing(name, position.offset, bounds, fail_on_data_loss=options.fail_on_data_loss)
    if start == position.offset:
        await logs.check(name, position)
    end = bounds.end if ends is None else min(bounds.end, ends.get(name, start))
    return OffsetRange(topic_partition=name, start=start, end=max(start, end))


def _goals(waiting: Sequence[OffsetRange], offsets_max: int | None) -> Ends:
    if offsets_max is None:
        return {each_.topic_partition: each_.end for each_ in waiting}
    return limited(waiting, offsets_max)


def _check_same_topics(start: StreamOffset, found: Mapping[str, TopicLayout]) -> None:
    for name, position in sorted(start.positions.items()):
        layout = found.get(name.topic)
        if layout is not None and layout.topic_id != start.topic_ids[name.topic]:
            told = "the topic was deleted and created again"
            raise TopicTruncatedError(name, position.offset, position.leader_epoch, told)


def _check_none_gone(start: StreamOffset, names: Sequence[TopicPartition]) -> None:
    gone = sorted(start.positions.keys() - set(names))
    if gone:
        raise PartitionUnreadableError(
            f"{gone[0]}, which this query has read, is not among what it reads now: it was deleted, or the options are "
            "others; begin anew with another checkpoint"
        )
