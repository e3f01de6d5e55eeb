"""What carries commands to a group's leader: one session, and a task for each request that is on its way.

Owns when requests go out. Commands that wait while requests are on their way go together in the next one, and several
requests may be on their way at once: they may arrive in any order, since every command counts once and those that are
open at the same time have no order. An attempt whose outcome is unknown is repeated with the same numbers until the
commands are answered or nobody waits for them.

The session is ``sessions``'; judging an attempt is ``verdicts``' work. Source: Ongaro's thesis, section 6.3.
"""

from __future__ import annotations

import asyncio

from replica.client.clock import Deadline
from replica.client.failures import NotWrittenError
from replica.client.groups.calls import Attempt, attempt_apply
from replica.client.groups.commands import PendingCommand, WaitingCommands
from replica.client.groups.config import GroupConfig
from replica.client.groups.failures import UnknownGroupError
from replica.client.groups.sessions import Sessions
from replica.client.groups.verdicts import Again, Step, Verdict, fate_of, lost
from replica.client.groups.view import GroupView
from replica.machines import SessionCommand


class CommandSender:
    """The commands of one client. Close it."""

    def __init__(self, view: GroupView, config: GroupConfig) -> None:
        self._view = view
        self._config = config
        self._waiting = WaitingCommands(config)
        self._open: set[PendingCommand] = set()
        self._room = asyncio.Event()
        self._sessions = Sessions(
            view,
            config,
            is_wanted=self._waiting.has_any,
            on_open=self._send_soon,
            on_trouble=self._on_no_session,
        )
        self._carrying: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self._is_closed = False

    async def apply(self, command: bytes, deadline: Deadline) -> bytes:
        """Have a command applied once; return the machine's reply. Raises WriteError, in time."""
        await self._wait_room(deadline)
        if self._is_closed:
            raise NotWrittenError("not applied: the client is closed; make another one")
        pending = PendingCommand(command, self._view.clock.now_ms() + deadline.left_ms())
        self._open.add(pending)
        self._waiting.append(pending)
        self._send_soon()
        try:
            await self._view.clock.wait(pending.done, deadline.left_ms())
        finally:
            pending.give_up(f"no answer within {deadline.timeout_ms} ms")
            self._open.discard(pending)
            self._room.set()
            self._send_soon()  # The window may have moved.
        return pending.reply()

    async def close(self) -> None:
        """Give up what is open, and end the session."""
        self._is_closed = True
        for pending in self._open:
            pending.give_up("the client was closed")
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)
        await self._sessions.close()

    async def _wait_room(self, deadline: Deadline) -> None:
        while len(self._open) >= self._config.commands_in_flight_max:
            if deadline.is_over():
                raise NotWrittenError(
                    f"not applied: {len(self._open)} commands are open, and none was settled within "
                    f"{deadline.timeout_ms} ms; raise commands_in_flight_max, or apply fewer at once"
                )
            self._room.clear()
            await self._view.clock.wait(self._room, deadline.left_ms())

    # --- sending ----------------------------------------------------------------------------------------------------

    def _send_soon(self) -> None:
        """Send what waits, once those who are to run now have said what they want."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._is_scheduled = False
        while not self._is_closed and self._waiting.has_any():
            session = self._sessions.current
            if session is None:
                self._sessions.open_soon()
                return
            if len(self._carrying) >= self._config.requests_in_flight_max:
                return
            batch = self._waiting.take(session)
            if not batch:  # The window is full.
                return
            task = asyncio.create_task(self._carry(batch))
            self._carrying.add(task)
            task.add_done_callback(self._on_carried)

    def _on_carried(self, task: asyncio.Task[None]) -> None:
        self._carrying.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_our_mistake(error)
        self._send_soon()

    def _on_our_mistake(self, error: BaseException) -> None:
        """A bug here must not leave anybody waiting."""
        for pending in self._open:
            pending.on_trouble(f"the client has failed: {error!r}", None)
            pending.in_doubt = True
            pending.give_up("no answer")

    async def _carry(self, batch: list[PendingCommand]) -> None:
        """Send a batch until each of its commands is settled, given up, or put back to be sent with others."""
        backoff = self._view.config.backoff()
        while batch := [command for command in batch if not command.done.is_set()]:
            sent_ms = self._view.clock.now_ms()
            attempt = await self._attempt(batch)
            batch = self._judge(batch, attempt, sent_ms)
            if batch and not attempt.is_worth_repeating_at_once:
                await self._view.clock.sleep(backoff.next_ms())

    async def _attempt(self, batch: list[PendingCommand]) -> Attempt:
        """Send a batch once, without those that were given up by then: they leave it."""
        left_ms = max(command.end_ms for command in batch) - self._view.clock.now_ms()
        timeout_ms = max(1, min(left_ms, self._view.config.request_timeout_ms))

        def entries() -> tuple[SessionCommand, ...]:
            batch[:] = [command for command in batch if not command.done.is_set()]
            for command in batch:
                command.is_calling = True
            return tuple(command.entry() for command in batch)

        try:
            return await attempt_apply(self._view, entries, timeout_ms)
        finally:
            for command in batch:
                command.is_calling = False

    # --- judging ----------------------------------------------------------------------------------------------------

    def _judge(self, batch: list[PendingCommand], attempt: Attempt, sent_ms: int) -> list[PendingCommand]:
        """Settle what an attempt has settled. Returns what this task is to send again."""
        verdict = attempt.verdict
        if verdict.step is Step.SETTLE:
            return self._settle(batch, verdict, sent_ms)
        for command in batch:
            command.in_doubt |= verdict.may_be_applied
            command.on_trouble(verdict.reason, verdict.error)
            if attempt.no_such_group and not command.in_doubt:
                command.settle(UnknownGroupError(self._view.group.topic))
            elif verdict.step is Step.GIVE_UP:
                command.settle(lost(verdict.reason, verdict.error, in_doubt=command.in_doubt))
        if verdict.step is Step.SEPARATE:
            for command in batch:
                command.travels_alone = True
            self._waiting.put_back(batch)
            return []
        return batch

    def _settle(self, batch: list[PendingCommand], verdict: Verdict, sent_ms: int) -> list[PendingCommand]:
        again: list[PendingCommand] = []
        anew: list[PendingCommand] = []
        for command, outcome in zip(batch, verdict.outcomes, strict=True):
            if command.done.is_set():  # Given up meanwhile.
                continue
            session = command.session
            assert session is not None, verdict
            fate = fate_of(outcome, in_doubt=command.in_doubt)
            if fate is Again.LATER:
                command.on_trouble(f"refused for now: {outcome}", None)
                again.append(command)
            elif fate is Again.IN_NEW_SESSION:
                command.leave_session()
                command.on_trouble(f"its session had ended: {outcome}", None)
                anew.append(command)
                self._sessions.on_ended(session)
            else:
                self._sessions.on_heard(session, sent_ms)
                command.settle(fate)
        self._waiting.put_back(anew)
        return again

    def _on_no_session(self, verdict: Verdict, *, no_such_group: bool) -> None:
        """No session could be opened, for now or for good."""
        for command in self._waiting:
            command.on_trouble(f"no session was opened: {verdict.reason}", verdict.error)
            if no_such_group:
                command.settle(UnknownGroupError(self._view.group.topic))
            elif verdict.step is Step.GIVE_UP:
                command.give_up("it needs a session")
