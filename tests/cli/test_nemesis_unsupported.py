"""What a cluster cannot do is said before anything is started, with an exit code of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.cli.exit import Exit
from nemesis.faults.fault import Fault
from nemesis.faults.processes import Kill
from nemesis.faults.shapes import Shape
from nemesis.faults.simulated import Clog, DelayMetadata
from nemesis.faults.targets import Role
from nemesis.schedules.schedule import Inject, Schedule, Step
from tests.cli.commands import nemesis


@pytest.fixture
def schedule(tmp_path: Path) -> Path:
    """A file with a schedule that asks for what processes can do, and for what they cannot."""
    faults: list[Fault] = [
        Kill(target=Role.ONE),
        Clog(shape=Shape.HALVES),
        DelayMetadata(target=Role.ALL, delay_ms=5),
    ]
    steps = [Step(at_s=1.0 + at, action=Inject(fault_id=at, fault=fault)) for at, fault in enumerate(faults)]
    path = tmp_path / "schedule.json"
    path.write_text(Schedule(name="too-much", time_limit_s=9, steps=tuple(steps)).to_json(), encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_run_that_asks_for_too_much_is_not_begun(schedule: Path, tmp_path: Path) -> None:
    """The exit code is 3, each fault that cannot be done is named with the reason, and there is no folder of a run."""
    done = nemesis("run", "--schedule", str(schedule), "--store", str(tmp_path / "store"))

    assert done.returncode == Exit.UNSUPPORTED, done.stderr
    assert "local cannot do what is asked for: clog: it can be done in the simulator only" in done.stderr
    assert "kill:" not in done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_a_sweep_is_refused_as_a_whole(schedule: Path, tmp_path: Path) -> None:
    """No run is made of a sweep in which one asks for too much."""
    (tmp_path / "sweep.toml").write_text(f'[matrix]\nschedule = ["demo", "{schedule}"]\n')

    done = nemesis("soak", str(tmp_path / "sweep.toml"), "--store", str(tmp_path / "store"))

    assert done.returncode == Exit.UNSUPPORTED, done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--nemesis", "memory-limit"), "memory-limit: only containers have a limit of memory of their own"),
        # Of this seed's faults none limits memory.
        (("--nemesis", "kill,memory-limit", "--time-limit", "8"), "memory-limit: only containers have a limit"),
        (("--nemesis", "reassign", "--workload", "register"), "reassign: there are no topics here"),
        (("--nemesis", "replace-disk", "--min-insync-replicas", "1"), "give --min-insync-replicas 2"),
        (("--nemesis", "replace-disk", "--log-flush", "os"), "give --log-flush fsync"),
    ],
)
def test_what_nothing_could_be_done_to_is_not_passed_over(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    """A fault that would have nothing to strike is refused with its reason, and no run is green for want of it."""
    done = nemesis("run", *words, "--seed", "1", "--store", str(tmp_path / "store"))

    assert done.returncode == Exit.UNSUPPORTED, done.stderr
    assert why in done.stderr
    assert not (tmp_path / "store").exists()
