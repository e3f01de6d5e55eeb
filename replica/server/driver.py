"""The single writer: steps the core with one event at a time and performs its effects in order.

Owns the core, the logs and the clock of one replica process. Everything runs on one event loop, effects are performed
synchronously between two events, and only flushes, snapshots and sends take their time elsewhere and come back as
events. It knows no rule of the protocol and nothing of gRPC.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import ParamSpec

import structlog

from replica.core.effects import (
    DeleteLog,
    Effect,
    Flush,
    Halt,
    InstallSnapshot,
    ReplaceLog,
    Reply,
    ReplyWithOffset,
    ReplyWithRecords,
    ReplyWithSnapshot,
    Send,
    StartLogAt,
    StoreSnapshot,
    Truncate,
)
from replica.core.events import (
    BatchFound,
    ClockRead,
    Event,
    Flushed,
    LogDamaged,
    LogRead,
    LogStartMoved,
    ProducersScanned,
    RequestReceived,
    ResponseReceived,
    SendFailed,
    SnapshotStored,
    Started,
    StorageFailed,
    Ticked,
)
from replica.core.messages import ListOffsetsResponse, PeerResponse, Request, Response
from replica.core.reading import read_ranges
from replica.errors import ErrorCode
from replica.ids import CallId, Offset, TopicPartition
from replica.rpc.transport import TransportError
from replica.server.clocks import MACHINE_CLOCKS, Clocks
from replica.server.flusher import Flusher, FlushOutcome
from replica.server.ports import Core, PeerTransport, StepObserver, StoragePort
from replica.server.snapshot_writer import SnapshotWriter
from replica.storage import DamagedLogError, OutOfDescriptorsError, StorageEffect, StorageError

_Told = ParamSpec("_Told")

CLOCK_READ_INTERVAL_MS = 1000
"""How long the core goes by a reading of the machine's clock, which somebody may have set meanwhile."""


class ReplicaStoppedError(Exception):
    """The replica stopped before the reply. ``not_applied`` if before the request reached the core, else unknown."""

    def __init__(self, reason: str, *, not_applied: bool) -> None:
        super().__init__(reason)
        self.not_applied = not_applied


