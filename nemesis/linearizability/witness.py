"""Witness mode: the servers say in which order operations took effect, and it remains to be checked.

Owns that check. If the order explains every result, and nothing that was over stands behind what had not begun, the
history is linearizable: the order is the proof. If not, the claimed order is wrong, which says nothing of the history:
a kernel must judge it. The order says whether an operation took effect and where, and never moves its moments.
O(n log n). Source: etcd's robustness tests, which resolve what is unknown by the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nemesis.linearizability.model import REFUSED, Model
from nemesis.linearizability.operations import Operation, Outcome


def objection(operations: Sequence[Operation], model: Model, indexes: Mapping[int, int]) -> str | None:
    """Why the claimed order proves nothing, in one sentence; None if it proves that ``operations`` are linearizable.

    ``operations`` are those on one object that say something. ``indexes`` maps the line of an operation to its index
    in the log; a read has the index of the last entry that it saw (-1: none), and comes after it. Unknown operations
    without an index never took effect; one that returned must have an index.
    """
    for operation in operations:
        if operation.line not in indexes and operation.outcome is not Outcome.INFO:
            return f"line {operation.line} has no index"
    claimed = [operation for operation in operations if operation.line in indexes]
    claimed.sort(key=lambda op: (indexes[op.line], model.reads_only(op), op.invoked))
    state = model.initial()
    latest: Operation | None = None
    for operation in claimed:
        if latest is not None and operation.returned is not None and operation.returned < latest.invoked:
            return f"line {operation.line} returned before line {latest.line} began, and has a later place"
        after = model.step(state, operation)
        if after is REFUSED:
            return f"line {operation.line}: {model.describe_operation(operation)} in {model.describe_state(state)}"
        state = after
        if latest is None or operation.invoked > latest.invoked:
            latest = operation
    return None
