"""A run by mutual TLS with access control lists, while certificates and their authority are replaced."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.cluster.replicas import ReplicaCluster
from nemesis.faults.certificates import RotateCertificates
from nemesis.faults.processes import Kill
from nemesis.faults.targets import Role
from nemesis.history.reader import read_history
from nemesis.pipeline import judge_run
from nemesis.runner import RunOptions, new_folder, record_run, write_documents
from nemesis.schedules.schedule import Heal, Inject, Schedule, Step
from nemesis.verdict import Verdict
from tests.cluster.test_replica_cluster import running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

TLS = ReplicaOptions(tls=True)
STUBBORN = ("-m", "tests.cluster.stubborn_replica")
SCHEDULE = Schedule(
    name="rotation",
    time_limit_s=10.0,
    steps=(
        Step(at_s=1.0, action=Inject(fault_id=0, fault=RotateCertificates(), draw=0)),
        Step(at_s=3.0, action=Heal(fault_id=0)),
        Step(at_s=4.0, action=Inject(fault_id=1, fault=Kill(target=Role.LEADER), draw=0)),
        Step(at_s=6.0, action=Heal(fault_id=1)),
    ),
)


async def recorded(store: Path, cluster: ReplicaOptions) -> tuple[Path, dict[str, str | None]]:
    """The folder of a run, and for each of its operations that are no client's how it ended."""
    options = RunOptions(seed=1, rate=50.0, cluster=cluster)
    folder = new_folder(store, datetime.now(UTC))
    write_documents(folder, options, SCHEDULE, ["nemesis"], datetime.now(UTC))
    await record_run(folder, options, SCHEDULE, lambda _: None)
    rows = read_history(folder).to_pylist()
    return folder, {row["f"]: row["error"] for row in rows if row["process"] < 0 and row["type"] != "invoke"}


async def all_shown(cluster: ReplicaCluster) -> Mapping[int, bool]:
    """Who shows its newest certificate, when all have answered."""
    while len(shown := await cluster.certificates.shown(cluster.nodes)) < len(cluster.nodes):
        await asyncio.sleep(0.1)
    return shown


async def test_a_run_by_tls_is_valid_and_all_show_the_new_certificates(tmp_path: Path) -> None:
    """Every replica shows its new certificate, a leader is killed and is back with that, and all promises are kept."""
    folder, ended = await recorded(tmp_path, TLS)
    assert (ended["rotate-certificates"], ended["retire-authority"]) == (None, None)
    rows = read_history(folder).to_pylist()
    (healed,) = [row for row in rows if row["f"] == "retire-authority" and row["type"] == "info"]
    assert json.loads(healed["detail"])["shown"] == [1, 2, 3]
    judgement = judge_run(folder, engine="local")
    assert judgement.verdict is Verdict.VALID, judgement.reasons


async def test_a_replica_that_does_not_read_its_files_again_is_found_out(tmp_path: Path) -> None:
    """It shows the certificate that was replaced, and the healing says so."""
    async with running(tmp_path, replace(TLS, server=STUBBORN)) as cluster:
        assert await all_shown(cluster) == {1: True, 2: True, 3: True}
        await cluster.certificates.renew()
        assert await all_shown(cluster) == {1: True, 2: False, 3: True}
