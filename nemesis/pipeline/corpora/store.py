"""Folders of operations: ``operations/*.parquet`` and, where objects have names, ``objects/*.parquet``.

Owns the layout and the writer. Files have at most ``FILE_ROWS`` rows in groups of ``GROUP_ROWS``, so that many tasks
can read at once. A file has its name when it is whole. A folder that grows is read as far as it is there. What is not
understood is refused, never passed over: a verdict on the rest would be worth nothing. A small file takes little
memory: its end is believed only as far as the limits go, and texts are read by their dictionaries, and measured before
each row gets its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nemesis.formats.errors import HistoryError, excerpt, refuse
from nemesis.formats.limits import GROUP_BYTES_MAX
from nemesis.pipeline.corpora.plan import ChangedError
from nemesis.pipeline.corpora.schemas import OBJECT_ROWS, OBJECTS, OPERATION_ROWS, OPERATIONS, OPTIONAL

FILE_ROWS = 1_000_000
GROUP_ROWS = 250_000
TEXT_BYTES = 1024
"""How many bytes a text has that is not long: there is room for as many of them as there are operations in a call."""
LONG_TEXT_BYTES_MAX = 256 * 1024**2
"""How many bytes the texts that are read together may have beyond those: of a folder, or of a row group by a task."""


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
    texts = _Texts()
    for path in files:
        with _opened(path) as file:
            for batch in file.iter_batches(batch_size=GROUP_ROWS):
                yield _without_nulls(texts.spelled_out(pa.Table.from_batches([batch]), path), OPERATION_ROWS, path)


def rows_in(path: Path, group: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The same of one row group, with just these columns; null where the file has none of that name."""
    declared = pa.schema([OPERATION_ROWS.field(name) for name in columns])
    texts = _Texts()
    with _opened(path) as file:
        for batch in file.iter_batches(batch_size=GROUP_ROWS, row_groups=[group], columns=list(columns)):
            rows = _without_nulls(texts.spelled_out(pa.Table.from_batches([batch]), path), OPERATION_ROWS, path)
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

    Reads the columns in which there must be none: what the end of the file tells of a column, Arrow does not check, and
    ends the process over it.
    """
    required = [field.name for field in OPERATION_ROWS if not field.nullable]
    with _opened(path) as file:
        for batch in file.iter_batches(batch_size=GROUP_ROWS, columns=required):
            _without_nulls(pa.Table.from_batches([batch]), OPERATION_ROWS, path)


class _Texts:
    """Counts what the texts of batches that are read together come to."""

    def __init__(self) -> None:
        self._bytes = 0

    def spelled_out(self, rows: pa.Table, path: Path) -> pa.Table:
        """The rows, each with its own texts. Raises HistoryError where these are too long."""
        for place, field in enumerate(rows.schema):
            if not pa.types.is_dictionary(field.type):
                continue
            for chunk in rows.column(place).chunks:
                lengths = pc.subtract(pc.binary_length(chunk.dictionary).cast(pa.int64()), TEXT_BYTES)
                self._bytes += pc.sum(pc.max_element_wise(lengths, 0).take(chunk.indices)).as_py() or 0
            if self._bytes > LONG_TEXT_BYTES_MAX:
                problem = f"its texts have {self._bytes} bytes beyond {TEXT_BYTES} each"
                problem = f"{problem}, more than LONG_TEXT_BYTES_MAX, {LONG_TEXT_BYTES_MAX}"
                refuse(path, None, problem, "judge it in parts, or write shorter values")
            rows = rows.set_column(place, field.name, rows.column(place).cast(field.type.value_type))
        return rows


@contextmanager
def _opened(path: Path, declared: pa.Schema = OPERATION_ROWS) -> Iterator[pq.ParquetFile]:
    """A file whose texts are read by their dictionaries. Raises HistoryError unless it has the declared columns, and
    no row group that is too large."""
    with _refusing(path):
        with pq.ParquetFile(path) as file:
            check_schema(file.schema_arrow, path, declared)
            _check_sizes(file.metadata, path)
            there = set(file.schema_arrow.names)
        texts = [field.name for field in declared if pa.types.is_string(field.type) and field.name in there]
        with pq.ParquetFile(path, read_dictionary=texts, page_checksum_verification=True) as file:
            yield file


def _check_sizes(metadata: pq.FileMetaData, path: Path) -> None:
    sizes = (metadata.row_group(place).total_byte_size for place in range(metadata.num_row_groups))
    largest = max(sizes, default=0)
    if largest > GROUP_BYTES_MAX:
        problem = f"a row group has {largest} bytes when it is decompressed"
        refuse(path, None, f"{problem}, more than GROUP_BYTES_MAX, {GROUP_BYTES_MAX}", "write smaller row groups")


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Whatever Arrow says against a file is a HistoryError."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
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
    texts = _Texts()
    for path in files_of(folder, OBJECTS):
        with _opened(path, OBJECT_ROWS) as file:
            rows = texts.spelled_out(file.read(OBJECT_ROWS.names), path)
            tables.append(_without_nulls(rows, OBJECT_ROWS, path).cast(OBJECT_ROWS))
    names = pa.concat_tables(tables).sort_by("object")
    numbers = names.column("object").to_numpy()
    for place in np.flatnonzero(numbers[1:] == numbers[:-1])[:1].tolist():
        first, second = names.column("key").slice(place, 2).to_pylist()
        problem = f"object {numbers[place]} has two names, {excerpt(first)} and {excerpt(second)}"
        raise HistoryError(folder / OBJECTS, None, problem, "give each object one")
    return names
