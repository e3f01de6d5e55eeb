"""The decisions about who votes as tables, a part of ``decisions``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replica.ids import Offset, ReplicaId
from replica.voters import ReplicaKey, VoterEntry, VoterSet
from tests.core.harness import disk_id, voters_of
from tests.core.rows import Row

THREE, FOUR, FIVE = voters_of(0, 1, 2), voters_of(0, 1, 2, 3), voters_of(0, 1, 2, 3, 4)


def _in_force(name: str, entries: Mapping[int, VoterSet], high_watermark: int | None, expected: VoterSet) -> Row:
    asked: dict[str, Any] = {
        "base": THREE,
        "entries": [VoterEntry(offset=Offset(offset), voters=voters) for offset, voters in entries.items()],
        "high_watermark": high_watermark,
    }
    return Row(name, asked, expected)


def _may_change(name: str, high_watermark: int | None, changed_at: int | None, expected: bool) -> Row:
    return Row(name, {"high_watermark": high_watermark, "changed_at": changed_at}, expected)


def _has_vote(name: str, replica_id: int, directory_id: str | None, expected: bool) -> Row:
    return Row(name, {"voters": THREE, "key": ReplicaKey(ReplicaId(replica_id), directory_id)}, expected)


def _campaigns(name: str, expected: bool, *, is_voter: bool, was_voter: bool, is_committed: bool) -> Row:
    return Row(name, {"is_voter": is_voter, "was_voter": was_voter, "is_committed": is_committed}, expected)


def _caught_up(name: str, end: int | None, expected: bool, *, has_fetched: bool = True, round_ms: int = 5) -> Row:
    asked = {
        "has_fetched": has_fetched,
        "log_end_offset": end,
        "wanted": 9,
        "round_ms": round_ms,
        "round_max_ms": 1000,
    }
    return Row(name, asked, expected)


MEMBERSHIP_TABLES: Mapping[str, tuple[Row, ...]] = {
    "voters_in_force": (
        _in_force("nobody_was_named", {}, 9, THREE),
        _in_force("committed", {5: FOUR}, 9, FOUR),
        _in_force("not_committed", {5: FOUR}, 5, FOUR),
        _in_force("committed_is_unknown", {5: FOUR}, None, FOUR),
        _in_force("the_last_of_two", {5: FOUR, 8: FIVE}, 6, FIVE),
    ),
    "may_change_voters": (
        _may_change("nothing_of_the_epoch_is_committed", None, None, False),
        _may_change("nor_was_there_a_change_since", None, 3, False),
        _may_change("never_changed", 7, None, True),
        _may_change("committed", 7, 6, True),
        _may_change("not_committed", 7, 7, False),
    ),
    "has_vote": (
        _has_vote("on_its_disk", 1, disk_id(1), True),
        _has_vote("on_another", 1, disk_id(1, 1), False),
        _has_vote("without_a_disk", 1, None, False),
        _has_vote("another_replica", 3, disk_id(3), False),
    ),
    "campaigns": (
        _campaigns("a_voter", True, is_voter=True, was_voter=True, is_committed=True),
        _campaigns("a_new_voter", True, is_voter=True, was_voter=False, is_committed=False),
        _campaigns("who_is_about_to_leave", True, is_voter=False, was_voter=True, is_committed=False),
        _campaigns("who_has_left", False, is_voter=False, was_voter=True, is_committed=True),
        _campaigns("an_observer", False, is_voter=False, was_voter=False, is_committed=False),
    ),
    "leader_counts_itself": (
        Row("a_voter", {"is_voter": True}, True),
        Row("one_that_removes_itself", {"is_voter": False}, False),
    ),
    "has_caught_up": (
        _caught_up("with_all", 9, True),
        _caught_up("with_more", 10, True),
        _caught_up("with_less", 8, False),
        _caught_up("never_heard_of", None, False, has_fetched=False),
        _caught_up("not_since", 9, False, has_fetched=False),
        _caught_up("just_in_time", 9, True, round_ms=1000),
        _caught_up("too_slowly", 9, False, round_ms=1001),
    ),
    "truncation_takes_voters_back": (Row("always", {}, True),),
    "voters_are_in_snapshot": (Row("always", {}, True),),
}
"""The rows by rule, in the order of the rules."""
