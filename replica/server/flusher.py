"""Group commit: each log has one flush under way or in line, and what is asked of it meanwhile becomes one more.

Owns the threads and the order of flushes: those in line run back to back without a turn of the event loop between
them. Of the core it knows that it wants to hear what is ``Flushed``; what was flushed of a log that is cut or deleted
is never spoken of (``forget``).
Source: group commit as in every write-ahead log; Kafka's ``UnifiedLog.flush``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from replica.core.events import Flushed
from replica.ids import Offset, TopicPartition
from replica.server.ports import LogPort
from replica.storage import FailedDirectoryError, StorageError

THREADS = 4
"""How many logs are flushed at once: one that waits for its disk must not hold up all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushOutcome:
    """One finished flush: everything below ``end_offset`` is durable, unless ``failure`` says why nothing is known."""

    topic_partition: TopicPartition
    end_offset: Offset
    seconds: float
    failure: Exception | None = None


class Flusher:
    """Runs flushes off the event loop. On the loop, once per flush that ran, ``tell`` hears of it and ``report``
    takes it as an event for the core, or ``on_failure`` hears why it has failed.

    ``log_of`` finds the log that has a name now.
    """

    def __init__(
        self,
        log_of: Callable[[TopicPartition], LogPort],
        *,
        report: Callable[[Flushed], None],
        tell: Callable[[FlushOutcome], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._log_of = log_of
        self._report = report
        self._tell = tell
        self._on_failure = on_failure
        self._executor = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="flush")
        self._wanted: dict[TopicPartition, Offset] = {}
        """Beyond what the flush that runs or is in line was asked for."""
        self._flights: dict[TopicPartition, Future[FlushOutcome]] = {}

    @property
    def pending(self) -> int:
        """How many logs have a flush that runs, or is in line."""
        return len(self._flights)

    def request(self, topic_partition: TopicPartition, end_offset: Offset) -> None:
        """Ask that everything below ``end_offset`` become durable; joins the log's flush that begins next."""
        if topic_partition in self._flights:
            self._wanted[topic_partition] = end_offset
            return
        loop = asyncio.get_running_loop()
        future = self._executor.submit(_flush, topic_partition, self._log_of(topic_partition))
        self._flights[topic_partition] = future
        future.add_done_callback(lambda done: loop.call_soon_threadsafe(self._on_done, topic_partition, done))

    def forget(self, topic_partition: TopicPartition) -> None:
        """Never report a flush of this log that was asked for: the log is cut, or goes."""
        self._wanted.pop(topic_partition, None)
        flight = self._flights.pop(topic_partition, None)
        if flight is not None:
            flight.cancel()

    async def stop(self) -> None:
        """Forget what has not begun, wait for the flush in flight, and end the thread."""
        self._forget_all()
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)

    def _forget_all(self) -> None:
        """Let nothing in line run, and nothing that runs be reported."""
        self._wanted.clear()
        flights, self._flights = self._flights, {}
        for flight in flights.values():
            flight.cancel()

    def _on_done(self, topic_partition: TopicPartition, flight: Future[FlushOutcome]) -> None:
        if self._flights.get(topic_partition) is not flight:
            return
        del self._flights[topic_partition]
        outcome = flight.result()
        wanted = self._wanted.pop(topic_partition, outcome.end_offset)
        if outcome.failure is not None:
            if not isinstance(outcome.failure, FailedDirectoryError):
                self._forget_all()
            self._on_failure(outcome.failure)
            return
        if wanted > outcome.end_offset:
            self.request(topic_partition, wanted)
        self._tell(outcome)
        self._report(Flushed(topic_partition=topic_partition, end_offset=outcome.end_offset))


def _flush(topic_partition: TopicPartition, log: LogPort) -> FlushOutcome:
    """Run one flush. A failure is a value here: it must reach the core as an event and never be retried."""
    began = time.perf_counter()
    failure: Exception | None
    try:
        end_offset, failure = log.flush(), None
    except (StorageError, OSError) as error:
        end_offset, failure = Offset(0), error
    except Exception as error:  # a mistake of ours, or no memory: in this thread nobody else would hear of it
        end_offset = Offset(0)
        failure = StorageError(f"cannot flush {topic_partition}: {type(error).__name__}: {error}")
    return FlushOutcome(
        topic_partition=topic_partition,
        end_offset=end_offset,
        seconds=time.perf_counter() - began,
        failure=failure,
    )
