"""Answers in pages: nothing is told twice or left out, whatever the pages are, and whatever happens between them."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from replica.bounds import PAGE_PARTITIONS_MAX
from replica.core.messages import DescribeClusterRequest, DescribeClusterResponse
from replica.core.metadata.image import MetadataImage, TopicImage
from replica.core.metadata.pages import Cursor, page_of, topics_told, with_page
from replica.core.metadata.records import PartitionRegistration
from replica.ids import Epoch, PartitionEpoch, ReplicaId, TopicId
from tests.core.controller.test_quorum_controller import Stage

REGISTRATION = PartitionRegistration(
    replicas=(ReplicaId(1),),
    isr=(ReplicaId(1),),
    leader_id=ReplicaId(1),
    leader_epoch=Epoch(0),
    partition_epoch=PartitionEpoch(0),
)

Page = tuple[TopicImage, ...]


def image_of(partitions: Mapping[str, int], first_id: int = 0) -> MetadataImage:
    """An image of topics with so many partitions, in this order."""
    topics = {
        name: TopicImage(
            name=name, topic_id=TopicId(first_id + n), partitions=dict.fromkeys(range(count), REGISTRATION)
        )
        for n, (name, count) in enumerate(partitions.items())
    }
    return MetadataImage(topics=topics, topic_names={topic.topic_id: name for name, topic in topics.items()})


def pages(*images: MetadataImage, topics: tuple[str, ...] | None = None, limit: int | None) -> list[Page]:
    """All pages; each is of the next image, and the last image stays."""
    found: list[Page] = []
    cursor: Cursor | None = None
    while True:
        told, cursor = page_of(images[min(len(found), len(images) - 1)], topics=topics, cursor=cursor, limit=limit)
        found.append(topics_told(told))
        if cursor is None:
            return found


def together(found: list[Page]) -> tuple[TopicImage, ...]:
    whole: tuple[TopicImage, ...] = ()
    for page in found:
        whole = with_page(whole, page)
    return whole


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5), max_size=6),
    st.none() | st.lists(st.sampled_from("abcdxyz")).map(tuple),
    st.integers(1, 7),
)
def test_pages_put_together_are_the_whole(
    partitions: dict[str, int], topics: tuple[str, ...] | None, limit: int
) -> None:
    """Whatever is asked for, and however little at once: each partition is told once, and only what is wanted."""
    image = image_of(partitions)
    found = pages(image, topics=topics, limit=limit)
    assert together(found) == tuple(topic for name, topic in image.topics.items() if topics is None or name in topics)
    sizes = [sum(len(topic.partitions) for topic in page) for page in found]
    assert all(size == limit for size in sizes[:-1])
    assert sizes[-1] <= limit


def test_an_answer_tells_of_so_many_partitions_at_most() -> None:
    """However many the asker would take; who takes none gets one."""
    image = image_of({"large": PAGE_PARTITIONS_MAX + 1})
    for limit in (None, 1 << 30):
        assert [len(page[0].partitions) for page in pages(image, limit=limit)] == [PAGE_PARTITIONS_MAX, 1]
    told, cursor = page_of(image, topics=None, cursor=None, limit=0)
    assert (len(told), cursor) == (1, Cursor(topic_id=TopicId(0), partition=1))


def test_what_goes_between_two_pages_shifts_nothing() -> None:
    """The topic at which the next page begins is deleted: the page begins with the one behind it."""
    before = image_of({"a": 2, "b": 2, "c": 2})
    after = MetadataImage(topics={name: topic for name, topic in before.topics.items() if name != "b"})
    assert [[topic.name for topic in page] for page in pages(before, after, limit=2)] == [["a"], ["c"]]


def test_what_comes_between_two_pages_is_in_a_later_one() -> None:
    """A topic that is deleted and created again meanwhile is told as it is now, and as a whole."""
    before = image_of({"a": 3, "b": 1})
    after = image_of({"b": 1, "a": 2}, first_id=1)
    whole = together(pages(before, after, limit=2))
    assert sorted((topic.name, topic.topic_id, len(topic.partitions)) for topic in whole) == [("a", 2, 2), ("b", 1, 1)]


def test_whoever_describes_the_cluster_does_it_in_pages() -> None:
    """The answer of a replica goes as far as its asker takes it, and says where it goes on."""
    stage = Stage()
    stage.core.metadata.image = image_of({"a": 2, "b": 3})
    first = DescribeClusterRequest(response_partition_limit=3)
    answers = []
    for request in (first, replace(first, cursor=Cursor(topic_id=TopicId(1), partition=1))):
        answer = stage.replies[stage.call(request)]
        assert isinstance(answer, DescribeClusterResponse)
        answers.append(({topic.name: len(topic.partitions) for topic in answer.topics}, answer.next_cursor))
    assert answers == [({"a": 2, "b": 1}, Cursor(topic_id=TopicId(1), partition=1)), ({"b": 2}, None)]
