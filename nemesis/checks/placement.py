"""One value for each offset and one offset for each value.

Owns **inconsistent-offsets** and **duplicate**. Both look at everything that was seen: polls, acknowledgements and what
replicas vouch for. That any two readers agree at every offset is what "committed is never truncated" means. Source: the
analyses of the same names in ``jepsen.tests.kafka``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nemesis.checks.anomalies import LISTED_MAX, Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck, Row
from nemesis.checks.observations import Observations, observe
from nemesis.checks.partition import NEVER, NONE, Ints, Partition


def check_inconsistent_offsets(partition: Partition) -> Found:
    """Offsets at which different values were seen, lowest first."""
    seen = observe(partition)
    for rows in _contradictions(seen.offset, seen.value):
        offset, values = int(seen.offset[rows[0]]), _distinct(seen.value[rows])
        yield _anomaly(
            partition,
            seen.take(_first_of_each(seen.value, rows)),
            f"offset {offset} was seen with different values, {_listed(values)}",
        )
    return Coverage(looked=len(np.unique(seen.offset)))


def check_duplicate(partition: Partition) -> Found:
    """Values that were seen at different offsets, lowest first."""
    seen = observe(partition)
    seen = seen.take(np.lexsort((seen.replica_id, seen.op_index, seen.offset, seen.value)))
    for rows in _contradictions(seen.value, seen.offset):
        value, offsets = int(seen.value[rows[0]]), _distinct(seen.offset[rows])
        yield _anomaly(
            partition,
            seen.take(_first_of_each(seen.offset, rows)),
            f"value {value} was seen at offsets {_listed(offsets)}",
        )
    return Coverage(looked=len(np.unique(seen.value)))


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


def _anomaly(partition: Partition, witnesses: Observations, what: str) -> Anomaly:
    shown = witnesses.take(np.arange(min(len(witnesses.offset), LISTED_MAX)))
    return Anomaly(
        detail=f"{what}: {'; '.join(_told(shown, i) for i in range(len(shown.offset)))}",
        offsets=_distinct(witnesses.offset),
        op_indexes=_distinct(witnesses.op_index[witnesses.op_index != NEVER]),
        replicas=_distinct(witnesses.replica_id[witnesses.replica_id != NONE]),
        evidence={"seen": [_entry(partition, shown, i) for i in range(len(shown.offset))]},
    )


def _told(seen: Observations, i: int) -> str:
    by = f"replica {seen.replica_id[i]}" if seen.row[i] == NONE else f"operation {seen.op_index[i]}"
    return f"{by} has value {seen.value[i]} at offset {seen.offset[i]}"


def _entry(partition: Partition, seen: Observations, i: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"offset": int(seen.offset[i]), "value": int(seen.value[i])}
    if seen.row[i] == NONE:
        return entry | {"replica_id": int(seen.replica_id[i])}
    return entry | {"operation": partition.operations.described(int(seen.row[i]))}


def _by_offset(row: Row, evidence: Mapping[str, Any]) -> tuple[Any, ...]:
    del evidence
    return tuple(row["offsets"])


def _by_seen_value(row: Row, evidence: Mapping[str, Any]) -> tuple[Any, ...]:
    del row
    return (evidence["seen"][0]["value"],)


# What was seen where is never unseen.
INCONSISTENT_OFFSETS = LogCheck(
    name="inconsistent-offsets",
    promise="One offset holds one value, whoever reads it and whenever.",
    needs="offsets that were seen to hold a value",
    implies=frozenset({"inconsistent-offsets"}),
    identity=_by_offset,
    run=check_inconsistent_offsets,
)
DUPLICATE = LogCheck(
    name="duplicate",
    promise="A value that was written once stands in the log once.",
    needs="values that were seen at an offset",
    implies=frozenset({"duplicate"}),
    identity=_by_seen_value,
    run=check_duplicate,
)
