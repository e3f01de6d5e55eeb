"""A broker that lags behind without knowing it: a consumer that has read what came later does not believe it.

Broker 1 led in epoch 4 and believes that it still does; broker 2 leads in epoch 5, and the position is behind a record
of that epoch. Each broker answers as its own log and epoch have it, and tells its own view of the cluster.
Source: KIP-320; Kafka's ``SubscriptionState.maybeValidatePosition``, ``OffsetsForLeaderEpochClient``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from replica.client.cluster_view import ViewConfig
from replica.client.connections import Endpoint
from replica.client.consumer import Consumer
from replica.client.consumer_config import ConsumerConfig
from replica.client.failures import LogTruncatedError, ReadFailedError
from replica.client.reading import OffsetReset
from replica.core import messages as m
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset, ReplicaId, TopicId
from replica.records import encode_batch
from tests.client.views import BOOTSTRAP, ONE, ORDERS, THREE, TWO, described, led_by
from tests.client.virtual import Answer, ScriptedConnections, VirtualClock

VIEW = ViewConfig(api_timeout_ms=1000, request_timeout_ms=100, retry_backoff_ms=10, retry_backoff_max_ms=40)
POSITION = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What one broker believes of who leads, in which epoch; where epochs began in its log, and where that ends."""

    leader_id: int
    epoch: int
    epochs: tuple[tuple[int, int], ...]
    end: int
    topic_id: int = 7
    metadata_offset: int = 10

    def end_of(self, epoch: Epoch) -> EpochEndOffset | None:
        """Where an epoch ends here."""
        entries = LeaderEpochCache(EpochEntry(Epoch(begun), Offset(start)) for begun, start in self.epochs)
        return entries.end_offset_for(epoch, Offset(self.end))


STALE = Log(leader_id=1, epoch=4, epochs=((4, 0),), end=85)
NEWEST = Log(leader_id=2, epoch=5, epochs=((4, 0), (5, 80)), end=100, metadata_offset=20)
CUT = Log(leader_id=2, epoch=6, epochs=((4, 0), (5, 80), (6, 88)), end=100, metadata_offset=30)
EARLIER_TOPIC = Log(leader_id=1, epoch=5, epochs=((5, 0),), end=100, topic_id=6)


class Brokers:
    """Three brokers with a log each. Metadata that is newer has a greater offset."""

    def __init__(
        self, logs: Mapping[ReplicaId, Log], *, policy: OffsetReset = OffsetReset.NONE, rack: str | None = None
    ) -> None:
        self.logs = dict(logs)
        self.connections = ScriptedConnections(self._answer)
        config = ConsumerConfig(auto_offset_reset=policy, client_rack=rack)
        self.consumer = Consumer(
            BOOTSTRAP, config, view_config=VIEW, connections=self.connections, clock=VirtualClock()
        )
        self.consumer.assign([ORDERS])
        self.consumer.seek(ORDERS, POSITION, leader_epoch=5)

    def _answer(self, endpoint: Endpoint, request: m.Request) -> Answer:
        broker_id = ReplicaId(int(endpoint.address.removeprefix("b").partition(":")[0]))
        log = self.logs[broker_id]
        match request:
            case m.DescribeClusterRequest():
                partitions = {0: led_by(log.leader_id, log.epoch)}
                return described(partitions, offset=log.metadata_offset, topic_id=log.topic_id)
            case m.FetchRequest(partitions=(part,)):
                answer = self._fetched(log, part)
                names = request.rack_id == "r3" and log.leader_id == broker_id and answer.diverging_epoch is None
                if names and answer.error is ErrorCode.NONE:
                    answer = replace(answer, preferred_read_replica=THREE, records=b"")
                return m.FetchResponse(partitions=(answer,))
            case m.ListOffsetsRequest(latest=latest):
                return m.ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(log.end if latest else 0))
            case _:
                raise AssertionError(request)

    def _error(self, log: Log, current_leader_epoch: Epoch | None) -> ErrorCode | None:
        if current_leader_epoch is None or current_leader_epoch == log.epoch:
            return None
        older = current_leader_epoch < log.epoch
        return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _fetched(self, log: Log, part: m.FetchPartition) -> m.FetchedPartition:
        error, diverging, records = self._error(log, part.current_leader_epoch), None, b""
        if part.topic_id != log.topic_id:
            error = ErrorCode.INCONSISTENT_TOPIC_ID
        if error is None and part.last_fetched_epoch is not None:
            end = log.end_of(part.last_fetched_epoch)
            if end is None:
                error = ErrorCode.OFFSET_OUT_OF_RANGE
            elif end.epoch != part.last_fetched_epoch or end.end_offset < part.fetch_offset:
                diverging = end
        if error is None and not 0 <= part.fetch_offset <= log.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error is None and diverging is None:
            values = [b"%d" % at for at in range(part.fetch_offset, log.end)]
            records = encode_batch(values, base_offset=part.fetch_offset, leader_epoch=log.epoch).data
        return m.FetchedPartition(
            topic_partition=ORDERS, error=error or ErrorCode.NONE, diverging_epoch=diverging, records=records
        )


