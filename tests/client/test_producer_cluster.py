"""The producer against a whole simulated cluster: whatever is lost or dies, each record has its one true outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from replica.client.cluster_view import ViewConfig
from replica.client.connections import Endpoint
from replica.client.failures import NotWrittenError, OutcomeUnknownError, UnknownTopicError, WriteError
from replica.client.producer import Producer
from replica.client.producer_config import Acks, ProducerConfig
from replica.client.values import RecordMetadata
from replica.core.messages import ProduceRequest, Request
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.records import Compression, decode_records, parse_batches
from tests.client.virtual import ClusterConnections, bootstrap
from tests.replication.bench import Cluster

VIEW = ViewConfig(request_timeout_ms=1000, api_timeout_ms=10_000, metadata_timeout_ms=500)
FAST = ProducerConfig(
    request_timeout_ms=1000, delivery_timeout_ms=20_000, max_block_ms=5000, retry_backoff_ms=20, linger_ms=2
)


def producer_of(
    cluster: Cluster,
    config: ProducerConfig = FAST,
    lose: Callable[[Endpoint, Request], bool] = lambda _, __: False,
) -> tuple[Producer, ClusterConnections]:
    connections = ClusterConnections(cluster)
    connections.lose = lose
    producer = Producer(
        bootstrap(cluster), config, view_config=VIEW, connections=connections, clock=connections.clock, random=Random(1)
    )
    return producer, connections


def changed(**fields: object) -> ProducerConfig:

    return replace(FAST, **fields)  # type: ignore[arg-type] # the fields of a test's own choice


async def test_records_are_acknowledged_where_they_stand() -> None:
    """Records sent one after the other share a batch, and each learns its own offset, epoch and partition."""
    cluster = Cluster(3)
    topic = cluster.create("orders", (1, 2), (2, 3))
    producer, connections = producer_of(cluster)
    async with producer:
        futures = [await producer.send("orders", b"%d" % number, partition=0) for number in range(3)]
        other = await producer.send("orders", b"x", key=b"k", partition=1, headers=[("h", b"v")], timestamp_ms=7)
        acknowledged = await asyncio.gather(*futures)
        assert [(done.topic_partition, done.offset, done.leader_epoch) for done in acknowledged] == [
            (topic, offset, 0) for offset in range(3)
        ]
        assert (await other).topic_partition == TopicPartition("orders", 1)
    assert connections.asked(ProduceRequest) == [1, 2]
    assert cluster.values(topic) == [b"0", b"1", b"2"]
    (batch,) = parse_batches(cluster.fetch(TopicPartition("orders", 1)).records)
    (record,) = decode_records(batch)
    assert (record.key, record.value, record.headers, record.timestamp_ms) == (b"k", b"x", (("h", b"v"),), 7)


@pytest.mark.parametrize("compression", list(Compression))
async def test_batches_are_compressed(compression: Compression) -> None:
    """Every codec goes through the cluster as it is."""
    cluster = Cluster(1)
    topic = cluster.create("orders", (1,))
    producer, _ = producer_of(cluster, changed(compression=compression))
    async with producer:
        await (await producer.send("orders", b"a" * 1000))
    (batch,) = cluster.batches(1, topic)
    assert batch.compression is compression
    assert cluster.values(topic) == [b"a" * 1000]


async def test_a_lost_answer_does_not_write_twice() -> None:
    """An idempotent producer sends again what got no answer, and the leader knows it again: it is written once."""
    cluster = Cluster(3)
    topic = cluster.create("orders", (1, 2, 3))
    dice = Random(3)
    producer, connections = producer_of(
        cluster, lose=lambda _, request: isinstance(request, ProduceRequest) and dice.random() < 0.4
    )
    async with producer:
        futures = []
        for number in range(30):
            futures.append(await producer.send("orders", b"%d" % number))
            await connections.clock.sleep(3)
        offsets = [done.offset for done in await asyncio.gather(*futures)]
    assert offsets == list(range(30))
    assert cluster.values(topic) == [b"%d" % number for number in range(30)]
    assert len(connections.asked(ProduceRequest)) > len(cluster.batches(1, topic))


async def test_a_leader_that_dies_is_followed_by_the_next() -> None:
    """Records that are on their way while their leader dies are acknowledged by the next one, in order, once."""
    cluster = Cluster(3)
    topic = cluster.create("orders", (1, 2, 3))
    producer, connections = producer_of(cluster)
    async with producer:
        futures = []
        for number in range(40):
            futures.append(await producer.send("orders", b"%d" % number))
            await connections.clock.sleep(3)
            if number == 15:
                cluster.kill(1)
        await asyncio.gather(*futures)
    assert cluster.values(topic) == [b"%d" % number for number in range(40)]
    assert cluster.leader(topic) != 1


async def test_without_idempotence_a_lost_answer_is_unknown() -> None:
    """A write that got no answer is not repeated where that could write it twice; its outcome is unknown."""
    cluster = Cluster(1)
    topic = cluster.create("orders", (1,))
    producer, connections = producer_of(
        cluster, changed(enable_idempotence=False), lose=lambda _, request: isinstance(request, ProduceRequest)
    )
    outcomes: list[RecordMetadata | WriteError] = []
    async with producer:
        future = await producer.send("orders", b"a", on_delivery=outcomes.append)
        with pytest.raises(OutcomeUnknownError, match="the answer was lost"):
            await future
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknownError]
    assert connections.asked(ProduceRequest) == [1]
    assert cluster.values(topic) == [b"a"]


async def test_a_refusal_is_definite() -> None:
    """A record that the leader will not have is not written, and the error has Kafka's name."""
    cluster = Cluster(1)
    cluster.create("orders", (1,), max_message_bytes="100")
    producer, _ = producer_of(cluster)
    async with producer:
        future = await producer.send("orders", b"a" * 1000)
        with pytest.raises(NotWrittenError, match="MESSAGE_TOO_LARGE") as refused:
            await future
        assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE
        assert (await (await producer.send("orders", b"a"))).offset == 0


