"""Every decision about groups as a table: what is asked, and what the right rules answer."""

from __future__ import annotations

from collections.abc import Mapping

from replica.core.messages import Consistency
from tests.core.decisions import Row


def _leads(name: str, leads_log: bool, applied: int, start: int, expected: bool) -> Row:
    asked = {"leads_log": leads_log, "applied_offset": applied, "epoch_start_offset": start}
    return Row(name, asked, expected)


def _lease(consistency: Consistency, end_ms: int | None, expected: bool) -> Row:
    asked = {"consistency": consistency, "now_ms": 80, "lease_end_ms": end_ms}
    return Row(f"{consistency}_until_{end_ms}", asked, expected)


def _served(applied: int, index: int, expected: bool) -> Row:
    return Row(f"{index}_at_{applied}", {"applied_offset": applied, "read_index": index}, expected)


GROUP_TABLES: Mapping[str, tuple[Row, ...]] = {
    "machine_leads": (
        _leads("nothing_applied", True, 0, 0, False),
        _leads("at_the_start", True, 7, 7, False),
        _leads("start_applied", True, 8, 7, True),
        _leads("start_of_an_empty_log_applied", True, 1, 0, True),
        _leads("resigned", False, 8, 7, False),
    ),
    "needs_read_index": tuple(
        Row(consistency.value, {"consistency": consistency}, consistency is not Consistency.STALE)
        for consistency in Consistency
    ),
    "lease_serves": (
        *(_lease(consistency, 90, consistency is Consistency.LEASE) for consistency in Consistency),
        _lease(Consistency.LEASE, None, False),
        _lease(Consistency.LEASE, 81, True),
        _lease(Consistency.LEASE, 80, False),
        _lease(Consistency.LEASE, 70, False),
    ),
    "read_is_served": (_served(3, 4, False), _served(4, 4, True), _served(5, 4, True), _served(0, 0, True)),
    "snapshot_end_offset": (
        Row("one", {"applied_offset": 1}, 1),
        Row("many", {"applied_offset": 10}, 10),
    ),
    "sessions_are_in_snapshot": (Row("always", {}, True),),
    "preferred_leader": (
        *(Row(f"place_{place}", {"place": place, "voters": (1, 2, 7)}, voter) for place, voter in enumerate((1, 2, 7))),
        Row("the_turn_begins_again", {"place": 3, "voters": (1, 2, 7)}, 1),
        Row("in_whatever_order", {"place": 1, "voters": (7, 1, 2)}, 2),
        Row("alone", {"place": 5, "voters": (4,)}, 4),
    ),
    "rebalance_pause_ms": tuple(
        Row(f"attempt_{attempts}", {"interval_ms": 10, "attempts": attempts}, expected)
        for attempts, expected in ((0, 10), (1, 20), (2, 40), (6, 640), (7, 640), (99, 640))
    ),
}
"""The rows by rule, in the order of the rules."""
