"""A broker that leads no more without knowing it: what it lacks is not taken for a truncation.

Scripted brokers: 1 led in epoch 4 and believes that it still does; 2 leads in epoch 5 and has written since.
"""

from __future__ import annotations

import pytest

from replica.client.connections import Endpoint
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, TopicId
from replica.records import encode_batch
from replica.spark.errors import TopicTruncatedError
from replica.spark.logs import TopicLogs
from replica.spark.options import batch_read_options, stream_read_options
from replica.spark.piece_reader import PieceReader
from replica.spark.stream_offsets import StreamOffset
from replica.spark.stream_plan import stream_pieces
from replica.spark.values import Piece, Position
from tests.client.views import ORDERS, described, led_by
from tests.client.virtual import Answer, ScriptedConnections, VirtualClock

OPTIONS = batch_read_options({"bootstrap.servers": "b1:1,b2:2", "subscribe": "orders"})
READ = Position(offset=Offset(90), leader_epoch=Epoch(5))


class Brokers:
    """Their script. Broker 1 tells its own view first, so that a client believes it until it learns better."""

    def __init__(self, *, lost_by_the_new: bool = False) -> None:
        self.connections = ScriptedConnections(self.answer)
        self._newest_end = Offset(80 if lost_by_the_new else 100)
        self._views = 0

    def answer(self, endpoint: Endpoint, request: m.Request) -> Answer:
        """What the broker says that is asked."""
        if isinstance(request, m.DescribeClusterRequest):
            self._views += 1
            return (
                described({0: led_by(1, 4)}, offset=10) if self._views == 1 else described({0: led_by(2, 5)}, offset=20)
            )
        is_stale = endpoint.address == "b1:1"
        if isinstance(request, m.OffsetForLeaderEpochRequest):
            return self._epoch_end(request, is_stale=is_stale)
        assert isinstance(request, m.FetchRequest), request
        return m.FetchResponse(partitions=(self._fetched(request.partitions[0], is_stale=is_stale),))

    def _epoch_end(self, request: m.OffsetForLeaderEpochRequest, *, is_stale: bool) -> m.OffsetForLeaderEpochResponse:
        if is_stale and request.current_leader_epoch == 4:
            end = EpochEndOffset(Epoch(4), Offset(85)) if request.leader_epoch == 4 else None
            return m.OffsetForLeaderEpochResponse(error=ErrorCode.NONE, answer=end, log_start_offset=Offset(0))
        if is_stale:
            return m.OffsetForLeaderEpochResponse(error=ErrorCode.UNKNOWN_LEADER_EPOCH)
        if request.current_leader_epoch == 4:
            return m.OffsetForLeaderEpochResponse(error=ErrorCode.FENCED_LEADER_EPOCH)
        end = EpochEndOffset(Epoch(5), self._newest_end)
        if request.leader_epoch == 4:
            end = EpochEndOffset(Epoch(4), Offset(80))
        return m.OffsetForLeaderEpochResponse(error=ErrorCode.NONE, answer=end, log_start_offset=Offset(0))

    def _fetched(self, asked: m.FetchPartition, *, is_stale: bool) -> m.FetchedPartition:
        if is_stale or self._newest_end < asked.fetch_offset:
            end = EpochEndOffset(Epoch(4), Offset(85)) if is_stale else EpochEndOffset(Epoch(5), self._newest_end)
            return m.FetchedPartition(topic_partition=ORDERS, error=ErrorCode.NONE, diverging_epoch=end)
        records = encode_batch([b"%d" % at for at in range(90, 100)], base_offset=90, leader_epoch=5).data
        return m.FetchedPartition(
            topic_partition=ORDERS,
            error=ErrorCode.NONE,
            high_watermark=Offset(100),
            log_start_offset=Offset(0),
            records=records,
        )


async def test_a_position_is_checked_by_who_knows_its_epoch() -> None:
    """A leader older than the position's epoch refuses to answer, and the next one has what was read."""
    brokers = Brokers()
    async with TopicLogs(OPTIONS.connection, connections=brokers.connections, clock=VirtualClock()) as logs:
        await logs.check(ORDERS, READ)
    assert brokers.connections.asked(m.OffsetForLeaderEpochRequest) == [1, 2]


async def test_a_position_that_is_gone_is_told_by_who_knows_its_epoch() -> None:
    """The leader of the position's own epoch is believed."""
    brokers = Brokers(lost_by_the_new=True)
    async with TopicLogs(OPTIONS.connection, connections=brokers.connections, clock=VirtualClock()) as logs:
        with pytest.raises(TopicTruncatedError, match="leaves it at offset 80, where its epoch 5 ends"):
            await logs.check(ORDERS, READ)


@pytest.mark.parametrize("rack", [{}, {"client.rack": "r3"}])
async def test_a_piece_is_read_from_who_has_it(rack: dict[str, str]) -> None:
    """A stale leader's word that the log was cut is checked, and the piece is read from the next leader."""
    brokers = Brokers()
    options = batch_read_options({"bootstrap.servers": "b1:1,b2:2", "subscribe": "orders", **rack})
    end = Position(offset=Offset(95), leader_epoch=Epoch(5))
    piece = Piece(topic_partition=ORDERS, topic_id=TopicId(7), start=READ, end=end)
    async with PieceReader(options, piece, connections=brokers.connections, clock=VirtualClock()) as reader:
        polled = await reader.next_records()
        assert polled is not None
        assert [record.offset for record in polled.records()] == list(range(90, 95))
        assert await reader.next_records() is None


async def test_a_batch_is_cut_by_who_has_it() -> None:
    """A batch that is planned again is cut where the log has its epochs, not where a stale leader would have them."""
    brokers = Brokers()
    options = stream_read_options({"bootstrap.servers": "b1:1,b2:2", "subscribe": "orders", "minPartitions": "2"})
    start, end = (
        StreamOffset(topic_ids={"orders": TopicId(7)}, positions={ORDERS: Position(offset=Offset(at), leader_epoch=of)})
        for at, of in ((70, Epoch(4)), (100, Epoch(5)))
    )
    async with TopicLogs(options.connection, connections=brokers.connections, clock=VirtualClock()) as logs:
        pieces = await stream_pieces(options, logs, start, end)
    assert [piece.end for piece in pieces] == [
        Position(offset=Offset(85), leader_epoch=Epoch(5)),
        Position(offset=Offset(100), leader_epoch=Epoch(5)),
    ]
