"""Eligible leader replicas in the life of a partition (KIP-966): Kafka's names.

Four replicas, a minimum ISR of 3 unless a test says something else.
"""

from __future__ import annotations

from replica.core.metadata.records import ConfigRecord, PartitionRecord
from replica.errors import ErrorCode
from tests.core.controller.bench import CONFIG, WITHOUT_ELR, Bench


def four_replicas(min_isr: str = "3") -> Bench:
    bench = Bench()
    bench.start(0, 1, 2, 3)
    bench.create((0, 1, 2, 3), configs={"min.insync.replicas": min_isr})
    return bench


def test_eligible_leader_replicas_shrink_and_expand_isr() -> None:
    """Who leaves below the minimum is eligible until the minimum is reached again, then nobody is."""
    bench = four_replicas()
    bench.alter_isr(0, 1, 2)
    assert bench.shape() == (0, (0, 1, 2), ())
    bench.alter_isr(0, 1)
    assert bench.shape() == (0, (0, 1), (2,))
    bench.alter_isr(0)
    assert bench.shape() == (0, (0,), (1, 2))
    bench.alter_isr(0, 1)
    assert bench.shape() == (0, (0, 1), (2,))
    bench.alter_isr(0, 1, 3)
    assert bench.shape() == (0, (0, 1, 3), ())


def test_eligible_leader_replicas_broker_fence() -> None:
    """Brokers that are fenced one after the other all stay eligible from the minimum down, and the ISR gets empty."""
    bench = four_replicas()
    bench.silence(3)
    assert bench.shape() == (0, (0, 1, 2), ())
    bench.silence(0)
    assert bench.shape() == (1, (1, 2), (0,))
    bench.silence(1, 2)
    assert bench.shape() == (None, (), (0, 1, 2))
    assert bench.partition().last_known_leader == 2
    bench.come_back(3)
    assert bench.shape() == (None, (), (0, 1, 2))
    bench.come_back(0)
    assert bench.shape() == (0, (0,), (1, 2))
    assert bench.partition().last_known_leader is None
    assert bench.partition().leader_recovery_state == "RECOVERED"


def test_eligible_leader_replicas_clean_election() -> None:
    """An eligible replica that is alive takes over when the last member of the ISR falls silent."""
    bench = four_replicas()
    bench.alter_isr(0, 1)
    bench.alter_isr(0)
    bench.silence(0)
    assert bench.shape() == (1, (1,), (0, 2, 3))
    assert bench.partition().leader_recovery_state == "RECOVERED"


def test_eligible_leader_replicas_unclean_shutdown() -> None:
    """An unclean stop ends the eligibility, of whoever was fenced before and of whoever led last."""
    bench = four_replicas()
    bench.silence(0, 1, 2, 3)
    assert bench.shape() == (None, (), (1, 2, 3))
    bench.come_back(1, clean=False)
    assert bench.shape() == (None, (), (2, 3))
    bench.come_back(3, clean=False)
    assert bench.shape() == (None, (), (2,))
    bench.come_back(2)
    assert bench.shape() == (2, (2,), ())


def test_eligible_leader_replicas_unclean_shutdown_of_an_isr_member() -> None:
    """A member that stops uncleanly while it leads is not eligible afterwards, though too few are in sync."""
    bench = four_replicas("4")
    bench.heartbeat(0, want_shut_down=True)
    assert bench.shape() == (1, (1, 2, 3), (0,))
    bench.register(0, "second")
    assert bench.shape() == (1, (1, 2, 3), ())


def test_eligible_leader_replicas_effective_min_isr() -> None:
    """A minimum above the number of replicas counts as that number."""
    bench = Bench()
    bench.start(0, 1, 2)
    bench.create((0, 1, 2), configs={"min.insync.replicas": "5"})
    bench.alter_isr(0, 1)
    assert bench.shape() == (0, (0, 1), (2,))
    bench.alter_isr(0, 1, 2)
    assert bench.shape() == (0, (0, 1, 2), ())


def test_lower_minimum_ends_the_eligibility() -> None:
    """When the minimum falls, records are committed without the eligible; that is one decision."""
    bench = four_replicas()
    bench.alter_isr(0, 1)
    assert bench.alter_topic("min.insync.replicas", "2").error is ErrorCode.NONE
    assert [type(record) for record in bench.records] == [ConfigRecord, PartitionRecord]
    assert bench.shape() == (0, (0, 1), ())


def test_higher_minimum_refuses_proposals_of_who_does_not_know_it() -> None:
    """A leader that has not learned of the new minimum cannot make anybody eligible by it."""
    bench = four_replicas("1")
    bench.alter_isr(0, 1)
    proposal = bench.proposal(0)
    bench.alter_topic("min.insync.replicas", "2")
    assert bench.shape() == (0, (0, 1), ())
    assert bench.propose(proposal).error is ErrorCode.INVALID_UPDATE_VERSION
    assert bench.partition().leader_epoch == 0


def test_minimum_is_written_down_when_it_is_the_clusters() -> None:
    """The controller's own default is no secret: brokers and later controllers go by the same minimum."""
    bench = Bench(CONFIG)
    bench.start(0, 1)
    bench.create((0, 1))
    assert bench.committed.topics["topic"].configs == {"min.insync.replicas": "2"}
    bench.alter_topic("min.insync.replicas", "1")
    assert bench.committed.topics["topic"].configs == {"min.insync.replicas": "1"}
    bench.alter_topic("min.insync.replicas", None)
    assert bench.committed.topics["topic"].configs == {"min.insync.replicas": "2"}


def test_switching_eligible_leader_replicas_on() -> None:
    """A dead last member that was kept in the ISR becomes eligible with its next registration, and leads again."""
    bench = Bench(WITHOUT_ELR)
    bench.start(0, 1)
    bench.create((0, 1))
    bench.silence(1, 0)
    assert bench.shape() == (None, (0,), ())
    bench.restart(CONFIG)
    bench.alter_topic("min.insync.replicas", "1")
    assert bench.shape() == (None, (0,), ())
    bench.come_back(1)
    assert bench.shape() == (None, (0,), ())
    bench.come_back(0)
    assert bench.shape() == (0, (0,), ())
