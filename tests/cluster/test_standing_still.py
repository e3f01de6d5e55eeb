"""A real replica is killed exactly where it was told to stand still, and nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import ReplicaOptions, TopicOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.cluster.system import NotDoneError, UnknownOutcomeError
from nemesis.faults.crash_points import CrashPoint
from nemesis.faults.injector import Injector
from nemesis.faults.standing import COME_TO_POINT
from nemesis.faults.targets import Role
from nemesis.faults.values import KillAt
from nemesis.runner import that_can_stand_still
from nemesis.schedule import Action, Heal, Inject, Schedule, Step
from tests.workload.recording import Recording

pytestmark = pytest.mark.cluster

PATIENCE_S = 60.0
NAME = "topic1-0"
OPTIONS = that_can_stand_still(ReplicaOptions(topics=TopicOptions(partitions=1)))
KILL = KillAt(target=Role.LEADER, point=CrashPoint.AFTER_FLUSH, nth=3)


async def test_a_leader_is_killed_between_its_flush_and_its_reply(tmp_path: Path) -> None:
    """Its process is killed at the point in an append, it starts again, and every replica has what was acknowledged."""
    cluster = ReplicaCluster(LocalHost(tmp_path, OPTIONS.nodes), OPTIONS)
    recording = Recording(tmp_path)
    injector = Injector(cluster, recording.recorder)
    acknowledged = []

    async def do(action: Action) -> None:
        schedule = Schedule(name="test", time_limit_s=1, steps=(Step(at_s=0, action=action),))
        await injector.run(schedule, begin_s=asyncio.get_running_loop().time())

    assert cluster.unsupported(KILL) is None
    try:
        async with asyncio.timeout(PATIENCE_S):
            await cluster.open()
            await cluster.create_logs()
            client = cluster.client()
            await do(Inject(fault_id=0, fault=KILL))
            value = 0
            while not any(f == COME_TO_POINT and kind == "info" for f, kind, _ in recording.nemesis_rows()):
                value += 1
                try:
                    await client.append(NAME, value)
                    acknowledged.append(value)
                except (NotDoneError, UnknownOutcomeError):
                    pass
            await do(Heal(fault_id=0))
            assert all(cluster.is_running(node) for node in cluster.nodes)
            polled = await client.poll(NAME, 0)
            while not set(acknowledged) <= {found for _, found in polled.records}:
                polled = await client.poll(NAME, 0)
            await client.close()
    finally:
        await injector.abandon()
        await cluster.close()

    details = {f: json.loads(detail or "{}") for f, kind, detail in recording.nemesis_rows() if kind == "info"}
    assert details["start"]["killed"] == details["kill-at-after-flush"]["replicas"]
    assert details[COME_TO_POINT]["was_there"]
    assert not any(report.event == "died" for report in cluster.reports()), "the harness killed it"


def test_replicas_that_are_not_told_cannot_be_killed_there(tmp_path: Path) -> None:
    """A cluster of plain replicas says before it starts that it cannot do that."""
    plain = ReplicaOptions()

    why = ReplicaCluster(LocalHost(tmp_path, plain.nodes), plain).unsupported(KILL)

    assert why is not None
    assert "stand still" in why
