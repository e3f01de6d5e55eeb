"""The ``replica`` command against a running cluster."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from replica.cli.__main__ import main
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import ReplicaId
from tests.server.local_cluster import LocalCluster
from tests.server.topics import Topics

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("replica_cluster_cli")]  # They share a cluster.

ONE = ReplicaId(1)
READY_S_MAX = 10.0


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of one that runs, for all tests of this file."""
    with LocalCluster(tmp_path_factory.mktemp("lone"), size=1) as cluster:
        cluster.format()
        cluster.start()
        asyncio.run(wait_written(cluster))
        yield cluster


async def wait_written(cluster: LocalCluster) -> None:
    """Wait until the controller has decided something, and the cluster has come to rest."""
    topics = Topics(cluster.addresses)
    await topics.create(partitions=1, replication_factor=1, min_isr=1)
    await topics.write(0, "x")
    await topics.wait_same_copies(METADATA_LOG)
    await topics.close()


def replica(cluster: LocalCluster, command: str, *arguments: object) -> Result:
    bootstrap = ("--bootstrap", ",".join(cluster.addresses.values()))
    return CliRunner().invoke(main, [command, *bootstrap, *map(str, arguments)])


def test_status_shows_every_replica(lone: LocalCluster) -> None:
    """status prints role, epoch, leader and offsets in the metadata log, as a table and as JSON."""
    table = replica(lone, "status")
    (row,) = json.loads(replica(lone, "status", "--format", "json").output)
    assert table.exit_code == 0
    assert (row["role"], row["leader_id"], row["error"]) == ("leader", 1, None)
    led = [line for line in lone.lines(ONE) if line["event"] == "role_changed" and line["log"] == str(METADATA_LOG)]
    assert row["epoch"] == led[-1]["epoch"]
    assert row["high_watermark"] == row["log_end_offset"] == row["flushed_end_offset"]
    assert table.output.splitlines()[1].split()[:4] == [lone.addresses[ONE], "1", "leader", str(row["epoch"])]


@pytest.mark.parametrize("service", ["", "replica.v1.ReplicaService"])
def test_a_serving_replica_is_healthy(lone: LocalCluster, service: str) -> None:
    """health exits with 0 for the process, and for its services as soon as it is ready."""
    deadline_s = time.monotonic() + READY_S_MAX
    words = ["health", "--address", lone.addresses[ONE], "--service", service]
    while (result := CliRunner().invoke(main, words)).exit_code != 0 and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert (result.exit_code, result.output) == (0, "serving\n")
