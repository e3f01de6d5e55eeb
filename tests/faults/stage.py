"""A fake system with an injector, for tests of what faults do to a system and what is told of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from nemesis.faults.load import Load
from nemesis.schedules.injector import Injector
from nemesis.schedules.schedule import Action, Schedule, Step
from tests.workload.fake_system import FakeSystem
from tests.workload.recording import Recording

ISOLATED = frozenset({(1, 2), (2, 1), (1, 3), (3, 1)})


class Stage:
    """A fake system with an injector, and what is recorded."""

    def __init__(self, folder: Path, system: FakeSystem | None = None) -> None:
        self.system = system or FakeSystem()
        self.load = Load()
        self.recording = Recording(folder)
        self.injector = Injector(self.system, self.recording.recorder, self.load)

    async def do(self, *actions: Action) -> None:
        """Do these actions at once."""
        steps = tuple(Step(at_s=0, action=action) for action in actions)
        schedule = Schedule(name="test", time_limit_s=1, steps=steps)
        await self.injector.run(schedule, begin_s=asyncio.get_running_loop().time())

    async def do_each(self, *actions: Action) -> None:
        """Do these actions one after the other; what goes on by itself gets its turn in between."""
        for action in actions:
            await self.do(action)
            for _ in range(50):
                await asyncio.sleep(0)

    def kinds(self, name: str) -> list[str]:
        """How the nemesis's operations of one name went: invoke, info, fail."""
        return [kind for f, kind, _ in self.recording.nemesis_rows() if f == name]

    def told(self) -> list[tuple[str, str, list[int]]]:
        """What is recorded: (f, type, replicas)."""
        return [
            (f, kind, json.loads(detail or "{}").get("replicas")) for f, kind, detail in self.recording.nemesis_rows()
        ]
