"""The process in which one SQL query runs: a question on standard input, an answer on standard output.

Owns what a query may do: read the tables that it was given, and nothing else. The database is in memory and may open no
file: DuckDB does not even open the shards, which Arrow hands to it as they are read. No extension can be loaded, no
setting changed, and the one statement that is run is a SELECT. The kernel bounds memory, processor time and what could
be written to files, so that none of this rests on DuckDB alone.
"""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import duckdb

MEMORY_BYTES_MAX = 4 * 1024**3
"""Of addresses; DuckDB itself is told DATABASE_MEMORY."""
DATABASE_MEMORY = "512MiB"
START_S_MAX = 30.0
"""What the process may take until it begins with the query."""
ANSWER_CHARACTERS_MAX = 2_000_000
CELL_CHARACTERS = 10
"""What the page has for each cell beside its text, empty or not."""
ERROR_CHARACTERS_MAX = 10_000
NESTING_MAX = 100
"""Of brackets in brackets: DuckDB's parser takes memory by their square, 100 MB for a thousand, 12 GB for ten."""
SETTINGS: Mapping[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": DATABASE_MEMORY,
    "python_enable_replacements": False,
    "temp_directory": "",
    "threads": 2,
}


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """``tables`` are paths of Parquet files by the name of their table."""

    tables: Mapping[str, Sequence[str]]
    query: str
    rows_max: int
    time_s: float


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Rows as texts, and whether there are ``more``; or an ``error``."""

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    more: bool = False
    error: str = ""


class RefusedError(Exception):
    """A query that is not run."""


def answer(question: Question, begin: Callable[[], None] = lambda: None) -> Answer:
    """Run the query; ``begin`` is called when all is ready for it."""
    import duckdb

    connection = _database(question.tables)
    try:
        begin()
        statement = only_select(connection, question.query)
        found = connection.execute(statement)
        columns = tuple(entry[0] for entry in found.description or ())
        return _bounded(columns, found, question.rows_max)
    except (RefusedError, duckdb.Error) as error:
        return Answer(error=str(error)[:ERROR_CHARACTERS_MAX])
    finally:
        connection.close()


def _database(tables: Mapping[str, Sequence[str]]) -> duckdb.DuckDBPyConnection:
    import pyarrow.dataset as ds

    from nemesis.history.schemas import SCHEMAS, Kind

    return closed_database(
        {
            name: ds.dataset(list(paths), format="parquet") if paths else SCHEMAS[Kind(name)].empty_table()
            for name, paths in tables.items()
        }
    )


def closed_database(tables: Mapping[str, object]) -> duckdb.DuckDBPyConnection:
    """A database in memory with these tables, which are Arrow's, and nothing else within its reach."""
    import duckdb

    connection = duckdb.connect(":memory:", config=dict(SETTINGS))
    for name, table in tables.items():
        connection.register(name, table)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def only_select(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    """The one statement of a query, which only reads. Raises RefusedError, and duckdb.Error for what is no SQL."""
    import duckdb

    if _nesting(query) > NESTING_MAX:
        raise RefusedError(f"Put no more than {NESTING_MAX} brackets into one another.")
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise RefusedError(f"Give one statement; there are {len(statements)}.")
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise RefusedError("Only SELECT is allowed here, with EXPLAIN, DESCRIBE and SUMMARIZE.")
    return statements[0]


def _nesting(query: str) -> int:
    """How deep brackets lie in one another, those in texts counted too."""
    steps = ((sign == "(") - (sign == ")") for sign in query)
    return max(accumulate(steps, lambda depth, step: max(0, depth + step), initial=0))


def _bounded(columns: Sequence[str], found: duckdb.DuckDBPyConnection, rows_max: int) -> Answer:
    """The first rows, as many as rows and characters may be."""
    from nemesis.serve.rows import shown

    rows: list[Sequence[str]] = []
    characters = 0
    while row := found.fetchone():
        texts = tuple(map(shown, row))
        characters += sum(map(len, texts)) + CELL_CHARACTERS * len(texts)
        if len(rows) == rows_max or characters > ANSWER_CHARACTERS_MAX:
            return Answer(columns=columns, rows=rows, more=True)
        rows.append(texts)
    return Answer(columns=columns, rows=rows)


def end_after(time_s: float) -> None:
    """Let the kernel end this process when so much time has passed. Nothing here catches SIGALRM."""
    signal.setitimer(signal.ITIMER_REAL, time_s)


def _bound() -> None:
    """Let the kernel refuse this process memory, files and core dumps."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Answer one question."""
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    _bound()
    end_after(START_S_MAX)
    try:
        told = answer(question, lambda: end_after(question.time_s))
    except Exception as error:
        told = Answer(error=f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX])
    sys.stdout.buffer.write(msgspec.json.encode(told))


if __name__ == "__main__":
    main()
