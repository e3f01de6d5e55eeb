"""Whole quorums whose voters change while replicas crash, are cut off, and lose their disks.

A failing seed is repeated with ``pytest tests/core/test_membership_simulation.py -k 'name and seed'``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from replica.core import messages as m
from replica.core.rules import Rules
from replica.ids import Offset, ReplicaId
from replica.voters import ReplicaKey
from tests.core.changing import REPLICAS, ChangingCluster
from tests.core.folded import everyone_applied
from tests.core.harness import LOG
from tests.core.membership_wrong_rules import (
    ChangeBeforeTheEpochHasBegun,
    ChangeBeforeTheLastIsCommitted,
    OnlyVotersCampaign,
    SnapshotsWithoutVoters,
    TruncationLeavesVoters,
    VotersInForceOnceCommitted,
)
from tests.core.virtual import CONFIG, Climate, Node
from tests.depth import breaks, convicted, seeds

HOSTILE = Climate(loss=0.02, duplication=0.02, crash_in_step=0.003, disk_ms=(1, 40))
PIECES = replace(CONFIG, fetch_max_bytes=400)
"""A few batches an answer, and a snapshot in one or two pieces."""


def storm(
    seed: int, *, rules: Callable[[], Rules] = Rules, first_voters: tuple[int, ...] = (0, 1, 2)
) -> ChangingCluster:
    """Changes, partitions, crashes and losses for a while, then calm until all have applied the same."""
    cluster = ChangingCluster(seed, climate=replace(HOSTILE), rules=rules, config=PIECES, first_voters=first_voters)
    for _ in range(8):
        cluster.isolate(*[replica for replica in range(REPLICAS) if cluster.random.random() < 0.35])
        cluster.run(lambda: False, within_ms=cluster.random.randrange(500, 6000))
        cluster.heal()
        cluster.run(lambda: False, within_ms=cluster.random.randrange(100, 3000))
    cluster.end_changes()
    target = cluster.promises.high_watermark + 10
    assert cluster.run(everyone_applied(cluster, target), within_ms=60_000), f"seed {seed}: no progress after healing"
    for node in cluster.running():
        cluster.promises.check_acknowledged(node, below=Offset(target))
    return cluster


@pytest.mark.parametrize("first_voters", [(0,), (0, 1, 2), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("seed", seeds(2))
def test_keeps_its_promises_while_voters_change(seed: int, first_voters: tuple[int, ...]) -> None:
    """Nothing committed is lost, nobody leads twice in an epoch, and all recover, from any number of voters."""
    assert storm(seed, first_voters=first_voters).seen["stored"] > 0


@pytest.mark.slow
def test_storms_change_voters() -> None:
    """The storms are worth their time: voters come and go, leaders remove themselves, disks are lost."""
    seen: Counter[str] = Counter()
    for seed in range(8):
        seen += storm(seed).seen
    assert min(seen["added"], seen["removed"], seen["installed"]) > 5, seen
    assert min(seen["leader removed itself"], seen["lost"], seen["half installed"]) > 2, seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "seed", "of_8"),
    [
        (VotersInForceOnceCommitted, 7, 5),
        (ChangeBeforeTheLastIsCommitted, 6, 3),
        (OnlyVotersCampaign, 0, 2),
        (TruncationLeavesVoters, 5, 1),
        (SnapshotsWithoutVoters, 7, 5),
    ],
)
def test_a_storm_convicts_wrong_rules_of_membership(wrong: type[Rules], seed: int, of_8: int) -> None:
    """Each of these wrong decisions breaks a promise, or an invariant, or stops everything, in the storm that tells."""
    convicted(lambda seed: breaks(lambda: storm(seed, rules=wrong)), first_seed=seed, of=8, least=of_8)


# --- Ongaro's counterexample ----------------------------------------------------------------------------------------


def _remove(cluster: ChangingCluster, leader: Node, replica_id: ReplicaId) -> None:
    request = m.RemoveVoterRequest(topic_partition=LOG, voter=ReplicaKey(replica_id, None), timeout_ms=1000)
    cluster.ask(leader, request)


def two_leaders_remove_one_each(seed: int, rules: Callable[[], Rules]) -> None:
    """Of four, A removes Y and is cut off; C leads and at once removes X, and goes on with Y; then A with X.

    What A has removed nobody has heard of, and what C removes only Y. So A counts three of A, C and X, and C three of
    A, C and Y: {A, X} and {C, Y} have nobody in common.
    """
    cluster = ChangingCluster(seed, first_voters=(0, 1, 2, 3), losses=False, snapshots=0.0, rules=rules)
    cluster.changes_go_on = False
    assert cluster.run(everyone_applied(cluster, 5), within_ms=30_000)
    first = cluster.leader()
    assert first is not None
    cluster.isolate(first.replica_id)
    cluster.run(lambda: False, within_ms=50)
    gone = ReplicaId((first.replica_id + 1) % 4)
    _remove(cluster, first, gone)
    assert cluster.run(lambda: cluster.leader() not in (None, first), within_ms=30_000)
    second = cluster.leader()
    assert second is not None
    if second.replica_id == gone:
        return  # Of a seed where it is the removed one that leads nothing is to be seen.
    (other,) = {0, 1, 2, 3} - {first.replica_id, second.replica_id, gone}
    _remove(cluster, second, ReplicaId(other))
    cluster.isolate(second.replica_id, gone)
    cluster.run(lambda: False, within_ms=15_000)
    cluster.heal()
    target = cluster.promises.high_watermark + 10
    assert cluster.run(everyone_applied(cluster, target), within_ms=60_000)


@pytest.mark.parametrize("seed", seeds(3))
def test_two_leaders_do_not_decide_without_each_other(seed: int) -> None:
    """A leader that has committed nothing of its epoch changes nothing (Ongaro, raft-dev, July 2015)."""
    two_leaders_remove_one_each(seed, Rules)


def test_two_leaders_decide_without_each_other_by_the_wrong_rule() -> None:
    """Changing before that, they commit different records at one offset."""

    def is_convicted(seed: int) -> bool:
        message = "committed data is the same everywhere"
        return breaks(lambda: two_leaders_remove_one_each(seed, ChangeBeforeTheEpochHasBegun), message)

    convicted(is_convicted, first_seed=5, of=8, least=6)
