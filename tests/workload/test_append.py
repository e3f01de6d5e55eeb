"""What processes record of what they did."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.faults.load import Load
from nemesis.history.reader import read_history
from nemesis.pipeline.local import pair_operations
from nemesis.workload.append import AppendWorkload
from nemesis.workload.workload import BEHIND_S_MAX, Pace, Setup
from tests.workload.fake_system import NAMES, FakeSystem
from tests.workload.recording import Recording

PATIENCE_S = 60.0


async def run_until(system: FakeSystem, recording: Recording, events: int, concurrency: int = 3) -> None:
    """Run the workload until so many events are recorded."""
    stop = asyncio.Event()
    workload = AppendWorkload(
        Setup(system=system, recorder=recording.recorder, concurrency=concurrency, random=Random(1))
    )
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(workload.run(rate=5000, stop=stop))
        while recording.writer.next_index < events:
            await asyncio.sleep(0.002)
        stop.set()


async def test_acknowledged_values_stand_where_the_history_says(tmp_path: Path) -> None:
    """Every append is unique, its ok names its place, and polls return what stands there."""
    system, recording = FakeSystem(), Recording(tmp_path)

    await run_until(system, recording, 300)

    rows = recording.client_rows()
    for name, log in system.logs.items():
        own = [row for row in rows if row["topic_partition"] == name]
        appended = {row["value"]: row["offset"] for row in own if (row["f"], row["type"]) == ("append", "ok")}
        read = {record["offset"]: record["value"] for row in own for record in row.get("records", ())}
        assert [appended[value] for value in log] == list(range(len(log)))
        assert read.items() <= dict(enumerate(log)).items()
        assert read
    assert all(client.is_closed for client in system.clients)


async def test_every_operation_has_its_end(tmp_path: Path) -> None:
    """A process does one thing at a time, and when the workload has ended nothing is left open."""
    recording = Recording(tmp_path)

    await run_until(FakeSystem(), recording, 300)

    recording.writer.flush()
    operations = pair_operations(read_history(tmp_path), "run").to_pylist()
    assert {operation["type"] for operation in operations} == {"ok"}
    assert all(operation["return_index"] is not None for operation in operations)


async def test_a_process_reads_on_from_where_it_came_to(tmp_path: Path) -> None:
    """In each log, a poll asks from behind what the one before it returned; only a process's first chooses."""
    recording = Recording(tmp_path)

    await run_until(FakeSystem(), recording, 400, concurrency=1)

    for name in NAMES:
        polls = [row for row in recording.client_rows() if (row["f"], row["topic_partition"]) == ("poll", name)]
        position = 0
        for asked, answered in zip(polls[::2], polls[1::2], strict=True):
            assert asked["offset"] == position
            assert asked["seek"] == (asked is polls[0])
            position += len(answered["records"])
        assert position > 0


async def test_an_unknown_outcome_ends_the_process(tmp_path: Path) -> None:
    """After info a process is never heard of again; another with its own client goes on from its position."""
    counted: Counter[str] = Counter()

    def outcome(f: str, value: int) -> None:
        counted[f] += 1
        if f == "append" and counted[f] % 20 == 0:
            raise UnknownOutcomeError("no answer")

    system, recording = FakeSystem(outcome), Recording(tmp_path)
    await run_until(system, recording, 400, concurrency=2)

    rows = recording.client_rows()
    ended = {row["process"]: row["index"] for row in rows if row["type"] == "info"}
    last = {row["process"]: row["index"] for row in rows}
    assert len(ended) >= 3
    assert all(last[process] == index for process, index in ended.items())
    assert len(system.clients) == 2 + len(ended)
    polls = [row for row in reversed(rows) if (row["f"], row["type"]) == ("poll", "invoke")]
    first_polls = {(row["process"], row["topic_partition"]): row for row in polls}
    assert all(row["seek"] for row in first_polls.values())
    assert any(row["offset"] > 0 for (process, _), row in first_polls.items() if process >= 2)


