"""The consumer against a whole simulated cluster: it returns what is committed, and notices what is gone."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replica.client.cluster_view import ViewConfig
from replica.client.consumer import Consumer
from replica.client.consumer_config import ConsumerConfig
from replica.client.failures import LogTruncatedError, NoOffsetError, OffsetOutOfRangeError, ReadFailedError
from replica.client.reading import OffsetReset
from replica.client.values import ConsumerRecord, OffsetAndEpoch
from replica.core import messages as m
from replica.ids import Epoch, Offset, TopicPartition
from replica.records import encode_batch
from tests.client.virtual import ClusterConnections, bootstrap
from tests.replication.bench import Cluster
from tests.replication.unclean import cut, lose

VIEW = ViewConfig(request_timeout_ms=1000, api_timeout_ms=5000, metadata_timeout_ms=500)
EARLIEST = ConsumerConfig(auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=50)
STRICT = ConsumerConfig(auto_offset_reset=OffsetReset.NONE, fetch_max_wait_ms=50)


def consumer_of(
    cluster: Cluster, config: ConsumerConfig, *names: TopicPartition
) -> tuple[Consumer, ClusterConnections]:
    connections = ClusterConnections(cluster)
    consumer = Consumer(bootstrap(cluster), config, view_config=VIEW, connections=connections, clock=connections.clock)
    consumer.assign(names)
    return consumer, connections


async def read(consumer: Consumer, count: int, timeout_ms: int = 10_000) -> list[ConsumerRecord]:
    """Poll until there are so many records."""
    records: list[ConsumerRecord] = []
    while len(records) < count:
        polled = await consumer.poll(timeout_ms)
        assert polled, f"only {len(records)} of {count} records came"
        records += polled
    return records


def values(records: list[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]


async def test_all_partitions_are_read_from_their_leaders(cluster: Cluster) -> None:
    """Records of several partitions come in order within each, with one Fetch per broker."""
    topic = cluster.create("orders", (1, 2), (2, 3), (1, 3))
    names = [topic, TopicPartition("orders", 1), TopicPartition("orders", 2)]
    for number, name in enumerate(names):
        cluster.produce(name, b"%d-a" % number, b"%d-b" % number)
    consumer, connections = consumer_of(cluster, EARLIEST)
    async with consumer:
        consumer.assign(await consumer.partitions_of("orders"))
        records = await read(consumer, 6)
        for number, name in enumerate(names):
            assert values([record for record in records if record.topic_partition == name]) == [
                b"%d-a" % number,
                b"%d-b" % number,
            ]
        assert {await consumer.position(name) for name in names} == {2}
    fetches = [request for _, request in connections.calls if isinstance(request, m.FetchRequest)]
    assert [len(request.partitions) for request in fetches[:2]] == [2, 1]


async def test_poll_returns_nothing_after_its_time_and_new_records_at_once(lone: Cluster) -> None:
    """Without records ``poll`` ends in time; a record that comes while it waits is returned."""
    topic = lone.create("orders", (1,))
    consumer, connections = consumer_of(lone, ConsumerConfig(), topic)
    async with consumer:
        before_ms = connections.clock.now_ms()
        assert await consumer.poll(200) == []
        assert connections.clock.now_ms() - before_ms < 260
        waiting = asyncio.create_task(consumer.poll(5000))
        await connections.clock.sleep(100)
        lone.produce(topic, b"a")
        assert values(await waiting) == [b"a"]


async def test_poll_hands_out_no_more_than_asked_for(lone: Cluster) -> None:
    """``max_poll_records`` bounds one poll; the position is behind the last record that was handed out."""
    topic = lone.create("orders", (1,))
    lone.produce(topic, *[b"%d" % number for number in range(5)])
    config = ConsumerConfig(auto_offset_reset=OffsetReset.EARLIEST, max_poll_records=2)
    consumer, _ = consumer_of(lone, config, topic)
    async with consumer:
        for expected, position in (([b"0", b"1"], 2), ([b"2", b"3"], 4), ([b"4"], 5)):
            assert values(await consumer.poll(1000)) == expected
            assert await consumer.position(topic) == position


async def test_positions_are_the_readers_to_choose(lone: Cluster) -> None:
    """Seeking goes to an offset, to both ends, and to a time; the offsets of all three can be asked for."""
    topic = lone.create("orders", (1,))
    records = encode_batch([b"a", b"b", b"c"], timestamp_ms=1000).data
    request = m.ProduceRequest(topic_partition=topic, acks=-1, timeout_ms=1000, records=records)
    lone.ask(1, request, m.ProduceResponse)
    lone.produce(topic, b"d")
    consumer, _ = consumer_of(lone, EARLIEST, topic)
    async with consumer:
        consumer.seek(topic, 2)
        assert values(await read(consumer, 2)) == [b"c", b"d"]
        consumer.seek_to_beginning(topic)
        assert values(await read(consumer, 4)) == [b"a", b"b", b"c", b"d"]
        consumer.seek_to_end()
        assert await consumer.position(topic) == 4
        assert await consumer.beginning_offsets([topic]) == {topic: 0}
        assert await consumer.end_offsets([topic]) == {topic: 4}
        assert await consumer.offsets_for_times({topic: 500}) == {
            topic: OffsetAndEpoch(offset=Offset(0), leader_epoch=Epoch(0))
        }
        assert await consumer.offsets_for_times({topic: 5000}) == {topic: None}


async def test_without_a_policy_a_position_is_needed(lone: Cluster) -> None:
    """With no position and no policy ``poll`` says what to do; an offset beyond the log is named with its bounds."""
    topic = lone.create("orders", (1,))
    lone.produce(topic, b"a")
    consumer, _ = consumer_of(lone, STRICT, topic)
    async with consumer:
        with pytest.raises(NoOffsetError, match="orders-0 has no position; seek"):
            await consumer.poll(1000)
        consumer.seek(topic, 7)
        with pytest.raises(
            OffsetOutOfRangeError, match="offset 7 is outside orders-0, which starts at 0 and is committed up to 1"
        ):
            await consumer.poll(1000)
        consumer.seek(topic, 0)
        assert values(await consumer.poll(1000)) == [b"a"]


async def test_an_offset_out_of_range_begins_anew_by_policy(lone: Cluster) -> None:
    """With a policy, an offset that is not there is replaced by the log's start or end."""
    topic = lone.create("orders", (1,))
    lone.produce(topic, b"a")
    consumer, _ = consumer_of(lone, EARLIEST, topic)
    async with consumer:
        consumer.seek(topic, 7)
        assert values(await consumer.poll(1000)) == [b"a"]


