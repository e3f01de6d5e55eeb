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
from replica.client.producer_values import BufferFullError, RecordTooLargeError
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

SMALL = replace(FAST, buffer_memory=1000, max_request_size=500, batch_size=500)
"""Room for two records of 400 bytes."""


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


async def test_records_are_acknowledged_where_they_stand(cluster: Cluster) -> None:
    """Records sent one after the other share a batch, and each learns its own offset, epoch and partition."""
    topic = cluster.create("orders", (1, 2), (2, 3))
    producer, connections = producer_of(cluster)
    async with producer:
        deliveries = [producer.send("orders", b"%d" % number, partition=0) for number in range(3)]
        other = producer.send("orders", b"x", key=b"k", partition=1, headers=[("h", b"v")], timestamp_ms=7)
        acknowledged = await asyncio.gather(*deliveries)
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
async def test_batches_are_compressed(lone: Cluster, compression: Compression) -> None:
    """Every codec goes through the cluster as it is."""
    topic = lone.create("orders", (1,))
    producer, _ = producer_of(lone, changed(compression=compression))
    async with producer:
        await producer.send("orders", b"a" * 1000)
    (batch,) = lone.batches(1, topic)
    assert batch.compression is compression
    assert lone.values(topic) == [b"a" * 1000]


async def test_a_lost_answer_does_not_write_twice(cluster: Cluster) -> None:
    """An idempotent producer sends again what got no answer, and the leader knows it again: it is written once."""
    topic = cluster.create("orders", (1, 2, 3))
    dice = Random(3)
    producer, connections = producer_of(
        cluster, lose=lambda _, request: isinstance(request, ProduceRequest) and dice.random() < 0.4
    )
    async with producer:
        deliveries = []
        for number in range(30):
            deliveries.append(producer.send("orders", b"%d" % number))
            await connections.clock.sleep(3)
        offsets = [done.offset for done in await asyncio.gather(*deliveries)]
    assert offsets == list(range(30))
    assert cluster.values(topic) == [b"%d" % number for number in range(30)]
    assert len(connections.asked(ProduceRequest)) > len(cluster.batches(1, topic))


async def test_a_leader_that_dies_is_followed_by_the_next(cluster: Cluster) -> None:
    """Records that are on their way while their leader dies are acknowledged by the next one, in order, once."""
    topic = cluster.create("orders", (1, 2, 3))
    producer, connections = producer_of(cluster)
    async with producer:
        deliveries = []
        for number in range(40):
            deliveries.append(producer.send("orders", b"%d" % number))
            await connections.clock.sleep(3)
            if number == 15:
                cluster.kill(1)
        await asyncio.gather(*deliveries)
    assert cluster.values(topic) == [b"%d" % number for number in range(40)]
    assert cluster.leader(topic) != 1


async def test_without_idempotence_a_lost_answer_is_unknown(lone: Cluster) -> None:
    """A write that got no answer is not repeated where that could write it twice; its outcome is unknown."""
    topic = lone.create("orders", (1,))
    producer, connections = producer_of(
        lone, changed(enable_idempotence=False), lose=lambda _, request: isinstance(request, ProduceRequest)
    )
    outcomes: list[RecordMetadata | WriteError] = []
    async with producer:
        delivery = producer.send("orders", b"a", on_delivery=outcomes.append)
        with pytest.raises(OutcomeUnknownError, match="the answer was lost"):
            await delivery
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknownError]
    assert connections.asked(ProduceRequest) == [1]
    assert lone.values(topic) == [b"a"]


async def test_a_refusal_is_definite(lone: Cluster) -> None:
    """A record that the leader will not have is not written, and the error has Kafka's name."""
    lone.create("orders", (1,), max_message_bytes="100")
    producer, _ = producer_of(lone)
    async with producer:
        delivery = producer.send("orders", b"a" * 1000)
        with pytest.raises(NotWrittenError, match="MESSAGE_TOO_LARGE") as refused:
            await delivery
        assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE
        assert (await producer.send("orders", b"a")).offset == 0


