"""Tables are read page by page, and only the shards of the page."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nemesis.history.schemas import Kind
from nemesis.serve.rows import PAGE_ROWS, TEXT_MAX, read_page, shown
from nemesis.serve.store import NotInStoreError
from tests.serve.stores import write_run
from tests.serve.test_summary import opened_files

OPERATIONS = 300
ROWS = 2 * OPERATIONS + 2


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose history has many shards."""
    return write_run(tmp_path / "run", operations=OPERATIONS, shard_rows=70)


def _indexes(rows: object) -> list[int]:
    assert isinstance(rows, list)
    return [int(row[0]) for row in rows]


def test_pages_show_every_row_once(run: Path) -> None:
    """From page to page by what each says of the next, all rows come in order."""
    seen: list[int] = []
    start: int | None = 0
    while start is not None:
        page = read_page(run, Kind.HISTORY, start)
        seen += _indexes(page.rows)
        assert page.total == ROWS
        start = page.after

    assert seen == list(range(ROWS))


@pytest.mark.parametrize(("start", "first"), [(-5, 0), (0, 0), (69, 69), (71, 71), (600, 600), (10**12, ROWS - 1)])
def test_a_page_begins_where_it_is_asked_to(run: Path, start: int, first: int) -> None:
    """At any row, across shards; beyond the end, at the last one."""
    page = read_page(run, Kind.HISTORY, start)

    assert page.start == first
    assert _indexes(page.rows) == list(range(first, min(first + PAGE_ROWS, ROWS)))
    assert page.before == (max(first - PAGE_ROWS, 0) if first else None)


def test_only_the_shards_of_the_page_are_read(run: Path) -> None:
    """How many rows the others have is known by now, so that they are not opened again."""
    read_page(run, Kind.HISTORY, 0)
    with opened_files() as opened:
        read_page(run, Kind.HISTORY, 450)

    assert [Path(path).name for path in opened] == ["part-00006.parquet", "part-00007.parquet"]


def test_row_groups_before_the_page_are_skipped(tmp_path: Path) -> None:
    """A shard that has several row groups shows the rows that were asked for."""
    run = write_run(tmp_path / "run", operations=OPERATIONS)
    shard = run / "history" / "part-00000.parquet"
    pq.write_table(pq.read_table(shard), shard, row_group_size=64)

    assert _indexes(read_page(run, Kind.HISTORY, 130).rows) == list(range(130, 130 + PAGE_ROWS))


def test_a_table_without_rows_has_its_columns(run: Path) -> None:
    """There is a page, and it is empty."""
    page = read_page(run, Kind.LOGS, 0)

    assert (page.rows, page.total, page.before, page.after, page.last) == ([], 0, None, None, 0)
    assert page.columns[0] == "replica_id"


def test_a_damaged_shard_is_told(run: Path) -> None:
    """Its name and what is wrong, and no trace."""
    (run / "history" / "part-00001.parquet").write_bytes(b"PAR1 and no more")

    with pytest.raises(NotInStoreError, match=r"part-00001\.parquet cannot be read"):
        read_page(run, Kind.HISTORY, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0, "0"),
        (True, "true"),
        ([1, None, 2], "1, , 2"),
        ([{"offset": 3, "value": 9}], "3: 9"),
        ([], ""),
        ("x" * (TEXT_MAX + 1), "x" * TEXT_MAX + "…"),
    ],
)
def test_values_are_shown_as_texts(value: object, text: str) -> None:
    """Records of polls by their offsets, nothing for null, and no more than a page can hold."""
    assert shown(value) == text


def test_columns_are_those_of_the_file(tmp_path: Path) -> None:
    """A table of somebody else's with other columns is shown as it is."""
    run = write_run(tmp_path / "run")
    pq.write_table(pa.table({"odd": ["a", "b"]}), run / "history" / "part-00000.parquet")
    page = read_page(run, Kind.HISTORY, 0)

    assert (page.columns, page.rows) == (["odd"], [("a",), ("b",)])
