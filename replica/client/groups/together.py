"""Questions that travel together: those that wait for the same replica go in one request.

Owns when requests go out. A question is sent at once; those that come while as many requests are on their way as may be
go together in the next one. Each is still asked once by one call of ``ask``: whether again, and of whom, its asker
decides. Knows nothing of what is asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from replica.client.asking import Failed
from replica.client.connections import Endpoint
from replica.client.groups.config import GroupConfig
from replica.client.groups.view import GroupView
from replica.core.messages import Consistency, QueryRequest, QueryResponse
from replica.errors import ErrorCode


class _Kind(NamedTuple):
    """Questions of one kind may travel together."""

    endpoint: Endpoint
    consistency: Consistency


@dataclass(slots=True, eq=False)
class _Asked:
    """A question that somebody waits for, until ``end_ms``."""

    question: bytes
    end_ms: int
    travels_alone: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)
    answer: QueryResponse | Failed = field(default_factory=lambda: Failed(reason="no answer in time"))

    def settle(self, answer: QueryResponse | Failed) -> None:
        """Hand over what has come of it."""
        self.answer = answer
        self.done.set()


class QuestionSender:
    """The questions of one client that wait for nothing new. Close it."""

    def __init__(self, view: GroupView, config: GroupConfig) -> None:
        self._view = view
        self._config = config
        self._waiting: dict[_Kind, deque[_Asked]] = {}
        self._carrying: dict[_Kind, set[asyncio.Task[None]]] = {}

    async def ask(
        self, endpoint: Endpoint, question: bytes, consistency: Consistency, timeout_ms: int
    ) -> QueryResponse | Failed:
        """Put a question to a replica, once; its one outcome is the answer's only one."""
        kind = _Kind(endpoint, consistency)
        asked = _Asked(question, self._view.clock.now_ms() + timeout_ms)
        self._waiting.setdefault(kind, deque()).append(asked)
        asyncio.get_running_loop().call_soon(self._send, kind)
        try:
            await self._view.clock.wait(asked.done, timeout_ms)
        finally:
            asked.done.set()  # Nobody waits for it any more.
        return asked.answer

    async def close(self) -> None:
        """Give up what is on its way."""
        self._waiting.clear()
        tasks = [task for carrying in self._carrying.values() for task in carrying]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _send(self, kind: _Kind) -> None:
        """Send what waits, as far as there may be more requests."""
        carrying = self._carrying.setdefault(kind, set())
        while len(carrying) < self._config.requests_in_flight_max and (batch := self._take(kind)):
            task = asyncio.create_task(self._carry(kind, batch))
            carrying.add(task)
            task.add_done_callback(lambda done: self._on_carried(kind, done))

    def _take(self, kind: _Kind) -> list[_Asked]:
        """Take the first that wait, as many as may travel together."""
        waiting, batch, size_bytes = self._waiting.get(kind, deque()), list[_Asked](), 0
        while waiting and len(batch) < self._config.batch_entries_max:
            first = waiting[0]
            size_bytes += len(first.question)
            if batch and (first.travels_alone or batch[0].travels_alone or size_bytes > self._config.batch_bytes_max):
                break
            waiting.popleft()
            if not first.done.is_set():
                batch.append(first)
        return batch

    def _on_carried(self, kind: _Kind, task: asyncio.Task[None]) -> None:
        self._carrying[kind].discard(task)
        self._send(kind)
        if not self._carrying[kind]:  # An endpoint may never be asked again.
            del self._carrying[kind]
            self._waiting.pop(kind, None)

    async def _carry(self, kind: _Kind, batch: list[_Asked]) -> None:
        """Send a batch, and hand each of them its part of the answer."""
        timeout_ms = max(1, max(asked.end_ms for asked in batch) - self._view.clock.now_ms())
        request = QueryRequest(
            topic_partition=self._view.group,
            requests=tuple(asked.question for asked in batch),
            consistency=kind.consistency,
            timeout_ms=timeout_ms,
            cluster_id=self._view.config.cluster_id,
        )
        answer = await self._view.ask(kind.endpoint, request, QueryResponse, timeout_ms)
        if isinstance(answer, QueryResponse) and answer.error is ErrorCode.MESSAGE_TOO_LARGE and len(batch) > 1:
            for asked in batch:
                asked.travels_alone = True
            self._waiting.setdefault(kind, deque()).extendleft(reversed(batch))
            return
        parts: list[QueryResponse | Failed] = [answer] * len(batch)
        if isinstance(answer, QueryResponse) and answer.error is ErrorCode.NONE:
            if len(answer.outcomes) == len(batch):
                parts = [replace(answer, outcomes=(outcome,)) for outcome in answer.outcomes]
            else:
                told = f"{kind.endpoint} gave {len(answer.outcomes)} answers to {len(batch)} questions"
                parts = [Failed(reason=told)] * len(batch)
        for asked, part in zip(batch, parts, strict=True):
            asked.settle(part)
