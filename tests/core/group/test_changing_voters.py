"""A group on a log whose voters change: its snapshots say who votes, and its preferred leader is one of them."""

from __future__ import annotations

from replica.bounds import INT32_MAX
from replica.core.config import GroupConfig
from replica.core.quorum.roles import Leader
from replica.core.quorum.snapshot_header import split_snapshot
from replica.errors import ErrorCode
from tests.core.group.bench import BALANCED, GroupBench, add, replies_of
from tests.core.membership_scenarios import acknowledge, added, changed, fetch_from, ids, remove
from tests.core.membership_scenarios import add as add_voter
from tests.core.scenarios import fetched, lead, reply_of
from tests.core.test_raft_transfer import transfer

OFTEN = GroupConfig(snapshot_max_record_bytes_between=1, tick_interval_ms=INT32_MAX)


def a_leading_group(*, replica_id: int, group: GroupConfig = BALANCED) -> GroupBench:
    bench = GroupBench(group=group, replica_id=replica_id, initial_voters=(0, 1, 2))
    lead(bench)
    acknowledge(bench, bench.log.other_voters[0])
    bench.apply_all()
    assert bench.group.machine_leads
    return bench


def keep_up(bench: GroupBench, ms: int) -> int | None:
    """Let all voters fetch for so long, and tell to whom the leader hands over meanwhile."""
    for _ in range(ms // 500):
        bench.elapse(500)
        bench.apply_all()
        bench.flush_all()
        for voter in bench.log.other_voters:
            fetched(bench, fetch_from(bench, voter, read_round=0))
        bench.apply_all()
        role = bench.log.role
        assert isinstance(role, Leader), role
        if role.transfer is not None:
            return role.transfer.target_id
    return None


def test_the_preferred_leader_is_one_of_the_voters() -> None:
    """Removed it is preferred no more, and added again it is."""
    bench = a_leading_group(replica_id=1)
    call_id = remove(bench, 0)
    acknowledge(bench, 2)
    assert changed(bench, call_id).error is ErrorCode.NONE
    assert keep_up(bench, 12_000) is None, "of 1 and 2 the first is preferred"
    call_id = added(bench, 0)
    acknowledge(bench, 0, 2)
    assert changed(bench, call_id).error is ErrorCode.NONE
    bench.apply_all()
    assert keep_up(bench, 12_000) == 0


def test_commands_are_applied_across_a_change() -> None:
    """A record that names voters changes no state, and what waits is answered."""
    bench = a_leading_group(replica_id=0)
    first = bench.call(add(5))
    added(bench, 3)
    second = bench.call(add(7))
    acknowledge(bench, 1, 3)
    bench.apply_all()
    assert [replies_of(reply_of(bench, call_id)) for call_id in (first, second)] == [[b"5"], [b"12"]]


def test_a_group_begins_with_the_snapshot_behind_its_voters() -> None:
    """After a restart the log knows who votes, and the machine what it has counted."""
    bench = a_leading_group(replica_id=0, group=OFTEN)
    added(bench, 3)
    bench.call(add(5))
    acknowledge(bench, 1, 3)
    bench.apply_all()
    bench.store_all()
    newest = max(bench.disk.snapshots)
    assert split_snapshot(bench.disk.snapshots[newest])[0].base.ids == (0, 1, 2, 3)
    bench.restart()
    assert (bench.halted, ids(bench), bench.total()) == (None, (0, 1, 2, 3), 5)


def test_a_command_that_comes_first_when_a_transfer_is_over_is_answered() -> None:
    """It is appended in one step with the voter that had to wait for the transfer, and waits for itself alone."""
    bench = a_leading_group(
        replica_id=0, group=GroupConfig(tick_interval_ms=INT32_MAX, auto_leader_rebalance_enable=False)
    )
    add_voter(bench, 3, timeout_ms=60_000)
    bench.call(transfer(2, timeout_ms=1000))
    fetched(bench, fetch_from(bench, 3))
    assert ids(bench) == (0, 1, 2)
    bench.now_ms += 1000
    command = bench.call(add(5))
    assert ids(bench) == (0, 1, 2, 3)
    acknowledge(bench, 1, 2, 3)
    bench.apply_all()
    assert replies_of(reply_of(bench, command)) == [b"5"]
