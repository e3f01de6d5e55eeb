"""Sends random messages to a running cluster, to the listeners for clients and for replicas, and counts the answers.

Owns the connections and what is a wrong answer: a status that only a mistake in the server gives, an answer that
nobody can read, UNKNOWN_SERVER_ERROR. A refusal by name, whatever its name, is right, and so is no answer in time to
what asked to wait. Runs as a process of its own, so that the honest writer need not share an event loop with it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc
import grpc.aio

from benchmarks.extreme_messages import SHAPES, Knowledge, message
from benchmarks.learned import Learned
from replica.core.messages import ProduceResponses
from replica.errors import ErrorCode
from replica.rpc.channels import channel_options
from replica.rpc.codec import METHODS, MalformedMessageError

AT_ONCE = 32
PATIENCE_S = 0.5
"""How long an answer is waited for; many a message asks for one in weeks."""
LOOK_S = 2.0
"""How often it looks at what is real in the cluster."""
EXAMPLES_MAX = 20

RIGHT_STATUSES = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }
)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What came of the messages: how many of each RPC, how many without an error, which answers, what was wrong."""

    sent: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    carried_out: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    wrong_count: int = 0
    seconds: float = 0.0
    longest_delay_ms: int = 0

    def figures(self) -> dict[str, Any]:
        """All of it, as JSON takes it."""
        return {
            "sent": dict(sorted(self.sent.items())),
            "carried_out": dict(sorted(self.carried_out.items())),
            "answers": dict(sorted(self.answers.items())),
            "wrong": self.wrong,
            "wrong_count": self.wrong_count,
            "seconds": round(self.seconds, 1),
            "longest_delay_of_sender_ms": self.longest_delay_ms,
        }

    def on_wrong(self, what: str) -> None:
        """Count it, and keep the first ones."""
        self.wrong_count += 1
        if len(self.wrong) < EXAMPLES_MAX:
            self.wrong.append(what)


class Sender:
    """Sends ``count`` messages from number ``first`` on, ``AT_ONCE`` of them at once."""

    def __init__(self, addresses: Sequence[str], known: Knowledge, *, first: int, rpcs: int) -> None:
        options = [*channel_options(), ("grpc.max_send_message_length", -1)]
        self._channels = [grpc.aio.insecure_channel(address, options=options) for address in addresses]
        self._addresses = addresses
        self._numbers = iter(range(first, first + rpcs))
        self._names = sorted(SHAPES)
        self._known = known
        self.tally = Tally()

    async def run(self) -> Tally:
        """Send all; returns what came of it."""
        await self._look()
        began = time.monotonic()
        looking, watching = asyncio.create_task(self._keep_looking()), asyncio.create_task(self._watch())
        await asyncio.gather(*[self._send_on() for _ in range(AT_ONCE)])
        self.tally.seconds = time.monotonic() - began
        looking.cancel()
        watching.cancel()
        for channel in self._channels:
            await channel.close()
        return self.tally

    async def _send_on(self) -> None:
        for number in self._numbers:
            random = Random(-number)
            name, to = random.choice(self._names), random.randrange(len(self._channels))
            encoded = message(number, name, self._known)
            self.tally.sent[name.rpartition("/")[2]] += 1
            try:
                answer = await self._call(self._channels[to], name, encoded)
            except grpc.aio.AioRpcError as error:
                answer = error.code().name
                if error.code() not in RIGHT_STATUSES:
                    self.tally.on_wrong(f"{number} {name} to {self._addresses[to]}: {answer}: {error.details()}")
            except MalformedMessageError as error:
                answer = "unreadable"
                self.tally.on_wrong(f"{number} {name} to {self._addresses[to]}: {error}")
            if answer == ErrorCode.UNKNOWN_SERVER_ERROR:
                self.tally.on_wrong(f"{number} {name} to {self._addresses[to]}: {answer}")
            self.tally.answers[answer] += 1
            self.tally.carried_out[name.rpartition("/")[2]] += answer == ErrorCode.NONE

    async def _call(self, channel: grpc.aio.Channel, name: str, encoded: bytes) -> str:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(name)
        answer = METHODS[name].response.decode(await call(encoded, timeout=PATIENCE_S))
        answers = answer.responses if isinstance(answer, ProduceResponses) else (answer,)
        errors = [each.error for each in answers]
        for telling in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE):
            if telling in errors:
                return telling.value
        return errors[0].value if errors else "nothing was asked"

    async def _watch(self) -> None:
        """How late this process is itself: what holds up all processes of the machine is seen here, too."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.02)
            late_ms = round((time.monotonic() - began - 0.02) * 1000)
            self.tally.longest_delay_ms = max(self.tally.longest_delay_ms, late_ms)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._look()

    async def _look(self) -> None:
        """Learn what is real now: whoever knows it may put it where it does not belong."""
        learned = Learned()
        for channel in self._channels:
            with suppress(grpc.aio.AioRpcError):
                await learned.look(channel)
        self._known.values, self._known.together = learned.values(), learned.together


async def _main(first: int, rpcs: int, spared: str, secrets: str, addresses: Sequence[str]) -> None:
    known = Knowledge(spared=spared.split(","), secrets=secrets == "secrets")
    tally = await Sender(addresses, known, first=first, rpcs=rpcs).run()
    sys.stdout.write(json.dumps(tally.figures()))


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]))
