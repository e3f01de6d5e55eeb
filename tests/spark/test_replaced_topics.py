"""A topic that is deleted and created again under its name: never taken for the one that was planned or read.

The new topic has more records than the old one, in the same leader epoch: offsets and epochs do not tell them apart.
"""

from __future__ import annotations

import pytest

from replica.client.connections import Endpoint
from replica.core import messages as m
from replica.ids import TopicId, TopicPartition
from replica.spark.batch_plan import batch_pieces
from replica.spark.errors import PartitionUnreadableError, TopicTruncatedError
from replica.spark.logs import TopicLogs
from replica.spark.options import stream_read_options
from replica.spark.stream_offsets import StreamOffset
from replica.spark.stream_plan import BEGINNING, next_offset
from tests.client.views import described, led_by
from tests.client.virtual import Answer, ScriptedConnections, VirtualClock
from tests.replication.bench import Cluster
from tests.spark.tables import Stream, Tables

ORDERS = TopicPartition("orders", 0)


def replaced(cluster: Cluster) -> None:
    """Delete the topic and create it again, with more records."""
    cluster.ask(1, m.DeleteTopicRequest(name="orders"), m.DeleteTopicResponse)
    cluster.create("orders", (1,))
    cluster.produce(ORDERS, b"u", b"v", b"w", b"x", b"y", b"z")


async def test_a_batch_is_not_read_from_a_later_topic(lone: Cluster) -> None:
    """What was planned in a topic is an error once that topic is gone, not the records of the next one."""
    lone.create("orders", (1,))
    lone.produce(ORDERS, b"a", b"b", b"c")
    tables = Tables(lone)
    options = tables.batch_options(minPartitions="2")
    pieces = await tables.ask(options, lambda logs: batch_pieces(options, logs))
    replaced(lone)
    for piece in pieces:
        with pytest.raises(TopicTruncatedError, match="deleted and created again"):
            await tables.read(options, [piece])


@pytest.mark.parametrize("plans_again", [False, True])
async def test_a_micro_batch_is_not_read_from_a_later_topic(lone: Cluster, plans_again: bool) -> None:
    """The same of a stream, also if the batch is planned again from its checkpoint after a restart."""
    lone.create("orders", (1,))
    lone.produce(ORDERS, b"a", b"b", b"c")
    tables = Tables(lone)
    stream = Stream(tables)
    start = await stream.begin()
    end, pieces = await stream.plan()
    replaced(lone)
    with pytest.raises(TopicTruncatedError, match="deleted and created again"):
        await tables.read(stream.options, await stream.pieces(start, end) if plans_again else pieces)


class Lagging:
    """Broker 1 has not heard of topic 9 yet, and describes topic 7 of the same name; broker 2 may know better."""

    def __init__(self, *, knows: bool) -> None:
        self.connections = ScriptedConnections(self._answer)
        self._knows = knows

    def _answer(self, endpoint: Endpoint, request: m.Request) -> Answer:
        assert isinstance(request, m.DescribeClusterRequest), request
        if endpoint.address == "b1:1" or not self._knows:
            return described({0: led_by(1, 4)}, offset=10, topic_id=7)
        return described({0: led_by(2, 0), 1: led_by(2, 0)}, offset=20, topic_id=9)


async def test_a_broker_that_lags_behind_does_not_replace_a_topic() -> None:
    """A topic older than the one that was read is another broker's news of long ago: somebody else is asked."""
    options = stream_read_options({"bootstrap.servers": "b1:1,b2:2", "subscribe": "orders"})
    connections = Lagging(knows=True).connections
    async with TopicLogs(options.connection, connections=connections, clock=VirtualClock()) as logs:
        layout = await logs.layout("orders", TopicId(9))
    assert (layout.topic_id, len(layout.partitions)) == (9, 2)


async def test_while_all_lag_behind_nothing_is_said_of_a_topic() -> None:
    """Where nobody knows the topic that was read, the next look tells that, and no truncation."""
    options = stream_read_options({"bootstrap.servers": "b1:1,b2:2", "subscribe": "orders"})
    connections = Lagging(knows=False).connections
    start = StreamOffset(topic_ids={"orders": TopicId(9)}, positions={ORDERS: BEGINNING})
    async with TopicLogs(options.connection, connections=connections, clock=VirtualClock()) as logs:
        with pytest.raises(PartitionUnreadableError, match="know an earlier topic of that name only"):
            await next_offset(options, logs, start, None)
