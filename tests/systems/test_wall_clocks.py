"""Wall clocks of programs that are not ours jump while they run, and come back; where that cannot be, it is said."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from nemesis.cluster.faketime import why_no_faketime
from nemesis.cluster.key_value_client import StoreOptions
from nemesis.cluster.kinds import ClusterKind
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.faults.targets import Role
from nemesis.faults.timekeeping import DriftClock, JumpWallClock
from nemesis.schedules.injector import Injector
from nemesis.schedules.schedule import Action, Heal, Inject, Schedule, Step
from nemesis.systems.catalogue import new_system
from nemesis.systems.foreign import ForeignSystem
from tests.systems.running import needs
from tests.workload.recording import Recording

PATIENCE_S = 60.0
HOUR_S = 3600
NEAR_S = 60
"""What a slow machine may need between two looks is far less than what clocks jump by."""
FAULT = JumpWallClock(target=Role.LEADER, by_ms=-HOUR_S * 1000)
OPTIONS = ReplicaOptions(store=StoreOptions(), clocks_in_hand=True)
WHY_NOT = why_no_faketime()


async def ahead_s(address: str) -> float:
    """How far the clock of a Redis server is ahead of this machine's, in seconds."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"TIME\r\n")
    lines = [await reader.readline() for _ in range(3)]  # *2, $10, seconds
    writer.close()
    return int(lines[2]) - time.time()


@pytest.mark.cluster
@needs("redis")
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
async def test_redis_dates_by_a_clock_that_jumps_and_comes_back(tmp_path: Path) -> None:
    """The server that is hit is an hour behind, as the others are not, and is right again when it is healed."""
    from nemesis.systems.redis.system import SERVER_PORT

    system = new_system("redis", ClusterKind.LOCAL, tmp_path, OPTIONS)
    assert isinstance(system, ForeignSystem)
    assert system.lacks(FAULT.need) is None
    injector = Injector(system, Recording(tmp_path).recorder)

    async def do(action: Action) -> None:
        schedule = Schedule(name="test", time_limit_s=1, steps=(Step(at_s=0, action=action),))
        await injector.run(schedule, begin_s=asyncio.get_running_loop().time())

    async def wait_behind(servers: int) -> None:
        """Wait until so many servers are an hour behind, and all others right."""
        while True:
            clocks = [await ahead_s(system.controlled(node, SERVER_PORT)) for node in system.nodes]
            right = sum(abs(ahead) < NEAR_S for ahead in clocks)
            if right == len(clocks) - servers and sum(abs(ahead + HOUR_S) < NEAR_S for ahead in clocks) == servers:
                return
            await asyncio.sleep(0.05)

    try:
        async with asyncio.timeout(PATIENCE_S):
            await system.open()
            await system.create_logs()
            await wait_behind(0)
            await do(Inject(fault_id=0, fault=FAULT))
            await wait_behind(1)
            await do(Heal(fault_id=0))
            await wait_behind(0)
    finally:
        await system.close()


@needs("etcd")
def test_programs_that_ask_the_kernel_cannot_be_deceived(tmp_path: Path) -> None:
    """etcd says before it starts that its wall clock is out of reach, and its timers are."""
    system = new_system("etcd", ClusterKind.LOCAL, tmp_path, OPTIONS)

    assert "Go programs" in (system.lacks(FAULT.need) or "")
    assert "cannot be set" in (system.lacks(DriftClock(target=Role.LEADER, percent=50).need) or "")
