"""Who watches a world and convicts it: one set of promises for each kind of log that it has.

Owns the choice. In a cluster the metadata log is held to what a quorum promises, and the partitions to what replication
by in-sync replicas promises.
"""

from __future__ import annotations

from nemesis.simulator.invariants import Invariants
from nemesis.simulator.partition_habits import PartitionHabits
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.world import Observer, World


def judges_of(world: World) -> list[Observer]:
    """The judges of a world, in the order in which they are told of a step."""
    climate = world.climate
    if climate.cluster is None or climate.lying:  # On lying disks nothing is promised of what is acknowledged.
        return [Invariants(world.logs, world.nodes, lying_disks=climate.lying > 0)]
    partitions = PartitionInvariants(world.nodes, is_durable=climate.cluster.fsync)
    quorum = Invariants(world.logs, world.nodes, lying_disks=False, on_metadata=partitions.on_metadata)
    return [quorum, partitions, PartitionHabits()]