async def test_too_few_replicas_are_waited_for(cluster: Cluster) -> None:
    """NOT_ENOUGH_REPLICAS passes when a replica comes back; until the delivery timeout the producer tries again."""
    topic = cluster.create("orders", (1, 2), min_insync_replicas="2")
    producer, connections = producer_of(cluster)
    cluster.kill(2)
    cluster.wait_for_isr(topic, 1)
    async with producer:
        delivery = producer.send("orders", b"a")
        await connections.clock.sleep(3000)
        assert not delivery.done()
        cluster.start(2)
        assert (await delivery).offset == 0


async def test_time_that_is_up_is_a_definite_failure_where_nothing_was_appended(cluster: Cluster) -> None:
    """After the delivery timeout, a record of which every attempt was refused is definitely not written."""
    topic = cluster.create("orders", (1, 2), min_insync_replicas="2")
    producer, _ = producer_of(cluster, changed(delivery_timeout_ms=1500))
    cluster.kill(2)
    cluster.wait_for_isr(topic, 1)
    async with producer:
        with pytest.raises(NotWrittenError, match="NOT_ENOUGH_REPLICAS"):
            await producer.send("orders", b"a")
    assert cluster.values(topic) == []


async def test_what_does_not_exist_is_not_written(lone: Cluster) -> None:
    """A topic that does not come to exist in time, and a partition that the topic has not, are named."""
    lone.create("orders", (1,))
    producer, _ = producer_of(lone)
    async with producer:
        with pytest.raises(UnknownTopicError, match="nothing does not exist"):
            await producer.send("nothing", b"a")
        with pytest.raises(UnknownTopicError, match="orders-7"):
            await producer.send("orders", b"a", partition=7)


async def test_acks_none_claims_no_offset(lone: Cluster) -> None:
    """A write that asks for no acknowledgement is told none."""
    topic = lone.create("orders", (1,))
    producer, _ = producer_of(lone, changed(acks=Acks.NONE))
    async with producer:
        assert (await producer.send("orders", b"a")).offset is None
    lone.wait(lambda: lone.values(topic) == [b"a"], "the record is there")


async def test_closing_in_a_hurry_gives_up_what_is_left(lone: Cluster) -> None:
    """With the cluster gone, ``close`` ends in its time, and each record's outcome is told."""
    lone.create("orders", (1,))
    producer, connections = producer_of(lone)
    await producer.send("orders", b"a")
    lone.kill(1)
    delivery = producer.send("orders", b"b")
    before_ms = connections.clock.now_ms()
    await producer.close(timeout_ms=500)
    assert connections.clock.now_ms() - before_ms < 3000
    with pytest.raises(NotWrittenError, match="refuses connections"):
        await delivery
    with pytest.raises(NotWrittenError, match="closed"):
        producer.send("orders", b"c")


async def test_what_was_sent_before_the_end_is_unknown(cluster: Cluster) -> None:
    """A record that a broker may be taking while the producer is closed in a hurry may be written."""
    topic = cluster.create("orders", (1, 2, 3), min_insync_replicas="2")
    producer, connections = producer_of(cluster)
    await producer.send("orders", b"a")
    cluster.kill(2)
    cluster.kill(3)
    delivery = producer.send("orders", b"b")
    await connections.clock.sleep(100)
    await producer.close(timeout_ms=100)
    with pytest.raises(OutcomeUnknownError, match="no answer has come yet"):
        await delivery
    assert cluster.replica(1, topic).log.log_end_offset == 2


async def test_room_is_waited_for(lone: Cluster) -> None:
    """With the buffer full, ``ready`` waits until a batch is settled; every record is taken and written in order."""
    topic = lone.create("orders", (1,))
    producer, _ = producer_of(lone, SMALL)
    deliveries = []
    async with producer:
        for number in range(20):
            await producer.ready()
            deliveries.append(producer.send("orders", b"%02d" % number + bytes(150)))
        assert [done.offset for done in await asyncio.gather(*deliveries)] == list(range(20))
    assert [(value or b"")[:2] for value in lone.values(topic)] == [b"%02d" % number for number in range(20)]


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_full_buffer_refuses_records(lone: Cluster, is_known: bool) -> None:
    """Who does not wait for room is told that there is none, and the record is not taken; known topic or not."""
    topic = lone.create("orders", (1,))
    producer, _ = producer_of(lone, SMALL)
    async with producer:
        if is_known:
            await producer.send("orders", b"first")
        taken = []
        with pytest.raises(BufferFullError, match="of 1000 bytes wait"):
            while True:
                taken.append(producer.send("orders", bytes(400)))
        with pytest.raises(RecordTooLargeError):
            producer.send("orders", bytes(500))
        await asyncio.gather(*taken)
        await producer.send("orders", b"last")
    assert len(lone.values(topic)) == is_known + len(taken) + 1


