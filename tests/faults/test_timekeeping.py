"""What faults of clocks and bursts of load do to a system, and how they are undone."""

from __future__ import annotations

import asyncio

import pytest

from nemesis.faults.bursts import Burst
from nemesis.faults.dials import Dials
from nemesis.faults.targets import Role
from nemesis.faults.timekeeping import ClockFault, DriftClock, JumpClock, JumpWallClock, StopClock, StrobeWallClock
from nemesis.schedules.schedule import Heal, Inject
from tests.faults.stage import Stage

PATIENCE_S = 10.0


@pytest.mark.parametrize(
    ("fault", "during", "after"),
    [
        (JumpClock(target=Role.LEADER, by_ms=9), Dials(leaps_ms=9), Dials(leaps_ms=9)),
        (StopClock(target=Role.LEADER), Dials(percent=0), Dials()),
        (DriftClock(target=Role.LEADER, percent=250), Dials(percent=250), Dials()),
        (JumpWallClock(target=Role.LEADER, by_ms=-7), Dials(wall_ms=-7), Dials()),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
async def test_a_clock_is_set_and_set_back(stage: Stage, fault: ClockFault, during: Dials, after: Dials) -> None:
    """The clocks of those whom it hits are set, nobody else's, and the healing sets them back; a leap stays."""
    await stage.do(Inject(fault_id=0, fault=fault), Heal(fault_id=0))

    assert stage.system.dials == {1: [during, after]}
    told = [(f, kind) for f, kind, _ in stage.recording.nemesis_rows()]
    settled = f"settle-{fault.kind}"
    assert told == [(fault.kind, "invoke"), (fault.kind, "info"), (settled, "invoke"), (settled, "info")]


async def test_faults_of_one_clock_add_up(stage: Stage) -> None:
    """Rates multiply, leaps and jumps add up, and each healing takes its own part away."""
    faults: tuple[ClockFault, ...] = (
        JumpClock(target=Role.LEADER, by_ms=10),
        DriftClock(target=Role.ALL, percent=200),
        DriftClock(target=Role.LEADER, percent=50),
        JumpWallClock(target=Role.LEADER, by_ms=100),
        JumpWallClock(target=Role.LEADER, by_ms=-30),
        JumpClock(target=Role.LEADER, by_ms=5),
    )

    await stage.do(*(Inject(fault_id=number, fault=fault) for number, fault in enumerate(faults)))
    assert stage.system.dials[1][-1] == Dials(percent=100, leaps_ms=15, wall_ms=70)
    assert stage.system.dials[2][-1] == Dials(percent=200)
    await stage.do(Heal(fault_id=2), Heal(fault_id=3))
    assert stage.system.dials[1][-1] == Dials(percent=200, leaps_ms=15, wall_ms=-30)
    await stage.injector.heal_all()

    assert [stage.system.dials[node][-1] for node in (1, 2, 3)] == [Dials(leaps_ms=15), Dials(), Dials()]


async def test_a_wall_clock_strobes_until_it_is_healed(stage: Stage) -> None:
    """It goes to and fro all the time, and the healing leaves it at the true time, for good."""
    fault = StrobeWallClock(target=Role.LEADER, by_ms=60, period_ms=1)

    await stage.do(Inject(fault_id=0, fault=fault))
    async with asyncio.timeout(PATIENCE_S):
        while len(stage.system.dials.get(1, ())) < 5:
            await asyncio.sleep(0.001)
    await stage.do(Heal(fault_id=0))

    seen = [dials.wall_ms for dials in stage.system.dials[1]]
    assert seen[:5] == [60, 0, 60, 0, 60]
    assert seen[-1] == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing goes on"


async def test_a_strobe_that_fails_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks that could not be set any more are said to have stopped strobing, with the reason."""
    is_refused = asyncio.Event()

    def refuse(node: int, dials: Dials) -> None:
        if not is_refused.is_set():
            is_refused.set()
            raise OSError("the dials cannot be written")

    monkeypatch.setattr(stage.system, "set_clocks", refuse)
    await stage.do(Inject(fault_id=0, fault=StrobeWallClock(target=Role.LEADER, by_ms=60, period_ms=1)))
    async with asyncio.timeout(PATIENCE_S):
        await is_refused.wait()
    await stage.do(Heal(fault_id=0))

    assert stage.recording.rows()[-1]["error"] == "the clocks strobed no longer: the dials cannot be written"


async def test_a_strobe_ends_with_the_run(stage: Stage) -> None:
    """What is abandoned sets no clock any more."""
    await stage.do(Inject(fault_id=0, fault=StrobeWallClock(target=Role.LEADER, by_ms=60, period_ms=1)))

    await stage.injector.abandon()

    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_burst_raises_the_load_and_lowers_it(stage: Stage) -> None:
    """Clients are to ask so many times as often until it is healed; the history has by how much."""
    await stage.do(Inject(fault_id=0, fault=Burst(factor=5)), Inject(fault_id=1, fault=Burst(factor=2)))
    assert stage.load.factor == 10
    await stage.do(Heal(fault_id=0))
    assert stage.load.factor == 2
    await stage.injector.heal_all()

    assert stage.load.factor == 1
    f, kind, detail = stage.recording.nemesis_rows()[1]
    assert (f, kind) == ("burst", "info")
    assert '"factor": 5' in (detail or "") or '"factor":5' in (detail or "")
