"""Snapshots in a real cluster: the log is shortened by them, and a replica that was away is brought up with one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replica.core.messages import ApplyRequest, ApplyResponse, Consistency, QueryRequest, QueryResponse
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition
from replica.machines import Answered, PlainCommand, decode_outcome, encode_entry
from replica.rpc.transport import GrpcTransport, TransportError
from tests.server.local_cluster import LocalCluster
from tests.server.topics import eventually

pytestmark = pytest.mark.cluster

KV = TopicPartition("kv", 0)
OPTIONS = (
    *("--group", "kv=counter"),
    *("--group-snapshot-max-record-bytes-between", "3000"),
    *("--log-segment-bytes", "1024"),
)
"""A snapshot every forty commands or so, and a few segments in between."""


class Counting:
    """A client that counts up, at whoever leads."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.leader = cluster.ids[0]
        self._others = cluster.ids
        self.transport = GrpcTransport(cluster.addresses.__getitem__)

    async def count(self, times: int) -> int:
        """Add one so many times, each until it is acknowledged; the sum."""
        answers = [await eventually(self._add, lambda answer: answer is not None) for _ in range(times)]
        assert answers[-1] is not None
        (outcome,) = answers[-1].outcomes
        counted = decode_outcome(outcome)
        assert isinstance(counted, Answered)
        return int(counted.reply)

    async def _add(self) -> ApplyResponse | None:
        entries = (encode_entry(PlainCommand(command=b"1")),)
        request = ApplyRequest(topic_partition=KV, entries=entries, timeout_ms=3000)
        try:
            answer = await self.transport.call(self.leader, request, 4000)
        except TransportError:
            answer = None
        if isinstance(answer, ApplyResponse) and answer.error is ErrorCode.NONE:
            return answer
        self.leader = self._others[(self._others.index(self.leader) + 1) % len(self._others)]
        return None

    async def seen_by(self, replica_id: ReplicaId) -> bytes | None:
        """The sum as one replica has it; absent where it does not say."""
        request = QueryRequest(topic_partition=KV, requests=(b"",), consistency=Consistency.STALE, timeout_ms=1000)
        try:
            answer = await self.transport.call(replica_id, request, 2000)
        except TransportError:
            return None
        assert isinstance(answer, QueryResponse)
        outcome = decode_outcome(answer.outcomes[0]) if answer.error is ErrorCode.NONE else None
        return outcome.reply if isinstance(outcome, Answered) else None


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """Three replicas that host a counter."""
    with LocalCluster(tmp_path) as cluster:
        cluster.format()
        cluster.start(options=OPTIONS)
        yield cluster


def files_of(cluster: LocalCluster, replica_id: ReplicaId, suffix: str) -> list[str]:
    """The files of one kind in the folder of the group's log."""
    folder = cluster.data_dir(replica_id) / str(KV)
    return sorted(path.name for path in folder.iterdir() if path.suffix == suffix)


def events_of(cluster: LocalCluster, replica_id: ReplicaId) -> set[str]:
    """What a replica's log lines tell of."""
    return {line["event"] for line in cluster.lines(replica_id)}


async def test_a_replica_that_was_away_is_brought_up_with_a_snapshot(cluster: LocalCluster) -> None:
    """The log's beginning gives way to two snapshots; who needs it loads the newest, and goes on from there."""
    client = Counting(cluster)
    total = await client.count(50)
    away = next(replica_id for replica_id in cluster.ids if replica_id != client.leader)
    cluster.kill(away)
    total = await client.count(150)
    assert files_of(cluster, client.leader, ".log")[0] > f"{total // 2:020d}"
    assert len(files_of(cluster, client.leader, ".checkpoint")) == 2
    assert "snapshot_installed" not in events_of(cluster, away)

    cluster.start(away, options=OPTIONS)
    await eventually(lambda: client.seen_by(away), lambda seen: seen == b"%d" % total)
    assert "snapshot_installed" in events_of(cluster, away)

    cluster.kill(away)
    cluster.start(away, options=OPTIONS)
    total = await client.count(5)
    await eventually(lambda: client.seen_by(away), lambda seen: seen == b"%d" % total)
    assert "halted" not in events_of(cluster, away)
    await client.transport.close()
