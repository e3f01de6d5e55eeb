"""The memory of containers: squeezed as far as the kernel lets it, given back, and who was killed for want of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nemesis.cluster.containers import IMAGE_VARIABLE, ContainersHost
from nemesis.cluster.containers_engine import ENGINE_VARIABLE, find_engine
from nemesis.cluster.containers_process import bytes_of
from nemesis.cluster.kinds import ClusterKind, new_host
from nemesis.cluster.memory import KILLED_BY_MEMORY, LEAST_BYTES, ReplicaMemory
from nemesis.cluster.replica_options import ReplicaOptions, TopicOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.errors import NodeFailedError, UnsupportedError
from nemesis.faults.memory import LimitMemory
from nemesis.faults.targets import Role
from nemesis.history import KILLED_FROM_OUTSIDE

PATIENCE_S = 60.0
MIB = 1 << 20
KILLED, ENDED = 137, 3
SQUEEZE = LimitMemory(target=Role.ONE, percent=50)
REPLICAS = ReplicaOptions(nodes=1, topics=TopicOptions(replication_factor=1, min_insync_replicas=1))
FAKE = """#!/bin/sh
# Has one container, which ends with the code that is in "exit"; 40 MiB are used, and less than "floor" is refused.
cd "$(dirname "$0")"
echo "$*" >> told
case "$*" in
    info) ;;
    "info --format {{.MemoryLimit}}") cat can ;;
    "run "*) while test ! -e exit; do sleep 0.02; done; exit "$(cat exit)" ;;
    "inspect --format {{.State.Running}}"*) if test -e exit; then echo false; else echo true; fi ;;
    "inspect --format {{.State.OOMKilled}}"*) cat oom ;;
    "stats "*) echo "40MiB / 1GiB" ;;
    "update --memory 1g"*) ;;
    "update --memory "*) test "$3" -ge "$(cat floor)" || { echo "unable to set memory limit" >&2; exit 1; } ;;
esac
"""
EATER = "import time, os; kept = [b'x' * (40 << 20)]; path = '/var/lib/highwater/eat'\n"
EATER += "while True:\n    time.sleep(0.02)\n    if os.path.exists(path): kept.append(b'x' * (1 << 20))"


class Fake:
    """An engine that is a script; ``updates`` are the limits that it was told to set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "docker"
        program.write_text(FAKE)
        program.chmod(0o755)
        self.set("can", "true")
        self.set("oom", "true")
        self.set("floor", "0")

    def set(self, name: str, value: str) -> None:
        (self.folder / name).write_text(f"{value}\n")

    @property
    def updates(self) -> list[str]:
        told = [line.split() for line in (self.folder / "told").read_text().splitlines()]
        assert all(words[2] == words[4] for words in told if words[0] == "update"), "no swap beside it"
        return [words[2] for words in told if words[0] == "update"]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The only engine of this machine."""
    folder = tmp_path / "engine"
    folder.mkdir()
    monkeypatch.setenv(ENGINE_VARIABLE, str(folder / "docker"))
    monkeypatch.setenv(IMAGE_VARIABLE, "there")
    return Fake(folder)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[ContainersHost, ReplicaMemory]]:
    """A host whose first node runs in the engine that is played."""
    host = ContainersHost(folder, 1)
    host.folder(1).mkdir(parents=True)
    try:
        await host.run(1, ("python",), folder / "log")
        yield host, ReplicaMemory(host)
    finally:
        await host.kill(1)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.02)


async def test_a_limit_is_lowered_as_far_as_it_goes(fake: Fake, tmp_path: Path) -> None:
    """What is asked for is tried first, then more, then what is between; what was set is told, and given back."""
    fake.set("floor", str(42 * MIB))
    async with running(tmp_path) as (_, memory):
        assert await memory.squeeze(1, 7, 50) == 40 * MIB * 105 // 100 == 42 * MIB
        shares = (50, 100, 115, 107, 103, 105, 104)
        assert fake.updates == [str(40 * MIB * share // 100) for share in shares]
        await memory.release(1, 7)
        assert fake.updates[-1] == "1g"
        await memory.release(1, 7)
        assert fake.updates.count("1g") == 1
        fake.set("exit", "0")


async def test_what_is_needed_less_of_is_taken(fake: Fake, tmp_path: Path) -> None:
    """A limit that was refused is gone on to step by step, when it is possible, and no further."""
    fake.set("floor", str(40 * MIB))
    async with running(tmp_path) as (_, memory):
        assert await memory.squeeze(1, 7, 99) == 40 * MIB
        assert await memory.press(1, 7) is None
        fake.set("floor", "0")
        least = 40 * MIB * 99 // 100
        assert [await memory.press(1, 7) for _ in range(2)] == [least + 1, least]
        assert await memory.press(1, 7) is None
        await memory.release(1, 7)
        assert await memory.press(1, 7) is None
        fake.set("exit", "0")


async def test_the_lowest_limit_stands(fake: Fake, tmp_path: Path) -> None:
    """Of two at once the lower one is in force, and the other one is when that is taken back."""
    async with running(tmp_path) as (_, memory):
        assert await memory.squeeze(1, 1, 50) == 20 * MIB
        assert await memory.squeeze(1, 2, 80) == 20 * MIB
        await memory.release(1, 1)
        assert fake.updates[-1] == str(32 * MIB)
        assert await memory.squeeze(1, 3, 1) == LEAST_BYTES
        fake.set("exit", "0")


async def test_a_limit_that_is_always_refused_is_told(fake: Fake, tmp_path: Path) -> None:
    """The words are the engine's, nothing is to be taken back, and a later end is no consequence of it."""
    fake.set("floor", str(1 << 40))
    async with running(tmp_path) as (host, memory):
        with pytest.raises(NodeFailedError, match="unable to set memory limit"):
            await memory.squeeze(1, 7, 95)
        await memory.release(1, 7)
        assert "1g" not in fake.updates
        fake.set("exit", str(KILLED))
        await until(lambda: not host.is_running(1))
        assert not await memory.killed(1)


