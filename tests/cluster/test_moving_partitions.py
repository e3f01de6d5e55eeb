"""Moves of partitions among real replicas: each of them bites, is told as what it was, and ends where it should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import ReplicaOptions, Timing, TopicOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.cluster.system import LogClient, NotDoneError, PartitionState, UnknownOutcomeError
from nemesis.faults.injector import Injector
from nemesis.faults.moves import ALL_PLACED
from nemesis.faults.values import Course, Reassign
from nemesis.schedule import Action, Heal, Inject, Schedule, Step
from nemesis.workload.ending import why_not_converged
from tests.workload.recording import Recording

pytestmark = pytest.mark.cluster

PATIENCE_S = 90.0
NAME = "topic1-0"
OPTIONS = ReplicaOptions(
    nodes=3,
    topics=TopicOptions(partitions=1, replication_factor=2, min_insync_replicas=1),
    timing=Timing(replica_fetch_wait_max_ms=50, leader_imbalance_check_interval_seconds=3600),
)
AWAY = Reassign(course=Course.MOVE, leader_goes=True)


class Rig:
    """A cluster with a topic, a client, and an injector."""

    def __init__(self, folder: Path) -> None:
        self.cluster = ReplicaCluster(LocalHost(folder, OPTIONS.nodes), OPTIONS)
        self.recording = Recording(folder / "recorded")
        self.injector = Injector(self.cluster, self.recording.recorder)

    async def do(self, action: Action) -> None:
        """Do a step of a schedule at once."""
        schedule = Schedule(name="test", time_limit_s=1, steps=(Step(at_s=0, action=action),))
        await self.injector.run(schedule, begin_s=asyncio.get_running_loop().time())

    async def append(self, client: LogClient, value: int) -> None:
        """Append until it is acknowledged."""
        while True:
            try:
                await client.append(NAME, value)
                return
            except (NotDoneError, UnknownOutcomeError):
                await asyncio.sleep(0.05)

    async def partition(self, holds: Callable[[PartitionState], bool]) -> PartitionState:
        """What is decided about the partition, as soon as it is as it should be."""
        while True:
            state = await self.cluster.cluster_state()
            if state is not None and holds(state.partitions[NAME]):
                return state.partitions[NAME]
            await asyncio.sleep(0.05)

    async def told(self, f: str) -> str:
        """What became of the first operation of that name, as soon as it has ended."""
        while True:
            for name, _, detail in self.recording.nemesis_rows():
                if name == f and "outcome" in (told := json.loads(detail or "{}")):
                    return str(told["outcome"])
            await asyncio.sleep(0.05)


async def test_partitions_move_are_held_up_and_come_back(tmp_path: Path) -> None:
    """The leader's place is taken by others, who have all of it; a move to one who is down is cancelled by its healing.

    One test for one cluster, since starting it is what takes the time.
    """
    rig = Rig(tmp_path)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await rig.cluster.open()
            await rig.cluster.create_logs()
            client = rig.cluster.client()
            for value in range(20):
                await rig.append(client, value)
            before = await rig.partition(lambda partition: partition.leader is not None)
            await _move_away(rig, before)
            await rig.append(client, 20)
            await _hold_up(rig)
            await rig.injector.heal_all()
            while why_not_converged((NAME,), await rig.cluster.cluster_state(), await rig.cluster.replica_states()):
                await asyncio.sleep(0.1)
            after = await rig.partition(lambda now: bool(now.replicas))
            dumps = {node: await rig.cluster.dumps(node) for node in rig.cluster.nodes}
            await client.close()
    finally:
        await rig.injector.abandon()
        await rig.cluster.close()

    have = {node: [dump for dump in found if dump.topic_partition == NAME] for node, found in dumps.items()}
    assert {node for node, found in have.items() if found} == set(after.replicas)
    for node in after.replicas:
        values = {value for batch in have[node][0].batches for value in batch.values or ()}
        assert values == set(range(21)), node
    assert rig.recording.harness_rows()[-1][:2] == (ALL_PLACED, "info")


async def _move_away(rig: Rig, before: PartitionState) -> None:
    """Who led has the partition no more, and the others have it, as many as before."""
    await rig.do(Inject(fault_id=0, fault=AWAY))
    moved = await rig.partition(lambda now: set(now.replicas) == {1, 2, 3} - {before.leader})
    await rig.partition(lambda now: set(now.isr) == set(now.replicas) and now.leader in moved.replicas)
    await rig.do(Heal(fault_id=0))
    assert await rig.told("move-replicas") == "done"
    assert len(moved.replicas) == 2


async def _hold_up(rig: Rig) -> None:
    """A partition that is to be on one more, who is down, stays on all of them until that is given up."""
    has = (await rig.partition(lambda now: bool(now.replicas))).replicas
    (down,) = {1, 2, 3} - set(has)
    await rig.cluster.kill(down)
    await rig.do(Inject(fault_id=1, fault=Reassign(course=Course.MOVE, more=1), draw=3))
    await rig.partition(lambda now: len(now.replicas) == 3 and down not in now.isr)
    assert await rig.cluster.moves.under_way() == frozenset({NAME})
    await rig.cluster.moves.cancel(NAME)
    await rig.partition(lambda now: set(now.replicas) == set(has))
    with pytest.raises(NotDoneError, match="NO_REASSIGNMENT_IN_PROGRESS"):
        await rig.cluster.moves.cancel(NAME)
    await rig.do(Heal(fault_id=1))


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
    said = ReplicaCluster(LocalHost(tmp_path, options.nodes), options).unsupported(AWAY)

    assert (said is None) if why is None else (said is not None and why in said)
