"""A real replica is killed exactly where it was told to stand still, and nothing that was acknowledged is lost."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import ReplicaOptions, TopicOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.faults.crash_points import CrashPoint
from nemesis.faults.standing import COME_TO_POINT, KillAt
from nemesis.faults.targets import Role
from nemesis.runner import that_can_stand_still
from nemesis.schedules.schedule import Heal, Inject
from tests.cluster.stage import NAME, Stage, running

pytestmark = pytest.mark.cluster

OPTIONS = that_can_stand_still(ReplicaOptions(topics=TopicOptions(partitions=1)))
KILL = KillAt(target=Role.LEADER, point=CrashPoint.AFTER_FLUSH, nth=3)


async def test_a_leader_is_killed_between_its_flush_and_its_reply(tmp_path: Path) -> None:
    """Its process is killed at the point in an append, it starts again, and every replica has what was acknowledged."""
    acknowledged = []
    stage = Stage(tmp_path, OPTIONS)
    assert stage.cluster.lacks(KILL.need) is None
    async with running(stage):
        await stage.do(Inject(fault_id=0, fault=KILL))
        value = 0
        while COME_TO_POINT not in [f for f, _ in stage.details()]:
            value += 1
            with suppress(NotDoneError, UnknownOutcomeError):
                await stage.client.append(NAME, value)
                acknowledged.append(value)
        await stage.do(Heal(fault_id=0))
        assert all(stage.cluster.is_running(node) for node in stage.cluster.nodes)
        polled = await stage.client.poll(NAME, 0)
        while not set(acknowledged) <= {found for _, found in polled.records}:
            polled = await stage.client.poll(NAME, 0)

    assert stage.told("start")["killed"] == stage.told("kill-at-after-flush")["replicas"]
    assert stage.told(COME_TO_POINT)["was_there"]
    assert not any(report.event == "died" for report in stage.cluster.reports()), "the harness killed it"


def test_replicas_that_are_not_told_cannot_be_killed_there(tmp_path: Path) -> None:
    """A cluster of plain replicas says before it starts that it cannot do that."""
    plain = ReplicaOptions()

    why = ReplicaCluster(LocalHost(tmp_path, plain.nodes), plain).lacks(KILL.need)

    assert why is not None
    assert "stand still" in why
