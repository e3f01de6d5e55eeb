"""From whom a consumer reads: the leader or a follower nearby, and what it asks before it believes a follower."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replica.client.cluster_view import ViewConfig
from replica.client.connections import Endpoint
from replica.client.consumer import Consumer
from replica.client.consumer_config import ConsumerConfig
from replica.client.failures import LogTruncatedError, ReadFailedError
from replica.client.reading import OffsetReset
from replica.core.messages import (
    DescribeClusterRequest,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    Request,
)
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, ReplicaId
from replica.records import encode_batch
from replica.server.transport import TransportError
from tests.client.views import BOOTSTRAP, ONE, ORDERS, THREE, TWO, described, led_by
from tests.client.virtual import Answer, ScriptedConnections, VirtualClock

VIEW = ViewConfig(api_timeout_ms=1000, request_timeout_ms=100, retry_backoff_ms=10, retry_backoff_max_ms=40)
OnFetch = Callable[[Endpoint, FetchPartition], Answer]


def fetched(*values: bytes, base_offset: int = 0, epoch: int = 5, preferred: int | None = None) -> FetchResponse:
    """An answer with these values, or without records."""
    records = encode_batch(values, base_offset=base_offset, leader_epoch=epoch).data if values else b""
    return FetchResponse(
        partitions=(
            FetchedPartition(
                topic_partition=ORDERS,
                error=ErrorCode.NONE,
                records=records,
                preferred_read_replica=None if preferred is None else ReplicaId(preferred),
            ),
        )
    )


def refused(error: ErrorCode) -> FetchResponse:
    return FetchResponse(partitions=(FetchedPartition(topic_partition=ORDERS, error=error),))


class Brokers:
    """Three brokers; ``registration`` is what they know of the one partition, ``on_fetch`` what a Fetch gets."""

    def __init__(self, on_fetch: OnFetch, *, rack: str | None = None, end: EpochEndOffset | None = None) -> None:
        self.registration: PartitionRegistration = led_by(1, 5)
        self.offset = 10
        self.on_fetch = on_fetch
        self.end = end
        self.parts: list[FetchPartition] = []
        self.connections = ScriptedConnections(self._answer)
        config = ConsumerConfig(auto_offset_reset=OffsetReset.NONE, client_rack=rack)
        self.consumer = Consumer(
            BOOTSTRAP, config, view_config=VIEW, connections=self.connections, clock=VirtualClock()
        )
        self.consumer.assign([ORDERS])

    def move(self, registration: PartitionRegistration) -> None:
        """Let the metadata say something else."""
        self.registration = registration
        self.offset += 1

    def _answer(self, endpoint: Endpoint, request: Request) -> Answer:
        match request:
            case DescribeClusterRequest():
                return described({0: self.registration}, offset=self.offset)
            case FetchRequest(partitions=(part,)):
                self.parts.append(part)
                return self.on_fetch(endpoint, part)
            case OffsetForLeaderEpochRequest():
                return OffsetForLeaderEpochResponse(error=ErrorCode.NONE, answer=self.end)
            case ListOffsetsRequest(latest=latest):
                return ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(9 if latest else 0))
            case _:
                raise AssertionError(request)


def serve(_: Endpoint, part: FetchPartition) -> Answer:
    """Answer with one record at the fetch offset."""
    return fetched(b"%d" % part.fetch_offset, base_offset=part.fetch_offset)


@pytest.mark.parametrize(
    ("rack", "isr", "asked"),
    [
        pytest.param(None, (ONE, TWO, THREE), 1, id="no rack of ours"),
        pytest.param("r1", (ONE, TWO, THREE), 1, id="the leader's rack"),
        pytest.param("r3", (ONE, TWO, THREE), 3, id="a follower's rack"),
        pytest.param("r3", (ONE, TWO), 1, id="the follower is not in sync"),
        pytest.param("r9", (ONE, TWO, THREE), 1, id="nobody's rack"),
    ],
)
async def test_the_nearest_in_sync_replica_is_read(rack: str | None, isr: tuple[ReplicaId, ...], asked: int) -> None:
    """Records come from an in-sync replica in our own rack if there is one, else from the leader."""
    brokers = Brokers(serve, rack=rack)
    brokers.registration = led_by(1, 5, isr)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        (record,) = await consumer.poll()
        assert record.value == b"0"
    assert brokers.connections.asked(FetchRequest)[0] == asked


async def test_the_leader_may_name_whom_to_ask() -> None:
    """A preferred read replica is asked from the next Fetch on (KIP-392)."""

    def on_fetch(endpoint: Endpoint, part: FetchPartition) -> Answer:
        return fetched(preferred=2) if endpoint.broker_id == ONE else serve(endpoint, part)

    brokers = Brokers(on_fetch)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        assert len(await consumer.poll()) == 1
    assert brokers.connections.asked(FetchRequest)[:2] == [1, 2]


async def test_only_a_leader_is_told_the_last_epoch() -> None:
    """The leader compares epochs in the Fetch; a follower, which may not know the newest, is asked without."""
    brokers = Brokers(serve)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 4, leader_epoch=3)
        await consumer.poll()
    assert (brokers.parts[0].current_leader_epoch, brokers.parts[0].last_fetched_epoch) == (5, 3)

    brokers = Brokers(serve, rack="r2", end=EpochEndOffset(Epoch(3), Offset(4)))
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 4, leader_epoch=3)
        await consumer.poll()
        await consumer.poll()
    assert (brokers.parts[0].current_leader_epoch, brokers.parts[0].last_fetched_epoch) == (5, None)
    assert brokers.connections.asked(OffsetForLeaderEpochRequest) == [1]


@pytest.mark.parametrize("end", [None, EpochEndOffset(Epoch(3), Offset(2))])
async def test_a_follower_is_not_believed_before_the_leader(end: EpochEndOffset | None) -> None:
    """Before a follower is read under a new leader, that leader says whether it has what was read."""
    brokers = Brokers(serve, rack="r2", end=end)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 4, leader_epoch=3)
        with pytest.raises(LogTruncatedError) as truncated:
            await consumer.poll()
        assert truncated.value.divergent == end
    assert brokers.parts == []


@pytest.mark.parametrize(
    "failure",
    [
        refused(ErrorCode.OFFSET_OUT_OF_RANGE),
        refused(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        refused(ErrorCode.UNKNOWN_LEADER_EPOCH),
        TransportError("UNAVAILABLE"),
    ],
)
async def test_a_follower_that_cannot_serve_is_left_for_a_while(failure: Answer) -> None:
    """What a follower does not have or does not answer is read from the leader; later the follower is tried again."""

    def on_fetch(endpoint: Endpoint, part: FetchPartition) -> Answer:
        return failure if endpoint.broker_id == TWO else serve(endpoint, part)

    brokers = Brokers(on_fetch, rack="r2")
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        for _ in range(3):
            assert len(await consumer.poll()) == 1
        assert brokers.connections.asked(FetchRequest)[:3] == [2, 1, 1]


async def test_a_wrong_leader_makes_the_view_new() -> None:
    """After NOT_LEADER_OR_FOLLOWER the cluster is described again and the new leader asked, with its epoch."""

    def on_fetch(endpoint: Endpoint, part: FetchPartition) -> Answer:
        if endpoint.broker_id == ONE:
            brokers.move(led_by(3, 6))
            return refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return serve(endpoint, part)

    brokers = Brokers(on_fetch)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        assert len(await consumer.poll()) == 1
    assert brokers.connections.asked(FetchRequest)[:2] == [1, 3]
    assert brokers.parts[1].current_leader_epoch == 6


async def test_an_answer_to_an_old_question_is_dropped() -> None:
    """Records that were asked for before a seek are not handed out after it."""

    def on_fetch(endpoint: Endpoint, part: FetchPartition) -> Answer:
        if part.fetch_offset == 7:
            brokers.consumer.seek(ORDERS, 0)
        return serve(endpoint, part)

    brokers = Brokers(on_fetch)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 7)
        assert [record.offset for record in await consumer.poll()] == [0]


async def test_damaged_records_are_an_error() -> None:
    """Batches whose CRC is wrong are never handed out; who sent them is named."""

    def on_fetch(_: Endpoint, __: FetchPartition) -> Answer:
        good = encode_batch([b"a"], leader_epoch=5).data
        part = FetchedPartition(topic_partition=ORDERS, error=ErrorCode.NONE, records=good[:-1] + b"\x7f")
        return FetchResponse(partitions=(part,))

    brokers = Brokers(on_fetch)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        with pytest.raises(ReadFailedError, match="orders-0: broker 1 sent damaged records"):
            await consumer.poll()


async def test_what_no_retry_can_cure_is_raised() -> None:
    """An error of the whole request that will not pass is raised with its name."""
    brokers = Brokers(lambda _, __: FetchResponse(error=ErrorCode.INVALID_REQUEST))
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        with pytest.raises(ReadFailedError, match="INVALID_REQUEST") as failed:
            await consumer.poll()
        assert failed.value.error is ErrorCode.INVALID_REQUEST
    assert brokers.connections.is_closed
