"""Every decision of a partition as a table: what is asked, and what the right rules answer.

Rows that mirror a test of Kafka's bear its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replica.core.rules.partition import RefusedProposal
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset
from tests.core.decisions import Row, cache_of

Ids = tuple[int, ...]
Epochs = tuple[int, int]

ALWAYS = Row("always", {}, True)


def _offsets(name: str, expected: Any, /, **asked: int | None) -> Row:
    return Row(name, asked, expected)


def _restarted(name: str, checkpointed: int | None, expected: int) -> Row:
    return _offsets(name, expected, checkpointed=checkpointed, log_start_offset=2, log_end_offset=7)


def _begins_anew(
    name: str, leader_epoch: int, expected: bool, *, is_counted_on: bool = False, has_leader: bool = True
) -> Row:
    asked = {"leader_epoch": leader_epoch, "is_counted_on": is_counted_on, "has_leader": has_leader}
    return Row(name, {"damaged_in": 5, **asked}, expected)


def _expiring(name: str, steady_ms: int | None, expected: bool, *, is_known: bool = True) -> Row:
    return Row(name, {"is_known": is_known, "steady_ms": steady_ms, "check_interval_ms": 300}, expected)


def _taken(name: str, producers: int, expected: bool, *, is_known: bool = False) -> Row:
    return Row(name, {"is_known": is_known, "producers": producers, "ids_max": 9}, expected)


def _metadata(partition_epoch: int, expected: bool) -> Row:
    return _offsets(f"{partition_epoch}_at_8", expected, partition_epoch=partition_epoch, known=8)


def _new_leader(high_watermark: int) -> Row:
    return _offsets(f"hw_{high_watermark}", high_watermark, high_watermark=high_watermark, log_end_offset=9)


def _kept(new_epoch: int, expected: bool) -> Row:
    return _offsets(f"from_4_to_{new_epoch}", expected, old_epoch=4, new_epoch=new_epoch)


def _enough(isr_size: int, expected: bool) -> Row:
    return _offsets(f"{isr_size}_of_2", expected, isr_size=isr_size, min_insync_replicas=2)


def _stale(broker_epoch: int | None, registered: int | None, last_seen: int | None, expected: bool) -> Row:
    return _offsets(
        f"{broker_epoch}_at_{registered}_seen_{last_seen}",
        expected,
        broker_epoch=broker_epoch,
        registered=registered,
        last_seen=last_seen,
    )


def _epoch_end(name: str, epochs: Mapping[int, int], epoch: int, expected: Epochs | None) -> Row:
    answer = None if expected is None else EpochEndOffset(Epoch(expected[0]), Offset(expected[1]))
    return Row(name, {"epochs": cache_of(epochs), "epoch": epoch, "log_end_offset": 15}, answer)


def _below_start(fetch_offset: int, expected: bool) -> Row:
    return _offsets(f"{fetch_offset}_at_5", expected, fetch_offset=fetch_offset, log_start_offset=5)


def _caught_up_at(
    name: str, fetch: int, last_end: int, times: tuple[int | None, int | None], expected: int | None
) -> Row:
    return _offsets(
        name,
        expected,
        fetch_offset=fetch,
        leader_end_offset=10,
        last_fetch_leader_end_offset=last_end,
        last_fetch_ms=times[0],
        last_caught_up_ms=times[1],
        now_ms=100,
    )


def _caught_up(name: str, end_offset: int | None, last_caught_up_ms: int | None, expected: bool) -> Row:
    return _offsets(
        name,
        expected,
        end_offset=end_offset,
        leader_end_offset=10,
        last_caught_up_ms=last_caught_up_ms,
        now_ms=100,
        lag_time_max_ms=30,
    )


def _eligible(name: str, active: bool, broker_epoch: int | None, registered: int | None, expected: bool) -> Row:
    return Row(name, {"is_active": active, "broker_epoch": broker_epoch, "registered": registered}, expected)


def _joins(name: str, end_offset: int, high_watermark: int, epoch_start: int, expected: bool) -> Row:
    return _offsets(
        name, expected, end_offset=end_offset, high_watermark=high_watermark, epoch_start_offset=epoch_start
    )


def _counted(name: str, joining: Ids, leaving: Ids, expected: Ids) -> Row:
    asked = {"isr": frozenset({1, 2}), "joining": frozenset(joining), "leaving": frozenset(leaving)}
    return Row(name, asked, frozenset(expected))


def _current(name: str, proposed: Epochs, committed: Epochs | None, expected: bool) -> Row:
    return Row(name, {"proposed": proposed, "committed": committed, "own": (5, 8)}, expected)


def _refused(error: ErrorCode | None, expected: RefusedProposal) -> Row:
    return Row("silence" if error is None else error.value, {"error": error}, expected)


def _fates() -> tuple[Row, ...]:
    """No refusal takes a proposal back by itself, since another copy of it may arrive yet."""
    fates = {
        **dict.fromkeys((ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA), RefusedProposal.WITHDRAWN),
        **dict.fromkeys(
            (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.FENCED_LEADER_EPOCH,
                ErrorCode.INVALID_UPDATE_VERSION,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.NEW_LEADER_ELECTED,
            ),
            RefusedProposal.STUCK,
        ),
    }
    errors = dict.fromkeys(ErrorCode, RefusedProposal.RETRIED) | fates
    return (_refused(None, RefusedProposal.RETRIED), *(_refused(error, fate) for error, fate in errors.items()))


def _waited(is_caught_up: bool, is_eligible: bool, expected: bool) -> Row:
    asked = {"is_caught_up": is_caught_up, "is_eligible": is_eligible}
    return Row(f"caught_up_{is_caught_up}_eligible_{is_eligible}", asked, expected)


def _acknowledged(flushed: int) -> Row:
    return _offsets(f"{flushed}_of_9", flushed, flushed_end_offset=flushed, log_end_offset=9)


def _watermark(name: str, ends: list[int | None], current: int, expected: int) -> Row:
    return Row(name, {"end_offsets": ends, "current": current}, expected)


def _known(high_watermark: int, expected: bool) -> Row:
    return _offsets(f"{high_watermark}_at_5", expected, high_watermark=high_watermark, epoch_start_offset=5)


def _emptied(high_watermark: int, start: int) -> Row:
    return _offsets(f"{high_watermark}_to_{start}", start, high_watermark=high_watermark, log_start_offset=start)


def _restarts(name: str, epochs: Epochs, leaders: tuple[int | None, int | None], expected: bool) -> Row:
    asked = {
        "old_epoch": epochs[0],
        "new_epoch": epochs[1],
        "old_leader_id": leaders[0],
        "new_leader_id": leaders[1],
    }
    return Row(name, asked, expected)


def _answer(asked_in: int | None, expected: bool) -> Row:
    return _offsets(f"asked_in_{asked_in}", expected, asked_leader_epoch=asked_in, leader_epoch=5)


def _sequence(name: str, known: Epochs | None, batch: Epochs, expected: ErrorCode | None) -> Row:
    asked = {
        "known_epoch": None if known is None else known[0],
        "next_sequence": 0 if known is None else known[1],
        "producer_epoch": batch[0],
        "base_sequence": batch[1],
    }
    return Row(name, asked, expected)


PARTITION_TABLES: Mapping[str, tuple[Row, ...]] = {
    "high_watermark_after_restart": (
        _restarted("no_checkpoint", None, 2),
        _restarted("below_the_log", 0, 2),
        _restarted("test_use_checkpoint_to_initialize_high_watermark", 5, 5),
        _restarted("beyond_the_log", 9, 7),
    ),
    "metadata_is_older": (_metadata(7, True), _metadata(8, False), _metadata(9, False)),
    "metadata_replaces_isr": (_metadata(7, False), _metadata(8, False), _metadata(9, True)),
    "epoch_is_assigned_at_once": (ALWAYS,),
    "new_leader_high_watermark": (_new_leader(0), _new_leader(4), _new_leader(9)),
    "remotes_are_kept": (_kept(5, True), _kept(6, False)),
    "has_enough_replicas": (_enough(1, False), _enough(2, True), _enough(3, True)),
    "min_isr_is_checked_before_append": (ALWAYS,),
    "is_stale_incarnation": (
        _stale(None, 20, 20, False),
        _stale(20, 20, None, False),
        _stale(19, 20, None, True),
        _stale(20, None, 21, True),
        _stale(21, 20, 21, False),
    ),
    "partition_epoch_end": (
        _epoch_end("no_epoch_at_all", {}, 3, None),
        _epoch_end("below_the_first", {2: 3, 4: 10}, 1, (1, 3)),
        _epoch_end("known", {2: 0, 4: 10}, 2, (2, 10)),
        _epoch_end("unknown_between", {2: 0, 4: 10}, 3, (2, 10)),
        _epoch_end("latest", {2: 0, 4: 10}, 4, (4, 15)),
        _epoch_end("above_the_latest", {2: 0, 4: 10}, 7, None),
    ),
    "is_below_log_start": (_below_start(4, True), _below_start(5, False), _below_start(6, False)),
    "last_caught_up_ms": (
        _caught_up_at("has_everything", 10, 0, (None, None), 100),
        _caught_up_at("is_beyond_the_end", 12, 0, (None, None), 100),
        _caught_up_at("lags_behind_what_there_was", 9, 10, (50, 20), 20),
        _caught_up_at("has_what_there_was_last_time", 8, 8, (50, 20), 50),
        _caught_up_at("never_goes_back", 8, 8, (50, 70), 70),
        _caught_up_at("first_time", 8, 8, (50, None), 50),
        _caught_up_at("first_fetch_behind", 0, 0, (None, None), None),
    ),
    "is_caught_up": (
        _caught_up("test_is_caught_up_when_replica_is_caught_up_to_log_end", 10, None, True),
        _caught_up("test_is_caught_up_when_replica_is_not_caught_up_to_log_end", 9, 70, True),
        _caught_up("too_long_ago", 9, 69, False),
        _caught_up("has_everything_since_long", 10, 69, True),
        _caught_up("never", 9, None, False),
        _caught_up("not_heard_of_but_in_time", None, 70, True),
        _caught_up("not_heard_of", None, None, False),
    ),
    "is_eligible_for_isr": (
        _eligible("the_registered_incarnation", True, 20, 20, True),
        _eligible("names_none", True, None, 20, True),
        _eligible("an_older_incarnation", True, 19, 20, False),
        _eligible("one_that_the_leader_has_not_heard_of", True, 21, 20, False),
        _eligible("fenced_or_leaving", False, 20, 20, False),
        _eligible("not_registered", False, None, None, False),
    ),
    "may_join_isr": (
        _joins("at_both", 5, 5, 5, True),
        _joins("below_the_high_watermark", 4, 5, 3, False),
        _joins("below_the_start_of_the_epoch", 5, 3, 6, False),
    ),
    "counted_isr": (
        _counted("committed", (), (), (1, 2)),
        _counted("waiting_to_grow", (3,), (), (1, 2, 3)),
        _counted("waiting_to_shrink", (), (2,), (1, 2)),
    ),
    "reply_is_current": (
        _current("refused_in_the_same_state", (5, 8), None, True),
        _current("committed", (5, 8), (5, 9), True),
        _current("committed_already", (5, 8), (5, 8), True),
        _current("metadata_was_faster", (5, 7), (5, 8), False),
        _current("of_an_earlier_leadership", (4, 8), None, False),
        _current("leads_to_another_leadership", (5, 8), (6, 9), False),
        _current("leads_to_the_past", (5, 8), (5, 7), False),
    ),
    "refused_proposal": _fates(),
    "may_advance_high_watermark": (_enough(1, False), _enough(2, True), _enough(3, True)),
    "is_waited_for": (
        _waited(True, True, True),
        _waited(True, False, False),
        _waited(False, True, False),
        _waited(False, False, False),
    ),
    "leader_acknowledges": (_acknowledged(0), _acknowledged(4), _acknowledged(9)),
    "isr_high_watermark": (
        _watermark("alone", [10], 4, 10),
        _watermark("the_shortest_log", [10, 7, 9], 4, 7),
        _watermark("an_unknown_end_blocks", [10, 7, None], 4, 4),
        _watermark("never_lowered", [10, 3], 4, 4),
        _watermark("nothing_new", [4, 4], 4, 4),
        _watermark("nothing_at_all", [10, 0, 0], 0, 0),
    ),
    "high_watermark_is_checked_after_isr_change": (ALWAYS,),
    "knows_high_watermark": (_known(4, False), _known(5, True), _known(6, True)),
    "high_watermark_of_emptied_log": (_emptied(3, 8), _emptied(8, 8), _emptied(9, 0)),
    "deletable_end": (
        _offsets("committed_in_part", 4, high_watermark=4, log_end_offset=9),
        _offsets("all_committed", 9, high_watermark=9, log_end_offset=9),
    ),
    "may_expire_by_time": (
        _expiring("never_jumped", None, True),
        _expiring("jumped_since_the_last_check", 299, False),
        _expiring("jumped_before_the_last_check", 300, True),
        _expiring("nobody_has_said_what_time_it_is", None, False, is_known=False),
    ),
    "fetching_restarts": (
        _restarts("another_leader", (4, 5), (1, 2), True),
        _restarts("no_leader_any_more", (4, 5), (1, None), True),
        _restarts("the_same_leader_in_a_new_epoch", (4, 6), (1, 1), True),
        _restarts("the_same_epoch", (5, 5), (1, 1), False),
    ),
    "answer_is_current": (_answer(4, False), _answer(5, True), _answer(6, False), _answer(None, False)),
    "truncation_drops_empty_epochs": (ALWAYS,),
    "may_begin_anew": (
        _begins_anew("counts_no_more", 6, True),
        _begins_anew("same_epoch", 5, False),
        _begins_anew("earlier_epoch", 4, False),
        _begins_anew("still_counted_on", 6, False, is_counted_on=True),
        _begins_anew("nobody_leads", 6, False, has_leader=False),
    ),
    "producer_states_follow_log": (ALWAYS,),
    "may_take_producer": (
        _taken("room", 2, True),
        _taken("the_last_place", 8, True),
        _taken("no_room", 9, False),
        _taken("no_room_and_known", 9, True, is_known=True),
    ),
    "sequence_error": (
        _sequence("unknown_producer", None, (0, 7), None),
        _sequence("next", (1, 4), (1, 4), None),
        _sequence("gap", (1, 4), (1, 5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        _sequence("repeated", (1, 4), (1, 3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        _sequence("former_epoch", (1, 4), (0, 4), ErrorCode.INVALID_PRODUCER_EPOCH),
        _sequence("new_epoch", (1, 4), (2, 0), None),
        _sequence("new_epoch_goes_on_counting", (1, 4), (2, 4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ),
}
"""The rows by rule, in the order of the rules."""
