"""Which value was seen at which offset, by whom: what the checks of placement have in common.

Owns the collection and the choice among contradicting observations (the earliest operation wins, so that results do not
depend on any order of rows). An observation comes from a poll, from an append that is known to have happened, or from
what a replica holds below its own high watermark. Source: the version order of ``jepsen.tests.kafka``, on offsets
instead of places, so that sparse ones cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nemesis.checks.partition import NEVER, NONE, Ints, Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Arrays of equal length, ordered by (offset, value, operation, replica).

    ``row`` is the row of the operation that showed it and ``op_index`` its invocation; ``NONE`` and ``NEVER`` where a
    replica's log did, and then ``replica_id`` says whose, else it is ``NONE``.
    """

    offset: Ints
    value: Ints
    row: Ints
    op_index: Ints
    replica_id: Ints

    def take(self, index: Ints) -> Observations:
        """The observations at these positions, in this order."""
        return Observations(
            offset=self.offset[index],
            value=self.value[index],
            row=self.row[index],
            op_index=self.op_index[index],
            replica_id=self.replica_id[index],
        )


def observe(partition: Partition) -> Observations:
    """Everything that was seen of this topic-partition."""
    operations = partition.operations
    happened = operations.ok | operations.committed
    acked = np.flatnonzero(operations.append & happened & operations.has_value & (operations.offset != NONE))
    parts = [
        (operations.offset[acked], operations.value[acked], acked, NONE),
        (operations.returned_offset, operations.returned_value, operations.returned_row, NONE),
    ]
    for log in partition.logs:
        committed = log.value_offset < log.committed_end_offset
        nobody = np.full(int(committed.sum()), NONE)
        parts.append((log.value_offset[committed], log.value[committed], nobody, log.replica_id))
    offset, value, row = (np.concatenate([part[i] for part in parts]).astype(np.int64) for i in range(3))
    replica_id = np.concatenate([np.full(len(part[0]), part[3]) for part in parts]).astype(np.int64)
    op_index = _op_index(partition, row)
    order = np.lexsort((replica_id, op_index, value, offset))
    return Observations(offset=offset, value=value, row=row, op_index=op_index, replica_id=replica_id).take(order)


def _op_index(partition: Partition, row: Ints) -> Ints:
    if not len(partition.operations.invoke_index):
        return np.full(len(row), NEVER)
    return np.where(row == NONE, NEVER, partition.operations.invoke_index[row])


def known_offsets(seen: Observations) -> Ints:
    """Every offset that was seen to hold a value, ascending, each once."""
    return np.unique(seen.offset)


def first_offsets(seen: Observations) -> tuple[Ints, Ints]:
    """Every value seen, ascending, and its offset: the one that the earliest operation showed, then the lowest."""
    order = np.lexsort((seen.offset, seen.op_index, seen.value))
    values, first = np.unique(seen.value[order], return_index=True)
    return values, seen.offset[order][first]


def contains(sorted_values: Ints, wanted: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which of ``wanted`` are in ``sorted_values`` (ascending)."""
    if not len(sorted_values):
        return np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(sorted_values, wanted), len(sorted_values) - 1)
    return np.asarray(sorted_values[at] == wanted, np.bool_)
