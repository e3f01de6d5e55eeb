"""A query reads the tables of its run and does nothing else, for no longer than it may."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nemesis.history.schemas import Kind
from nemesis.serve.sql import EXAMPLES, QUERIES_MAX, QUERY_CHARACTERS_MAX, Sql
from nemesis.serve.sql_process import Question, answer
from nemesis.serve.store import shards
from tests.serve.stores import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few operations in two shards."""
    return write_run(tmp_path_factory.mktemp("store") / "run", operations=20, shard_rows=25)


def _ask(run: Path, query: str, rows: int = 1000) -> tuple[list[tuple[str, ...]], str]:
    """Rows and error of a query that is run in this process."""
    tables = {kind.value: [str(path) for path in shards(run, kind)] for kind in Kind}
    told = answer(Question(tables=tables, query=query, rows_max=rows, time_s=10))
    return [tuple(row) for row in told.rows], told.error


def test_all_tables_of_the_run_can_be_asked(run: Path) -> None:
    """History over all its shards, events, and logs, which have no rows here."""
    union = " UNION ALL ".join(f"SELECT '{kind}', count(*) FROM {kind}" for kind in Kind)

    assert _ask(run, union) == ([("history", "42"), ("logs", "0"), ("events", "1")], "")


@pytest.mark.parametrize("query", EXAMPLES.values())
def test_examples_have_answers(run: Path, query: str) -> None:
    """Every query that is offered runs."""
    assert _ask(run, query)[1] == ""


REACHING_OUT = (
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_csv_auto('{file}')",
    "SELECT * FROM read_json('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM parquet_scan('{shard}')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM '{file}'",
    "SELECT * FROM '{shard}'",
    "SELECT * FROM query_table('{file}')",
    "SELECT * FROM query('SELECT * FROM read_text(''{file}'')')",
    "SELECT * FROM 'https://example.com/x.parquet'",
    "SELECT getenv('HOME')",
    "COPY (SELECT 1) TO '{target}'",
    "COPY history TO '{target}' (FORMAT parquet)",
    "COPY (SELECT 1) TO '{shard}'",
    "EXPORT DATABASE '{target}'",
    "ATTACH '{target}' AS other",
    "CREATE TABLE copied AS SELECT * FROM history",
    "CREATE SECRET s (TYPE s3)",
    "DROP VIEW history",
    "INSTALL httpfs",
    "LOAD httpfs",
    "FORCE INSTALL spatial FROM 'https://example.com'",
    "SET enable_external_access = true",
    "SET memory_limit = '100GB'",
    "RESET lock_configuration",
    "PRAGMA enable_profiling",
    "CALL enable_logging()",
    "CHECKPOINT",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY (SELECT 1) TO '{target}'",
    "",
    "; ;",
    "SELECT * FROM secret_of_this_process",
)


@pytest.mark.parametrize("query", REACHING_OUT)
def test_a_query_reaches_nothing_else(run: Path, tmp_path: Path, query: str) -> None:
    """It can read no file, not even its own shards by their paths, write none, load nothing and change nothing."""
    secret_of_this_process = {"secret": [1]}
    (tmp_path / "secret").write_text("a,b\nsecret,2\n")
    shard = shards(run, Kind.HISTORY)[0]
    before = shard.read_bytes()
    target = tmp_path / "target"
    asked = query.format(file=tmp_path / "secret", folder=tmp_path, shard=shard, target=target)
    rows, error = _ask(run, asked)

    assert rows == []
    assert error != ""
    assert not target.exists()
    assert shard.read_bytes() == before
    assert secret_of_this_process == {"secret": [1]}


def test_the_system_has_its_password_file_for_itself(run: Path) -> None:
    """The refusal is that of the configuration, and comes for a file that is there."""
    assert Path("/etc/passwd").exists()
    assert "disabled by configuration" in _ask(run, "SELECT * FROM read_text('/etc/passwd')")[1]


