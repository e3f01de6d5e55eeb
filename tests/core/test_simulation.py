"""Whole quorums on virtual time: Kafka's RaftEventSimulationTest scenarios, a hostile climate, and wrong rules.

A failing seed is repeated with ``pytest tests/core/test_simulation.py -k 'name and seed'``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nemesis.variants.catalogue import BUILT
from replica.core.rules import Rules
from replica.ids import Offset, ReplicaId
from tests.core.simulated import SimulatedCluster
from tests.core.virtual import CONFIG, Climate, PromiseBrokenError
from tests.depth import breaks, convicted, seeds

SEEDS = seeds(2)
ONE_BATCH_BYTES = 100
HOSTILE = Climate(loss=0.02, duplication=0.02, crash_in_step=0.002, disk_ms=(1, 40))


def everyone_reached(cluster: SimulatedCluster, high_watermark: int) -> Callable[[], bool]:
    """Build the condition that every running replica knows this high watermark."""
    return lambda: all((node.log.log.high_watermark or 0) >= high_watermark for node in cluster.running())


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_can_elect_initial_leader(seed: int, voters: int) -> None:
    """From nothing, all replicas agree on a leader and reach a high watermark of 10."""
    cluster = SimulatedCluster(seed, voters=voters)
    assert cluster.run(everyone_reached(cluster, 10), within_ms=30_000), cluster.now_ms
    assert len({node.log.leader_id for node in cluster.running()}) == 1


@pytest.mark.parametrize("graceful", [True, False])
@pytest.mark.parametrize("voters", [3, 4, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_can_elect_new_leader_after_old_leader_failure(seed: int, voters: int, graceful: bool) -> None:
    """After the leader stops or dies the others go on, and it catches up when it comes back."""
    cluster = SimulatedCluster(seed, voters=voters)
    assert cluster.run(everyone_reached(cluster, 10), within_ms=30_000), cluster.now_ms
    leader = cluster.leader()
    assert leader is not None
    if graceful:
        cluster.resign(leader.replica_id)
        assert cluster.run(lambda: cluster.leader() not in (None, leader), within_ms=30_000), cluster.now_ms
    cluster.crash(leader)
    assert cluster.run(everyone_reached(cluster, 20), within_ms=30_000), cluster.now_ms
    cluster.start(leader.replica_id)
    assert cluster.run(everyone_reached(cluster, cluster.promises.high_watermark + 10), within_ms=30_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_can_make_progress_if_majority_is_reachable(seed: int) -> None:
    """With {0,1} cut off from {2,3,4} the majority goes on, the minority does not, and all converge afterwards."""
    cluster = SimulatedCluster(seed, voters=5)
    assert cluster.run(everyone_reached(cluster, 10), within_ms=30_000), cluster.now_ms
    cluster.isolate(0, 1)
    minority = [cluster.nodes[ReplicaId(n)] for n in (0, 1)]
    majority = [cluster.nodes[ReplicaId(n)] for n in (2, 3, 4)]
    target = 2 * max(node.disk.end for node in cluster.running())
    assert cluster.run(
        lambda: all((node.log.log.high_watermark or 0) >= target for node in majority), within_ms=60_000
    ), cluster.now_ms
    assert max(node.log.log.high_watermark or 0 for node in minority) < target
    cluster.heal()
    assert cluster.run(everyone_reached(cluster, target), within_ms=30_000), cluster.now_ms
    for node in cluster.running():
        cluster.promises.check_acknowledged(node, below=Offset(target))


def storm(
    seed: int,
    *,
    rules: Callable[[], Rules] = Rules,
    fetch_max_bytes: int = CONFIG.fetch_max_bytes,
) -> SimulatedCluster:
    """Partitions, crashes with unflushed suffixes lost, loss and duplication for a while; then calm until all agree."""
    config = replace(CONFIG, fetch_max_bytes=fetch_max_bytes)
    cluster = SimulatedCluster(seed, climate=replace(HOSTILE), rules=rules, config=config)
    for _ in range(8):
        cluster.isolate(cluster.random.randrange(3))
        cluster.run(lambda: False, within_ms=cluster.random.randrange(500, 8000))
        cluster.heal()
        cluster.run(lambda: False, within_ms=cluster.random.randrange(100, 4000))
    cluster.climate = Climate()
    cluster.run(lambda: len(cluster.running()) == 3, within_ms=5_000)
    target = cluster.promises.high_watermark + 10
    assert cluster.run(everyone_reached(cluster, target), within_ms=60_000), f"seed {seed}: no progress after healing"
    for node in cluster.running():
        cluster.promises.check_acknowledged(node, below=Offset(target))
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_keeps_its_promises_in_a_storm(seed: int) -> None:
    """Under partitions, crashes, loss and duplication nothing committed or acknowledged changes, and all recover."""
    cluster = storm(seed)
    assert len(cluster.promises.acknowledged) > 50, len(cluster.promises.acknowledged)


CONVICTED_BY_STORMS = {
    "truncate-to-high-watermark": (13, 8),
    "high-watermark-before-truncation": (15, 6),
    "diverged-fetch-acknowledges": (3, 6),
    "high-watermark-starts-at-zero": (8, 8),
    "high-watermark-never-rises": (19, 5),
    "fence-own-epoch": (8, 7),
    "fetch-before-fsync": (5, 3),
    "restarted-leader-leads-on": (5, 8),
    "diverging-at-equal-end": (10, 8),
    "ack-before-replication": (19, 7),
    "append-without-reconciling": (14, 8),
    "vote-without-comparing-logs": (0, 8),
    "high-watermark-of-the-fastest": (0, 8),
    "take-nothing-back": (14, 7),
    "vote-for-the-longer-log": (11, 1),
}
"""Wrong protocols, each with the storm that tells soonest, and how many of the first eight tell."""
CONVICTED_BATCH_BY_BATCH = {"unknown-epoch-ends-at-log-end": (0, 5), "high-watermark-beyond-log-end": (1, 8)}
"""The same where fetches are small."""


def broken_by(variant: str, fetch_max_bytes: int = CONFIG.fetch_max_bytes) -> Callable[[int], bool]:
    """Build the question whether the storm of a seed breaks a wrong protocol."""
    return lambda seed: breaks(lambda: storm(seed, rules=BUILT[variant].rules, fetch_max_bytes=fetch_max_bytes))


@pytest.mark.parametrize(("variant", "told"), CONVICTED_BY_STORMS.items(), ids=CONVICTED_BY_STORMS)
def test_a_storm_convicts_wrong_rules(variant: str, told: tuple[int, int]) -> None:
    """Each wrong decision breaks a promise in a storm, so a green storm means something."""
    convicted(broken_by(variant), first_seed=told[0], of=8, least=told[1])


@pytest.mark.parametrize(("variant", "told"), CONVICTED_BATCH_BY_BATCH.items(), ids=CONVICTED_BATCH_BY_BATCH)
def test_a_storm_convicts_wrong_rules_where_fetches_are_small(variant: str, told: tuple[int, int]) -> None:
    """Some decisions matter only while a follower is on its way to the leader's end, one batch after the other."""
    convicted(broken_by(variant, ONE_BATCH_BYTES), first_seed=told[0], of=8, least=told[1])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_keeps_its_promises_in_a_storm_batch_by_batch(seed: int) -> None:
    """The right rules survive the storms with small fetches, too."""
    storm(seed, fetch_max_bytes=ONE_BATCH_BYTES)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_world() -> None:
    """A simulated run is a function of its seed, so that a failing one can be repeated."""
    worlds = [storm(3) for _ in range(2)]
    logs = [[batch.data for batch in world.nodes[ReplicaId(0)].disk.batches] for world in worlds]
    assert logs[0] == logs[1]
    assert worlds[0].now_ms == worlds[1].now_ms


def test_promises_notice_a_lost_acknowledgement() -> None:
    """The judge itself can fail: an acknowledged record that no log holds is named."""
    cluster = SimulatedCluster(0)
    assert cluster.run(everyone_reached(cluster, 10), within_ms=30_000)
    cluster.promises.acknowledged[Offset(5)] = b"never written"
    with pytest.raises(PromiseBrokenError, match="never lost"):
        cluster.promises.check_acknowledged(cluster.nodes[ReplicaId(0)], below=Offset(10))


@pytest.mark.parametrize("seed", SEEDS)
def test_leader_graceful_shutdown_hands_over_at_once(seed: int) -> None:
    """A leader that resigns is followed by another well within an election timeout, for it names its successor."""
    cluster = SimulatedCluster(seed)
    assert cluster.run(everyone_reached(cluster, 10), within_ms=30_000), cluster.now_ms
    leader = cluster.leader()
    assert leader is not None
    cluster.resign(leader.replica_id)
    assert cluster.run(lambda: cluster.leader() is not None, within_ms=CONFIG.election_timeout_ms // 2), cluster.now_ms
    assert cluster.leader() is not leader