async def test_a_new_leader_is_found(cluster: Cluster) -> None:
    """A consumer goes on at the next leader where it was at the last, and misses nothing."""
    topic = cluster.create("orders", (1, 2, 3))
    cluster.produce(topic, b"a")
    consumer, _ = consumer_of(cluster, EARLIEST, topic)
    async with consumer:
        assert values(await consumer.poll(1000)) == [b"a"]
        cluster.kill(1)
        cluster.wait(lambda: cluster.registration(topic).leader_id != 1, "another leads")
        cluster.produce(topic, b"b")
        assert values(await consumer.poll(5000)) == [b"b"]


async def test_what_cannot_be_read_is_not_passed_over_in_silence() -> None:
    """A partition without a leader is an error after as long as a call may take, which names the reason."""
    cluster = Cluster(2)
    topic = cluster.create("orders", (1,))
    cluster.produce(topic, b"a")
    consumer, _ = consumer_of(cluster, EARLIEST, topic, TopicPartition("nothing", 0))
    async with consumer:
        assert values(await consumer.poll(1000)) == [b"a"]
        with pytest.raises(ReadFailedError, match="nothing-0 could not be read for 5000 ms; last: nothing-0 does not"):
            await consumer.poll(10_000)


async def test_records_come_from_the_follower_nearby(cluster: Cluster) -> None:
    """The leader sends a consumer to the follower in its rack, and serves it itself when that is gone (KIP-392)."""
    topic = cluster.create("orders", (1, 2, 3))
    cluster.produce(topic, b"a")
    consumer, connections = consumer_of(cluster, replace(EARLIEST, client_rack="r2"), topic)
    async with consumer:
        assert values(await read(consumer, 1)) == [b"a"]
        assert connections.asked(m.FetchRequest)[:2] == [1, 2]
        for value in (b"b", b"c"):
            cluster.produce(topic, value)
            assert values(await read(consumer, 1)) == [value]
        assert connections.asked(m.FetchRequest).count(1) == 1
        cluster.kill(2)
        cluster.produce(topic, b"d")
        assert values(await read(consumer, 1)) == [b"d"]
        assert connections.asked(m.FetchRequest)[-1] == 1


