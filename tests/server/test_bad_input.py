"""Bad input to a real process: a clear error at the caller, a log line, nothing lost, and the process stays alive."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import grpc.aio
import psutil
import pytest

from replica.client import NotWrittenError, OutcomeUnknownError, ReadFailedError, ReplicaClient
from replica.core.messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.records import encode_batch
from replica.server.channels import channel_options
from replica.server.codec import PRODUCE
from replica.server.transport import GrpcTransport
from tests.server.local_cluster import LocalCluster, free_addresses, run_replica

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

ONE = ReplicaId(1)
LOG = TopicPartition("log", 0)
GOOD = ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=5000, records=encode_batch([b"v"]).data)


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[LocalCluster]:
    """A formatted cluster of one, not started."""
    cluster = LocalCluster(tmp_path, size=1)
    cluster.format()
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
async def client(lone: LocalCluster) -> AsyncIterator[ReplicaClient]:
    """The cluster of one, started, with one record in its log."""
    lone.start()
    async with lone.client(request_timeout_ms=20_000) as client:
        await client.produce([b"kept"])
        yield client


@pytest.fixture
async def transport(lone: LocalCluster) -> AsyncIterator[GrpcTransport]:
    """A way to send what no honest client sends."""
    transport = GrpcTransport(lone.addresses.__getitem__)
    yield transport
    await transport.close()


def produce_bytes(channel: grpc.aio.Channel) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
    """Return the Produce call without its codec."""
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(PRODUCE.full_name)
    return call


def refusals(cluster: LocalCluster) -> list[str]:
    return [line["error"] for line in cluster.lines(ONE) if line["event"] == "request_refused"]


async def assert_unharmed(cluster: LocalCluster, client: ReplicaClient) -> None:
    """Hold that the process lives, still reads what it had, and still writes."""
    assert cluster.is_alive(ONE)
    assert [record.value for record in (await client.fetch(0)).records] == [b"kept"]
    await client.produce([b"more"])


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (replace(GOOD, records=b"garbage"), ErrorCode.CORRUPT_MESSAGE),
        (replace(GOOD, records=flipped(GOOD.records)), ErrorCode.CORRUPT_MESSAGE),
        (replace(GOOD, topic_partition=TopicPartition("nowhere", 0)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (replace(GOOD, topic_partition=TopicPartition("log", 7)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (replace(GOOD, current_leader_epoch=Epoch(99)), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (replace(GOOD, records=encode_batch([bytes(2 << 20)]).data), ErrorCode.MESSAGE_TOO_LARGE),
        (replace(GOOD, acks=5), ErrorCode.INVALID_REQUIRED_ACKS),
        (replace(GOOD, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
    ],
)
async def test_a_bad_write_is_refused_by_name(
    lone: LocalCluster, client: ReplicaClient, transport: GrpcTransport, request_: ProduceRequest, error: ErrorCode
) -> None:
    """A write that cannot be taken is answered with its error, as not appended, and logged."""
    response = await transport.call(ONE, request_, 5000)
    assert isinstance(response, ProduceResponse)
    assert (response.error, response.not_appended) == (error, True)
    assert refusals(lone) == [error.value]
    await assert_unharmed(lone, client)


async def test_a_fetch_of_an_unknown_epoch_is_refused_by_name(
    lone: LocalCluster, client: ReplicaClient, transport: GrpcTransport
) -> None:
    """A fetch that names an epoch beyond the leader's is UNKNOWN_LEADER_EPOCH, and logged."""
    part = FetchPartition(topic_partition=LOG, fetch_offset=Offset(0), current_leader_epoch=Epoch(99))
    request = FetchRequest(partitions=(part,))
    response = await transport.call(ONE, request, 5000)
    assert isinstance(response, FetchResponse)
    assert response.answer_for(LOG).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert refusals(lone) == ["UNKNOWN_LEADER_EPOCH"]
    await assert_unharmed(lone, client)


async def test_bytes_that_are_no_message_are_refused_by_name(lone: LocalCluster, client: ReplicaClient) -> None:
    """Garbage in place of a message is INVALID_ARGUMENT with the RPC's name, and logged."""
    async with grpc.aio.insecure_channel(lone.addresses[ONE], options=channel_options()) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="malformed Produce"):
            await produce_bytes(channel)(b"\xff\xff", timeout=5)
    assert refusals(lone) == ["INVALID_ARGUMENT"]
    await assert_unharmed(lone, client)


