"""Voters that come and go in a real cluster, by the commands of an operator, while a client writes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replica.client import ClientError, KeyValueClient, ViewConfig
from replica.client.groups.failures import VotersNotChangedError
from replica.client.groups.quorum import describe_quorum, transfer_leadership
from replica.client.groups.voters import add_voter, remove_voter
from replica.core.messages import DescribeQuorumResponse, VoteRequest, VoteResponse
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId, TopicPartition
from replica.rpc.transport import GrpcTransport
from replica.storage import format_directory
from replica.storage.meta_properties import random_directory_id
from replica.voters import ReplicaKey, Voter, VoterSet
from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster, run_replica
from tests.server.topics import eventually

pytestmark = pytest.mark.cluster

ONE, TWO, THREE = ReplicaId(1), ReplicaId(2), ReplicaId(3)
KV = TopicPartition("kv", 0)
NOBODY = VoterSet(())
GROUP = ("--group", "kv=key-value")
LOGS = ("--log", "__cluster_metadata", "--log", "kv")
VIEW = ViewConfig(api_timeout_ms=int(PATIENCE_SECONDS * 1000), request_timeout_ms=5000)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three replicas with a key-value store, neither formatted nor started."""
    with LocalCluster(tmp_path) as cluster:
        yield cluster


def format_one(cluster: LocalCluster, replica_id: ReplicaId, voters: VoterSet = NOBODY) -> None:
    """Give a replica a disk that knows these voters: itself among them, or nobody."""
    own = voters.find(replica_id)
    directory_id = None if own is None else own.directory_id
    format_directory(
        cluster.data_dir(replica_id),
        cluster_id="test",
        replica_id=replica_id,
        directory_id=directory_id,
        initial_voters=voters,
    )


def start(cluster: LocalCluster, *replica_ids: ReplicaId) -> None:
    """Start replicas, each told where others reach it: who has no vote is in nobody's options."""
    for replica_id in replica_ids:
        cluster.start(replica_id, options=(*GROUP, "--advertised-address", cluster.addresses[replica_id]))


@asynccontextmanager
async def counting(cluster: LocalCluster) -> AsyncIterator[None]:
    """Count up meanwhile, one after the other; in the end every increment has counted, and once."""
    done = asyncio.Event()
    count = 0
    async with KeyValueClient(list(cluster.addresses.values()), view_config=VIEW) as store:

        async def count_up() -> None:
            nonlocal count
            while not done.is_set():
                await store.increment(b"n")
                count += 1

        task = asyncio.create_task(count_up())
        try:
            yield
            done.set()
            await task
        finally:
            task.cancel()
        found = (await store.get_revised(b"n")).result.found
        assert found is not None
        assert (int(found.value), count > 0) == (count, True)


async def described(cluster: LocalCluster, group: str | None) -> DescribeQuorumResponse | None:
    """What the leader of a log says of its quorum; absent where there is none yet."""
    try:
        return await describe_quorum(list(cluster.addresses.values()), group, view_config=VIEW)
    except ClientError:
        return None


async def voters_of(cluster: LocalCluster, group: str | None) -> list[ReplicaKey]:
    """The voters of a log, as its leader sees them."""
    answer = await eventually(lambda: described(cluster, group), lambda answer: answer is not None)
    assert answer is not None
    return [ReplicaKey(state.replica_id, state.directory_id) for state in answer.current_voters]


def quorum(cluster: LocalCluster, command: str, *arguments: object) -> list[str]:
    """Run a command of ``replica quorum`` for both logs, and return its lines."""
    bootstrap = ("--bootstrap", ",".join(cluster.addresses.values()), "--timeout-ms", 25_000)
    return run_replica("quorum", command, *LOGS, *arguments, *bootstrap).stdout.splitlines()


async def test_a_cluster_grows_from_one_to_three_and_loses_the_first(cluster: LocalCluster) -> None:
    """Two are added, the leader is removed and stopped, and every write that was acknowledged is there."""
    cluster.voters = [ONE]
    where = ("--standalone", "--advertised-address", cluster.addresses[ONE])
    run_replica("format", "--data-dir", cluster.data_dir(ONE), "--cluster-id", "test", "--replica-id", 1, *where)
    for replica_id in (TWO, THREE):
        format_one(cluster, replica_id)
    start(cluster, ONE, TWO, THREE)
    async with counting(cluster):
        for replica_id in (TWO, THREE):
            voter = f"{replica_id}={cluster.addresses[replica_id]}"
            lines = await asyncio.to_thread(quorum, cluster, "add-voter", "--voter", voter)
            assert [line.split(":")[0] for line in lines] == [
                f"replica {replica_id} votes in {log}" for log in ("__cluster_metadata", "kv")
            ]
        lines = await asyncio.to_thread(quorum, cluster, "remove-voter", "--voter", ONE)
        assert lines == [f"replica 1 votes no more in {log}" for log in ("__cluster_metadata", "kv")]
        for group in (None, "kv"):
            assert [key.replica_id for key in await voters_of(cluster, group)] == [TWO, THREE]
        assert await asyncio.to_thread(cluster.stop, ONE) == 0
    lines_of_two = [line for line in cluster.lines(TWO) if line["event"] == "voters_changed"]
    told = [line["voters"] for line in lines_of_two if line["log"] == str(KV)]
    assert ([1, 2, 3] in told, told[-1]) == (True, [2, 3])


