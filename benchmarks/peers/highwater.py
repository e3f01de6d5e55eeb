"""Highwater: three replicas as processes, topics and the key-value store on them, by ``replica.client``."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import click

from benchmarks.brokers import Brokers, running
from benchmarks.peers.system import (
    MIN_IN_SYNC,
    NODES,
    VALUE,
    Ability,
    Answered,
    Durability,
    System,
    closed_loop,
    key_of,
)
from benchmarks.write_path import create, wait_for_brokers
from nemesis.runner import versions
from replica.client import KeyValueClient
from replica.client.admin import Admin
from replica.client.consumer import Consumer
from replica.client.consumer_config import ConsumerConfig
from replica.client.groups.quorum import describe_quorum
from replica.client.many import ManyWritten
from replica.client.producer import Producer
from replica.client.reading import OffsetReset
from replica.core.metadata.records import PartitionRegistration
from replica.ids import TopicPartition

GROUP = "kv"
LOG_FLUSH = {Durability.FSYNC: "fsync", Durability.PAGE_CACHE: "os"}
READ_AT_ONCE = ConsumerConfig(auto_offset_reset=OffsetReset.EARLIEST, max_poll_records=10_000)
RECOVERED_S_MAX = 120
AT_A_TIME, CALLS_AT_ONCE = 50_000, 2


class Highwater(System):
    """Replicas of this checkout."""

    name = "Highwater"
    abilities = frozenset(Ability)
    durabilities = (Durability.FSYNC, Durability.PAGE_CACHE)
    settings = MappingProxyType(
        {
            "page cache": "--log-flush os",
            "topics": "min.insync.replicas=2",
            "consume": f"max_poll_records={READ_AT_ONCE.max_poll_records}",
        }
    )

    def __init__(self, folder: Path, durability: Durability) -> None:
        super().__init__(folder, durability)
        self._open = ExitStack()
        self._brokers: Brokers | None = None
        self._killed: set[int] = set()
        self._epoch_killed = -1
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._store: KeyValueClient | None = None

    @classmethod
    def missing(cls) -> str | None:
        """Nothing: it is what this checkout is."""
        return None

    @classmethod
    def version(cls) -> str:
        """That of the checkout."""
        found = versions()
        return f"{found['highwater-log']}, {found.get('commit', 'no checkout')}"

    async def start(self) -> None:
        """Start three replicas with a key-value store."""
        options = ("--group", f"{GROUP}=key-value", "--log-flush", LOG_FLUSH[self.durability])
        self._brokers = self._open.enter_context(running(NODES, *options))
        self._producer = Producer(self._addresses)
        self._store = KeyValueClient(self._addresses, GROUP)
        self._admin = Admin(self._addresses)
        await wait_for_brokers(self._admin)

    async def stop(self) -> None:
        """Close the clients, end the replicas."""
        for client in (self._admin, self._producer, self._store):
            if client is not None:
                await client.close()
        await asyncio.to_thread(self._open.close)

    @property
    def _addresses(self) -> tuple[str, ...]:
        assert self._brokers is not None, "it is not started"
        return tuple(self._brokers.addresses)

    async def create(self, topic: str) -> None:
        """One partition, all replicas in sync."""
        assert self._admin is not None, "it is not started"
        await create(self._admin, topic, 1, {"min.insync.replicas": str(MIN_IN_SYNC)})

    # --- records ------------------------------------------------------------------------------------------------------

    async def produce(self, topic: str, value: bytes, count: int) -> None:
        """Many in one call, and one outcome for all of them."""
        producer = self._producer
        assert producer is not None, "it is not started"
        values, waiting = [value] * AT_A_TIME, deque[asyncio.Future[ManyWritten]]()
        for begun in range(0, count, AT_A_TIME):
            waiting.append(producer.send_many(topic, values[: count - begun]))
            if len(waiting) > CALLS_AT_ONCE:
                await waiting.popleft()
        await asyncio.gather(*waiting)

    async def produce_each(self, topic: str, value: bytes, count: int) -> None:
        """An outcome for each."""
        producer = self._producer
        assert producer is not None, "it is not started"
        deliveries = []
        for _ in range(count):
            await producer.ready()
            deliveries.append(producer.send(topic, value))
        await producer.flush()
        for delivery in deliveries:
            await delivery

    async def consume(self, topic: str, count: int) -> None:
        """An object for each."""
        async with Consumer(self._addresses, READ_AT_ONCE) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            seen = 0
            while seen < count:
                seen += len(await consumer.poll())

    async def consume_arrow(self, topic: str, count: int) -> None:
        """Tables of Arrow."""
        async with Consumer(self._addresses, READ_AT_ONCE) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            seen = 0
            while seen < count:
                seen += (await consumer.poll_arrow()).num_rows

    async def write(self, topic: str, in_flight: int, seconds: float) -> Answered:
        """A coroutine for each in flight."""
        producer = self._producer
        assert producer is not None, "it is not started"

        async def send(number: int) -> None:
            del number
            await producer.send(topic, VALUE)

        return await closed_loop(send, in_flight, seconds)

    # --- keys ---------------------------------------------------------------------------------------------------------

    async def put(self, in_flight: int, seconds: float) -> Answered:
        """A coroutine for each in flight."""
        store = self._values
        return await closed_loop(lambda number: store.put(key_of(number), VALUE), in_flight, seconds)

    async def get(self, in_flight: int, seconds: float) -> Answered:
        """Linearizable, which is the default."""
        store = self._values
        return await closed_loop(lambda number: store.get(key_of(number)), in_flight, seconds)

    @property
    def _values(self) -> KeyValueClient:
        assert self._store is not None, "it is not started"
        return self._store

    # --- the leader is killed -----------------------------------------------------------------------------------------

    async def attempt(self, topic: str | None) -> None:
        """One record, or one put; the clients try again by themselves as well."""
        if topic is None:
            await self._values.put(key_of(0), VALUE)
        else:
            assert self._producer is not None, "it is not started"
            await self._producer.send(topic, VALUE)

    async def kill_leader(self, topic: str | None) -> float:
        """Ask who leads, and kill it."""
        assert self._brokers is not None, "it is not started"
        leader = await self._leader(topic)
        self._killed.add(leader)
        killed_s = time.perf_counter()
        self._brokers.kill(leader)
        return killed_s

    async def recover(self, topic: str | None) -> None:
        """Start it again, until the topic's replicas are in sync, or the group's have what is committed."""
        assert self._brokers is not None, "it is not started"
        while self._killed:
            self._brokers.start(self._killed.pop())
        end_s = time.monotonic() + RECOVERED_S_MAX
        while not await self._is_whole(topic):
            if time.monotonic() > end_s:
                raise click.ClickException(f"{topic or GROUP} is not whole after {RECOVERED_S_MAX} s")
            await asyncio.sleep(0.2)

    async def _leader(self, topic: str | None) -> int:
        if topic is None:
            quorum = await describe_quorum(self._addresses, GROUP)
            leader_id = None if quorum.current_leader is None else quorum.current_leader.leader_id
        else:
            partition = await self._partition(topic)
            leader_id, self._epoch_killed = partition.leader_id, partition.leader_epoch
        assert leader_id is not None, f"nobody leads {topic or GROUP}"
        return int(leader_id)

    async def _is_whole(self, topic: str | None) -> bool:
        if topic is None:
            quorum = await describe_quorum(self._addresses, GROUP)
            ends = [voter.log_end_offset for voter in quorum.current_voters]
            committed = quorum.high_watermark
            return committed is not None and all(end is not None and end >= committed for end in ends)
        partition = await self._partition(topic)
        # Whoever was just started may tell of the epoch in which it led.
        return len(partition.isr) == NODES and partition.leader_epoch > self._epoch_killed

    async def _partition(self, topic: str) -> PartitionRegistration:
        """By a client that is kept: it believes nobody who is behind what others have told it."""
        assert self._admin is not None, "it is not started"
        return (await self._admin.describe_topic(topic)).partitions[0]
