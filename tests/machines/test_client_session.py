"""A client with many commands under way, and a log that repeats and reorders them: each is applied once."""

from __future__ import annotations

from random import Random

import pytest

from replica.machines import (
    Answered,
    AppliedLog,
    ClientSession,
    Entry,
    OpenSession,
    Outcome,
    Refusal,
    Refused,
    SessionId,
    SessionLimits,
    SessionOpened,
    encode_entry,
)
from replica.machines.counter import Counter
from tests.machines.folding import apply_one

WINDOW = 8
COMMANDS = 120


def test_numbers_count_up_and_the_lowest_that_waits_is_acknowledged() -> None:
    """What is settled out of order is acknowledged when all below is settled too."""
    client = ClientSession(SessionId(3))
    assert [client.begin(b"%d" % number) for number in range(4)] == [0, 1, 2, 3]
    seen = []
    for sequence in (1, 3, 0, 0):
        client.settle(sequence)
        seen.append((client.acknowledged, client.span))
    assert seen == [(0, 4), (0, 4), (2, 2), (2, 2)]
    assert (client.entry(2).sequence, client.entry(2).acknowledged, client.entry(2).command) == (2, 2, b"2")
    assert client.keep_alive().acknowledged == 2
    client.settle(2)
    assert (client.acknowledged, client.span) == (4, 0)


class _Network:
    """Entries that were sent: each is committed once, several times or never, and in any order."""

    def __init__(self, random: Random, log: AppliedLog) -> None:
        self._random = random
        self._log = log
        self._under_way: list[tuple[int, Entry]] = []

    def send(self, sequence: int, entry: Entry) -> None:
        """Lose an entry, or take it; some arrive twice."""
        self._under_way += [(sequence, entry)] * self._random.choice([0, 1, 1, 2])

    def commit(self) -> tuple[int, Outcome] | None:
        """Commit one of those that are under way; its answer may be lost."""
        if not self._under_way:
            return None
        sequence, entry = self._under_way.pop(self._random.randrange(len(self._under_way)))
        outcome = apply_one(self._log, encode_entry(entry))
        return (sequence, outcome) if self._random.randrange(3) else None


@pytest.mark.parametrize("seed", range(8))
def test_every_command_is_applied_once(seed: int) -> None:
    """A client that sends until it is answered has each command applied once: with every power of two, none is lost."""
    random = Random(seed)
    log = AppliedLog(Counter(), name="counter", limits=SessionLimits(window=WINDOW))
    opened = apply_one(log, encode_entry(OpenSession(ttl_ms=1_000)))
    assert isinstance(opened, SessionOpened)
    client, network = ClientSession(opened.session_id), _Network(random, log)
    sums: set[int] = set()
    begun = 0
    waiting: set[int] = set()
    while begun < COMMANDS or waiting:
        if begun < COMMANDS and client.span < WINDOW + 2 and random.randrange(2):
            waiting.add(client.begin(b"1"))
            begun += 1
        for sequence in sorted(waiting):
            if random.randrange(3) == 0:
                network.send(sequence, client.entry(sequence))
        match network.commit():
            case (sequence, Answered(reply=reply)) if sequence in waiting:
                sums.add(int(reply))
                waiting.discard(sequence)
                client.settle(sequence)
            case (sequence, Refused(refusal=refusal)):
                allowed = {Refusal.SEQUENCE_BEYOND_WINDOW} if sequence in waiting else {Refusal.SEQUENCE_FORGOTTEN}
                assert refusal in allowed
    assert sums == set(range(1, COMMANDS + 1))
    assert log.query(b"") == Answered(reply=b"%d" % COMMANDS)
