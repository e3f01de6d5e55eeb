"""What handing a record over costs, counted and not timed: calls, and what asyncio has to make."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

from replica.client.producer import Producer
from replica.ids import TopicPartition
from tests.client.test_accumulator import accumulator_of, put
from tests.client.test_sender import WRITTEN, producer_of

RECORDS = 100
CALLS_OF_SEND_MAX = 15
"""Functions of Python that one ``send`` calls, itself among them."""

TASKS_OF_BATCH_MAX = 3
"""Tasks that a batch has made, however many records it has."""


def calls_of(action: Callable[[], object]) -> Counter[str]:
    """The functions of Python that are called meanwhile."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


class CountingLoop:
    """Counts the futures and tasks that a running event loop makes, through the ways that it has for that."""

    def __init__(self) -> None:
        self.tasks = 0
        asyncio.get_running_loop().set_task_factory(self._task)

    def _task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        self.tasks += 1
        return asyncio.Task(work, loop=loop, **options)


async def producer_that_knows() -> Producer:
    """A producer that has written a record already: the topic is known."""
    producer, _, _ = producer_of(*[WRITTEN] * 9)
    await producer.send("orders", b"first")
    return producer


async def test_a_record_costs_few_calls() -> None:
    """A ``send`` beside others is a handful of calls, none of them of asyncio."""
    async with await producer_that_knows() as producer:
        producer.send("orders", b"opens the batch")
        calls = calls_of(lambda: [producer.send("orders", b"v") for _ in range(RECORDS)])
    assert calls["Producer.send"] == RECORDS
    per_record = {name: count for name, count in calls.items() if count >= RECORDS}
    assert sum(per_record.values()) <= RECORDS * CALLS_OF_SEND_MAX, per_record


def test_partitions_that_have_nothing_to_send_cost_nothing() -> None:
    """What is due is found with as few calls beside a hundred idle partitions as beside none."""
    costs = []
    for idle in (0, 100):
        accumulator = accumulator_of()
        for number in range(idle):
            batch_id = put(accumulator, b"v", to=TopicPartition("idle", number))
            accumulator.drain(0)
            accumulator.on_written(batch_id)
        put(accumulator, b"v")
        costs.append(calls_of(lambda: (accumulator.wants_producer_id, accumulator.deadline_ms, accumulator.drain(0))))  # noqa: B023 - called at once
    assert costs[0].total() == costs[1].total()


async def test_outcomes_cost_a_task_per_batch() -> None:
    """A hundred records of one batch that are awaited in turn have made no more tasks than one would have."""
    async with await producer_that_knows() as producer:
        loop = CountingLoop()
        deliveries = [producer.send("orders", b"v") for _ in range(RECORDS)]
        offsets = [(await delivery).offset for delivery in deliveries]
        assert loop.tasks <= TASKS_OF_BATCH_MAX
    assert offsets == list(range(4, 4 + RECORDS))
    assert len({delivery.batch for delivery in deliveries}) == 1
