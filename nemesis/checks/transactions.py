"""What a transaction is: which ones have happened, and what none of them may see of itself.

Owns **precommitted-read**, and the rule by which transactions of unknown outcome are known to be committed, over all
topic-partitions of a run. Source: ``precommitted-read`` and ``must-have-committed?`` of ``jepsen.tests.kafka``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck
from nemesis.checks.observations import contains
from nemesis.checks.partition import Ints, Partition, ints, operations_of, row_groups
from nemesis.checks.schemas import MICRO_OPERATION_SCHEMA
from nemesis.history.events import EventType


def check_precommitted_read(partition: Partition) -> Found:
    """Operations that polled a value which they sent themselves, in order of invocation."""
    operations = partition.operations
    sends = np.flatnonzero(operations.append & operations.has_value)
    sent = dict(zip(_pairs(operations.invoke_index[sends], operations.value[sends]), sends.tolist(), strict=True))
    index = operations.invoke_index[operations.returned_row]
    both = np.flatnonzero(contains(np.unique(operations.invoke_index[sends]), index))
    told: set[tuple[int, int]] = set()
    for i in both.tolist():
        read = int(index[i]), int(operations.returned_value[i])
        if read not in sent or read in told:
            continue
        told.add(read)
        offset = int(operations.returned_offset[i])
        rows = [sent[read], int(operations.returned_row[i])]
        yield Anomaly(
            detail=f"operation {read[0]} polled value {read[1]} at offset {offset}, which it had sent itself",
            offsets=(offset,),
            op_indexes=(read[0],),
            evidence={"value": read[1], "operations": [operations.described(row) for row in rows]},
        )
    return Coverage(looked=len(np.unique(index[both])))


def _pairs(first: Ints, second: Ints) -> list[tuple[int, int]]:
    return list(zip(first.tolist(), second.tolist(), strict=True))


def with_committed(table: pa.Table) -> pa.Table:
    """The same rows, ``committed`` set of all transactions of unknown outcome of which an ok poll has shown a value.

    ``table`` is ``MICRO_OPERATION_SCHEMA`` and has all topic-partitions of the runs that it has one of.
    """
    shown: set[tuple[str, int]] = set()
    for (run_id, _), rows in row_groups(table).items():
        operations = operations_of(rows)
        unknown = np.flatnonzero(operations.append & operations.has_value & ~operations.ok & ~operations.fail)
        read = contains(np.unique(operations.record_value), operations.value[unknown])
        shown.update((run_id, int(index)) for index in operations.invoke_index[unknown[read]])
    keys = zip(table.column("run_id").to_pylist(), ints(table, "invoke_index").tolist(), strict=True)
    is_unknown = pc.equal(table.column("type"), EventType.INFO.value).to_pylist()
    committed = [unknown and key in shown for key, unknown in zip(keys, is_unknown, strict=True)]
    at = MICRO_OPERATION_SCHEMA.get_field_index("committed")
    return table.set_column(at, MICRO_OPERATION_SCHEMA.field(at), pa.array(committed, pa.bool_()))


PRECOMMITTED_READ = LogCheck(
    name="precommitted-read",
    promise="No transaction reads its own writes before it is committed.",
    needs="transactions that wrote to a log and read from it",
    implies=frozenset({"precommitted-read"}),
    run=check_precommitted_read,
)
