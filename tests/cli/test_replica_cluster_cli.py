"""The ``replica`` command against a running cluster."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from replica.cli import main
from replica.ids import ReplicaId
from tests.server.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

ONE = ReplicaId(1)


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of one that runs, for all tests of this file."""
    cluster = LocalCluster(tmp_path_factory.mktemp("lone"), size=1)
    cluster.format()
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.close()


def replica(cluster: LocalCluster, command: str, *arguments: object, stdin: str | None = None) -> Result:
    bootstrap = [argument for item in cluster.addresses.items() for argument in ("--bootstrap", f"{item[0]}={item[1]}")]
    return CliRunner().invoke(main, [command, *bootstrap, *map(str, arguments)], input=stdin)


def test_what_is_produced_is_consumed(lone: LocalCluster) -> None:
    """Values from arguments and from standard input are appended in order and printed with their offsets."""
    by_arguments = replica(lone, "produce", "--timeout-ms", 20_000, "a", "b")
    by_stdin = replica(lone, "produce", stdin="c\nd\n")
    assert (by_arguments.exit_code, by_stdin.exit_code) == (0, 0)
    offsets = (by_arguments.output + by_stdin.output).split()
    consumed = replica(lone, "consume", "--from-offset", offsets[0])
    assert consumed.output.splitlines() == [f"{offset}\t{value}" for offset, value in zip(offsets, "abcd", strict=True)]
    limited = replica(lone, "consume", "--from-offset", offsets[0], "--max-records", 2, "--follow")
    assert limited.output.splitlines() == consumed.output.splitlines()[:2]


def test_an_offset_beyond_the_log_is_named(lone: LocalCluster) -> None:
    """consume from an offset that does not exist fails with the log's bounds."""
    replica(lone, "produce", "--timeout-ms", 20_000, "x")
    result = replica(lone, "consume", "--from-offset", 10_000)
    assert result.exit_code == 1
    assert "offset 10000 is outside the log" in result.output


def test_status_shows_every_replica(lone: LocalCluster) -> None:
    """status prints role, epoch, leader and offsets, as a table and as JSON."""
    replica(lone, "produce", "--timeout-ms", 20_000, "x")
    table = replica(lone, "status")
    (row,) = json.loads(replica(lone, "status", "--output", "json").output)
    assert table.exit_code == 0
    assert (row["role"], row["leader_id"], row["error"]) == ("leader", 1, None)
    assert row["high_watermark"] == row["log_end_offset"] == row["flushed_end_offset"]
    assert table.output.splitlines()[1].split()[:3] == ["1", "leader", str(row["epoch"])]


@pytest.mark.parametrize("service", ["", "replica.v1.ReplicaService"])
def test_a_serving_replica_is_healthy(lone: LocalCluster, service: str) -> None:
    """health exits with 0 for the process and for its services."""
    replica(lone, "produce", "--timeout-ms", 20_000, "x")
    result = CliRunner().invoke(main, ["health", "--address", lone.addresses[ONE], "--service", service])
    assert (result.exit_code, result.output) == (0, "serving\n")


def test_a_write_to_a_paused_replica_is_never_sent(lone: LocalCluster) -> None:
    """produce exits with 1 when the connection is accepted but nobody speaks: the write never left."""
    replica(lone, "produce", "--timeout-ms", 20_000, "x")
    lone.processes[ONE].send_signal(signal.SIGSTOP)
    try:
        never_connected = replica(lone, "produce", "--timeout-ms", 300, "y")
    finally:
        lone.processes[ONE].send_signal(signal.SIGCONT)
    assert never_connected.exit_code == 1
    assert never_connected.output.startswith("definitely not written: 'y'")
