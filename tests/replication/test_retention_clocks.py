"""Retention by time on whole replicas: no client's timestamp and no single machine's clock decides what is deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemesis.simulator.node import UNIX_MS
from replica.core import events as ev
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.records import encode_batch
from tests.replication.bench import Cluster
from tests.replication.stage import FAST_BROKER

CHECK_MS = 2000
RETENTION_MS = 60_000
DAYS_MS = 30 * 86_400_000
LARGE = b"v" * 200


def send(cluster: Cluster, topic: TopicPartition, unix_ms: int) -> ErrorCode:
    """Write one record that bears a time."""
    records = encode_batch([LARGE], timestamp_ms=unix_ms).data
    request = m.ProduceRequest(topic_partition=topic, acks=-1, timeout_ms=5000, records=records)
    return cluster.ask(cluster.leader(topic), request, m.ProduceResponse).error


def filled(**configs: str) -> tuple[Cluster, TopicPartition]:
    """Three brokers and a partition of several segments, whose records have just been written."""
    broker = replace(FAST_BROKER, log_retention_check_interval_ms=CHECK_MS)
    # The judges want a batch to be in the log as it was sent, which one with the time of its append is not.
    cluster = Cluster(3, broker=broker, is_judged="message_timestamp_type" not in configs)
    topic = cluster.create("topic", (1, 2, 3), retention_ms=f"{RETENTION_MS}", **configs)
    for _ in range(30):
        assert send(cluster, topic, UNIX_MS + cluster.world.now_ms) is ErrorCode.NONE
    return cluster, topic


def set_clock(cluster: Cluster, broker_id: int, ahead_ms: int) -> None:
    """Set the clock of one machine, from now on until it is set again."""
    unix_ms = UNIX_MS + cluster.world.now_ms + ahead_ms
    cluster.node(broker_id).submit(ev.ClockRead(unix_ms=unix_ms))


def starts(cluster: Cluster, topic: TopicPartition) -> set[int]:
    """Where the logs of all replicas begin."""
    return {cluster.replica(broker_id, topic).log.log_start_offset for broker_id in (1, 2, 3)}


@pytest.mark.slow
def test_records_go_when_they_are_old() -> None:
    """By the time on which the brokers agree, and not before."""
    cluster, topic = filled()
    cluster.pass_ms(RETENTION_MS - 3 * CHECK_MS)
    assert starts(cluster, topic) == {0}
    cluster.pass_ms(6 * CHECK_MS)
    assert min(starts(cluster, topic)) > 0


@pytest.mark.slow
def test_one_clock_ahead_deletes_nothing() -> None:
    """Whoever leads, and whoever controls: a clock 30 days ahead, and for good, costs no record on any broker."""
    for broker_id in (1, 2, 3):
        cluster, topic = filled()
        set_clock(cluster, broker_id, DAYS_MS)
        cluster.pass_ms(5 * CHECK_MS)
        assert starts(cluster, topic) == {0}
        assert send(cluster, topic, UNIX_MS + cluster.world.now_ms) is ErrorCode.NONE


def test_clocks_that_jump_together_are_believed_when_they_stay() -> None:
    """All of them ahead for a moment delete nothing; ahead for good, they are right, for all that anybody can tell."""
    cluster, topic = filled()
    for ahead_ms in (DAYS_MS, 0):
        for broker_id in (1, 2, 3):
            set_clock(cluster, broker_id, ahead_ms)
        cluster.pass_ms(CHECK_MS - 500)
    cluster.pass_ms(2 * CHECK_MS)
    assert starts(cluster, topic) == {0}
    for broker_id in (1, 2, 3):
        set_clock(cluster, broker_id, DAYS_MS)
    cluster.pass_ms(3 * CHECK_MS)
    assert min(starts(cluster, topic)) > 0


@pytest.mark.slow
def test_a_record_of_2099_does_not_hold_retention_back() -> None:
    """It is refused where producers say when; where leaders do, it bears the time of its append like any other."""
    cluster, topic = filled()
    assert send(cluster, topic, 4_070_908_800_000) is ErrorCode.INVALID_TIMESTAMP
    cluster, topic = filled(message_timestamp_type="LogAppendTime")
    assert send(cluster, topic, 4_070_908_800_000) is ErrorCode.NONE
    cluster.pass_ms(RETENTION_MS + 3 * CHECK_MS)
    assert min(starts(cluster, topic)) > 0


def test_records_of_1970_stay_where_leaders_say_when() -> None:
    """What a producer calls old is as young as its append; or it is refused where a topic bounds how old it may be."""
    cluster, topic = filled(message_timestamp_type="LogAppendTime")
    for _ in range(30):
        assert send(cluster, topic, 5) is ErrorCode.NONE
    cluster.pass_ms(3 * CHECK_MS)
    assert starts(cluster, topic) == {0}
    cluster, topic = filled(message_timestamp_before_max_ms="1000000")
    assert send(cluster, topic, 5) is ErrorCode.INVALID_TIMESTAMP
