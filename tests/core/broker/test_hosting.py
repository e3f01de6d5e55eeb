"""Which partitions a broker has: by committed metadata, from its own registration on. Kafka's applyDelta."""

from __future__ import annotations

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.broker.broker import TICKED_AT_ONCE
from replica.core.broker.hosting import TOLD_AT_ONCE
from replica.core.partition.roles import Follower, Leader
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Offset, TopicId
from replica.records import encode_batch
from tests.core.broker.bench import (
    CONFIG,
    CONTROLLER,
    BrokerBench,
    changed,
    recovered,
    registered,
    registration,
    removed,
    topic,
    topic_partition,
)

A = topic_partition("topic", 0)
STRAY = topic_partition("stray", 0)
ALONE = registration(1, leader=1)


def stored(bench: BrokerBench) -> list[fx.Effect]:
    """What was created and deleted since the last word, in order."""
    return [effect for effect in bench.effects if isinstance(effect, fx.CreateLog | fx.DeleteLog)]


def test_new_partition_gets_a_log() -> None:
    """A partition that is assigned here gets a log of its topic; others get none."""
    bench = BrokerBench()
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, ALONE, registration(2, leader=2)))
    assert stored(bench) == [fx.CreateLog(topic_partition=A, topic_id=TopicId(7))]
    assert list(bench.broker.partitions) == [A]


def test_many_partitions_are_told_in_pieces() -> None:
    """A step tells some partitions; the next follow at once, and the controller hears of metadata that all act on."""
    bench = BrokerBench()
    bench.controller_id = CONTROLLER
    bench.decide(*registered(1))
    answered = m.BrokerRegistrationResponse(error=ErrorCode.NONE, broker_epoch=BrokerEpoch(10))
    bench.answer(m.BrokerRegistrationRequest, answered)
    before = bench.metadata.applied_offset
    bench.now_ms += CONFIG.controller_retry_backoff_ms
    bench.decide(*topic("topic", 7, *[ALONE] * (2 * TOLD_AT_ONCE + 1)))
    hosted, told = [len(bench.broker.partitions)], [*bench.broker.told_since(0)]
    while bench.broker.deadline_ms == bench.now_ms:
        bench.settle()
        hosted.append(len(bench.broker.partitions))
        told += bench.broker.told_since(len(told))
    assert told == list(bench.broker.partitions)
    assert hosted == [TOLD_AT_ONCE, 2 * TOLD_AT_ONCE, 2 * TOLD_AT_ONCE + 1]
    assert len(stored(bench)) == 2 * TOLD_AT_ONCE + 1
    heartbeat = bench.answer(m.BrokerHeartbeatRequest, m.BrokerHeartbeatResponse(error=ErrorCode.NONE))
    assert heartbeat.metadata_offset == before
    bench.elapse(CONFIG.controller_retry_backoff_ms)
    ((_, heartbeat),) = bench.out(m.BrokerHeartbeatRequest)
    assert heartbeat.metadata_offset == bench.metadata.applied_offset


def test_partitions_that_are_due_are_called_in_pieces() -> None:
    """Of many that are due at once a step calls some, and the next go on at once."""
    bench = BrokerBench()
    bench.decide(*registered(1), *topic("topic", 7, *[ALONE] * (TICKED_AT_ONCE + 1)))
    while bench.broker.deadline_ms == bench.now_ms:
        bench.settle()
    bench.elapse(CONFIG.replica_lag_time_max_ms)
    due = [len(due_by_now(bench))]
    while due[-1]:
        assert bench.broker.deadline_ms == min(due_by_now(bench))
        bench.settle()
        due.append(len(due_by_now(bench)))
    assert due == [1, 0]


def due_by_now(bench: BrokerBench) -> list[int]:
    """When those partitions were due that still are."""
    deadlines = [partition.deadline_ms for partition in bench.broker.partitions.values()]
    return [deadline_ms for deadline_ms in deadlines if deadline_ms is not None and deadline_ms <= bench.now_ms]


def test_a_partition_that_waits_to_be_told_is_told_the_newest() -> None:
    """What came of it in the meantime counts: another leader, another topic of its name, or that it is gone."""
    bench = BrokerBench()
    bench.decide(*registered(1), *registered(2), *topic("first", 6, *[ALONE] * TOLD_AT_ONCE))
    later, gone = topic_partition("later"), topic_partition("gone")
    bench.decide(
        *[changed(6, number, registration(1, leader=1, epoch=1, partition_epoch=1)) for number in range(TOLD_AT_ONCE)],
        *topic("later", 7, ALONE),
        *topic("gone", 8, ALONE),
    )
    assert not {later, gone} & set(bench.broker.partitions)
    bench.decide(removed(7), *topic("later", 9, registration(1, 2, leader=2)), removed(8))
    assert stored(bench) == [fx.CreateLog(topic_partition=later, topic_id=TopicId(9))]
    assert isinstance(bench.broker.partitions[later].role, Follower)
    assert gone not in bench.broker.partitions


def test_partitions_are_looked_at_that_the_news_concern() -> None:
    """A change of one partition compares no other one; one of a broker those that it keeps."""
    bench = BrokerBench()
    kept = [registration(1, 2, leader=1), registration(1, 3, leader=1)]
    bench.decide(*registered(1), *registered(2), *registered(3), *topic("topic", 7, *kept), *topic("other", 8, *kept))
    before = bench.metadata.image
    bench.decide(changed(7, 1, registration(1, 3, leader=1, isr=(1,), partition_epoch=1)))
    assert list(bench.broker._hosting._concerned_since(before)) == [topic_partition("topic", 1)]
    before = bench.metadata.image
    bench.decide(*registered(3, "another"))
    concerned = [topic_partition("topic", 1), topic_partition("other", 1)]
    assert list(bench.broker._hosting._concerned_since(before)) == concerned


