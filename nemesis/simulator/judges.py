"""Who watches a world and convicts it: one set of promises for each kind of log that it has.

Owns the choice. In a cluster the metadata log is held to what a quorum promises, and the partitions to what replication
by in-sync replicas promises; state machines are held to what they promise beside their logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nemesis.simulator.group_invariants import GroupInvariants
from nemesis.simulator.invariants import Invariants
from nemesis.simulator.metadata_invariants import MetadataInvariants
from nemesis.simulator.partition_habits import PartitionHabits
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.reassignment_invariants import ReassignmentInvariants
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.voter_habits import VoterHabits
from nemesis.simulator.world import Observer, World, base_voters
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import TopicPartition
from replica.records import RecordBatch


def judges_of(world: World) -> list[Observer]:
    """The judges of a world, in the order in which they are told of a step."""
    climate = world.climate
    if climate.lying:  # Nothing is promised of what is acknowledged.
        return [Invariants(world.logs, world.nodes, lying_disks=True)]
    if climate.group is not None:
        groups = GroupInvariants(world.nodes, world.logs)
        told = {log: reference.on_commit for log, reference in groups.references.items()}
        voters = base_voters(climate)
        logs = Invariants(world.logs, world.nodes, lying_disks=False, initial_voters=voters, on_commit=told)
        if voters is None:
            return [logs, groups]
        groups.books = logs.books
        return [logs, groups, VoterHabits(logs.books)]
    if climate.cluster is None:
        return [Invariants(world.logs, world.nodes, lying_disks=False)]
    partitions = PartitionInvariants(
        world.nodes,
        is_durable=climate.cluster.fsync,
        may_forget=climate.may_forget,
        may_be_unclean=climate.cluster.unclean_leader_election_enable,
    )
    metadata = MetadataInvariants()
    reassignments = ReassignmentInvariants()

    def on_metadata(batch: RecordBatch) -> None:
        partitions.on_metadata(batch)
        metadata.on_metadata(batch)
        reassignments.on_metadata(batch)

    quorum = Invariants(
        world.logs,
        world.nodes,
        lying_disks=False,
        initial_voters=base_voters(climate),
        static_voters=world.voters,
        on_commit={METADATA_LOG: on_metadata},
    )
    habits: list[Observer] = [PartitionHabits()]
    if base_voters(climate) is not None:
        metadata.books = quorum.books
        habits.append(VoterHabits(quorum.books))
    return [reassignments, quorum, metadata, partitions, *habits]


def books_of(world: World, judges: Sequence[Observer]) -> Mapping[TopicPartition, VoterBook]:
    """Who votes in each log, as the judges have it; none where voters never change."""
    if base_voters(world.climate) is None:
        return {}
    (logs,) = (judge for judge in judges if isinstance(judge, Invariants))
    return logs.books
