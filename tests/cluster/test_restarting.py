"""Real replicas are restarted in turn, or killed while they start: it is seen from outside, and they come back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from nemesis.cluster.replica_options import ReplicaOptions, TopicOptions
from nemesis.faults.processes import KillStarting
from nemesis.faults.rolling import RollingRestart
from nemesis.faults.targets import Role
from nemesis.schedules.schedule import Heal, Inject
from tests.cluster.stage import NAME, Stage, running

pytestmark = pytest.mark.cluster

OPTIONS = ReplicaOptions(topics=TopicOptions(partitions=1))


async def wait_in_sync(stage: Stage) -> None:
    """Wait until everybody is."""
    while (state := await stage.cluster.cluster_state()) is None or len(state.partitions[NAME].isr) < OPTIONS.nodes:
        await asyncio.sleep(0.05)


async def values(stage: Stage) -> set[int]:
    """All that is there: one poll returns no more than so many bytes."""
    found: set[int] = set()
    offset = 0
    while records := (await stage.client.poll(NAME, offset)).records:
        found |= {value for _, value in records}
        offset = records[-1][0] + 1
    return found


async def test_each_replica_is_restarted_in_turn(tmp_path: Path) -> None:
    """Never two are down, clients are served, and at last each runs in another process; they were stopped in order."""
    async with running(Stage(tmp_path, OPTIONS)) as stage:
        await wait_in_sync(stage)
        before = dict(stage.host.pids)
        await stage.do(Inject(fault_id=0, fault=RollingRestart()))
        value = 0
        while [f for f, _ in stage.details()].count("restart-rolling") < OPTIONS.nodes:
            assert sum(not stage.cluster.is_running(node) for node in stage.cluster.nodes) <= 1
            value += 1
            await stage.append(value)
        await stage.do(Heal(fault_id=0))
        await wait_in_sync(stage)
        kept = await values(stage)
        after = dict(stage.host.pids)

    assert all(after[node] != before[node] for node in stage.cluster.nodes)
    assert kept >= set(range(1, value + 1))
    ended = [report.node for report in stage.cluster.reports() if report.event == "stopped"]
    assert ended[: OPTIONS.nodes] == sorted(stage.cluster.nodes)
    assert not any(report.event == "died" for report in stage.cluster.reports())


async def test_a_replica_is_killed_while_it_starts(tmp_path: Path) -> None:
    """Its process is gone and so is the one that was started after it; the others go on, and it is back when healed."""
    async with running(Stage(tmp_path, OPTIONS)) as stage:
        await stage.append(1)
        before = dict(stage.host.pids)
        await stage.do(Inject(fault_id=0, fault=KillStarting(target=Role.LEADER, after_ms=500)))
        (killed,) = stage.told("kill-starting")["replicas"]
        second = stage.host.pids[killed]
        assert second != before[killed]
        assert not psutil.pid_exists(before[killed])
        assert not psutil.pid_exists(second)
        await stage.append(2)
        assert not stage.cluster.is_running(killed)
        await stage.do(Heal(fault_id=0))
        await wait_in_sync(stage)
        polled = await stage.client.poll(NAME, 0)

    assert {found for _, found in polled.records} >= {1, 2}
    assert not any(report.event == "died" for report in stage.cluster.reports()), "the harness killed it"