@pytest.mark.parametrize(
    ("is_squeezed", "is_released", "code", "said", "is_killed"),
    [
        (True, False, KILLED, "true", True),
        (True, False, KILLED, "false", False),
        (True, False, ENDED, "true", False),
        (False, False, KILLED, "true", False),
        (True, True, KILLED, "true", False),
    ],
)
async def test_only_a_death_by_a_limit_of_ours_is_one(
    fake: Fake, tmp_path: Path, is_squeezed: bool, is_released: bool, code: int, said: str, is_killed: bool
) -> None:
    """It was squeezed and not released, killed, and the engine says why; any other end is one as ever."""
    fake.set("oom", said)
    async with running(tmp_path) as (host, memory):
        if is_squeezed:
            await memory.squeeze(1, 7, 50)
        if is_released:
            await memory.release(1, 7)
        fake.set("exit", str(code))
        await until(lambda: not host.is_running(1))

        assert host.died(1)
        assert await memory.killed(1) is is_killed
        assert await memory.squeeze(1, 8, 50) is None
        await memory.release(1, 7)
        assert await memory.killed(1) is is_killed


@pytest.mark.parametrize(("said", "event"), [("true", KILLED_BY_MEMORY), ("false", KILLED_FROM_OUTSIDE)])
async def test_a_death_is_told_by_its_cause(fake: Fake, tmp_path: Path, said: str, event: str) -> None:
    """A replica that was killed because of a limit of ours is told as that; else somebody else has killed it."""
    fake.set("oom", said)
    async with running(tmp_path) as (host, _):
        cluster = ReplicaCluster(host, REPLICAS)
        await cluster.memory.squeeze(1, 7, 50)
        fake.set("exit", str(KILLED))
        await until(lambda: not host.is_running(1))
        await cluster.stop(1)

        assert [(report.node, report.event) for report in cluster.reports()] == [(1, event)]


