"""Elections that somebody asks for or that come by time: preferred, unclean, leaderless. Names as in Kafka."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.core.config import ControllerConfig
from replica.core.messages import ElectionType, ElectLeaderRequest, ElectLeaderResponse
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from tests.core.controller.bench import CONFIG, SESSION_MS, WITHOUT_ELR, Bench

BOTH_WAYS = pytest.mark.parametrize("config", [CONFIG, WITHOUT_ELR], ids=["with_elr", "without_elr"])
UNCLEAN, PREFERRED = ElectionType.UNCLEAN, ElectionType.PREFERRED


def leaderless(config: ControllerConfig, **configs: str) -> Bench:
    """Brokers 2 and 3 are active and not in sync; broker 1, which was the last that was, is fenced."""
    bench = Bench(config)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3), configs={"min.insync.replicas": "1", **configs})
    bench.alter_isr(1)
    bench.silence(1)
    return bench


def assert_elects_unclean_leaders(config: ControllerConfig) -> None:
    """An operator's word makes the active replica lead that he names, once."""
    bench = leaderless(config)
    assert bench.partition().leader_id is None
    assert bench.elect(UNCLEAN) is ErrorCode.INVALID_REQUEST
    assert bench.elect(UNCLEAN, leader_id=1) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert bench.elect(UNCLEAN, leader_id=3) is ErrorCode.NONE
    assert bench.shape() == (3, (3,), ())
    assert bench.partition().leader_recovery_state == "RECOVERING"
    assert bench.elect(UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED


def test_elect_unclean_leaders_without_elr() -> None:
    """An operator may give up records where nobody in sync is left; the new leader is alone and has to recover."""
    assert_elects_unclean_leaders(WITHOUT_ELR)


def test_elect_unclean_leaders_with_elr() -> None:
    """An operator may do so as well where who holds everything is known, and away."""
    assert_elects_unclean_leaders(CONFIG)


@BOTH_WAYS
def test_unclean_election_needs_somebody(config: ControllerConfig) -> None:
    """Where no replica is active even an unclean election has nobody to elect, and writes nothing."""
    bench = leaderless(config)
    bench.silence(2, 3)
    assert bench.elect(UNCLEAN, leader_id=2) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert bench.records == ()


@pytest.mark.parametrize("election_type", ElectionType)
def test_elect_leader_of_an_unknown_partition(election_type: ElectionType) -> None:
    """There is nothing to elect where there is no partition."""
    bench = Bench()
    bench.start(1)
    bench.create((1,))
    for unknown in (TopicPartition("topic", 1), TopicPartition("another", 0)):
        request = ElectLeaderRequest(topic_partition=unknown, election_type=election_type)
        assert bench.ask(request, ElectLeaderResponse).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@BOTH_WAYS
def test_preferred_election_does_not_trigger_unclean_election(config: ControllerConfig) -> None:
    """A preferred replica that is not in sync is not elected, even where nobody leads and the topic allows it."""
    bench = Bench(config)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3), configs={"min.insync.replicas": "1"})
    bench.alter_isr(1, 3)
    bench.silence(1)
    bench.alter_isr(3)
    bench.come_back(1)
    bench.silence(3)
    bench.restart(replace(config, unclean_leader_election_enable=True))
    assert bench.partition().leader_id is None
    assert bench.elect(PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert bench.records == ()


@BOTH_WAYS
def test_elect_preferred_leaders(config: ControllerConfig) -> None:
    """The preferred replica leads again on demand once it is in sync, in a new leader epoch."""
    bench = Bench(config)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3))
    assert bench.elect(PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED
    bench.silence(1)
    assert bench.elect(PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    bench.come_back(1)
    assert bench.elect(PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    bench.alter_isr(1, 2, 3)
    assert bench.elect(PREFERRED) is ErrorCode.NONE
    assert (bench.partition().leader_id, bench.partition().leader_epoch) == (1, 2)


@BOTH_WAYS
def test_maybe_trigger_unclean_leader_election_for_leaderless_partitions(config: ControllerConfig) -> None:
    """Partitions that were leaderless when it became allowed get a leader when the interval is over."""
    bench = leaderless(config)
    interval_ms = 5 * SESSION_MS
    bench.restart(replace(config, unclean_leader_election_enable=True, unclean_leader_election_interval_ms=interval_ms))
    for _ in range(9):
        bench.pass_ms(SESSION_MS // 2)
        bench.heartbeat(2)
        bench.heartbeat(3)
        assert bench.partition().leader_id is None
    bench.pass_ms(SESSION_MS // 2)
    assert bench.shape() == (2, (2,), ())


@BOTH_WAYS
def test_topic_overrides_the_cluster(config: ControllerConfig) -> None:
    """A topic that forbids unclean elections waits for its replica, whatever the cluster's default is."""
    bench = leaderless(
        replace(config, unclean_leader_election_enable=True), **{"unclean.leader.election.enable": "false"}
    )
    assert bench.partition().leader_id is None
    bench.pass_ms(config.unclean_leader_election_interval_ms)
    assert bench.partition().leader_id is None


@BOTH_WAYS
def test_unclean_election_when_the_last_member_is_fenced(config: ControllerConfig) -> None:
    """A topic that allows it does not wait for the interval."""
    bench = leaderless(config, **{"unclean.leader.election.enable": "true"})
    assert bench.shape() == (2, (2,), ())


@BOTH_WAYS
def test_unclean_election_when_it_is_allowed(config: ControllerConfig) -> None:
    """A topic that is told to allow it gets its leaders in the same decision."""
    bench = leaderless(config)
    assert bench.alter_topic("unclean.leader.election.enable", "true").error is ErrorCode.NONE
    assert bench.shape() == (2, (2,), ())


def balanced_by_time(bench: Bench) -> None:
    """Let the interval between two balancings pass while all brokers are heard."""
    bench.now_ms += bench.config.leader_imbalance_check_interval_seconds * 1000
    for broker_id in bench.committed.brokers:
        bench.heartbeat(broker_id)
    bench.tick()


@BOTH_WAYS
def test_leaderships_go_back_by_time(config: ControllerConfig) -> None:
    """What the preferred replica can take it gets back, what it cannot stays where it is."""
    bench = Bench(config)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3), (1, 3, 2), (2, 1, 3))
    bench.silence(1)
    bench.come_back(1)
    bench.alter_isr(1, 2, 3)
    balanced_by_time(bench)
    assert [bench.partition(number).leader_id for number in range(3)] == [1, 3, 2]
    assert len(bench.records) == 1


def test_no_balancing_where_it_is_off() -> None:
    """Without automatic balancing leaderships stay until somebody asks."""
    bench = Bench(replace(CONFIG, auto_leader_rebalance_enable=False))
    bench.start(1, 2)
    bench.create((1, 2))
    bench.silence(1)
    bench.come_back(1)
    bench.alter_isr(1, 2)
    balanced_by_time(bench)
    assert bench.partition().leader_id == 2