async def test_the_client_names_what_is_wrong(lone: LocalCluster, client: ReplicaClient) -> None:
    """The client turns these answers into its own errors: not written for a write, the code for a read."""
    with pytest.raises(NotWrittenError, match="MESSAGE_TOO_LARGE"):
        await client.produce([bytes(2 << 20)])
    with pytest.raises(NotWrittenError, match="split it"):
        await client.produce([bytes(9 << 20)])
    async with ReplicaClient(lone.addresses, topic="nowhere") as lost:
        with pytest.raises(ReadFailedError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await lost.fetch(0)
    await assert_unharmed(lone, client)


def assert_refuses_to_start(cluster: LocalCluster, *parts: str, options: tuple[object, ...] = ()) -> None:
    """Hold that ``replica start`` exits with 1 and one sentence that names these parts, beside its log line."""
    ended = run_replica(*cluster.start_arguments(ONE), *options, check=False)
    assert ended.returncode == 1, ended.stderr
    (sentence,) = [line for line in ended.stderr.splitlines() if line.startswith("replica: cannot start: ")]
    assert all(part in sentence for part in parts), sentence
    assert '"event": "start_refused"' in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_taken_port_refuses_the_start(lone: LocalCluster, client: ReplicaClient, tmp_path: Path) -> None:
    """A second replica on a taken port exits with one sentence, and the first one is not disturbed."""
    second = LocalCluster(tmp_path / "second", size=1)
    second.format()
    second.addresses = lone.addresses
    assert_refuses_to_start(second, f"cannot listen on {lone.addresses[ONE]}", "taken")
    await assert_unharmed(lone, client)


async def test_a_directory_in_use_refuses_the_start(lone: LocalCluster, client: ReplicaClient) -> None:
    """A second process on one data directory exits with one sentence, and the first one is not disturbed."""
    assert_refuses_to_start(lone, "in use by another process")
    await assert_unharmed(lone, client)


def test_a_foreign_directory_refuses_the_start(lone: LocalCluster) -> None:
    """A data directory of another cluster or of another replica is refused, with whose it is."""
    assert_refuses_to_start(lone, "belongs to cluster test, not to another", options=("--cluster-id", "another"))
    assert_refuses_to_start(lone, "belongs to replica 1, not to 9", options=("--replica-id", 9))


def test_an_unformatted_directory_refuses_the_start(tmp_path: Path) -> None:
    """A directory that was never formatted is refused with the command to run, and is not formatted by itself."""
    cluster = LocalCluster(tmp_path, size=1)
    assert_refuses_to_start(cluster, "replica format")
    assert not cluster.data_dir(ONE).exists()


async def test_damage_below_the_recovery_point_refuses_the_start(lone: LocalCluster, client: ReplicaClient) -> None:
    """A flipped bit in flushed data stops the replica at start with the file and the offset, and changes nothing."""
    assert lone.stop(ONE) == 0
    lone.start()
    await client.produce([b"more"])
    lone.kill(ONE)
    data = lone.segment(ONE).read_bytes()
    damaged = data[:40] + bytes([data[40] ^ 1]) + data[41:]
    lone.segment(ONE).write_bytes(damaged)
    assert_refuses_to_start(lone, str(lone.segment(ONE)), "offset 0", "may not be cut")
    assert lone.segment(ONE).read_bytes() == damaged


async def test_a_torn_tail_above_the_recovery_point_is_cut(lone: LocalCluster, client: ReplicaClient) -> None:
    """Half a batch at the end of an unclean log is dropped at start, and everything before it is still read."""
    lone.kill(ONE)
    with lone.segment(ONE).open("ab") as segment:
        segment.write(GOOD.records[:30])
    lone.start()
    await client.produce([b"more"])
    assert [record.value for record in (await client.fetch(0)).records] == [b"kept", b"more"]


async def test_a_disk_that_refuses_a_write_halts_the_replica(lone: LocalCluster, client: ReplicaClient) -> None:
    """A failed write ends the process with 1 and a line that names the log; what was acknowledged is still there."""
    await client.produce([bytes(100_000)])
    # No file of the process may grow beyond this from now on: the next append fails as on a full disk.
    limit = lone.segment(ONE).stat().st_size + 10
    psutil.Process(lone.processes[ONE].pid).rlimit(psutil.RLIMIT_FSIZE, (limit, limit))
    with pytest.raises(OutcomeUnknownError):
        await client.produce([b"refused"])
    assert lone.processes[ONE].wait(20) == 1
    (halted,) = [line for line in lone.lines(ONE) if line["event"] == "halted"]
    assert str(lone.segment(ONE).parent) in halted["reason"]
    lone.start()
    assert (await client.fetch(0)).records[0].value == b"kept"


def test_a_taken_metrics_port_refuses_the_start(lone: LocalCluster) -> None:
    """A metrics address that cannot be had is refused in one sentence, like that of the service itself."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        address = f"127.0.0.1:{held.getsockname()[1]}"
        assert_refuses_to_start(lone, f"cannot serve metrics on {address}", options=("--metrics-listen", address))


async def test_the_metrics_page_is_served(lone: LocalCluster) -> None:
    """With --metrics-listen, the page shows the role and the offsets of the running replica."""
    (address,) = free_addresses(1)
    lone.start(options=("--metrics-listen", address))
    async with lone.client(request_timeout_ms=20_000) as client:
        await client.produce([b"a"])
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
        text = page.read().decode()
    assert 'replica_role{partition="0",role="leader",topic="log"} 1.0' in text
    assert lone.stop(ONE) == 0
