"""Replicas of an older release beside those of a newer: they are upgraded under writes, and then the level is raised.

An older release is played by one that knows fewer feature levels. Every step is judged.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from nemesis.simulator.violations import BrokenInvariantError
from replica.core import messages as m
from replica.core.metadata.levels import NEWEST_LEVEL
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition
from tests.replication.bench import Cluster
from tests.replication.stage import StagedWorld
from tests.replication.test_metadata_snapshots import OFTEN, let_control

BROKERS = (1, 2, 3)


class Releases(StagedWorld):
    """A world in which each machine has the older release at first."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.newest_levels |= dict.fromkeys(self.newest_levels, 1)


def of_the_older_release(rules: type[Rules] = Rules) -> tuple[Cluster, Releases]:
    cluster = Cluster(stage=Releases, metadata=OFTEN, rules=rules)
    assert isinstance(cluster.world, Releases)
    return cluster, cluster.world


def raise_level(cluster: Cluster, level: int = NEWEST_LEVEL) -> m.UpdateFeaturesResponse:
    request = m.UpdateFeaturesRequest(feature_level=level)
    return cluster.ask(cluster.controller_id, request, m.UpdateFeaturesResponse)


def write(cluster: Cluster, name: TopicPartition, numbers: count[int]) -> None:
    """Have two more records acknowledged; another controller than before decides about a topic, too."""
    for _ in range(2):
        cluster.produce(name, b"%d" % next(numbers))
    cluster.create(f"topic-{next(numbers)}", BROKERS)


@pytest.mark.parametrize("controller", BROKERS)
def test_a_cluster_is_upgraded_replica_by_replica(controller: int) -> None:
    """Nothing acknowledged is lost, whoever leads; the level waits for the last one, and stays when all restart."""
    cluster, world = of_the_older_release()
    name = cluster.create("orders", BROKERS, min_insync_replicas="2")
    numbers = count()
    let_control(cluster, controller)
    write(cluster, name, numbers)
    for broker in BROKERS:
        refused = raise_level(cluster)
        assert refused.error is ErrorCode.INVALID_UPDATE_VERSION
        assert f"replica {BROKERS[-1]} knows 1 at the most" in refused.message
        world.newest_levels[ReplicaId(broker)] = NEWEST_LEVEL
        cluster.bounce(broker)
        write(cluster, name, numbers)
    cluster.wait(lambda: raise_level(cluster).error is ErrorCode.NONE, "the level is raised")
    write(cluster, name, numbers)
    for broker in BROKERS:
        cluster.bounce(broker)
    assert cluster.image.level == NEWEST_LEVEL
    cluster.wait_for_isr(name, *BROKERS)
    cluster.wait_for_same_logs(name, *BROKERS)
    assert cluster.values(name) == [b"%d" % number for number in range(next(numbers)) if number % 3 != 2]


HALTED = f"halted: replica 3: .* at feature level {NEWEST_LEVEL}, and this release knows none above 1; start it with"


def test_a_replica_that_goes_back_behind_the_level_halts() -> None:
    """With the one sentence."""
    cluster, world = of_the_older_release()
    for broker in BROKERS:
        world.newest_levels[ReplicaId(broker)] = NEWEST_LEVEL
        cluster.bounce(broker)
    cluster.wait(lambda: raise_level(cluster).error is ErrorCode.NONE, "the level is raised")
    world.newest_levels[ReplicaId(3)] = 1
    cluster.stop(3)
    with pytest.raises(BrokenInvariantError, match=HALTED):
        cluster.start(3)


def test_a_level_that_is_raised_unasked_is_convicted() -> None:
    """Why the controller asks: a wrong one that does not would take down the replicas of the older release."""

    class Unguarded(Rules):
        def lacks_level(self, *, newest_level: int | None, level: int) -> bool:
            return False

    cluster, world = of_the_older_release(Unguarded)
    world.newest_levels[ReplicaId(1)] = world.newest_levels[ReplicaId(2)] = NEWEST_LEVEL
    cluster.bounce(1)
    cluster.bounce(2)
    let_control(cluster, 1)
    with pytest.raises(BrokenInvariantError, match=r"level-unknown: .* which brokers \[3\] do not know"):
        cluster.wait(lambda: raise_level(cluster).error is not ErrorCode.NONE, "the older one halts")
