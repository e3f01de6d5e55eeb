"""Who convicts a simulated run: watchers of its world, one set of promises for each kind of log, and judges of its
history.

Owns the choice. In a cluster the metadata log is held to what a quorum promises, and the partitions to what replication
by in-sync replicas promises; state machines are held to what they promise beside their logs. The history is judged by
those who judge live runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.replica_events import ANY
from nemesis.checks.run_checks import CheckOptions, Findings, judge_partitions
from nemesis.checks.schemas import LOG_BATCH_SCHEMA, RUN_EVENT_SCHEMA
from nemesis.checks.verdict import RunCounts
from nemesis.history.events import GAPLESS
from nemesis.history.schemas import Kind
from nemesis.history.tables import table_of
from nemesis.pipeline.local import judge_tables, of_run, pair_operations, with_run_id
from nemesis.pipeline.run_objects.kernel_and_witness import judge_objects
from nemesis.pipeline.runs import log_events
from nemesis.pipeline.tally import count
from nemesis.simulator.climate import Climate
from nemesis.simulator.group_climate import COUNTER
from nemesis.simulator.group_invariants import GroupInvariants
from nemesis.simulator.invariants import Invariants
from nemesis.simulator.metadata_invariants import MetadataInvariants
from nemesis.simulator.partition_habits import PartitionHabits, VoterHabits
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.reassignment_invariants import ReassignmentInvariants
from nemesis.simulator.record import Record
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.world import Observer, World
from nemesis.workload.counter import CounterWorkload
from nemesis.workload.objects import ObjectWorkload
from nemesis.workload.register import RegisterWorkload
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


def judge_record(run_id: str, record: Record, climate: Climate) -> tuple[RunCounts, Findings]:
    """What a run did, and what was found in it. Nothing has happened that it does not tell."""
    rows = ((Kind.HISTORY, record.history), (Kind.LOGS, record.logs), (Kind.EVENTS, record.events))
    history, logs, events = (table_of(kind, own) for kind, own in rows)
    if climate.group is None:
        # Nobody but clients writes to partitions; the leaders of a quorum log open their epochs in it.
        partitions = set() if climate.cluster is None else {row.topic_partition for row in record.history}
        declared = log_events(run_id, ((name, GAPLESS, ANY) for name in sorted(filter(None, partitions))))
        return judge_tables(run_id, history, logs, events, whole=True, declared=declared)
    return _judge_objects(
        run_id, history, of_run(logs, run_id, LOG_BATCH_SCHEMA), of_run(events, run_id, RUN_EVENT_SCHEMA)
    )


def _judge_objects(run_id: str, history: pa.Table, logs: pa.Table, events: pa.Table) -> tuple[RunCounts, Findings]:
    """Objects of two workloads in one history."""
    operations = pair_operations(history, run_id)
    findings = judge_partitions(operations.slice(0, 0), logs, events, CheckOptions())
    clients = with_run_id(history.filter(pc.greater_equal(history.column("process"), 0)), run_id)
    is_counter = pc.equal(clients.column("topic_partition"), f"{COUNTER}")
    parts: tuple[tuple[type[ObjectWorkload], pa.Array], ...] = (
        (RegisterWorkload, pc.invert(is_counter)),
        (CounterWorkload, is_counter),
    )
    for workload, own in parts:
        findings += judge_objects(clients.filter(own), {run_id: workload})
    return count(history, operations, logs, events), findings
