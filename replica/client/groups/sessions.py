"""A client's session with a group: opened when it is needed, kept alive while it is idle, ended with the client.

Owns the session that new commands are numbered in. A session whose opening got no answer may be open all the same; it
expires by itself, since nobody knows of it. One that the group has forgotten is replaced by a new one, for new commands
and those of which certainly no copy was applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from replica.client.groups.calls import Attempt, attempt_apply
from replica.client.groups.config import GroupConfig
from replica.client.groups.verdicts import Step, Verdict
from replica.client.groups.view import GroupView
from replica.machines import ClientSession, CloseSession, Done, Entry, OpenSession, Refused, SessionOpened


class OnTrouble(Protocol):
    """Who wants to hear that no session could be opened, for now; for good if it was refused."""

    def __call__(self, verdict: Verdict, *, no_such_group: bool) -> None:
        """Hear it."""


@dataclass(slots=True, kw_only=True)
class OpenedSession:
    """A session, and when what the group has last heard of it was sent."""

    numbers: ClientSession
    heard_ms: int


class Sessions:
    """The sessions of one client, one at a time. ``is_wanted`` tells whether anybody needs one."""

    def __init__(
        self,
        view: GroupView,
        config: GroupConfig,
        *,
        is_wanted: Callable[[], bool],
        on_open: Callable[[], None],
        on_trouble: OnTrouble,
    ) -> None:
        self._view = view
        self._config = config
        self._is_wanted = is_wanted
        self._on_open = on_open
        self._on_trouble = on_trouble
        self._current: OpenedSession | None = None
        self._opening: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def current(self) -> ClientSession | None:
        """The session for new commands."""
        return None if self._current is None else self._current.numbers

    def open_soon(self) -> None:
        """Begin to open one, unless that is under way."""
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())

    def on_heard(self, session: ClientSession, sent_ms: int) -> None:
        """The group has performed an entry of ``session``, which was sent then."""
        if self._current is not None and self._current.numbers is session:
            self._current.heard_ms = max(self._current.heard_ms, sent_ms)

    def on_ended(self, session: ClientSession) -> None:
        """The group knows ``session`` no more."""
        if self._current is not None and self._current.numbers is session:
            self._current = None

    async def close(self) -> None:
        """End the session. If nobody answers in time, it expires."""
        tasks = [task for task in (self._opening, self._keeping) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        session, self._current = self._current, None
        if session is None:
            return
        deadline = self._view.deadline(self._config.close_timeout_ms)
        backoff = self._view.config.backoff()
        while not deadline.is_over():
            closing = CloseSession(session_id=session.numbers.session_id)
            if (await self._attempt(closing, deadline.left_ms())).verdict.step is not Step.REPEAT:
                return
            await deadline.pause(backoff.next_ms())

    async def _open(self) -> None:
        """Try until a session is open, nobody wants one any longer, or it is refused."""
        backoff = self._view.config.backoff()
        while self._is_wanted():
            sent_ms = self._view.clock.now_ms()
            attempt = await self._attempt(OpenSession(ttl_ms=self._config.session_ttl_ms))
            verdict = attempt.verdict
            for outcome in verdict.outcomes:
                if isinstance(outcome, SessionOpened):
                    self._begin(ClientSession(outcome.session_id), sent_ms)
                    return
                verdict = Verdict(step=Step.GIVE_UP, may_be_applied=False, reason=_told(outcome))
            self._on_trouble(verdict, no_such_group=attempt.no_such_group)
            if not attempt.is_worth_repeating_at_once:
                await self._view.clock.sleep(backoff.next_ms())

    def _begin(self, session: ClientSession, sent_ms: int) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
        self._current = OpenedSession(numbers=session, heard_ms=sent_ms)
        self._keeping = asyncio.create_task(self._keep_alive(self._current))
        self._on_open()

    async def _keep_alive(self, session: OpenedSession) -> None:
        """Be heard of as long as this is the session, well before it expires."""
        backoff = self._view.config.backoff()
        while session is self._current:
            due_ms = session.heard_ms + self._config.keep_alive_interval_ms
            now_ms = self._view.clock.now_ms()
            if now_ms < due_ms:
                await self._view.clock.sleep(due_ms - now_ms)
                continue
            verdict = (await self._attempt(session.numbers.keep_alive())).verdict
            if verdict.outcomes == (Done(),):
                self.on_heard(session.numbers, now_ms)
                backoff = self._view.config.backoff()
            elif verdict.step is Step.SETTLE:
                self.on_ended(session.numbers)
            else:
                await self._view.clock.sleep(backoff.next_ms())

    async def _attempt(self, entry: Entry, timeout_ms: int | None = None) -> Attempt:
        timeout_ms = timeout_ms or self._view.config.request_timeout_ms
        return await attempt_apply(self._view, lambda: (entry,), timeout_ms)


def _told(outcome: object) -> str:
    return f"{outcome.refusal}: {outcome.message}" if isinstance(outcome, Refused) else f"answered with {outcome}"
