"""A broker that is gone for good is forgotten: not while it lives, and not while anything counts on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.core import messages as m
from replica.core.controller.invariants import check_decision
from replica.core.metadata.records import UnregisterBrokerRecord
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from tests.core.controller.bench import CONFIG, Bench, ids


def unregister(bench: Bench, broker_id: int) -> m.UnregisterBrokerResponse:
    request = m.UnregisterBrokerRequest(broker_id=ReplicaId(broker_id))
    return bench.ask(request, m.UnregisterBrokerResponse)


@pytest.fixture
def bench() -> Bench:
    """A topic on the brokers 1 to 3; the fourth has nothing."""
    bench = Bench()
    bench.start(1, 2, 3, 4)
    bench.create((1, 2, 3))
    return bench


def test_a_broker_that_is_gone_is_forgotten(bench: Bench) -> None:
    """One record takes it away, and every image that is read from the log, or from a snapshot, is without it."""
    bench.silence(4)
    epoch = bench.epoch_of(4)
    assert unregister(bench, 4).error is ErrorCode.NONE
    assert bench.records == (UnregisterBrokerRecord(broker_id=ReplicaId(4), broker_epoch=epoch),)
    assert list(bench.committed.brokers) == [1, 2, 3]
    bench.restart_from_snapshot()
    assert list(bench.committed.brokers) == [1, 2, 3]
    again = unregister(bench, 4)
    assert (again.error, again.message) == (ErrorCode.BROKER_ID_NOT_REGISTERED, "broker 4 is not registered")


def test_a_registration_that_was_held_up_does_not_bring_a_forgotten_broker_back(bench: Bench) -> None:
    """Its process has named a registration that is gone; whoever lives is told so, and asks again."""
    bench.silence(4)
    before = bench.epoch_of(4)
    assert unregister(bench, 4).error is ErrorCode.NONE

    late = bench.register(4, "second", replaces=before)

    assert (late.error, late.broker_epoch) == (ErrorCode.STALE_BROKER_EPOCH, None)
    assert ReplicaId(4) not in bench.committed.brokers
    assert bench.register(4, "third").error is ErrorCode.NONE


@pytest.mark.parametrize("shut_down", [True, False])
def test_a_broker_that_is_alive_is_not_forgotten(bench: Bench, shut_down: bool) -> None:
    """Neither one that serves, nor one that is fenced, or leaves, and was heard from within its session."""
    if shut_down:
        bench.heartbeat(4, want_shut_down=True)
    answer = unregister(bench, 4)
    assert (answer.error, answer.message) == (ErrorCode.INVALID_REQUEST, "broker 4 is alive; stop it first")
    bench.register(5)
    assert bench.broker(5).fenced
    assert unregister(bench, 5).error is ErrorCode.INVALID_REQUEST
    bench.pass_ms(bench.config.broker_session_timeout_ms)
    assert unregister(bench, 5).error is ErrorCode.NONE


def test_a_broker_that_holds_replicas_is_not_forgotten(bench: Bench) -> None:
    """First its partitions move, which needs others that are in sync; then nothing names it."""
    bench.silence(3)
    answer = unregister(bench, 3)
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert answer.message == (
        "broker 3 is a replica of 1 partitions (topic-0 is one); move them to others, or delete them, first"
    )
    bench.reassign(0, 1, 2, 4)
    assert unregister(bench, 3).error is ErrorCode.INVALID_REQUEST
    bench.alter_isr(1, 2, 4)
    assert bench.partition().replicas == ids(1, 2, 4)
    assert unregister(bench, 3).error is ErrorCode.NONE


def test_a_broker_that_comes_back_is_a_new_one(bench: Bench) -> None:
    """It gets a larger epoch, under whatever incarnation, and holds nothing that anybody counts on."""
    bench.silence(4)
    epoch = bench.epoch_of(4)
    assert unregister(bench, 4).error is ErrorCode.NONE
    answer = bench.register(4)
    assert (answer.error, answer.broker_epoch) == (ErrorCode.NONE, bench.epoch_of(4))
    assert bench.epoch_of(4) > epoch
    assert not bench.heartbeat(4).is_fenced


def test_room_is_made_for_another() -> None:
    """Where as many brokers have registered as may, one that is gone need not be there for ever."""
    bench = Bench(replace(CONFIG, brokers_max=2))
    bench.start(1, 2)
    assert bench.register(3).error is ErrorCode.INVALID_REQUEST
    bench.silence(2)
    assert unregister(bench, 2).error is ErrorCode.NONE
    assert bench.register(3).error is ErrorCode.NONE


def test_nothing_may_name_who_is_forgotten(bench: Bench) -> None:
    """A decision that takes a broker away is none while it serves, or while a partition has it as a replica."""
    for broker_id in (3, 4):
        record = UnregisterBrokerRecord(broker_id=ReplicaId(broker_id), broker_epoch=bench.epoch_of(broker_id))
        with pytest.raises(AssertionError):
            check_decision(bench.committed, bench.committed.apply(record), elr_enable=True)
        bench.silence(broker_id)
    for broker_id, is_named in ((3, True), (4, False)):
        record = UnregisterBrokerRecord(broker_id=ReplicaId(broker_id), broker_epoch=bench.epoch_of(broker_id))
        after = bench.committed.apply(record)
        if is_named:
            with pytest.raises(AssertionError):
                check_decision(bench.committed, after, elr_enable=True)
        else:
            check_decision(bench.committed, after, elr_enable=True)