@pytest.mark.parametrize("policy", OffsetReset)
async def test_a_position_is_read_from_who_knows_its_epoch(policy: OffsetReset) -> None:
    """A leader older than the position tells neither a truncation nor that the offset is out of range."""
    brokers = Brokers({ONE: STALE, TWO: NEWEST, THREE: STALE}, policy=policy)
    async with brokers.consumer as consumer:
        records = await consumer.poll()
    assert [record.offset for record in records] == list(range(POSITION, 100))
    assert brokers.connections.asked(m.FetchRequest)[:2] == [1, 2]


async def test_a_position_is_validated_by_who_knows_its_epoch() -> None:
    """A follower is named by a leader of the position's epoch or a later one; no older one is believed."""
    brokers = Brokers({ONE: STALE, TWO: NEWEST, THREE: NEWEST}, rack="r3")
    async with brokers.consumer as consumer:
        records = await consumer.poll()
    assert [record.offset for record in records] == list(range(POSITION, 100))
    assert brokers.connections.asked(m.FetchRequest)[:3] == [1, 2, 3]


@pytest.mark.parametrize("rack", [None, "r3"])
async def test_while_all_are_older_nothing_is_known(rack: str | None) -> None:
    """Without a leader of the position's epoch reading fails in time, says why, and goes on when there is one."""
    brokers = Brokers({ONE: STALE, TWO: STALE, THREE: STALE}, rack=rack)
    async with brokers.consumer as consumer:
        with pytest.raises(ReadFailedError, match=r"for 1000 ms; last: .*UNKNOWN_LEADER_EPOCH") as old:
            await consumer.poll(5000)
        assert not isinstance(old.value, LogTruncatedError)
        brokers.logs |= {TWO: NEWEST}
        assert [record.offset for record in await consumer.poll(5000)] == list(range(POSITION, 100))


@pytest.mark.parametrize("rack", [None, "r3"])
async def test_a_truncation_is_told_by_who_knows_the_epoch(rack: str | None) -> None:
    """The leader of a later epoch is believed, also if an older one was asked first."""
    brokers = Brokers({ONE: STALE, TWO: CUT, THREE: CUT}, rack=rack)
    async with brokers.consumer as consumer:
        with pytest.raises(LogTruncatedError) as truncated:
            await consumer.poll(5000)
    assert truncated.value.divergent == EpochEndOffset(Epoch(5), Offset(88))


async def test_a_position_is_not_read_in_a_later_topic() -> None:
    """A position with the topic's id means nothing in a later topic of that name, whatever offsets and epochs say."""
    brokers = Brokers({ONE: NEWEST, TWO: NEWEST, THREE: NEWEST})
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, POSITION, leader_epoch=5, topic_id=TopicId(6))
        with pytest.raises(LogTruncatedError, match="deleted and created again"):
            await consumer.poll()
    assert brokers.connections.asked(m.FetchRequest) == []


async def test_an_earlier_topic_is_not_read() -> None:
    """A broker that lags behind knows the topic that was deleted since; that is no truncation of the later one."""
    brokers = Brokers({ONE: EARLIER_TOPIC, TWO: NEWEST, THREE: EARLIER_TOPIC})
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, POSITION, leader_epoch=5, topic_id=TopicId(7))
        assert [record.offset for record in await consumer.poll()] == list(range(POSITION, 100))
    assert brokers.connections.asked(m.FetchRequest)[0] == 2


async def test_while_all_know_an_earlier_topic_only_nothing_is_known() -> None:
    """Where nobody knows the topic, reading fails in time and says why."""
    brokers = Brokers({ONE: EARLIER_TOPIC, TWO: EARLIER_TOPIC, THREE: EARLIER_TOPIC})
    async with brokers.consumer as consumer:
        consumer.seek(ORDERS, POSITION, leader_epoch=5, topic_id=TopicId(7))
        with pytest.raises(ReadFailedError, match="for 1000 ms; last: only an earlier topic of that name is known"):
            await consumer.poll(5000)
