"""Bad input to a real process: a clear error at the caller, a log line, nothing lost, and the process stays alive."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import psutil
import pytest
from msgspec.structs import replace

from replica.client import (
    Admin,
    AdminError,
    Consumer,
    NotWrittenError,
    OutcomeUnknownError,
    Producer,
    ProducerConfig,
    ReadFailedError,
)
from replica.core import messages as m
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.records import encode_batch
from replica.rpc.channels import channel_options
from replica.rpc.codec import PRODUCE
from replica.rpc.transport import GrpcTransport, TransportError
from tests.server.local_cluster import LocalCluster, run_replica
from tests.server.topics import Topics, eventually

pytestmark = pytest.mark.cluster

ONE = ReplicaId(1)
LOG = TopicPartition("t", 0)
GOOD = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=5000, records=encode_batch([b"v"]).data)


@pytest.fixture
async def topics(lone: LocalCluster) -> AsyncIterator[Topics]:
    """The cluster of one, started, with a topic of one partition and one record in it."""
    lone.start()
    async with Topics(lone.addresses) as topics:
        await topics.create(partitions=1, replication_factor=1, min_isr=1)
        await topics.write(0, "kept")
        yield topics


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


async def assert_unharmed(cluster: LocalCluster, topics: Topics) -> None:
    """Hold that the process lives, still reads what it had, and still writes."""
    assert cluster.is_alive(ONE)
    assert await topics.read(0) == {0: "kept"}
    await topics.write(0, "more")


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


BAD_WRITES = [
    (replace(GOOD, records=b"garbage"), ErrorCode.CORRUPT_MESSAGE),
    (replace(GOOD, records=flipped(GOOD.records)), ErrorCode.CORRUPT_MESSAGE),
    (replace(GOOD, records=2 * GOOD.records), ErrorCode.INVALID_RECORD),
    (replace(GOOD, topic_partition=TopicPartition("nowhere", 0)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (replace(GOOD, topic_partition=TopicPartition("t", 7)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (replace(GOOD, topic_partition=METADATA_LOG), ErrorCode.INVALID_REQUEST),
    (replace(GOOD, current_leader_epoch=Epoch(99)), ErrorCode.UNKNOWN_LEADER_EPOCH),
    (replace(GOOD, records=encode_batch([bytes(2 << 20)]).data), ErrorCode.MESSAGE_TOO_LARGE),
    (replace(GOOD, acks=5), ErrorCode.INVALID_REQUIRED_ACKS),
    (replace(GOOD, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
]


async def test_a_bad_write_is_refused_by_name(lone: LocalCluster, topics: Topics, transport: GrpcTransport) -> None:
    """A write that cannot be taken is answered with its error, as not appended, and logged."""
    for request, error in BAD_WRITES:
        earlier = refusals(lone)
        response = await transport.call(ONE, request, 5000)
        assert isinstance(response, m.ProduceResponse), error
        assert (response.error, response.not_appended) == (error, True)
        assert refusals(lone) == [*earlier, error.value]
        assert lone.is_alive(ONE), error
    await assert_unharmed(lone, topics)


async def test_a_fetch_of_an_unknown_epoch_is_refused_by_name(
    lone: LocalCluster, topics: Topics, transport: GrpcTransport
) -> None:
    """A fetch that names an epoch beyond the leader's is UNKNOWN_LEADER_EPOCH, and logged."""
    part = m.FetchPartition(topic_partition=LOG, fetch_offset=Offset(0), current_leader_epoch=Epoch(99))
    request = m.FetchRequest(partitions=(part,))
    earlier = refusals(lone)
    response = await transport.call(ONE, request, 5000)
    assert isinstance(response, m.FetchResponse)
    assert response.answer_for(LOG).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert refusals(lone) == [*earlier, "UNKNOWN_LEADER_EPOCH"]
    await assert_unharmed(lone, topics)


async def test_bytes_that_are_no_message_are_refused_by_name(lone: LocalCluster, topics: Topics) -> None:
    """Garbage in place of a message is INVALID_ARGUMENT with the RPC's name, and logged."""
    earlier = refusals(lone)
    async with grpc.aio.insecure_channel(lone.addresses[ONE], options=channel_options()) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="malformed Produce"):
            await produce_bytes(channel)(b"\xff\xff", timeout=5)
    assert refusals(lone) == [*earlier, "INVALID_ARGUMENT"]
    await assert_unharmed(lone, topics)


async def test_the_client_names_what_is_wrong(lone: LocalCluster, topics: Topics) -> None:
    """Clients turn these answers into their own errors: not written for a write, the code for a read."""
    async with Producer(lone.addresses[ONE], ProducerConfig(max_request_size=4 << 20, max_block_ms=500)) as producer:
        with pytest.raises(NotWrittenError, match="MESSAGE_TOO_LARGE"):
            await producer.send("t", bytes(2 << 20))
        for topic in ("nowhere", METADATA_LOG.topic):
            with pytest.raises(NotWrittenError, match=f"{topic} does not exist"):
                await producer.send(topic, b"lost")
    async with Consumer(lone.addresses[ONE]) as consumer:
        with pytest.raises(ReadFailedError, match="nowhere-0 does not exist"):
            await consumer.beginning_offsets([TopicPartition("nowhere", 0)], timeout_ms=500)
    await assert_unharmed(lone, topics)


