"""Quorums whose voters are thousands of elections apart: the bounds on what raises an epoch keep nobody out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.core.effects import QuorumState
from replica.ids import Epoch, ReplicaId
from tests.core.simulated import Climate, SimulatedCluster
from tests.core.test_simulation import everyone_reached

SEEDS = range(6)
APART = 5000
HOSTILE = Climate(loss=0.02, duplication=0.02, flush_ms=(1, 40))


def set_apart(cluster: SimulatedCluster, replica_id: int, epochs: int) -> None:
    """Stop a voter; when it starts again its disk will say that it has reached an epoch so much later."""
    node = cluster.nodes[ReplicaId(replica_id)]
    cluster.crash(node.replica_id)
    state = node.disk.quorum_state or QuorumState(leader_epoch=Epoch(0))
    node.disk.quorum_state = replace(
        state, leader_epoch=Epoch(state.leader_epoch + epochs), leader_id=None, voted_id=None, voted_directory_id=None
    )


@pytest.mark.parametrize("climate", [Climate(), HOSTILE])
@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_voter_that_missed_thousands_of_elections_is_enough(seed: int, voters: int, climate: Climate) -> None:
    """A bare majority, one of which is far behind, elects a leader and commits; then all the others come back."""
    cluster = SimulatedCluster(seed, voters=voters, climate=climate)
    assert cluster.run(everyone_reached(cluster, 10), within_ms=60_000), cluster.now_ms
    for voter in range(1, voters):
        set_apart(cluster, voter, APART)
    cluster.crash(ReplicaId(0))
    for voter in range(voters // 2 + 1):
        cluster.start(ReplicaId(voter))
    assert cluster.run(everyone_reached(cluster, cluster.promises.high_watermark + 10), within_ms=60_000)
    for voter in range(voters // 2 + 1, voters):
        cluster.start(ReplicaId(voter))
    assert cluster.run(everyone_reached(cluster, cluster.promises.high_watermark + 10), within_ms=60_000)


@pytest.mark.parametrize("climate", [Climate(), HOSTILE])
@pytest.mark.parametrize("ahead", [1, APART])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_voter_that_is_ahead_of_a_leader_comes_back(seed: int, ahead: int, climate: Climate) -> None:
    """While the others have a leader it cannot follow; that learns of its epoch, and one of the next leads all."""
    cluster = SimulatedCluster(seed, climate=climate)
    assert cluster.run(everyone_reached(cluster, 10), within_ms=60_000), cluster.now_ms
    follower = next(node for node in cluster.running() if node.log.role.name == "follower")
    set_apart(cluster, follower.replica_id, ahead)
    assert cluster.run(everyone_reached(cluster, cluster.promises.high_watermark + 10), within_ms=60_000)
    cluster.start(follower.replica_id)
    assert cluster.run(everyone_reached(cluster, cluster.promises.high_watermark + 10), within_ms=60_000)
    assert cluster.run(lambda: len({node.log.epoch for node in cluster.running()}) == 1, within_ms=60_000)
