"""Moves of partitions: what is done to a system, what is recorded of it, and that each has its replicas in the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.faults.look import CHANGED
from nemesis.faults.moves import ALL_PLACED, Course, Moves, Reassign, drawn_target
from nemesis.history import MOVED
from nemesis.history.reader import read_replica_events
from nemesis.report.timeline import BEGINS, ENDS, look_of
from nemesis.schedules.injector import Injector
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step
from tests.faults.stage import Stage
from tests.workload.fake_moves import FakeMoves, MovingSystem
from tests.workload.fake_system import NAMES, FakeSystem

ONE = NAMES[0]
MOVE = Reassign(course=Course.MOVE)
DRAWS = range(20)


class MovingStage(Stage):
    """A fake system whose partitions can be moved, with an injector, and what is recorded."""

    def __init__(self, folder: Path, moves: FakeMoves | None = None, *, size: int = 5) -> None:
        self.moves = moves or FakeMoves((ONE,))
        super().__init__(folder, MovingSystem(self.moves, size))

    async def end(self) -> None:
        """Heal all, within the time."""
        async with asyncio.timeout(30):
            await self.injector.heal_all()

    def outcomes(self) -> list[tuple[str, str, str]]:
        """The single steps that ended: (f, type, outcome)."""
        rows = [(f, kind, json.loads(detail or "{}")) for f, kind, detail in self.recording.nemesis_rows()]
        return [(f, kind, told["outcome"]) for f, kind, told in rows if "outcome" in told]

    def errors(self) -> str:
        """What could not be done, and why."""
        return "; ".join(row["error"] for row in self.recording.rows() if "error" in row)

    def moved(self) -> int:
        """How many partitions were seen to come to their target."""
        self.recording.writer.flush()
        return int(pc.sum(pc.equal(read_replica_events(self.recording.folder).column("event"), MOVED)).as_py() or 0)


@pytest.fixture
def stage(tmp_path: Path) -> MovingStage:
    """In the place of the usual one."""
    return MovingStage(tmp_path)


def inject(fault: Reassign = MOVE, draw: int = 0) -> Inject:
    return Inject(fault_id=0, fault=fault, draw=draw)


async def test_a_partition_moves_to_others(stage: MovingStage) -> None:
    """It comes to as many replicas as it had, which is told, counted, and left so by the healing."""
    before = stage.moves.at[ONE]

    await stage.do_each(inject())
    assert stage.injector.open_faults == (f"reassign-move {list(before)}",)
    await stage.do_each(Heal(fault_id=0))
    await stage.end()

    after = stage.moves.at[ONE]
    assert after != before
    assert len(set(after)) == 3
    assert stage.moves.calls == [("begin", ONE, after)]
    assert stage.outcomes() == [("move-replicas", "info", "done")]
    assert stage.kinds("arrive") == stage.kinds("restore-replicas") == ["invoke", "info"]
    assert stage.moved() == 1


async def test_targets_are_the_dice_of_the_step(tmp_path: Path) -> None:
    """The same step asks for the same, and others for something else."""
    asked = []
    for number, draw in enumerate((*DRAWS, *DRAWS)):
        stage = MovingStage(tmp_path / str(number), FakeMoves())
        await stage.do_each(inject(Reassign(course=Course.REDIRECT, partitions=2, more=1), draw))
        await stage.injector.abandon()
        asked.append(tuple(sorted(stage.moves.calls)))

    assert asked[: len(DRAWS)] == asked[len(DRAWS) :]
    assert len(set(asked)) > len(DRAWS) // 2


@pytest.mark.parametrize("course", [Course.REDIRECT, Course.CANCEL])
async def test_a_move_is_changed_while_it_is_under_way(stage: MovingStage, course: Course) -> None:
    """Another target takes its place, or it is taken back and the partition stays where it was."""
    stage.moves.at_once = False

    await stage.do_each(inject(Reassign(course=course)))
    async with asyncio.timeout(10):
        while len(stage.outcomes()) < 2:
            await asyncio.sleep(0.01)

    (_, _, first), (what, _, second) = stage.moves.calls
    if course is Course.CANCEL:
        assert (what, stage.moves.moving) == ("cancel", {})
        assert stage.outcomes()[1] == ("cancel-move", "info", "done")
    else:
        assert stage.moves.moving == {ONE: second}
        assert second != first
        stage.moves.come(ONE)
    await stage.end()
    assert stage.moves.at[ONE] == ((1, 2, 3) if course is Course.CANCEL else second)
    assert stage.moved() == (0 if course is Course.CANCEL else 1)


@pytest.mark.parametrize("size", [3, 5])
async def test_another_replica_is_preferred_and_elected(tmp_path: Path, size: int) -> None:
    """Nobody comes or goes, and whoever is preferred now is to lead."""
    stage = MovingStage(tmp_path, size=size)

    await stage.do_each(inject(Reassign(course=Course.REORDER)))
    await stage.end()

    assert sorted(stage.moves.at[ONE]) == [1, 2, 3]
    assert stage.moves.at[ONE] != (1, 2, 3)
    assert [what for what, *_ in stage.moves.calls] == ["begin", "elect"]


async def test_the_leader_goes(tmp_path: Path) -> None:
    """Where there are others enough it has the partition no more; where there are not, it is preferred last."""
    for draw in DRAWS:
        many, few = MovingStage(tmp_path / f"many-{draw}"), MovingStage(tmp_path / f"few-{draw}", size=3)
        for stage in (many, few):
            await stage.do_each(inject(Reassign(course=Course.MOVE, leader_goes=True), draw))
            await stage.injector.abandon()
        assert 1 not in many.moves.at[ONE]
        assert few.moves.at[ONE][-1] == 1


@pytest.mark.parametrize("is_known", [True, False])
async def test_what_is_not_done_is_told(stage: MovingStage, is_known: bool) -> None:
    """A refusal is no move; of a move without an answer nobody says that it is none, and it is told when it is seen."""

    def fail(what: str, log: str) -> None:
        raise NotDoneError("no") if is_known else UnknownOutcomeError("silence")

    stage.moves.outcome, stage.moves.late = (fail, stage.moves.late) if is_known else (stage.moves.outcome, fail)
    await stage.do_each(inject())
    await stage.end()

    kind, outcome = ("fail", "refused") if is_known else ("info", "unknown")
    assert stage.outcomes() == [("move-replicas", kind, outcome)]
    assert stage.moved() == (0 if is_known else 1)


async def test_a_move_under_way_has_not_arrived(tmp_path: Path) -> None:
    """Where nobody goes, all of the target are replicas at once: it has arrived when the controller says it is over."""
    for draw in DRAWS:
        stage = MovingStage(tmp_path / str(draw), FakeMoves())
        stage.moves.at_once = False
        await stage.do_each(inject(Reassign(course=Course.MOVE, partitions=2, more=1), draw))
        if stage.moves.at[ONE] == stage.moves.moving[ONE]:
            break
        await stage.injector.abandon()
    else:
        raise AssertionError("every target lets somebody go")
    stage.moves.come(NAMES[1])
    async with asyncio.timeout(10):
        while not stage.moved():
            await asyncio.sleep(0.01)
    assert stage.moved() == 1
    stage.moves.come(ONE)
    stage.moves.at_once = True
    await stage.end()

    assert stage.moved() >= 2


@pytest.mark.parametrize("more", [1, -1])
async def test_each_partition_has_as_many_replicas_as_before(stage: MovingStage, more: int) -> None:
    """One replica more or less is taken back by the healing, with others where they are."""
    await stage.do_each(inject(Reassign(course=Course.MOVE, more=more)))
    assert len(stage.moves.at[ONE]) == 3 + more
    between = set(stage.moves.at[ONE])
    await stage.do_each(Heal(fault_id=0))
    await stage.end()

    assert len(stage.moves.at[ONE]) == 3
    assert between <= set(stage.moves.at[ONE]) or set(stage.moves.at[ONE]) <= between


async def test_what_is_under_way_is_cancelled_or_let_come(tmp_path: Path) -> None:
    """The dice of the step say which; the run ends when nothing moves."""
    ends = set()
    for draw in DRAWS:
        stage = MovingStage(tmp_path / str(draw))
        stage.moves.at_once = False
        await stage.do_each(inject(draw=draw), Heal(fault_id=0))
        async with asyncio.timeout(10):
            while stage.kinds("restore-replicas") != ["invoke", "info"]:
                await asyncio.sleep(0.01)
        ends.add(stage.outcomes()[-1][0])
        if ONE in stage.moves.moving:
            asyncio.get_running_loop().call_soon(stage.moves.come, ONE)
        await stage.end()
        assert stage.recording.harness_rows()[-1][:2] == (ALL_PLACED, "info")

    assert ends == {"cancel-move", "move-replicas"}


@pytest.mark.parametrize("what", ["stuck", "too few", "silent"])
async def test_what_is_not_in_its_place_is_what_the_harness_could_not_do(stage: MovingStage, what: str) -> None:
    """A move that never ends, a replica that nobody adds, and a controller that is silent keep a run from validity."""
    family = next(one for one in stage.injector._families if isinstance(one, Moves))
    await stage.do_each(inject(), Heal(fault_id=0))
    match what:
        case "stuck":
            stage.moves.moving[ONE] = (4, 5, 1)
        case "too few":
            stage.moves.at[ONE] = (1, 2)
            stage.moves.at_once = False
        case _:
            stage.moves.is_silent = True
    await family.place_all(at_most_s=0.5)

    assert stage.recording.harness_rows()[-1][:2] == (ALL_PLACED, "fail")
    assert {"stuck": "still moving", "too few": ONE, "silent": "nobody says"}[what] in stage.errors()


async def test_a_change_that_is_never_answered_is_over_when_the_harness_goes_on(tmp_path: Path) -> None:
    """Whoever waits for it has given up, and has tidied up after itself, before anything else is done."""
    over = asyncio.Event()

    class Unanswered(FakeMoves):
        async def begin(self, log: str, replicas: Sequence[int]) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)
                over.set()

    stage = MovingStage(tmp_path, Unanswered((ONE,)))
    family = next(one for one in stage.injector._families if isinstance(one, Moves))
    await stage.do_each(inject(), Heal(fault_id=0))
    await family.place_all(at_most_s=0.0)

    assert over.is_set()
    assert stage.recording.harness_rows()[-1][:2] == (ALL_PLACED, "info")


async def test_where_nothing_can_move_that_is_told(tmp_path: Path) -> None:
    """A system without topics, and one that moves nothing, are not struck, and the history says why."""
    without = MovingStage(tmp_path, FakeMoves(()))
    await without.do_each(inject())
    plain = Injector(FakeSystem(), without.recording.recorder)
    await plain.run(Schedule(name="x", time_limit_s=1, steps=(Step(at_s=0, action=inject()),)), begin_s=0)

    assert without.kinds("reassign-move") == ["invoke", "fail"] * 2
    assert "no topics" in without.errors()
    assert "no moves" in without.errors()


async def test_one_replica_has_no_other_order(tmp_path: Path) -> None:
    """That is not tried, and told so; its partition can be elsewhere all the same."""
    stage = MovingStage(tmp_path, FakeMoves((ONE,), 1))

    await stage.do_each(inject(Reassign(course=Course.REORDER)))
    assert stage.outcomes() == [("move-replicas", "fail", "not-tried")]
    await stage.do_each(Inject(fault_id=1, fault=MOVE))
    await stage.end()

    assert stage.moves.at[ONE] != (1,)


@given(data=st.data(), seed=st.integers())
def test_a_target_is_another_placement(data: Any, seed: int) -> None:
    """It has the size that is asked for, no node twice, is not what was, and has not who goes if it need not."""
    nodes = range(1, data.draw(st.integers(2, 6)) + 1)
    size = data.draw(st.integers(1, len(nodes)))
    was = data.draw(st.permutations(nodes))[: data.draw(st.integers(1, len(nodes)))]
    goes = data.draw(st.one_of(st.none(), st.sampled_from(nodes)))

    target = drawn_target(Random(seed), nodes, was, size=size, goes=goes)

    assert target is not None
    assert len(target) == len(set(target)) == size
    assert set(target) <= set(nodes)
    assert target != tuple(was)
    if len(nodes) > size > 1:
        assert goes not in target


@pytest.mark.parametrize("course", Course)
def test_the_report_knows_a_move_by_its_name(course: Course) -> None:
    """Beginning and healing are drawn as one interval of their own kind."""
    fault = Reassign(course=course)

    assert look_of(fault.name, BEGINS) is look_of(fault.healing, ENDS) is CHANGED