@pytest.mark.parametrize(
    "replacements",
    [
        pytest.param((), id="shorter"),
        pytest.param((b"x", b"y"), id="as long"),
        pytest.param((b"w", b"x", b"y", b"z"), id="longer"),
    ],
)
async def test_a_truncation_is_told(cluster: Cluster, replacements: tuple[bytes, ...]) -> None:
    """Records that were read and are gone are an error, with where the log was cut, however much was written since."""
    topic = cut(cluster)
    consumer, _ = consumer_of(cluster, STRICT, topic)
    async with consumer:
        consumer.seek(topic, 0)
        assert values(await read(consumer, 3)) == [b"a", b"b", b"c"]
        lose(cluster, topic, *replacements)
        for _ in range(2):  # It is told again until the reader seeks.
            with pytest.raises(LogTruncatedError, match="orders-0 was truncated below offset 3") as truncated:
                await consumer.poll(10_000)
            assert truncated.value.divergent is not None
            assert truncated.value.divergent.end_offset == 1
        consumer.seek(topic, 1)
        assert values(await read(consumer, len(replacements))) == list(replacements)


async def test_a_truncation_below_the_end_is_told(cluster: Cluster) -> None:
    """A position that was looked up as the log's end is checked like one that was read up to."""
    topic = cut(cluster)
    consumer, _ = consumer_of(cluster, STRICT, topic)
    async with consumer:
        consumer.seek_to_end()
        assert await consumer.position(topic) == 3
        lose(cluster, topic, b"w", b"x", b"y", b"z")
        with pytest.raises(LogTruncatedError, match="orders-0 was truncated below offset 3"):
            await consumer.poll(10_000)


async def test_a_truncation_is_told_to_who_comes_back(cluster: Cluster) -> None:
    """A position that was kept with its epoch is checked when reading goes on from it."""
    topic = cut(cluster)
    consumer, _ = consumer_of(cluster, STRICT, topic)
    async with consumer:
        consumer.seek(topic, 0)
        last = (await read(consumer, 3))[-1]
    lose(cluster, topic, b"x", b"y", b"z")
    again, _ = consumer_of(cluster, STRICT, topic)
    async with again:
        again.seek(topic, last.offset + 1, leader_epoch=last.leader_epoch)
        with pytest.raises(LogTruncatedError):
            await again.poll(10_000)


async def test_with_a_policy_reading_goes_on_where_the_log_was_cut(cluster: Cluster) -> None:
    """With a reset policy a truncation sends the consumer back to the divergence, so that it misses nothing new."""
    topic = cut(cluster)
    consumer, _ = consumer_of(cluster, EARLIEST, topic)
    async with consumer:
        assert values(await read(consumer, 3)) == [b"a", b"b", b"c"]
        lose(cluster, topic, b"x", b"y", b"z")
        assert values(await read(consumer, 3)) == [b"x", b"y", b"z"]


async def test_a_topic_that_was_replaced_is_a_truncation(lone: Cluster) -> None:
    """A position in a topic that was deleted means nothing in a new one of the same name."""
    topic = lone.create("orders", (1,))
    lone.produce(topic, b"a")
    consumer, _ = consumer_of(lone, STRICT, topic)
    async with consumer:
        consumer.seek(topic, 0)
        assert values(await read(consumer, 1)) == [b"a"]
        lone.ask(1, m.DeleteTopicRequest(name="orders"), m.DeleteTopicResponse)
        lone.create("orders", (1,))
        lone.produce(topic, b"x", b"y")
        with pytest.raises(LogTruncatedError, match="deleted and created again"):
            await consumer.poll(5000)
