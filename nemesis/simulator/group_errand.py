"""One command on its way to a group, until its end is known or given up, and one question.

Owns the attempts, and what they prove: a command is certainly not applied only if no attempt can have been. Knows
nothing of what a command means, nor of how outcomes are recorded.

Source: Ongaro's thesis, section 6.3: a client of a session sends a command again, and it counts once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from nemesis.history import EventType
from nemesis.simulator.asking import Caller
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Offset, TopicPartition
from replica.machines import (
    Answered,
    Done,
    Entry,
    Outcome,
    Refused,
    SessionOpened,
    decode_outcome,
    definitely_not_applied,
    encode_entry,
)

WAIT_MS = 1_500
RETRY_MS = (20, 300)
ATTEMPTS_MAX = 12
"""After so many in vain a client gives a command up."""


class Office(Protocol):
    """What an errand needs of the clients that it is run for."""

    world: World
    dice: Random
    is_stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command or a question ended. ``outcome`` is the machine's, absent where there was no answer.

    ``applied_offset`` is that of the state that answered a question.
    """

    kind: EventType
    outcome: Outcome | None = None
    error: str | None = None
    applied_offset: Offset | None = None


class Errand:
    """One command. With ``tries_again`` the entry is one that counts once, and is sent until something is known.

    What is ``ahead`` of it in the same batch, nobody waits for.
    """

    def __init__(
        self,
        office: Office,
        caller: Caller,
        log: TopicPartition,
        entry: Entry,
        then: Callable[[Ended], None],
        *,
        tries_again: bool,
        ahead: tuple[Entry, ...] = (),
    ) -> None:
        self._office = office
        self._caller = caller
        entries = tuple(map(encode_entry, (*ahead, entry)))
        self._request = m.ApplyRequest(topic_partition=log, entries=entries, timeout_ms=WAIT_MS)
        self._then = then
        self._attempts = ATTEMPTS_MAX if tries_again else 1
        self._may_stand = False
        """Whether an attempt has ended without an answer that excludes that it was appended."""

    def send(self) -> None:
        """Send it, again."""
        self._attempts -= 1
        self._caller.ask(self._request, self._on_reply, self._on_silence)

    def _on_silence(self) -> None:
        self._caller.turn()
        self._may_stand = True
        self._failed("no answer in time")

    def _on_reply(self, response: m.Response | None) -> None:
        assert isinstance(response, m.ApplyResponse | None), response
        if response is None:
            self._caller.turn()
            self._failed("nobody listens")
        elif response.error is ErrorCode.NONE:
            self._on_outcome(decode_outcome(response.outcomes[-1]))
        else:
            self._caller.follow(response.current_leader)
            self._may_stand |= not response.not_appended
            self._failed(response.error)

    def _on_outcome(self, outcome: Outcome) -> None:
        match outcome:
            case Answered() | SessionOpened() | Done():
                self._then(Ended(kind=EventType.OK, outcome=outcome))
            case Refused(refusal=refusal):
                is_certain = definitely_not_applied(refusal, sent_once=not self._may_stand)
                kind = EventType.FAIL if is_certain else EventType.INFO
                self._then(Ended(kind=kind, outcome=outcome, error=refusal))

    def _failed(self, error: str) -> None:
        """Go on trying what may stand; what certainly does not is given up at once."""
        if not self._may_stand:
            self._then(Ended(kind=EventType.FAIL, error=error))
        elif self._attempts and not self._office.is_stopped:
            self._office.world.queue.after(self._office.dice.randint(*RETRY_MS) * US_PER_MS, self.send)
        else:
            self._then(Ended(kind=EventType.INFO, error=error))


def ask(
    caller: Caller,
    log: TopicPartition,
    question: bytes,
    then: Callable[[Ended], None],
    *,
    consistency: m.Consistency = m.Consistency.LINEARIZABLE,
    after_offset: Offset | None = None,
) -> None:
    """Put a question once, and tell ``then`` the answer; a question changes nothing, so it is never of unknown end.

    Of those that wait for nothing new, every second one travels with a copy of itself.
    """
    copies = 1 if after_offset is not None else 1 + len(question) % 2
    request = m.QueryRequest(
        topic_partition=log,
        requests=(question,) * copies,
        consistency=consistency,
        timeout_ms=WAIT_MS,
        after_offset=after_offset,
    )

    def on_reply(response: m.Response | None) -> None:
        assert isinstance(response, m.QueryResponse | None), response
        if response is None:
            caller.turn()
            then(Ended(kind=EventType.FAIL, error="nobody listens"))
        elif response.error is not ErrorCode.NONE:
            caller.follow(response.current_leader)
            then(Ended(kind=EventType.FAIL, error=response.error))
        else:
            outcome = decode_outcome(response.outcomes[0])
            then(Ended(kind=EventType.OK, outcome=outcome, applied_offset=response.applied_offset))

    def on_silence() -> None:
        caller.turn()
        then(Ended(kind=EventType.FAIL, error="no answer in time"))

    caller.ask(request, on_reply, on_silence)


def reply_of(ended: Ended) -> bytes:
    """What the machine has said; a machine that does not understand its clients convicts."""
    if not isinstance(ended.outcome, Answered):
        raise BrokenInvariantError("not-understood", f"a machine refused what it must know: {ended.outcome}")
    return ended.outcome.reply
