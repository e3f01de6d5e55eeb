"""One honest idempotent producer with acks=all, and what became of each of its records.

Owns the account: what was acknowledged and where, what certainly was not written, what nobody knows; and the comparison
with the topic as a consumer reads it in the end. Others may write to the topic as well.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from replica.client import Admin, Consumer, ConsumerConfig, NotWrittenError, OffsetReset, Producer, WriteError
from replica.ids import TopicPartition

PREFIX = b"honest-"
AT_ONCE = 16
PAUSE_S = 0.02
"""Each of those that write at once rests so long between two records: the machine is not the writer's alone."""
READ_S = 120
START_S = 60
REPLICAS = 3


@dataclass(slots=True, kw_only=True)
class Account:
    """What became of the records, by value; ``lost``, ``twice`` and ``misplaced`` are empty if all is well."""

    acknowledged: dict[bytes, tuple[TopicPartition, int | None]] = field(default_factory=dict)
    not_written: set[bytes] = field(default_factory=set)
    unknown: set[bytes] = field(default_factory=set)
    found: int = 0
    lost: list[bytes] = field(default_factory=list)
    twice: list[bytes] = field(default_factory=list)
    misplaced: list[bytes] = field(default_factory=list)
    complaints: Counter[str] = field(default_factory=Counter)
    longest_write_s: float = 0.0


class HonestWriter:
    """Writes to a topic of this name until it is cancelled."""

    def __init__(self, bootstrap: Sequence[str], topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._numbers = count()
        self.account = Account()

    async def create(self, partitions: int) -> None:
        """Create the topic, with three replicas of each partition, as soon as there are so many brokers."""
        async with Admin(self._bootstrap) as admin, asyncio.timeout(START_S):
            while sum(broker.is_active for broker in (await admin.describe_cluster()).brokers) < REPLICAS:
                await asyncio.sleep(0.1)
            await admin.create_topic(
                self._topic,
                partition_count=partitions,
                replication_factor=REPLICAS,
                configs={"min.insync.replicas": "2"},
            )

    async def run(self) -> None:
        """Write until cancelled; what waits then is still told, for as long as the producer takes."""
        async with Producer(self._bootstrap, random=Random(0)) as producer:
            writing = [asyncio.create_task(self._write(producer)) for _ in range(AT_ONCE)]
            try:
                await asyncio.gather(*writing)
            finally:
                for each in writing:
                    each.cancel()

    async def _write(self, producer: Producer) -> None:
        while True:
            value = PREFIX + str(next(self._numbers)).encode()
            began_s = time.monotonic()
            self.account.unknown.add(value)
            try:
                written = await producer.send(self._topic, value)
            except WriteError as error:
                self.account.complaints[re.sub(r"\d+", "N", f"{type(error).__name__}: {error}")] += 1
                if isinstance(error, NotWrittenError):
                    self.account.unknown.discard(value)
                    self.account.not_written.add(value)
                continue
            finally:
                self.account.longest_write_s = max(self.account.longest_write_s, time.monotonic() - began_s)
            self.account.unknown.discard(value)
            self.account.acknowledged[value] = (written.topic_partition, written.offset)
            await asyncio.sleep(PAUSE_S)

    async def compare(self) -> Account:
        """Read the topic to its end, and complete the account."""
        places: dict[bytes, list[tuple[TopicPartition, int | None]]] = {}
        async with Consumer(self._bootstrap, ConsumerConfig(auto_offset_reset=OffsetReset.EARLIEST)) as consumer:
            names = await consumer.partitions_of(self._topic)
            ends = await consumer.end_offsets(names)
            consumer.assign(names)
            async with asyncio.timeout(READ_S):
                while any([await consumer.position(name) < ends[name] for name in names]):
                    for record in await consumer.poll():
                        if (record.value or b"").startswith(PREFIX):
                            place = (record.topic_partition, record.offset)
                            places.setdefault(record.value or b"", []).append(place)
        account = self.account
        account.found = len(places)
        account.lost = [value for value in account.acknowledged if value not in places]
        account.twice = [value for value, where in places.items() if len(where) > 1]
        account.misplaced = [
            value for value, place in account.acknowledged.items() if place not in places.get(value, [place])
        ]
        account.misplaced += [value for value in account.not_written if value in places]
        return account
