"""A replica that leaks is convicted by what the harness sees of its process."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nemesis.cluster.resources import RESOURCES_NAME, resources_kept
from nemesis.drift.judgement import Drift, judge
from nemesis.drift.series import looks_in, of_replicas
from tests.cluster.test_replica_cluster import FAST, running

pytestmark = pytest.mark.cluster

LOOKS = 45
EVERY_S = 0.25
SERVER = ("-m", "tests.drift.leaking_replica")


@pytest.mark.timeout(180)
async def test_a_replica_that_leaks_is_convicted_and_the_others_are_not(tmp_path: Path) -> None:
    """Memory and descriptors of the one replica that leaks drift, and no others do."""
    begin_ns = time.monotonic_ns()
    async with running(tmp_path, replace(FAST, server=SERVER)) as cluster:
        await cluster.create_logs()
        async with resources_kept(cluster, tmp_path, lambda: time.monotonic_ns() - begin_ns, every_s=EVERY_S):
            while len((tmp_path / RESOURCES_NAME).read_text().splitlines()) < LOOKS * len(cluster.nodes):
                await asyncio.sleep(EVERY_S)
    looks = looks_in(tmp_path / RESOURCES_NAME, 0.0, float("inf"))
    judged = judge(tuple(of_replicas(looks, EVERY_S)), EVERY_S)
    drifts = {(one.quantity, one.node) for one in judged if one.drift is Drift.FOUND}
    assert drifts == {("resident_bytes", 2), ("descriptors", 2)}, [one.told for one in judged]
