"""Scenarios of one controller that the right rules pass and a wrong one does not.

Each is asked with rules and raises AssertionError where they are wrong.
"""

from __future__ import annotations

from replica.core import messages as m
from replica.core.controller.features import level_fault
from replica.core.controller.state import ControllerState
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from tests.core.controller.bench import CLUSTER, CONFIG, Bench
from tests.core.controller.test_quorum_controller import Stage


def three_replicas(rules: Rules) -> Bench:
    """Brokers 1 to 3 are in sync, of which a write needs two."""
    bench = Bench(rules=rules)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3), configs={"min.insync.replicas": "2"})
    return bench


def who_stopped_uncleanly_is_not_eligible(rules: Rules) -> None:
    bench = three_replicas(rules)
    bench.alter_isr(1, 2)
    bench.silence(2)
    assert bench.shape() == (1, (1,), (2,))
    bench.come_back(2, clean=False)
    assert bench.shape() == (1, (1,), ())


def who_has_another_disk_is_not_elected(rules: Rules) -> None:
    bench = Bench(rules=rules)
    bench.start(1, 2, flushes=True)
    bench.create((1, 2), configs={"min.insync.replicas": "1"})
    bench.silence(2, 1)
    bench.come_back(1, clean=False, disk="second")
    assert bench.shape() == (None, (), ())


def whose_log_cannot_be_used_does_not_lead(rules: Rules) -> None:
    bench = Bench(rules=rules)
    bench.start(1, 2)
    bench.create((1, 2), configs={"min.insync.replicas": "1"})
    bench.alter_isr(1)
    bench.report_damage(1)
    assert bench.shape() == (None, (), (1,))


def who_was_not_let_in_has_lost_nothing(rules: Rules) -> None:
    bench = Bench(rules=rules)
    bench.start(1, 2, flushes=True)
    bench.create((1, 2))
    bench.silence(2)
    bench.register(2, "second", flushes=True, metadata_end_offset=bench.next_offset)
    bench.now_ms += 1 << 20
    bench.register(2, "third", flushes=True, metadata_end_offset=bench.epoch_of(2))
    assert bench.shape()[2] == (2,)


def a_broker_that_is_heard_keeps_its_id(rules: Rules) -> None:
    bench = three_replicas(rules)
    assert bench.register(1, "second").error is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def a_registration_that_comes_late_replaces_nobody(rules: Rules) -> None:
    bench = three_replicas(rules)
    first = bench.epoch_of(1)
    bench.heartbeat(1, want_shut_down=True)
    assert bench.register(1, "third").error is ErrorCode.NONE
    bench.heartbeat(1, want_shut_down=True)
    told = bench.register(1, "second", replaces=first)
    assert (told.error, told.broker_epoch) == (ErrorCode.STALE_BROKER_EPOCH, bench.epoch_of(1))
    assert bench.incarnation_of(1) == "1-third"


def evidence_of_an_earlier_process_does_not_fence_the_next(rules: Rules) -> None:
    bench = three_replicas(rules)
    bench.now_ms += 10
    refused_at_ms = bench.now_ms
    bench.controller.on_peer_refused(ReplicaId(1), refused_at_ms, bench.now_ms)
    bench.tick()
    bench.now_ms += 100
    assert bench.register(1, "second").error is ErrorCode.NONE
    bench.heartbeat(1)
    bench.controller.on_peer_refused(ReplicaId(1), refused_at_ms, bench.now_ms)
    bench.tick()
    assert not bench.broker(1).fenced


def a_producer_id_is_given_once(rules: Rules) -> None:
    bench = three_replicas(rules)
    first = bench.ask(m.InitProducerIdRequest(), m.InitProducerIdResponse)
    bench.restart_from_snapshot(rules)
    assert bench.ask(m.InitProducerIdRequest(), m.InitProducerIdResponse).producer_id != first.producer_id


def a_level_waits_until_all_know_it(rules: Rules) -> None:
    bench = Bench(rules=rules, level=1)
    bench.start(1)
    bench.ask(m.UpdateFeaturesRequest(feature_level=2), m.UpdateFeaturesResponse)
    assert bench.records == ()


def what_came_with_a_level_waits_for_it(rules: Rules) -> None:
    c = ControllerState(cluster_id=CLUSTER, config=CONFIG, rules=rules)
    assert level_fault(c, 2) is not None


def a_decision_that_is_not_committed_is_not_told(rules: Rules) -> None:
    stage = Stage(rules=rules)
    stage.be_elected()
    stage.commit()
    assert stage.error(stage.register(7)) is None


def a_proposal_by_the_old_minimum_is_refused(rules: Rules) -> None:
    bench = Bench(rules=rules)
    bench.start(1, 2, 3)
    bench.create((1, 2, 3), configs={"min.insync.replicas": "1"})
    proposal = bench.proposal(1)
    bench.alter_topic("min.insync.replicas", "2")
    assert bench.propose(proposal).error is ErrorCode.INVALID_UPDATE_VERSION


def a_broker_that_has_not_caught_up_stays_fenced(rules: Rules) -> None:
    bench = Bench(rules=rules)
    bench.register(1)
    assert bench.heartbeat(1, metadata_offset=0).is_fenced


def the_others_stay_in_sync(rules: Rules) -> None:
    bench = three_replicas(rules)
    bench.silence(3)
    assert bench.shape() == (1, (1, 2), ())


def who_leaves_below_the_minimum_is_eligible(rules: Rules) -> None:
    bench = three_replicas(rules)
    bench.silence(3, 2)
    assert bench.shape() == (1, (1,), (2,))


def an_active_member_takes_over(rules: Rules) -> None:
    bench = three_replicas(rules)
    bench.silence(1)
    assert bench.shape()[0] == 2


def the_last_known_leader_leads_when_all_are_gone(rules: Rules) -> None:
    bench = three_replicas(rules)
    bench.silence(3, 2, 1)
    bench.come_back(2, clean=False)
    bench.silence(2)
    bench.come_back(1, clean=False)
    assert bench.shape() == (1, (1,), ())


def another_leader_has_another_epoch(rules: Rules) -> None:
    bench = three_replicas(rules)
    before = bench.partition().leader_epoch
    bench.silence(1)
    assert bench.partition().leader_epoch > before


def damage_ends_the_leader_epoch(rules: Rules) -> None:
    bench = three_replicas(rules)
    before = bench.partition().leader_epoch
    bench.report_damage(3)
    assert bench.shape() == (1, (1, 2), ())
    assert bench.partition().leader_epoch > before


def who_is_to_go_stays_until_the_others_are_in_sync(rules: Rules) -> None:
    bench = three_replicas(rules)
    bench.alter_isr(1, 2)
    bench.reassign(0, 3)
    assert bench.partition().replicas == (3, 1, 2)
