"""Answers in pages: what is told of partitions, in the order of topic ids, as far as one message may carry.

Owns the order, where a page ends, and how pages are put together. A cursor names the first partition that was not told,
by the id of its topic, which is never given away again: a topic that goes or comes meanwhile shifts nothing. Each page
is of the image of its own time.

Source: KIP-966 (``DescribeTopicPartitions``), whose cursor has the topic's name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from replica.bounds import PAGE_PARTITIONS_MAX
from replica.core.metadata.image import MetadataImage, TopicImage
from replica.core.metadata.records import PartitionRegistration
from replica.ids import TopicId


class Cursor(Struct, frozen=True, kw_only=True):
    """Where a page begins."""

    topic_id: TopicId
    partition: int


Told = tuple[TopicImage, int]
"""One partition of a page: its topic as a whole, and its number."""


def page_of(
    image: MetadataImage,
    *,
    topics: Collection[str] | None,
    cursor: Cursor | None,
    limit: int | None,
    concerns: Callable[[PartitionRegistration], bool] | None = None,
) -> tuple[list[Told], Cursor | None]:
    """The partitions of a page, and where the next one begins; absent after the last.

    ``topics`` names the topics that are wanted, absent for all. ``limit`` is how many partitions the asker takes.
    """
    wanted = None if topics is None else frozenset(topics)
    begin = (-1, 0) if cursor is None else (cursor.topic_id, cursor.partition)
    room = PAGE_PARTITIONS_MAX if limit is None else max(1, min(limit, PAGE_PARTITIONS_MAX))
    told: list[Told] = []
    for topic in image.topics.values():
        if topic.topic_id < begin[0] or (wanted is not None and topic.name not in wanted):
            continue
        for number, registration in topic.partitions.items():
            if (topic.topic_id, number) < begin or (concerns is not None and not concerns(registration)):
                continue
            if len(told) == room:
                return told, Cursor(topic_id=topic.topic_id, partition=number)
            told.append((topic, number))
    return told, None


def topics_told(told: Iterable[Told]) -> tuple[TopicImage, ...]:
    """Put the partitions of a page together, topic by topic."""
    numbers: dict[TopicId, list[int]] = {}
    topics: dict[TopicId, TopicImage] = {}
    for topic, number in told:
        topics[topic.topic_id] = topic
        numbers.setdefault(topic.topic_id, []).append(number)
    return tuple(_part_of(topic, numbers[topic_id]) for topic_id, topic in topics.items())


def _part_of(topic: TopicImage, numbers: list[int]) -> TopicImage:
    if len(numbers) == len(topic.partitions):
        return topic
    return replace(topic, partitions={number: topic.partitions[number] for number in numbers})


def with_page(topics: Iterable[TopicImage], page: Iterable[TopicImage]) -> tuple[TopicImage, ...]:
    """Add a later page to what earlier ones have told: a topic of the same name that is another takes its place."""
    by_name = {topic.name: topic for topic in topics}
    for topic in page:
        known = by_name.get(topic.name)
        is_continued = known is not None and known.topic_id == topic.topic_id
        told = {**known.partitions, **topic.partitions} if known is not None and is_continued else topic.partitions
        by_name[topic.name] = replace(topic, partitions=told)
    return tuple(by_name.values())
