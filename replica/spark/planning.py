"""Which offsets are read, by how many tasks: arithmetic on ranges, without a cluster.

Source of the rules: Spark's ``KafkaOffsetRangeCalculator`` (minPartitions) and ``KafkaMicroBatchStream`` (a limit is
shared out by what waits in each partition).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

from replica.ids import Offset, TopicPartition
from replica.spark.values import OffsetRange


def limited(waiting: Sequence[OffsetRange], offsets_max: int) -> dict[TopicPartition, Offset]:
    """Tell up to where each partition is read if all together may give ``offsets_max`` offsets.

    Each in which something waits gets one, and of the rest its share of what waits, rounded down; what rounding leaves
    goes to the greatest remainders. A limit below the number of partitions goes round: one partition may be filled
    faster than it is read for ever, and the others are not to starve beside it.
    """
    filled = [each for each in waiting if each.size > 0]
    ends = {each.topic_partition: each.end for each in waiting}
    if sum(each.size for each in filled) <= offsets_max:
        return ends
    if offsets_max < len(filled):
        first = sum(each.start for each in waiting) % len(filled)
        turn = {filled[(first + number) % len(filled)].topic_partition for number in range(offsets_max)}
        given = {each.topic_partition: int(each.topic_partition in turn) for each in filled}
    else:
        given = _shares(filled, offsets_max)
    return ends | {each.topic_partition: Offset(each.start + given[each.topic_partition]) for each in filled}


def _shares(filled: Sequence[OffsetRange], offsets_max: int) -> dict[TopicPartition, int]:
    """How many offsets each gets, at least one; all together ``offsets_max``, which is less than what waits."""
    beyond, total = offsets_max - len(filled), sum(each.size - 1 for each in filled)
    shares = {each.topic_partition: divmod((each.size - 1) * beyond, total) for each in filled}
    left = beyond - sum(share for share, _ in shares.values())
    greatest = sorted(shares, key=lambda name: (-shares[name][1], name))[:left]
    return {name: 1 + share + (name in greatest) for name, (share, _) in shares.items()}


def split(ranges: Sequence[OffsetRange], min_partitions: int | None) -> list[OffsetRange]:
    """Cut ranges into nearly equal parts, in order, until there are at least ``min_partitions`` or nothing to cut.

    Larger ranges are cut into more parts. Empty ranges give none. Without a number each range is one part.
    """
    filled = [each for each in ranges if each.size > 0]
    if min_partitions is None or len(filled) >= min_partitions:
        return filled
    counts = _parts(filled, min_partitions)
    return [part for each in filled for part in _cut(each, counts[each.topic_partition])]


def _parts(ranges: Sequence[OffsetRange], wanted: int) -> dict[TopicPartition, int]:
    """Give one part more, as long as too few are there, to the range whose parts are largest."""
    counts = {each.topic_partition: 1 for each in ranges}
    sizes = {each.topic_partition: each.size for each in ranges}
    largest: list[tuple[float, TopicPartition]] = [(-size, name) for name, size in sizes.items()]
    heapq.heapify(largest)
    for _ in range(min(wanted, sum(sizes.values())) - len(ranges)):
        name = largest[0][1]
        counts[name] += 1
        heapq.heapreplace(largest, (-sizes[name] / counts[name], name))
    return counts


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [Offset(whole.start + whole.size * number // count) for number in range(count + 1)]
    return [OffsetRange(topic_partition=whole.topic_partition, start=start, end=end) for start, end in pairwise(edges)]
