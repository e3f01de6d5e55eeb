"""Limits of memory: whom they hit, what is recorded of them, and that whom the kernel has killed runs again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from nemesis.errors import NodeFailedError
from nemesis.faults.memory import LimitMemory
from nemesis.faults.targets import Role
from nemesis.schedules.schedule import Heal, Inject
from tests.faults.stage import Stage
from tests.workload.fake_system import FakeSystem

USED_BYTES = 1000
SQUEEZE = Inject(fault_id=4, fault=LimitMemory(target=Role.ALL, percent=80))


class FakeMemory:
    """Nodes that all use as much; ``limited`` is who is limited by which key, ``dead`` whom the kernel has killed."""

    def __init__(self, system: FakeSystem) -> None:
        self._system = system
        self.limited: dict[tuple[int, int], int] = {}
        self.dead: set[int] = set()
        self.refuses: set[int] = set()
        self.least = USED_BYTES

    async def squeeze(self, node: int, key: int, percent: int) -> int | None:
        if node in self.refuses:
            raise NodeFailedError("unable to set memory limit")
        if not self._system.is_running(node):
            return None
        self.limited[node, key] = USED_BYTES * percent // 100
        return self.limited[node, key]

    async def press(self, node: int, key: int) -> int | None:
        if self.limited.get((node, key), 0) <= self.least:
            return None
        self.limited[node, key] -= 1
        return self.limited[node, key]

    async def release(self, node: int, key: int) -> None:
        if node in self.refuses:
            raise NodeFailedError("the engine is ill")
        self.limited.pop((node, key), None)

    async def killed(self, node: int) -> bool:
        return node in self.dead


class LimitedSystem(FakeSystem):
    """A fake system whose nodes' memory can be limited."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = FakeMemory(self)


def told(stage: Stage, f: str) -> list[tuple[str, dict[str, object]]]:
    """What is recorded under a name: (type, detail)."""
    return [(kind, json.loads(detail or "{}")) for name, kind, detail in stage.recording.nemesis_rows() if name == f]


async def test_those_who_run_are_squeezed_and_whom_the_kernel_killed_is_started(tmp_path: Path) -> None:
    """Each is told with what is left to it; the healing starts those who died of it, and nobody else."""
    system = LimitedSystem()
    stage = Stage(tmp_path, system)
    system.running.discard(2)

    await stage.do(SQUEEZE)
    assert system.memory.limited == {(1, 4): 800, (3, 4): 800}
    system.running.clear()
    system.memory.dead = {3}
    await stage.do(Heal(fault_id=4))

    assert system.memory.limited == {}
    assert system.running == {3}
    squeezed = [(told["replicas"], told["limit_bytes"]) for kind, told in told(stage, "squeeze") if kind == "info"]
    assert squeezed == [([1], 800), ([3], 800)]
    assert told(stage, "memory-limit")[-1][1]["replicas"] == [1, 3]
    kind, healed = told(stage, "free-memory")[-1]
    assert (kind, healed["killed"], healed["limit_bytes"]) == ("info", [3], {"1": 800, "3": 800})


async def test_more_and_more_is_taken_until_it_is_healed(tmp_path: Path) -> None:
    """Those who could not be squeezed as asked for are again and again, and the healing tells how far that went."""
    system = LimitedSystem()
    stage = Stage(tmp_path, system)
    system.memory.least = 798

    await stage.do(SQUEEZE)
    async with asyncio.timeout(10):
        while set(system.memory.limited.values()) != {798}:
            await asyncio.sleep(0.01)
    await stage.do(Heal(fault_id=4))

    assert told(stage, "free-memory")[-1][1]["limit_bytes"] == {"1": 798, "2": 798, "3": 798}
    await stage.do(SQUEEZE)
    await stage.injector.abandon()
    assert len(asyncio.all_tasks()) == 1


async def test_what_is_refused_is_told(tmp_path: Path) -> None:
    """A limit that no kernel takes hits nobody; one that cannot be taken back is a healing that failed."""
    system = LimitedSystem()
    stage = Stage(tmp_path, system)
    system.memory.refuses = {1}

    await stage.do(SQUEEZE)
    assert [kind for kind, _ in told(stage, "squeeze")].count("fail") == 1
    assert told(stage, "memory-limit")[-1][1]["replicas"] == [2, 3]
    system.memory.refuses = {2}
    await stage.do(Heal(fault_id=4))

    assert told(stage, "free-memory")[-1][0] == "fail"
    assert system.memory.limited == {(2, 4): 800}


async def test_a_system_whose_memory_cannot_be_limited_is_not_struck(tmp_path: Path) -> None:
    """The history says that it was not done."""
    stage = Stage(tmp_path, FakeSystem())

    await stage.do(SQUEEZE, Heal(fault_id=4))

    assert [kind for kind, _ in told(stage, "memory-limit")] == ["invoke", "fail"]
