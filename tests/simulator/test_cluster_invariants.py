"""The judges of a simulated world can convict: each is shown what it must not let pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.disk import DATA
from nemesis.simulator.node import Node, Step
from nemesis.simulator.run import SimOptions, simulate
from nemesis.simulator.session import read_of
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import LOG
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.messages import FetchedPartition, VoteRequest, VoteResponse
from replica.core.quorum.roles import Resigned
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, Offset, ReplicaId
from replica.records import encode_batch
from tests.depth import convicted
from tests.simulator.worlds import Stage

QUORUM_STATE = DATA / str(LOG) / "quorum-state"


def looked_at(*effects: fx.Effect) -> Step:
    """A step after which the judges look at the replica."""
    return Step(event=ev.Ticked(), effects=effects, answers={}, interrupted=None, is_whole=True)


def last_segment(node: Node) -> Path:
    """The file that the node's log ends in."""
    folder = DATA / str(LOG)
    return folder / max(name for name in node.disk.files.names(folder) if name.endswith(".log"))


def test_two_leaders_of_one_epoch_convict() -> None:
    """A second replica that leads an epoch is noticed, whatever it has done so far."""
    stage = Stage()
    stage.run(3)
    follower, leader = stage.follower(), stage.leader
    assert follower.core is not None
    assert leader.core is not None
    follower.core.logs[LOG].role = leader.core.logs[LOG].role
    with pytest.raises(BrokenInvariantError, match="single-leader"):
        stage.invariants.on_step(follower, looked_at())


def test_what_a_leader_commits_as_it_resigns_is_committed() -> None:
    """Also while its lane is not empty, for what follows from it has happened: as in cluster seeds 3293 and 3630."""
    stage = Stage()
    stage.run(3)
    leader, judge = stage.leader, stage.invariants.logs[LOG]
    assert leader.core is not None
    log = leader.core.logs[LOG]
    judge.committed.truncate_to(Offset(0))
    judge.on_boot(leader)
    log.role = Resigned(election_deadline_ms=0, preferred_candidates=(), pending={}, tell_at_ms={})
    assert log.log.high_watermark
    stage.invariants.on_step(leader, structs.replace(looked_at(), pending=frozenset((LOG,))))
    assert judge.committed.end == log.log.high_watermark


def test_a_leader_without_a_majoritys_votes_convicts() -> None:
    """Who leads an epoch in which nobody else has voted for it was not elected."""
    stage = Stage()
    stage.run(3)
    follower, leader = stage.follower(), stage.leader
    assert follower.core is not None
    assert leader.core is not None
    log = follower.core.logs[LOG]
    log.role = leader.core.logs[LOG].role
    log.quorum_state = fx.QuorumState(leader_epoch=Epoch(log.leader_epoch + 1), leader_id=follower.replica_id)
    stored = fx.StoreQuorumState(topic_partition=LOG, state=log.quorum_state)
    with pytest.raises(BrokenInvariantError, match="elected-by-majority"):
        stage.invariants.on_step(follower, looked_at(stored))


def test_two_votes_in_one_epoch_convict() -> None:
    """A voter that says yes to two candidates of one epoch is noticed, whenever it does."""
    stage = Stage()
    stage.run(3)
    voter = stage.follower()
    yes = VoteResponse(error=ErrorCode.NONE, vote_granted=True)
    for number, candidate in enumerate((1, 2, 3)):
        voter.requests[CallId(-1 - number)] = VoteRequest(
            topic_partition=LOG,
            candidate_id=ReplicaId(candidate),
            candidate_epoch=Epoch(7),
            last_offset_epoch=1,
            last_offset=9,
            pre_vote=candidate == 1,
        )
    stage.invariants.on_step(voter, looked_at(*(fx.Reply(call_id=CallId(-n), response=yes) for n in (1, 2))))
    with pytest.raises(BrokenInvariantError, match="one-vote"):
        stage.invariants.on_step(voter, looked_at(fx.Reply(call_id=CallId(-3), response=yes)))


def test_an_epoch_that_fell_convicts() -> None:
    """A replica that comes back in an earlier epoch than it had stored has forgotten its vote."""
    stage = Stage()
    stage.run(3)
    node = stage.leader
    node.kill()
    stored = node.disk.files.content(QUORUM_STATE)
    assert b'"leaderEpoch":1' in stored
    node.disk.files.overwrite(QUORUM_STATE, stored.replace(b'"leaderEpoch":1', b'"leaderEpoch":0'))
    with pytest.raises(BrokenInvariantError, match="quorum-state-is-stored"):
        node.start()


