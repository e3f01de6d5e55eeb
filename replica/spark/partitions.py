"""Which partitions the options mean, and where in them reading begins and ends, after a look at the cluster.

Owns the checks of what was asked against what there is: partitions that do not exist, offsets that were deleted or are
not committed. Shared by batches and streams. Source: Spark's ``KafkaOffsetReaderAdmin``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from replica.ids import Epoch, Offset, TopicId, TopicPartition
from replica.spark.errors import DataLossError, OptionError, PartitionUnreadableError
from replica.spark.logs import TopicLogs
from replica.spark.options import OffsetSpec, ReadOptions
from replica.spark.values import Bound, LogBounds, OffsetRange, Piece, Position, TopicLayout

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

QUESTIONS_MAX = 64
"""How many partitions are asked about at once."""


async def each(names: Iterable[KeyT], ask: Callable[[KeyT], Awaitable[ValueT]]) -> dict[KeyT, ValueT]:
    """Ask about each of several, many at once, and keep their order."""
    places = asyncio.Semaphore(QUESTIONS_MAX)

    async def ask_in_turn(name: KeyT) -> ValueT:
        async with places:
            return await ask(name)

    wanted = tuple(names)
    return dict(zip(wanted, await asyncio.gather(*map(ask_in_turn, wanted)), strict=True))


async def layouts(
    options: ReadOptions, logs: TopicLogs, known: Mapping[str, TopicId] | None = None
) -> dict[str, TopicLayout]:
    """What the topics are now: those that are ``known``, or later ones of their names."""
    return {topic: await logs.layout(topic, (known or {}).get(topic)) for topic in options.topics}


def partitions_of(options: ReadOptions, found: Mapping[str, TopicLayout]) -> list[TopicPartition]:
    """The partitions to read, in order. Raises PartitionUnreadableError for one that does not exist."""
    there = sorted(name for layout in found.values() for name in layout.partitions)
    if options.partitions is None:
        return there
    missing = sorted(options.partitions.difference(there))
    if missing:
        raise PartitionUnreadableError(f"{missing[0]} does not exist on {options.connection.servers}")
    return sorted(options.partitions)


def check_covers(option: str, spec: OffsetSpec, names: Iterable[TopicPartition]) -> None:
    """Raise OptionError unless JSON offsets speak of just the partitions that are read."""
    if isinstance(spec, Bound):
        return
    missing, strange = sorted(set(names).difference(spec)), sorted(set(spec).difference(names))
    if missing:
        raise OptionError(option, f"silent about {missing[0]}", "JSON offsets must name every partition that is read")
    if strange:
        raise OptionError(option, f"about {strange[0]}", "JSON offsets may name partitions that are read only")


def resolved(option: str, spec: OffsetSpec, name: TopicPartition, bounds: LogBounds) -> Offset:
    """Tell which offset is meant. Raises OptionError for one that is not committed."""
    meant = spec if isinstance(spec, Bound) else spec[name]
    if isinstance(meant, Bound):
        return bounds.start if meant is Bound.EARLIEST else bounds.end
    if meant > bounds.end:
        raise OptionError(option, f"{meant} for {name}", f"it is committed up to {bounds.end}, give at most that")
    return meant


def existing(name: TopicPartition, offset: Offset, bounds: LogBounds, *, fail_on_data_loss: bool) -> Offset:
    """The offset itself if it was not deleted, else where the log starts. Raises DataLossError where that is wished."""
    if offset >= bounds.start:
        return offset
    if fail_on_data_loss:
        raise DataLossError(name, offset, bounds.start)
    return bounds.start


async def pieces_of(
    ranges: Iterable[OffsetRange],
    topic_ids: Mapping[str, TopicId],
    known: Mapping[tuple[TopicPartition, Offset], Position],
    logs: TopicLogs,
) -> list[Piece]:
    """Find the epochs at both ends of each range, where they are not known already."""
    ends = [(each_.topic_partition, offset) for each_ in ranges for offset in (each_.start, each_.end)]
    epochs: dict[TopicPartition, Epoch] = {}
    for (name, _), at in known.items():
        if at.leader_epoch is not None:
            epochs[name] = max(at.leader_epoch, epochs.get(name, at.leader_epoch))

    async def position(end: tuple[TopicPartition, Offset]) -> Position:
        return known.get(end) or await logs.position_at(*end, epochs.get(end[0]))

    positions = await each(dict.fromkeys(ends), position)
    return [
        Piece(
            topic_partition=each_.topic_partition,
            topic_id=topic_ids[each_.topic_partition.topic],
            start=positions[each_.topic_partition, each_.start],
            end=positions[each_.topic_partition, each_.end],
        )
        for each_ in ranges
    ]
