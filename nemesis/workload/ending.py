"""The end of a run: everything heals, the replicas agree, and all is read.

Owns the order of these steps and their bounds. Whatever does not come to pass in time is recorded as it is, and the run
is judged by what could be read: it is unknown at best, never waited for without end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nemesis.cluster.system import (
    Dump,
    NodeFailedError,
    NodeState,
    NotDoneError,
    Report,
    System,
    UnknownOutcomeError,
    leader_of,
)
from nemesis.history import FINAL_READ, EventType, HistoryWriter, ReplicaEvent, ReplicaLogBatch
from nemesis.workload.append import polled_fields
from nemesis.workload.recorder import Clock, Recorder

CONVERGE = "converge"
_LOOK_S = 0.05
_RETRY_S = 0.1
FINAL_POLLS_MAX = 1_000_000


async def wait_converged(system: System, recorder: Recorder, *, at_most_s: float) -> bool:
    """Wait until one leader has committed its whole log and every node has all of it; record how it ended."""
    recorder.harness(EventType.INVOKE, CONVERGE, {})
    states: tuple[NodeState, ...] = ()
    try:
        async with asyncio.timeout(at_most_s):
            while not has_converged(states := await system.states(), len(system.nodes)):
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        seen = {"states": [asdict(state) for state in states]}
        recorder.harness(EventType.FAIL, CONVERGE, seen, error=f"the replicas did not agree within {at_most_s} s")
        return False
    recorder.harness(EventType.INFO, CONVERGE, {"states": [asdict(state) for state in states]})
    return True


def has_converged(states: Sequence[NodeState], nodes: int) -> bool:
    """Whether all nodes follow the one leader, and each has all of its log and knows it to be committed."""
    leader = leader_of(states)
    return (
        leader is not None
        and len(states) == nodes
        and {state.leader_id for state in states} == {leader}
        and len({state.epoch for state in states}) == 1
        and len({state.log_end_offset for state in states}) == 1
        and all(state.high_watermark == state.log_end_offset for state in states)
    )


async def final_read(system: System, recorder: Recorder, process: int, *, at_most_s: float, claim_end: bool) -> bool:
    """Read the log from offset 0 to its end by a fresh process; whether the end was seen.

    With ``claim_end`` the last poll is recorded as one that saw the end of the log, else as one that may have been
    too early.
    """
    client = system.client()
    position = 0
    deadline = asyncio.get_running_loop().time() + at_most_s
    try:
        for _ in range(FINAL_POLLS_MAX):
            recorder.client(process, EventType.INVOKE, FINAL_READ, offset=position, seek=True)
            try:
                done = await client.poll(position)
            except (NotDoneError, UnknownOutcomeError) as error:
                recorder.client(process, EventType.FAIL, FINAL_READ, error=str(error))
                await asyncio.sleep(_RETRY_S)
            else:
                fields = polled_fields(done)
                recorder.client(
                    process, EventType.OK, FINAL_READ, **fields | {"limited": fields["limited"] or not claim_end}
                )
                if done.reached_end:
                    return True
                position = done.next_offset
            if asyncio.get_running_loop().time() > deadline:
                return False
    finally:
        await client.close()
    return False


async def dump_all(system: System, recorder: Recorder, writer: HistoryWriter) -> None:
    """Read every node's log into the table of logs; what cannot be read is recorded as such."""
    for node in system.nodes:
        detail = {"replicas": [node]}
        recorder.harness(EventType.INVOKE, "dump", detail)
        try:
            dump = await system.dump(node)
        except NodeFailedError as error:
            recorder.harness(EventType.FAIL, "dump", detail, error=str(error))
            continue
        for row in log_rows(dump, system.topic_partition):
            writer.write(row)
        recorder.harness(EventType.INFO, "dump", detail | {"complete": dump.complete, "batches": len(dump.batches)})


def log_rows(dump: Dump, topic_partition: str) -> list[ReplicaLogBatch]:
    """One row for each batch; one without a batch for an empty log."""

    def row(**batch: object) -> ReplicaLogBatch:
        absent = dict.fromkeys(("base_offset", "last_offset", "leader_epoch", "crc", "values"))
        columns: dict[str, Any] = absent | {"is_control": False} | batch
        return ReplicaLogBatch(
            replica_id=dump.node,
            topic_partition=topic_partition,
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
                        time_ns=self._clock.from_wall_ns(report.wall_ns),
                        replica_id=report.node,
                        event=report.event,
                        epoch=report.epoch,
                        offset=report.offset,
                        topic_partition=report.topic_partition,
                        detail=report.detail,
                    )
                )
