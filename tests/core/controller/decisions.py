"""Every decision of the controller as a table: what is asked, and what the right rules answer."""

from __future__ import annotations

from collections.abc import Mapping

from replica.core.metadata.image import BrokerRegistration
from replica.ids import BrokerEpoch, ReplicaId
from tests.core.controller.bench import ids, registration
from tests.core.decisions import Row

Ids = tuple[int, ...]


def _broker(
    *, fenced: bool = False, leaving: bool = False, flushes: bool = False, last_active: int | None = 5
) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=ReplicaId(1),
        broker_epoch=BrokerEpoch(7),
        incarnation_id="1",
        directory_id="a-disk",
        flushes=flushes,
        address="broker-1:9092",
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=leaving,
        last_active_epoch=None if last_active is None else BrokerEpoch(last_active),
    )


def _taken(session_is_valid: bool, leaving: bool, expected: bool) -> Row:
    asked = {"session_is_valid": session_is_valid, "in_controlled_shutdown": leaving}
    return Row(f"session_{session_is_valid}_leaving_{leaving}", asked, expected)


def _late(replaces: int | None, expected: bool, *, registered: bool = True) -> Row:
    there = _broker() if registered else None
    return Row(f"{replaces}_at_{7 if registered else None}", {"registered": there, "replaces": replaces}, expected)


def _disk(directory_id: str, metadata_end: int, expected: bool, *, last_active: int | None = 5) -> Row:
    broker = _broker(last_active=last_active)
    asked = {"registered": broker, "directory_id": directory_id, "metadata_end_offset": metadata_end}
    return Row(f"{directory_id}_{metadata_end}_last_active_{last_active}", asked, expected)


def _stopped(previous: int | None, expected: bool, *, flushes: bool = False) -> Row:
    asked = {"registered": _broker(flushes=flushes), "previous_broker_epoch": previous}
    return Row(f"{previous}_at_7_flushes_{flushes}", asked, expected)


def _unfence(metadata_offset: int, expected: bool) -> Row:
    return Row(f"{metadata_offset}_at_7", {"metadata_offset": metadata_offset, "broker_epoch": 7}, expected)


def _eligible(name: str, broker: BrokerRegistration | None, epoch: int | None, expected: bool) -> Row:
    return Row(name, {"registration": broker, "broker_epoch": epoch}, expected)


def _leaves(name: str, isr: Ids, leaving: Ids, expected: Ids, *, elr: bool, emptied: Ids = ()) -> Row:
    return Row(name, {"isr": isr, "leaving": leaving, "emptied": emptied, "elr_enable": elr}, expected)


def _elr(
    name: str, before: tuple[Ids, Ids], isr: Ids, expected: Ids, *, lost: Ids = (), min_isr: int = 2, on: bool = True
) -> Row:
    asked = {
        "before": registration(isr=before[0], elr=before[1]),
        "isr": ids(*isr),
        "stopped_uncleanly": frozenset(lost),
        "effective_min_isr": min_isr,
        "elr_enable": on,
    }
    return Row(name, asked, expected)


def _candidates(name: str, isr: Ids, elr: Ids, active: Ids, expected: Ids) -> Row:
    return Row(name, {"replicas": (3, 1, 2), "isr": isr, "elr": elr, "active": active}, expected)


def _elected(name: str, leader: int | None, candidates: Ids, preferred: int | None, expected: int | None) -> Row:
    return Row(name, {"leader_id": leader, "candidates": candidates, "preferred": preferred}, expected)


def _last_resort(
    name: str, places: tuple[Ids, Ids, int | None], active: Ids, expected: int | None, *, allowed: bool
) -> Row:
    isr, elr, last_known_leader = places
    asked = {
        "replicas": (3, 1, 2),
        "isr": isr,
        "elr": elr,
        "last_known_leader": last_known_leader,
        "active": active,
        "unclean_allowed": allowed,
    }
    return Row(name, asked, expected)


def _bump(name: str, leader: int | None, replicas: Ids, expected: bool) -> Row:
    return Row(name, {"before": registration(), "leader_id": leader, "replicas": replicas}, expected)


def _complete(name: str, target: Ids, isr: Ids, expected: bool) -> Row:
    return Row(name, {"target": target, "isr": isr}, expected)