async def test_a_leader_that_came_later_leads_until_its_removal_is_committed(cluster: LocalCluster) -> None:
    """Without brokers only the log says where it is: the other voter fetches the very record from it."""
    cluster.voters = [ONE]
    itself = Voter(replica_id=ONE, directory_id=random_directory_id(), address=cluster.addresses[ONE])
    for replica_id, voters in ((ONE, VoterSet((itself,))), (TWO, NOBODY)):
        format_one(cluster, replica_id, voters)
        where = ("--advertised-address", cluster.addresses[replica_id])
        cluster.start(replica_id, options=(*GROUP, *where, "--roles", "controller"))
    bootstrap = [cluster.addresses[replica_id] for replica_id in (ONE, TWO)]
    await add_voter(bootstrap, "kv", TWO, address=cluster.addresses[TWO], view_config=VIEW)
    await transfer_leadership(bootstrap, "kv", TWO, view_config=VIEW)
    await remove_voter(bootstrap, "kv", ReplicaKey(TWO, None), view_config=VIEW)
    assert await voters_of(cluster, "kv") == [itself.key]
    lines = cluster.lines(ONE)
    assert [line for line in lines if "no address is known" in line.get("reason", "")] == []
    (told,) = (line for line in lines if line["event"] == "voters_changed" and line["voters"] == [1] and line["offset"])
    assert (told["log"], told["role"]) == (str(KV), "follower")


async def test_a_wiped_disk_has_no_vote_until_it_is_added_anew(cluster: LocalCluster) -> None:
    """Under its old id it is an observer, refuses to vote, and is refused as a voter while the old disk is one."""
    voters = VoterSet.of(
        Voter(replica_id=replica_id, directory_id=random_directory_id(), address=address)
        for replica_id, address in cluster.addresses.items()
    )
    for replica_id in cluster.ids:
        format_one(cluster, replica_id, voters)
    start(cluster, *cluster.ids)
    bootstrap = list(cluster.addresses.values())
    before = await voters_of(cluster, "kv")
    assert before == [voter.key for voter in voters.voters]

    async with counting(cluster):
        cluster.kill(THREE)
        shutil.rmtree(cluster.data_dir(THREE))
        format_one(cluster, THREE)
        start(cluster, THREE)
        seen = await eventually(lambda: described(cluster, "kv"), lambda answer: observes(answer, THREE))
        assert seen is not None
        assert seen.current_leader is not None
        assert await voters_of(cluster, "kv") == before
        assert (
            await asked_for_its_vote(cluster, before[2], seen.current_leader.leader_epoch)
            is ErrorCode.INVALID_VOTER_KEY
        )
        with pytest.raises(VotersNotChangedError, match="a replica of this id votes already"):
            await add_voter(bootstrap, "kv", THREE, view_config=VIEW)

        for group in (None, "kv"):
            await remove_voter(bootstrap, group, before[2], view_config=VIEW)
            added = await add_voter(bootstrap, group, THREE, view_config=VIEW)
            assert added.key != before[2]
            assert await voters_of(cluster, group) == [*before[:2], added.key]
        cluster.kill(TWO)


def observes(answer: DescribeQuorumResponse | None, replica_id: ReplicaId) -> bool:
    return answer is not None and replica_id in [state.replica_id for state in answer.observers]


async def asked_for_its_vote(cluster: LocalCluster, key: ReplicaKey, epoch: Epoch) -> ErrorCode:
    """What a replica says to a candidate that takes it for a voter on another disk."""
    transport = GrpcTransport(cluster.addresses.__getitem__)
    request = VoteRequest(
        cluster_id="test",
        topic_partition=KV,
        candidate_id=ONE,
        candidate_epoch=epoch,
        last_offset_epoch=epoch - 1,
        last_offset=1 << 40,
        pre_vote=False,
        voter_id=key.replica_id,
        voter_directory_id=key.directory_id,
    )
    try:
        answer = await transport.call(key.replica_id, request, 5000)
    finally:
        await transport.close()
    assert isinstance(answer, VoteResponse)
    assert not answer.vote_granted
    return answer.error
