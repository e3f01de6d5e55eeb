"""What one ``spark.read`` reads: offsets that are fixed when it is planned, cut into one piece per task."""

from __future__ import annotations

from replica.ids import TopicPartition
from replica.spark.errors import OptionError
from replica.spark.logs import TopicLogs
from replica.spark.options import ReadOptions
from replica.spark.partitions import check_covers, each, existing, layouts, partitions_of, pieces_of, resolved
from replica.spark.planning import split
from replica.spark.values import LogBounds, OffsetRange, Piece


async def batch_pieces(options: ReadOptions, logs: TopicLogs) -> list[Piece]:
    """Look at the cluster and say who reads what. Raises TopicTableError."""
    found = await layouts(options, logs)
    names = partitions_of(options, found)
    check_covers("startingOffsets", options.starting, names)
    check_covers("endingOffsets", options.ending, names)
    bounds = await each(names, logs.bounds)
    ranges = [_range(options, name, bounds[name]) for name in names]
    topic_ids = {topic: layout.topic_id for topic, layout in found.items()}
    return await pieces_of(split(ranges, options.min_partitions), topic_ids, {}, logs)


def _range(options: ReadOptions, name: TopicPartition, bounds: LogBounds) -> OffsetRange:
    asked = resolved("startingOffsets", options.starting, name, bounds)
    end = resolved("endingOffsets", options.ending, name, bounds)
    if end < asked:
        raise OptionError("endingOffsets", f"{end} for {name}", f"reading begins at {asked}, give at least that")
    start = existing(name, asked, bounds, fail_on_data_loss=options.fail_on_data_loss)
    return OffsetRange(topic_partition=name, start=start, end=max(start, end))
