"""Quorums whose voters are thousands of elections apart: the bounds on what raises an epoch keep nobody out."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.effects import QuorumState
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId
from tests.core import harness
from tests.core.harness import LOG
from tests.core.simulated import SimulatedCluster, everyone_reached
from tests.core.virtual import Climate, Node
from tests.depth import seeds

SEEDS = seeds(2)
APART = 5000
HOSTILE = Climate(loss=0.02, duplication=0.02, disk_ms=(1, 40))


class OneWay(SimulatedCluster):
    """A quorum in which some cannot dial others, as behind a firewall, and are dialled and answered all the same."""

    undialled: Collection[tuple[ReplicaId, ReplicaId]] = ()

    def _send(self, node: Node, effect: fx.Send) -> None:
        if (node.replica_id, effect.replica_id) not in self.undialled:
            super()._send(node, effect)
            return
        failed = ev.SendFailed(correlation_id=effect.correlation_id, replica_id=effect.replica_id)
        incarnation = node.incarnation
        self.at(5, lambda: self.step(node, failed) if node.incarnation == incarnation else None)


def set_apart(cluster: SimulatedCluster, replica_id: int, epochs: int) -> None:
    """Stop a voter; when it starts again its disk will say that it has reached an epoch so much later."""
    node = cluster.nodes[ReplicaId(replica_id)]
    cluster.crash(node)
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
    cluster.crash(cluster.nodes[ReplicaId(0)])
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
    assert cluster.run(lambda: len({node.log.leader_epoch for node in cluster.running()}) == 1, within_ms=60_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_voter_that_is_ahead_and_cannot_be_dialled_comes_back(seed: int) -> None:
    """It asks the leader, which cannot ask it: 1. it was a candidate, and was cut off. 2. The others follow on."""
    cluster = OneWay(seed)
    assert cluster.run(everyone_reached(cluster, 10), within_ms=60_000), cluster.now_ms
    leader = next(node for node in cluster.running() if node.log.role.name == "leader")
    ahead = next(node for node in cluster.running() if node.log.role.name == "follower")
    set_apart(cluster, ahead.replica_id, 1)
    assert cluster.run(everyone_reached(cluster, cluster.promises.high_watermark + 10), within_ms=60_000)
    cluster.undialled = {(leader.replica_id, ahead.replica_id)}
    cluster.start(ahead.replica_id)
    assert cluster.run(everyone_reached(cluster, cluster.promises.high_watermark + 10), within_ms=60_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_former_voter_that_is_ahead_comes_back(seed: int) -> None:
    """Nobody asks it any more, since it was removed meanwhile; it still thinks that it votes."""
    cluster = SimulatedCluster(seed)
    assert cluster.run(everyone_reached(cluster, 20), within_ms=60_000)
    leader = cluster.leader()
    assert leader is not None
    ahead = next(number for number in (0, 1, 2) if number != leader.replica_id)
    set_apart(cluster, ahead, 1)
    removed: list[m.Response] = []
    request = m.RemoveVoterRequest(topic_partition=LOG, voter=harness.voter(ahead, 0).key, timeout_ms=5000)
    cluster._call(leader, request, removed.append)
    assert cluster.run(lambda: bool(removed), within_ms=20_000)
    assert removed[0].error is ErrorCode.NONE
    cluster.start(ReplicaId(ahead))
    log = cluster.nodes[ReplicaId(ahead)].log
    wanted = cluster.promises.high_watermark + 10
    assert cluster.run(lambda: log.role.name == "follower" and log.log.log_end_offset >= wanted, within_ms=60_000), (
        log.role.name,
        log.leader_epoch,
    )
