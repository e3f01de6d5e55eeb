"""Whole groups: the same state everywhere, commands once, no old answers, whatever happens to replicas and messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from nemesis.variants import groups
from replica.bounds import INT32_MAX
from replica.core import messages as m
from replica.core.config import GroupConfig
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.machines import OpenSession, SessionCommand, SessionId, decode_outcome
from tests.core.group.bench import STALE, add, apply, ask, replies_of
from tests.core.group.clients import Asking, Counting
from tests.core.group.cluster import GroupCluster
from tests.core.virtual import Climate
from tests.depth import breaks

QUIET = GroupConfig(tick_interval_ms=INT32_MAX)


def reply_in(response: m.Response | None) -> bytes | ErrorCode:
    """What a question was answered, or why not."""
    assert isinstance(response, m.QueryResponse), response
    if response.error is not ErrorCode.NONE:
        return response.error
    return bytes(getattr(decode_outcome(response.outcomes[0]), "reply"))  # noqa: B009 - whatever the outcome is


def a_leader_that_was_paused_answers_nothing_old(rules: Callable[[], Rules]) -> None:
    """A question to a leader that was stopped, and replaced meanwhile.

    1. B and C send their fetches to A, which leads. 2. A is stopped: the fetches wait in its buffers. 3. B is elected
    by C, and commits x=2. 4. A goes on, and the first thing it finds is a question for x. 5. Then it finds the fetches:
    it and they would be a majority. A must not answer 1.
    """
    cluster = GroupCluster(rules=rules, group=QUIET)
    old = cluster.wait_leader()
    cluster.answer(old, add(1))
    cluster.stop(old)
    assert cluster.run(lambda: len(old.buffer) >= 2, within_ms=1000)
    cluster.isolate(old.replica_id)
    new = cluster.wait_leader(other_than=old)
    response = cluster.answer(new, add(1))
    assert replies_of(response) == [b"2"]
    old.is_stopped = False
    assert old.log.role.name == "leader"
    call = cluster.ask(old, ask(timeout_ms=10_000))
    cluster.resume(old)
    cluster.run(lambda: call.response is not None, within_ms=1000)
    cluster.heal()
    assert cluster.run(lambda: call.response is not None)
    assert reply_in(call.response) in (b"2", ErrorCode.NOT_LEADER_OR_FOLLOWER)


def a_follower_answers_what_was_committed_before(rules: Callable[[], Rules]) -> None:
    """A question to a follower, right after the leader has answered a command; to apply takes long."""
    cluster = GroupCluster(rules=rules, group=QUIET, climate=Climate(disk_ms=(30, 60)))
    leader = cluster.wait_leader()
    for number in range(1, 6):
        cluster.answer(leader, add(1))
        for node in cluster.running():
            assert reply_in(cluster.answer(node, ask())) == b"%d" % number, node.replica_id


def replicas_agree_and_clients_see_no_contradiction(rules: Callable[[], Rules], seed: int) -> tuple[int, ...]:
    """Random faults for a while; returns how much has happened."""
    cluster = GroupCluster(seed, rules=rules, climate=Climate(loss=0.02, duplication=0.02, crash_in_step=0.002))
    counting = Counting(cluster)
    asking = Asking(counting)
    leaders = set()
    for moment in range(400):
        cluster.run(within_ms=50)
        counting.go()
        asking.go()
        leaders |= {node.log.leader_epoch for node in [cluster.leader()] if node is not None}
        if moment % 60 == 20:
            _disturb(cluster, seed + moment)
        if moment % 60 == 55:
            cluster.heal()
            for node in cluster.running():
                cluster.resume(node)
    cluster.heal()
    return counting.answered, counting.retries, asking.answers, asking.from_followers, len(leaders), cluster.installed


def _disturb(cluster: GroupCluster, choice: int) -> None:
    """Cut off, stop or end a replica, the leader where there is one."""
    node = cluster.leader() or cluster.nodes[cluster.voters[0]]
    if node.core is None:
        return
    match choice % 3:
        case 0:
            cluster.isolate(node.replica_id)
        case 1:
            cluster.stop(node)
        case _:
            cluster.crash(node)
            cluster.at(2500, lambda: cluster.start(node.replica_id) if node.core is None else None)


# --- one story each -------------------------------------------------------------------------------------------------


def test_a_leader_that_was_paused_answers_nothing_old() -> None:
    """By the right rules the question is refused, or answered with the new value."""
    a_leader_that_was_paused_answers_nothing_old(Rules)


@pytest.mark.parametrize("wrong", [groups.ReadIndexOfAnOldFetch, groups.ReadsWithoutAsking])
def test_by_wrong_rules_a_paused_leader_answers_what_is_old(wrong: type[Rules]) -> None:
    """A confirmation by old fetches, or none at all, is seen as an old answer."""
    with pytest.raises(AssertionError, match="b'1'"):
        a_leader_that_was_paused_answers_nothing_old(wrong)


def test_a_follower_answers_what_was_committed_before() -> None:
    """Every replica answers a linearizable question, and each with the newest."""
    a_follower_answers_what_was_committed_before(Rules)


@pytest.mark.parametrize("wrong", [groups.ReadsBeforeApplying, groups.ReadsWithoutAsking])
def test_by_wrong_rules_a_follower_answers_what_is_old(wrong: type[Rules]) -> None:
    """Without the read index, or without waiting for it, its answer is what it has applied."""
    with pytest.raises(AssertionError):
        a_follower_answers_what_was_committed_before(wrong)


def test_a_retried_command_is_applied_once_across_leaders_snapshots_and_restarts() -> None:
    """Sent to the old leader, and again to a new one that began with a snapshot, it counts once."""
    cluster = GroupCluster(group=GroupConfig(snapshot_max_record_bytes_between=300, tick_interval_ms=50))
    old = cluster.wait_leader()
    cluster.answer(old, apply(OpenSession(ttl_ms=86_400_000)))
    session_id = SessionId(old.group.applied_offset - 1)
    command = SessionCommand(session_id=session_id, sequence=0, acknowledged=0, command=b"5")
    assert replies_of(cluster.answer(old, apply(command))) == [b"5"]
    applied_offset = old.group.applied_offset
    assert cluster.run(lambda: all(node.disk.start > applied_offset for node in cluster.running()))
    for node in cluster.running():
        cluster.crash(node)
        cluster.start(node.replica_id)
    new = cluster.wait_leader()
    assert replies_of(cluster.answer(new, apply(command))) == [b"5"]
    assert reply_in(cluster.answer(new, ask(consistency=STALE))) == b"5"


def test_a_replica_that_was_away_for_long_loads_a_snapshot() -> None:
    """What it lacks is gone from the leader's log; it begins anew with the leader's state, and goes on."""
    cluster = GroupCluster(group=GroupConfig(snapshot_max_record_bytes_between=300, tick_interval_ms=50))
    leader = cluster.wait_leader()
    away = next(node for node in cluster.running() if node is not leader)
    cluster.crash(away)
    for _ in range(10):
        cluster.answer(cluster.wait_leader(), add(1))
    end = away.disk.end
    assert cluster.run(lambda: cluster.wait_leader().disk.start > end)
    cluster.start(away.replica_id)
    assert cluster.run(lambda: away.group.applied_offset > end)
    assert (cluster.installed, away.disk.start > end) == (1, True)
    assert reply_in(cluster.answer(away, ask())) == b"10"


def test_a_question_that_waits_for_news_follows_the_log() -> None:
    """Asked again and again for what comes after, a follower tells of each change as it is applied."""
    cluster = GroupCluster(group=QUIET)
    leader = cluster.wait_leader()
    follower = next(node for node in cluster.running() if node is not leader)
    assert cluster.run(lambda: leader.group.applied_offset == leader.disk.end)
    for number in range(1, 4):
        next_offset = leader.group.applied_offset
        assert cluster.run(lambda: follower.group.applied_offset == leader.group.applied_offset)
        call = cluster.ask(follower, ask(consistency=STALE, after_offset=next_offset, timeout_ms=5000))
        assert call.response is None
        cluster.answer(leader, add(1))
        cluster.run(lambda: follower.group.applied_offset > leader.group.applied_offset - 1)
        assert reply_in(call.response) == b"%d" % number


# --- many -----------------------------------------------------------------------------------------------------------


SEEDS = range(8)


@pytest.mark.slow
def test_replicas_agree_and_clients_see_no_contradiction() -> None:
    """At equal offsets states are equal, whatever was lost, crashed or loaded; and all of that has happened."""
    happened = [replicas_agree_and_clients_see_no_contradiction(Rules, seed) for seed in SEEDS]
    answered, retries, asked, from_followers, leaders, installed = (
        sum(column) for column in zip(*happened, strict=True)
    )
    assert min(numbers[0] for numbers in happened) > 10
    assert answered > 200
    assert retries > 20
    assert asked > 200
    assert from_followers > 50
    assert leaders > 2 * len(happened)
    assert installed > 0


@pytest.mark.parametrize(
    ("wrong", "of_8"),
    [
        (groups.ReadsWithoutAsking, 8),
        (groups.ReadsBeforeApplying, 6),
        (groups.SnapshotOneOff, 7),
        (groups.SessionsNotInSnapshot, 7),
    ],
)
def test_wrong_rules_are_seen_by_chance_too(wrong: type[Rules], of_8: int) -> None:
    """Clients or replicas contradict each other by so many of eight seeds, without a story."""
    found = [breaks(partial(replicas_agree_and_clients_see_no_contradiction, wrong, seed)) for seed in SEEDS]
    assert sum(found) >= of_8