CONTROLLER_TABLES: Mapping[str, tuple[Row, ...]] = {
    "broker_id_is_taken": (
        _taken(True, False, True),
        _taken(True, True, False),
        _taken(False, False, False),
        _taken(False, True, False),
    ),
    "registration_is_late": (
        _late(7, False),
        _late(6, True),
        _late(None, True),
        _late(None, False, registered=False),
        _late(6, True, registered=False),
    ),
    "has_another_disk": (
        _disk("a-disk", 6, False),
        _disk("a-disk", 5, True),
        _disk("a-disk", 0, True),
        _disk("a-disk", 0, False, last_active=None),
        _disk("another-disk", 9, True),
    ),
    "holds_what_it_acknowledged": (
        _stopped(7, True),
        _stopped(6, False),
        _stopped(8, False),
        _stopped(None, False),
        _stopped(None, True, flushes=True),
    ),
    "may_unfence": (_unfence(8, True), _unfence(7, False), _unfence(0, False)),
    "refusal_ends_session": (
        Row("refused_later", {"refused_at_ms": 110, "heard_ms": 100}, True),
        Row("refused_at_once", {"refused_at_ms": 100, "heard_ms": 100}, True),
        Row("heard_since", {"refused_at_ms": 99, "heard_ms": 100}, False),
    ),
    "lacks_level": (
        Row("knows_it", {"newest_level": 2, "level": 2}, False),
        Row("knows_more", {"newest_level": 3, "level": 2}, False),
        Row("knows_less", {"newest_level": 1, "level": 2}, True),
        Row("not_heard_of", {"newest_level": None, "level": 2}, True),
    ),
    "level_suffices": (
        Row("there", {"level": 2, "since": 2}, True),
        Row("beyond", {"level": 3, "since": 2}, True),
        Row("below", {"level": 1, "since": 2}, False),
    ),
    "decision_is_told": (
        Row("committed", {"end_offset": 7, "high_watermark": 7}, True),
        Row("not_yet", {"end_offset": 8, "high_watermark": 7}, False),
        Row("nobody_knows", {"end_offset": 7, "high_watermark": None}, False),
    ),
    "another_minimum_is_a_change": (Row("always", {}, True),),
    "producer_ids_are_in_snapshot": (Row("always", {}, True),),
    "eligible_for_isr": (
        _eligible("active", _broker(), 7, True),
        _eligible("epoch_is_not_told", _broker(), None, True),
        _eligible("stale_epoch", _broker(), 6, False),
        _eligible("epoch_to_come", _broker(), 8, False),
        _eligible("fenced", _broker(fenced=True), 7, False),
        _eligible("shutting_down", _broker(leaving=True), 7, False),
        _eligible("unknown", None, None, False),
    ),
    "isr_after_leaving": (
        _leaves("others_remain", (1, 2, 3), (2,), (1, 3), elr=True),
        _leaves("others_remain_without_elr", (1, 2, 3), (2,), (1, 3), elr=False),
        _leaves("last_one", (2,), (2,), (), elr=True),
        _leaves("last_one_without_elr", (2,), (2,), (2,), elr=False),
        _leaves("all_without_elr", (1, 2), (1, 2), (2,), elr=False),
    ),
    "eligible_leader_replicas": (
        _elr("enough_in_sync", ((1, 2, 3), ()), (1, 2), ()),
        _elr("enough_again", ((1,), (2, 3)), (1, 2), ()),
        _elr("too_few", ((1, 2), ()), (1,), (2,)),
        _elr("fewer", ((1, 2), (3,)), (), (1, 2, 3)),
        _elr("one_returns", ((1,), (2, 3)), (1, 2), (3,), min_isr=3),
        _elr("unclean_stop", ((1, 2), (3,)), (1,), (3,), lost=(2,)),
        _elr("unclean_stop_of_an_eligible", ((1,), (2, 3)), (1,), (2,), lost=(3,)),
        _elr("switched_off", ((1, 2), (3,)), (1,), (3,), on=False),
    ),
    "electable": (
        Row("all", {"active": frozenset((1, 2)), "offline": frozenset[int]()}, frozenset((1, 2))),
        Row("not_who_is_offline", {"active": frozenset((1, 2)), "offline": frozenset((2, 3))}, frozenset((1,))),
    ),
    "leader_candidates": (
        _candidates("in_the_order_of_the_assignment", (1, 2, 3), (), (1, 2, 3), (3, 1, 2)),
        _candidates("active_ones", (1, 2, 3), (), (2, 1), (1, 2)),
        _candidates("in_sync_ones", (2,), (), (1, 2, 3), (2,)),
        _candidates("in_sync_before_eligible", (2,), (1, 3), (1, 2, 3), (2,)),
        _candidates("eligible_when_nobody_is_in_sync", (), (1, 2), (2, 3), (2,)),
        _candidates("nobody", (1,), (2,), (3,), ()),
    ),
    "elect_leader": (
        _elected("present_leader", 1, (3, 1, 2), None, 1),
        _elected("first_candidate", None, (3, 1, 2), None, 3),
        _elected("present_leader_cannot", 1, (3, 2), None, 3),
        _elected("preferred", 1, (3, 1, 2), 3, 3),
        _elected("preferred_cannot", 1, (1, 2), 3, 1),
        _elected("nobody", 1, (), 3, None),
    ),
    "last_resort_leader": (
        _last_resort("last_known", ((), (), 1), (1, 2), 1, allowed=False),
        _last_resort("last_known_is_dead", ((), (), 1), (2, 3), None, allowed=False),
        _last_resort("somebody_is_eligible", ((), (2,), 1), (1,), None, allowed=False),
        _last_resort("somebody_is_in_sync", ((2,), (), 1), (1,), None, allowed=False),
        _last_resort("any", ((2,), (), None), (1, 3), 3, allowed=True),
        _last_resort("last_known_before_any", ((), (), 1), (1, 3), 1, allowed=True),
        _last_resort("nobody", ((), (), 1), (), None, allowed=True),
    ),
    "bumps_leader_epoch": (
        _bump("same_leader", 1, (1, 2, 3), False),
        _bump("another_leader", 2, (1, 2, 3), True),
        _bump("no_leader", None, (1, 2, 3), True),
        _bump("replica_joins", 1, (1, 2, 3, 4), False),
        _bump("replica_leaves", 1, (1, 2), True),
        _bump("replica_is_replaced", 1, (1, 2, 4), True),
        _bump("another_order", 1, (3, 2, 1), False),
    ),
    "damage_begins_new_epoch": (Row("always", {}, True),),
    "reassignment_is_complete": (
        _complete("all_are_in_sync", (3, 4, 5), (0, 1, 2, 3, 4, 5), True),
        _complete("only_they_are", (3, 4, 5), (5, 4, 3), True),
        _complete("one_is_not", (3, 4, 5), (0, 1, 2, 3, 4), False),
        _complete("one_that_stays_is_not", (0, 1, 3), (3,), False),
        _complete("nobody_is", (3,), (), False),
    ),
}
"""The rows by rule, in the order of the rules."""
