"""Partitions whose log directory has failed: offline as long as the process lives, whoever has what they had."""

from __future__ import annotations

from replica.core import effects as fx
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import CallId, Offset
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
from tests.core.broker.test_damaged_logs import DAMAGED, report

B, C = topic_partition("topic", 1), topic_partition("topic", 2)


def test_all_partitions_of_a_directory_are_offline_and_no_others() -> None:
    """Waiting writes end, requests are told that the storage has failed, and the controller hears of each at once."""
    bench = BrokerBench(logs={name: recovered(7, (0, 3)) for name in (A, B, C)})
    led = registration(1, 2, leader=1)
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, led, led, led))
    request = m.ProduceRequest(topic_partition=A, acks=-1, timeout_ms=1000, records=encode_batch([b"v"]).data)
    bench.ask(99, request)
    bench.settle()
    bench.fail_directory(A, B)
    (reply,) = bench.made(fx.Reply)
    assert isinstance(reply.response, m.ProduceResponse)
    assert (reply.call_id, reply.response.error is not ErrorCode.NONE) == (CallId(99), True)
    assert (list(bench.broker.partitions), list(bench.broker.offline)) == ([C], [A, B])
    assert bench.broker.failed_directories == {"/disk1": "no more space"}
    parts = tuple(m.FetchPartition(topic_partition=name, fetch_offset=Offset(3)) for name in (A, B, C))
    bench.effects.clear()
    bench.fetch(1, m.FetchRequest(partitions=parts))
    (reply,) = bench.made(fx.Reply)
    assert isinstance(reply.response, m.FetchResponse)
    storage_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert [part.error for part in reply.response.partitions] == [storage_error, storage_error, ErrorCode.NONE]
    assert [each.partition for each in bench.broker.reports()] == [0, 1]


def test_partition_does_not_begin_anew_while_its_directory_has_failed() -> None:
    """Its log may be whole when the disk is repaired. It is named in every heartbeat, in the epoch of the failure."""
    bench = followed()
    bench.fail_directory(A)
    assert bench.broker.reports() == (report(0),)
    out = registration(2, 1, leader=2, epoch=1, isr=(2,), partition_epoch=1)
    bench.decide(changed(7, 0, out))
    assert bench.made(fx.ReplaceLog) == []
    assert list(bench.broker.offline) == [A]
    assert bench.broker.reports() == (report(0),)


def test_directory_that_fails_before_its_partitions_are_claimed() -> None:
    """What the metadata says of them later makes no difference; nor does it to one that was found damaged."""
    bench = BrokerBench(logs={A: recovered(7, (0, 3)), B: DAMAGED})
    bench.fail_directory(A, B)
    now = registration(2, 1, leader=2)
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, now, now))
    assert (list(bench.broker.partitions), list(bench.broker.offline)) == ([], [A, B])
    out = registration(2, 1, leader=2, epoch=5, isr=(2,), partition_epoch=1)
    bench.decide(changed(7, 0, out), changed(7, 1, out))
    assert bench.made(fx.ReplaceLog) == []
    assert {offline.directory for offline in bench.broker.offline.values()} == {"/disk1"}


def test_topic_that_goes_takes_its_offline_partitions_along() -> None:
    """One of the same name that is created later is another one, and is put elsewhere."""
    bench = followed()
    bench.fail_directory(A)
    bench.decide(removed(7))
    assert bench.made(fx.DeleteLog) == [fx.DeleteLog(topic_partition=A)]
    bench.decide(*topic("topic", 8, registration(1, 2, leader=1)))
    assert (list(bench.broker.partitions), list(bench.broker.offline)) == ([A], [])