def test_records_that_nobody_appended_convict() -> None:
    """A log that comes back longer than it was ever written is noticed."""
    stage = Stage()
    stage.run(3)
    node = stage.leader
    end = node.stores[LOG].log_end_offset
    node.kill()
    segment = last_segment(node)
    forged = encode_batch([b"1"], base_offset=end, leader_epoch=1).data
    node.disk.files.overwrite(segment, node.disk.files.content(segment) + forged)
    with pytest.raises(BrokenInvariantError, match="phantom-log"):
        node.start()


def test_other_records_at_the_same_offset_and_epoch_convict() -> None:
    """Two logs that differ at one offset of one epoch break log matching, committed or not."""
    stage = Stage()
    stage.run(3)
    follower = stage.follower()
    chain = stage.invariants.logs[LOG].chains[follower.replica_id]
    chain.truncate_to(chain.ends[-2])
    forged = encode_batch([b"another"], base_offset=chain.end, leader_epoch=1)
    with pytest.raises(BrokenInvariantError, match="log-matching"):
        stage.invariants.on_step(follower, looked_at(fx.Append(topic_partition=LOG, batches=(forged,))))


@pytest.mark.parametrize("lying", [0.0, 0.001])
def test_a_replica_that_drops_what_it_called_committed_convicts(lying: float) -> None:
    """A truncation below the replica's own high watermark is noticed, also where disks may have lied."""
    stage = Stage(replace(CALM, rate=20.0, lying=lying))
    stage.run(3)
    truncate = fx.Truncate(topic_partition=LOG, end_offset=Offset(1))
    with pytest.raises(BrokenInvariantError, match="committed-truncated"):
        stage.invariants.on_step(stage.leader, looked_at(truncate))


def test_damaged_records_in_an_answer_convict() -> None:
    """A consumer that is sent damaged records has proof that a replica did not check what it read."""
    data = bytearray(encode_batch([b"1"], base_offset=0, leader_epoch=1).data)
    data[-1] ^= 1
    response = FetchedPartition(
        topic_partition=LOG, error=ErrorCode.NONE, high_watermark=Offset(1), records=bytes(data)
    )
    with pytest.raises(BrokenInvariantError, match="damage-served"):
        read_of(response, 0)


def test_a_cluster_that_does_not_recover_convicts() -> None:
    """Replicas that cannot finish an election within the bound are not live, however safe they are."""
    slow = Climate(latency_ms=(5_000.0, 9_000.0))
    run = simulate(SimOptions(seed=1, climate=slow, time_limit_s=10))
    assert run.outcome.violation is not None
    assert run.outcome.violation.name == "liveness"


@pytest.mark.parametrize(
    ("variant", "name", "first_seed", "of_20"),
    [
        ("fetch-before-fsync", "committed-is-durable", 0, 16),
        ("read-beyond-high-watermark", "uncommitted-read", 0, 11),
        ("ack-before-replication", "acknowledged-is-committed", 0, 20),
        ("no-check-quorum", "check-quorum", 0, 12),
        ("restarted-leader-leads-on", "log-matching", 1, 7),
        ("vote-without-comparing-logs", "leader-completeness", 1, 6),
        ("high-watermark-before-truncation", "consistent-committed-data", 0, 6),
        ("high-watermark-never-rises", "liveness", 0, 19),
        ("high-watermark-starts-at-zero", "halted", 0, 14),
        ("high-watermark-beyond-log-end", "core-assertion", 9, 2),
        ("acknowledge-after-leadership", "acknowledged-is-committed", 0, 6),
        ("vote-not-persisted", "quorum-state-is-stored", 0, 17),
    ],
)
def test_a_wrong_protocol_is_convicted_by_its_invariant(variant: str, name: str, first_seed: int, of_20: int) -> None:
    """Each of these wrong rules breaks just the promise that is its own, in so many of the first twenty seeds."""

    def is_convicted(seed: int) -> bool:
        violation = simulate(SimOptions(seed=seed, variant=variant)).outcome.violation
        return violation is not None and violation.name == name

    convicted(is_convicted, first_seed=first_seed, of=20, least=of_20)