async def test_a_definite_failure_does_not(tmp_path: Path) -> None:
    """After fail the process goes on, its position unchanged, and its value is not in the log."""

    def outcome(f: str, value: int) -> None:
        if value % 2:
            raise NotDoneError("refused")

    system, recording = FakeSystem(outcome), Recording(tmp_path)
    await run_until(system, recording, 200, concurrency=2)

    rows = recording.client_rows()
    assert {row["process"] for row in rows} == {0, 1}
    failed = {row["value"] for row in rows if (row["f"], row["type"]) == ("append", "fail")}
    assert failed
    assert all(value % 2 for value in failed)
    assert not failed & {value for log in system.logs.values() for value in log}


@pytest.mark.slow
@pytest.mark.parametrize("acks", [1, 0, None])
async def test_an_append_that_asks_for_less_says_so(acks: int | None, tmp_path: Path) -> None:
    """What was asked for stands in the invocation of each append, and nowhere where it was all."""
    system, recording = FakeSystem(), Recording(tmp_path)
    stop = asyncio.Event()
    workload = AppendWorkload(
        Setup(system=system, recorder=recording.recorder, concurrency=1, random=Random(1), acks=acks)
    )
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(workload.run(rate=5000, stop=stop))
        while recording.writer.next_index < 50:
            await asyncio.sleep(0.002)
        stop.set()

    asked = [row for row in recording.client_rows() if (row["f"], row["type"]) == ("append", "invoke")]
    assert asked
    assert {row.get("acks") for row in asked} == {acks}


async def test_the_pace_is_kept_by_all_together() -> None:
    """Slots are spaced by the rate, whoever takes them."""
    loop, stop, pace = asyncio.get_running_loop(), asyncio.Event(), Pace(500)
    begin = loop.time()

    await asyncio.gather(*(pace.wait_turn(stop) for _ in range(50)))

    assert loop.time() - begin >= 49 / 500


async def test_a_burst_is_so_many_times_the_rate() -> None:
    """In a burst slots come so much closer, bursts multiply, and afterwards they are as far apart as before."""
    loop, stop, load = asyncio.get_running_loop(), asyncio.Event(), Load()
    pace = Pace(1000, load=load, begin_s=(begin := loop.time()))

    async def dues(turns: int) -> float:
        """How long after the beginning the last of so many slots was."""
        for _ in range(turns):
            await pace.wait_turn(stop)
        return loop.time() - begin

    load.raise_by(1, 1000)
    load.raise_by(2, 1000)
    in_burst = await dues(4000)
    load.lower(1)
    load.lower(2)
    assert load.factor == 1
    after = await dues(200)

    assert in_burst < 3, "at the usual rate the last of them is due after four seconds"
    assert after >= 199 / 1000


async def test_slots_that_nobody_took_are_given_up() -> None:
    """After an outage there is no flood: at most the slots of a short while are made up for."""
    loop, stop, rate = asyncio.get_running_loop(), asyncio.Event(), 200.0
    begin = loop.time()
    pace = Pace(rate, begin_s=begin - 60)
    turns = 0
    while loop.time() - begin < 0.1:
        await pace.wait_turn(stop)
        turns += 1

    assert turns <= (BEHIND_S_MAX + 0.2) * rate


async def test_a_burst_reaches_those_who_wait_already() -> None:
    """A line of processes whose turns were minutes away has them at once when the load is raised."""
    stop, load = asyncio.Event(), Load()
    pace = Pace(0.01, load=load)
    assert await pace.wait_turn(stop)
    line = asyncio.gather(*(pace.wait_turn(stop) for _ in range(10)))
    await asyncio.sleep(0)

    load.raise_by(1, 1_000_000)

    async with asyncio.timeout(PATIENCE_S):
        assert all(await line)


async def test_a_stop_wakes_whoever_waits() -> None:
    """Waiting for a slot ends at once when the workload ends, for all who stand in line."""
    stop, pace = asyncio.Event(), Pace(0.001)
    assert await pace.wait_turn(stop)
    waiting = asyncio.gather(*(pace.wait_turn(stop) for _ in range(10)))
    await asyncio.sleep(0)

    stop.set()

    async with asyncio.timeout(PATIENCE_S):
        assert not any(await waiting)


def test_a_rate_of_nothing_is_refused() -> None:
    """A rate must be above 0."""

    async def make() -> None:
        Pace(0)

    with pytest.raises(ValueError, match="more than 0"):
        asyncio.run(make())
