"""Judges that look only at what has changed: whatever changes is looked at, and time alone convicts as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nemesis.simulator.climate import CALM
from nemesis.simulator.node import Node, Step
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import LOG
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.messages import CurrentLeader
from replica.core.quorum import QuorumLog
from replica.core.quorum.roles import Leader
from replica.core.quorum.voter_history import VoterHistory
from replica.ids import Epoch, Offset, ReplicaId
from replica.voters import VoterEntry
from tests.simulator.worlds import Stage

NOTHING = Step(event=ev.Ticked(), effects=(), answers={}, interrupted=None, is_whole=True)
"""A step in which nothing was stored and nothing told."""


def settled() -> tuple[Stage, Node, QuorumLog]:
    """A world in which the leader was looked at just now, and a further look has nothing to say."""
    stage = Stage(CALM)
    stage.run(3)
    node = stage.leader
    assert node.core is not None
    for _ in range(2):
        stage.invariants.on_step(node, NOTHING)
    return stage, node, node.core.logs[LOG]


def leads_an_epoch_without_votes(log: QuorumLog) -> None:
    log.quorum_state = fx.QuorumState(leader_epoch=Epoch(log.leader_epoch + 1), leader_id=log.replica_id)


def has_heard_of_another_leader(log: QuorumLog) -> None:
    log.refused_leader = CurrentLeader(leader_id=ReplicaId(3), leader_epoch=log.leader_epoch)


def takes_others_for_voters(log: QuorumLog) -> None:
    entry = VoterEntry(offset=Offset(0), voters=log.voters.without(ReplicaId(3)))
    log.voter_history = VoterHistory(base=log.voters, entries=(entry,))


def commits_what_is_not_there(log: QuorumLog) -> None:
    log.log.high_watermark = Offset(log.log.log_end_offset + 1)


def leads_with_nobody(log: QuorumLog) -> None:
    assert isinstance(log.role, Leader), log.role
    long_ago = {voter: replace(progress, last_fetch_ms=0) for voter, progress in log.role.voters.items()}
    log.role = replace(log.role, voters=long_ago)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (leads_an_epoch_without_votes, "quorum-state-is-stored"),
        (has_heard_of_another_leader, "single-leader"),
        (takes_others_for_voters, "voters-of-the-log"),
        (commits_what_is_not_there, "consistent-committed-data|committed-is-durable"),
        (leads_with_nobody, "check-quorum"),
    ],
)
def test_each_thing_that_changes_is_looked_at(change: Callable[[QuorumLog], None], name: str) -> None:
    """A replica that believes something else than before is judged, though it has stored and told nothing."""
    stage, node, log = settled()
    change(log)
    with pytest.raises(BrokenInvariantError, match=name):
        stage.invariants.on_step(node, NOTHING)


def test_a_follower_that_takes_itself_for_the_leader_is_looked_at() -> None:
    """Also where nothing but its role is another one."""
    stage, leader, _ = settled()
    follower = stage.follower()
    assert follower.core is not None
    assert leader.core is not None
    for _ in range(2):
        stage.invariants.on_step(follower, NOTHING)
    follower.core.logs[LOG].role = leader.core.logs[LOG].role
    with pytest.raises(BrokenInvariantError, match="single-leader"):
        stage.invariants.on_step(follower, NOTHING)


def test_a_state_that_was_never_stored_is_looked_at_once_the_step_is_whole() -> None:
    """What was not true of the disk is passed over while a lane waits, and judged once nothing waits any more."""
    stage, node, log = settled()
    leads_an_epoch_without_votes(log)
    stage.invariants.on_step(node, replace(NOTHING, pending=frozenset((LOG,))))
    with pytest.raises(BrokenInvariantError, match="quorum-state-is-stored"):
        stage.invariants.on_step(node, NOTHING)


def test_time_alone_convicts_a_leader_that_nobody_hears() -> None:
    """A leader that stays what it is may do so for as long as a majority had fetched lately, and not a moment more."""
    stage, node, log = settled()
    assert isinstance(log.role, Leader), log.role
    begun_ms, (first, *others) = node.now_ms, log.role.voters
    fetched_ms = dict.fromkeys(others, begun_ms - 1000) | {first: begun_ms}
    progress = {voter: replace(log.role.voters[voter], last_fetch_ms=at_ms) for voter, at_ms in fetched_ms.items()}
    log.role = replace(log.role, voters=progress)
    timeout_ms = log.quorum.check_quorum_timeout_ms
    for until_ms in (begun_ms, begun_ms + timeout_ms - 1000, begun_ms + timeout_ms):
        node.jump_clock(until_ms - node.now_ms)
        stage.invariants.on_step(node, NOTHING)
    node.jump_clock(1)
    with pytest.raises(BrokenInvariantError, match="check-quorum"):
        stage.invariants.on_step(node, NOTHING)


def test_a_step_says_itself_of_what_kinds_it_is() -> None:
    """Nobody who makes a step can leave a kind out, and so keep it from those who care."""
    step = Step(
        event=ev.Ticked(),
        effects=(fx.Halt(reason="test"),),
        answers={},
        interrupted=None,
        is_whole=True,
        kinds=frozenset(),
    )
    assert step.kinds == {ev.Ticked, fx.Halt}
    assert replace(step, effects=()).kinds == {ev.Ticked}
