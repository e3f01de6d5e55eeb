"""A broker's standing with the controller. Kafka's BrokerLifecycleManagerTest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.core import messages as m
from replica.core.broker.lifecycle import Lifecycle
from replica.core.config import BrokerConfig, BrokerIdentity, LogFlush, ReplicaConfig
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Offset, ReplicaId
from replica.voters import VoterSet

CONFIG = BrokerConfig(broker_heartbeat_interval_ms=2000, controller_retry_backoff_ms=100)
NOW_MS = 1_000_000


def a_lifecycle(log_flush: LogFlush = LogFlush.FSYNC) -> Lifecycle:
    identity = BrokerIdentity(
        incarnation_id="first", address="host-1:9092", rack="a", previous_broker_epoch=BrokerEpoch(3)
    )
    config = ReplicaConfig(
        cluster_id="a-cluster",
        replica_id=ReplicaId(1),
        directory_id="a-disk",
        voters=(ReplicaId(1),),
        initial_voters=VoterSet(()),
        broker=replace(CONFIG, log_flush=log_flush),
    )
    return Lifecycle(config=config, identity=identity, metadata_end_offset=Offset(17))


@pytest.fixture
def lifecycle() -> Lifecycle:
    lifecycle = a_lifecycle()
    assert lifecycle.next_request(NOW_MS, Offset(0)) is not None
    lifecycle.on_registered(m.BrokerRegistrationResponse(error=ErrorCode.NONE, broker_epoch=BrokerEpoch(7)), NOW_MS)
    return lifecycle


@pytest.mark.parametrize("log_flush", LogFlush)
def test_a_broker_introduces_itself_first(log_flush: LogFlush) -> None:
    """The first request is the registration of this incarnation, with its disk and the epoch that it last left cleanly.

    It says whether it will flush what it acknowledges.
    """
    lifecycle = a_lifecycle(log_flush)
    assert not lifecycle.may_shut_down
    assert lifecycle.next_request(NOW_MS, Offset(0)) == m.BrokerRegistrationRequest(
        broker_id=ReplicaId(1),
        cluster_id="a-cluster",
        incarnation_id="first",
        directory_id="a-disk",
        flushes=log_flush is LogFlush.FSYNC,
        metadata_end_offset=Offset(17),
        address="host-1:9092",
        rack="a",
        previous_broker_epoch=BrokerEpoch(3),
    )


def test_it_says_at_once_which_registration_it_replaces() -> None:
    """It learns from the controller that there is one, and that there is none any more."""
    lifecycle = a_lifecycle()
    lifecycle.next_request(NOW_MS, Offset(0))
    for there in (BrokerEpoch(7), None):
        told = m.BrokerRegistrationResponse(error=ErrorCode.STALE_BROKER_EPOCH, broker_epoch=there)
        lifecycle.on_registered(told, NOW_MS)

        again = lifecycle.next_request(NOW_MS, Offset(0))

        assert isinstance(again, m.BrokerRegistrationRequest)
        assert again.replaces == there
        assert lifecycle.refusal is None


def test_one_request_is_out_at_a_time() -> None:
    """While the controller owes an answer, nothing is asked and nothing is due."""
    lifecycle = a_lifecycle()
    lifecycle.next_request(NOW_MS, Offset(0))

    assert lifecycle.next_request(NOW_MS + 60_000, Offset(0)) is None
    assert lifecycle.deadline_ms is None


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_CONTROLLER, ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_a_refused_registration_is_repeated(error: ErrorCode) -> None:
    """A controller that is none, or one for which the last incarnation still lives, is asked again after a pause."""
    lifecycle = a_lifecycle()
    first = lifecycle.next_request(NOW_MS, Offset(0))
    lifecycle.on_registered(m.BrokerRegistrationResponse(error=error), NOW_MS)

    assert lifecycle.next_request(NOW_MS + 99, Offset(0)) is None
    assert lifecycle.next_request(NOW_MS + 100, Offset(0)) == first


def test_a_lost_registration_is_repeated() -> None:
    """Whether the controller has registered it is unknown: the same incarnation asks again."""
    lifecycle = a_lifecycle()
    first = lifecycle.next_request(NOW_MS, Offset(0))
    lifecycle.on_failed(NOW_MS + 5000)

    assert lifecycle.deadline_ms == NOW_MS + 5100
    assert lifecycle.next_request(NOW_MS + 5100, Offset(0)) == first


def test_heartbeats_carry_the_epoch_and_the_applied_offset(lifecycle: Lifecycle) -> None:
    """A registered broker tells how far it has applied the metadata log."""
    assert lifecycle.next_request(NOW_MS + 100, Offset(42)) == m.BrokerHeartbeatRequest(
        broker_id=ReplicaId(1),
        broker_epoch=BrokerEpoch(7),
        incarnation_id="first",
        cluster_id="a-cluster",
        metadata_offset=Offset(42),
    )


def test_clocks_are_compared_with_every_heartbeat(lifecycle: Lifecycle) -> None:
    """A broker tells what its own clock shows and goes by what the controller makes of all of them."""
    lifecycle.clock.on_read(500_000, NOW_MS)

    asked = lifecycle.next_request(NOW_MS + 100, Offset(42))
    assert isinstance(asked, m.BrokerHeartbeatRequest)
    assert asked.unix_ms == 500_100
    lifecycle.on_heartbeat(m.BrokerHeartbeatResponse(error=ErrorCode.NONE, is_fenced=False, unix_ms=700_000), NOW_MS)
    assert (lifecycle.clock.unix_ms(NOW_MS + 5), lifecycle.clock.own_unix_ms(NOW_MS + 5)) == (700_005, 500_005)


@pytest.mark.parametrize(("is_fenced", "pause_ms"), [(True, 100), (False, 2000)])
def test_a_fenced_broker_asks_more_often(lifecycle: Lifecycle, is_fenced: bool, pause_ms: int) -> None:
    """Who waits to be let in asks after each pause; who is in, at the interval of heartbeats."""
    lifecycle.next_request(NOW_MS + 100, Offset(42))
    lifecycle.on_heartbeat(m.BrokerHeartbeatResponse(error=ErrorCode.NONE, is_fenced=is_fenced), NOW_MS + 200)

    assert lifecycle.is_fenced is is_fenced
    assert lifecycle.deadline_ms == NOW_MS + 200 + pause_ms


def test_controlled_shutdown_ends_when_the_controller_says_so(lifecycle: Lifecycle) -> None:
    """The wish goes out at once and with every heartbeat; only the controller's word lets the broker leave."""
    lifecycle.next_request(NOW_MS + 100, Offset(42))
    lifecycle.on_heartbeat(m.BrokerHeartbeatResponse(error=ErrorCode.NONE, is_fenced=False), NOW_MS + 200)
    lifecycle.shut_down(NOW_MS + 300)

    first = lifecycle.next_request(NOW_MS + 300, Offset(42))
    assert isinstance(first, m.BrokerHeartbeatRequest)
    assert first.want_shut_down
    lifecycle.on_heartbeat(m.BrokerHeartbeatResponse(error=ErrorCode.NONE, is_fenced=False), NOW_MS + 310)
    assert not lifecycle.may_shut_down
    assert lifecycle.next_request(NOW_MS + 410, Offset(42)) == first
    lifecycle.on_heartbeat(
        m.BrokerHeartbeatResponse(error=ErrorCode.NONE, is_fenced=False, should_shut_down=True), NOW_MS + 420
    )
    assert lifecycle.may_shut_down


