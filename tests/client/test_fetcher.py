"""From whom a consumer reads: the leader, or the follower that it names; and when a follower is not asked any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replica.bounds import FETCH_PARTITIONS_MAX
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Endpoint
from replica.client.consumer import Consumer
from replica.client.consumer_config import ConsumerConfig
from replica.client.failures import LogTruncatedError, ReadFailedError, UnreadableBatchError
from replica.client.fetcher import FOLLOWER_PAUSE_MS, PREFERRED_MAX_AGE_MS
from replica.client.reading import OffsetReset
from replica.core import messages as m
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, ReplicaId
from replica.records import encode_batch
from replica.rpc.transport import TransportError
from tests.client.views import BOOTSTRAP, ONE, ORDERS, THREE, TWO, described, led_by
from tests.client.virtual import Answer, ScriptedConnections, VirtualClock
from tests.records.odd_batches import ODD_RECORDS

VIEW = ViewConfig(api_timeout_ms=1000, request_timeout_ms=100, retry_backoff_ms=10, retry_backoff_max_ms=40)
OnFetch = Callable[[Endpoint, m.FetchPartition], Answer]


def fetched(*values: bytes, base_offset: int = 0, epoch: int = 5, preferred: int | None = None) -> m.FetchResponse:
    """An answer with these values, or without records."""
    records = encode_batch(values, base_offset=base_offset, leader_epoch=epoch).data if values else b""
    return m.FetchResponse(
        partitions=(
            m.FetchedPartition(
                topic_partition=ORDERS,
                error=ErrorCode.NONE,
                records=records,
                preferred_read_replica=None if preferred is None else ReplicaId(preferred),
            ),
        )
    )


def refused(error: ErrorCode) -> m.FetchResponse:
    return m.FetchResponse(partitions=(m.FetchedPartition(topic_partition=ORDERS, error=error),))


class Brokers:
    """Three brokers; ``registration`` is what they know of the one partition, ``on_fetch`` what a Fetch gets."""

    def __init__(self, on_fetch: OnFetch, *, rack: str | None = None) -> None:
        self.registration: PartitionRegistration = led_by(1, 5)
        self.offset = 10
        self.on_fetch = on_fetch
        self.parts: list[m.FetchPartition] = []
        self.racks: list[str | None] = []
        self.connections = ScriptedConnections(self._answer)
        self.clock = VirtualClock()
        config = ConsumerConfig(auto_offset_reset=OffsetReset.NONE, client_rack=rack)
        self.consumer = Consumer(BOOTSTRAP, config, view_config=VIEW, connections=self.connections, clock=self.clock)
        self.consumer.assign([ORDERS])

    def move(self, registration: PartitionRegistration) -> None:
        """Let the metadata say something else."""
        self.registration = registration
        self.offset += 1

    def _answer(self, endpoint: Endpoint, request: m.Request) -> Answer:
        match request:
            case m.DescribeClusterRequest():
                return described({0: self.registration}, offset=self.offset)
            case m.FetchRequest(partitions=(part,), rack_id=rack_id):
                self.parts.append(part)
                self.racks.append(rack_id)
                return self.on_fetch(endpoint, part)
            case m.ListOffsetsRequest(latest=latest):
                return m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(9 if latest else 0))
            case _:
                raise AssertionError(request)


async def test_a_fetch_names_no_more_partitions_than_a_broker_takes() -> None:
    """Whoever reads more partitions of one broker than one request may name asks for them in several."""
    count = FETCH_PARTITIONS_MAX + 2
    asked: list[tuple[m.FetchPartition, ...]] = []

    def answer(_: Endpoint, request: m.Request) -> Answer:
        if isinstance(request, m.DescribeClusterRequest):
            return described(dict.fromkeys(range(count), led_by(1, 5)))
        assert isinstance(request, m.FetchRequest), request
        asked.append(request.partitions)
        (first,) = fetched(b"v").partitions
        none = [m.FetchedPartition(topic_partition=part.topic_partition, error=ErrorCode.NONE) for part in asked[-1]]
        return m.FetchResponse(partitions=tuple(first if part.topic_partition == ORDERS else part for part in none))

    consumer = Consumer(BOOTSTRAP, view_config=VIEW, connections=ScriptedConnections(answer), clock=VirtualClock())
    consumer.assign(logs := await consumer.partitions_of("orders"))
    for log in logs:
        consumer.seek(log, 0)
    assert [record.topic_partition for record in await consumer.poll()] == [ORDERS]
    await consumer.close()
    assert [len(parts) for parts in asked[:2]] == [FETCH_PARTITIONS_MAX, 2]


def serve(_: Endpoint, part: m.FetchPartition) -> Answer:
    """Answer with one record at the fetch offset."""
    return fetched(b"%d" % part.fetch_offset, base_offset=part.fetch_offset)


def naming(follower: int, *, leader: int = ONE, otherwise: OnFetch = serve) -> tuple[Brokers, list[int]]:
    """Brokers whose leader names a follower to whoever tells a rack; and who is asked, as it goes on."""

    def on_fetch(endpoint: Endpoint, part: m.FetchPartition) -> Answer:
        asked.append(endpoint.broker_id)
        if endpoint.broker_id == leader and brokers.racks[-1] is not None:
            return fetched(preferred=follower)
        return otherwise(endpoint, part)

    asked: list[int] = []
    brokers = Brokers(on_fetch, rack="r2")
    return brokers, asked


@pytest.mark.parametrize("rack", [None, "r2"])
async def test_the_leader_is_told_where_the_consumer_stands(rack: str | None) -> None:
    """The leader is asked first, with our rack if there is one: the choice is its own."""
    brokers = Brokers(serve, rack=rack)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        await consumer.poll()
    assert (brokers.connections.asked(m.FetchRequest)[0], brokers.racks[0]) == (1, rack)


async def test_the_leader_may_name_whom_to_ask() -> None:
    """A preferred read replica is asked from the next Fetch on (KIP-392), and the leader anew after some minutes."""
    brokers, asked = naming(TWO)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        for _ in range(3):
            assert len(await consumer.poll()) == 1
        assert asked[:4] == [1, 2, 2, 2]
        await consumer.poll()
        brokers.clock.pass_ms(PREFERRED_MAX_AGE_MS)
        del asked[:]
        for _ in range(3):
            await consumer.poll()
        assert asked[:3] in ([1, 2, 2], [2, 1, 2]), "one Fetch may have been under way"


async def test_whom_the_view_does_not_know_as_in_sync_is_not_asked() -> None:
    """A leader that names somebody of whom we know no good serves for a while, and is not asked over and over."""
    brokers, asked = naming(TWO)
    brokers.registration = led_by(1, 5, (ONE, THREE))
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        for _ in range(3):
            assert len(await consumer.poll()) == 1
    assert (asked[:3], brokers.racks[:3]) == ([1, 1, 1], ["r2", None, None])


async def test_only_a_leader_is_told_the_last_epoch() -> None:
    """The leader compares epochs in the Fetch; a follower, which may not know the newest, is asked without."""
    brokers, asked = naming(TWO)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 4, leader_epoch=3)
        await consumer.poll()
    assert asked[:2] == [1, 2]
    assert [(part.current_leader_epoch, part.last_fetched_epoch) for part in brokers.parts[:2]] == [(5, 3), (5, None)]


async def test_a_follower_is_not_believed_about_another_position() -> None:
    """After a seek the leader is asked first: the follower might not have what the leader can find out about."""
    brokers, asked = naming(TWO)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 4, leader_epoch=3)
        await consumer.poll()
        consumer.seek(ORDERS, 8, leader_epoch=3)
        assert [record.offset for record in await consumer.poll()] == [8]
    assert [who for who, part in zip(asked, brokers.parts, strict=True) if part.fetch_offset == 8] == [1, 2]


async def test_a_follower_is_not_believed_under_a_new_leader() -> None:
    """Who was named by an earlier leader is read no more until the next one has compared epochs with the reader."""
    end = EpochEndOffset(Epoch(5), Offset(1))

    def otherwise(endpoint: Endpoint, part: m.FetchPartition) -> Answer:
        if endpoint.broker_id == THREE:
            answer = m.FetchedPartition(topic_partition=ORDERS, error=ErrorCode.NONE, diverging_epoch=end)
            return m.FetchResponse(partitions=(answer,))
        if part.fetch_offset == 2:
            brokers.move(led_by(3, 6))
            return refused(ErrorCode.UNKNOWN_LEADER_EPOCH)
        return serve(endpoint, part)

    brokers, asked = naming(TWO, otherwise=otherwise)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        assert [record.offset for _ in range(2) for record in await consumer.poll()] == [0, 1]
        with pytest.raises(LogTruncatedError) as truncated:
            await consumer.poll(5000)
        assert truncated.value.divergent == end
    assert asked == [1, 2, 2, 2, 3]


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
    """What a follower does not have or does not answer is read from the leader; later it may name somebody again."""
    brokers, asked = naming(
        TWO, otherwise=lambda endpoint, part: failure if endpoint.broker_id == TWO else serve(endpoint, part)
    )
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        for _ in range(3):
            assert len(await consumer.poll()) == 1
        assert (asked[:4], brokers.racks[2:4]) == ([1, 2, 1, 1], [None, None])
        brokers.clock.pass_ms(FOLLOWER_PAUSE_MS)
        del asked[:]
        for _ in range(3):
            await consumer.poll()
        assert TWO in asked


async def test_a_wrong_leader_makes_the_view_new() -> None:
    """After NOT_LEADER_OR_FOLLOWER the cluster is described again and the new leader asked, with its epoch."""

    def on_fetch(endpoint: Endpoint, part: m.FetchPartition) -> Answer:
        if endpoint.broker_id == ONE:
            brokers.move(led_by(3, 6))
            return refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return serve(endpoint, part)

    brokers = Brokers(on_fetch)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        assert len(await consumer.poll()) == 1
    assert brokers.connections.asked(m.FetchRequest)[:2] == [1, 3]
    assert brokers.parts[1].current_leader_epoch == 6


async def test_an_answer_to_an_old_question_is_dropped() -> None:
    """Records that were asked for before a seek are not handed out after it."""

    def on_fetch(endpoint: Endpoint, part: m.FetchPartition) -> Answer:
        if part.fetch_offset == 7:
            brokers.consumer.seek(ORDERS, 0)
        return serve(endpoint, part)

    brokers = Brokers(on_fetch)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 7)
        assert [record.offset for record in await consumer.poll()] == [0]


async def test_damaged_records_are_an_error() -> None:
    """Batches whose CRC is wrong are never handed out; who sent them is named."""

    def on_fetch(_: Endpoint, __: m.FetchPartition) -> Answer:
        good = encode_batch([b"a"], leader_epoch=5).data
        part = m.FetchedPartition(topic_partition=ORDERS, error=ErrorCode.NONE, records=good[:-1] + b"\x7f")
        return m.FetchResponse(partitions=(part,))

    brokers = Brokers(on_fetch)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        with pytest.raises(UnreadableBatchError, match=r"orders-0: .* broker 1 sent damaged records") as raised:
            await consumer.poll()
        assert (raised.value.base_offset, raised.value.end_offset) == (0, 1)
        consumer.seek(ORDERS, 9)  # Its header says that it holds offset 0 only, and so cannot be believed.
        with pytest.raises(UnreadableBatchError) as raised:
            await consumer.poll()
        assert (raised.value.base_offset, raised.value.end_offset) == (9, None)


async def test_good_records_come_before_an_odd_batch_and_after_it() -> None:
    """A batch whose records are malformed costs its own records only, however often one polls."""
    odd = ODD_RECORDS["a record too few"].stamped(base_offset=Offset(1), leader_epoch=Epoch(5))
    log = [encode_batch([b"a"], leader_epoch=5), odd, encode_batch([b"d"], base_offset=3, leader_epoch=5)]

    def on_fetch(_: Endpoint, part: m.FetchPartition) -> Answer:
        records = b"".join(batch.data for batch in log if batch.end_offset > part.fetch_offset)
        return m.FetchResponse(
            partitions=(m.FetchedPartition(topic_partition=ORDERS, error=ErrorCode.NONE, records=records),)
        )

    brokers = Brokers(on_fetch)
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        assert [record.value for record in await consumer.poll()] == [b"a"]
        for _ in range(2):
            with pytest.raises(UnreadableBatchError, match=r"offset 1 to 2 .*; seek to 3 to go on"):
                await consumer.poll()
        consumer.seek(ORDERS, 3)
        assert [record.value for record in await consumer.poll()] == [b"d"]


async def test_what_no_retry_can_cure_is_raised() -> None:
    """An error of the whole request that will not pass is raised with its name."""
    brokers = Brokers(lambda _, __: m.FetchResponse(error=ErrorCode.INVALID_REQUEST))
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, 0)
        with pytest.raises(ReadFailedError, match="INVALID_REQUEST") as failed:
            await consumer.poll()
        assert failed.value.error is ErrorCode.INVALID_REQUEST
    assert brokers.connections.is_closed
