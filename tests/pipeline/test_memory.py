"""How much of a folder of operations is in memory: no more than the limits say, whatever its files say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nemesis.cli.exit import Exit
from nemesis.formats.errors import HistoryError
from nemesis.pipeline.corpora import store as store_module
from nemesis.pipeline.corpora.schemas import OBJECT_ROWS, OBJECTS, OPERATION_ROWS, OPERATIONS
from nemesis.pipeline.corpora.store import batches_of, names_of, rows_in
from tests.pipeline.stores import write_rows

LONG = "a" * 500_000
ROWS = 2_000
POOL_BYTES_MAX = 20 * len(LONG)


MEASURED = """
import sys
from collections.abc import Iterator
from pathlib import Path
import pyarrow as pa
from nemesis.cli.__main__ import cli
from nemesis.cli.exit import exit_code_of
words = ["check", sys.argv[1], "--model", "register", "--engine", "local"]
code = exit_code_of(lambda: cli.main(words, standalone_mode=False))
print(int(code), pa.default_memory_pool().max_memory())
"""
"""A process of its own, which tells how it ended and what Arrow took at most."""


def bomb(folder: Path, rows: int = ROWS) -> Path:
    """A file of operations that all have one long text, which is in it once."""
    columns: dict[str, list[object]] = {
        field.name: [0 if not field.nullable else None] * rows for field in OPERATION_ROWS
    }
    columns |= {"text": [f'[0 "write" "{LONG}" nil]'] * rows, "line": list(range(rows)), "invoked": list(range(rows))}
    path = folder / OPERATIONS / "bomb.parquet"
    path.parent.mkdir(exist_ok=True)
    table = pa.table({name: pa.array(column, OPERATION_ROWS.field(name).type) for name, column in columns.items()})
    pq.write_table(table, path, compression="zstd")
    return path


def measured(folder: Path) -> tuple[int, int]:
    """The exit code of judging a folder, and the most bytes that Arrow had."""
    command = [sys.executable, "-c", MEASURED, str(folder)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return int(told[-2]), int(told[-1])


@pytest.mark.slow
def test_a_text_of_many_rows_is_refused_before_it_is_there_many_times(tmp_path: Path) -> None:
    """A file of kilobytes whose rows come to a gigabyte is refused with its name and what to do, and takes little."""
    path = bomb(tmp_path)
    assert path.stat().st_size < 50_000
    reads: list[Iterator[pa.Table]] = [batches_of([path]), rows_in(path, 0, OPERATION_ROWS.names)]
    for read in reads:
        with pytest.raises(HistoryError, match=r"bomb\.parquet: .* more than LONG_TEXT_BYTES_MAX, \d+") as caught:
            list(read)
        assert "write shorter values" in str(caught.value)
    code, taken = measured(tmp_path)
    assert code == Exit.BAD_ARGUMENTS
    assert taken < POOL_BYTES_MAX


def test_long_texts_of_several_files_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one file may have, two of them may not; a text that is not long does not count."""
    path = bomb(tmp_path, rows=2)
    monkeypatch.setattr(store_module, "LONG_TEXT_BYTES_MAX", 3 * len(LONG))
    assert [batch.num_rows for batch in batches_of([path])] == [2]
    with pytest.raises(HistoryError, match="LONG_TEXT_BYTES_MAX"):
        list(batches_of([path, path]))
    monkeypatch.setattr(store_module, "TEXT_BYTES", 2 * len(LONG))
    assert [batch.num_rows for batch in batches_of([path, path])] == [2, 2]


@pytest.mark.slow
def test_too_large_a_group_is_refused_before_it_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the file tells how large it is: of its pages nothing is read."""
    path = bomb(tmp_path)
    monkeypatch.setattr(store_module, "GROUP_BYTES_MAX", len(LONG))
    with pytest.raises(HistoryError, match=rf"a row group has \d+ bytes .* more than GROUP_BYTES_MAX, {len(LONG)}; "):
        list(batches_of([path]))


@pytest.mark.slow
def test_a_long_name_of_many_objects_is_refused(tmp_path: Path) -> None:
    """The names of objects are read as carefully."""
    names = pa.table({"object": range(ROWS), "run_id": ["run"] * ROWS, "key": [LONG] * ROWS}, schema=OBJECT_ROWS)
    (tmp_path / OBJECTS).mkdir()
    pq.write_table(names, tmp_path / OBJECTS / "bomb.parquet", compression="zstd")
    with pytest.raises(HistoryError, match="LONG_TEXT_BYTES_MAX"):
        names_of(tmp_path)
    write_rows(tmp_path, [{"function": 2, "argument": 1}])
    code, taken = measured(tmp_path)
    assert code == Exit.BAD_ARGUMENTS
    assert taken < POOL_BYTES_MAX
