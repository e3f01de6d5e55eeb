"""The end of a run: everything heals, the replicas are in sync and agree, and all is read.

Owns the order of these steps and their bounds. Whatever does not come to pass in time is recorded as it is, and the run
is judged by what could be read: it is unknown at best, never waited for without end.

What every replica says of its high watermark, asked again and again while a run goes on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nemesis.cluster.system import Dump, ReplicaState, Report, System
from nemesis.errors import NodeFailedError
from nemesis.faults.breakable import ClusterState, PartitionState
from nemesis.history import DUMP, FINAL_ISR, HIGH_WATERMARK, EventType, ReplicaEvent, ReplicaLogBatch
from nemesis.history.recorder import Clock, Recorder
from nemesis.history.writer import HistoryWriter

CONVERGE = "converge"
NOBODY = -1
_LOOK_S = 0.1


async def wait_converged(system: System, recorder: Recorder, *, at_most_s: float) -> bool:
    """Wait until all replicas of every log are in sync and have all of it; record how it ended and what was seen last.

    What was seen last is the claim about each ISR that the dumped logs are held against. Nobody waits for a replica
    that has ended.
    """
    recorder.harness(EventType.INVOKE, CONVERGE, {})
    begin_s = asyncio.get_running_loop().time()
    states: tuple[ReplicaState, ...] = ()
    cluster: ClusterState | None = None
    missing: str | None = "nobody answers"
    try:
        async with asyncio.timeout(at_most_s):
            while missing is not None:
                # In this order: who is in sync afterwards has what was committed before.
                told = await system.replica_states()
                states, cluster = told, await system.cluster_state()
                missing = why_not_converged(system.topic_partitions, cluster, states if system.shows_logs else None)
                if missing is not None and (ended := [node for node in system.nodes if not system.is_running(node)]):
                    missing = f"replicas {ended} have ended by themselves"
                    raise TimeoutError
                if missing is not None:
                    await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        took_s = asyncio.get_running_loop().time() - begin_s
        error = f"the replicas did not agree within {took_s:.1f} s: {missing}"
        recorder.harness(EventType.FAIL, CONVERGE, _seen(cluster, states), error=error)
    else:
        recorder.harness(EventType.INFO, CONVERGE, _seen(cluster, states))
    record_states(states, recorder)
    if system.shows_logs:
        _record_claims(system, recorder, cluster, states, asyncio.get_running_loop().time() - begin_s)
    return missing is None


def why_not_converged(
    names: Sequence[str], cluster: ClusterState | None, states: Sequence[ReplicaState] | None
) -> str | None:
    """What is missing: each log has a leader, all its replicas in sync, and each has all of it and knows so.

    The last of these is not asked where ``states`` is absent: nobody shows what the nodes hold.
    """
    if cluster is None or cluster.controller is None:
        return "nobody is the controller"
    for name in names:
        partition = cluster.partitions.get(name)
        if partition is None:
            return f"{name} is not known"
        own = None if states is None else [state for state in states if state.topic_partition == name]
        missing = _why_not_one(partition, own)
        if missing is not None:
            return f"{name} {missing}"
    return None


def _why_not_one(partition: PartitionState, states: Sequence[ReplicaState] | None) -> str | None:
    out = sorted(set(partition.replicas) - set(partition.isr))
    if partition.leader is None:
        return "has no leader"
    if out:
        return f"has replicas {out} out of sync"
    if states is None:
        return None
    if {state.node for state in states} != set(partition.replicas):
        return f"is answered for by {[state.node for state in states]} only"
    if {(state.leader_id, state.epoch) for state in states} != {(partition.leader, partition.leader_epoch)}:
        return "has replicas that follow another leader"
    ends = {end for state in states for end in (state.log_end_offset, state.high_watermark)}
    return None if len(ends) == 1 else f"has replicas with different ends: {sorted(ends, key=str)}"


def _seen(cluster: ClusterState | None, states: Sequence[ReplicaState]) -> dict[str, Any]:
    controller = None if cluster is None else cluster.controller
    return {"controller": controller, "states": [asdict(state) for state in states]}


def _record_claims(
    system: System,
    recorder: Recorder,
    cluster: ClusterState | None,
    states: Sequence[ReplicaState],
    after_s: float,
) -> None:
    """What is said of each ISR, to be held against the logs that are dumped afterwards."""
    known = {(state.topic_partition, state.node): state for state in states}
    for name in system.topic_partitions:
        partition = None if cluster is None else cluster.partitions.get(name)
        if partition is None:
            continue
        leader = NOBODY if partition.leader is None else partition.leader
        told = known.get((name, leader))
        claim = {
            "isr": list(partition.isr),
            "replicas": list(partition.replicas),
            "restored": set(partition.isr) == set(partition.replicas),
            "after_s": round(after_s, 3),
        }
        recorder.replica(
            leader,
            FINAL_ISR,
            topic_partition=name,
            epoch=partition.leader_epoch,
            offset=None if told is None or told.role != "leader" else told.high_watermark,
            detail=json.dumps(claim),
        )


async def dump_all(system: System, recorder: Recorder, writer: HistoryWriter) -> None:
    """Read every node's logs into the table of logs, if they are shown; what cannot be read is recorded as such."""
    for node in system.nodes if system.shows_logs else ():
        detail = {"replicas": [node]}
        recorder.harness(EventType.INVOKE, DUMP, detail)
        try:
            dumps = await system.dumps(node)
        except NodeFailedError as error:
            recorder.harness(EventType.FAIL, DUMP, detail, error=str(error))
            continue
        for dump in dumps:
            for row in log_rows(dump):
                writer.write(row)
        read = {dump.topic_partition: {"complete": dump.complete, "batches": len(dump.batches)} for dump in dumps}
        recorder.harness(EventType.INFO, DUMP, {**detail, "logs": read})


