"""Whoever speaks in the name of a replica to a real cluster: nobody halts, nobody is misled, and writes go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # ships no types

from replica.client import KeyValueClient
from replica.core import messages as m
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import EPOCH_MAX, BrokerEpoch, Epoch, Offset, ReplicaId, TopicPartition
from replica.records import encode_batch
from replica.rpc.transport import GrpcTransport, TransportError
from tests.depth import at_night, times
from tests.server.local_cluster import LocalCluster
from tests.server.topics import Topics, eventually

pytestmark = pytest.mark.cluster

ONE, TWO, THREE = ReplicaId(1), ReplicaId(2), ReplicaId(3)
CLUSTER = "test"
VOTES = times(96)
"""How many are forged to each voter."""


LISTENERS = [
    pytest.param(False, id="one_listener"),
    pytest.param(True, id="peer_listeners", marks=at_night("as over the one listener")),
]


@pytest.fixture(params=LISTENERS)
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Three replicas, with listeners of their own for each other or without."""
    with LocalCluster(tmp_path, with_peer_listeners=request.param) as cluster:
        cluster.format(cluster_id=CLUSTER)
        cluster.start(options=("--group", "kv=key-value"))
        yield cluster


@pytest.fixture
async def topics(cluster: LocalCluster) -> AsyncIterator[Topics]:
    """A topic of three partitions on all of them, by the addresses of clients."""
    async with Topics(cluster.addresses) as topics:
        await topics.create(partitions=3, replication_factor=3, min_isr=2)
        for partition in range(3):
            await topics.write(partition, "before")
        yield topics


@pytest.fixture
async def peers(cluster: LocalCluster) -> AsyncIterator[GrpcTransport]:
    """A way to where replicas listen to each other."""
    transport = GrpcTransport(cluster.peer_addresses.__getitem__)
    yield transport
    await transport.close()


async def leader_of(transport: GrpcTransport) -> m.CurrentLeader:
    """Who leads the metadata log, as soon as somebody does."""

    async def ask() -> m.CurrentLeader | None:
        answer = await transport.call(ONE, m.DescribeReplicaRequest(topic_partition=METADATA_LOG), 2000)
        return answer.leader if isinstance(answer, m.DescribeReplicaResponse) else None

    found = await eventually(ask, lambda leader: leader is not None and leader.leader_id is not None)
    assert found is not None
    return found


async def statuses(cluster: LocalCluster) -> set[int]:
    """What the health of each replica says, to clients."""
    found = set()
    for address in cluster.addresses.values():
        async with grpc.aio.insecure_channel(address) as channel:
            asked = health_pb2.HealthCheckRequest(service="replica.v1.ReplicaService")
            found.add((await health_pb2_grpc.HealthStub(channel).Check(asked)).status)
    return found


async def assert_unharmed(cluster: LocalCluster, topics: Topics) -> None:
    """Every process runs, every partition has a leader, and takes writes."""
    for partition in range(3):
        await topics.write(partition, "after")
    assert all(cluster.is_alive(replica_id) for replica_id in cluster.ids)


async def test_a_beginning_in_the_name_of_another_voter_halts_nobody(
    cluster: LocalCluster, topics: Topics, peers: GrpcTransport
) -> None:
    """Three BeginQuorumEpoch, one to each voter, with the present epoch and an id that does not lead, are refused."""
    leader = await leader_of(peers)
    other = next(replica_id for replica_id in cluster.ids if replica_id != leader.leader_id)
    errors = []
    for replica_id in cluster.ids:
        claim = m.BeginQuorumEpochRequest(
            topic_partition=METADATA_LOG,
            cluster_id=CLUSTER,
            leader_id=other,
            leader_epoch=leader.leader_epoch,
            voter_id=replica_id,
            voter_directory_id=cluster.directory_id(replica_id),
        )
        answer = await peers.call(replica_id, claim, 2000)
        assert isinstance(answer, m.BeginQuorumEpochResponse)
        errors.append(answer.error)
    assert errors == [ErrorCode.INVALID_REQUEST] * 3
    assert await leader_of(peers) == leader
    assert any(line["event"] == "leader_refused" for replica_id in cluster.ids for line in cluster.lines(replica_id))
    await assert_unharmed(cluster, topics)


async def test_hundreds_of_votes_leave_epochs_for_elections(
    cluster: LocalCluster, topics: Topics, peers: GrpcTransport
) -> None:
    """Votes to each voter, each as far ahead as any is taken or further, hardly raise an epoch, if at all."""
    before = (await leader_of(peers)).leader_epoch
    disks = {replica_id: cluster.directory_id(replica_id) for replica_id in cluster.ids}
    for number in range(VOTES):
        for replica_id in cluster.ids:
            ahead = (1, 16, 1 << 24, EPOCH_MAX - before)[number % 4]
            forged = m.VoteRequest(
                topic_partition=METADATA_LOG,
                cluster_id=CLUSTER,
                candidate_id=cluster.ids[replica_id % 3],
                candidate_directory_id=disks[cluster.ids[replica_id % 3]],
                candidate_epoch=Epoch(before + ahead),
                last_offset_epoch=0,
                last_offset=0,
                pre_vote=number % 2 == 0,
                voter_id=replica_id,
                voter_directory_id=disks[replica_id],
            )
            await peers.call(replica_id, forged, 2000)
    assert (await leader_of(peers)).leader_epoch <= before + 100
    await assert_unharmed(cluster, topics)


