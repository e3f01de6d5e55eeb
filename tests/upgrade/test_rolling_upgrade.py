"""A cluster of an earlier release is upgraded replica by replica under load, and then its feature level is raised.

The earlier release is a commit of this repository's history, built and run beside this one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from nemesis.cluster.closing import closed_by
from nemesis.cluster.replica_options import ReplicaOptions, Timing, TopicOptions
from nemesis.cluster.replicas import CLUSTER_ID, ReplicaCluster
from nemesis.cluster.system import Report
from nemesis.errors import NodeFailedError, NotDoneError, UnknownOutcomeError
from nemesis.faults.links import CONTROL
from nemesis.history import APPEND, METADATA_LOG, EventType
from nemesis.history.events import BECAME_LEADER, OFFLINE
from nemesis.history.reader import read_history
from nemesis.history.recorder import Clock
from nemesis.history.writer import HistoryWriter
from nemesis.pipeline.engine import judge_run
from nemesis.runner import READS, OpenRun, RunOptions, write_documents
from nemesis.schedules.schedule import Schedule
from nemesis.verdict import Verdict
from nemesis.workload.ending import ReportWriter
from replica.client.admin import Admin
from replica.client.cluster_view import ViewConfig
from replica.client.failures import AdminError
from replica.core.messages import ElectionType
from replica.ids import ReplicaId, TopicPartition
from tests.depth import at_night
from tests.upgrade.releases import THIS, TwoReleases, earlier_release

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

PATIENT = Timing(
    election_timeout_ms=3000,
    election_backoff_max_ms=1000,
    fetch_timeout_ms=6000,
    request_timeout_ms=5000,
    broker_session_timeout_ms=15_000,
    controller_request_timeout_ms=5000,
    replica_lag_time_max_ms=20_000,
    replica_socket_timeout_ms=5000,
    handover_wait_ms=10_000,
)
"""Nobody is to be taken for dead who has only little of the processor."""
LOOK_S = 0.1
OPTIONS = RunOptions(
    seed=26,
    rate=40.0,
    concurrency=4,
    cluster=ReplicaOptions(topics=TopicOptions(partitions=3), timing=PATIENT),
)
STARTS_MAX = 5
LONG_S = 800.0
"""The run ends when the upgrade is done, which is long before."""
SOME = 20
"""So many writes are acknowledged in each state of the cluster before it goes on to the next."""
LOGS = OPTIONS.cluster.topics.names


class PatientCluster(ReplicaCluster):
    """Replicas that are started anew where they do not serve in time: a machine may have much else to do."""

    async def start(self, node: int) -> None:
        """Start a replica. Raises NodeFailedError when it was in vain for good."""
        for _ in range(STARTS_MAX - 1):
            with suppress(NodeFailedError):
                return await super().start(node)
        return await super().start(node)


class Upgraded:
    """A cluster whose replicas run one of two releases each, and what is done to it."""

    def __init__(self, folder: Path, earlier: Path) -> None:
        self.earlier = earlier
        self.host = TwoReleases(folder, OPTIONS.cluster.nodes, earlier)
        self.cluster = PatientCluster(self.host, OPTIONS.cluster)
        self.reports: Sequence[Report] = ()
        """What the replicas had reported when the run had ended, and before they were all stopped."""
        self.led: set[tuple[str, bool, bool]] = set()
        """What was seen while writes went on: a log, whether its leader's release is new, and a follower's."""

    def admin(self) -> Admin:
        """A client for administrators, which no link stands in the way of."""
        dial = {ReplicaId(node): address for node, address in self.host.addresses(CONTROL).items()}
        return Admin(dial.values(), ViewConfig(cluster_id=CLUSTER_ID, dial=dial))

    async def run_release(self, node: int, release: Path) -> None:
        """Let a node run this release, and wait until all are in sync."""
        await self.cluster.stop(node)
        self.host.runs[node] = release
        await self.cluster.start(node)
        await self._until(self._all_are_in_sync)

    async def lead(self, node: int) -> None:
        """Let a node lead the metadata, and each partition be led by its preferred replica."""
        while not await self._is_controller(node):
            with suppress(NotDoneError, UnknownOutcomeError):
                await self.cluster.voters.transfer(METADATA_LOG, node)
        async with self.admin() as admin:
            for log in LOGS:
                topic, _, number = log.rpartition("-")
                with suppress(AdminError):  # It is led so already.
                    await admin.elect_leader(TopicPartition(topic, int(number)), ElectionType.PREFERRED)

    async def look(self) -> None:
        """Note which release leads what, and which follows."""
        state = await self.cluster.cluster_state()
        if state is None:
            return
        is_new = {node: self.host.runs[node] != self.earlier for node in self.host.nodes}
        leaders = {METADATA_LOG: state.controller} | {log: state.partitions[log].leader for log in LOGS}
        for log, leader in leaders.items():
            if leader is not None:
                self.led |= {(log, is_new[leader], is_new[node]) for node in self.host.nodes if node != leader}

    async def raise_level(self, level: int) -> None:
        """Raise the feature level, as soon as the controller has heard from everybody."""
        async with self.admin() as admin:
            while True:
                try:
                    return await admin.update_features(level)
                except AdminError as error:
                    if "has not fetched" not in str(error):
                        raise
                    await asyncio.sleep(LOOK_S)

    async def _is_controller(self, node: int) -> bool:
        state = await self.cluster.cluster_state()
        return state is not None and state.controller == node

    async def _all_are_in_sync(self) -> bool:
        state = await self.cluster.cluster_state()
        return state is not None and all(len(state.partitions[log].isr) == OPTIONS.cluster.nodes for log in LOGS)

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        while not await condition():
            await asyncio.sleep(LOOK_S)


class UpgradingRun(OpenRun):
    """A run of the workload beside which a cluster is upgraded, and which ends thereafter."""

    upgraded: Upgraded

    async def _end_at_anomaly(self, over: asyncio.Event) -> None:
        upgraded, (first, *others) = self.upgraded, self.upgraded.host.nodes
        await self._some_writes()
        await upgraded.run_release(first, THIS)
        await upgraded.lead(first)
        await self._some_writes()
        with pytest.raises(AdminError, match="replica 2 knows 1 at the most, replica 3 knows 1 at the most"):
            await upgraded.raise_level(2)
        await upgraded.lead(others[0])
        await self._some_writes()
        await upgraded.run_release(first, upgraded.earlier)  # Until the level is raised there is a way back.
        await self._some_writes()
        for node in (first, *others):
            await upgraded.run_release(node, THIS)
            await self._some_writes()
        await upgraded.raise_level(2)
        await self._some_writes()
        with pytest.raises(AdminError, match="at feature level 2, which is never lowered"):
            await upgraded.raise_level(1)
        over.set()

    async def _some_writes(self) -> None:
        """Let the workload go on until it has had some more writes acknowledged."""
        wanted = self._acknowledged() + SOME
        while self._acknowledged() < wanted:
            await asyncio.sleep(LOOK_S)
        await self.upgraded.look()

    def _acknowledged(self) -> int:
        changes, _ = self._recorder.counted(READS)
        return changes[EventType.OK]


async def recorded(folder: Path, upgraded: Upgraded) -> None:
    """Record the run in ``folder``."""
    schedule = Schedule(name="rolling-upgrade", time_limit_s=LONG_S, steps=())
    write_documents(folder, OPTIONS, schedule, (), datetime.now(UTC))
    cluster = upgraded.cluster
    with HistoryWriter(folder) as writer:
        clock = Clock()
        reports = ReportWriter(writer, clock)
        run = UpgradingRun(cluster, writer, clock, reports, OPTIONS, schedule, lambda _: None)
        run.upgraded = upgraded
        async with closed_by(lambda: reports.write_new(cluster.reports()), cluster.close):
            await cluster.open()
            await run.record()
            upgraded.reports = cluster.reports()


async def test_nothing_is_lost_and_no_window_without_a_leader_is_longer_than_one_election(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Each release leads the other and reads its disks, the history is valid, and every election has elected somebody.

    What the level needs is refused in words until all know it, and so is the way back. (The longest time without an
    acknowledged write is reported, and judged by nobody: it is the machine's.)
    """
    upgraded = Upgraded(tmp_path, earlier_release(tmp_path / "earlier"))
    await recorded(tmp_path, upgraded)

    judgement = judge_run(tmp_path, engine="local")
    assert judgement.verdict is Verdict.VALID, (judgement.reasons, judgement.anomalies[:5])
    for log in (METADATA_LOG, *LOGS):
        assert {(log, True, False), (log, False, True)} & upgraded.led, (log, upgraded.led)
    assert {(METADATA_LOG, True, False), (METADATA_LOG, False, True)} <= upgraded.led
    assert not [report for report in upgraded.reports if report.event in {OFFLINE, "died", "halted"}]
    elected = (r for r in upgraded.reports if (r.event, r.topic_partition) == (BECAME_LEADER, METADATA_LOG))
    epochs = sorted({report.epoch or 0 for report in elected})
    assert epochs == list(range(epochs[0], epochs[-1] + 1)), f"not every epoch had a leader: {epochs}"
    rows = read_history(tmp_path).select(["f", "type", "time_ns"]).to_pylist()
    times_s = np.array([row["time_ns"] for row in rows if (row["f"], row["type"]) == (APPEND, EventType.OK)]) / 1e9
    told = {
        "acknowledged": len(times_s),
        "seconds": round(float(times_s[-1] - times_s[0]), 1),
        "longest_seconds_without": round(float(np.diff(times_s).max()), 2),
        "elections_of_the_metadata": len(epochs),
    }
    record_property("rolling_upgrade", json.dumps(told))
    sys.stdout.write(f"{told}\n")


@at_night("builds the earlier release again")
async def test_a_level_that_is_raised_unasked_halts_a_replica_of_the_earlier_release(tmp_path: Path) -> None:
    """What the controller refuses is no formality: at the first record of level 2 the earlier release stops."""
    unguarded = ("-m", "tests.upgrade.unguarded")
    upgraded = Upgraded(tmp_path, earlier_release(tmp_path / "earlier"))
    cluster, (first, *others) = upgraded.cluster, upgraded.host.nodes
    async with closed_by(cluster.close):
        await cluster.open()
        await cluster.create_logs()
        upgraded.host.servers[first] = unguarded
        await upgraded.run_release(first, THIS)
        await upgraded.lead(first)
        with suppress(AdminError):  # Those that halt are most of the voters, so that perhaps nobody says it is done.
            await upgraded.raise_level(2)
        while any(cluster.is_running(node) for node in others):
            await asyncio.sleep(LOOK_S)
        halted = {report.node: report.detail for report in cluster.reports() if report.event == "halted"}
        assert set(halted) == set(others)
        assert all("unknown tag 11" in (detail or "") for detail in halted.values()), halted
