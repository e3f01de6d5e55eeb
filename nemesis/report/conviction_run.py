"""The pictures of one stored run: its objects that are not linearizable, its logs side by side, its cycles.

Owns which anomalies of ``results.json`` get a picture, and judging an object again for its evidence, which results do
not hold in full. What cannot be drawn is said. A picture never says more than the results: an object that is judged
otherwise now gets none. Source of the operations: the run's own tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.objects import NONLINEARIZABLE
from nemesis.checks.schemas import Severity
from nemesis.history.errors import HistoryError
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import ModelError
from nemesis.pipeline.local import pair_operations
from nemesis.pipeline.run_objects.kernel_and_witness import BUDGET
from nemesis.pipeline.run_objects.operations import object_history
from nemesis.report.conviction import Conviction, conviction_of
from nemesis.report.conviction_cycle import Cycle, Transaction, cycle_of
from nemesis.report.conviction_kafka import transactions_of
from nemesis.report.conviction_logs import LogsSideBySide, side_by_side
from nemesis.report.folder import RunFiles
from nemesis.verdict import Verdict
from nemesis.workload.catalogue import workload_of
from nemesis.workload.objects import ObjectWorkload

OBJECTS_MAX = 5
LOGS_MAX = 5
CYCLES_MAX = 10
KINDS_NAMED_MAX = 4
_LINE = re.compile(r"\bline (\d+)")

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """What is drawn of a run; ``notes`` say, a sentence each, what is not."""

    objects: Sequence[Conviction] = ()
    logs: Sequence[LogsSideBySide] = ()
    cycles: Sequence[Cycle] = ()
    notes: Sequence[str] = ()


NO_PICTURES = Pictures()


def pictures_of(files: RunFiles) -> Pictures:
    """The pictures of the run in these files: none of a run that was not judged, or in which nothing was found."""
    found = (files.results or {}).get("anomalies")
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    notes: list[str] = []
    return Pictures(
        objects=_objects(files, rows, notes),
        logs=_logs(files, rows, notes),
        cycles=_cycles(files, rows, notes),
        notes=notes,
    )


def _objects(files: RunFiles, rows: Rows, notes: list[str]) -> list[Conviction]:
    names = [
        str(row["topic_partition"])
        for row in rows
        if row.get("anomaly") == NONLINEARIZABLE.name
        and row.get("severity", Severity.VIOLATION) == Severity.VIOLATION
        and row.get("topic_partition")
    ]
    names = list(dict.fromkeys(names))
    if len(names) > OBJECTS_MAX:
        notes.append(f"{len(names) - OBJECTS_MAX} more objects are not linearizable and are not drawn.")
    drawn = []
    for name in names[:OBJECTS_MAX]:
        picture = _object(files, name)
        if isinstance(picture, Conviction):
            drawn.append(picture)
        else:
            notes.append(f"Object {name} is not drawn: {picture}.")
    return drawn


def _object(files: RunFiles, name: str) -> Conviction | str:
    """The picture of one object, or why there is none."""
    try:
        workload = workload_of(files.folder)
        if not issubclass(workload, ObjectWorkload):
            return "the run's workload has no objects"
        history = files.history
        own = pc.and_(
            pc.fill_null(pc.equal(history.column("topic_partition"), name), False),
            pc.greater_equal(history.column("process"), 0),
        )
        recorded = object_history(history.filter(own), workload)
        judged = judge(recorded.operations, workload.model, BUDGET)
    except (HistoryError, ModelError, ValueError, KeyError, TypeError) as error:
        return f"its history cannot be read ({type(error).__name__}: {error})"
    wrong = next((found for found in judged if found.verdict is Verdict.INVALID), None)
    if wrong is None:
        return "judged again, no contradiction is found in it"
    picture = conviction_of(wrong, recorded.operations, workload.model, f"Object {name}")
    return replace(picture, reason=_LINE.sub(r"operation \1", picture.reason))


def _logs(files: RunFiles, rows: Rows, notes: list[str]) -> list[LogsSideBySide]:
    """The partitions in which an anomaly names an offset, violations first."""
    known = set(files.logs.column("topic_partition").unique().to_pylist())
    named: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row.get("severity") != Severity.VIOLATION):
        if row.get("topic_partition") in known and row.get("offsets") and row.get("severity") != Severity.ALLOWED:
            named.setdefault(str(row["topic_partition"]), []).append(row)
    if len(named) > LOGS_MAX:
        notes.append(f"The logs of {len(named) - LOGS_MAX} more partitions with anomalies are not drawn.")
    pictures = (_side_by_side(files, name, own) for name, own in list(named.items())[:LOGS_MAX])
    return [picture for picture in pictures if picture is not None]


def _side_by_side(files: RunFiles, name: str, rows: Rows) -> LogsSideBySide | None:
    kinds = list(dict.fromkeys(str(row.get("anomaly")) for row in rows))[:KINDS_NAMED_MAX]
    offsets = [offset for row in rows for offset in row["offsets"] if isinstance(offset, int)]
    return side_by_side(name, kinds, offsets, files.logs, files.events, files.history)


def _cycles(files: RunFiles, rows: Rows, notes: list[str]) -> list[Cycle]:
    circles = [row for row in rows if isinstance(evidence := row.get("evidence"), Mapping) and evidence.get("circle")]
    circles.sort(key=lambda row: row.get("severity") != Severity.VIOLATION)
    if not circles:
        return []
    if len(circles) > CYCLES_MAX:
        notes.append(f"{len(circles) - CYCLES_MAX} more cycles are not drawn.")
    transactions = _transactions(files.history, circles[:CYCLES_MAX])
    drawn = (cycle_of(row, transactions) for row in circles[:CYCLES_MAX])
    return [cycle for cycle in drawn if cycle is not None]


def _transactions(history: pa.Table, rows: Rows) -> dict[int, Transaction]:
    indexes = {index for row in rows for index in row.get("op_indexes") or () if isinstance(index, int)}
    return transactions_of(pair_operations(history, "run"), indexes)