def test_leave_to_go_means_nothing_to_a_broker_that_stays(lifecycle: Lifecycle) -> None:
    """An answer that lets go a broker which has not asked for it changes nothing."""
    lifecycle.next_request(NOW_MS + 100, Offset(42))
    lifecycle.on_heartbeat(m.BrokerHeartbeatResponse(error=ErrorCode.NONE, should_shut_down=True), NOW_MS + 200)

    assert not lifecycle.may_shut_down


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (ErrorCode.STALE_BROKER_EPOCH, "another process has registered as broker 1: only one may run"),
        (
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "broker 1 was unregistered; it registers anew when it is started again",
        ),
    ],
)
def test_a_broker_whose_registration_is_gone_refuses_to_go_on(
    lifecycle: Lifecycle, error: ErrorCode, refusal: str
) -> None:
    """Two processes under one id, or none that counts: the one that the controller no longer knows says so."""
    lifecycle.next_request(NOW_MS + 100, Offset(42))
    lifecycle.on_heartbeat(m.BrokerHeartbeatResponse(error=error), NOW_MS + 200)

    assert lifecycle.refusal == refusal
    assert lifecycle.next_request(NOW_MS + 60_000, Offset(42)) is None
    assert lifecycle.deadline_ms is None


def test_a_broker_of_another_cluster_refuses_to_go_on() -> None:
    """A registration under a foreign cluster id can never succeed."""
    lifecycle = a_lifecycle()
    lifecycle.next_request(NOW_MS, Offset(0))
    lifecycle.on_registered(m.BrokerRegistrationResponse(error=ErrorCode.INCONSISTENT_CLUSTER_ID), NOW_MS)

    assert lifecycle.refusal == "broker 1 belongs to another cluster than a-cluster"
