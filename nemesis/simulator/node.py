"""One simulated machine with the replica process on it: the core's second driver.

Owns what the server's driver owns: the order of effects, the flushes, the timer, the calls that are owed an answer; and
how a process dies: between two effects, before a file operation, by a signal, with the power. Knows no protocol rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random

from nemesis.disks.simulated_files import PowerLossError
from nemesis.simulator.disk import NodeDisk
from nemesis.simulator.flushes import Flushes
from nemesis.simulator.losses import Loss, Losses
from nemesis.simulator.queue import US_PER_MS, NodeClock
from nemesis.simulator.steps import Crash, Step, Surroundings, clause_of
from nemesis.simulator.violations import BrokenInvariantError
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.lanes import Answering, Cut, Lane, Lanes, Ticket
from replica.core.log.recovered import RecoveredLog
from replica.core.messages import Request, Response
from replica.core.replica import Replica
from replica.ids import CallId, Offset, ReplicaId, TopicPartition
from replica.storage import (
    Answer,
    CorruptLogError,
    DamagedLogError,
    FailedDirectoryError,
    LogStore,
    LogTable,
    StorageEffect,
    StorageError,
    StorageReport,
)
from replica.voters import ReplicaKey

__all__ = ["Crash", "Node", "OnReply", "Step"]
OnReply = Callable[[Response], None]
STOP_GRACE_MS, STOP_WAITS_MAX = 200, 15
"""How long a graceful stop waits after the resignation, and how often so long for a broker's leave to go."""
UNIX_MS = 1_700_000_000_000  # What the wall clock shows when a world begins.