async def test_too_few_replicas_are_waited_for() -> None:
    """NOT_ENOUGH_REPLICAS passes when a replica comes back; until the delivery timeout the producer tries again."""
    cluster = Cluster(3)
    topic = cluster.create("orders", (1, 2), min_insync_replicas="2")
    producer, connections = producer_of(cluster)
    cluster.kill(2)
    cluster.wait_for_isr(topic, 1)
    async with producer:
        future = await producer.send("orders", b"a")
        await connections.clock.sleep(3000)
        assert not future.done()
        cluster.start(2)
        assert (await future).offset == 0


async def test_time_that_is_up_is_a_definite_failure_where_nothing_was_appended() -> None:
    """After the delivery timeout, a record of which every attempt was refused is definitely not written."""
    cluster = Cluster(3)
    topic = cluster.create("orders", (1, 2), min_insync_replicas="2")
    producer, _ = producer_of(cluster, changed(delivery_timeout_ms=1500))
    cluster.kill(2)
    cluster.wait_for_isr(topic, 1)
    async with producer:
        with pytest.raises(NotWrittenError, match="NOT_ENOUGH_REPLICAS"):
            await (await producer.send("orders", b"a"))
    assert cluster.values(topic) == []


async def test_what_does_not_exist_is_not_written() -> None:
    """A topic that does not come to exist in time, and a partition that the topic has not, are named."""
    cluster = Cluster(1)
    cluster.create("orders", (1,))
    producer, _ = producer_of(cluster)
    async with producer:
        with pytest.raises(UnknownTopicError, match="nothing does not exist"):
            await producer.send("nothing", b"a")
        with pytest.raises(UnknownTopicError, match="orders-7"):
            await producer.send("orders", b"a", partition=7)