async def test_who_starts_again_has_the_usual_limit(fake: Fake, tmp_path: Path) -> None:
    """Whoever started it: what goes on for its last process is not done to the next one."""
    fake.set("floor", str(40 * MIB))
    async with running(tmp_path) as (host, _):
        cluster = ReplicaCluster(host, REPLICAS)
        assert await cluster.memory.squeeze(1, 7, 50) == 40 * MIB
        fake.set("floor", "0")
        fake.set("exit", str(ENDED))
        await until(lambda: not host.is_running(1))
        with pytest.raises(NodeFailedError, match=f"ended with {ENDED}"):
            await cluster.start(1)
        (fake.folder / "exit").unlink()
        await host.run(1, ("python",), tmp_path / "log")

        before = fake.updates
        assert await cluster.memory.press(1, 7) is None
        assert await cluster.memory.squeeze(1, 8, 80) == 32 * MIB
        await cluster.memory.release(1, 7)
        assert fake.updates == [*before, str(32 * MIB)]
        fake.set("exit", "0")


async def test_whom_we_have_killed_was_not_killed_by_a_limit(fake: Fake, tmp_path: Path) -> None:
    """A kill that another fault does is not told as the memory's."""
    async with running(tmp_path) as (host, memory):
        await memory.squeeze(1, 7, 50)
        killing = asyncio.create_task(host.kill(1))
        await asyncio.sleep(0)
        fake.set("exit", str(KILLED))
        await killing

        assert not await memory.killed(1)


def test_sizes_are_read() -> None:
    """As an engine writes them; anything else is an error and not a limit."""
    assert [bytes_of(said) for said in ("33.75MiB", "1GiB", "512KiB", "0B")] == [35_389_440, 1 << 30, 512 << 10, 0]
    with pytest.raises(NodeFailedError, match="'--' of memory"):
        bytes_of("--")


def test_who_cannot_limit_memory_says_so(fake: Fake, tmp_path: Path) -> None:
    """A kernel without the controller, and nodes that are processes; before anything is started."""
    options = ReplicaOptions()
    local = ReplicaCluster(new_host(ClusterKind.LOCAL, tmp_path, 3), options)
    assert "only containers" in str(local.lacks(SQUEEZE.need))
    containers = ReplicaCluster(new_host(ClusterKind.CONTAINERS, tmp_path, 3), options)
    assert containers.lacks(SQUEEZE.need) is None

    fake.set("can", "false")
    assert "this machine cannot limit memory" in str(containers.lacks(SQUEEZE.need))


@pytest.mark.cluster
@pytest.mark.containers
async def test_the_kernel_kills_who_wants_more(tmp_path: Path) -> None:
    """A node that goes on as before lives within its limit; one that takes more is killed, and not so afterwards."""
    host = _host_or_skip(tmp_path)
    memory = ReplicaMemory(host)
    try:
        await host.open()
        await host.run(1, (host.python, "-c", EATER), host.folder(1) / "log")
        async with asyncio.timeout(PATIENCE_S):
            while (await host.memory_used(1) or 0) < 40 * MIB:
                await asyncio.sleep(0.05)
        limit_bytes = await memory.squeeze(1, 7, 105)
        assert limit_bytes is not None
        assert limit_bytes < 80 * MIB
        assert host.is_running(1)
        (host.folder(1) / "eat").touch()
        await until(lambda: not host.is_running(1))
        assert (host.exit_code(1), host.died(1), await memory.killed(1)) == (KILLED, True, True)

        await memory.release(1, 7)
        (host.folder(1) / "eat").unlink()
        await host.run(1, (host.python, "-c", EATER), host.folder(1) / "log")
        assert not await memory.killed(1)
        await memory.squeeze(1, 8, 105)
        await memory.release(1, 8)
        (host.folder(1) / "eat").touch()
        async with asyncio.timeout(PATIENCE_S):
            while (await host.memory_used(1) or 0) < 2 * limit_bytes:
                assert host.is_running(1), "it has its usual limit again"
                await asyncio.sleep(0.05)
    finally:
        await host.close()


def _host_or_skip(folder: Path) -> ContainersHost:
    try:
        host = ContainersHost(folder, 1)
    except UnsupportedError as error:
        pytest.skip(str(error))
    if why_not := find_engine().why_no_memory_limits():
        pytest.skip(why_not)
    return host


def test_a_death_by_memory_is_no_end_by_itself() -> None:
    """The judge knows ends of replicas by their names, and this is none of them."""
    from nemesis.runner import ENDED_OTHERWISE

    assert KILLED_BY_MEMORY not in ENDED_OTHERWISE
