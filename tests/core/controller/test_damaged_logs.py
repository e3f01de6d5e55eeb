"""What a controller does when a broker says that the log of one of its replicas is damaged."""

from __future__ import annotations

import pytest

from replica.core.config import ControllerConfig
from replica.core.messages import ElectionType
from replica.errors import ErrorCode
from tests.core.controller.bench import CONFIG, WITHOUT_ELR, Bench, three_replicas

BOTH_WAYS = pytest.mark.parametrize("config", [CONFIG, WITHOUT_ELR], ids=["with_elr", "without_elr"])


def test_damage_of_a_follower_ends_the_leader_epoch() -> None:
    """It is out of the ISR, and whatever it has sent before is of an epoch that is over."""
    bench = three_replicas()
    before = bench.partition().leader_epoch
    bench.report_damage(3)
    assert bench.shape() == (1, (1, 2), ())
    assert bench.partition().leader_epoch > before


def test_damage_of_a_leader_moves_the_leadership() -> None:
    """Another member of the ISR leads; the former leader is neither in sync nor eligible."""
    bench = three_replicas()
    bench.report_damage(1)
    assert bench.shape() == (2, (2, 3), ())


def test_damage_out_of_sync_ends_the_leader_epoch_too() -> None:
    """A replica that is not counted on might be by its last fetch, unless the epoch ends."""
    bench = three_replicas()
    bench.alter_isr(1, 2)
    before = bench.partition().leader_epoch
    bench.report_damage(3)
    assert bench.shape() == (1, (1, 2), ())
    assert bench.partition().leader_epoch == before + 1


def test_who_is_damaged_is_not_eligible() -> None:
    """Below the minimum those that leave stay eligible, but for who has lost what it had."""
    bench = three_replicas()
    bench.alter_isr(1, 2)
    bench.report_damage(2)
    assert bench.shape() == (1, (1,), ())


def test_eligible_replica_leads_in_the_place_of_a_damaged_one() -> None:
    """The last in sync has lost what it had, and who is eligible has all of it."""
    bench = three_replicas()
    bench.silence(3, 2)
    assert bench.shape() == (1, (1,), (2,))
    bench.report_damage(1)
    assert bench.shape() == (None, (), (2,))
    assert bench.partition().last_known_leader is None
    bench.come_back(2)
    assert bench.shape() == (2, (2,), ())


@BOTH_WAYS
def test_only_holder_is_remembered_and_does_not_lead(config: ControllerConfig) -> None:
    """Where nobody else has what it had nobody leads, however often it says so: to wait is all that is left."""
    bench = alone(config)
    waiting = bench.shape()
    assert waiting == ((None, (), (1,)) if config.elr_enable else (None, (1,), ()))
    for _ in range(3):
        bench.report_damage(1)
        assert bench.records == ()
    assert bench.shape() == waiting


def alone(config: ControllerConfig) -> Bench:
    """A partition of two replicas, of which the one that is in sync alone has said that its log cannot be used."""
    bench = Bench(config)
    bench.start(1, 2)
    bench.create((1, 2), configs={"min.insync.replicas": "1"})
    bench.alter_isr(1)
    bench.report_damage(1)
    return bench


@BOTH_WAYS
def test_only_holder_leads_again_once_its_log_can_be_used(config: ControllerConfig) -> None:
    """With its next process, whose heartbeats do not name it; while they do, it is not elected."""
    bench = alone(config)
    bench.silence(1)
    bench.come_back(1, is_damaged=True)
    assert bench.shape()[0] is None
    bench.silence(1)
    bench.come_back(1)
    assert bench.shape() == (1, (1,), ())


@BOTH_WAYS
def test_operator_can_let_another_one_lead(config: ControllerConfig) -> None:
    """And nobody whose log cannot be used, by whatever election."""
    bench = alone(config)
    assert bench.elect(ElectionType.UNCLEAN, leader_id=1) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert bench.elect(ElectionType.UNCLEAN, leader_id=2) is ErrorCode.NONE
    assert bench.shape() == (2, (2,), ())


def test_another_leads_at_once_where_that_may_lose_records() -> None:
    """A topic that prefers it to waiting gets a leader that is not in sync, and never the one that cannot lead."""
    bench = Bench(CONFIG)
    bench.start(1, 2)
    bench.create((1, 2), configs={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
    bench.alter_isr(1)
    bench.report_damage(1)
    assert bench.shape() == (2, (2,), ())


@pytest.mark.parametrize(("leader_epoch", "topic_id"), [(7, None), (None, 99)], ids=["epoch", "topic"])
def test_report_of_what_is_not_there_changes_nothing(leader_epoch: int | None, topic_id: int | None) -> None:
    """A report of another leader epoch, or of a topic that is gone, is old or not to be believed."""
    bench = three_replicas()
    bench.report_damage(1, leader_epoch=leader_epoch, topic_id=topic_id)
    assert bench.records == ()


def test_report_that_comes_twice_counts_once() -> None:
    """A copy of a heartbeat is of the leader epoch that the first one has ended."""
    bench = three_replicas()
    epoch = bench.partition().leader_epoch
    bench.report_damage(3)
    bench.report_damage(3, leader_epoch=epoch)
    assert bench.records == ()
    assert bench.partition().leader_epoch == epoch + 1


def test_stranger_is_not_heard() -> None:
    """Who is no replica of a partition has nothing to say of it."""
    bench = three_replicas()
    bench.start(4)
    bench.report_damage(4)
    assert bench.records == ()
