"""What carries a producer's batches to their leaders: one task that asks the accumulator when, and one per attempt.

Owns what is known of the batches that are on their way, and which broker is asked. Order, numbers, retries and
deadlines are the accumulator's; judging an attempt is ``attempts``' work. Source: Kafka's ``Sender``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, assert_never

from replica.client.accumulator import RecordAccumulator
from replica.client.asking import NEEDS_NEW_VIEW, Failed
from replica.client.attempts import Ending, verdict_of
from replica.client.clock import Deadline, wait_task
from replica.client.cluster_view import ClusterView
from replica.client.controller_calls import ControllerCalls
from replica.client.delivery import BatchDelivery
from replica.client.failures import ClientError, NotWrittenError, OutcomeUnknownError
from replica.client.leader_calls import LeaderCalls
from replica.client.producer_config import ProducerConfig
from replica.client.producer_values import BatchId, GivenUp, ProducerIdentity, ReadyBatch
from replica.core.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    Response,
)
from replica.ids import TopicPartition
from replica.rpc.transport import NotAppliedError, TransportError


@dataclass(slots=True, kw_only=True)
class Waiting:
    """One batch that is to be settled, and what its last attempt earned.

    ``is_calling`` while a broker may be taking the batch; ``in_doubt`` once one may have taken it.
    """

    delivery: BatchDelivery
    last: ProduceResponse | TransportError | None = None
    is_calling: bool = False
    in_doubt: bool = False


class Sender:
    """The sending half of a producer. Runs from ``start`` to ``stop``."""

    def __init__(self, accumulator: RecordAccumulator, view: ClusterView, config: ProducerConfig) -> None:
        self._accumulator = accumulator
        self._view = view
        self._config = config
        self._controller = ControllerCalls(view)
        self._leaders = LeaderCalls(view)
        self._waiting: dict[BatchId, Waiting] = {}
        self._attempts: set[asyncio.Task[None]] = set()
        self._identifying: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self.is_alive = True
        """Whether records are taken: neither is the producer being closed, nor has it failed."""
        self._is_closing = False
        self._is_stopping = False
        self._failure: BaseException | None = None
        """Our own mistake, in one of the tasks: nobody is to wait for it in vain."""

    # --- from the producer ------------------------------------------------------------------------------------------

    def expect(self, delivery: BatchDelivery) -> None:
        """A batch has been opened, of which ``delivery`` is to be told: it has a deadline, and may be due at once."""
        if self._loop is None:
            self._loop = asyncio.create_task(self._run())
        assert delivery.batch_id is not None, delivery.topic_partition
        self._waiting[delivery.batch_id] = Waiting(delivery=delivery)
        self._wake.set()

    def check_alive(self) -> None:
        """Raise NotWrittenError if there is nobody left to send a record."""
        if self._is_closing:
            raise NotWrittenError("the producer is closed; make another one")
        if self._failure is not None:
            self.check_failure()

    def check_failure(self) -> None:
        """Raise NotWrittenError if the producer has failed; one that is being closed still sends what it has."""
        if self._failure is not None:
            raise NotWrittenError(f"the producer has failed: {self._failure!r}; make another one")

    def on_room(self) -> None:
        """Something that waited for its topic is settled: there is room for others."""
        self._settled.set()

    async def wait_room(self, deadline: Deadline) -> None:
        """Wait until a batch is settled, or the time is up."""
        self._settled.clear()
        await self._view.clock.wait(self._settled, deadline.left_ms())

    async def flush(self) -> None:
        """Have everything sent without lingering, and wait until all of it is settled, well or not."""
        self._accumulator.flush()
        self._wake.set()
        open_batches = set(self._waiting)
        while not open_batches.isdisjoint(self._waiting):
            self._settled.clear()
            await self._settled.wait()

    def refuse(self) -> None:
        """Take nothing more. Who waits for room has waited in vain."""
        self._is_closing, self.is_alive = True, False
        self._settled.set()

    async def stop(self, timeout_ms: int | None) -> None:
        """Flush, for so long at most, then give up what is left."""
        self.refuse()
        if self._loop is None:
            return
        flushing = asyncio.create_task(self.flush())
        await wait_task(self._view.clock, flushing, timeout_ms)
        self._give_up_all()
        await flushing
        self._is_stopping = True
        self._wake.set()
        await self._loop
        for task in [*self._attempts, *([] if self._identifying is None else [self._identifying])]:
            task.cancel()
        await asyncio.gather(*self._attempts, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    # --- the loop ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Send what is due, give up what is late, sleep until either is due again.

        A mistake of ours here must not leave anybody waiting for ever.
        """
        try:
            while not self._is_stopping and self._failure is None:
                now_ms = self._view.clock.now_ms()
                for given_up in self._accumulator.expire(now_ms):
                    self._on_given_up(given_up)
                if self._accumulator.wants_producer_id and self._identifying is None:
                    self._identifying = self._begun(self._identify())
                for ready in self._accumulator.drain(now_ms):
                    self._attempts.add(self._begun(self._attempt(ready)))
                deadline_ms = self._accumulator.deadline_ms
                self._wake.clear()
                left_ms = None if deadline_ms is None else max(0, deadline_ms - self._view.clock.now_ms())
                await self._view.clock.wait(self._wake, left_ms)
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise  # Somebody wants this task, or the program, to end.

    def _begun(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._on_task_end)
        return task

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        self._attempts.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Give up for good: what is on its way may be written, and what comes later is refused."""
        self._failure, self.is_alive = self._failure or error, False
        for waiting in self._waiting.values():
            waiting.delivery.failed(OutcomeUnknownError(f"the producer has failed: {error!r}"))
        self._waiting.clear()
        self._settled.set()
        self._wake.set()

    async def _identify(self) -> None:
        """Get a producer id; batches wait for it no longer than for anything else."""
        request = InitProducerIdRequest(cluster_id=self._view.config.cluster_id)
        try:
            answer = await self._controller.ask(request, InitProducerIdResponse, self._config.request_timeout_ms)
        except ClientError as error:
            self._note_all(NotAppliedError(f"no producer id: {error}"))
            await self._view.clock.sleep(self._config.retry_backoff_ms)
        else:
            assert answer.producer_id is not None, answer
            assert answer.producer_epoch is not None, answer
            self._accumulator.on_producer_id(
                ProducerIdentity(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)
            )
        finally:
            self._identifying = None
            self._wake.set()

    def _note_all(self, reason: TransportError) -> None:
        for waiting in self._waiting.values():
            waiting.last = waiting.last or reason

    # --- one attempt ------------------------------------------------------------------------------------------------

    async def _attempt(self, ready: ReadyBatch) -> None:
        """Send a batch to whom is believed to lead."""
        name = ready.topic_partition
        deadline = self._view.deadline(self._config.request_timeout_ms)
        leader = await self._leaders.find(name, deadline)
        if isinstance(leader, Failed):
            self._on_ended(ready, NotAppliedError(leader.reason))
            return
        assert leader.leader_id is not None, leader
        waiting = self._waiting.get(ready.batch_id)
        if waiting is None:
            self._on_ended(ready, NotAppliedError(f"the batch for {name} was given up before it was sent"))
            return
        request = ProduceRequest(
            topic_partition=name,
            acks=self._config.acks.value,
            timeout_ms=deadline.left_ms(),
            records=ready.batch.data,
            cluster_id=self._view.config.cluster_id,
        )
        attempt: Response | TransportError
        waiting.is_calling = True
        try:
            attempt = await self._view.call(leader.leader_id, request, deadline.left_ms())
        except TransportError as error:
            attempt = error
        finally:
            waiting.is_calling = False
        assert isinstance(attempt, ProduceResponse | TransportError), attempt
        self._on_ended(ready, attempt)

    def _is_misdirected(self, name: TopicPartition, attempt: ProduceResponse | TransportError) -> bool:
        """Whether the next attempt wants a newer view: a wrong broker was asked, or a dead one, and named no other."""
        if isinstance(attempt, TransportError):
            return True
        return attempt.error in NEEDS_NEW_VIEW and not self._view.on_hint(name, attempt.current_leader)

    # --- what becomes of the records --------------------------------------------------------------------------------

    def _on_ended(self, ready: ReadyBatch, attempt: ProduceResponse | TransportError) -> None:
        """Have the accumulator hear how an attempt has ended, and the records what has become of them, if anything."""
        verdict, batch_id = verdict_of(attempt), ready.batch_id
        now_ms, may_be_written = self._view.clock.now_ms(), verdict.may_be_written
        waiting = self._waiting.get(batch_id)
        if waiting is not None:
            waiting.last = attempt
            waiting.in_doubt |= may_be_written
        if self._is_misdirected(ready.topic_partition, attempt):
            self._leaders.on_unreachable(ready.topic_partition)
        given_up: GivenUp | None = None
        match verdict.ending:
            case Ending.WRITTEN:
                self._accumulator.on_written(batch_id)
                if waiting is not None:  # Else it was given up before, and said that it may be written.
                    del self._waiting[batch_id]
                    assert isinstance(attempt, ProduceResponse), attempt
                    waiting.delivery.written(attempt.base_offset, attempt.leader_epoch)
                    self._settled.set()
            case Ending.RETRIABLE:
                given_up = self._accumulator.on_retriable(batch_id, may_be_written=may_be_written, now_ms=now_ms)
            case Ending.OUT_OF_ORDER:
                given_up = self._accumulator.on_out_of_order(batch_id, now_ms=now_ms)
            case Ending.REFUSED:
                given_up = self._accumulator.on_refused(batch_id, may_be_written=may_be_written)
            case _:
                assert_never(verdict.ending)
        if given_up is not None:
            self._on_given_up(given_up)
        self._wake.set()

    def _on_given_up(self, given_up: GivenUp) -> None:
        waiting = self._waiting.pop(given_up.batch_id, None)
        if waiting is None:
            return  # The producer has failed, and said so.
        code = waiting.last.error if isinstance(waiting.last, ProduceResponse) else None
        reason = "it was not sent in time" if waiting.last is None else _reason_of(waiting.last)
        is_unknown = given_up.may_be_written and (waiting.in_doubt or waiting.is_calling)
        if waiting.is_calling:
            reason = "no answer has come yet"
        name = waiting.delivery.topic_partition
        if is_unknown:
            unknown = f"{name}: the write may have been applied: {reason}"
            waiting.delivery.failed(OutcomeUnknownError(unknown, error=code))
        else:
            waiting.delivery.failed(NotWrittenError(f"{name}: not written: {reason}", error=code))
        self._settled.set()

    def _give_up_all(self) -> None:
        for given_up in self._accumulator.expire(self._view.clock.now_ms() + self._config.delivery_timeout_ms):
            self._on_given_up(given_up)


def _reason_of(last: ProduceResponse | TransportError) -> str:
    if isinstance(last, TransportError):
        return str(last)
    return f"{last.error}: {last.message}" if last.message else str(last.error)