def log_rows(dump: Dump) -> list[ReplicaLogBatch]:
    """One row for each batch; one without a batch for an empty log."""

    def row(**batch: object) -> ReplicaLogBatch:
        absent = dict.fromkeys(("base_offset", "last_offset", "leader_epoch", "crc", "values"))
        columns: dict[str, Any] = absent | {"is_control": False} | batch
        return ReplicaLogBatch(
            replica_id=dump.node,
            topic_partition=dump.topic_partition,
            high_watermark=dump.high_watermark,
            log_start_offset=dump.log_start_offset,
            log_end_offset=dump.log_end_offset,
            complete=dump.complete,
            **columns,
        )

    return [row(**asdict(batch)) for batch in dump.batches] or [row()]


class ReportWriter:
    """Puts what the nodes reported on the run's time line, each report once, as often as it is asked to."""

    def __init__(self, writer: HistoryWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._written: set[Report] = set()

    def write_new(self, reports: Sequence[Report]) -> None:
        """Write those of ``reports``, all so far, that were not written before."""
        for report in reports:
            if report not in self._written:
                self._written.add(report)
                self._writer.write(
                    ReplicaEvent(
                        time_ns=self._clock.since_begin_ns(report.monotonic_ns),
                        replica_id=report.node,
                        event=report.event,
                        epoch=report.epoch,
                        offset=report.offset,
                        topic_partition=report.topic_partition,
                        detail=report.detail,
                    )
                )


SAMPLE_S_MIN = 0.5
ANSWERS_PER_S = 40
"""So many answers a second, at most, are worth their share of the processor."""


async def sample_high_watermarks(system: System, recorder: Recorder, stop: asyncio.Event) -> None:
    """Ask every replica of every log, again and again; who waits no longer sets ``stop`` and cancels this."""
    while not stop.is_set():
        states = await system.replica_states()
        record_states(states, recorder)
        await asyncio.sleep(max(SAMPLE_S_MIN, len(states) / ANSWERS_PER_S))


def record_states(states: tuple[ReplicaState, ...], recorder: Recorder) -> None:
    """One row for each replica that knows a high watermark."""
    for state in states:
        if state.high_watermark is not None:
            recorder.replica(
                state.node,
                HIGH_WATERMARK,
                topic_partition=state.topic_partition,
                epoch=state.epoch,
                offset=state.high_watermark,
                detail=state.role,
            )