async def test_acks_none_claims_no_offset() -> None:
    """A write that asks for no acknowledgement is told none."""
    cluster = Cluster(1)
    topic = cluster.create("orders", (1,))
    producer, _ = producer_of(cluster, changed(acks=Acks.NONE))
    async with producer:
        assert (await (await producer.send("orders", b"a"))).offset is None
    cluster.wait(lambda: cluster.values(topic) == [b"a"], "the record is there")


async def test_closing_in_a_hurry_gives_up_what_is_left() -> None:
    """With the cluster gone, ``close`` ends in its time, and each record's outcome is told."""
    cluster = Cluster(1)
    cluster.create("orders", (1,))
    producer, connections = producer_of(cluster)
    await (await producer.send("orders", b"a"))
    cluster.kill(1)
    future = await producer.send("orders", b"b")
    before_ms = connections.clock.now_ms()
    await producer.close(timeout_ms=500)
    assert connections.clock.now_ms() - before_ms < 3000
    with pytest.raises(NotWrittenError, match="refuses connections"):
        await future
    with pytest.raises(NotWrittenError, match="closed"):
        await producer.send("orders", b"c")


async def test_what_was_sent_before_the_end_is_unknown() -> None:
    """A record that a broker may be taking while the producer is closed in a hurry may be written."""
    cluster = Cluster(3)
    topic = cluster.create("orders", (1, 2, 3), min_insync_replicas="2")
    producer, connections = producer_of(cluster)
    await (await producer.send("orders", b"a"))
    cluster.kill(2)
    cluster.kill(3)
    future = await producer.send("orders", b"b")
    await connections.clock.sleep(100)
    await producer.close(timeout_ms=100)
    with pytest.raises(OutcomeUnknownError, match="no answer has come yet"):
        await future
    assert cluster.replica(1, topic).log.log_end_offset == 2


async def test_room_is_waited_for() -> None:
    """With the buffer full, ``send`` waits until a batch is settled; every record is taken and written in order."""
    cluster = Cluster(1)
    topic = cluster.create("orders", (1,))
    producer, _ = producer_of(cluster, changed(buffer_memory=1000, max_request_size=500, batch_size=500))
    async with producer:
        futures = [await producer.send("orders", b"%02d" % number + bytes(150)) for number in range(20)]
        assert [done.offset for done in await asyncio.gather(*futures)] == list(range(20))
    assert [(value or b"")[:2] for value in cluster.values(topic)] == [b"%02d" % number for number in range(20)]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"acks": Acks.LEADER, "enable_idempotence": True}, "idempotence needs acks ALL, not LEADER"),
        ({"max_in_flight_requests_per_connection": 6}, "it must be at most 5"),
        ({"delivery_timeout_ms": 1000, "linger_ms": 1}, "must be at least linger_ms \\+ request_timeout_ms"),
        ({"max_block_ms": 0}, "must be above 0"),
        ({"buffer_memory": 10}, "must not fall"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(fields: dict[str, object], complaint: str) -> None:
    """Settings of which one makes another meaningless are named when the producer is made."""
    with pytest.raises(ValueError, match=complaint):
        changed(**fields)


async def test_who_waits_for_room_is_told_that_the_producer_is_closed() -> None:
    """Nobody is given a future after the sender has stopped: it would never tell anything."""
    cluster = Cluster(3)
    topic = cluster.create("orders", (1,))
    producer, _ = producer_of(cluster, changed(buffer_memory=1000, max_request_size=500, batch_size=500))
    first = await producer.send(topic.topic, b"a" * 400)
    second = await producer.send(topic.topic, b"b" * 400)
    waiting = asyncio.create_task(producer.send(topic.topic, b"c" * 400))
    for _ in range(3):
        await asyncio.sleep(0)
    await producer.close()
    with pytest.raises(NotWrittenError, match="the producer is closed"):
        await waiting
    assert first.done()
    assert second.done()