def test_log_that_was_found_is_taken_over() -> None:
    """A partition whose log is on disk goes on with it."""
    bench = BrokerBench(logs={A: recovered(7, (0, 3))})
    bench.decide(*registered(1), *topic("topic", 7, ALONE))
    assert stored(bench) == []
    assert bench.broker.partitions[A].log.log_end_offset == 3


def test_nothing_is_told_before_the_own_registration() -> None:
    """A broker that has not replayed its own registration leads, follows, creates, deletes and asks nothing.

    What it was told before is what an earlier incarnation did, which may have lost what this one would speak for.
    """
    bench = BrokerBench(logs={A: recovered(7, (0, 3)), STRAY: recovered(6, (0, 1))})
    bench.decide(
        *registered(1, "broker-1-before"),
        *registered(2),
        *topic("topic", 7, registration(1, 2, leader=1)),
        *topic("other", 8, registration(2, 1, leader=2)),
    )
    assert (bench.effects, bench.sent, dict(bench.broker.partitions)) == ([], [], {})

    bench.decide(*registered(1))

    assert isinstance(bench.broker.partitions[A].role, Leader)
    assert isinstance(bench.broker.partitions[topic_partition("other")].role, Follower)
    assert [to for to, _ in bench.out(m.FetchRequest)] == [2]


def test_stray_log_is_deleted_once_the_own_registration_was_replayed() -> None:
    """Before that, a topic of that log may be yet to come; after that, the log belongs to nobody."""
    bench = BrokerBench(logs={STRAY: recovered(6, (0, 1))})
    bench.decide(*topic("stray", 6, ALONE))
    bench.decide(removed(6))
    assert stored(bench) == []

    bench.decide(*registered(1))

    assert stored(bench) == [fx.DeleteLog(topic_partition=STRAY)]


def test_topic_created_anew_under_its_name_begins_empty() -> None:
    """The log of the topic that had the name before goes, and is gone before the new one comes."""
    bench = BrokerBench()
    bench.decide(*registered(1), *topic("topic", 7, ALONE))
    bench.produce(A)
    bench.decide(removed(7), *topic("topic", 8, ALONE))

    assert stored(bench) == [fx.DeleteLog(topic_partition=A), fx.CreateLog(topic_partition=A, topic_id=TopicId(8))]
    assert bench.broker.partitions[A].log.log_end_offset == 0


def test_topic_created_anew_while_the_broker_was_away_begins_empty() -> None:
    """A log on disk that belongs to the topic that had the name before is not taken over."""
    bench = BrokerBench(logs={A: recovered(7, (0, 3))})
    bench.decide(*topic("topic", 8, ALONE), *registered(1))

    assert stored(bench) == [fx.DeleteLog(topic_partition=A), fx.CreateLog(topic_partition=A, topic_id=TopicId(8))]


def test_partition_that_is_assigned_elsewhere_is_dropped() -> None:
    """Who is no replica any more keeps nothing, asks nothing, and answers for nothing."""
    bench = BrokerBench()
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, registration(2, 1, leader=2)))
    bench.decide(changed(7, 0, registration(2, leader=2, epoch=1, partition_epoch=1)))
    assert stored(bench) == [fx.DeleteLog(topic_partition=A)]
    bench.answer(m.FetchRequest, None)
    bench.elapse(CONFIG.replica_fetch_backoff_ms)
    assert bench.sent == []


def test_late_word_of_a_dropped_log_is_ignored() -> None:
    """A flush that ends after the partition is gone changes nothing, and neither does a deadline that is past."""
    bench = BrokerBench()
    bench.decide(*registered(1), *topic("topic", 7, ALONE))
    bench.now_ms += CONFIG.log_retention_check_interval_ms
    bench.decide(removed(7))
    assert dict(bench.broker.partitions) == {}
    assert bench.broker.touch(A) is None
    bench.elapse(1)
    assert bench.effects == []


def test_answer_about_the_topic_before_is_not_taken() -> None:
    """What a leader has sent of a topic does not get into the log of another topic with its name.

    1. A fetch is out. 2. The topic is deleted, and one of its name created, both led in epoch 0 by the same broker.
    3. The answer comes, with records of the old one.
    """
    bench = BrokerBench()
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, registration(2, 1, leader=2)))
    bench.decide(removed(7), *topic("topic", 8, registration(2, 1, leader=2)))
    old = m.FetchedPartition(
        topic_partition=A,
        error=ErrorCode.NONE,
        high_watermark=Offset(1),
        log_start_offset=Offset(0),
        records=encode_batch([b"old"], base_offset=0, leader_epoch=0).data,
    )

    asked = bench.answer(m.FetchRequest, m.FetchResponse(partitions=(old,)))

    assert asked.partitions[0].topic_id == 7
    assert bench.broker.partitions[A].log.log_end_offset == 0
    assert bench.out(m.FetchRequest)[0][1].partitions[0].topic_id == 8


def test_what_changes_nothing_is_not_told() -> None:
    """Metadata about other topics does not disturb a partition: no decision of its own is taken again."""
    bench = BrokerBench()
    bench.decide(*registered(1), *topic("topic", 7, ALONE))
    partition = bench.broker.partitions[A]
    role = partition.role
    bench.decide(*registered(2), *topic("other", 8, ALONE))
    assert partition.role is role
    assert stored(bench) == [fx.CreateLog(topic_partition=topic_partition("other"), topic_id=TopicId(8))]
