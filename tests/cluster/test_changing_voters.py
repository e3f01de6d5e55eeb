"""Changes of voters on real replicas: each of them bites, is told as what it was, and is undone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nemesis.cluster.key_value_client import GROUP_LOG, KeyValueStore, StoreOptions
from nemesis.cluster.local import LocalHost
from nemesis.cluster.replica_options import ReplicaOptions, Timing, TopicOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.cluster.system import NotDoneError, UnknownOutcomeError
from nemesis.faults.injector import Injector
from nemesis.faults.values import ChangeVoters, VoterChange
from nemesis.history import METADATA_LOG, VOTERS_CHANGED, VOTERS_LEARNED
from nemesis.schedule import Action, Heal, Inject, Schedule, Step
from nemesis.workload.ending import why_not_converged
from tests.workload.recording import Recording

pytestmark = pytest.mark.cluster

PATIENCE_S = 40.0
SNAPSHOT_BYTES = 2048
FAST = ReplicaOptions(
    topics=TopicOptions(topic_count=0),
    timing=Timing(election_timeout_ms=300, fetch_timeout_ms=600, fetch_max_wait_ms=100, broker_session_timeout_ms=1500),
    store=StoreOptions(store_timeout_ms=8000, snapshot_record_bytes=SNAPSHOT_BYTES),
    dynamic_voters=True,
)


class Stage:
    """A cluster under an injector, with a client that writes."""

    def __init__(self, cluster: ReplicaCluster, folder: Path) -> None:
        self.cluster = cluster
        self.recording = Recording(folder)
        self.injector = Injector(cluster, self.recording.recorder)
        self.written = 0

    async def do(self, action: Action) -> None:
        """Do this now."""
        schedule = Schedule(name="test", time_limit_s=1, steps=(Step(at_s=0, action=action),))
        await self.injector.run(schedule, begin_s=asyncio.get_running_loop().time())

    async def write(self, store: KeyValueStore, number: int) -> None:
        """Write so many values, each at least once."""
        for _ in range(number):
            try:
                await store.put("key", self.written)
            except (NotDoneError, UnknownOutcomeError):
                continue
            self.written += 1

    async def leader(self) -> int | None:
        """Who leads the store's log."""
        state = await self.cluster.cluster_state()
        return None if state is None or GROUP_LOG not in state.partitions else state.partitions[GROUP_LOG].leader

    async def voters(self) -> tuple[int, ...] | None:
        """Who votes in the store's log."""
        return await self.cluster.voters.of(GROUP_LOG)

    async def missing(self) -> str | None:
        """Why the replicas do not agree."""
        return why_not_converged((GROUP_LOG,), await self.cluster.cluster_state(), await self.cluster.replica_states())

    def told(self) -> list[tuple[str, str, str]]:
        """The single steps that ended: (f, outcome, log)."""
        rows = [(f, json.loads(detail or "{}")) for f, _, detail in self.recording.nemesis_rows()]
        return [(f, told["outcome"], told.get("log", "")) for f, told in rows if "outcome" in told]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await asyncio.sleep(0.05)


async def test_voters_are_removed_replaced_and_handed_the_lead(tmp_path: Path) -> None:
    """Each change bites and is undone: who is removed votes no more, who is replaced loads a snapshot and votes again.

    One test for one cluster, since starting it is what takes the time.
    """
    cluster = ReplicaCluster(LocalHost(tmp_path, FAST.nodes), FAST)
    try:
        await cluster.open()
        await cluster.create_logs()
        store = cluster.store()
        stage = Stage(cluster, tmp_path / "recorded")
        await stage.write(store, 20)
        await _remove_the_leader(stage)
        await _hand_over(stage)
        replaced = await _replace_a_follower(stage, store)
        with pytest.raises(NotDoneError):
            await cluster.voters.add(GROUP_LOG, replaced)

        await stage.injector.heal_all()
        await until(lambda: _is_none(stage.missing()))
        answer = await store.get("key")
        await store.close()
        assert answer.found["key"].value == stage.written - 1
        assert await stage.voters() == await cluster.voters.of(METADATA_LOG) == (1, 2, 3)
    finally:
        await cluster.close()

    told = {
        report.event for report in cluster.reports() if (report.node, report.topic_partition) == (replaced, GROUP_LOG)
    }
    assert "snapshot-installed" in told
    assert told & {VOTERS_CHANGED, VOTERS_LEARNED}, "as a leader, or as one that was told"


async def _is_none(asked: Awaitable[str | None]) -> bool:
    return await asked is None


async def _remove_the_leader(stage: Stage) -> None:
    """Another leads, the one that led stays up, and votes again when that is healed."""
    removed = await stage.leader()
    assert removed is not None

    await stage.do(Inject(fault_id=0, fault=ChangeVoters(change=VoterChange.REMOVE, target="leader")))

    async def is_replaced() -> bool:
        return await stage.leader() not in (None, removed) and removed not in (await stage.voters() or (removed,))

    await until(is_replaced)
    assert stage.cluster.is_running(removed)
    with pytest.raises(NotDoneError):
        await stage.cluster.voters.remove(GROUP_LOG, removed)
    await stage.do(Heal(fault_id=0))
    await until(lambda: _has_told(stage, 2))
    assert stage.told() == [("remove-voter", "done", GROUP_LOG), ("add-voter", "done", GROUP_LOG)]
    assert await stage.voters() == (1, 2, 3)


async def _has_told(stage: Stage, number: int) -> bool:
    return len(stage.told()) >= number


async def _hand_over(stage: Stage) -> None:
    """The follower that was chosen leads; another may win the election, and then it is tried again."""
    outcomes = [await _hand_over_once(stage, fault_id) for fault_id in (10, 11, 12)]
    assert "done" in outcomes


async def _hand_over_once(stage: Stage, fault_id: int) -> str:
    await until(lambda: _is_none(stage.missing()))
    begun = len(stage.told())
    await stage.do(Inject(fault_id=fault_id, fault=ChangeVoters(change=VoterChange.TRANSFER, target="follower")))
    await until(lambda: _has_told(stage, begun + 1))
    await stage.do(Heal(fault_id=fault_id))
    f, outcome, log = stage.told()[-1]
    assert (f, log) == ("transfer-leadership", GROUP_LOG)
    return outcome


async def _replace_a_follower(stage: Stage, store: KeyValueStore) -> int:
    """While clients go on writing it loses its disk; it is removed from every log before that, and added to all."""
    begun = len(stage.told())
    await stage.do(Inject(fault_id=2, fault=ChangeVoters(change=VoterChange.REPLACE, target="follower")))
    ((words),) = stage.injector.open_faults
    node = int(words.rpartition("[")[2].rstrip("]"))

    async def is_back() -> bool:
        await stage.write(store, 20)
        return len(stage.told()) - begun >= 5

    await until(is_back)
    await stage.do(Heal(fault_id=2))
    logs = (METADATA_LOG, GROUP_LOG)
    assert stage.told()[begun:] == [
        *(("remove-voter", "done", log) for log in logs),
        ("replace-disk", "done", ""),
        *(("add-voter", "done", log) for log in logs),
    ]
    return node
