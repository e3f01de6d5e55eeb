"""Who watches a world and convicts it: one set of promises for each kind of log that it has.

Owns the choice. In a cluster the metadata log is held to what a quorum promises, and the partitions to what replication
by in-sync replicas promises; state machines are held to what they promise beside their logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nemesis.simulator.group_invariants import GroupInvariants
from nemesis.simulator.invariants import Invariants
from nemesis.simulator.metadata_invariants import MetadataInvariants
from nemesis.simulator.partition_habits import PartitionHabits, VoterHabits
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.reassignment_invariants import ReassignmentInvariants
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.world import Observer, World
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import TopicPartition
from replica.records import RecordBatch


def judges_of(world: World) -> list[Observer]:
    """The judges of a world, in the order in which they are told of a step."""
    climate, voters = world.climate, world.base_voters
    if climate.lying:  # Nothing is promised of what is acknowledged.
        return [Invariants(world.logs, world.nodes, lying_disks=True, initial_voters=voters)]
    if climate.group is not None:
        groups = GroupInvariants(world.nodes, world.logs)
        told = {log: reference.on_commit for log, reference in groups.references.items()}
        logs = Invariants(world.logs, world.nodes, lying_disks=False, initial_voters=voters, on_commit=told)
        groups.books = logs.books
        return [logs, groups, VoterHabits(logs.books)]
    if climate.cluster is None:
        alone = Invariants(world.logs, world.nodes, lying_disks=False, initial_voters=voters)
        return [alone, VoterHabits(alone.books)]
    partitions = PartitionInvariants(
        world.nodes,
        is_durable=climate.cluster.fsync,
        may_forget=climate.may_forget,
        may_be_unclean=climate.cluster.unclean_leader_election_enable,
    )
    metadata = MetadataInvariants(world.newest_levels)
    reassignments = ReassignmentInvariants()

    def on_metadata(batch: RecordBatch) -> None:
        partitions.on_metadata(batch)
        metadata.on_metadata(batch)
        reassignments.on_metadata(batch)

    quorum = Invariants(
        world.logs,
        world.nodes,
        lying_disks=False,
        initial_voters=voters,
        on_commit={METADATA_LOG: on_metadata},
    )
    metadata.books = quorum.books
    return [reassignments, quorum, metadata, partitions, PartitionHabits(), VoterHabits(quorum.books)]


def books_of(judges: Sequence[Observer]) -> Mapping[TopicPartition, VoterBook]:
    """Who votes in each log, as the judges have it."""
    (logs,) = (judge for judge in judges if isinstance(judge, Invariants))
    return logs.books
