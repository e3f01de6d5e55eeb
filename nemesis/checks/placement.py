"""One value for each offset and one offset for each value.

Owns **inconsistent-offsets** and **duplicate**. Both look at everything that was seen: polls, acknowledgements and what
replicas vouch for. That any two readers agree at every offset is what "committed is never truncated" means. Source: the
analyses of the same names in ``jepsen.tests.kafka``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nemesis.checks.anomalies import LISTED_MAX, Anomaly
from nemesis.checks.observations import Observations, observe
from nemesis.checks.partition import NEVER, NONE, Ints, Partition
from nemesis.checks.schemas import AnomalyName


def check_inconsistent_offsets(partition: Partition) -> Iterator[Anomaly]:
    """Offsets at which different values were seen, lowest first."""
    seen = observe(partition)
    for rows in _contradictions(seen.offset, seen.value):
        offset, values = int(seen.offset[rows[0]]), _distinct(seen.value[rows])
        yield _anomaly(
            partition,
            AnomalyName.INCONSISTENT_OFFSETS,
            seen.take(_first_of_each(seen.value, rows)),
            f"offset {offset} was seen to hold {_listed(values)}",
        )


def check_duplicate(partition: Partition) -> Iterator[Anomaly]:
    """Values that were seen at different offsets, lowest first."""
    seen = observe(partition)
    seen = seen.take(np.lexsort((seen.replica_id, seen.op_index, seen.offset, seen.value)))
    for rows in _contradictions(seen.value, seen.offset):
        value, offsets = int(seen.value[rows[0]]), _distinct(seen.offset[rows])
        yield _anomaly(
            partition,
            AnomalyName.DUPLICATE,
            seen.take(_first_of_each(seen.offset, rows)),
            f"value {value} was seen at offsets {_listed(offsets)}",
        )


def _contradictions(key: Ints, other: Ints) -> Iterator[Ints]:
    """The rows of each key that comes with more than one other. Rows are ordered by (key, other)."""
    _, starts, sizes = np.unique(key, return_index=True, return_counts=True)
    for start, size in zip(starts, sizes, strict=True):
        if other[start] != other[start + size - 1]:
            yield np.arange(start, start + size)


def _first_of_each(column: Ints, rows: Ints) -> Ints:
    """The first of ``rows`` for each distinct entry of the column, which is ascending along them."""
    first: Ints = rows[np.append(True, np.diff(column[rows]) != 0)]
    return first


def _distinct(column: Ints) -> list[int]:
    return [int(entry) for entry in np.unique(column)]


def _listed(entries: list[int]) -> str:
    shown = ", ".join(str(entry) for entry in entries[:LISTED_MAX])
    return shown if len(entries) <= LISTED_MAX else f"{shown} and {len(entries) - LISTED_MAX} more"


def _anomaly(partition: Partition, name: AnomalyName, witnesses: Observations, what: str) -> Anomaly:
    shown = witnesses.take(np.arange(min(len(witnesses.offset), LISTED_MAX)))
    return Anomaly(
        name=name,
        detail=f"{what}: {'; '.join(_told(shown, i) for i in range(len(shown.offset)))}",
        offsets=_distinct(witnesses.offset),
        op_indexes=_distinct(witnesses.op_index[witnesses.op_index != NEVER]),
        replicas=_distinct(witnesses.replica_id[witnesses.replica_id != NONE]),
        evidence={"seen": [_entry(partition, shown, i) for i in range(len(shown.offset))]},
    )


def _told(seen: Observations, i: int) -> str:
    by = f"replica {seen.replica_id[i]}" if seen.row[i] == NONE else f"operation {seen.op_index[i]}"
    return f"value {seen.value[i]} at offset {seen.offset[i]} by {by}"


def _entry(partition: Partition, seen: Observations, i: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"offset": int(seen.offset[i]), "value": int(seen.value[i])}
    if seen.row[i] == NONE:
        return entry | {"replica_id": int(seen.replica_id[i])}
    return entry | {"operation": partition.operations.described(int(seen.row[i]))}
