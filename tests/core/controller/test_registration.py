"""Registrations: one id, one incarnation, and what a new one takes from the old one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.core import messages as m
from replica.core.config import ControllerConfig
from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.records import PartitionRecord, RegisterBrokerRecord
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Offset, ReplicaId
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


def test_a_registration_that_was_held_up_replaces_nobody() -> None:
    """The process that sent it is gone, and the next one has registered: that one stays.

    Neither does the late one show, by what the disk held when it was sent, that the disk has lost what came after.
    """
    bench = Bench()
    bench.start(1, 2, flushes=True)
    bench.create((1, 2))
    bench.silence(2)
    before, held = bench.epoch_of(2), bench.next_offset
    assert bench.register(2, "third", flushes=True).error is ErrorCode.NONE
    bench.heartbeat(2)
    bench.silence(2)
    assert bench.shape()[2] == (2,)

    late = bench.register(2, "second", flushes=True, metadata_end_offset=held, replaces=before)

    assert late.error is ErrorCode.STALE_BROKER_EPOCH
    assert bench.incarnation_of(2) == "2-third"
    assert bench.shape()[2] == (2,)


def test_wrong_cluster() -> None:
    """A broker of another cluster is refused, whatever it asks."""
    bench = Bench()
    request = m.BrokerRegistrationRequest(
        broker_id=ReplicaId(1),
        cluster_id="another",
        incarnation_id="1",
        directory_id="1",
        flushes=True,
        metadata_end_offset=Offset(0),
        address="broker-1:9092",
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
    def holds_what_it_acknowledged(
        self, *, registered: BrokerRegistration, previous_broker_epoch: BrokerEpoch | None
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


# --- another disk, and disks that forget nothing ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flushes", "disk", "metadata_end", "elr"),
    [
        pytest.param(True, "first", None, (2,), id="all_that_was_acknowledged_was_flushed"),
        pytest.param(False, "first", None, (), id="the_tail_may_be_lost"),
        pytest.param(True, "second", None, (), id="another_disk"),
        pytest.param(True, "first", 0, (), id="an_empty_disk_with_the_old_id"),
        pytest.param(True, "first", 1, (), id="an_older_copy_of_the_disk"),
    ],
)
def test_what_a_follower_keeps_of_its_place(
    flushes: bool, disk: str, metadata_end: int | None, elr: tuple[int, ...]
) -> None:
    """An unclean stop costs the place only where something may be lost; another disk, or an older state, always."""
    bench = Bench()
    bench.start(1, 2, flushes=flushes)
    bench.create((1, 2))
    bench.silence(2)
    bench.register(2, "second", disk=disk, flushes=True, metadata_end_offset=metadata_end)
    assert bench.shape() == (1, (1,), elr)


def test_a_broker_that_is_killed_while_it_registers_stays_eligible() -> None:
    """1. All are killed. 2. Each is killed again, registered and not let in, its own record not on its disk yet.

    Nothing was acknowledged meanwhile, so that nothing is lost: whoever was eligible is, and leads without recovery.
    """
    bench = Bench()
    bench.start(1, 2, 3, flushes=True)
    bench.create((1, 2, 3))
    bench.silence(1, 2, 3)
    seen = bench.next_offset
    for attempt in ("second", "third"):
        for broker_id in (1, 2, 3):
            bench.now_ms += SESSION_MS
            bench.register(broker_id, attempt, flushes=True, metadata_end_offset=seen)
    assert bench.shape() == (None, (), (2, 3))
    bench.heartbeat(2)
    assert bench.shape() == (2, (2,), (3,))
    assert bench.partition().leader_recovery_state == "RECOVERED"


@BOTH_WAYS
def test_an_older_copy_of_a_disk_is_never_elected(config: ControllerConfig) -> None:
    """What has less than its last active incarnation had is another disk, for who led last and who was in sync last."""
    bench = Bench(config)
    bench.start(1, 2, flushes=True)
    bench.create((1, 2), configs={"min.insync.replicas": "1"})
    bench.alter_isr(1)
    bench.silence(1)
    bench.register(1, "second", flushes=True, metadata_end_offset=bench.epoch_of(1))
    bench.heartbeat(1)
    assert bench.shape() == (None, (), ())
    assert bench.partition().last_known_leader is None


def test_who_was_active_is_known_from_a_snapshot_too() -> None:
    """A controller that has begun with a snapshot holds a disk against the same incarnation."""
    bench = Bench()
    bench.start(1, 2, flushes=True)
    first = bench.epoch_of(2)
    bench.silence(2)
    bench.register(2, "second", flushes=True)
    assert (bench.broker(2).last_active_epoch, bench.broker(2).fenced) == (first, True)
    bench.restart_from_snapshot()
    assert bench.broker(2).last_active_epoch == first
    bench.heartbeat(2)
    assert bench.broker(2).last_active_epoch == bench.epoch_of(2)


def test_an_empty_disk_with_the_old_id_is_never_elected() -> None:
    """Who formats a new disk with the id of the old one is found out: what has no metadata has never been active."""
    bench = Bench()
    bench.start(1, 2, 3, flushes=True)
    bench.create((1, 2, 3), configs={"min.insync.replicas": "2"})
    bench.silence(1, 2, 3)
    assert (bench.shape(), bench.partition().last_known_leader) == ((None, (), (2, 3)), 3)
    bench.register(3, "second", flushes=True, metadata_end_offset=0)
    assert (bench.shape(), bench.partition().last_known_leader) == ((None, (), (2,)), None)


@BOTH_WAYS
@pytest.mark.parametrize("replaced", [1, 2, 3])
def test_a_replaced_disk_is_never_elected(config: ControllerConfig, replaced: int) -> None:
    """All brokers are killed, and one comes back first with an empty disk: another one leads, whoever was the last."""
    bench = Bench(config)
    bench.start(1, 2, 3, flushes=True)
    bench.create((1, 2, 3), configs={"min.insync.replicas": "2"})
    bench.silence(1, 2, 3)
    bench.come_back(replaced, clean=False, disk="second")
    assert bench.partition().leader_id is None
    assert replaced not in (*bench.partition().isr, *bench.partition().elr, bench.partition().last_known_leader)
    for other in {1, 2, 3} - {replaced}:
        bench.come_back(other, clean=False)
    may_lead = {2, 3} if config.elr_enable else {3}
    assert bench.partition().leader_id == min(may_lead - {replaced}, default=None)


@BOTH_WAYS
def test_the_last_in_sync_disk_is_replaced(config: ControllerConfig) -> None:
    """Where the only replica in sync loses its disk the partition waits for an operator, who names whom he trusts."""
    bench = Bench(config)
    bench.start(1, 2, flushes=True)
    bench.create((1, 2), configs={"min.insync.replicas": "1"})
    bench.alter_isr(1)
    bench.silence(1)
    bench.come_back(1, clean=False, disk="second")
    assert bench.shape() == (None, (), ())
    assert bench.partition().last_known_leader is None
    bench.pass_ms(SESSION_MS - 1)
    assert bench.elect(m.ElectionType.UNCLEAN) is ErrorCode.INVALID_REQUEST
    assert bench.elect(m.ElectionType.UNCLEAN, leader_id=2) is ErrorCode.NONE
    assert bench.shape() == (2, (2,), ())


def test_a_last_known_leader_with_another_disk_is_forgotten() -> None:
    """Nobody is known to have everything, and who led last has nothing any more: nobody leads by itself."""
    bench = Bench()
    bench.start(1, 2)
    bench.create((1, 2))
    bench.silence(2, 1)
    bench.come_back(1, clean=False)
    bench.silence(1)
    assert (bench.shape(), bench.partition().last_known_leader) == ((None, (), (2,)), 1)
    bench.register(1, "third", disk="second")
    assert (bench.shape(), bench.partition().last_known_leader) == ((None, (), (2,)), None)
    bench.come_back(2, clean=False)
    assert bench.shape() == (None, (), ())


def test_the_old_disk_is_another_disk_too() -> None:
    """A disk that comes back after another one was there in between counts for nothing either."""
    bench = Bench()
    bench.start(1, 2, flushes=True)
    bench.create((1, 2))
    bench.silence(2)
    for disk in ("second", "first"):
        bench.come_back(2, disk=disk)
        bench.alter_isr(1, 2)
        bench.silence(2)
        assert bench.shape() == (1, (1,), (2,))
    bench.register(2, "last", disk="second", flushes=True)
    assert bench.shape() == (1, (1,), ())
