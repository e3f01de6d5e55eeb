"""A broker's own rhythm: high watermarks are stored now and then, and when it leaves; whoever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from replica.core import effects as fx
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Offset
from tests.core.broker.bench import CONFIG, CONTROLLER, BrokerBench, registered, registration, topic, topic_partition

A = topic_partition("topic")


@pytest.fixture
def bench() -> BrokerBench:
    """A broker that leads a partition alone, and that its controller has let in."""
    bench = BrokerBench()
    bench.controller_id = CONTROLLER
    bench.settle()
    bench.answer(
        m.BrokerRegistrationRequest, m.BrokerRegistrationResponse(error=ErrorCode.NONE, broker_epoch=BrokerEpoch(10))
    )
    bench.decide(*registered(1), *topic("topic", 7, registration(1, leader=1)))
    bench.elapse(CONFIG.controller_retry_backoff_ms)
    bench.answer(m.BrokerHeartbeatRequest, m.BrokerHeartbeatResponse(error=ErrorCode.NONE, is_fenced=False))
    return bench


def test_the_controller_is_told_of_metadata_that_is_flushed() -> None:
    """What a crash can take from the disk lets nobody in: it would look like an older copy of the disk afterwards."""
    bench = BrokerBench()
    bench.controller_id = CONTROLLER
    bench.settle()
    bench.answer(
        m.BrokerRegistrationRequest, m.BrokerRegistrationResponse(error=ErrorCode.NONE, broker_epoch=BrokerEpoch(10))
    )
    bench.flushed_metadata = Offset(1)
    bench.decide(*registered(1), *topic("topic", 7, registration(1, leader=1)))
    bench.elapse(CONFIG.controller_retry_backoff_ms)
    ((_, request),) = bench.out(m.BrokerHeartbeatRequest)
    assert (request.metadata_offset, bench.metadata.applied_offset > 1) == (1, True)


def stored(bench: BrokerBench) -> list[int]:
    """The high watermarks of the partition that were stored since the last word."""
    return [effect.offsets[A] for effect in bench.made(fx.StoreHighWatermarks)]


@pytest.mark.parametrize(
    ("name", "acks", "error"),
    [
        pytest.param("unknown", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="unknown"),
        pytest.param("unknown", 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="unknown_with_invalid_acks"),
        pytest.param("elsewhere", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="elsewhere"),
        pytest.param("elsewhere", 3, ErrorCode.INVALID_REQUIRED_ACKS, id="elsewhere_with_invalid_acks"),
        pytest.param("topic", 3, ErrorCode.INVALID_REQUIRED_ACKS, id="here_with_invalid_acks"),
        pytest.param("topic", -2, ErrorCode.INVALID_REQUIRED_ACKS, id="here_with_negative_acks"),
    ],
)
def test_order_of_a_write_s_first_checks(name: str, acks: int, error: ErrorCode) -> None:
    """First whether the cluster has the partition, then the acks, then whether it is to be written here (Kafka)."""
    bench = BrokerBench()
    bench.decide(
        *registered(1),
        *registered(2),
        *topic("topic", 7, registration(1, leader=1)),
        *topic("elsewhere", 8, registration(2, leader=2)),
    )
    request = m.ProduceRequest(topic_partition=topic_partition(name), acks=acks, timeout_ms=1000, records=b"")
    bench.ask(5, request)
    (reply,) = bench.made(fx.Reply)
    assert isinstance(reply.response, m.ProduceResponse)
    assert (reply.response.error, reply.response.not_appended) == (error, True)


def test_high_watermarks_are_stored_at_an_interval(bench: BrokerBench) -> None:
    """What was committed is stored when the interval is over, and only if it is something new."""
    bench.elapse(CONFIG.replica_high_watermark_checkpoint_interval_ms)
    bench.produce(A)
    bench.flush(A)
    assert stored(bench) == []
    bench.elapse(CONFIG.replica_high_watermark_checkpoint_interval_ms)
    assert stored(bench) == [1]
    bench.elapse(CONFIG.replica_high_watermark_checkpoint_interval_ms)
    assert stored(bench) == []


def test_checkpoint_hw_on_shutdown(bench: BrokerBench) -> None:
    """A broker that may leave has stored its high watermarks, as they are then."""
    bench.elapse(CONFIG.replica_high_watermark_checkpoint_interval_ms)
    bench.produce(A)
    bench.flush(A)
    bench.broker.shut_down(bench.now_ms)
    bench.settle()
    assert stored(bench) == [1]
    bench.produce(A)
    bench.flush(A)
    bench.answer(
        m.BrokerHeartbeatRequest,
        m.BrokerHeartbeatResponse(error=ErrorCode.NONE, is_fenced=False, should_shut_down=True),
    )
    assert stored(bench) == [2]


def test_broker_that_was_replaced_halts(bench: BrokerBench) -> None:
    """Two processes under one id: the one that the controller no longer knows stops."""
    bench.elapse(CONFIG.broker_heartbeat_interval_ms)
    bench.answer(m.BrokerHeartbeatRequest, m.BrokerHeartbeatResponse(error=ErrorCode.STALE_BROKER_EPOCH))
    (halt,) = bench.made(fx.Halt)
    assert "only one may run" in halt.reason


def test_broker_asks_nobody_without_a_controller() -> None:
    """Until it is known who leads the metadata log, there is nobody to register with, and nothing is due."""
    bench = BrokerBench()
    bench.elapse(60_000)
    assert (bench.sent, bench.broker.deadline_ms) == ([], None)
    bench.controller_id = CONTROLLER
    bench.settle()
    assert [to for to, _ in bench.out(m.BrokerRegistrationRequest)] == [CONTROLLER]


@pytest.mark.parametrize(
    ("setting", "done"),
    [
        ("broker_heartbeat_interval_ms", lambda bench: bench.out(m.BrokerHeartbeatRequest)),
        ("log_retention_check_interval_ms", lambda bench: bench.made(fx.ApplyRetention)),
        ("replica_high_watermark_checkpoint_interval_ms", lambda bench: bench.made(fx.StoreHighWatermarks)),
    ],
)
def test_an_interval_that_is_made_shorter_counts_from_now(
    bench: BrokerBench, setting: str, done: Callable[[BrokerBench], list[object]]
) -> None:
    """What was due much later is due when the new interval is over, and not before."""
    bench.produce(A)
    bench.flush(A)
    bench.broker.configure(replace(CONFIG, **{setting: 100}), bench.now_ms)  # type: ignore[arg-type] # all are numbers
    bench.elapse(99)
    assert not done(bench)
    bench.elapse(1)
    assert done(bench)


def test_a_partition_that_comes_later_goes_by_what_was_told_before(bench: BrokerBench) -> None:
    """As those do that are there already."""
    told = replace(CONFIG, replica_lag_time_max_ms=700, producer_id_expiration_ms=800)
    bench.broker.configure(told, bench.now_ms)
    bench.decide(*topic("later", 8, registration(1, leader=1)))
    for partition in bench.broker.partitions.values():
        assert (partition.config, partition.producers.expiration_ms) == (told, 800)