class Driver:
    """Owns the core of one replica. All methods belong to the event loop that made it.

    ``halted`` is set once the replica has stopped by itself; ``halt_reason`` then says why.
    """

    def __init__(
        self,
        *,
        core: Core,
        storage: StoragePort,
        transport: PeerTransport,
        observer: StepObserver,
        clocks: Clocks = MACHINE_CLOCKS,
    ) -> None:
        self.halted = asyncio.Event()
        self.halt_reason: str | None = None
        self._core = core
        self._storage = storage
        self._transport = transport
        self._observer = observer
        self._observer_is_broken = False
        self._clocks = clocks
        self._flusher = Flusher(lambda log: storage.stores[log], self._on_flush_outcome)
        self._snapshots = SnapshotWriter(lambda log: storage.stores[log], self._on_snapshot_outcome)
        self._events: deque[Event] = deque()
        self._stepping = False
        self._stopped = False
        self._call_ids = count()
        self._calls: dict[CallId, asyncio.Future[Response]] = {}
        self._sends: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline_ms: int | None = None
        self._clock_read_ms: int | None = None
        """When the core was last told what time of day it is; absent before the start."""
        self._stepped: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Hand the core its first event."""
        self._clock_read_ms = self._clocks.monotonic_ms()
        self.submit(Started(unix_ms=self._clocks.unix_ms()))

    def submit(self, event: Event) -> None:
        """Step the core with ``event`` now, or right after the step that is under way. Ignored once stopped."""
        if self._stopped:
            return
        self._events.append(event)
        if not self._stepping:
            self._drain()

    async def call(self, request: Request) -> Response:
        """Hand a request to the core and wait for its reply; raises ReplicaStoppedError.

        A cancelled caller only gives up its place: what the core has begun for the request goes on without it.
        """
        if self._stopped:
            raise ReplicaStoppedError(self.halt_reason or "the replica is stopping", not_applied=True)
        call_id = CallId(next(self._call_ids))
        reply = asyncio.get_running_loop().create_future()
        self._calls[call_id] = reply
        self.submit(RequestReceived(call_id=call_id, request=request))
        try:
            return await asyncio.shield(reply)
        finally:
            self._calls.pop(call_id, None)

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait until ``condition`` holds after some step; returns whether it came to hold in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not condition() and not self._stopped:
                    if self._stepped is None:
                        self._stepped = asyncio.get_running_loop().create_future()
                    await asyncio.shield(self._stepped)
        except TimeoutError:
            return condition()
        return condition()

    async def stop(self) -> None:
        """Take no more events, fail the calls that still wait, end the sends, and wait for what is being written."""
        self._cease("the replica is stopping")
        for send in tuple(self._sends):
            send.cancel()
        await asyncio.gather(*self._sends, return_exceptions=True)
        await self._flusher.stop()
        await self._snapshots.stop()

    def _drain(self) -> None:
        self._stepping = True
        try:
            while self._events and not self._stopped:
                self._maybe_read_clock()
                self._step(self._events.popleft())
        finally:
            self._stepping = False
            self._arm_timer()
            if self._stepped is not None:
                self._stepped.set_result(None)
                self._stepped = None

    def _maybe_read_clock(self) -> None:
        """Tell the core what time of day it is before it does anything, unless that was just done."""
        now_ms = self._clocks.monotonic_ms()
        if self._clock_read_ms is not None and now_ms - self._clock_read_ms >= CLOCK_READ_INTERVAL_MS:
            self._clock_read_ms = now_ms
            self._events.appendleft(ClockRead(unix_ms=self._clocks.unix_ms()))

    def _step(self, event: Event) -> None:
        now_ms = self._clocks.monotonic_ms()
        effects: tuple[Effect, ...] = ()
        try:
            effects = self._core.step(event, now_ms)
            for effect in effects:
                self._maybe_perform(effect)
                if self._stopped:
                    break
        except (StorageError, OSError) as error:
            # The rest of the effects relied on this one. The core hears of it before anything else happens.
            self._events.appendleft(StorageFailed(reason=str(error)))
        except Exception as error:
            # A broken core must not go on answering: whatever it promised last is all it may promise.
            self._halt_on_bug(error)
            return
        self._tell(self._observer.on_step, event, effects, now_ms)

    def _maybe_perform(self, effect: Effect) -> None:
        """Perform an effect, unless its log turns out to be damaged: then the core hears of that after this step."""
        try:
            self._perform(effect)
        except DamagedLogError as damage:
            self._on_damaged(damage)

    def _on_damaged(self, damage: DamagedLogError) -> None:
        # Before anything else happens: what else would be done with this log is not done any more.
        event = LogDamaged(topic_partition=damage.topic_partition, offset=damage.offset, reason=str(damage))
        self._events.appendleft(event)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Flush():
                self._flusher.request(effect.topic_partition, effect.end_offset)
            case Send():
                task = asyncio.get_running_loop().create_task(self._send(effect))
                self._sends.add(task)
                task.add_done_callback(self._sends.discard)
            case Reply():
                self._resolve(effect.call_id, lambda: effect.response)
            case ReplyWithRecords():
                self._resolve(effect.call_id, lambda: self._with_records(effect))
            case ReplyWithOffset():
                self._resolve(effect.call_id, lambda: self._with_offset(effect))
            case ReplyWithSnapshot():
                self._resolve(effect.call_id, lambda: self._storage.with_snapshot(effect))
            case StoreSnapshot():
                self._snapshots.store(effect)
            case Halt():
                self._halt(effect.reason)
            case _:
                self._store(effect)

    def _store(self, effect: StorageEffect) -> None:
        """Have it done, and let the core hear what it brings: right after this step, or a read in its turn."""
        match effect:
            case Truncate(topic_partition=log, end_offset=end_offset):
                self._flusher.before_truncate(log, end_offset)
            case StartLogAt(topic_partition=log, start_offset=start_offset):
                self._flusher.before_truncate(log, start_offset)
            case InstallSnapshot(topic_partition=log, snapshot_id=snapshot_id):
                self._flusher.before_truncate(log, snapshot_id.end_offset)
                self._snapshots.abandon(log)
            case DeleteLog(topic_partition=log) | ReplaceLog(topic_partition=log):
                self._flusher.forget(log)
                # What waits to be said of it would otherwise be said of the next log of that name.
                self._events = deque(event for event in self._events if not _is_report_of(event, log))
            case _:
                pass
        report = self._storage.perform(effect)
        if isinstance(report, LogRead):
            # A replay is one read after the other: what comes meanwhile, heartbeats among it, must get its turn.
            asyncio.get_running_loop().call_soon(self.submit, report)
        elif report is not None:
            self.submit(report)

    async def _send(self, send: Send) -> None:
        try:
            async with asyncio.timeout(send.timeout_ms / 1000):
                response = await self._transport.call(send.replica_id, send.request, send.timeout_ms)
        except (TransportError, TimeoutError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and self._stopped:
                raise
            # Also a call whose channel was closed, because the replica has moved: the core waits for every outcome.
            reason = str(error) or "no answer in time"
            self._tell(self._observer.on_peer_unreachable, send.replica_id, send.request, reason)
            self.submit(SendFailed(correlation_id=send.correlation_id, replica_id=send.replica_id))
            return
        except Exception as error:
            # Without an outcome the core would wait for ever: this leader would never be fetched from again.
            self._halt_on_bug(error)
            return
        assert isinstance(response, PeerResponse), f"{type(response).__name__} is no answer to a peer"
        self.submit(ResponseReceived(correlation_id=send.correlation_id, replica_id=send.replica_id, response=response))

    def _resolve(self, call_id: CallId, make_response: Callable[[], Response]) -> None:
        """Answer the call, unless its caller has given up: then its records need not be read either."""
        if call_id in self._calls:
            response = make_response()
            self._calls.pop(call_id).set_result(response)

    def _with_records(self, reply: ReplyWithRecords) -> Response:
        return reply.response.with_records(read_ranges(reply, self._read))

    def _read(self, log: TopicPartition, start_offset: Offset, end_offset: Offset, max_bytes: int) -> bytes | None:
        try:
            return self._storage.stores[log].read(start_offset, end_offset, max_bytes)
        except DamagedLogError as damage:
            self._on_damaged(damage)
        except OutOfDescriptorsError:
            pass  # It is this answer's error alone.
        return None

    def _with_offset(self, reply: ReplyWithOffset) -> ListOffsetsResponse:
        try:
            return self._storage.with_offset(reply)
        except DamagedLogError as damage:
            self._on_damaged(damage)
        except OutOfDescriptorsError:
            pass
        return ListOffsetsResponse(error=ErrorCode.KAFKA_STORAGE_ERROR)

    def _on_flush_outcome(self, outcome: FlushOutcome) -> None:
        if outcome.failure is not None:
            self.submit(StorageFailed(reason=outcome.failure))
            return
        self._tell(self._observer.on_flushed, outcome.topic_partition, outcome.end_offset, outcome.seconds)
        self.submit(Flushed(topic_partition=outcome.topic_partition, end_offset=outcome.end_offset))

    def _on_snapshot_outcome(self, effect: StoreSnapshot, failure: str | None) -> None:
        if failure is not None:
            self.submit(StorageFailed(reason=failure))
            return
        self.submit(SnapshotStored(topic_partition=effect.topic_partition, snapshot_id=effect.snapshot_id))

    def _arm_timer(self) -> None:
        deadline_ms = None if self._stopped else self._core.deadline_ms
        if deadline_ms == self._timer_deadline_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_deadline_ms = deadline_ms
        if deadline_ms is not None:
            delay_s = self._clocks.seconds_until(deadline_ms)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.submit(Ticked())

    def _tell(self, hear: Callable[_Told, None], *what: _Told.args, **named: _Told.kwargs) -> None:
        """Let the observer hear of something. Its first mistake is written down, and none of them breaks a step."""
        try:
            hear(*what, **named)
        except Exception as error:
            if not self._observer_is_broken:
                self._observer_is_broken = True
                structlog.get_logger().error("observer_failed", exc_info=error)

    def _halt_on_bug(self, error: Exception) -> None:
        self._halt(f"internal error: {type(error).__name__}: {error}", error)

    def _halt(self, reason: str, error: Exception | None = None) -> None:
        self.halt_reason = reason
        self._tell(self._observer.on_halted, reason, error)
        self._cease(reason)
        self.halted.set()

    def _cease(self, reason: str) -> None:
        self._stopped = True
        self._events.clear()
        for reply in self._calls.values():
            reply.set_exception(ReplicaStoppedError(reason, not_applied=False))
        self._calls.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_REPORTS = Flushed | LogDamaged | LogRead | BatchFound | ProducersScanned | LogStartMoved


def _is_report_of(event: Event, log: TopicPartition) -> bool:
    """Tell whether an event is what storage has to say of this log."""
    return isinstance(event, _REPORTS) and event.topic_partition == log
