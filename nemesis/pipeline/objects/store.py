"""Folders of operations: ``operations/*.parquet`` and, where objects have names, ``objects/*.parquet``.

Owns the layout and the writer. Files have at most ``FILE_ROWS`` rows in groups of ``GROUP_ROWS``, so that many tasks
can read at once. A file has its name when it is whole. A folder that grows is read as far as it is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.formats.errors import HistoryError
from nemesis.pipeline.objects.schemas import OBJECT_ROWS, OBJECTS, OPERATION_ROWS, OPERATIONS, OPTIONAL

FILE_ROWS = 1_000_000
GROUP_ROWS = 250_000


def is_store(folder: Path) -> bool:
    """Whether a folder holds operations as they are written here."""
    return (folder / OPERATIONS).is_dir()


class OperationWriter:
    """Writes a folder of operations, and of the names of their objects."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = {OPERATIONS: 0, OBJECTS: 0}
        for name in self._files:
            (folder / name).mkdir(parents=True, exist_ok=True)

    def add(self, operations: pa.Table) -> None:
        """Write rows (``OPERATION_ROWS``), as one file or as several."""
        self._write(OPERATIONS, operations.cast(OPERATION_ROWS))

    def name(self, objects: pa.Table) -> None:
        """Write names (``OBJECT_ROWS``)."""
        self._write(OBJECTS, objects.cast(OBJECT_ROWS))

    def _write(self, name: str, rows: pa.Table) -> None:
        for begin in range(0, rows.num_rows, FILE_ROWS):
            target = self._folder / name / f"part-{self._files[name]:06}.parquet"
            growing = target.with_name(f".{target.name}")
            pq.write_table(rows.slice(begin, FILE_ROWS), growing, row_group_size=GROUP_ROWS, compression="zstd")
            growing.replace(target)
            self._files[name] += 1


def files_of(folder: Path, name: str = OPERATIONS) -> list[Path]:
    """The files of one table, in the order of their names. Hidden ones are not whole yet."""
    return sorted(path for path in (folder / name).glob("*.parquet") if not path.name.startswith((".", "_")))


def batches_of(folder: Path, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The operations in pieces of at most ``GROUP_ROWS``. Raises HistoryError for a file that is none of them."""
    for path in files_of(folder):
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                check_schema(file.schema_arrow, path)
                for batch in file.iter_batches(batch_size=GROUP_ROWS, columns=columns):
                    yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as error:
            problem = f"the file is no Parquet or damaged ({error})"
            raise HistoryError(path, None, problem, "write it again") from error


def schema_of(path: Path) -> pa.Schema:
    """The columns of a file. Raises HistoryError."""
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        problem = f"the file is no Parquet or damaged ({error})"
        raise HistoryError(path, None, problem, "write it again") from error


def check_schema(found: pa.Schema, path: Path) -> None:
    """Raise HistoryError unless a file has the declared columns."""
    for field in OPERATION_ROWS:
        if field.name in found.names and not found.field(field.name).type.equals(field.type):
            problem = f"column {field.name} is of type {found.field(field.name).type}, not {field.type}"
            raise HistoryError(path, None, problem, "write the columns as they are declared")
        if field.name not in found.names and field.name not in OPTIONAL:
            raise HistoryError(path, None, f"there is no column {field.name}", "write the columns as they are declared")


def names_of(folder: Path) -> pa.Table:
    """The names of the objects (``OBJECT_ROWS``); none for those that go by their numbers."""
    tables = [pq.read_table(path, schema=OBJECT_ROWS) for path in files_of(folder, OBJECTS)]
    return pa.concat_tables(tables) if tables else OBJECT_ROWS.empty_table()
