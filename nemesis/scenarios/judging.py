"""Who judges the world of a partition's story.

Owns the choice: what a quorum promises is asked of the controller alone, which is the whole quorum of the metadata log;
brokers only follow it.
"""

from __future__ import annotations

from collections.abc import Mapping

from nemesis.scenarios.cluster_world import ClusterWorld
from nemesis.simulator.invariants import Invariants
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.world import Observer
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import ReplicaId


def judges_of(world: ClusterWorld, *, is_durable: bool) -> tuple[Observer, ...]:
    """The judges, in the order in which they are told of a step."""
    controllers = {world.controller_id: world.nodes[world.controller_id]}
    partitions = PartitionInvariants(world.nodes, is_durable=is_durable, may_forget=not is_durable, may_be_unclean=True)
    quorum = Invariants(
        world.logs,
        controllers,
        lying_disks=False,
        initial_voters=world.base_voters,
        on_commit={METADATA_LOG: partitions.on_metadata},
    )
    return Only(quorum, controllers), partitions


class Only(Observer):
    """A judge who is told of some machines only."""

    def __init__(self, judge: Observer, nodes: Mapping[ReplicaId, Node]) -> None:
        self._judge = judge
        self._nodes = nodes

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """See ``Observer``."""
        if node.replica_id in self._nodes:
            self._judge.on_boot(node, torn_bytes)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        if node.replica_id in self._nodes:
            self._judge.on_step(node, step)

    def on_down(self, node: Node, crash: Crash) -> None:
        """See ``Observer``."""
        if node.replica_id in self._nodes:
            self._judge.on_down(node, crash)
