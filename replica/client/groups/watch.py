"""Watching keys: the same question again and again, each time from where the last answer ended.

Owns the order: an answer's events follow on those before, and the next question begins at ``next_revision``. So there
is no gap and no repetition, whoever answers: a replica that is behind answers with nothing new. Knows nothing of how a
question is put.

Source: etcd's ``clientv3`` watcher, which goes on from the last revision it was told.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from replica.ids import Offset
from replica.machines.key_value import KeyRange
from replica.machines.key_value.commands import Watch
from replica.machines.key_value.results import WatchResult

Poll = Callable[[Watch, Offset | None], Awaitable[tuple[WatchResult, Offset]]]
"""Put a question, once something at or beyond an offset is applied; returns the answer and up to where it is true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchConfig:
    """``poll_ms`` is how long one question waits for something to happen; ``timeout_ms`` how long none is answered
    before the watch ends with ReadFailedError; ``events_max`` about how many events one answer brings."""

    poll_ms: int = 5_000
    timeout_ms: int = 60_000
    events_max: int = 1_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")


async def watched(
    poll: Poll, keys: KeyRange, from_revision: int, config: WatchConfig
) -> AsyncGenerator[WatchResult, None]:
    """Yield answers that have events, in the order of revisions, for ever."""
    revision = from_revision
    after: Offset | None = None
    while True:
        request = Watch(keys=keys, from_revision=revision, limit=config.events_max)
        result, applied_offset = await poll(request, after)
        assert result.next_revision >= revision, (result.next_revision, revision)
        # What brought news may have more of it behind its limit: then the next question waits for nothing.
        after = applied_offset if result.next_revision == revision else None
        revision = result.next_revision
        if result.events:
            yield result
