"""The stage on which faults are tried on real replicas: what befalls them is seen from outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from nemesis.cluster.local import LocalHost
from nemesis.cluster.processes import Launched, NodeProcess
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.cluster.system import LogClient
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.schedules.injector import Injector
from nemesis.schedules.schedule import Action, Schedule, Step
from replica.cli.__main__ import main
from tests.server.forked import MAIN, ForkedReplica
from tests.workload.recording import Recording

PATIENCE_S = 90.0
"""How long one test of a running cluster may take."""
NAME = "topic1-0"
"""The log of a cluster with one topic of one partition."""


class ForkedNode(NodeProcess):
    """A replica as a process that was forked, not begun anew."""

    def _launched(
        self, command: Sequence[str], output: Path, environment: Mapping[str, str], files: Sequence[int]
    ) -> Launched:
        del files
        return ForkedReplica(command[2], command[3:], output, environment=environment)


class Forking(LocalHost):
    """A host that forks replicas, and formats disks itself, where a process for each would only start and end."""

    async def run_once(self, node: int, command: Sequence[str], log_file: Path, *, at_most_s: float) -> int:
        if tuple(command[1:4]) != ("-m", "replica.cli", "format"):
            return await super().run_once(node, command, log_file, at_most_s=at_most_s)
        main([*command[3:]], standalone_mode=False)
        return 0

    def _started(
        self, node: int, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None
    ) -> NodeProcess:
        if command[1] != "-m" or command[2] not in MAIN:
            return super()._started(node, command, log_file, environment)
        return ForkedNode(command, log_file, environment=environment)


class Stage:
    """A cluster, an injector whose steps are recorded, and a client."""

    client: LogClient
    """There is one while the cluster runs."""

    def __init__(self, folder: Path, options: ReplicaOptions) -> None:
        self.host = Forking(folder, options.nodes)
        self.cluster = ReplicaCluster(self.host, options)
        self.recording = Recording(folder / "recorded")
        self.injector = Injector(self.cluster, self.recording.recorder)

    async def do(self, *actions: Action) -> None:
        """Do these steps of a schedule at once."""
        schedule = Schedule(name="test", time_limit_s=1, steps=tuple(Step(at_s=0, action=action) for action in actions))
        await self.injector.run(schedule, begin_s=asyncio.get_running_loop().time())

    async def append(self, value: int) -> int:
        """Append to ``NAME`` until it is acknowledged; returns the offset of that attempt."""
        while True:
            try:
                offset = (await self.client.append(NAME, value)).offset
            except (NotDoneError, UnknownOutcomeError):
                await asyncio.sleep(0.05)
            else:
                assert offset is not None
                return offset

    def details(self) -> list[tuple[str, dict[str, Any]]]:
        """The name and the detail of each operation of the nemesis that has ended."""
        rows = self.recording.nemesis_rows()
        return [(f, json.loads(detail or "{}")) for f, kind, detail in rows if kind != "invoke"]

    def told(self, f: str) -> dict[str, Any]:
        """The detail of the first of that name. Raises StopIteration where there is none."""
        return next(detail for name, detail in self.details() if name == f)


StageT = TypeVar("StageT", bound=Stage)


@asynccontextmanager
async def running(stage: StageT) -> AsyncIterator[StageT]:
    """Its cluster runs with its topics, for so long as it may at most; closed in the end."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await stage.cluster.open()
            await stage.cluster.create_logs()
            stage.client = stage.cluster.client()
            yield stage
            await stage.client.close()
    finally:
        await stage.injector.abandon()
        await stage.cluster.close()
