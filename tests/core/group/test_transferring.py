"""Leadership transfer of a group: its commands, its ticks, and a whole cluster of it; and of the metadata log."""

from __future__ import annotations

from functools import partial

import pytest

from replica.core import messages as m
from replica.core.config import GroupConfig
from replica.errors import ErrorCode
from tests.core.group.bench import LEASE, GroupBench, add, ask, leading_bench, replies_of
from tests.core.group.cluster import GroupCluster
from tests.core.scenarios import commit, reply_of
from tests.core.test_raft_transfer import transfer
from tests.core.virtual import Node
from tests.depth import seeds


def test_no_command_is_taken_during_a_transfer() -> None:
    """It is refused before the append; a question is answered as ever."""
    bench = leading_bench(group=GroupConfig())
    bench.call(transfer(1))
    answer = reply_of(bench, bench.call(add(1)))
    assert (answer.error, answer.not_appended) == (ErrorCode.LEADER_NOT_AVAILABLE, True)
    asking = bench.call(ask())
    bench.echo(2, voter=2)
    assert reply_of(bench, asking).error is ErrorCode.NONE


def test_no_tick_is_written_during_a_transfer() -> None:
    """Nor is it due: the log goes on without."""
    bench = leading_bench(group=GroupConfig(tick_interval_ms=100))
    end = bench.log.log.log_end_offset
    bench.call(transfer(1, timeout_ms=500))
    bench.elapse(499)
    assert bench.log.log.log_end_offset == end
    bench.elapse(2)
    assert bench.log.log.log_end_offset > end


def test_a_transfer_leaves_no_command_open(bench: GroupBench) -> None:
    """What is committed is applied, and answered, before the leader resigns."""
    command = bench.call(add(5))
    bench.flush_all()
    handing_over = bench.call(transfer(1))
    bench.echo(1)
    assert bench.role == "leader", "the command is committed, but not applied"
    bench.apply_all()
    assert replies_of(reply_of(bench, command)) == [b"5"]
    bench.elapse(0)
    assert (reply_of(bench, handing_over).error, bench.role) == (ErrorCode.NONE, "resigned")


@pytest.mark.parametrize("seed", seeds(2))
def test_the_target_leads_and_no_command_is_lost(seed: int) -> None:
    """Handed from one to the next, with commands all the time, each is led at once and counts on."""
    cluster = GroupCluster(seed, group=GroupConfig(lease_reads=True, auto_leader_rebalance_enable=False))
    total = 0
    for _ in range(4):
        old = cluster.wait_leader()
        target = next(node for node in cluster.running() if node is not old)
        commands = [cluster.ask(old, add(1)) for _ in range(3)]
        handing_over = cluster.ask(old, transfer(target.replica_id, cluster_id=None))
        total += 3
        assert cluster.run(partial(leads, target), within_ms=1000)
        assert [getattr(call.response, "error", None) for call in (*commands, handing_over)] == [ErrorCode.NONE] * 4
        assert _total(cluster, target) == b"%d" % total


def leads(node: Node) -> bool:
    """Tell whether the machine on this replica leads."""
    return node.group.machine_leads


def _total(cluster: GroupCluster, node: Node) -> bytes:
    response = cluster.answer(node, ask(consistency=LEASE))
    assert isinstance(response, m.QueryResponse), response
    assert response.error is ErrorCode.NONE, response
    (reply,) = replies_of(m.ApplyResponse(error=ErrorCode.NONE, outcomes=response.outcomes))
    return reply


def test_a_transfer_to_a_replica_that_is_down_comes_to_nothing() -> None:
    """The leader leads on, and takes commands again."""
    cluster = GroupCluster()
    old = cluster.wait_leader()
    target = next(node for node in cluster.running() if node is not old)
    cluster.crash(target)
    response = cluster.answer(old, transfer(target.replica_id, cluster_id=None))
    assert getattr(response, "error", None) is ErrorCode.REQUEST_TIMED_OUT
    assert cluster.leader() is old
    assert replies_of(cluster.answer(old, add(1))) == [b"1"]


def test_commit_is_all_that_a_transfer_needs(bench: GroupBench) -> None:
    """A replica that applies nothing any more can be handed to all the same."""
    bench.call(transfer(1))
    commit(bench, 1)
    assert bench.role == "leader", "it has not heard of the transfer"
    bench.echo(1)
    assert bench.role == "resigned"
