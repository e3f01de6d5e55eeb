"""Leaderships spread over replicas: who is preferred, when a leader hands over, and when it does not."""

from __future__ import annotations

from collections import Counter

import pytest

from replica.core.config import GroupConfig
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from tests.core.group.bench import BALANCED, GroupBench, add, leading_bench, round_of
from tests.core.group.cluster import GroupCluster
from tests.core.scenarios import fetch, fetched, follow, lead, reply_of
from tests.core.test_raft_transfer import transfer
from tests.core.virtual import Node

NAMES = tuple(TopicPartition(f"group-{letter}", 0) for letter in "abcde")


def led_by(cluster: GroupCluster) -> dict[TopicPartition, int]:
    """Which replica's machine leads each group; a group that nobody leads is missing."""
    return {
        name: node.replica_id
        for node in cluster.running()
        if node.core is not None
        for name, group in node.core.groups.items()
        if group.machine_leads
    }


def epochs_of(node: Node) -> dict[TopicPartition, int]:
    """The epoch of each group at a replica that runs."""
    assert node.core is not None, node.replica_id
    return {name: log.leader_epoch for name, log in node.core.logs.items()}


def keep_up(bench: GroupBench, ms: int, *voters: int, behind: tuple[int, ...] = (), step_ms: int = 500) -> None:
    """Let so much time pass, in which these voters (0 and 2) fetch from the log's end, and others from its second."""
    for _ in range(0, ms, step_ms):
        bench.elapse(min(step_ms, ms))
        for voter in voters or (0, 2):
            if voter not in behind and bench.role == "leader":
                bench.echo(0, voter=voter)
        for voter in behind:
            fetched(bench, fetch(1, bench.epoch, bench.epoch, replica=voter))


def hands_over(bench: GroupBench) -> bool:
    """Whether a transfer is under way."""
    return bench.log.is_handing_over


@pytest.mark.slow
def test_groups_end_up_spread_over_the_replicas() -> None:
    """Five groups on three replicas are led by two, two and one; killed, one's go to the others, and come back."""
    cluster = GroupCluster(names=NAMES, group=GroupConfig(leader_imbalance_check_interval_seconds=5))
    preferred = dict(zip(NAMES, (0, 1, 2, 0, 1), strict=True))
    assert cluster.run(lambda: led_by(cluster) == preferred), led_by(cluster)
    killed = cluster.nodes[cluster.voters[0]]
    cluster.crash(killed)
    assert cluster.run(lambda: len(led_by(cluster)) == len(NAMES), within_ms=20_000), led_by(cluster)
    assert 0 not in led_by(cluster).values()
    assert all(led_by(cluster)[name] == preferred[name] for name in NAMES if preferred[name] != 0)
    cluster.start(killed.replica_id)
    assert cluster.run(lambda: led_by(cluster) == preferred), led_by(cluster)
    epochs = epochs_of(killed)
    cluster.run(within_ms=60_000)
    assert led_by(cluster) == preferred
    assert epochs_of(killed) == epochs, "it never flaps"
    assert sorted(Counter(preferred.values()).values()) == [1, 2, 2]


def test_a_leader_hands_over_when_the_preferred_one_has_kept_up() -> None:
    """For so long as is configured, and not a moment earlier."""
    bench = leading_bench(group=BALANCED, replica_id=1)
    keep_up(bench, 9_500)
    bench.elapse(499)
    assert not hands_over(bench)
    bench.elapse(1)
    assert hands_over(bench)
    bench.echo(round_of(bench), voter=0)
    assert bench.role == "resigned"


def test_a_preferred_leader_that_was_away_begins_anew() -> None:
    """It has kept up since it is back."""
    bench = leading_bench(group=BALANCED, replica_id=1)
    keep_up(bench, 8_000)
    keep_up(bench, 2_500, 2)
    keep_up(bench, 9_000)
    assert not hands_over(bench)
    keep_up(bench, 2_000)
    assert hands_over(bench)


def test_nobody_is_disturbed_that_catches_up() -> None:
    """While a voter that is there lacks what there was, it may be loading a snapshot: the leader stays."""
    bench = leading_bench(group=BALANCED, replica_id=1)
    bench.call(add(1))
    bench.commit_all()
    keep_up(bench, 2_500, 2)  # The preferred leader is away: it is watched since.
    for _ in range(4):
        keep_up(bench, 5_000, 0, behind=(2,))
    assert round_of(bench) == 0, "no transfer has begun"
    keep_up(bench, 12_000, 0, 2)
    assert round_of(bench) == 1


@pytest.mark.parametrize("group", [GroupConfig(auto_leader_rebalance_enable=False), BALANCED])
def test_who_need_not_hand_over_does_not(group: GroupConfig) -> None:
    """Where it is switched off, and on the preferred leader itself."""
    bench = leading_bench(group=group, replica_id=0 if group is BALANCED else 1)
    keep_up(bench, 400_000 if group is not BALANCED else 30_000, *bench.log.other_voters, step_ms=1000)
    assert bench.role == "leader"
    assert not hands_over(bench)


def test_a_transfer_that_was_asked_for_is_not_disturbed() -> None:
    """It goes on until it is settled, whoever is preferred."""
    bench = leading_bench(group=BALANCED, replica_id=1)
    keep_up(bench, 9_500)
    call_id = bench.call(transfer(2, timeout_ms=5000))
    keep_up(bench, 4_000)
    assert bench.role == "leader"
    bench.echo(round_of(bench), voter=2)
    assert (reply_of(bench, call_id).error, bench.role) == (ErrorCode.NONE, "resigned")


def test_a_preferred_leader_that_has_led_meanwhile_is_tried_as_soon_as_at_first() -> None:
    """Attempts count that came to nothing."""
    bench = leading_bench(group=BALANCED, replica_id=1)
    keep_up(bench, 10_000)
    bench.echo(1, voter=0)
    assert bench.role == "resigned"
    follow(bench, 0, bench.epoch + 1)
    lead(bench)
    bench.commit_all()
    keep_up(bench, 10_500)
    assert hands_over(bench)


def test_an_attempt_in_vain_is_not_soon_repeated() -> None:
    """The next one waits twice as long."""
    bench = leading_bench(group=BALANCED, replica_id=1)
    attempts = []
    for _ in range(8):
        keep_up(bench, 5_000)
        attempts.append(round_of(bench))
    assert attempts == [0, 1, 1, 1, 1, 2, 2, 2], "each begins a round, and the second comes after twice the time"


def test_what_waits_for_a_preferred_leader_is_a_deadline() -> None:
    """A driver need not look before."""
    bench: GroupBench = leading_bench(group=BALANCED, replica_id=1)
    assert bench.group.deadline_ms == bench.now_ms + 10_000
