"""Moves of partitions among real replicas: each of them bites, is told as what it was, and ends where it should."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import ReplicaOptions, Timing, TopicOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.errors import NotDoneError
from nemesis.faults.breakable import PartitionState
from nemesis.faults.moves import ALL_PLACED, Course, Reassign
from nemesis.schedules.schedule import Heal, Inject
from nemesis.workload.ending import why_not_converged
from tests.cluster.stage import NAME, Stage, running

pytestmark = pytest.mark.cluster

OPTIONS = ReplicaOptions(
    nodes=3,
    topics=TopicOptions(partitions=1, replication_factor=2, min_insync_replicas=1),
    timing=Timing(replica_fetch_wait_max_ms=50, leader_imbalance_check_interval_seconds=3600),
)
AWAY = Reassign(course=Course.MOVE, leader_goes=True)


class MovesStage(Stage):
    """A stage whose topic has one partition, on two of three replicas."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, OPTIONS)

    async def partition(self, holds: Callable[[PartitionState], bool]) -> PartitionState:
        """What is decided about the partition, as soon as it is as it should be."""
        while True:
            state = await self.cluster.cluster_state()
            if state is not None and holds(state.partitions[NAME]):
                return state.partitions[NAME]
            await asyncio.sleep(0.05)

    async def outcome(self, f: str) -> str:
        """What became of the first operation of that name, as soon as it has ended."""
        while True:
            for name, detail in self.details():
                if name == f and "outcome" in detail:
                    return str(detail["outcome"])
            await asyncio.sleep(0.05)


async def test_partitions_move_are_held_up_and_come_back(tmp_path: Path) -> None:
    """The leader's place is taken by others, who have all of it; a move to one who is down is cancelled by its healing.

    One test for one cluster, since starting it is what takes the time.
    """
    async with running(MovesStage(tmp_path)) as stage:
        for value in range(20):
            await stage.append(value)
        before = await stage.partition(lambda partition: partition.leader is not None)
        await _move_away(stage, before)
        await stage.append(20)
        await _hold_up(stage)
        await stage.injector.heal_all()
        while why_not_converged((NAME,), await stage.cluster.cluster_state(), await stage.cluster.replica_states()):
            await asyncio.sleep(0.1)
        after = await stage.partition(lambda now: bool(now.replicas))
        dumps = {node: await stage.cluster.dumps(node) for node in stage.cluster.nodes}

    have = {node: [dump for dump in found if dump.topic_partition == NAME] for node, found in dumps.items()}
    assert {node for node, found in have.items() if found} == set(after.replicas)
    for node in after.replicas:
        values = {value for batch in have[node][0].batches for value in batch.values or ()}
        assert values == set(range(21)), node
    assert stage.recording.harness_rows()[-1][:2] == (ALL_PLACED, "info")


async def _move_away(stage: MovesStage, before: PartitionState) -> None:
    """Who led has the partition no more, and the others have it, as many as before."""
    await stage.do(Inject(fault_id=0, fault=AWAY))
    moved = await stage.partition(lambda now: set(now.replicas) == {1, 2, 3} - {before.leader})
    await stage.partition(lambda now: set(now.isr) == set(now.replicas) and now.leader in moved.replicas)
    await stage.do(Heal(fault_id=0))
    assert await stage.outcome("move-replicas") == "done"
    assert len(moved.replicas) == 2


async def _hold_up(stage: MovesStage) -> None:
    """A partition that is to be on one more, who is down, stays on all of them until that is given up."""
    has = (await stage.partition(lambda now: bool(now.replicas))).replicas
    (down,) = {1, 2, 3} - set(has)
    await stage.cluster.kill(down)
    await stage.do(Inject(fault_id=1, fault=Reassign(course=Course.MOVE, more=1), draw=3))
    await stage.partition(lambda now: len(now.replicas) == 3 and down not in now.isr)
    assert await stage.cluster.moves.under_way() == frozenset({NAME})
    await stage.cluster.moves.cancel(NAME)
    await stage.partition(lambda now: set(now.replicas) == set(has))
    with pytest.raises(NotDoneError, match="NO_REASSIGNMENT_IN_PROGRESS"):
        await stage.cluster.moves.cancel(NAME)
    await stage.do(Heal(fault_id=1))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (ReplicaOptions(topics=TopicOptions(topic_count=0)), "no topics"),
        (
            ReplicaOptions(nodes=1, topics=TopicOptions(replication_factor=1, min_insync_replicas=1)),
            "one node only",
        ),
        (ReplicaOptions(), None),
    ],
)
def test_where_nothing_can_move_that_is_said_before(tmp_path: Path, options: ReplicaOptions, why: str | None) -> None:
    """A cluster without topics, and one of a single node, refuse before they are started; three of three can move."""
    said = ReplicaCluster(LocalHost(tmp_path, options.nodes), options).lacks(AWAY.need)

    assert (said is None) if why is None else (said is not None and why in said)
