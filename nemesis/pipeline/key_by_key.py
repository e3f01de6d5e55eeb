"""Judge what comes sorted by (run_id, topic_partition), one of them after the other: what Spark calls.

Owns how much is held at once: one topic-partition, unless there is too much of it; then nothing of it is kept but its
tally, and it is *unknown*. The judgement is that of ``nemesis.checks`` and ``run_objects``, the counts are tallies.
Knows nothing of Spark: record batches in, record batches out.

The columns that come in are ``FACT_SCHEMA``: in each row one of four structs is set. Within a topic-partition the rows
of the history come by process, by the invocation that they are or complete, and in the order of their indexes.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.check import Coverage
from nemesis.checks.registry import BY_NAME
from nemesis.checks.run_checks import CheckOptions, Findings, Gathering, judge_partitions
from nemesis.checks.schemas import (
    ANOMALY_SCHEMA,
    COVERAGE_SCHEMA,
    LOG_BATCH_SCHEMA,
    OPERATION_SCHEMA,
    RUN_EVENT_SCHEMA,
)
from nemesis.checks.verdict import RunCounts
from nemesis.history.events import EventType
from nemesis.history.schemas import HISTORY_SCHEMA, SCHEMAS, Kind
from nemesis.pipeline.local import of_run, pair_operations, unseen, with_run_id
from nemesis.pipeline.run_objects.kernel_and_witness import judge_objects
from nemesis.pipeline.tally import Tally
from nemesis.pipeline.weight import WEIGHT_MAX, Weight
from nemesis.workload.objects import ObjectWorkload

KEY = ("run_id", "topic_partition")
HEARD = "heard"
"""Events that no replica told itself: what must be there, and what was dumped."""
FACTS = {**{kind.value: schema for kind, schema in SCHEMAS.items()}, HEARD: SCHEMAS[Kind.EVENTS]}
_KEY_FIELDS = [pa.field(name, pa.string(), nullable=False) for name in KEY]


def _structs(schemas: Mapping[str, pa.Schema]) -> list[pa.Field]:
    """A column for each. Where it is absent so is all that is in it, which Spark does not take for a field without."""
    return [
        pa.field(name, pa.struct([column.with_nullable(True) for column in schema])) for name, schema in schemas.items()
    ]


FACT_SCHEMA = pa.schema([*_KEY_FIELDS, *_structs(FACTS)])
_FOUND = {"anomaly": ANOMALY_SCHEMA, "coverage": COVERAGE_SCHEMA}
FINDING_SCHEMA = pa.schema([*_KEY_FIELDS, *_structs(_FOUND), pa.field("tally", pa.binary())])
"""What is given back of a topic-partition; its tally is a ``Tally``, pickled."""
COUNT_SCHEMA = pa.schema([pa.field("run_id", pa.string()), *(pa.field(f.name, pa.int64()) for f in fields(RunCounts))])
_TOLD = _FOUND | {"counts": COUNT_SCHEMA}
RUN_SCHEMA = pa.schema(_structs(_TOLD))
"""What is given back of a run: in each row one of the three."""
_OTHERS = ["index", "time_ns", "process", "type", "f"]
"""What is counted of nemesis and harness, of which all is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the rows do not say. Workers get it pickled. A run that ``workloads`` does not name is on logs."""

    options: CheckOptions
    workloads: Mapping[str, type[ObjectWorkload]] = field(default_factory=dict)
    weight_max: int = WEIGHT_MAX


def judge_keys(batches: Iterable[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """Facts (``FACT_SCHEMA``), sorted, to findings (``FINDING_SCHEMA``)."""
    for key, pieces in groupby(_pieces(batches, KEY), key=itemgetter(0)):
        one = _Key(key[0], key[1], task)
        for _, rows in pieces:
            one.add(rows)
        findings = one.findings()
        told = {"anomaly": findings.anomalies, "coverage": findings.coverage}
        tally = pa.table({"tally": pa.array([pickle.dumps(one.tally)], pa.binary())})
        for rows in (*(_packed(name, table) for name, table in told.items()), tally):
            names = [pa.array([name] * rows.num_rows, pa.string()) for name in key]
            yield from _filled(pa.table([*names, *rows.columns], names=[*KEY, *rows.column_names]), FINDING_SCHEMA)


def join_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Findings (``FINDING_SCHEMA``), sorted by run and topic-partition, to what is told of runs (``RUN_SCHEMA``)."""
    for (run_id,), pieces in groupby(_pieces(batches, KEY[:1]), key=itemgetter(0)):
        gathering, tally = Gathering(), Tally()
        for _, rows in pieces:
            for pickled in rows.column("tally").drop_null().to_pylist():
                tally.merge(pickle.loads(pickled))
            for row in _unpacked(rows, "coverage", COVERAGE_SCHEMA).to_pylist():
                covered = Coverage(looked=row["looked"], missed=row["missed"], why=row["why"])
                gathering.cover(run_id, "", BY_NAME[row["check"]], covered)
            yield from _filled(rows.select(["anomaly"]).filter(rows.column("anomaly").is_valid()), RUN_SCHEMA)
        counts = pa.Table.from_pylist([{"run_id": run_id, **asdict(tally.counts())}], schema=COUNT_SCHEMA)
        yield from _filled(_packed("coverage", gathering.findings.coverage), RUN_SCHEMA)
        yield from _filled(_packed("counts", counts), RUN_SCHEMA)


