"""Performs the effects of one replica, each in the lanes of the logs that it concerns, and hands on what comes of them.

Owns the threads: what waits for a disk is done in one of them, while the event loop goes on with the lanes of other
logs; flushes and snapshots that are stored hold nothing back and have threads of their own. Knows no rule of the
protocol, and of the core nothing but that it wants to hear of something.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol

from replica.core.effects import (
    Append,
    ApplyRetention,
    ApplySettings,
    CreateLog,
    DeleteLog,
    Effect,
    FindBatch,
    Flush,
    Halt,
    InstallSnapshot,
    ReadLog,
    ReplaceLog,
    Reply,
    ScanProducers,
    Send,
    StoreQuorumState,
    StoreSnapshot,
)
from replica.core.events import Event, LogDamaged, LogRead, StorageFailed
from replica.core.lanes import Answering, Cut, Lanes, Question, Ticket
from replica.core.messages import Request, Response
from replica.ids import CallId, TopicPartition
from replica.server.flusher import Flusher, FlushOutcome
from replica.server.ports import StoragePort
from replica.server.snapshot_writer import SnapshotWriter
from replica.storage import Answer, DamagedLogError, FailedDirectoryError, StorageError, StorageReport

THREADS = 8
"""How many lanes may have something stored at once; further ones stand in line. A disk serves no more any faster."""
READERS = 4
"""How many may have something read, in threads of their own: whoever reads a lot must not hold up a vote."""
VOTERS = 4
"""How many may have a vote stored: it does not stand in line behind the first records of a thousand partitions."""
MAKERS = 1
"""How many may have a log made, which takes more computing than waiting: the event loop computes in turn with them."""


_Reading = Question | ReadLog | FindBatch | ScanProducers | ApplyRetention
Outcome = StorageReport | Answer | None


class Owner(Protocol):
    """Who hears of what comes of the effects. Every method is called on the event loop."""

    @property
    def requests(self) -> Mapping[CallId, Request]:
        """Those whose callers still wait."""

    def submit(self, event: Event, *, is_first: bool = False) -> None:
        """Let the core hear of it, in its turn, or before anything else."""

    def forget_reports(self, log: TopicPartition) -> None:
        """Let the core not hear any more of what storage had to say of a log: it is gone."""

    def answer(self, call_id: CallId, response: Response) -> None:
        """Answer a call, if its caller still waits."""

    def send(self, send: Send) -> None:
        """Take a request to a peer."""

    def apply_settings(self, settings: ApplySettings) -> None:
        """Go by these settings from now on."""

    def halt(self, reason: str) -> None:
        """Stop for good."""

    def on_bug(self, error: Exception) -> None:
        """A mistake of our own: stop for good."""

    def on_flushed(self, outcome: FlushOutcome) -> None:
        """A flush came back."""


class Performer:
    """Performs effects in the order of their lanes. All methods belong to the event loop."""

    def __init__(self, storage: StoragePort, owner: Owner) -> None:
        self._storage = storage
        self._owner = owner
        self._lanes = Lanes()
        self._is_stopped = False
        self._has_failures = False
        """Whether the disk of a log directory has refused."""
        self.waiting_bytes = 0
        """How many bytes of batches wait in lanes to be appended."""
        self.lane_depths: Counter[type[Effect]] = Counter()
        """How many effects of each kind are in lanes."""
        self._writers = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="lane")
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="reader")
        self._voters = ThreadPoolExecutor(max_workers=VOTERS, thread_name_prefix="voter")
        self._makers = ThreadPoolExecutor(max_workers=MAKERS, thread_name_prefix="maker")
        self._flusher = Flusher(
            lambda log: storage.stores[log], report=owner.submit, tell=owner.on_flushed, on_failure=self.on_error
        )
        self._snapshots = SnapshotWriter(lambda log: storage.stores[log], owner.submit)

    def perform(self, effects: Iterable[Effect]) -> None:
        """Perform the effects of a step, in order, or let them wait for their turn.

        Raises StorageError or OSError where the disk refused one of them: all that follow relied on it.
        """
        for effect in effects:
            if self._is_stopped:
                return
            if isinstance(effect, Cut):
                self._before_cut(effect)
            if self._lanes.are_empty and not self._storage.waits_for_disk(effect):
                self._do(effect)
            else:
                self.waiting_bytes += _batch_bytes(effect)
                self.lane_depths[type(effect)] += 1
                self._begin([self._lanes.enter(effect, self._storage.place_of(effect, self._owner.requests))])

    def _before_cut(self, cut: Cut) -> None:
        """See that nothing more is said of what is cut: the core awaits none of it, and hears of it as of the rest.

        1. A flush of [0, 10) runs that nobody awaits any more. 2. The core cuts the log to 5, and appends up to 10.
        3. The flush ends, and would report 10, although the new batches are not on the platter.
        """
        log = cut.topic_partition
        self._flusher.forget(log)
        if isinstance(cut, InstallSnapshot):
            self._snapshots.abandon(log)
        if isinstance(cut, DeleteLog | ReplaceLog):
            self._owner.forget_reports(log)

    @property
    def flushes_pending(self) -> int:
        """How many logs have a flush that runs, or is in line."""
        return self._flusher.pending

    def cease(self) -> None:
        """Begin nothing any more."""
        self._is_stopped = True

    async def stop(self) -> None:
        """Begin nothing any more, and wait for what is being done to the disk."""
        self.cease()
        for threads in (self._writers, self._readers, self._voters, self._makers):
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)
        await self._flusher.stop()
        await self._snapshots.stop()

    # --- in their lanes ---------------------------------------------------------------------------------------------

    def _begin(self, tickets: Iterable[Ticket]) -> None:
        """Perform those whose turn it is, and all whose turn comes by that; what waits for the disk, in a thread."""
        ready = deque(ticket for ticket in tickets if ticket.may_begin)
        while ready and not self._is_stopped:
            ticket = ready.popleft()
            if self._is_moot(ticket):
                ready += self._leave(ticket)
            elif self._storage.waits_for_disk(ticket.effect):
                self._begin_in_thread(ticket)
            else:
                self._do(ticket.effect)
                ready += self._leave(ticket)

    def _leave(self, ticket: Ticket) -> list[Ticket]:
        self.waiting_bytes -= _batch_bytes(ticket.effect)
        self.lane_depths[type(ticket.effect)] -= 1
        return self._lanes.leave(ticket)

    def _is_moot(self, ticket: Ticket) -> bool:
        """Whether nobody waits for it: an answer whose caller has given up, or a flush of what is cut behind it."""
        if isinstance(ticket.effect, Answering):
            return ticket.effect.call_id not in self._owner.requests
        return self._lanes.is_moot(ticket.effect)

    def _begin_in_thread(self, ticket: Ticket) -> None:
        loop = asyncio.get_running_loop()
        effect = ticket.effect
        at_once = Send | Reply | Flush | StoreSnapshot | ApplySettings | Halt
        assert not isinstance(effect, at_once), f"{effect} waits for no disk"
        future = self._threads_for(effect).submit(self._storage.perform, effect)
        future.add_done_callback(lambda done: loop.call_soon_threadsafe(self._on_done, ticket, done))

    def _threads_for(self, effect: Effect) -> ThreadPoolExecutor:
        match effect:
            case StoreQuorumState():
                return self._voters
            case CreateLog():
                return self._makers
            case _:
                return self._readers if isinstance(effect, _Reading) else self._writers

    def _on_done(self, ticket: Ticket, done: Future[Outcome]) -> None:
        """Say what came of it, and let those behind it have their turn. After a failure they never have it."""
        if self._is_stopped:
            return
        try:
            self._hear(ticket.effect, done.result)
            self._begin(self._leave(ticket))
        except (StorageError, OSError) as error:
            self._owner.submit(StorageFailed(reason=str(error)), is_first=True)
        except Exception as error:
            self._owner.on_bug(error)

    # --- one effect -------------------------------------------------------------------------------------------------

    def _do(self, effect: Effect) -> None:
        """Perform an effect that waits for no disk."""
        match effect:
            case Flush(topic_partition=log, end_offset=end_offset):
                if not self._has_failures or log in self._storage.stores:
                    self._flusher.request(log, end_offset)
            case StoreSnapshot():
                self._snapshots.store(effect)
            case Send():
                self._owner.send(effect)
            case Reply(call_id=call_id, response=response):
                if self._has_failures:
                    response = self._storage.told(self._owner.requests.get(call_id), response)
                self._owner.answer(call_id, response)
            case ApplySettings():
                self._owner.apply_settings(effect)
            case Halt(reason=reason):
                self._owner.halt(reason)
            case _:
                if not isinstance(effect, Question) or effect.call_id in self._owner.requests:
                    self._hear(effect, partial(self._storage.perform, effect))

    def _hear(self, effect: Effect, outcome_of: Callable[[], Outcome]) -> None:
        """Let the core hear what an effect brought: right after this step, or a read in its turn.

        Damage to its log is no failure of the disk, and neither is the failure of one log directory.
        """
        try:
            outcome = outcome_of()
        except (DamagedLogError, FailedDirectoryError) as loss:
            self._on_damaged(loss)
            return
        match outcome:
            case None:
                pass
            case Answer():
                assert isinstance(effect, Question), effect
                for damage in outcome.damage:
                    self._on_damaged(damage)
                self._owner.answer(effect.call_id, outcome.response)
            case _ if self._lanes.is_going(outcome.topic_partition):
                pass
            case LogRead():
                # A replay is one read after the other: what comes meanwhile, heartbeats among it, must get its turn.
                asyncio.get_running_loop().call_soon(self._owner.submit, outcome)
            case _:
                self._owner.submit(outcome)

    def on_error(self, error: Exception) -> None:
        """Let the core hear of a disk that refuses: of a log directory before anything else, and all else goes on."""
        if not isinstance(error, FailedDirectoryError):
            self._owner.submit(StorageFailed(reason=str(error)))
            return
        self._has_failures = True
        self._owner.submit(self._storage.on_failed(error), is_first=True)

    def _on_damaged(self, damage: DamagedLogError | FailedDirectoryError) -> None:
        if isinstance(damage, FailedDirectoryError):
            self.on_error(damage)
            return
        if self._lanes.is_going(damage.topic_partition):
            return
        # Before anything else happens: what else would be done with this log is not done any more.
        self._owner.submit(
            LogDamaged(topic_partition=damage.topic_partition, offset=damage.offset, reason=str(damage)), is_first=True
        )


def _batch_bytes(effect: Effect) -> int:
    return sum(batch.size_bytes for batch in effect.batches) if isinstance(effect, Append) else 0