async def test_no_room_in_time_is_told(lone: Cluster) -> None:
    """``ready`` gives up after ``max_block_ms``."""
    lone.create("orders", (1,))
    producer, connections = producer_of(lone, replace(SMALL, max_block_ms=200, delivery_timeout_ms=60_000))
    await producer.send("orders", b"first")
    lone.kill(1)
    waiting = [producer.send("orders", bytes(400)) for _ in range(2)]
    before_ms = connections.clock.now_ms()
    with pytest.raises(BufferFullError, match="no room in the buffer within 200 ms"):
        await producer.ready()
    assert connections.clock.now_ms() - before_ms < 2000
    await producer.close(timeout_ms=0)
    assert all(isinstance(done, WriteError) for done in await asyncio.gather(*waiting, return_exceptions=True))


async def test_records_that_wait_for_their_topic_keep_their_order(lone: Cluster) -> None:
    """What was sent before the topic was known is written before what was sent after that, in order."""
    producer, connections = producer_of(lone)
    async with producer:
        deliveries = [producer.send("orders", b"%d" % number) for number in range(5)]
        await connections.clock.sleep(500)
        assert not any(delivery.done() for delivery in deliveries)
        topic = lone.create("orders", (1,))
        while not any(delivery.done() for delivery in deliveries):
            deliveries.append(producer.send("orders", b"%d" % len(deliveries)))
            await connections.clock.sleep(1)
        assert [done.offset for done in await asyncio.gather(*deliveries)] == list(range(len(deliveries)))
    assert lone.values(topic) == [b"%d" % number for number in range(len(deliveries))]


@pytest.mark.parametrize("timeout_ms", [None, 100])
async def test_a_record_whose_topic_does_not_come_is_not_written(lone: Cluster, timeout_ms: int | None) -> None:
    """A close waits for topics as long as for anything, and then says that nothing was written."""
    producer, connections = producer_of(lone, changed(max_block_ms=2000))
    outcomes: list[RecordMetadata | WriteError] = []
    producer.send("orders", b"a", on_delivery=outcomes.append)
    before_ms = connections.clock.now_ms()
    await producer.close(timeout_ms)
    await asyncio.sleep(0)
    (outcome,) = outcomes
    assert isinstance(outcome, NotWrittenError)
    assert (connections.clock.now_ms() - before_ms < 1500) is (timeout_ms is not None)


async def test_who_waits_for_room_is_told_that_the_producer_is_closed(cluster: Cluster) -> None:
    """Nobody waits for room after the sender has stopped: none would come."""
    cluster.create("orders", (1,))
    producer, _ = producer_of(cluster, SMALL)
    deliveries = [producer.send("orders", bytes(400)) for _ in range(2)]
    waiting = asyncio.create_task(producer.ready())
    for _ in range(3):
        await asyncio.sleep(0)
    await producer.close()
    with pytest.raises(NotWrittenError, match="the producer is closed"):
        await waiting
    assert all(delivery.done() for delivery in deliveries)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"acks": Acks.LEADER, "enable_idempotence": True}, "idempotence needs acks ALL, not LEADER"),
        ({"max_in_flight_requests_per_connection": 6}, "it must be at most 5"),
        ({"delivery_timeout_ms": 1000, "linger_ms": 1}, "must be at least linger_ms \\+ request_timeout_ms"),
        ({"max_block_ms": 0}, "must be above 0"),
        ({"buffer_memory": 10}, "must be at most buffer_memory"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(fields: dict[str, object], complaint: str) -> None:
    """Settings of which one makes another meaningless are named when the producer is made."""
    with pytest.raises(ValueError, match=complaint):
        changed(**fields)
