"""Where an epoch ends, asked of a broker: Kafka's OffsetsForLeaderEpochTest."""

from __future__ import annotations

from replica.core import effects as fx
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, TopicPartition
from tests.core.broker.bench import BrokerBench, recovered, registered, registration, topic, topic_partition

LED, FOLLOWED, ELSEWHERE = (topic_partition("topic", number) for number in range(3))


def ask(name: TopicPartition) -> m.OffsetForLeaderEpochResponse:
    """Ask broker 1 where epoch 0 ends. It leads the first partition, follows the second, and lacks the third."""
    bench = BrokerBench(logs={name: recovered(7, (0, 3), (2, 1)) for name in (LED, FOLLOWED)})
    led, followed = registration(1, 2, leader=1, epoch=3), registration(2, 1, leader=2, epoch=3)
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, led, followed, registration(2, leader=2)))
    request = m.OffsetForLeaderEpochRequest(topic_partition=name, leader_epoch=Epoch(0))
    bench.effects.clear()
    bench.ask(1, request)
    bench.settle()
    (reply,) = bench.made(fx.Reply)
    assert isinstance(reply.response, m.OffsetForLeaderEpochResponse), reply
    return reply.response


def test_should_get_epochs_from_replica() -> None:
    """The leader answers from its log."""
    answer = ask(LED)
    assert (answer.error, answer.answer) == (ErrorCode.NONE, EpochEndOffset(Epoch(0), Offset(3)))


def test_should_return_no_leader_for_partition_if_thrown() -> None:
    """Who follows, or has no replica, says that it does not lead, and no offset."""
    for name in (FOLLOWED, ELSEWHERE):
        answer = ask(name)
        assert (answer.error, answer.answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def test_should_return_unknown_topic_or_partition_if_thrown() -> None:
    """Of a partition that the cluster does not have nobody knows anything."""
    for name in (topic_partition("topic", 3), topic_partition("other")):
        answer = ask(name)
        assert (answer.error, answer.answer) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