async def test_forged_brokers_are_bounded_and_can_be_forgotten(
    lone: LocalCluster, topics: Topics, transport: GrpcTransport
) -> None:
    """Racks of MiB, which once halted the controller or made every DescribeCluster too large, are refused by name.

    What is in bounds registers, the cluster can still be described, and when its session is over it is unregistered.
    """
    forged = m.BrokerRegistrationRequest(
        broker_id=ReplicaId(9),
        cluster_id="test",
        incarnation_id="forged",
        directory_id="d",
        flushes=True,
        metadata_end_offset=Offset(0),
        address="nowhere:1",
    )
    complaint = r"BrokerRegistrationRequest has \d+ bytes; it may have at most|Received message larger than max"
    for mib in (11, 8, 8, 8, 8, 8, 6, 3):
        with pytest.raises(TransportError, match=complaint):
            await transport.call(ONE, replace(forged, rack="\x01" * (mib << 20)), 5000)
    answer = await transport.call(ONE, replace(forged, rack="\x01" * 249), 5000)
    assert isinstance(answer, m.BrokerRegistrationResponse)
    assert answer.error is ErrorCode.NONE
    async with Admin(lone.addresses[ONE]) as admin:
        with pytest.raises(AdminError, match="broker 1 is alive; stop it first"):
            await admin.unregister_broker(ONE)

        async def unregister() -> str:
            try:
                await admin.unregister_broker(ReplicaId(9))
            except AdminError as refused:
                return str(refused)
            return ""

        assert [broker.broker_id for broker in (await admin.describe_cluster()).brokers] == [1, 9]
        assert "broker 9 is alive" in await unregister()
        await eventually(unregister, lambda refused: not refused)
        assert [broker.broker_id for broker in (await admin.describe_cluster()).brokers] == [1]
    await assert_unharmed(lone, topics)


def assert_refuses_to_start(cluster: LocalCluster, *parts: str, options: tuple[object, ...] = ()) -> None:
    """Hold that ``replica start`` exits with 1 and one sentence that names these parts, beside its log line."""
    ended = run_replica(*cluster.start_arguments(ONE), *options, check=False)
    assert ended.returncode == 1, ended.stderr
    (sentence,) = [line for line in ended.stderr.splitlines() if line.startswith("replica: cannot start: ")]
    assert all(part in sentence for part in parts), sentence
    assert '"event": "start_refused"' in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_foreign_directory_refuses_the_start(lone: LocalCluster) -> None:
    """A data directory of another cluster or of another replica is refused, with whose it is."""
    assert_refuses_to_start(lone, "belongs to cluster test, not to another", options=("--cluster-id", "another"))
    assert_refuses_to_start(lone, "belongs to replica 1, not to 9", options=("--replica-id", 9))


def test_an_unformatted_directory_refuses_the_start(tmp_path: Path) -> None:
    """A directory that was never formatted is refused with the command to run, and is not formatted by itself."""
    cluster = LocalCluster(tmp_path, size=1)
    assert_refuses_to_start(cluster, "replica format")
    assert not cluster.data_dir(ONE).exists()


async def test_damage_below_the_recovery_point_refuses_the_start(lone: LocalCluster, topics: Topics) -> None:
    """A flipped bit in the flushed metadata stops the replica at start with file and offset, and changes nothing."""
    assert lone.stop(ONE) == 0
    lone.start()
    await topics.write(0, "more")
    lone.kill(ONE)
    segment = lone.segment(ONE, METADATA_LOG)
    damaged = flip_a_bit(segment)
    assert_refuses_to_start(lone, str(segment), "offset 0", "may not be cut")
    assert segment.read_bytes() == damaged


def flip_a_bit(segment: Path) -> bytes:
    """Flip a bit of the first batch in a file; return what it holds then."""
    data = segment.read_bytes()
    damaged = data[:40] + bytes([data[40] ^ 1]) + data[41:]
    segment.write_bytes(damaged)
    return damaged


async def test_a_torn_tail_above_the_recovery_point_is_cut(lone: LocalCluster, topics: Topics) -> None:
    """Half a batch at the end of an unclean log is dropped at start, and everything before it is still read."""
    lone.kill(ONE)
    with lone.segment(ONE, LOG).open("ab") as segment:
        segment.write(GOOD.records[:30])
    lone.start()
    await topics.write(0, "more")
    assert list((await topics.read(0)).values()) == ["kept", "more"]


async def test_a_disk_that_refuses_a_write_halts_the_replica(lone: LocalCluster, topics: Topics) -> None:
    """A failed write ends the process with 1 and a line that names the log; what was acknowledged is still there."""
    await topics.write(0, "long" * 25_000)
    # No file of the process may grow beyond this from now on: the next append fails as on a full disk.
    limit = lone.segment(ONE, LOG).stat().st_size + 10
    psutil.Process(lone.processes[ONE].pid).rlimit(psutil.RLIMIT_FSIZE, (limit, limit))
    async with Producer(lone.addresses[ONE], ProducerConfig(enable_idempotence=False)) as producer:
        with pytest.raises(OutcomeUnknownError):
            await producer.send("t", b"refused")
    assert lone.processes[ONE].wait(20) == 1
    (halted,) = [line for line in lone.lines(ONE) if line["event"] == "halted"]
    assert str(lone.segment(ONE, LOG).parent) in halted["reason"]
    lone.start()
    await eventually(lambda: topics.read(0), lambda values: values.get(Offset(0)) == "kept")


def test_a_taken_metrics_port_refuses_the_start(lone: LocalCluster) -> None:
    """A metrics address that cannot be had is refused in one sentence, like that of the service itself."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        address = f"127.0.0.1:{held.getsockname()[1]}"
        assert_refuses_to_start(lone, f"cannot serve metrics on {address}", options=("--metrics-listen", address))
