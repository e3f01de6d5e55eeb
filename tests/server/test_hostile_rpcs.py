"""A sample of what ``python -m benchmarks.hostile_rpcs`` does: random messages against a real cluster of three."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from benchmarks.extreme_messages import SHAPES, Knowledge, field_names, message
from benchmarks.hostile_rpcs import Plan, broken_promises, run
from benchmarks.learned import Learned
from replica.rpc.codec_bounds import MalformedMessageError
from tests.depth import times

FIRST = 2_000_000
RPCS = times(1000)
WITHOUT_KNOWLEDGE = {"replica_directory_id"}
"""Of these a forger must know nothing; flags and members of closed sets need no knowledge."""


@pytest.mark.long
@pytest.mark.cluster
async def test_random_messages_harm_nobody(tmp_path: Path) -> None:
    """Every RPC, every field at its extremes: no halt, no wrong answer, nothing honest is lost or there twice."""
    plan = Plan(first=FIRST, rpcs=RPCS, alone_s=1, after_s=1)
    figures = await run(plan, tmp_path)
    assert broken_promises(figures, in_time=False) == []
    assert figures["rpcs"] == RPCS
    assert figures["sent"].keys() == {name.rpartition("/")[2] for name in SHAPES}
    assert figures["acknowledged"] > 0


def test_the_same_number_is_the_same_message() -> None:
    """What was sent can be made again: by its number, the RPC and what was known."""
    known = Knowledge(values=Learned().values())
    for name in SHAPES:
        number = Random(name).randrange(1 << 30)
        assert message(number, name, known) == message(number, name, known)


@pytest.mark.parametrize("name", SHAPES)
def test_messages_pass_the_door_and_do_not(name: str) -> None:
    """Of each RPC many messages can be read, so that they reach the core, and many are malformed."""
    known = Knowledge(values=Learned().values())
    read = 0
    for number in range(300):
        try:
            SHAPES[name].decode(message(number, name, known))
        except MalformedMessageError:
            continue
        read += 1
    assert 30 < read < 300


def test_something_is_known_of_every_field() -> None:
    """A field that is new is drawn from what is real, too: whoever adds it says there what that is."""
    known = Learned().values().keys()
    switches = {"flushes", "high_watermark_may_wait", "latest", "pre_vote", "want_shut_down"}
    sets = {"operation", "pattern_type", "permission", "resource_type"}
    plain = switches | sets | {"consistency", "election_type", "leader_recovery_state"}
    assert set(field_names()) - known == plain | WITHOUT_KNOWLEDGE
