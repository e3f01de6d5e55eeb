"""Wrong decisions about who votes, each with a scenario that the right rules pass and that convicts it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replica.core.quorum.snapshot_header import split_snapshot
from replica.core.rules import Rules
from replica.errors import ErrorCode
from tests.core.harness import snapshot_of
from tests.core.membership_scenarios import (
    FOUR,
    IDS,
    acknowledge,
    add,
    added,
    changed,
    fetch_from,
    first_leader,
    fresh_follower,
    ids,
    naming,
    remove,
    settled_leader,
)
from tests.core.membership_wrong_rules import (
    AddBeforeCaughtUp,
    ARemovedLeaderCountsItself,
    ChangeBeforeTheEpochHasBegun,
    ChangeBeforeTheLastIsCommitted,
    CompareNoDisks,
    OnlyVotersCampaign,
    SnapshotsWithoutVoters,
    TruncationLeavesVoters,
    VotersInForceOnceCommitted,
)
from tests.core.scenarios import answer_fetch, diverging, fetched, follow, granted, records


def a_set_counts_from_its_append_on(rules: Rules) -> None:
    bench = settled_leader(rules=rules)
    call_id = added(bench, 3)
    acknowledge(bench, 1)
    assert call_id in bench.open_calls, "two of three have it, and two of four"
    acknowledge(bench, 3)
    assert changed(bench, call_id).error is ErrorCode.NONE


def a_second_change_waits_for_the_first(rules: Rules) -> None:
    bench = settled_leader(rules=rules, initial=(0, 1, 2, 3))
    assert changed(bench, remove(bench, 3, timeout_ms=0)).error is ErrorCode.REQUEST_TIMED_OUT
    assert changed(bench, remove(bench, 2)).error is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def nothing_changes_before_a_record_of_the_epoch_is_committed(rules: Rules) -> None:
    bench = first_leader(rules=rules)
    assert changed(bench, remove(bench, 2)).error is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert ids(bench) == IDS


def a_voters_id_on_another_disk_acknowledges_nothing(rules: Rules) -> None:
    bench = first_leader(rules=rules)
    fetched(bench, fetch_from(bench, 1, disk=1))
    assert bench.high_watermark is None


def who_is_about_to_leave_campaigns(rules: Rules) -> None:
    bench = settled_leader(rules=rules, initial=(0, 1))
    remove(bench, 0)
    bench.flush_all()
    bench.restart()
    bench.to_role("prospective")
    for role in ("candidate", "leader"):
        bench.respond(bench.sends[-1], granted(bench.epoch))
        assert bench.role == role
    acknowledge(bench, 1)
    assert (ids(bench), bench.role) == ((1,), "resigned")


def a_removed_leader_confirms_no_read(rules: Rules) -> None:
    bench = settled_leader(rules=rules, initial=(0, 1, 2, 3))
    remove(bench, 0)
    bench.flush_all()
    bench.act(bench.log.begin_read_round(bench.now_ms))
    acknowledge(bench, 1)
    assert bench.log.confirmed_read_round == 0
    fetched(bench, fetch_from(bench, 2, behind=1))
    assert bench.log.confirmed_read_round == 1


def who_has_nothing_is_not_added(rules: Rules) -> None:
    bench = settled_leader(rules=rules)
    add(bench, 3)
    assert ids(bench) == IDS


def a_truncation_takes_voters_back(rules: Rules) -> None:
    bench = fresh_follower(rules=rules)
    answer_fetch(bench, records([naming(FOUR, 0, 5)], leader_id=1, epoch=5))
    assert ids(bench) == FOUR.ids
    bench.flush_all()
    follow(bench, 2, 6)
    bench.sends = bench.sends[-1:]
    answer_fetch(bench, diverging(0, 0, leader_id=2, leader_epoch=6))
    assert (bench.disk.end, ids(bench)) == (0, IDS)


def a_snapshot_says_who_votes(rules: Rules) -> None:
    bench = settled_leader(rules=rules)
    added(bench, 3)
    acknowledge(bench, 1, 3)
    end_offset = bench.log.log.log_end_offset
    bench.store(end_offset, bench.epoch)
    (effect,) = bench.disk.storing
    voters, data = split_snapshot(effect.state.encode())
    assert (voters.base, data) == (FOUR, snapshot_of(end_offset, bench.epoch).data)


MEMBERSHIP_CONVICTED: Sequence[tuple[type[Rules], Callable[[Rules], None]]] = (
    (VotersInForceOnceCommitted, a_set_counts_from_its_append_on),
    (ChangeBeforeTheLastIsCommitted, a_second_change_waits_for_the_first),
    (ChangeBeforeTheEpochHasBegun, nothing_changes_before_a_record_of_the_epoch_is_committed),
    (CompareNoDisks, a_voters_id_on_another_disk_acknowledges_nothing),
    (OnlyVotersCampaign, who_is_about_to_leave_campaigns),
    (ARemovedLeaderCountsItself, a_removed_leader_confirms_no_read),
    (AddBeforeCaughtUp, who_has_nothing_is_not_added),
    (TruncationLeavesVoters, a_truncation_takes_voters_back),
    (SnapshotsWithoutVoters, a_snapshot_says_who_votes),
)
"""Every decision about who votes is among them."""
