"""Races that a storm seldom brings about, told step by step: leaders that are cut off with records of their own.

Each is survived by the right rules, and convicts the wrong ones that a storm would need many seeds for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nemesis.variants.catalogue import BUILT
from replica.core.quorum.roles import Leader
from replica.core.rules import Rules
from replica.ids import ReplicaId
from tests.core.simulated import SimulatedCluster
from tests.core.virtual import CONFIG, Node

ONE_BATCH = replace(CONFIG, fetch_max_bytes=100)
"""A fetch brings one batch at a time, so that a follower can be caught between two."""


def wait_until(cluster: SimulatedCluster, condition: Callable[[], bool], *, within_ms: int = 60_000) -> None:
    """Let time pass until the condition holds, or fail."""
    assert cluster.run(condition, within_ms=within_ms), f"no progress by {cluster.now_ms} ms"


def leads_after(node: Node, epoch: int) -> bool:
    """Tell whether the replica leads an epoch above this one."""
    return node.log.role.name == "leader" and node.log.leader_epoch > epoch


def isolate_all(cluster: SimulatedCluster) -> None:
    """Cut every link."""
    cluster.cut = {(a, b) for a in cluster.nodes for b in cluster.nodes if a != b}


def two_lonely_leaders(cluster: SimulatedCluster) -> tuple[Node, Node, Node]:
    """Leave a replica with records of epoch e only it has, one with the first of a later epoch, and one with neither.

    The first has the longer log, the second the later epoch.
    """
    # 1. a leads and is cut off; it appends what it cannot commit.
    wait_until(cluster, lambda: cluster.promises.high_watermark >= 5)
    first = cluster.leader()
    assert first is not None
    epoch, end = first.log.leader_epoch, first.disk.end
    cluster.isolate(first.replica_id)
    wait_until(cluster, lambda: first.disk.end >= end + 5)
    # 2. b is elected by c and cut off at once: only b has the records of its epoch, here and for a moment.
    others = [node for node in cluster.nodes.values() if node is not first]
    wait_until(cluster, lambda: any(leads_after(node, epoch) for node in others))
    isolate_all(cluster)
    second = next(node for node in others if leads_after(node, epoch))
    third = next(node for node in others if node is not second)
    end = second.disk.end
    wait_until(cluster, lambda: second.disk.flushed_end >= end and second.disk.end < first.disk.end)
    return first, second, third


def a_lonely_leader_comes_back(rules: Callable[[], Rules]) -> None:
    """Let the first lead the third and commit, and only then hear the second again: its epoch is unknown to them."""
    cluster = SimulatedCluster(0, rules=rules)
    first, second, _ = two_lonely_leaders(cluster)
    # 3. b stops: what it has stays as short as it is. a and c go on without it.
    cluster.crash(second)
    end = first.disk.end
    cluster.heal()
    wait_until(cluster, lambda: cluster.promises.high_watermark > end)
    # 4. b comes back with records of an epoch that nobody else has ever had, below the end of an older one.
    cluster.start(second.replica_id)
    target = cluster.promises.high_watermark + 10
    wait_until(
        cluster,
        lambda: all((node.log.log.high_watermark or 0) >= target for node in cluster.running()),
        within_ms=5_000,
    )


def raft_figure_8(rules: Callable[[], Rules]) -> None:
    """Replicate an old epoch's records to a majority, and then replace them by the later epoch's."""
    cluster = SimulatedCluster(0, rules=rules, config=ONE_BATCH)
    first, second, third = two_lonely_leaders(cluster)
    # 3. a and c are together: a leads again, in a third epoch, and c fetches a's old records.
    cluster.isolate(second.replica_id)
    wait_until(cluster, lambda: leads_after(first, second.log.leader_epoch))
    wait_until(cluster, lambda: _has_the_older_epochs(first, third.replica_id))
    # 4. Before c has a record of the new epoch, a is cut off. b, whose last record is of a later epoch than c's, leads
    #    b and c, and replaces what a majority had.
    cluster.isolate(first.replica_id)
    target = first.disk.end + 10
    wait_until(cluster, lambda: all((node.log.log.high_watermark or 0) >= target for node in (second, third)))


def _has_the_older_epochs(leader: Node, follower: ReplicaId) -> bool:
    role = leader.log.role
    assert isinstance(role, Leader), role
    return role.voters[follower].log_end_offset == role.epoch_start_offset


def a_deposed_leader_has_writes_that_wait(rules: Callable[[], Rules]) -> None:
    """Let others commit other records at the offsets of writes that still wait at a leader when it is deposed."""
    cluster = SimulatedCluster(0, rules=rules)
    wait_until(cluster, lambda: cluster.promises.high_watermark >= 5)
    first = cluster.leader()
    assert first is not None
    epoch = first.log.leader_epoch
    # 1. a is cut off and goes on appending; the others elect one of them.
    cluster.isolate(first.replica_id)
    wait_until(cluster, lambda: any(leads_after(node, epoch) for node in cluster.running()))
    # 2. a comes back, gives up its tail, and sees the high watermark pass where that tail was.
    end = first.disk.end
    cluster.heal()
    wait_until(cluster, lambda: all((node.log.log.high_watermark or 0) > end for node in cluster.running()))
    cluster.promises.check_acknowledged(first, below=end)


RACES = [a_lonely_leader_comes_back, raft_figure_8, a_deposed_leader_has_writes_that_wait]


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.__name__)
def test_the_right_rules_survive(race: Callable[[Callable[[], Rules]], None]) -> None:
    """Nothing committed changes, and all come to agree again."""
    race(Rules)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "race", "convicted_of"),
    [
        ("unknown-epoch-ends-at-log-end", a_lonely_leader_comes_back, "no progress"),
        ("trust-the-leaders-offset", a_lonely_leader_comes_back, "no progress"),
        ("acknowledge-after-leadership", a_deposed_leader_has_writes_that_wait, "an acknowledged write is never lost"),
        ("high-watermark-before-own-epoch", raft_figure_8, "a leader has everything committed"),
    ],
)
def test_a_wrong_rule_is_convicted(
    variant: str, race: Callable[[Callable[[], Rules]], None], convicted_of: str
) -> None:
    """The race that the right rules survive convicts the wrong one."""
    with pytest.raises(AssertionError, match=convicted_of):
        race(BUILT[variant].rules)
