"""Whole groups: the same state everywhere, commands once, no old answers, whatever happens to replicas and messages."""

from __future__ import annotations

import pytest

from nemesis.variants import groups
from replica.bounds import INT32_MAX
from replica.core import messages as m
from replica.core.config import GroupConfig
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.machines import OpenSession, SessionCommand, SessionId, decode_outcome
from tests.core.group.bench import STALE, add, apply, ask, replies_of
from tests.core.group.cluster import GroupCluster
from tests.core.ruled import ruled_by
from tests.core.virtual import Climate

QUIET = GroupConfig(tick_interval_ms=INT32_MAX)


def reply_in(response: m.Response | None) -> bytes | ErrorCode:
    """What a question was answered, or why not."""
    assert isinstance(response, m.QueryResponse), response
    if response.error is not ErrorCode.NONE:
        return response.error
    return bytes(getattr(decode_outcome(response.outcomes[0]), "reply"))  # noqa: B009 - whatever the outcome is


def test_a_leader_that_was_paused_answers_nothing_old() -> None:
    """A question to a leader that was stopped, and replaced meanwhile, is refused or answered with the new value.

    1. B and C send their fetches to A, which leads. 2. A is stopped: the fetches wait in its buffers. 3. B is elected
    by C, and commits x=2. 4. A goes on, and the first thing it finds is a question for x. 5. Then it finds the fetches:
    it and they would be a majority. A must not answer 1.
    """
    cluster = GroupCluster(group=QUIET)
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


def test_a_follower_answers_what_was_committed_before() -> None:
    """Each replica answers with the newest right after the leader has answered a command; to apply takes long."""
    cluster = GroupCluster(group=QUIET, climate=Climate(disk_ms=(30, 60)))
    leader = cluster.wait_leader()
    for number in range(1, 6):
        cluster.answer(leader, add(1))
        for node in cluster.running():
            assert reply_in(cluster.answer(node, ask())) == b"%d" % number, node.replica_id


@pytest.mark.parametrize("wrong", [groups.ReadIndexOfAnOldFetch(), groups.ReadsWithoutAsking()])
def test_by_wrong_rules_a_paused_leader_answers_what_is_old(wrong: Rules) -> None:
    """A confirmation by old fetches, or none at all, is seen as an old answer."""
    with ruled_by(wrong), pytest.raises(AssertionError, match="b'1'"):
        test_a_leader_that_was_paused_answers_nothing_old()


@pytest.mark.parametrize("wrong", [groups.ReadsBeforeApplying(), groups.ReadsWithoutAsking()])
def test_by_wrong_rules_a_follower_answers_what_is_old(wrong: Rules) -> None:
    """Without the read index, or without waiting for it, its answer is what it has applied."""
    with ruled_by(wrong), pytest.raises(AssertionError):
        test_a_follower_answers_what_was_committed_before()


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
