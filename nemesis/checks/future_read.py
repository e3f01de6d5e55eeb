"""Nobody reads what is yet to be asked for.

Owns **future-read**: an ok poll was over when the first append of a value that it returned was invoked. It needs no
offset to convict, so that it also finds values whose append was never told one. Source: the axiom that a read follows
its write in real time (Herlihy and Wing 1990); a value is written once, so that the write is known.
"""

from __future__ import annotations

import numpy as np

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck, by_value
from nemesis.checks.observations import contains
from nemesis.checks.partition import Partition


def check_future_read(partition: Partition) -> Found:
    """Values that a poll returned before anybody had asked to append them, the earliest poll first."""
    operations = partition.operations
    appends = np.flatnonzero(operations.append & operations.has_value)
    # Rows are in order of invocation: the first of a value is its earliest.
    values, first = np.unique(operations.value[appends], return_index=True)
    returned = np.flatnonzero(contains(values, operations.record_value))
    appended = appends[first[np.searchsorted(values, operations.record_value[returned])]]
    polled = operations.record_row[returned]
    early = operations.return_index[polled] < operations.invoke_index[appended]
    _, once = np.unique(operations.record_value[returned[early]], return_index=True)
    for i in np.sort(np.flatnonzero(early)[once]).tolist():
        poll, append = int(polled[i]), int(appended[i])
        value, offset = (int(column[returned[i]]) for column in (operations.record_value, operations.record_offset))
        indexes = [int(operations.invoke_index[row]) for row in (poll, append)]
        yield Anomaly(
            detail=f"operation {indexes[0]} read value {value} at offset {offset} before operation {indexes[1]} began"
            f" to append it",
            offsets=(offset,),
            op_indexes=indexes,
            evidence={"value": value, "operations": [operations.described(row) for row in (poll, append)]},
        )
    return Coverage(looked=len(returned))


FUTURE_READ = LogCheck(
    name="future-read",
    promise="Nobody reads a value before its write has begun.",
    needs="records that a poll returned and that somebody wrote",
    implies=frozenset({"future-read"}),
    identity=by_value,
    rests_on_all=True,
    run=check_future_read,
)
