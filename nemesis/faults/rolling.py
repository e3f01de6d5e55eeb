"""Rolling restarts: each node in turn stops, starts, and is waited for before the next.

Owns the task of each, and that whoever was stopped is started, whenever it is ended. What it does to each node is
recorded as operations of their own, ``stop-rolling`` and ``restart-rolling``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.errors import NodeFailedError
from nemesis.faults.family import Family, Healed, OpenFault, Stage, cancelled
from nemesis.faults.fault import Fault, named
from nemesis.faults.look import OTHER
from nemesis.faults.needs import Need
from nemesis.faults.processes import start_all
from nemesis.faults.targets import Role, Target

STOP, RESTART = "stop-rolling", "restart-rolling"
ROLLING_S = (8.0, 12.0)
"""How long it goes on."""
BACK_S_MAX = 15.0
"""How long a node that was started may take until it may lead again, before it is the next one's turn."""
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRestart(Fault):
    """Each of ``target`` in turn stops gracefully, is started, and is waited for until it may lead again.

    It goes on by itself, and its healing ends it: nobody else is stopped then, and whoever is down is started.
    """

    kind = "rolling-restart"
    does = "each replica in turn: SIGTERM, gone, started, back and unfenced, then the next"
    undone = "nobody else is stopped; whoever is down is started"
    healer = "end-rolling"
    need = Need.PROCESSES
    look = OTHER
    steps = (STOP,)
    drawn_as = 3
    against_leader = named(target=Role.ALL)
    """All, the leader among them."""
    is_usual = True
    target: Target = Role.ALL

    @property
    def lasts_s(self) -> tuple[float, float]:
        """Some of the replicas, or all of them, get their turn."""
        return ROLLING_S


class Rolling(Family[RollingRestart]):
    """Begins and ends rolling restarts."""

    faults = (RollingRestart,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._recorder = stage.recorder
        self._tasks: dict[int, asyncio.Task[str | None]] = {}
        self._stopping: dict[int, asyncio.Event] = {}

    async def strike(self, opened: OpenFault[RollingRestart]) -> tuple[int, ...]:
        """Begin; nobody waits for the turns."""
        stopping = self._stopping[opened.fault_id] = asyncio.Event()
        self._tasks[opened.fault_id] = asyncio.create_task(self._roll(opened.nodes, stopping))
        return opened.nodes

    async def heal(self, opened: OpenFault[RollingRestart]) -> Healed:
        """Let nobody else take a turn, and wait until whoever is down is back."""
        if opened.fault_id not in self._tasks:
            return Healed(error=await start_all(self._system, opened.nodes))
        self._stopping.pop(opened.fault_id).set()
        return Healed(error=await self._tasks.pop(opened.fault_id))

    async def abandon(self) -> None:
        """Do nothing more, whoever is down."""
        await cancelled(self._tasks.values())

    async def _roll(self, nodes: Sequence[int], stopping: asyncio.Event) -> str | None:
        errors = []
        for node in nodes:
            if stopping.is_set():
                break
            error = await self._restart(node, stopping)
            if error is not None:
                errors.append(error)
        return "; ".join(errors) or None

    async def _restart(self, node: int, stopping: asyncio.Event) -> str | None:
        detail = {"replicas": [node]}
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        self._recorder.began(STOP, detail)
        await self._system.stop(node)
        stopped_s = loop.time()
        self._recorder.ended(STOP, detail | {"after_s": round(stopped_s - begin_s, 3)})
        self._recorder.began(RESTART, detail)
        try:
            await self._system.start(node)
        except NodeFailedError as error:
            self._recorder.ended(RESTART, detail, error=str(error))
            return str(error)
        told = {"is_back": await self._wait_back(node, stopping), "after_s": round(loop.time() - stopped_s, 3)}
        self._recorder.ended(RESTART, detail | told)
        return None

    async def _wait_back(self, node: int, stopping: asyncio.Event) -> bool:
        """Wait until the node may be in sync and lead; not for ever, and not when all of it is to end."""
        end_s = asyncio.get_running_loop().time() + BACK_S_MAX
        while asyncio.get_running_loop().time() < end_s and not stopping.is_set():
            state = await self._system.cluster_state()
            if state is not None and node in state.active:
                return True
            await asyncio.sleep(_LOOK_S)
        return False
