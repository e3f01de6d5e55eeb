"""Every decision of the protocol as a table: what is asked, and what the right rules answer.

The tables hold the right rules to their answers, and a wrong rule is none if it agrees with all rows of its table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replica.core.effects import QuorumState
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.rules import NEVER_MS, Rules
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset, ReplicaId, SnapshotId
from tests.core.membership_decisions import MEMBERSHIP_TABLES
from tests.core.rows import Row

__all__ = ["TABLES", "Row", "cache_of", "decide", "state"]

FENCED, UNKNOWN = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH


def decide(rules: Rules, rule: str, row: Row) -> Any:
    """Ask ``rules``."""
    return getattr(rules, rule)(**row.asked)


def cache_of(entries: Mapping[int, int]) -> LeaderEpochCache:
    """Build an epoch cache from start offsets by epoch."""
    return LeaderEpochCache(EpochEntry(Epoch(epoch), Offset(start)) for epoch, start in entries.items())


def state(epoch: int, *, leader_id: int | None = None, voted_id: int | None = None) -> QuorumState:
    """Build a quorum state."""
    return QuorumState(
        leader_epoch=Epoch(epoch),
        leader_id=None if leader_id is None else ReplicaId(leader_id),
        voted_id=None if voted_id is None else ReplicaId(voted_id),
    )


def _vote(candidate: tuple[int, int], own: tuple[int, int], expected: bool) -> Row:
    asked = {
        "candidate_epoch": candidate[0],
        "candidate_end": candidate[1],
        "own_epoch": own[0],
        "own_end": own[1],
    }
    return Row(f"{candidate}_against_{own}", asked, expected)


def _epoch(asked: int | None, expected: ErrorCode | None) -> Row:
    return Row(f"epoch_{asked}_at_5", {"current_leader_epoch": asked, "own_epoch": 5}, expected)


def _stored(name: str, before: QuorumState, now: QuorumState, expected: bool) -> Row:
    return Row(name, {"stored": before, "now": now}, expected)


def _may_fetch(flushed: int, log_end: int, expected: bool) -> Row:
    return Row(f"{flushed}_of_{log_end}", {"flushed_end_offset": flushed, "log_end_offset": log_end}, expected)


def _kept(high_watermark: int | None, expected: int) -> Row:
    return Row(f"hw_{high_watermark}", {"high_watermark": high_watermark, "log_end_offset": 9}, expected)


def _last_fetched(last_epoch: int | None, expected: int) -> Row:
    return Row(f"last_{last_epoch}", {"last_epoch": last_epoch, "leader_epoch": 7}, expected)


def _epoch_end(name: str, epochs: Mapping[int, int], epoch: int, expected: tuple[int, int]) -> Row:
    asked = {"epochs": cache_of(epochs), "epoch": epoch, "log_start_offset": 0, "log_end_offset": 15}
    return Row(name, asked, EpochEndOffset(Epoch(expected[0]), Offset(expected[1])))


def _diverged(name: str, end: tuple[int, int], fetch: tuple[int, int], expected: bool) -> Row:
    asked = {
        "end": EpochEndOffset(Epoch(end[0]), Offset(end[1])),
        "fetch_offset": fetch[0],
        "last_fetched_epoch": fetch[1],
    }
    return Row(name, asked, expected)


def _truncation(name: str, own: Mapping[int, int], log_end: int, leader: tuple[int, int], end_offset: int) -> Row:
    asked = {
        "epochs": cache_of(own),
        "log_end_offset": log_end,
        "leader": EpochEndOffset(Epoch(leader[0]), Offset(leader[1])),
    }
    return Row(name, asked, end_offset)


def _may_truncate(end_offset: int, high_watermark: int | None, expected: bool) -> Row:
    asked = {"end_offset": end_offset, "high_watermark": high_watermark}
    return Row(f"to_{end_offset}_at_{high_watermark}", asked, expected)


def _majority(name: str, epoch_start: int, ends: list[int], current: int | None, expected: int | None) -> Row:
    asked = {"voter_end_offsets": ends, "epoch_start_offset": epoch_start, "current": current}
    return Row(name, asked, expected)


def _followed(name: str, leader: int, *, diverged: bool, expected: int | None) -> Row:
    asked = {"leader_high_watermark": leader, "log_end_offset": 6, "diverged": diverged}
    return Row(name, asked, expected)


def _committed(end_offset: int, high_watermark: int | None, expected: bool) -> Row:
    asked = {"end_offset": end_offset, "high_watermark": high_watermark}
    return Row(f"{end_offset}_at_{high_watermark}", asked, expected)


def _bound(high_watermark: int | None, expected: int | None) -> Row:
    return Row(f"hw_{high_watermark}", {"high_watermark": high_watermark, "log_end_offset": 9}, expected)


def _resigns(name: str, fetches: list[int], needed: int, expected: int) -> Row:
    return Row(name, {"last_fetches_ms": fetches, "needed": needed, "timeout_ms": 30}, expected)


def _lease(name: str, drift_percent: int, expected: int) -> Row:
    return Row(name, {"begins_ms": 50, "timeout_ms": 1000, "clock_drift_max_percent": drift_percent}, expected)


def _withholds(name: str, heard_ms: int | None, expected: bool) -> Row:
    return Row(name, {"now_ms": 100, "heard_leader_ms": heard_ms, "fetch_timeout_ms": 30}, expected)


def _gives_up(name: str, refused_at_ms: int, *, withholds_vote: bool, expected: bool) -> Row:
    asked = {"refused_at_ms": refused_at_ms, "heard_ms": 100, "withholds_vote": withholds_vote}
    return Row(name, asked, expected)


def _hands_over(name: str, end: int | None, *, has_fetched: bool, high_watermark: int | None, expected: bool) -> Row:
    asked = {
        "target_end_offset": end,
        "target_has_fetched": has_fetched,
        "high_watermark": high_watermark,
        "log_end_offset": 9,
    }
    return Row(name, asked, expected)


def _snapshot(end_offset: int, epoch: int) -> SnapshotId:
    return SnapshotId(Offset(end_offset), Epoch(epoch))


def _begins(name: str, ends: list[int], log_start: int, expected: int) -> Row:
    asked = {"snapshots": [_snapshot(end, 3) for end in ends], "log_start_offset": log_start}
    return Row(name, asked, expected)


def _last_epoch(record: int | None, snapshot: int | None, expected: int | None) -> Row:
    return Row(f"{record}_after_{snapshot}", {"record_epoch": record, "snapshot_epoch": snapshot}, expected)


def _needs(name: str, fetch: tuple[int, int], log_start: int, oldest: tuple[int, int], expected: bool) -> Row:
    asked = {
        "fetch_offset": fetch[0],
        "last_fetched_epoch": fetch[1],
        "log_start_offset": log_start,
        "oldest": _snapshot(*oldest),
    }
    return Row(name, asked, expected)


def _loads(name: str, snapshot: tuple[int, int], expected: bool) -> Row:
    asked = {
        "snapshot_id": _snapshot(*snapshot),
        "high_watermark": 10,
        "committed_epoch": 3,
        "leader_epoch": 5,
    }
    return Row(name, asked, expected)


TABLES: Mapping[str, tuple[Row, ...]] = {
    "epoch_is_recovered": tuple(Row(f"epoch_{epoch}", {"epoch": epoch}, True) for epoch in (0, 1, 7)),
    "new_epoch_is_stored": tuple(Row(f"epoch_{epoch}", {"epoch": epoch}, True) for epoch in (0, 1, 7)),
    "messages_wait_for_their_log": (Row("always", {}, True),),
    "epoch_error": (_epoch(None, None), _epoch(4, FENCED), _epoch(5, None), _epoch(6, UNKNOWN)),
    "may_fetch": (_may_fetch(0, 0, True), _may_fetch(4, 4, True), _may_fetch(3, 4, False)),
    "kept_by_new_follower": (_kept(None, 9), _kept(9, 9), _kept(4, 9), _kept(0, 9)),
    "last_fetched_epoch": (_last_fetched(3, 3), _last_fetched(7, 7), _last_fetched(None, 0)),
    "has_diverged": (
        _diverged("behind", (3, 9), (7, 3), False),
        _diverged("at_the_end", (3, 9), (9, 3), False),
        _diverged("beyond_the_end", (3, 9), (10, 3), True),
        _diverged("of_an_unknown_epoch", (2, 9), (7, 3), True),
    ),
    "fetch_acknowledges": (Row("prefix", {"diverged": False}, True), Row("diverged", {"diverged": True}, False)),
    "truncation": (
        _truncation("local_undefined_empty", {}, 0, (1, 2), 0),
        _truncation("local_undefined_leader_beyond", {1: 0}, 4, (2, 9), 4),
        _truncation("local_undefined_leader_below", {1: 0}, 4, (2, 3), 3),
        _truncation("same_epoch_leader_ends_first", {1: 0}, 4, (1, 2), 2),
        _truncation("same_epoch_own_ends_first", {1: 0}, 4, (1, 9), 4),
        _truncation("same_epoch_own_next_begins_first", {1: 0, 2: 2}, 4, (1, 3), 2),
        _truncation("only_an_older_epoch_known", {0: 0, 2: 1}, 5, (1, 5), 1),
        _truncation("epoch_below_all_own", {2: 0}, 1, (1, 1), 0),
        _truncation("floor_below_leaders_answer", {3: 0, 5: 120}, 200, (4, 155), 120),
        _truncation("second_round", {3: 0, 5: 120}, 120, (3, 101), 101),
    ),
    "produce_is_committed": (
        _committed(5, None, False),
        _committed(5, 4, False),
        _committed(5, 5, True),
        _committed(5, 6, True),
    ),
    "consumer_read_bound": (_bound(None, None), _bound(0, 0), _bound(4, 4), _bound(9, 9)),
    "writes_wait_after_leadership": (Row("always", {}, False),),
    "candidate_log_is_up_to_date": (
        _vote((3, 10), (3, 10), True),
        _vote((3, 11), (3, 10), True),
        _vote((3, 9), (3, 10), False),
        _vote((4, 1), (3, 10), True),
        _vote((2, 99), (3, 10), False),
        _vote((0, 0), (0, 0), True),
        _vote((0, 0), (1, 1), False),
    ),
    "quorum_state_is_stored": (
        _stored("epoch", state(5), state(6), True),
        _stored("leader", state(5), state(5, leader_id=1), True),
        _stored("vote", state(5), state(5, voted_id=1), True),
        _stored("own_vote", state(5, leader_id=1), state(6, voted_id=0), True),
        _stored("nothing", state(5, voted_id=1), state(5, voted_id=1), False),
    ),
    "leads_on_after_restart": (Row("always", {}, False),),
    "epoch_end": (
        _epoch_end("no_epoch_at_all", {}, 3, (0, 0)),
        _epoch_end("below_the_first", {2: 0, 4: 10}, 1, (0, 0)),
        _epoch_end("known", {2: 0, 4: 10}, 2, (2, 10)),
        _epoch_end("unknown_between", {2: 0, 4: 10}, 3, (2, 10)),
        _epoch_end("latest", {2: 0, 4: 10}, 4, (4, 15)),
        _epoch_end("above_the_latest", {2: 0, 4: 10}, 7, (4, 15)),
    ),
    "may_truncate": (_may_truncate(3, None, True), _may_truncate(3, 3, True), _may_truncate(2, 3, False)),
    "quorum_high_watermark": (
        _majority("quorum_size_one_nothing_in_epoch", 15, [15], None, None),
        _majority("quorum_size_one", 15, [16], None, 16),
        _majority("quorum_size_two_unknown_follower", 15, [15, 0], None, None),
        _majority("quorum_size_two_at_epoch_start", 15, [15, 15], None, None),
        _majority("quorum_size_two", 15, [16, 16], None, 16),
        _majority("quorum_size_two_slower_decides", 15, [20, 16], None, 16),
        _majority("quorum_size_three_at_epoch_start", 10, [15, 10, 0], None, None),
        _majority("quorum_size_three_both_at_epoch_start", 10, [15, 10, 10], None, None),
        _majority("quorum_size_three", 10, [15, 15, 10], None, 15),
        _majority("quorum_size_three_leader_ahead", 10, [20, 15, 15], 15, 15),
        _majority("quorum_size_three_again", 10, [20, 20, 15], 15, 20),
        _majority("non_monotonic_high_watermark_update", 10, [20, 12, 15], 20, 20),
        _majority("quorum_size_four_needs_three", 10, [20, 15, 14, 11], None, 14),
        _majority("quorum_size_five_needs_three", 0, [9, 8, 7, 6, 5], None, 7),
        _majority("known_high_watermark_rises", 10, [11, 11, 9], 9, 11),
    ),
    "follower_high_watermark": (
        _followed("within_the_log", 4, diverged=False, expected=4),
        _followed("beyond_the_log", 9, diverged=False, expected=6),
        _followed("diverged", 4, diverged=True, expected=None),
        _followed("diverged_beyond_the_log", 9, diverged=True, expected=None),
    ),
    "check_quorum_deadline_ms": (
        _resigns("lone_voter", [], 0, NEVER_MS),
        _resigns("one_of_two_decides", [70, 50], 1, 100),
        _resigns("one_of_two_in_any_order", [50, 70], 1, 100),
        _resigns("second_of_four_decides", [10, 40, 30, 20], 2, 60),
    ),
    "read_round_of_fetch": (
        Row("none_yet", {"echoed": 0, "current": 0}, 0),
        Row("sent_before", {"echoed": 0, "current": 1}, 0),
        Row("an_earlier_one", {"echoed": 3, "current": 5}, 3),
        Row("the_present_one", {"echoed": 5, "current": 5}, 5),
        Row("one_that_never_was", {"echoed": 9, "current": 5}, 5),
    ),
    "lease_begins_ms": (
        Row("confirmed_at_once", {"round_began_ms": 50, "echo_came_ms": 50}, 50),
        Row("confirmed_late", {"round_began_ms": 50, "echo_came_ms": 90}, 50),
    ),
    "lease_end_ms": (
        _lease("without_a_difference", 0, 1050),
        _lease("of_a_tenth", 10, 959),
        _lease("of_a_half", 50, 716),
        _lease("of_twice", 100, 550),
    ),
    "withholds_vote": (
        _withholds("from_nobody", None, False),
        _withholds("just_now", 100, True),
        _withholds("within_the_timeout", 71, True),
        _withholds("a_timeout_ago", 70, False),
        _withholds("long_ago", 0, False),
    ),
    "gives_up_refused_leader": (
        _gives_up("refused_later", 110, withholds_vote=False, expected=True),
        _gives_up("refused_at_once", 100, withholds_vote=False, expected=True),
        _gives_up("heard_since", 99, withholds_vote=False, expected=False),
        _gives_up("within_a_lease", 110, withholds_vote=True, expected=False),
    ),
    "heard_leader_at_start_ms": (Row("at_once", {"now_ms": 0}, 0), Row("later", {"now_ms": 70}, 70)),
    "may_hand_over": (
        _hands_over("there", 9, has_fetched=True, high_watermark=9, expected=True),
        _hands_over("behind", 8, has_fetched=True, high_watermark=9, expected=False),
        _hands_over("never_heard_of", None, has_fetched=False, high_watermark=9, expected=False),
        _hands_over("perhaps_gone", 9, has_fetched=False, high_watermark=9, expected=False),
        _hands_over("not_committed", 9, has_fetched=True, high_watermark=8, expected=False),
        _hands_over("nothing_committed", 9, has_fetched=True, high_watermark=None, expected=False),
    ),
    **MEMBERSHIP_TABLES,
    "log_start_after_snapshot": (
        _begins("the_first", [10], 0, 0),
        _begins("the_second", [10, 20], 0, 10),
        _begins("the_third", [10, 20, 30], 10, 20),
        _begins("many_after_a_crash", [10, 20, 30, 40], 10, 30),
        _begins("the_second_after_an_installation", [20, 30], 20, 20),
    ),
    "last_epoch_of_log": (
        _last_epoch(None, None, None),
        _last_epoch(3, None, 3),
        _last_epoch(None, 2, 2),
        _last_epoch(3, 2, 3),
    ),
    "high_watermark_at_start": (
        Row("unknown", {"checkpointed": None, "snapshot_end_offset": 10}, 10),
        Row("lower", {"checkpointed": 7, "snapshot_end_offset": 10}, 10),
        Row("higher", {"checkpointed": 12, "snapshot_end_offset": 10}, 12),
    ),
    "needs_snapshot": (
        _needs("nothing_beside_a_whole_log", (0, 0), 0, (10, 3), True),
        _needs("nothing", (0, 0), 10, (10, 3), True),
        _needs("below_the_start", (9, 3), 10, (10, 3), True),
        _needs("below_the_start_of_a_later_epoch", (9, 7), 10, (10, 3), True),
        _needs("at_the_start", (10, 3), 10, (10, 3), False),
        _needs("at_the_start_of_an_earlier_epoch", (10, 2), 10, (10, 3), True),
        _needs("at_the_start_of_a_later_epoch", (10, 4), 10, (10, 3), True),
        _needs("above_of_an_earlier_epoch", (12, 2), 10, (10, 3), True),
        _needs("above_of_that_epoch", (12, 3), 10, (10, 3), False),
        _needs("above_of_a_later_epoch", (12, 4), 10, (10, 3), False),
        _needs("within_a_whole_log", (5, 3), 0, (10, 3), False),
        _needs("where_the_snapshot_of_a_whole_log_ends", (10, 4), 0, (10, 3), False),
    ),
    "may_load_snapshot": (
        _loads("ahead", (11, 3), True),
        _loads("ahead_of_the_leaders_epoch", (30, 5), True),
        _loads("at_the_high_watermark", (10, 3), False),
        _loads("below_it", (9, 3), False),
        _loads("of_an_earlier_epoch", (11, 2), False),
        _loads("of_an_epoch_that_is_not_yet", (11, 6), False),
    ),
}
"""The rows by rule, in the order of the rules."""
