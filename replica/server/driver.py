"""The single writer: steps the core with one event at a time and has its effects performed.

Owns the core and the clock of one replica process, the calls that wait for it and its requests to peers: where a leader
is goes with them and is heard before the core has the answer. Everything
runs on one event loop; what waits for a disk or a peer takes its time elsewhere and comes back as an event. It knows no
rule of the protocol and nothing of gRPC.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import ParamSpec

import structlog

from replica.core.effects import ApplySettings, Effect, Send
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
    SnapshotTooLarge,
    Started,
    StorageFailed,
    Ticked,
)
from replica.core.messages import ApplyRequest, PeerResponse, ProduceRequest, Request, Response
from replica.core.refusals import refusal
from replica.errors import ErrorCode
from replica.ids import CallId, TopicPartition
from replica.rpc.transport import TransportError
from replica.server.clocks import MACHINE_CLOCKS, Clocks
from replica.server.flusher import FlushOutcome
from replica.server.leader_addresses import LeaderAddresses
from replica.server.performer import Performer
from replica.server.ports import Core, PeerTransport, PeerWatch, StepObserver, StoragePort
from replica.storage import StorageError

_Told = ParamSpec("_Told")

WAITING_BYTES_MAX = 256 << 20
"""How many bytes of batches may wait for disks that do not come back, before writes are refused."""
TURN_MS = 10
"""How long one step follows the other until the event loop runs for everybody else; one may take longer.

