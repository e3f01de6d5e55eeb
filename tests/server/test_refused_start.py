"""A start that is refused leaves the data directory as it was, the marker of the last clean stop included."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from replica.core.metadata.replay import METADATA_LOG
from replica.ids import ReplicaId, TopicPartition
from tests.server.local_cluster import LocalCluster, run_replica
from tests.server.topics import Topics

pytestmark = pytest.mark.cluster

ONE = ReplicaId(1)
LOG = TopicPartition("t", 0)

Obstacle = Callable[[LocalCluster], AbstractContextManager[str]]


@pytest.fixture
async def stopped(lone: LocalCluster) -> LocalCluster:
    """A cluster of one that was stopped cleanly with a record in its one partition."""
    lone.start()
    async with Topics(lone.addresses) as topics:
        await topics.create(partitions=1, replication_factor=1, min_isr=1)
        await topics.write(0, "kept")
    assert lone.stop(ONE) == 0
    return lone


@contextmanager
def taken_port(cluster: LocalCluster) -> Iterator[str]:
    """Let somebody who speaks no gRPC listen on the replica's port."""
    host, _, port = cluster.addresses[ONE].rpartition(":")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, int(port)))
        other.listen()
        yield f"replica: cannot start: cannot listen on {cluster.addresses[ONE]}: the port is taken"


@contextmanager
def corrupt_quorum_state(cluster: LocalCluster) -> Iterator[str]:
    """Damage the file that holds the vote."""
    path = cluster.data_dir(ONE) / str(METADATA_LOG) / "quorum-state"
    path.write_bytes(path.read_bytes()[:-5])
    yield f"{path}: the file is not JSON"


@contextmanager
def damaged_segment(cluster: LocalCluster) -> Iterator[str]:
    """Flip a bit in the last batch, which even a clean start reads."""
    segment = cluster.segment(ONE, METADATA_LOG)
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(bytes(data))
    yield "was flushed and may not be cut"


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("obstacle", [taken_port, corrupt_quorum_state, damaged_segment])
def test_a_refused_start_changes_nothing(stopped: LocalCluster, obstacle: Obstacle) -> None:
    """Whatever forbids the start is one sentence, and every file is as it was: the next start is as quick as ever."""
    with obstacle(stopped) as sentence:
        before = files_of(stopped.data_dir(ONE))
        ended = run_replica(*stopped.start_arguments(ONE), check=False)
        assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)
        assert sentence in ended.stderr.splitlines()[-1]
        assert '"event": "start_refused"' in ended.stderr
        assert files_of(stopped.data_dir(ONE)) == before
        assert ".kafka_cleanshutdown" in before


def test_a_name_of_which_one_address_is_taken_is_refused(stopped: LocalCluster) -> None:
    """Where a host has several addresses, all must be free: else a stranger gets the calls to the one that is not."""
    port = stopped.addresses[ONE].rpartition(":")[2]
    with taken_port(stopped):
        ended = run_replica(*stopped.start_arguments(ONE), "--listen", f"localhost:{port}", check=False)
    assert (ended.returncode, "the port is taken" in ended.stderr) == (1, True)


def test_partitions_without_a_broker_are_refused(stopped: LocalCluster) -> None:
    """A process that would leave its partitions to nobody says so, and keeps the marker of the last clean stop."""
    marker = stopped.data_dir(ONE) / ".kafka_cleanshutdown"
    before = marker.read_bytes()
    ended = run_replica(*stopped.start_arguments(ONE), "--roles", "controller", check=False)

    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)
    assert "holds 1 partitions (t-0 is one), which only a broker can keep" in ended.stderr
    assert marker.read_bytes() == before
