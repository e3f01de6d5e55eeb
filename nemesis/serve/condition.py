"""Which operations are asked for: a condition as SQL has it behind ``WHERE``, of a table of operations, by DuckDB.

Owns what the columns are called in a condition: ``offset`` is a word of SQL, and stands in double quotes. What else a
condition could reach, ``sql_process`` keeps from it.
"""

from __future__ import annotations

import pyarrow as pa

from nemesis.history.operations import ALSO_CALLED
from nemesis.serve.sql_process import RefusedError, closed_database, only_select

_ROWS = """
    SELECT row FROM (
        SELECT * REPLACE ([record.value FOR record IN records] AS records), row_number() OVER () - 1 AS row, {names}
        FROM operations
    ) WHERE ({condition}
    ) ORDER BY row"""


class ConditionError(ValueError):
    """A condition that cannot be understood, and why."""


def where(operations: pa.Table, condition: str) -> pa.Table:
    """The rows of ``operations`` (``OPERATIONS_SCHEMA``) for which the condition holds.

    To the condition ``records`` are the values of the records, so that ``5 in records`` finds the polls of a value.
    Raises ConditionError, and ImportError where DuckDB is not installed.
    """
    import duckdb

    names = ", ".join(f"{column} AS {other}" for other, column in ALSO_CALLED.items())
    with closed_database({"operations": operations}) as database:
        try:
            found = database.execute(only_select(database, _ROWS.format(names=names, condition=condition))).fetchall()
        except (duckdb.Error, RefusedError) as error:
            columns = ", ".join('"offset"' if name == "offset" else name for name in operations.column_names)
            raise ConditionError(f"{str(error).partition('LINE')[0].strip()}; the columns are {columns}") from error
    return operations.take(pa.array([row for (row,) in found], pa.int64()))