def test_rows_are_bounded(run: Path) -> None:
    """So many rows are given and no more, and that there are more is said."""
    tables = {kind.value: [str(path) for path in shards(run, kind)] for kind in Kind}
    told = answer(Question(tables=tables, query="SELECT * FROM range(1000000000000)", rows_max=7, time_s=10))

    assert (len(told.rows), told.more) == (7, True)


def test_texts_are_bounded(run: Path) -> None:
    """Rows of long texts are cut off as well: a page must not weigh what a query can make."""
    rows, error = _ask(run, "SELECT repeat('x', 5000) FROM range(1000000)", rows=10**6)

    assert error == ""
    assert sum(len(row[0]) for row in rows) <= 2_000_000


def test_cells_and_errors_are_bounded(run: Path) -> None:
    """What is empty takes room on a page as well, and so does what a query makes the database say."""
    tables = {kind.value: [str(path) for path in shards(run, kind)] for kind in Kind}
    wide = f"SELECT {', '.join(['NULL'] * 1000)} FROM range(1000)"
    told = answer(Question(tables=tables, query=wide, rows_max=1000, time_s=10))
    assert (len(told.rows) <= 200, told.more) == (True, True)
    assert len(_ask(run, "SELECT error(repeat('<', 20000000))")[1]) <= 10_000


@pytest.mark.slow
def test_code_in_the_working_directory_is_not_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks at runs that came from elsewhere may stand in their folder."""
    (tmp_path / "duckdb.py").write_text("raise SystemExit('it was run')")
    monkeypatch.chdir(tmp_path)
    assert Sql(time_s=60).ask(run, "SELECT 1").error == ""


@pytest.mark.slow
def test_a_query_that_runs_for_ever_is_ended(run: Path) -> None:
    """Its process is ended when its time is over, whatever it is doing."""
    begin_s = time.monotonic()
    told = Sql(time_s=3).ask(run, "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c")

    assert "longer than 3 s" in told.error
    assert time.monotonic() - begin_s < 30


@pytest.mark.slow
def test_a_query_is_answered_by_a_process_of_its_own(run: Path) -> None:
    """The answer comes back whole: columns, rows, and errors in the database's words."""
    sql = Sql(time_s=60)
    told = sql.ask(run, "SELECT type, count(*) AS n FROM history GROUP BY ALL ORDER BY ALL")

    assert (list(told.columns), told.error) == (["type", "n"], "")
    assert [tuple(row) for row in told.rows] == [("info", "1"), ("invoke", "21"), ("ok", "20")]
    assert "nothing_like_it" in sql.ask(run, "SELECT nothing_like_it FROM history").error


@pytest.mark.slow
@pytest.mark.parametrize("query", ["SELECT repeat('x', 4000000000)", "SELECT list(range) FROM range(1000000000)"])
def test_memory_is_bounded(run: Path, query: str) -> None:
    """A query that would take all memory is refused it, and the server goes on."""
    assert Sql(time_s=20).ask(run, query).error != ""


def test_brackets_are_counted_before_they_are_parsed(run: Path) -> None:
    """The parser would take memory by the square of their depth, closed or not; side by side there may be hundreds."""
    for query in ("SELECT " + "(" * 101, "SELECT " + "(" * 101 + "1" + ")" * 101, "SELECT ')', " + "(" * 3_000):
        assert "more than 100 brackets" in Sql().ask(run, query).error
    assert Sql().ask(run, "SELECT " + "+".join(["(1)"] * 500)).rows == [["500"]]


def test_too_many_queries_are_refused(run: Path) -> None:
    """While as many run as may, another one is told to come again, and so is one that is too long."""
    sql = Sql()
    assert "longer than" in sql.ask(run, "x" * (QUERY_CHARACTERS_MAX + 1)).error
    for _ in range(QUERIES_MAX):
        sql._free.acquire()

    assert "queries are running" in sql.ask(run, "SELECT 1").error
