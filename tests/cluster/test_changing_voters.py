"""Changes of voters on real replicas: each of them bites, is told as what it was, and is undone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nemesis.cluster.key_value_client import GROUP_LOG, KeyValueStore, StoreOptions
from nemesis.cluster.replica_options import ReplicaOptions, Timing, TopicOptions
from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.faults.voters import ChangeVoters, VoterChange
from nemesis.history import METADATA_LOG, VOTERS_CHANGED, VOTERS_LEARNED
from nemesis.schedules.schedule import Heal, Inject
from nemesis.workload.ending import why_not_converged
from tests.cluster.stage import Stage, running

pytestmark = pytest.mark.cluster

SNAPSHOT_BYTES = 2048
FAST = ReplicaOptions(
    topics=TopicOptions(topic_count=0),
    timing=Timing(election_timeout_ms=300, fetch_timeout_ms=600, fetch_max_wait_ms=100, broker_session_timeout_ms=1500),
    store=StoreOptions(store_timeout_ms=8000, snapshot_record_bytes=SNAPSHOT_BYTES),
)


class VoterStage(Stage):
    """A stage with a group's log, whose client writes so many values."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FAST)
        self.written = 0

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

    def steps(self) -> list[tuple[str, str, str]]:
        """The single steps that ended: (f, outcome, log)."""
        return [(f, told["outcome"], told.get("log", "")) for f, told in self.details() if "outcome" in told]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so."""
    while not await holds():
        await asyncio.sleep(0.05)


async def test_voters_are_removed_replaced_and_handed_the_lead(tmp_path: Path) -> None:
    """Each change bites and is undone: who is removed votes no more, who is replaced loads a snapshot and votes again.

    One test for one cluster, since starting it is what takes the time.
    """
    async with running(VoterStage(tmp_path)) as stage:
        store = stage.cluster.store()
        await stage.write(store, 20)
        await _remove_the_leader(stage)
        await _hand_over(stage)
        replaced = await _replace_a_follower(stage, store)
        with pytest.raises(NotDoneError):
            await stage.cluster.voters.add(GROUP_LOG, replaced)

        await stage.injector.heal_all()
        await until(lambda: _is_none(stage.missing()))
        answer = await store.get("key")
        await store.close()
        assert answer.found["key"].value == stage.written - 1
        assert await stage.voters() == await stage.cluster.voters.of(METADATA_LOG) == (1, 2, 3)

    reports = stage.cluster.reports()
    told = {report.event for report in reports if (report.node, report.topic_partition) == (replaced, GROUP_LOG)}
    assert "snapshot-installed" in told
    assert told & {VOTERS_CHANGED, VOTERS_LEARNED}, "as a leader, or as one that was told"


async def _is_none(asked: Awaitable[str | None]) -> bool:
    return await asked is None


async def _remove_the_leader(stage: VoterStage) -> None:
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
    assert stage.steps() == [("remove-voter", "done", GROUP_LOG), ("add-voter", "done", GROUP_LOG)]
    assert await stage.voters() == (1, 2, 3)


async def _has_told(stage: VoterStage, number: int) -> bool:
    return len(stage.steps()) >= number


async def _hand_over(stage: VoterStage) -> None:
    """The follower that was chosen leads; another may win the election, and then it is tried again."""
    outcomes = [await _hand_over_once(stage, fault_id) for fault_id in (10, 11, 12)]
    assert "done" in outcomes


async def _hand_over_once(stage: VoterStage, fault_id: int) -> str:
    await until(lambda: _is_none(stage.missing()))
    begun = len(stage.steps())
    await stage.do(Inject(fault_id=fault_id, fault=ChangeVoters(change=VoterChange.TRANSFER, target="follower")))
    await until(lambda: _has_told(stage, begun + 1))
    await stage.do(Heal(fault_id=fault_id))
    f, outcome, log = stage.steps()[-1]
    assert (f, log) == ("transfer-leadership", GROUP_LOG)
    return outcome


async def _replace_a_follower(stage: VoterStage, store: KeyValueStore) -> int:
    """While clients go on writing it loses its disk; it is removed from every log before that, and added to all."""
    begun = len(stage.steps())
    await stage.do(Inject(fault_id=2, fault=ChangeVoters(change=VoterChange.REPLACE, target="follower")))
    ((words),) = stage.injector.open_faults
    node = int(words.rpartition("[")[2].rstrip("]"))

    async def is_back() -> bool:
        await stage.write(store, 20)
        return len(stage.steps()) - begun >= 5

    await until(is_back)
    await stage.do(Heal(fault_id=2))
    logs = (METADATA_LOG, GROUP_LOG)
    assert stage.steps()[begun:] == [
        *(("remove-voter", "done", log) for log in logs),
        ("empty-disk", "done", ""),
        *(("add-voter", "done", log) for log in logs),
    ]
    return node
