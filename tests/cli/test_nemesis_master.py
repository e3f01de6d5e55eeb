"""A Spark master that is not there: said soon and plainly, and what was recorded stays."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nemesis.cli.exit import Exit
from nemesis.pipeline.session import CONNECT_S_MAX
from tests.cli.commands import nemesis, nemesis_process
from tests.cli.test_nemesis_cli import stored_run
from tests.depth import at_night

pytestmark = pytest.mark.spark

START_S_MAX = 30.0
"""More than the command needs to begin, and less than Spark asks a master for."""


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of somebody who takes connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=50)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """A port at which nobody is."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def check_refused(run: Path, master: str) -> str:
    """Judge a run there; it is refused in time and stays as it is. Returns what was said."""
    began_s = time.monotonic()
    done = nemesis_process("check", str(run), "--engine", "spark", "--master", master)
    took_s = time.monotonic() - began_s
    assert done.returncode == Exit.BAD_ARGUMENTS, done.stderr
    assert took_s < CONNECT_S_MAX + START_S_MAX
    assert "Traceback" not in done.stderr
    assert f"--master: there is no session on {master}: " in done.stderr
    assert f"nemesis check {run} --engine local: what was recorded is kept" in done.stderr
    assert not (run / "results.json").exists()
    return done.stderr


@pytest.mark.parametrize("master", ["sc://127.0.0.1:PORT", "spark://127.0.0.1:PORT", "spark://h.invalid:7077,"])
def test_a_master_that_is_not_there_is_a_bad_argument(master: str, tmp_path: Path, closed: int) -> None:
    """The option is named and so is what to do instead, and then the run is judged by that."""
    run = stored_run(tmp_path / "run", read=[7])
    check_refused(run, master.replace("PORT", str(closed)))
    assert nemesis("check", str(run), "--engine", "local").returncode == Exit.VALID


def test_a_server_that_says_nothing_is_not_waited_for(tmp_path: Path, silent: int) -> None:
    """Whatever takes the connection must speak as Spark Connect does, and soon."""
    said = check_refused(stored_run(tmp_path / "run", read=[7]), f"sc://127.0.0.1:{silent}")
    assert f"no Spark Connect server has answered there for {CONNECT_S_MAX:g} s" in said


@at_night("waits for a master as the check of one run does")
def test_many_runs_are_refused_alike(tmp_path: Path, closed: int) -> None:
    """What is said of one run, is said of several, and nothing is written into them."""
    runs = [stored_run(tmp_path / name, read=[7]) for name in ("a", "b")]
    done = nemesis_process("check", *map(str, runs), "--engine", "spark", "--master", f"sc://127.0.0.1:{closed}")
    assert done.returncode == Exit.BAD_ARGUMENTS, done.stderr
    assert "judge in this process with --engine local" in done.stderr
    assert not any((run / "results.json").exists() for run in runs)


def test_a_follower_is_refused_alike(tmp_path: Path, closed: int) -> None:
    """A session that is needed at the beginning is missed at the beginning."""
    run = stored_run(tmp_path / "run", read=[7])
    master = f"spark://127.0.0.1:{closed}"
    done = nemesis_process("check", str(run), "--follow", "--engine", "spark", "--master", master)
    assert done.returncode == Exit.BAD_ARGUMENTS, done.stderr
    assert f"--master: there is no session on {master}: " in done.stderr


@at_night("waits for a master as the check of one run does")
def test_a_simulation_is_refused_alike(closed: int) -> None:
    """Where nothing is recorded yet, it is told how to do without Spark."""
    done = nemesis_process("sim", "--seeds", "2", "--master", f"sc://127.0.0.1:{closed}")
    assert done.returncode == Exit.BAD_ARGUMENTS, done.stderr
    assert f"--master: there is no session on sc://127.0.0.1:{closed}: " in done.stderr
    assert "or none, to simulate in processes of this machine" in done.stderr