class Node:
    """One machine: its disk and clock for ever, its process for one incarnation."""

    def __init__(
        self, replica_id: ReplicaId, world: Surroundings, disk: NodeDisk, clock: NodeClock, dice: Random
    ) -> None:
        self.replica_id = replica_id
        self.disk = disk
        self.clock = clock
        self.dice = dice
        self.incarnation = 0
        self.core: Replica | None = None
        self.paused_by: set[int] = set()  # The keys of those who want the process to stand still.
        self.storage_failed = False  # Whether this process, or the last one, was told of a failure of its storage.
        self.is_retired = False  # Whether its flushed data is known to be damaged, so that it never starts again.
        self.flushed_end: dict[TopicPartition, Offset] = {}
        """What of each log is certainly on the platter, whether a process runs or not."""
        self.lost: dict[ReplicaKey, dict[TopicPartition, Offset]] = {}
        """What was on the platters of its former disks, in the order in which they were taken out."""
        self.requests: dict[CallId, Request] = {}
        self._world = world
        self._open: LogTable | None = None
        self._recovery_points: Mapping[TopicPartition, Offset] = {}
        self.losses = Losses(self)
        self._answers: dict[CallId, Mapping[TopicPartition, bytes]] = {}
        self._answered: list[CallId] = []
        self._replies: dict[CallId, OnReply] = {}
        self._last_call = CallId(0)
        self._inbox: list[ev.Event] = []
        self._lanes = Lanes()
        self._cuts: list[Cut] = []
        self._stalled: list[Callable[[], None]] = []  # What the disk was done with while the process stood still.
        self.slow_lanes: dict[Lane, bool] = {}
        self._timer_us: int | None = None
        self._flushes = Flushes(self, world)
        self._performing: fx.Effect | None = None

    @property
    def key(self) -> ReplicaKey:
        """Who it is as a voter: itself, on the disk that it has now."""
        return self.disk.key

    @property
    def is_up(self) -> bool:
        """Whether there is a process, paused or not."""
        return self.core is not None

    @property
    def is_paused(self) -> bool:
        """Whether the process stands still."""
        return bool(self.paused_by)

    @property
    def now_ms(self) -> int:
        """What this machine's clock shows."""
        return self.clock.now_ms(self._world.queue.now_us)

    @property
    def stores(self) -> Mapping[TopicPartition, LogStore]:
        """The open logs of the process; none without one."""
        return {} if self._open is None else self._open.stores

    @property
    def recovered(self) -> Mapping[TopicPartition, RecoveredLog]:
        """The logs of the process as it found them when it began; none without one."""
        return {} if self._open is None else self._open.recovered

    @property
    def recovery_points(self) -> Mapping[TopicPartition, Offset]:
        """Below what damage must be noticed, log by log; of the last process where there is none."""
        if self._open is None:
            return self._recovery_points
        points = self._open.directory.recovery_points
        return {log: points.get(log) or Offset(0) for log in self.stores}

    # --- coming and going -------------------------------------------------------------------------------------------

    def start(self) -> bool:
        """Open the disk and let a process begin; whether it did. The power may go while it opens."""
        assert self.core is None, self.replica_id
        files = self.disk.files
        cut_before = files.cut_bytes
        self.losses.begin()
        try:
            self._open = self.disk.open()
        except PowerLossError:
            self.disk.lose_power()
            self._world.on_down(self, Crash(cause="power-in-start"))
            return False
        except StorageError as error:
            self.is_retired = self.disk.is_damaged and isinstance(error, CorruptLogError)
            self._world.on_refused_start(self, error)
            return False
        self.incarnation += 1
        self.storage_failed = False
        self.core = self._world.new_core(self, self._open)
        for found in self.recovered.values():
            if found.damage is not None:
                self.losses.check_provoked(found.damage)
        # A cut that was broken off may have taken everything, or nothing: what is there now is there.
        there = {log: store.flushed_end_offset for log, store in self.stores.items()}
        self.flushed_end |= {log: max(end, self.flushed_end.get(log, Offset(0))) for log, end in there.items()}
        self._world.on_boot(self, files.cut_bytes - cut_before)
        self.flushed_end = {log: there.get(log, self.flushed_end.get(log, Offset(0))) for log in self.recovered}
        self._flushes.checkpoint_later(self._open)
        first: list[ev.Event] = [ev.Started(unix_ms=UNIX_MS + self._world.queue.now_us // US_PER_MS)]
        for event in [*first, *self._open.failed_at_start()]:
            self.submit(event)
        return True

    def kill(self, cause: str = "kill") -> None:
        """End the process; what it wrote stays in the machine's memory."""
        if self.core is not None:
            self._end(Crash(cause=cause))

    def lose_power(self, crash: Crash | None = None) -> None:
        """End whatever runs, and lose what was not flushed."""
        self._end(crash or Crash(cause="power"))

    def change_disk(self, earlier: ReplicaKey | None = None) -> None:
        """End whatever runs, and put an empty disk in place of the one that is there, or one that was there before."""
        self._end(Crash(cause="wiped"))
        self.lost[self.key] = self.flushed_end
        self.disk.change(earlier)
        self.flushed_end, self._recovery_points = self.lost.pop(self.key, {}), {}

    def stop(self) -> None:
        """Resign, and after a while close everything cleanly."""
        self.submit(ev.ResignRequested())
        self.after_ms(STOP_GRACE_MS, lambda: self._close_cleanly(waits=STOP_WAITS_MAX))

    def pause(self, key: int) -> None:
        """Let the process stand still until ``resume(key)``; what comes for it waits."""
        self.paused_by.add(key)

    def resume(self, key: int) -> None:
        """Let the process go on, with all that has come meanwhile, if nobody else wants it to stand still."""
        self.paused_by.discard(key)
        if self.is_paused:
            return
        inbox, self._inbox = self._inbox, []
        stalled, self._stalled = self._stalled, []
        for finish in stalled:
            if self.core is not None:  # What came before may have ended the process.
                finish()
        for event in inbox:
            self.submit(event)
        self._arm_timer()

    def jump_clock(self, by_ms: int) -> None:
        """Let the clock leap ahead; what is due by it is due."""
        self.clock.jump(by_ms)
        self._arm_timer()

    def _close_cleanly(self, waits: int) -> None:
        assert self._open is not None, self.replica_id
        assert self.core is not None, self.replica_id
        broker = self.core.broker
        if self.is_paused or (broker is not None and not broker.lifecycle.may_shut_down and waits > 0):
            self.after_ms(STOP_GRACE_MS, lambda: self._close_cleanly(waits - 1))
            return
        try:
            self._open.close_clean(None if broker is None else broker.broker_epoch)
        except PowerLossError:
            self.lose_power()
        except StorageError:
            self._end(Crash(cause="stop"))
        else:
            self.flushed_end |= {log: store.flushed_end_offset for log, store in self.stores.items()}
            self._end(Crash(cause="stop"))

    def _end(self, crash: Crash) -> None:
        if self._open is not None:
            self._recovery_points = self.recovery_points
            self._open.abandon()
        if crash.cause.startswith("power"):
            self.disk.lose_power()
        self.core, self._open, self._timer_us = None, None, None
        self.paused_by.clear()
        self._replies, self._inbox, self._stalled = {}, [], []
        self.requests.clear()
        self._lanes = Lanes()
        self.slow_lanes.clear()
        self._flushes.forget_all()
        self._world.on_down(self, crash)

    def after_ms(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something later, unless the process has ended by then."""
        incarnation = self.incarnation

        def later() -> None:
            if self.core is not None and self.incarnation == incarnation:
                action()

        self._world.queue.after(int(delay_ms * US_PER_MS), later)

    # --- stepping ---------------------------------------------------------------------------------------------------

    def call(self, request: Request, on_reply: OnReply) -> None:
        """Hand a request to the process; its answer, if one comes, goes to ``on_reply``."""
        if self.core is None:
            return
        call_id = self._last_call = CallId(self._last_call + 1)
        self.requests[call_id], self._replies[call_id] = request, on_reply
        self.submit(ev.RequestReceived(call_id=call_id, request=request))

    def submit(self, event: ev.Event) -> None:
        """Step the core with ``event``, now or when the process goes on."""
        if self.core is None:
            return
        if self.is_paused:
            self._inbox.append(event)
            return
        self._step(event)
        self._arm_timer()

    def _step(self, event: ev.Event) -> None:
        assert self.core is not None, self.replica_id
        try:
            effects = self.core.step(event, self.now_ms)
        except AssertionError as error:
            raise BrokenInvariantError("core-assertion", f"replica {self.replica_id}: {clause_of(error)}") from error
        # A replica that halts has seen what cannot be, which the dice must not cover up.
        crash_point = None if self.core.halted else self._world.crash_point(self, event, len(effects))
        performed, failure = 0, None
        done: list[fx.Effect] = []
        try:
            for effect in effects:
                if performed == crash_point:
                    break
                self._admit(effect, done)
                performed += 1
        except PowerLossError:
            crash_point, failure = None, "power-in-step"
        except StorageError as error:
            failure = str(error)
        interrupted = None if failure is None else effects[performed]
        self._note(event, done, interrupted, is_whole=performed == len(effects))
        if failure == "power-in-step":
            self.lose_power(Crash(cause=failure, performed=performed, effects=len(effects)))
        elif failure is not None:
            self._step(ev.StorageFailed(reason=failure))
        elif crash_point is not None:
            self._end(Crash(cause="crash-in-step", performed=performed, effects=len(effects)))
        elif self.core.halted is not None:
            self._end(Crash(cause=f"halt: {self.core.halted}"))
        self._tell_of_damage()

    def _tell_of_damage(self) -> None:
        while self.core is not None and (lost := self.losses.take()) is not None:
            self._step(lost)

    # --- lanes ------------------------------------------------------------------------------------------------------

    def _admit(self, effect: fx.Effect, done: list[fx.Effect]) -> None:
        """Perform an effect, or let it wait for its turn. ``done`` takes what was performed."""
        assert self._open is not None, self.replica_id
        if self._lanes.are_empty and not self._world.climate.slow_lanes:
            self._maybe_perform(effect, done)
        else:
            if isinstance(effect, Cut):
                self._flushes.forget(effect.topic_partition)
                self._cuts.append(effect)
            self._begin([self._lanes.enter(effect, self._open.place_of(effect, self.requests))], done)

    def _begin(self, tickets: Iterable[Ticket], done: list[fx.Effect]) -> None:
        """Perform those whose turn it is, and all whose turn comes by that; what waits for the disk, after a while."""
        assert self._open is not None, self.replica_id
        ready = deque(ticket for ticket in tickets if ticket.may_begin)
        while ready:
            ticket = ready.popleft()
            is_moot = self._lanes.is_moot(ticket.effect)
            waits = not is_moot and self._open.waits_for_disk(ticket.effect)
            after_us = self._world.lane_us(self, ticket.lanes) if waits else 0
            # The platter may have it at once or only at the end: both are what disks do.
            is_done = not after_us or (self.dice.random() < 0.5 and not isinstance(ticket.effect, Answering))
            if is_done and not is_moot:
                self._maybe_perform(ticket.effect, done)
            if after_us:
                self.after_ms(after_us / US_PER_MS, partial(self._finish, ticket, is_done=is_done))
            else:
                ready += self._lanes.leave(ticket)

    def _finish(self, ticket: Ticket, *, is_done: bool) -> None:
        """Perform what has waited for the disk, if it is not done yet, and what has waited for that."""
        if self.is_paused:
            self._stalled.append(partial(self._finish, ticket, is_done=is_done))
            return
        done: list[fx.Effect] = []
        try:
            if not is_done:
                self._maybe_perform(ticket.effect, done)
            self._begin(self._lanes.leave(ticket), done)
            self._note(None, done, None, is_whole=True)
        except PowerLossError:
            self._note(None, done, self._performing, is_whole=False)
            self.lose_power(Crash(cause="power-in-step"))
        except StorageError as error:
            self._note(None, done, self._performing, is_whole=False)
            self._step(ev.StorageFailed(reason=str(error)))
        self._tell_of_damage()
        self._arm_timer()

    def is_gone(self, log: TopicPartition, store: LogStore) -> bool:
        """Whether this is not the log of that name any more, or will not be when its lane has come so far."""
        return self.stores.get(log) is not store or self._lanes.is_going(log)

    def _note(
        self, event: ev.Event | None, done: list[fx.Effect], interrupted: fx.Effect | None, *, is_whole: bool
    ) -> None:
        """Tell of the step, and forget the calls that it answered."""
        if isinstance(event, ev.StorageFailed):
            self.storage_failed = True
            self.losses.check_provoked(event.reason)
        pending, lost = self._lanes.pending, self.losses.logs
        step = Step(
            event=event,
            effects=tuple(done),
            answers=self._answers,
            interrupted=interrupted,
            is_whole=is_whole and not self.storage_failed,
            cuts=tuple(self._cuts),
            pending=pending | lost if lost else pending,
        )
        self._world.on_step(self, step)
        for call_id in self._answered:
            del self.requests[call_id]
        self._answered, self._answers, self._cuts = [], {}, []

    def _maybe_perform(self, effect: fx.Effect, done: list[fx.Effect]) -> None:
        """Perform an effect, unless its log turns out to be damaged; ``done`` takes what was done."""
        self._performing, stays = effect, self.losses.stays(effect, self._open)
        try:
            self._perform(effect)
        except DamagedLogError as damage:
            self._on_lost(damage)
            return
        except FailedDirectoryError as failure:
            self._on_lost(failure)
            stays = True
        if stays:
            self._world.on_step(self, Step(event=None, effects=(), answers={}, interrupted=effect, is_whole=False))
        else:
            done.append(effect)

    def _perform(self, effect: fx.Effect) -> None:
        assert self._open is not None, self.replica_id
        match effect:
            case fx.Send():
                self._world.send(self, effect)
            case fx.Reply(call_id=call_id, response=response):
                self._reply(call_id, response)
            case fx.ReplyWithRecords() | fx.ReplyWithOffset() | fx.ReplyWithSnapshot():
                answer = self._open.perform(effect)
                assert isinstance(answer, Answer), effect
                for damage in answer.damage:
                    self._on_lost(damage)
                self._answers[effect.call_id] = answer.records
                self._reply(effect.call_id, answer.response)
            case fx.StoreSnapshot():
                self._flushes.store(effect)
            case fx.Flush():
                if effect.topic_partition in self.stores:  # Its disk may have refused to make it.
                    self._flushes.request(effect.topic_partition, effect.end_offset)
            case fx.Halt() | fx.ApplySettings():
                pass
            case _:
                self._store(effect)

    def _store(self, effect: StorageEffect) -> None:
        """Have it done, and hand what it brings to the core as the next event."""
        assert self._open is not None, self.replica_id
        flushed_before = dict(self.flushed_end) if isinstance(effect, fx.Truncate | fx.StartLogAt) else self.flushed_end
        match effect:
            case fx.Truncate(topic_partition=log, end_offset=end_offset):
                assert not self._flushes.is_owed(log), (log, "is truncated while a flush of it is owed")
                self.flushed_end[log] = min(self.flushed_end[log], end_offset)  # Some may be gone whatever happens.
            case fx.StartLogAt(topic_partition=log) | fx.InstallSnapshot(topic_partition=log):
                assert not self._flushes.is_owed(log), (log, "is begun anew while a flush of it is owed")
                if isinstance(effect, fx.InstallSnapshot) or effect.start_offset != self.stores[log].log_end_offset:
                    self.flushed_end[log] = Offset(0)  # Else it ends there at every moment.
                self._flushes.abandon(log)
            case fx.DeleteLog(topic_partition=log) | fx.ReplaceLog(topic_partition=log):
                self._flushes.forget(log)
                self.flushed_end.pop(log, None)
            case _:
                pass
        try:
            report = self._open.perform(effect)
        except DamagedLogError:
            self.flushed_end = flushed_before  # Nothing was cut.
            raise
        if isinstance(effect, fx.DeleteLog | fx.ReplaceLog | fx.CreateLog):  # If the power goes before, rot stays.
            self.disk.rotten.discard(effect.topic_partition)
        if isinstance(effect, fx.CreateLog | fx.ReplaceLog | fx.StartLogAt | fx.InstallSnapshot):
            self.flushed_end[effect.topic_partition] = self.stores[effect.topic_partition].log_end_offset
        if report is not None:
            assert not isinstance(report, Answer), effect
            self._report(report)

    def _report(self, report: StorageReport) -> None:
        """Hand over what storage has to say of a log, unless that is gone by then, or is another of the same name."""
        store = self.stores[report.topic_partition]

        def hand_over() -> None:
            if not self.is_gone(report.topic_partition, store):
                self.submit(report)

        self.after_ms(self._world.report_us(self) / US_PER_MS, hand_over)

    def on_directory_failed(self, failure: FailedDirectoryError) -> None:
        """Let the process hear that the disk of a log directory has refused."""
        self._on_lost(failure)
        if self.is_paused:
            self._stalled.append(self._tell_of_damage)
        else:
            self._tell_of_damage()
            self._arm_timer()

    def _on_lost(self, loss: Loss) -> None:
        assert self._open is not None, self.replica_id
        is_going = isinstance(loss, DamagedLogError) and self._lanes.is_going(loss.topic_partition)
        self.losses.note(loss, self._open, is_going=is_going)

    def _reply(self, call_id: CallId, response: Response) -> None:
        if call_id not in self._replies:
            raise BrokenInvariantError("answered-twice", f"replica {self.replica_id} answers call {call_id} again")
        self._answered.append(call_id)
        assert self._open is not None, self.replica_id
        self._replies.pop(call_id)(self._open.told(self.requests[call_id], response))

    # --- the timer --------------------------------------------------------------------------------------------------

    def _arm_timer(self) -> None:
        """See that the core is called by its deadline. A tick that comes too early only looks again."""
        if self.core is None or self.is_paused or (deadline_ms := self.core.deadline_ms) is None:
            return
        due_us = max(self.clock.world_us(deadline_ms), self._world.queue.now_us)
        if self._timer_us is not None and self._timer_us <= due_us:
            return
        self._timer_us, incarnation = due_us, self.incarnation

        def tick() -> None:
            if self.core is None or self.incarnation != incarnation or self._timer_us != due_us:
                return
            self._timer_us = None
            deadline_ms = None if self.is_paused else self.core.deadline_ms
            if deadline_ms is not None and self.now_ms >= deadline_ms:
                self._step(ev.Ticked())
            self._arm_timer()

        self._world.queue.at(due_us, tick)
