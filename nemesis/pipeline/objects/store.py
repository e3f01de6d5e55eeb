"""Folders of operations: ``operations/*.parquet`` and, where objects have names, ``objects/*.parquet``.

Owns the layout and the writer. Files have at most ``FILE_ROWS`` rows in groups of ``GROUP_ROWS``, so that many tasks
can read at once. A file has its name when it is whole. A folder that grows is read as far as it is there. What is not
understood is refused, never passed over: a verdict on the rest would be worth nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.formats.errors import HistoryError, excerpt, refuse
from nemesis.pipeline.objects.plan import ChangedError
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
    """The files of one table, in the order of their names. Hidden ones are not whole yet.

    Raises HistoryError for a folder among them: what is in there would not be read.
    """
    found = sorted(path for path in (folder / name).glob("*") if not path.name.startswith((".", "_")))
    for path in found:
        if path.is_dir():
            raise HistoryError(path, None, "a folder inside the folder is not read", f"put its files into {name}/")
    return [path for path in found if path.suffix == ".parquet"]


def operation_files(folder: Path) -> list[Path]:
    """The files of operations, of which there is at least one. Raises HistoryError."""
    return files_of(folder) or nothing_in(folder)


def nothing_in(folder: Path) -> NoReturn:
    """Raise the HistoryError that says that there is nothing to judge."""
    refuse(folder / OPERATIONS, None, "no *.parquet file in it has an operation", "give at least one operation")


def batches_of(files: Sequence[Path]) -> Iterator[pa.Table]:
    """The operations in pieces of at most ``GROUP_ROWS``. Raises HistoryError for a file that is none of them."""
    for path in files:
        with _refusing(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            check_schema(file.schema_arrow, path)
            for batch in file.iter_batches(batch_size=GROUP_ROWS):
                yield _without_nulls(pa.Table.from_batches([batch]), OPERATION_ROWS, path)


def rows_in(path: Path, group: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The same of one row group, with just these columns; null where the file has none of that name."""
    declared = pa.schema([OPERATION_ROWS.field(name) for name in columns])
    with _refusing(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        check_schema(file.schema_arrow, path)
        for batch in file.iter_batches(batch_size=GROUP_ROWS, row_groups=[group], columns=list(columns)):
            rows = _without_nulls(pa.Table.from_batches([batch]), OPERATION_ROWS, path)
            for field in declared:
                if field.name not in rows.schema.names:
                    rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
            yield rows.select(declared.names).cast(declared)


def groups_of(path: Path) -> int:
    """How many row groups a file has. Raises HistoryError."""
    with _refusing(path), pq.ParquetFile(path) as file:
        return int(file.num_row_groups)


def check_file(path: Path) -> None:
    """Raise HistoryError unless a file has the declared columns, and no null where there must be none.

    Reads no more than the file's end, and the columns of which that does not say it.
    """
    with _refusing(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        check_schema(file.schema_arrow, path)
        required = [field.name for field in OPERATION_ROWS if not field.nullable]
        for group in range(file.num_row_groups):
            unsure = sorted(set(required) - _without_null(file.metadata.row_group(group)))
            if unsure:
                _without_nulls(file.read_row_group(group, columns=unsure), OPERATION_ROWS, path)


def _without_null(group: pq.RowGroupMetaData) -> set[str]:
    """The columns that have no null in a group, as the end of the file tells."""
    columns = [group.column(place) for place in range(group.num_columns)]
    told = [(column.path_in_schema, column.statistics) for column in columns]
    return {name for name, found in told if found is not None and found.has_null_count and found.null_count == 0}


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Whatever Arrow says against a file is a HistoryError."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        problem = f"the file is no Parquet or damaged ({error})"
        raise HistoryError(path, None, problem, "write it again") from error


def _without_nulls(rows: pa.Table, declared: pa.Schema, path: Path) -> pa.Table:
    """The rows. Raises HistoryError for a null in a column that is declared without."""
    for name in rows.schema.names:
        if name in declared.names and not declared.field(name).nullable and rows.column(name).null_count:
            raise HistoryError(path, None, f"column {name} has a null", "give every row a value in it")
    return rows


def check_schema(found: pa.Schema, path: Path, declared: pa.Schema = OPERATION_ROWS) -> None:
    """Raise HistoryError unless a file has the declared columns, each once."""
    for field in declared:
        if found.names.count(field.name) > 1:
            raise HistoryError(path, None, f"there are two columns {field.name}", "write each column once")
        if field.name in found.names and not found.field(field.name).type.equals(field.type):
            problem = f"column {field.name} is of type {found.field(field.name).type}, not {field.type}"
            raise HistoryError(path, None, problem, "write the columns as they are declared")
        if field.name not in found.names and field.name not in OPTIONAL:
            raise HistoryError(path, None, f"there is no column {field.name}", "write the columns as they are declared")


Stamp = tuple[int, int, int] | None
"""Size, time of the last change in nanoseconds, and number of a file; None of one that is not there."""


def stamps_of(files: Sequence[Path]) -> list[Stamp]:
    """What tells that a file was written again, also where it has as many rows as before."""
    return [_stamp(path) for path in files]


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def check_unchanged(files: Sequence[Path], before: Sequence[Stamp]) -> None:
    """Raise ChangedError for the first file that is not what it was: one pass may have read what another did not."""
    for path, old in zip(files, before, strict=True):
        if _stamp(path) != old:
            raise ChangedError(f"{path.name} was written again while it was judged")


def names_of(folder: Path) -> pa.Table:
    """The names of the objects (``OBJECT_ROWS``); none for those that go by their numbers.

    Raises HistoryError, also for an object that has two names, be they the same.
    """
    tables = [OBJECT_ROWS.empty_table()]
    for path in files_of(folder, OBJECTS):
        with _refusing(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
            check_schema(file.schema_arrow, path, OBJECT_ROWS)
            tables.append(_without_nulls(file.read(OBJECT_ROWS.names), OBJECT_ROWS, path).cast(OBJECT_ROWS))
    names = pa.concat_tables(tables).sort_by("object")
    numbers = names.column("object").to_numpy()
    for place in np.flatnonzero(numbers[1:] == numbers[:-1])[:1].tolist():
        first, second = names.column("key").slice(place, 2).to_pylist()
        problem = f"object {numbers[place]} has two names, {excerpt(first)} and {excerpt(second)}"
        raise HistoryError(folder / OBJECTS, None, problem, "give each object one")
    return names
