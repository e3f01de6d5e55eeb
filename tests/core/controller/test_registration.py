"""Registrations: one id, one incarnation, and what a new one takes from the old one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.core import messages as m
from replica.core.config import ControllerConfig
from replica.core.metadata.records import PartitionRecord, RegisterBrokerRecord
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, ReplicaId
from tests.core.controller.bench import CONFIG, SESSION_MS, WITHOUT_ELR, Bench

BOTH_WAYS = pytest.mark.parametrize("config", [CONFIG, WITHOUT_ELR], ids=["with_elr", "without_elr"])


def test_broker_epoch_is_the_offset_of_the_registration() -> None:
    """The first record of the decision is the registration, fenced, and its offset is the broker epoch."""
    bench = Bench()
    bench.start(1, 2)
    offset = BrokerEpoch(bench.next_offset)
    answer = bench.register(3)
    assert (answer.error, answer.broker_epoch) == (ErrorCode.NONE, offset)
    assert bench.epoch_of(3) == offset
    assert bench.broker(3).fenced


def test_same_incarnation_registers_again() -> None:
    """An incarnation that asks again gets the same broker epoch, and nothing is written."""
    bench = Bench()
    first = bench.register(1)
    bench.start(2)
    bench.heartbeat(1)
    assert bench.register(1) == first
    assert bench.records == ()
    assert not bench.broker(1).fenced


def test_reregister_while_the_session_is_valid() -> None:
    """Another process of the same id waits until the first has been silent for a session, and no shorter."""
    bench = Bench()
    bench.start(1)
    assert bench.register(1, "second").error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    bench.now_ms += SESSION_MS - 1
    assert bench.register(1, "second").error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    bench.now_ms += 1
    assert bench.register(1, "second").error is ErrorCode.NONE


def test_a_new_controller_gives_everybody_a_whole_session() -> None:
    """A session is counted from the beginning of the activity, for a broker that is fenced not at all."""
    bench = Bench()
    bench.start(1)
    bench.register(2)
    bench.now_ms += SESSION_MS - 1
    bench.restart()
    bench.pass_ms(SESSION_MS - 1)
    assert bench.register(1, "second").error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert bench.register(2, "second").error is ErrorCode.NONE


def test_successor_of_a_broker_that_shuts_down_need_not_wait() -> None:
    """A broker that has said that it stops does not keep its successor out."""
    bench = Bench()
    bench.start(1)
    bench.heartbeat(1, want_shut_down=True)
    assert bench.register(1, "second", previous_broker_epoch=bench.epoch_of(1)).error is ErrorCode.NONE


def test_wrong_cluster() -> None:
    """A broker of another cluster is refused, whatever it asks."""
    bench = Bench()
    request = m.BrokerRegistrationRequest(
        broker_id=ReplicaId(1), cluster_id="another", incarnation_id="1", address="broker-1:9092"
    )
    assert bench.ask(request, m.BrokerRegistrationResponse).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert bench.records == ()


def test_too_many_brokers() -> None:
    """The number of brokers is limited; those that are registered may come again."""
    bench = Bench(ControllerConfig(brokers_max=1))
    bench.start(1)
    assert bench.register(2).error is ErrorCode.INVALID_REQUEST
    bench.now_ms += SESSION_MS
    assert bench.register(1, "second").error is ErrorCode.NONE


@BOTH_WAYS
@pytest.mark.parametrize("clean", [True, False])
def test_new_incarnation_loses_its_leaderships_in_the_same_batch(config: ControllerConfig, clean: bool) -> None:
    """The registration and the end of every leadership of the old incarnation are one decision.

    The session has run out, and nobody has noticed yet.
    """
    bench = Bench(config)
    bench.start(1, 2)
    bench.create((1, 2), (1, 2), configs={"min.insync.replicas": "1"})
    bench.alter_isr(1, number=1)
    bench.now_ms += SESSION_MS - 1
    bench.heartbeat(2)
    bench.now_ms += 1
    bench.register(1, "second", previous_broker_epoch=bench.epoch_of(1) if clean else None)
    assert [type(record) for record in bench.records] == [RegisterBrokerRecord, PartitionRecord, PartitionRecord]
    assert [(bench.partition(number).leader_id, bench.partition(number).leader_epoch) for number in (0, 1)] == [
        (2, 1),
        (None, 1),
    ]


@BOTH_WAYS
def test_the_same_broker_leads_again_in_a_later_epoch(config: ControllerConfig) -> None:
    """Nobody leads in a leader epoch that was granted to an older broker epoch."""
    bench = Bench(config)
    bench.start(1)
    bench.create((1,))
    bench.now_ms += SESSION_MS
    bench.come_back(1)
    assert (bench.partition().leader_id, bench.partition().leader_epoch) == (1, 2)


@pytest.mark.parametrize(
    ("previous", "elr"),
    [
        pytest.param(0, (2,), id="clean"),
        pytest.param(None, (), id="unclean"),
        pytest.param(-1, (), id="clean_long_ago"),
    ],
)
def test_unclean_stop_costs_the_place(previous: int | None, elr: tuple[int, ...]) -> None:
    """Only the clean stop of the incarnation that was registered last keeps a broker eligible."""
    bench = Bench()
    bench.start(1, 2)
    bench.create((1, 2))
    bench.silence(2)
    assert bench.shape() == (1, (1,), (2,))
    bench.register(2, "second", previous_broker_epoch=None if previous is None else bench.epoch_of(2) + previous)
    assert bench.shape() == (1, (1,), elr)


def test_first_registration_is_no_unclean_stop() -> None:
    """A broker that was never registered has nothing to lose, and one that lost nothing changes nothing."""
    bench = Bench()
    bench.register(1, previous_broker_epoch=17)
    assert [type(record) for record in bench.records] == [RegisterBrokerRecord]


def test_unclean_stop_of_everybody_leaves_who_led_last() -> None:
    """When nobody is eligible any more, who led last leads again as soon as it is active, and has to recover."""
    bench = Bench()
    bench.start(1, 2)
    bench.create((1, 2))
    bench.silence(2, 1)
    assert bench.shape() == (None, (), (1, 2))
    bench.come_back(1, clean=False)
    assert bench.shape() == (None, (), (2,))
    bench.register(2, "second")
    assert bench.shape() == (1, (1,), ())
    assert bench.partition().leader_recovery_state == "RECOVERING"


def test_unclean_stop_of_the_last_member_without_elr() -> None:
    """Without eligible leader replicas the last member keeps its place; the others lose theirs."""
    bench = Bench(WITHOUT_ELR)
    bench.start(1, 2)
    bench.create((1, 2))
    bench.silence(1, 2)
    assert bench.shape() == (None, (2,), ())
    bench.come_back(1, clean=False)
    assert bench.shape() == (None, (2,), ())
    bench.come_back(2, clean=False)
    assert bench.shape() == (2, (2,), ())


class _TrustsEveryStop(Rules):
    def stopped_cleanly(
        self, *, previous_broker_epoch: BrokerEpoch | None, registered_broker_epoch: BrokerEpoch
    ) -> bool:
        return True


def test_the_rule_decides_about_the_stop() -> None:
    """A controller that takes every stop for a clean one keeps who may have lost records eligible."""
    bench = Bench(replace(CONFIG), _TrustsEveryStop())
    bench.start(1, 2)
    bench.create((1, 2))
    bench.silence(2)
    bench.register(2, "second")
    assert bench.shape() == (1, (1,), (2,))
