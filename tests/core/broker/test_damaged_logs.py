"""A partition whose log is damaged: refused here, reported, and begun anew when nobody counts on it any more."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.log.recovered import RecoveredLog
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, Offset, TopicId
from replica.records import encode_batch
from tests.core.broker.bench import (
    A,
    BrokerBench,
    changed,
    followed,
    recovered,
    registered,
    registration,
    removed,
    topic,
    topic_partition,
)

B = topic_partition("topic", 1)
DAMAGED = RecoveredLog(
    log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=(), topic_id=TopicId(7), damage="rotten"
)


def reported(bench: BrokerBench) -> tuple[m.OfflineReplica, ...]:
    """What the next heartbeat would report."""
    return bench.broker.reports()


def report(leader_epoch: int) -> m.OfflineReplica:
    return m.OfflineReplica(topic_id=TopicId(7), partition=0, leader_epoch=Epoch(leader_epoch))


def test_damaged_partition_is_refused_and_others_are_served() -> None:
    """Whoever asks for it is told that its storage has failed; it is fetched from nobody."""
    bench = BrokerBench(logs={A: recovered(7, (0, 3)), B: recovered(7, (0, 3))})
    led = registration(1, 2, leader=1)
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, led, led))
    parts = tuple(m.FetchPartition(topic_partition=name, fetch_offset=Offset(3)) for name in (A, B))
    bench.fetch(1, m.FetchRequest(partitions=parts, max_wait_ms=10_000))
    bench.damage(A)
    (reply,) = bench.made(fx.Reply)
    assert isinstance(reply.response, m.FetchResponse)
    assert [part.error for part in reply.response.partitions] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert (list(bench.broker.partitions), list(bench.broker.offline)) == ([B], [A])


def test_waiting_write_is_answered() -> None:
    """What becomes of a write that waits for others, this replica will never know."""
    bench = BrokerBench(logs={A: recovered(7, (0, 3))})
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, registration(1, 2, leader=1)))
    request = m.ProduceRequest(topic_partition=A, acks=-1, timeout_ms=1000, records=encode_batch([b"v"]).data)
    bench.ask(99, request)
    bench.settle()
    assert bench.made(fx.Reply) == []
    bench.damage(A)
    (reply,) = bench.made(fx.Reply)
    assert isinstance(reply.response, m.ProduceResponse)
    assert (reply.call_id, reply.response.not_appended) == (CallId(99), False)
    assert reply.response.error is not ErrorCode.NONE


def test_damage_is_reported_until_the_epoch_is_over() -> None:
    """In the epoch that the broker knows, as long as it is counted on or might be by what it has sent."""
    bench = followed()
    assert reported(bench) == ()
    bench.damage(A)
    assert reported(bench) == (report(0),)
    bench.decide(changed(7, 0, registration(2, 1, leader=2, epoch=1, partition_epoch=1)))
    assert reported(bench) == (report(1),)
    out = registration(2, 1, leader=2, epoch=1, isr=(2,), partition_epoch=2)
    bench.decide(changed(7, 0, out))
    assert reported(bench) == ()


def test_what_others_can_take_over_is_reported_first() -> None:
    """A heartbeat names so many; what nobody else has stays damaged, and is named in every one."""
    alone, shared = registration(1, leader=1), registration(1, 2, leader=1)
    logs = {topic_partition("topic", number): recovered(7, (0, 3)) for number in range(3)}
    bench = BrokerBench(logs=logs)
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, alone, alone, shared))
    for name in logs:
        bench.damage(name)
    assert [each.partition for each in reported(bench)] == [2, 0, 1]


def test_log_is_replaced_when_nobody_counts_on_it() -> None:
    """Put aside, begun anew, and fetched from the leader from the beginning on."""
    bench = followed()
    bench.damage(A)
    out = registration(2, 1, leader=2, epoch=1, isr=(2,), partition_epoch=1)
    bench.decide(changed(7, 0, out))
    assert bench.made(fx.ReplaceLog) == [fx.ReplaceLog(topic_partition=A, topic_id=TopicId(7))]
    assert bench.broker.partitions[A].log.log_end_offset == 0
    assert (list(bench.broker.offline), reported(bench)) == ([], ())


def test_log_that_is_counted_on_is_kept() -> None:
    """Whoever may be elected has what others count on, damaged or not."""
    bench = followed()
    bench.damage(A)
    assert bench.made(fx.ReplaceLog) == []
    bench.decide(changed(7, 0, registration(2, 1, leader=2, epoch=1, partition_epoch=1)))
    assert bench.made(fx.ReplaceLog) == []


@pytest.mark.parametrize("leader", [None, 1])
def test_log_is_kept_while_nobody_else_leads(leader: int | None) -> None:
    """It may be the last that is left of the partition."""
    bench = followed()
    bench.damage(A)
    isr = (2,) if leader is None else (1,)
    out = registration(2, 1, leader=leader, epoch=1, isr=isr, partition_epoch=1)
    bench.decide(changed(7, 0, out))
    assert bench.made(fx.ReplaceLog) == []
    assert list(bench.broker.offline) == [A]


@pytest.mark.parametrize("topic_id", [TopicId(7), None], ids=["known", "unknown"])
def test_damage_found_at_start(topic_id: TopicId | None) -> None:
    """It is as if it had been found in the epoch of which the broker hears first, whatever is known of the log."""
    bench = BrokerBench(logs={A: replace(DAMAGED, topic_id=topic_id)})
    now = registration(2, 1, leader=2, epoch=4)
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, now))
    assert (list(bench.broker.partitions), list(bench.broker.offline)) == ([], [A])
    assert reported(bench) == (report(4),)
    out = registration(2, 1, leader=2, epoch=5, isr=(2,), partition_epoch=1)
    bench.decide(changed(7, 0, out))
    assert bench.made(fx.ReplaceLog) == [fx.ReplaceLog(topic_partition=A, topic_id=TopicId(7))]


def test_damaged_log_of_a_topic_that_is_gone() -> None:
    """It is deleted like any other, whether its topic went before or after it was found."""
    bench = BrokerBench(logs={A: replace(DAMAGED, topic_id=TopicId(6))})
    bench.decide(*registered(1))
    assert bench.made(fx.DeleteLog) == [fx.DeleteLog(topic_partition=A)]

    bench = followed()
    bench.damage(A)
    bench.decide(removed(7))
    assert bench.made(fx.DeleteLog) == [fx.DeleteLog(topic_partition=A)]
    assert list(bench.broker.offline) == []


def test_damage_is_noticed_once() -> None:
    """A second reader that comes upon it says nothing new."""
    bench = followed()
    bench.damage(A)
    before = dict(bench.broker.offline)
    bench.damage(A)
    assert bench.broker.offline == before