def told_of(rows: pa.Table) -> tuple[Findings, dict[str, RunCounts]]:
    """Rows of ``RUN_SCHEMA`` as what was found in all runs, and what each of them did."""
    anomalies, coverage, counts = (_unpacked(rows, name, schema) for name, schema in _TOLD.items())
    did = {row.pop("run_id"): RunCounts(**row) for row in counts.to_pylist()}
    return Findings(anomalies=anomalies, coverage=coverage), did


class _Key:
    """One topic-partition of a run. Its facts come in pieces, and are held until all are there."""

    def __init__(self, run_id: str, topic_partition: str, task: Task) -> None:
        self._key, self._task = (run_id, topic_partition), task
        self._workload = task.workloads.get(run_id)
        self.tally = Tally()
        self._others: list[pa.Table] = []
        self._invoked = HISTORY_SCHEMA.empty_table()
        self._held: dict[str, list[pa.Table]] = {}
        self._weight = Weight()

    def add(self, rows: pa.Table) -> None:
        """More facts (``FACT_SCHEMA``) of it."""
        history, logs, events, heard = (_unpacked(rows, name, schema) for name, schema in FACTS.items())
        of_clients = pc.greater_equal(history.column("process"), 0)
        self._others.append(history.filter(pc.invert(of_clients)).select(_OTHERS))
        clients = pa.concat_tables([self._invoked, history.filter(of_clients)])
        # What ends the operation may be the first row of the next piece.
        last = max(0, clients.num_rows - 1)
        is_open = clients.num_rows > 0 and clients.column("type")[last].as_py() == EventType.INVOKE.value
        self._invoked = clients.slice(last) if is_open else HISTORY_SCHEMA.empty_table()
        self._take(clients.slice(0, last) if is_open else clients, logs, events)
        self._hold(HEARD, of_run(heard, self._key[0], RUN_EVENT_SCHEMA))

    def _take(self, clients: pa.Table, logs: pa.Table, events: pa.Table) -> None:
        run_id = self._key[0]
        operations = pair_operations(clients, run_id)
        logs, events = of_run(logs, run_id, LOG_BATCH_SCHEMA), of_run(events, run_id, RUN_EVENT_SCHEMA)
        self.tally.add(clients, operations, logs, events)
        self._hold(Kind.HISTORY, operations if self._workload is None else with_run_id(clients, run_id))
        self._hold(Kind.LOGS, logs)
        self._hold(Kind.EVENTS, events)

    def _hold(self, name: str, rows: pa.Table) -> None:
        """Keep rows as long as there are not too many; what they weigh counts in any case."""
        self._weight.add(rows)
        if self._weight.total > self._task.weight_max:
            self._held.clear()
        elif rows.num_rows:
            self._held.setdefault(name, []).append(rows)

    def findings(self) -> Findings:
        """The judgement, when all facts are there."""
        self._take(self._invoked, SCHEMAS[Kind.LOGS].empty_table(), SCHEMAS[Kind.EVENTS].empty_table())
        nobody = LOG_BATCH_SCHEMA.empty_table(), RUN_EVENT_SCHEMA.empty_table()
        self.tally.add(pa.concat_tables(self._others), OPERATION_SCHEMA.empty_table(), *nobody)
        why = self._weight.why_not(self._task.weight_max)
        return self._judged() if why is None else unseen(self._key, why, on_objects=self._workload is not None)

    def _judged(self) -> Findings:
        logs, events = self._all(Kind.LOGS, LOG_BATCH_SCHEMA), self._all(Kind.EVENTS, RUN_EVENT_SCHEMA)
        told = pa.concat_tables([events, self._all(HEARD, RUN_EVENT_SCHEMA)])
        if self._workload is None:
            return judge_partitions(self._all(Kind.HISTORY, OPERATION_SCHEMA), logs, told, self._task.options)
        found = judge_partitions(OPERATION_SCHEMA.empty_table(), logs, told, self._task.options)
        if Kind.HISTORY in self._held:
            found += judge_objects(pa.concat_tables(self._held[Kind.HISTORY]), {self._key[0]: self._workload})
        return found

    def _all(self, name: str, schema: pa.Schema) -> pa.Table:
        return pa.concat_tables([schema.empty_table(), *self._held.pop(name, [])])


def _pieces(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
    """The rows, taken apart where one of these columns changes, each piece with what is in them."""
    for batch in batches:
        if not batch.num_rows:
            continue
        changes = np.zeros(batch.num_rows - 1, dtype=np.bool_)
        for name in columns:
            column = batch.column(name)
            changes |= pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(zero_copy_only=False)
        table = pa.Table.from_batches([batch])
        for begin, end in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]):
            yield tuple(batch.column(name)[begin].as_py() for name in columns), table.slice(begin, end - begin)


def _unpacked(table: pa.Table, name: str, schema: pa.Schema) -> pa.Table:
    """The rows that have this struct, in columns of their own."""
    rows = table.column(name).combine_chunks().drop_null()
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)]).cast(schema)


def _packed(name: str, table: pa.Table) -> pa.Table:
    """The rows as one column of structs."""
    return pa.table({name: table.to_struct_array()})


def _filled(rows: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows with every column of the schema."""
    columns = {
        field.name: rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    }
    return iter(pa.table(columns, schema=schema).to_batches() if rows.num_rows else ())