A thousand clients that write at once are a thousand steps, and one answer can bring records for a thousand partitions.
"""
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
        watch: PeerWatch,
        leaders: LeaderAddresses,
        clocks: Clocks = MACHINE_CLOCKS,
    ) -> None:
        self.halted = asyncio.Event()
        self.halt_reason: str | None = None
        self.apply_settings: Callable[[ApplySettings], None] = lambda _: None
        """Who goes by settings that are not the core's."""
        self._core = core
        self._transport = transport
        self._leaders = leaders
        self._observer = observer
        self._observer_is_broken = False
        self._clocks = clocks
        self.performer = Performer(storage, self)
        self._watch = watch
        self._watched = core.watched_peers
        self.waiting_bytes_max = WAITING_BYTES_MAX
        self._first: deque[Event] = deque()
        """What the core hears before anything else."""
        self._events: deque[Event] = deque()
        self.turn_ms = TURN_MS
        self._turn_took_ms = 0
        """How long steps have taken since the event loop has run."""
        self._stepping = False
        self._stopped = False
        self._call_ids = count()
        self._calls: dict[CallId, asyncio.Future[Response]] = {}
        self.requests: dict[CallId, Request] = {}
        """What the calls have asked for that still wait for an answer."""
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

    def submit(self, event: Event, *, is_first: bool = False) -> None:
        """Step the core with ``event`` now, or right after the step that is under way. Ignored once stopped.

        What waits for that step to end comes before it, unless it ``is_first``. So does what waits for the event loop
        to have run, once steps took ``turn_ms`` without. What storage reports waits for no turn:

        1. A flush of [0, 10) ends, and its report waits. 2. What waits before it cuts the log to 5, and appends up to
        10. 3. The core hears of 10, and takes the new batches for flushed.
        """
        if self._stopped:
            return
        if is_first:
            self._first.appendleft(event)
        elif isinstance(event, _HEARD_AT_ONCE):
            self._first.append(event)
        else:
            self._events.append(event)
        if not self._stepping and (self._first or self._turn_took_ms < self.turn_ms):
            self._step_in_turn()

    def _step_in_turn(self) -> None:
        """Step the core with one event after the other, until none is left or the event loop is to run."""
        was_over = self._turn_took_ms >= self.turn_ms
        self._stepping = True
        try:
            while (self._first or (self._events and self._turn_took_ms < self.turn_ms)) and not self._stopped:
                now_ms = self._clocks.monotonic_ms()
                taken = self._next_event(now_ms)
                effects: tuple[Effect, ...] = ()
                try:
                    effects = self._core.step(taken, now_ms)
                    self.performer.perform(effects)
                except (StorageError, OSError) as error:
                    # The rest of the effects relied on this one. The core hears of it before anything else happens.
                    self._first.appendleft(StorageFailed(reason=str(error)))
                self._tell(self._observer.on_step, taken, effects, now_ms)
                self._turn_took_ms += self._clocks.monotonic_ms() - now_ms
        except Exception as error:
            # A broken core must not go on answering: whatever it promised last is all it may promise.
            self.on_bug(error)
        finally:
            self._stepping = False
            if self._turn_took_ms >= self.turn_ms and not was_over:
                asyncio.get_running_loop().call_soon(self._begin_turn)
            self._on_stepped()

    def _next_event(self, now_ms: int) -> Event:
        """Take the next event; what time of day it is the core hears before that, unless it was just told."""
        if self._clock_read_ms is not None and now_ms - self._clock_read_ms >= CLOCK_READ_INTERVAL_MS:
            self._clock_read_ms = now_ms
            return ClockRead(unix_ms=self._clocks.unix_ms())
        return (self._first or self._events).popleft()

    def _on_stepped(self) -> None:
        """Do what may have become due: a deadline, others who are to be watched, and who waits for a step to end."""
        self._arm_timer()
        self._look_at_watched()
        if self._stepped is not None:
            self._stepped.set_result(None)
            self._stepped = None

    def _begin_turn(self) -> None:
        """Go on, after the event loop has run."""
        self._turn_took_ms = 0
        if self._events and not self._stopped:
            self._step_in_turn()

    def _look_at_watched(self) -> None:
        """Have those watched whom the core wants watched by now."""
        if self._core.watched_peers is not self._watched and not self._stopped:
            self._watched = self._core.watched_peers
            self._watch.watch(self._watched)

    async def call(self, request: Request) -> Response:
        """Hand a request to the core and wait for its reply; raises ReplicaStoppedError.

        A cancelled caller only gives up its place: what the core has begun for the request goes on without it.
        """
        if self._stopped:
            raise ReplicaStoppedError(self.halt_reason or "the replica is stopping", not_applied=True)
        if self.performer.waiting_bytes > self.waiting_bytes_max and isinstance(request, ProduceRequest | ApplyRequest):
            return refusal(request, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        call_id = CallId(next(self._call_ids))
        reply: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._calls[call_id], self.requests[call_id] = reply, request
        self.submit(RequestReceived(call_id=call_id, request=request))
        try:
            return await reply
        finally:
            self._calls.pop(call_id, None)
            self.requests.pop(call_id, None)

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
        await self._watch.stop()
        for send in tuple(self._sends):
            send.cancel()
        await asyncio.gather(*self._sends, return_exceptions=True)
        await self.performer.stop()

    # --- what comes of effects --------------------------------------------------------------------------------------

    def forget_reports(self, log: TopicPartition) -> None:
        """Let the core not hear any more of what storage had to say of a log: it is gone."""
        self._first, self._events = (
            deque(event for event in events if not _is_report_of(event, log)) for events in (self._first, self._events)
        )

    def answer(self, call_id: CallId, response: Response) -> None:
        """Answer a call, if its caller still waits."""
        self.requests.pop(call_id, None)
        reply = self._calls.pop(call_id, None)
        if reply is not None and not reply.done():  # A caller that has just given up has cancelled it.
            reply.set_result(response)

    def send(self, send: Send) -> None:
        """Take a request to a peer, and let the core hear of every outcome."""
        task = asyncio.get_running_loop().create_task(self._send(send))
        self._sends.add(task)
        task.add_done_callback(self._sends.discard)

    async def _send(self, send: Send) -> None:
        try:
            async with asyncio.timeout(send.timeout_ms / 1000):
                request = self._leaders.request(send.request)
                response = await self._transport.call(send.replica_id, request, send.timeout_ms)
            self._leaders.heard.on_answer(request, response)
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
            self.on_bug(error)
            return
        assert isinstance(response, PeerResponse), f"{type(response).__name__} is no answer to a peer"
        self.submit(ResponseReceived(correlation_id=send.correlation_id, replica_id=send.replica_id, response=response))

    def on_flushed(self, outcome: FlushOutcome) -> None:
        """Tell the observer of a flush."""
        self._tell(self._observer.on_flushed, outcome.topic_partition, outcome.end_offset, outcome.seconds)

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

    def on_bug(self, error: Exception) -> None:
        """Stop for good: a broken core, or what performs its effects, must not go on answering."""
        self.halt(f"internal error: {type(error).__name__}: {error}", error)

    def halt(self, reason: str, error: Exception | None = None) -> None:
        """Stop for good, and say why."""
        self.halt_reason = reason
        self._tell(self._observer.on_halted, reason, error)
        self._cease(reason)
        self.halted.set()

    def _cease(self, reason: str) -> None:
        self._stopped = True
        self.performer.cease()
        self._first.clear()
        self._events.clear()
        for reply in self._calls.values():
            if not reply.done():
                reply.set_exception(ReplicaStoppedError(reason, not_applied=False))
        self._calls.clear()
        self.requests.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_HEARD_AT_ONCE = (
    Flushed,
    SnapshotStored,
    SnapshotTooLarge,
    BatchFound,
    ProducersScanned,
    LogStartMoved,
    StorageFailed,
)
"""What storage has to say of the logs as they are."""
_REPORTS = Flushed | LogDamaged | LogRead | BatchFound | ProducersScanned | LogStartMoved


def _is_report_of(event: Event, log: TopicPartition) -> bool:
    """Tell whether an event is what storage has to say of this log."""
    return isinstance(event, _REPORTS) and event.topic_partition == log
