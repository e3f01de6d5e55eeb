"""Partitions that move in simulated clusters: worlds in which they do, and judges that convict what must not be."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.cluster_seeds import draw_cluster_climate
from nemesis.simulator.node import Node, Step
from nemesis.simulator.rare import Rare
from nemesis.simulator.reassignment_invariants import ReassignmentInvariants
from nemesis.simulator.run import SimOptions, resolved, simulate
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import World
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict
from replica.core import events as ev
from replica.core import messages as m
from replica.core.metadata.encoding import metadata_batch
from replica.core.metadata.records import MetadataRecord, PartitionRecord, PartitionRegistration, TopicRecord
from replica.ids import CallId, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId, TopicPartition

CLUSTER = ClusterClimate(topics=1, partitions=2, replication_factor=2, min_insync_replicas=1, reassignments=150.0)
MOVING = replace(CALM, voters=4, rate=10.0, latency_ms=(5.0, 40.0), flush_ms=(20.0, 300.0), cluster=CLUSTER)
NOTHING_ELSE = Schedule(name="simulated", time_limit_s=25, steps=())
TOPIC = TopicId(1)


@pytest.mark.slow
def test_partitions_move_in_a_calm_and_slow_world() -> None:
    """Moves are begun, given another target, cancelled and completed, leaders go, and no promise is broken by it."""
    outcome = simulate(SimOptions(seed=2, time_limit_s=30, climate=MOVING, schedule=NOTHING_ELSE)).outcome

    assert outcome.verdict is Verdict.VALID, outcome.reasons
    assert {rare for rare in Rare if rare.startswith("reassign")} <= set(outcome.rare)


def test_a_share_of_seeds_has_partitions_that_move_somewhere() -> None:
    """Where they move there is a broker that a partition is not on."""
    climates = [draw_cluster_climate(Random(seed)) for seed in range(200)]
    moving = [climate.cluster for climate in climates if climate.cluster is not None and climate.cluster.reassignments]

    assert 50 < len(moving) < 110
    assert all(_has_room(climate) for climate in climates)


def _has_room(climate: Climate) -> bool:
    cluster = climate.cluster
    assert cluster is not None, climate
    return not cluster.reassignments or climate.voters + cluster.observers > cluster.replication_factor


@pytest.mark.slow
def test_a_move_that_waits_for_nobody_is_convicted() -> None:
    """Whoever goes is gone before those that come have anything; the right protocol is valid in the same world."""
    options = resolved(SimOptions(seed=1, world=WorldKind.CLUSTER, variant="reassigned-at-once"))
    wrong, right = (simulate(one).outcome for one in (options, replace(options, variant=None)))

    assert wrong.violation is not None, wrong.reasons
    assert wrong.violation.name == "reassigned-out-of-sync"
    assert right.verdict is Verdict.VALID, right.reasons


# --- the judge ------------------------------------------------------------------------------------------------------


def registration(*replicas: int, isr: tuple[int, ...] = (1, 2), **others: Any) -> PartitionRegistration:
    """What is decided about a partition; replicas are named by their numbers."""
    ids: dict[str, Any] = {
        name: tuple(map(ReplicaId, others.pop(name, ()))) for name in ("adding_replicas", "removing_replicas")
    }
    return PartitionRegistration(
        replicas=tuple(map(ReplicaId, replicas)),
        isr=tuple(map(ReplicaId, isr)),
        leader_id=ReplicaId(isr[0]),
        leader_epoch=Epoch(0),
        partition_epoch=PartitionEpoch(0),
        **ids,
        **others,
    )


UNDER_WAY = registration(3, 2, 1, adding_replicas=(3,), removing_replicas=(1,))


class Story:
    """Decisions that the judge is told of one by one, from a partition on 1 and 2 on."""

    def __init__(self) -> None:
        self._judge = ReassignmentInvariants()
        self._node: Node = next(iter(World(seed=1, climate=CALM).nodes.values()))
        self._end = 0
        self._decide(TopicRecord(name="topic", topic_id=TOPIC))
        self.decide(registration(1, 2))

    def ask(self, *target: int) -> None:
        """Somebody asks a controller for this."""
        name = TopicPartition("topic", 0)
        wish = m.ReassignablePartition(topic_partition=name, replicas=tuple(map(ReplicaId, target)))
        request = m.AlterPartitionReassignmentsRequest(partitions=(wish,))
        event = ev.RequestReceived(call_id=CallId(1), request=request)
        self._judge.on_step(self._node, Step(event=event, effects=(), answers={}, interrupted=None, is_whole=True))

    def decide(self, *registrations: PartitionRegistration) -> None:
        """The controller commits them, one after the other."""
        for one in registrations:
            self._decide(PartitionRecord(topic_id=TOPIC, partition=0, registration=one))

    def _decide(self, record: MetadataRecord) -> None:
        self._judge.on_metadata(metadata_batch((record,), Offset(self._end), Epoch(1)))
        self._end += 1


@pytest.mark.parametrize(
    "decisions",
    [
        pytest.param([UNDER_WAY, registration(3, 2, isr=(2, 3))], id="completed"),
        pytest.param([UNDER_WAY, registration(2, 1)], id="cancelled"),
        pytest.param(
            [UNDER_WAY, registration(2, 4, 1, 3, adding_replicas=(4,), removing_replicas=(1, 3))], id="another_target"
        ),
        pytest.param([registration(2, isr=(2,))], id="complete_at_once"),
    ],
)
def test_a_move_as_it_was_asked_for_is_right(decisions: list[PartitionRegistration]) -> None:
    """What comes of it is the target, or what there was before."""
    story = Story()
    story.ask(3, 2)
    story.ask(2)
    story.decide(*decisions)


@pytest.mark.parametrize(
    ("name", "decisions"),
    [
        ("reassigned-out-of-sync", [UNDER_WAY, registration(3, 2, isr=(2,))]),
        ("reassigned-by-halves", [UNDER_WAY, registration(3, 2, isr=(2, 3), adding_replicas=(3,))]),
        ("reassigned-elsewhere", [UNDER_WAY, registration(2, 3, isr=(2, 3))]),
        ("reassigned-elsewhere", [registration(2, 1)]),
        ("removed-replica-counts", [UNDER_WAY, registration(3, 2, isr=(1, 2, 3))]),
        ("removed-replica-counts", [UNDER_WAY, registration(3, 2, isr=(2, 3), elr=(ReplicaId(1),))]),
        ("reassignment-of-nobody", [registration(1, 2, adding_replicas=(3,))]),
        ("reassignment-of-nobody", [registration(1, 2, adding_replicas=(2,), removing_replicas=(2,))]),
    ],
)
def test_a_move_to_where_nobody_asked_or_too_soon_convicts(name: str, decisions: list[PartitionRegistration]) -> None:
    """Each promise about who is a replica is noticed when it is broken, by its name."""
    story = Story()
    story.ask(3, 2)
    with pytest.raises(BrokenInvariantError) as convicted:
        story.decide(*decisions)
    assert convicted.value.name == name
