"""The short ways: a loop over a consumer, one record written and waited for, serializers, topics by name, a value."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from replica.client.admin import Admin
from replica.client.consumer import Consumer
from replica.client.producer import Producer
from replica.client.values import ConsumerRecord
from replica.ids import TopicPartition
from tests.client.test_consumer_cluster import EARLIEST, VIEW, consumer_of
from tests.client.test_producer_cluster import producer_of
from tests.client.views import ORDERS
from tests.client.virtual import ClusterConnections, bootstrap
from tests.replication.bench import Cluster

JSON = replace(EARLIEST, key_deserializer=bytes.decode, value_deserializer=json.loads)


async def taken(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """So many records of a loop over a consumer, which is then left."""
    records: list[ConsumerRecord] = []
    async for record in consumer:
        records.append(record)
        if len(records) == count:
            break
    return records


async def test_a_loop_over_a_consumer_gives_every_record(cluster: Cluster) -> None:
    """Each record comes once and in order, and who leaves the loop goes on where it was left."""
    cluster.create("orders", (1, 2))
    cluster.produce(ORDERS, *(b"%d" % number for number in range(10)))
    consumer, _ = consumer_of(cluster, EARLIEST, ORDERS)
    async with consumer:
        first = await taken(consumer, 4)
        assert await consumer.position(ORDERS) == 4
        rest = await taken(consumer, 6)

    assert [record.value for record in first + rest] == [b"%d" % number for number in range(10)]


async def test_a_loop_over_nothing_is_refused() -> None:
    """Whoever has assigned no partition would wait for ever."""
    consumer, _ = consumer_of(Cluster(1), EARLIEST)
    async with consumer:
        with pytest.raises(RuntimeError, match="nothing is assigned"):
            await taken(consumer, 1)


async def test_one_record_is_written_and_waited_for(cluster: Cluster) -> None:
    """What is returned says where the record stands, and it stands there."""
    cluster.create("orders", (1, 2))
    producer, _ = producer_of(cluster)
    async with producer:
        written = [await producer.send_and_wait("orders", b"%d" % number, key=b"k") for number in range(3)]

    assert [each.offset for each in written] == [0, 1, 2]
    assert {each.topic_partition for each in written} == {ORDERS}


async def test_what_serializers_make_deserializers_read(lone: Cluster) -> None:
    """Keys and values are what they were, and None stays None."""
    lone.create("orders", (1,))
    producer, connections = producer_of(lone)
    config = replace(
        producer._config, key_serializer=str.encode, value_serializer=lambda value: json.dumps(value).encode()
    )
    written: list[tuple[str | None, Any]] = [("alice", {"count": 3}), (None, [1, 2]), ("bob", None)]
    serializing = Producer(bootstrap(lone), config, view_config=VIEW, connections=connections, clock=connections.clock)
    async with producer, serializing:
        for key, value in written:
            await serializing.send_and_wait("orders", value, key=key)
    consumer, _ = consumer_of(lone, JSON, ORDERS)
    async with consumer:
        read = await taken(consumer, 3)

    assert [(record.key, record.value) for record in read] == written


@pytest.mark.parametrize("count", [1, 500], ids=["one by one", "many at once"])
async def test_a_record_that_cannot_be_deserialized_is_not_passed_over(lone: Cluster, count: int) -> None:
    """What is in front of it is given, it is raised as often as it is met, and seek goes past it."""
    lone.create("orders", (1,))
    lone.produce(ORDERS, b"1", b"2", b"no JSON", b"4")
    consumer, _ = consumer_of(lone, replace(JSON, max_poll_records=count), ORDERS)
    async with consumer:
        values: list[object] = []
        while len(values) < 2:
            values += [record.value for record in await consumer.poll(10_000)]
        for _ in range(2):
            with pytest.raises(json.JSONDecodeError):
                await consumer.poll(10_000)
        assert await consumer.position(ORDERS) == 2
        consumer.seek(ORDERS, 3)
        values += [record.value for record in await consumer.poll(10_000)]

    assert values == [1, 2, 4]


async def test_topics_are_listed_by_name(lone: Cluster) -> None:
    """All of them, in order."""
    for name in ("orders", "archive"):
        lone.create(name, (1,))
    connections = ClusterConnections(lone)
    async with Admin(bootstrap(lone), VIEW, connections=connections, clock=connections.clock) as admin:
        assert await admin.list_topics() == ["archive", "orders"]
    assert TopicPartition("orders", 0) == ORDERS
