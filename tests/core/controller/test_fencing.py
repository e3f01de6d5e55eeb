"""Heartbeats and what their absence means: brokers let in, let go, and fenced. Names as in Kafka."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from replica.core import messages as m
from replica.core.config import ControllerConfig
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import PartitionRecord
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Offset, ReplicaId
from tests.core.controller.bench import CLUSTER, CONFIG, SESSION_MS, WITHOUT_ELR, Bench

BOTH_WAYS = pytest.mark.parametrize("config", [CONFIG, WITHOUT_ELR], ids=["with_elr", "without_elr"])


def beat(bench: Bench, broker_id: int, broker_epoch: int, incarnation_id: str | None = None) -> ErrorCode:
    request = m.BrokerHeartbeatRequest(
        broker_id=ReplicaId(broker_id),
        broker_epoch=BrokerEpoch(broker_epoch),
        incarnation_id=bench.incarnation_of(broker_id) if incarnation_id is None else incarnation_id,
        cluster_id=CLUSTER,
        metadata_offset=Offset(99),
    )
    return bench.ask(request, m.BrokerHeartbeatResponse).error


def told_time(bench: Bench, broker_id: int, unix_ms: int | None, *, metadata_offset: int = 99) -> int | None:
    """What time it is by the answer to a broker whose clock shows this."""
    request = m.BrokerHeartbeatRequest(
        broker_id=ReplicaId(broker_id),
        broker_epoch=BrokerEpoch(bench.epoch_of(broker_id)),
        incarnation_id=bench.incarnation_of(broker_id),
        cluster_id=CLUSTER,
        metadata_offset=Offset(metadata_offset),
        unix_ms=unix_ms,
    )
    return bench.ask(request, m.BrokerHeartbeatResponse).unix_ms


def test_the_time_is_what_the_brokers_clocks_agree_on() -> None:
    """One clock that is wrong is outvoted; nothing is said while half of the brokers or more have not told theirs."""
    bench = Bench()
    for broker_id in (1, 2, 3):
        bench.register(broker_id)
        beat(bench, broker_id, bench.epoch_of(broker_id))
    assert told_time(bench, 1, None) is None
    assert told_time(bench, 1, 9_000_000) is None
    assert told_time(bench, 2, 50_000) == 50_000
    assert told_time(bench, 3, 50_020) == 50_020
    bench.now_ms += 100
    assert told_time(bench, 1, 9_000_100) == 50_120
    assert told_time(bench, 2, 9_000_100) == 9_000_100


def test_clocks_of_fenced_brokers_do_not_count() -> None:
    """Whoever registers brokers that never catch up has no say in what time it is, however many they are."""
    bench = Bench()
    bench.start(1, 2, 3)
    for broker_id in (4, 5, 6, 7):
        bench.register(broker_id)
        assert told_time(bench, broker_id, 0, metadata_offset=0) is None
    assert [told_time(bench, broker_id, 50_000) for broker_id in (1, 2, 3)] == [None, 50_000, 50_000]


def test_heartbeat_of_another_incarnation() -> None:
    """Only the incarnation that is registered is heard, and nobody that is not registered at all."""
    bench = Bench()
    bench.register(1)
    for wrong in (-1, 1):
        assert beat(bench, 1, bench.epoch_of(1) + wrong) is ErrorCode.STALE_BROKER_EPOCH
    assert beat(bench, 2, 0) is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert bench.broker(1).fenced


def test_broker_is_unfenced_once_it_has_applied_its_registration() -> None:
    """Metadata up to the registration are not enough; the registration itself must be applied."""
    bench = Bench()
    bench.register(1)
    assert bench.heartbeat(1, metadata_offset=bench.epoch_of(1)).is_fenced
    assert bench.records == ()
    assert not bench.heartbeat(1, metadata_offset=bench.epoch_of(1) + 1).is_fenced
    assert not bench.broker(1).fenced
    assert not bench.heartbeat(1, metadata_offset=0).is_fenced
    assert bench.records == ()


def test_heartbeats_write_nothing() -> None:
    """A heartbeat that changes nothing leaves no record, and keeps the session."""
    bench = Bench()
    bench.start(1)
    for _ in range(5):
        bench.pass_ms(SESSION_MS - 1)
        bench.heartbeat(1)
        assert bench.records == ()
    assert not bench.broker(1).fenced


@BOTH_WAYS
def test_process_expired_broker_heartbeat(config: ControllerConfig) -> None:
    """A broker that is silent for a whole session is fenced, not before, and only it."""
    bench = Bench(config)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3))
    bench.pass_ms(SESSION_MS - 1)
    bench.heartbeat(2)
    bench.heartbeat(3)
    assert bench.controller.deadline_ms == bench.now_ms + 1
    bench.pass_ms(0)
    assert bench.records == ()
    bench.pass_ms(1)
    assert [bench.broker(broker_id).fenced for broker_id in (1, 2, 3)] == [True, False, False]
    assert bench.shape() == (2, (2, 3), ())
    bench.pass_ms(1)
    assert bench.records == ()


@BOTH_WAYS
def test_remove_leaderships(config: ControllerConfig) -> None:
    """Fencing moves every leadership of the broker, takes it out of every ISR, and touches nothing else."""
    bench = Bench(config)
    bench.start(0, 1, 2, 3)
    bench.create((1, 2, 3), (2, 3, 1), (3, 1, 2), (0, 2, 3))
    bench.silence(2)
    leaders = [bench.partition(number).leader_id for number in range(4)]
    assert leaders == [1, 3, 3, 0]
    assert [bench.partition(number).isr for number in range(4)] == [(1, 3), (3, 1), (3, 1), (0, 3)]
    assert [bench.partition(number).leader_epoch for number in range(4)] == [0, 1, 0, 0]
    assert [bench.partition(number).partition_epoch for number in range(4)] == [1, 1, 1, 1]


def test_what_many_partitions_become_is_written_down_at_once() -> None:
    """However many partitions a broker leaves, their topic is made anew once: each time costs as many as it has."""
    bench = Bench()
    bench.start(1, 2, 3)
    bench.create(*[(1, 2, 3)] * 20)
    before, made = sys.getprofile(), 0

    def count(frame: FrameType, what: str, _argument: object) -> None:
        nonlocal made
        made += what == "call" and frame.f_code is MetadataImage._with_partitions.__code__

    sys.setprofile(count)
    try:
        bench.silence(1)
    finally:
        sys.setprofile(before)
    assert {bench.partition(number).leader_id for number in range(20)} == {2}
    by_controller = by_replay = 1
    assert made == by_controller + by_replay


def test_fence_multiple_brokers() -> None:
    """With all of them gone the last member is kept without eligible leader replicas, and nobody leads."""
    bench = Bench(WITHOUT_ELR)
    bench.start(0, 1, 2, 3, 4)
    bench.create((1, 2, 3), (2, 3, 4), (0, 2, 1))
    bench.silence(2, 3)
    assert [bench.shape(number) for number in range(3)] == [(1, (1,), ()), (4, (4,), ()), (0, (0, 1), ())]
    bench.silence(4)
    assert bench.shape(1) == (None, (4,), ())
    bench.come_back(2)
    assert bench.shape(1) == (None, (4,), ())
    bench.come_back(4)
    assert bench.shape(1) == (4, (4,), ())
    assert bench.partition(1).leader_epoch == 4


def test_all_sessions_end_at_once() -> None:
    """Brokers that are found silent together are fenced in the order of their last heartbeats."""
    bench = Bench(WITHOUT_ELR)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3))
    for broker_id in (3, 2, 1):
        bench.heartbeat(broker_id)
        bench.now_ms += 1
    bench.pass_ms(SESSION_MS)
    assert bench.shape() == (None, (1,), ())


@BOTH_WAYS
@pytest.mark.parametrize(
    ("heard_last_from", "leaders", "isr"),
    [((1, 2), [3], (3,)), ((2, 1), [3], (3,)), ((1, 2, 3), [None], None), ((3, 2, 1), [None], None)],
    ids=["leader_first", "leader_last", "all_leader_first", "all_leader_last"],
)
def test_no_leadership_for_who_is_fenced_at_the_same_moment(
    config: ControllerConfig, heard_last_from: tuple[int, ...], leaders: list[int | None], isr: tuple[int, ...] | None
) -> None:
    """Of brokers that are found silent together none is elected on the way, and the leadership moves once."""
    bench = Bench(config)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3))
    for broker_id in heard_last_from:
        bench.heartbeat(broker_id)
        bench.now_ms += 1
    bench.now_ms += SESSION_MS - 1
    if 3 not in heard_last_from:
        bench.heartbeat(3)
    bench.tick()
    decided = [record.registration for record in bench.records if isinstance(record, PartitionRecord)]
    assert list(dict.fromkeys(registration.leader_id for registration in decided)) == leaders
    assert bench.partition().leader_epoch == 1
    assert all(bench.broker(broker_id).fenced for broker_id in heard_last_from)
    if isr is not None:
        assert bench.partition().isr == isr


@BOTH_WAYS
def test_unfenced_broker_leads_what_waited_for_it(config: ControllerConfig) -> None:
    """A last member that comes back after a clean stop leads again, in a later epoch."""
    bench = Bench(config)
    bench.start(1, 2)
    bench.create((1, 2), (2, 1), configs={"min.insync.replicas": "1"})
    bench.alter_isr(1)
    bench.silence(1)
    assert bench.partition(0).leader_id is None
    bench.come_back(1)
    assert bench.partition(0).leader_id == 1
    assert bench.partition(0).leader_epoch == 2
    assert bench.partition(1).leader_id == 2
    assert bench.partition(1).leader_epoch == 0


# --- controlled shutdown --------------------------------------------------------------------------------------------


@BOTH_WAYS
def test_controlled_shutdown(config: ControllerConfig) -> None:
    """A broker that wants to stop hands over its leaderships first, and then may."""
    bench = Bench(config)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3), (1, 2, 3), configs={"min.insync.replicas": "1"})
    bench.alter_isr(1, number=1)
    answer = bench.heartbeat(1, want_shut_down=True)
    assert (answer.error, answer.should_shut_down, answer.is_fenced) == (ErrorCode.NONE, True, False)
    assert bench.shape(0) == (2, (2, 3), ())
    assert bench.partition(1).leader_id is None
    assert bench.broker(1).in_controlled_shutdown
    assert bench.heartbeat(1, want_shut_down=True) == answer
    assert bench.records == ()


def test_a_broker_that_wants_to_stop_gets_no_leadership() -> None:
    """As long as its heartbeats say so, and then until it has registered again."""
    bench = Bench()
    bench.start(1, 2)
    bench.create((1, 2))
    bench.heartbeat(1, want_shut_down=True)
    bench.heartbeat(1, want_shut_down=True)
    assert bench.broker(1).in_controlled_shutdown
    bench.come_back(1)
    assert bench.broker(1).is_active


def test_clean_restart_keeps_the_leadership_of_a_lone_replica() -> None:
    """After a controlled shutdown and a clean stop a lone replica is eligible, and leads without recovery."""
    bench = Bench()
    bench.start(1)
    bench.create((1,))
    bench.heartbeat(1, want_shut_down=True)
    assert bench.shape() == (None, (), (1,))
    bench.come_back(1)
    assert bench.shape() == (1, (1,), ())
    assert bench.partition().leader_recovery_state == "RECOVERED"


def test_fenced_broker_may_shut_down_at_once() -> None:
    """Who is fenced leads nothing, so there is nothing to wait for."""
    bench = Bench()
    bench.register(1)
    answer = bench.heartbeat(1, want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)


def test_shut_down_broker_that_falls_silent_is_fenced() -> None:
    """The session of a broker that stops runs out like any other."""
    bench = Bench()
    bench.start(1)
    bench.heartbeat(1, want_shut_down=True)
    bench.pass_ms(SESSION_MS)
    assert bench.broker(1).fenced
    assert bench.broker(1).in_controlled_shutdown


def test_who_does_not_know_the_incarnation_does_not_speak_for_a_broker() -> None:
    """A heartbeat with the epoch of a broker, but not with what that has registered with, is refused."""
    bench = Bench()
    bench.start(1)
    assert beat(bench, 1, bench.epoch_of(1), "guessed") is ErrorCode.STALE_BROKER_EPOCH
    assert beat(bench, 1, bench.epoch_of(1)) is ErrorCode.NONE


@BOTH_WAYS
def test_a_broker_that_is_told_to_leave_by_nobody_leads_on(config: ControllerConfig) -> None:
    """Somebody wants all brokers out in their names: the next heartbeat of each lets it in, and leaders are elected."""
    bench = Bench(config)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3))
    for broker_id in (1, 2, 3):
        bench.heartbeat(broker_id, want_shut_down=True)
    assert bench.shape()[0] is None
    answers = [bench.heartbeat(broker_id) for broker_id in (1, 2, 3)]
    assert all((answer.is_fenced, answer.should_shut_down) == (False, False) for answer in answers)
    assert bench.shape()[0] is not None
    assert not any(bench.broker(broker_id).in_controlled_shutdown for broker_id in (1, 2, 3))
