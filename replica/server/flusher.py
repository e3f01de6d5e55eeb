"""Group commit: flushes run in one thread, one at a time, and requests made meanwhile become one.

Owns the thread and the order of flushes. Knows nothing of the core; what it may report as durable is narrowed by
truncation, see ``before_truncate``. Source: group commit as in every write-ahead log; Kafka's ``UnifiedLog.flush``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from replica.ids import Offset, TopicPartition
from replica.server.ports import LogPort
from replica.storage import StorageError


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushOutcome:
    """One finished flush: everything below ``end_offset`` is durable, unless ``failure`` says why nothing is known."""

    topic_partition: TopicPartition
    end_offset: Offset
    seconds: float
    failure: str | None = None


class Flusher:
    """Runs flushes off the event loop; ``on_outcome`` is called on the loop, once per flush that ran."""

    def __init__(self, logs: Mapping[TopicPartition, LogPort], on_outcome: Callable[[FlushOutcome], None]) -> None:
        self._logs = logs
        self._on_outcome = on_outcome
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flush")
        self._wanted: dict[TopicPartition, Offset] = {}
        self._running: Future[FlushOutcome] | None = None
        self._running_log: TopicPartition | None = None
        self._truncated_to: Offset | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def request(self, topic_partition: TopicPartition, end_offset: Offset) -> None:
        """Ask that everything below ``end_offset`` become durable; joins the flush that runs next."""
        self._wanted[topic_partition] = end_offset
        self._maybe_start()

    def before_truncate(self, topic_partition: TopicPartition, end_offset: Offset) -> None:
        """Wait for the flush in flight, and let it speak only for what the truncation keeps.

        1. A flush of [0, 10) runs. 2. The log is truncated to 5 and new batches fill [5, 10). 3. The flush ends and
        would report 10, although the new batches are not on the platter. Truncations are rare, so the event loop can
        afford to wait here rather than let two threads change the same files.
        """
        if self._running is None:
            return
        wait([self._running])
        if self._running_log == topic_partition:
            self._truncated_to = end_offset if self._truncated_to is None else min(self._truncated_to, end_offset)

    async def stop(self) -> None:
        """Forget what has not begun, wait for the flush in flight, and end the thread."""
        self._wanted.clear()
        await self._idle.wait()
        self._executor.shutdown(wait=True)

    def _maybe_start(self) -> None:
        if self._running is not None or not self._wanted:
            return
        topic_partition = next(iter(self._wanted))
        del self._wanted[topic_partition]
        loop = asyncio.get_running_loop()
        self._idle.clear()
        self._running_log = topic_partition
        self._running = self._executor.submit(_flush, topic_partition, self._logs[topic_partition])
        self._running.add_done_callback(lambda done: loop.call_soon_threadsafe(self._on_done, done))

    def _on_done(self, done: Future[FlushOutcome]) -> None:
        outcome = done.result()
        truncated_to, self._truncated_to = self._truncated_to, None
        self._running = self._running_log = None
        if truncated_to is not None and truncated_to < outcome.end_offset:
            outcome = FlushOutcome(
                topic_partition=outcome.topic_partition,
                end_offset=truncated_to,
                seconds=outcome.seconds,
                failure=outcome.failure,
            )
        if outcome.failure is not None:
            self._wanted.clear()
        elif self._wanted.get(outcome.topic_partition, outcome.end_offset + 1) <= outcome.end_offset:
            del self._wanted[outcome.topic_partition]
        self._on_outcome(outcome)
        self._maybe_start()
        if self._running is None:
            self._idle.set()


def _flush(topic_partition: TopicPartition, log: LogPort) -> FlushOutcome:
    """Run one flush. A failure is a value here: it must reach the core as an event and never be retried."""
    began = time.perf_counter()
    try:
        end_offset, failure = log.flush(), None
    except (StorageError, OSError) as error:
        end_offset, failure = Offset(0), str(error)
    return FlushOutcome(
        topic_partition=topic_partition,
        end_offset=end_offset,
        seconds=time.perf_counter() - began,
        failure=failure,
    )
