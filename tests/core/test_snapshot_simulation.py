"""Whole quorums that take snapshots while followers lag, restart and catch up.

A failing seed is repeated with ``pytest tests/core/test_snapshot_simulation.py -k 'name and seed'``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from replica.core.rules import Rules
from replica.ids import Offset, ReplicaId
from tests.core.folded import FoldedCluster, everyone_applied
from tests.core.snapshot_mutations import (
    BeginAfterTheSnapshot,
    ClaimNothingAfterASnapshot,
    CompareNoEpochsAtTheLogStart,
    ForgetThatSnapshotsAreCommitted,
    ServeBelowTheLogStart,
)
from tests.core.virtual import CONFIG, Climate
from tests.depth import breaks, convicted, seeds

HOSTILE = Climate(loss=0.02, duplication=0.02, crash_in_step=0.004, disk_ms=(1, 40))
PIECES = replace(CONFIG, fetch_max_bytes=100)
"""One batch an answer, and several pieces a snapshot."""


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("seed", seeds(3))
def test_a_follower_that_was_left_behind_catches_up_by_snapshot(seed: int, restarts: bool) -> None:
    """One that was cut off, or dead, while the others let go of the log's beginning has the same state in the end."""
    cluster = FoldedCluster(seed, config=PIECES)
    assert cluster.run(everyone_applied(cluster, 20), within_ms=30_000), cluster.now_ms
    lagging = ReplicaId(seed % 3)
    cluster.isolate(lagging)
    behind = cluster.nodes[lagging].disk.end
    others = [node for node in cluster.running() if node.replica_id != lagging]
    assert cluster.run(lambda: all(node.disk.start > behind + 10 for node in others), within_ms=60_000), cluster.now_ms
    if restarts:
        cluster.crash(cluster.nodes[lagging])
        cluster.start(lagging)
    cluster.heal()
    target = cluster.promises.high_watermark + 10
    assert cluster.run(everyone_applied(cluster, target), within_ms=30_000), cluster.now_ms
    assert cluster.seen["installed"] >= 1
    assert cluster.nodes[lagging].disk.start > behind


def storm(seed: int, *, rules: Callable[[], Rules] = Rules, snapshots: float = 0.05) -> FoldedCluster:
    """Partitions, crashes, loss and duplication for a while, then calm until all have applied the same."""
    cluster = FoldedCluster(seed, climate=replace(HOSTILE), rules=rules, config=PIECES, snapshots=snapshots)
    for _ in range(10):
        cluster.isolate(cluster.random.randrange(3))
        cluster.run(lambda: False, within_ms=cluster.random.randrange(500, 6000))
        cluster.heal()
        cluster.run(lambda: False, within_ms=cluster.random.randrange(100, 3000))
    cluster.climate, cluster.snapshots = Climate(), 0.0  # No later snapshot helps who is stuck with one.
    target = cluster.promises.high_watermark + 10
    assert cluster.run(everyone_applied(cluster, target), within_ms=60_000), f"seed {seed}: no progress after healing"
    for node in cluster.running():
        cluster.promises.check_acknowledged(node, below=Offset(target))
    return cluster


@pytest.mark.parametrize("seed", seeds(2))
def test_keeps_its_promises_in_a_storm_with_snapshots(seed: int) -> None:
    """Under partitions, crashes, loss and duplication who has applied equally much has the same, and all recover."""
    assert storm(seed).seen["stored"] > 1


@pytest.mark.slow
def test_storms_load_snapshots() -> None:
    """The storms are worth their time: many snapshots are loaded, some rejected, some installed only by half."""
    seen: Counter[str] = Counter()
    for seed in range(12):
        stormed = storm(seed).seen
        assert stormed["stored"] > 1, seed
        seen += stormed
    assert seen["installed"] > 20, seen
    assert min(seen["rejected"], seen["half installed"]) > 3, seen


@pytest.mark.parametrize(
    ("wrong", "seed", "of_8"),
    [
        (BeginAfterTheSnapshot, 2, 8),
        (ClaimNothingAfterASnapshot, 3, 8),
        (CompareNoEpochsAtTheLogStart, 7, 1),
        (ForgetThatSnapshotsAreCommitted, 0, 8),
        (ServeBelowTheLogStart, 6, 2),
    ],
)
def test_a_storm_convicts_wrong_rules_of_snapshots(wrong: type[Rules], seed: int, of_8: int) -> None:
    """Each of these wrong decisions breaks a promise, or an invariant, in the storm that tells."""
    convicted(lambda seed: breaks(lambda: storm(seed, rules=wrong)), first_seed=seed, of=8, least=of_8)
