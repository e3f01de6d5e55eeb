"""A run that is told to end ends, also where a client's library loses the word."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from nemesis.cli.exit import Exit, exit_code_of
from nemesis.cluster.system import Appended, Polled, ReplicaState
from nemesis.errors import NodeFailedError, UnsupportedError
from nemesis.history.recorder import Clock
from nemesis.history.writer import HistoryWriter
from nemesis.runner import OpenRun, RunOptions
from nemesis.schedules.schedule import Schedule
from nemesis.workload.ending import ReportWriter
from tests.workload.fake_system import FakeClient, FakeSystem

PATIENCE_S = 60.0


async def _deaf() -> None:
    """A pause in which a cancellation is lost, as in a command that has just been sent."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0.01)


class DeafClient(FakeClient):
    async def append(self, topic_partition: str, value: int) -> Appended:
        await _deaf()
        return await super().append(topic_partition, value)

    async def poll(self, topic_partition: str, offset: int) -> Polled:
        await _deaf()
        return await super().poll(topic_partition, offset)


class DeafSystem(FakeSystem):
    def client(self) -> DeafClient:
        return DeafClient(self)

    async def replica_states(self) -> tuple[ReplicaState, ...]:
        await _deaf()
        return await super().replica_states()


class BrokenSystem(FakeSystem):
    """Whoever wants to be its client has the next of these errors."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    def client(self) -> FakeClient:
        raise self.errors.pop(0)


@pytest.mark.parametrize(
    ("errors", "code", "said"),
    [
        ([UnsupportedError("no client library"), UnsupportedError("none")], Exit.UNSUPPORTED, "no client library"),
        ([NodeFailedError("node 2 is gone"), NodeFailedError("node 3 too")], Exit.INTERNAL_ERROR, "node 2 is gone"),
        ([UnsupportedError("no client library"), KeyError("a flaw")], Exit.INTERNAL_ERROR, "a flaw"),
    ],
    ids=["refused", "a node failed", "a flaw beside a refusal"],
)
def test_what_ends_a_client_is_what_the_run_ends_with(
    errors: list[Exception], code: Exit, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of a client is told by its kind, though others had theirs beside it: no refusal is called a fault."""
    with HistoryWriter(tmp_path) as writer:
        clock = Clock()
        options = RunOptions(seed=1, concurrency=2, rate=1000.0)
        schedule = Schedule(name="test", time_limit_s=1000.0, steps=())
        run = OpenRun(
            BrokenSystem(*errors), writer, clock, ReportWriter(writer, clock), options, schedule, lambda _: None
        )
        assert exit_code_of(lambda: asyncio.run(run.record())) == code
    assert said in capsys.readouterr().err


async def test_a_run_ends_when_cancellations_are_lost(tmp_path: Path) -> None:
    """Clients that go on after a cancellation, and whoever samples, end with what they are at."""
    system, options = DeafSystem(), RunOptions(seed=1, concurrency=4, rate=1000.0)
    schedule = Schedule(name="test", time_limit_s=1000.0, steps=())
    with HistoryWriter(tmp_path) as writer:
        clock = Clock()
        run = OpenRun(system, writer, clock, ReportWriter(writer, clock), options, schedule, lambda _: None)
        recording = asyncio.create_task(run.record())
        async with asyncio.timeout(PATIENCE_S):
            while not any(system.logs.values()):
                await asyncio.sleep(0)
        recording.cancel()
        _, still_there = await asyncio.wait([recording], timeout=PATIENCE_S)
        assert not still_there
        with pytest.raises(asyncio.CancelledError):
            await recording