async def test_a_shutdown_that_nobody_wants_passes(cluster: LocalCluster, topics: Topics, peers: GrpcTransport) -> None:
    """Heartbeats that want all brokers out: refused from who guesses, taken back from who knows everything."""
    controller = (await leader_of(peers)).leader_id
    assert controller is not None
    described = await peers.call(controller, m.DescribeClusterRequest(), 2000)
    assert isinstance(described, m.DescribeClusterResponse)
    errors = set()
    for incarnation in ("guessed", None):
        for broker in described.brokers:
            forged = m.BrokerHeartbeatRequest(
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                incarnation_id=incarnation or broker.incarnation_id,
                cluster_id=CLUSTER,
                metadata_offset=Offset(1 << 40),
                want_shut_down=True,
            )
            answer = await peers.call(controller, forged, 2000)
            assert isinstance(answer, m.BrokerHeartbeatResponse)
            errors.add((incarnation, answer.error))
    assert errors == {("guessed", ErrorCode.STALE_BROKER_EPOCH), (None, ErrorCode.NONE)}
    await topics.wait_partitions(lambda found: all(partition.leader_id is not None for partition in found.values()))
    await eventually(lambda: statuses(cluster), lambda found: found == {health_pb2.HealthCheckResponse.SERVING})
    await assert_unharmed(cluster, topics)


async def test_a_fetch_in_the_name_of_a_follower_acknowledges_nothing(
    cluster: LocalCluster, topics: Topics, peers: GrpcTransport
) -> None:
    """With both followers dead, and forged fetches far ahead in their names, no write is acknowledged."""
    found = (await topics.partitions())[0]
    leader_id = found.leader_id
    assert leader_id is not None
    described = await peers.call(leader_id, m.DescribeClusterRequest(), 2000)
    assert isinstance(described, m.DescribeClusterResponse)
    followers = [broker for broker in described.brokers if broker.broker_id != leader_id]
    for broker in followers:
        cluster.kill(broker.broker_id)
    produce = m.ProduceRequest(
        topic_partition=topics.log(0), acks=-1, timeout_ms=1500, records=encode_batch([b"forged"]).data
    )
    writing = asyncio.create_task(peers.call(leader_id, produce, 5000))
    end_of_log = m.ListOffsetsRequest(topic_partition=topics.log(0), latest=True, replica_id=followers[0].broker_id)

    async def end_offset() -> int | None:
        answer = await peers.call(leader_id, end_of_log, 2000)
        return answer.offset if isinstance(answer, m.ListOffsetsResponse) else None

    appended = await eventually(end_offset, lambda offset: offset == 2)
    assert appended is not None
    for directory_id in (None, "guessed"):
        for broker in followers:
            part = m.FetchPartition(
                topic_partition=topics.log(0),
                fetch_offset=Offset(appended),
                current_leader_epoch=found.leader_epoch,
                last_fetched_epoch=found.leader_epoch,
            )
            forged = m.FetchRequest(
                partitions=(part,),
                cluster_id=CLUSTER,
                replica_id=broker.broker_id,
                replica_directory_id=directory_id,
                broker_epoch=BrokerEpoch(broker.broker_epoch),
            )
            answer = await peers.call(leader_id, forged, 2000)
            assert answer == m.FetchResponse(error=ErrorCode.STALE_BROKER_EPOCH)
    written = await writing
    assert isinstance(written, m.ProduceResponse)
    assert written.error is not ErrorCode.NONE


@pytest.mark.parametrize("cluster", [True], indirect=True, ids=["peer_listeners"])
async def test_a_listener_for_clients_offers_nothing_to_replicas(cluster: LocalCluster, topics: Topics) -> None:
    """With --peer-listen what only replicas ask is not there, and a fetch of a replica is refused before it is read."""
    clients = GrpcTransport(cluster.addresses.__getitem__)
    log = TopicPartition("t", 0)
    part = m.FetchPartition(topic_partition=log, fetch_offset=Offset(0))
    of_replicas: tuple[m.Request, ...] = (
        m.VoteRequest(
            topic_partition=METADATA_LOG,
            candidate_id=ONE,
            candidate_epoch=Epoch(1),
            last_offset_epoch=0,
            last_offset=0,
            pre_vote=True,
        ),
        m.BeginQuorumEpochRequest(topic_partition=METADATA_LOG, leader_id=ONE, leader_epoch=Epoch(1)),
        m.EndQuorumEpochRequest(
            topic_partition=METADATA_LOG, leader_id=ONE, leader_epoch=Epoch(1), preferred_candidates=()
        ),
        m.BrokerHeartbeatRequest(
            broker_id=ONE, broker_epoch=BrokerEpoch(1), incarnation_id="", cluster_id="", metadata_offset=Offset(0)
        ),
        m.FetchRequest(partitions=(part,), replica_id=ONE, broker_epoch=BrokerEpoch(1)),
        m.ListOffsetsRequest(topic_partition=log, latest=True, replica_id=ONE),
    )
    for request in of_replicas:
        with pytest.raises(TransportError, match=r"UNIMPLEMENTED|no such request|before the request was sent whole"):
            await clients.call(TWO, request, 2000)
    assert isinstance(await clients.call(TWO, m.FetchRequest(partitions=(part,)), 2000), m.FetchResponse)
    await clients.close()
    async with KeyValueClient([cluster.addresses[THREE]]) as store:
        await store.put(b"k", b"v")
    await assert_unharmed(cluster, topics)
