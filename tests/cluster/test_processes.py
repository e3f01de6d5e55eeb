"""Processes of nodes: signalled, awaited, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nemesis.cluster.host import DIED, death_of
from nemesis.cluster.local import LocalHost
from nemesis.cluster.processes import LAUNCHER, NodeProcess
from nemesis.history import KILLED_FROM_OUTSIDE

PATIENCE_S = 10.0
SLEEPER = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
)
HARNESS = """
import sys, time
from pathlib import Path
from nemesis.cluster.processes import NodeProcess
program = "import time; print('up', flush=True); time.sleep(600)"
process = NodeProcess((sys.executable, "-c", program), Path(sys.argv[1]))
print(process.pid, flush=True)
time.sleep(600)
"""


async def wait_up(output: Path) -> None:
    """Wait until the program has said that it runs."""
    async with asyncio.timeout(PATIENCE_S):
        while "up" not in (output.read_text() if output.exists() else ""):
            await asyncio.sleep(0.01)


def status(process: NodeProcess) -> str:
    """What the system says the process does."""
    return psutil.Process(process.pid).status()


async def test_a_killed_process_is_gone(tmp_path: Path) -> None:
    """Killing waits until the process is gone; killing again says that there was nothing."""
    process = NodeProcess(SLEEPER, tmp_path / "out")

    assert await process.kill()
    assert process.exit_code == -signal.SIGKILL
    assert not await process.kill()


async def test_a_process_that_nobody_ended_has_died(tmp_path: Path) -> None:
    """What ends a process from outside is a death; what the harness does to it is not."""
    killed, dying = NodeProcess(SLEEPER, tmp_path / "one"), NodeProcess(SLEEPER, tmp_path / "two")
    assert not dying.died
    await killed.kill()
    os.kill(dying.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        while dying.exit_code is None:
            await asyncio.sleep(0.01)
    assert (killed.died, dying.died) == (False, True)
    await dying.stop(1.0)
    assert dying.died


@pytest.mark.parametrize(
    ("number", "is_from_outside"),
    [(signal.SIGKILL, True), (signal.SIGSEGV, False), (signal.SIGABRT, False), (None, False)],
)
async def test_only_a_kill_comes_from_outside(
    tmp_path: Path, number: signal.Signals | None, is_from_outside: bool
) -> None:
    """Whoever sent it, SIGKILL is not of the process's own making; exit codes and crashes are, and told as deaths."""
    host = LocalHost(tmp_path, 1)
    host.make_folders()
    end = "raise SystemExit(3)" if number is None else f"import os; os.kill(os.getpid(), {number:d})"
    await host.run(1, (sys.executable, "-c", end), tmp_path / "out")
    async with asyncio.timeout(PATIENCE_S):
        while host.is_running(1):
            await asyncio.sleep(0.01)
    death = death_of(host, 1)

    assert death is not None
    assert death == death_of(host, 1) if is_from_outside else death.event == DIED
    assert (death.event, death.detail) == (
        (KILLED_FROM_OUTSIDE, "SIGKILL") if is_from_outside else (DIED, f"exit code {-(number or -3)}")
    )


async def test_a_kill_of_ours_is_no_death(tmp_path: Path) -> None:
    """Nor is the end of a process that was never started."""
    host = LocalHost(tmp_path, 2)
    host.make_folders()
    await host.run(1, SLEEPER, tmp_path / "out")
    await host.kill(1)

    assert (death_of(host, 1), death_of(host, 2)) == (None, None)


async def test_a_paused_process_stands_still(tmp_path: Path) -> None:
    """Pausing stops it, resuming lets it go on, and each says whether there was something to do."""
    process = NodeProcess(SLEEPER, tmp_path / "out")
    await wait_up(tmp_path / "out")

    assert [await process.pause(), await process.pause()] == [True, False]
    async with asyncio.timeout(PATIENCE_S):
        while status(process) != psutil.STATUS_STOPPED:
            await asyncio.sleep(0.01)
    assert [await process.resume(), await process.resume()] == [True, False]
    async with asyncio.timeout(PATIENCE_S):
        while status(process) == psutil.STATUS_STOPPED:
            await asyncio.sleep(0.01)
    await process.kill()
    assert [await process.pause(), await process.resume()] == [False, False]


async def test_a_paused_process_can_be_killed(tmp_path: Path) -> None:
    """SIGKILL reaches a process that stands still."""
    process = NodeProcess(SLEEPER, tmp_path / "out")
    await process.pause()

    assert await process.kill()


async def test_a_process_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    """Who ignores SIGTERM is killed after the grace time; who does not is gone before."""
    polite, stubborn = NodeProcess(SLEEPER, tmp_path / "a"), NodeProcess(STUBBORN, tmp_path / "b")
    await wait_up(tmp_path / "a")
    await wait_up(tmp_path / "b")

    await asyncio.gather(polite.stop(PATIENCE_S), stubborn.stop(0.2))

    assert polite.exit_code == -signal.SIGTERM
    assert stubborn.exit_code == -signal.SIGKILL


async def test_a_process_dies_with_its_harness(tmp_path: Path) -> None:
    """When the harness is killed without a chance to do anything, what it started dies too."""
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True
    )
    with harness:
        assert harness.stdout is not None
        node = psutil.Process(int(harness.stdout.readline()))
        await wait_up(tmp_path / "out")
        harness.kill()

    deadline = time.monotonic() + PATIENCE_S
    while node.is_running() and node.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, node
        await asyncio.sleep(0.01)


def test_an_orphan_never_starts() -> None:
    """A launcher whose parent is already another than it was told ends before the program begins."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid() + 1), sys.executable, "-c", "print('ran')"],
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (255, b"")
