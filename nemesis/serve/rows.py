"""The rows of a run's tables, page by page.

Owns which rows are read: those of the page, from the shards that hold them, in batches; how many rows a shard has is
told by its footer, which is read once. A table of any size costs one page. Values come out as texts, none longer than a
bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.history.schemas import SCHEMAS, Kind
from nemesis.serve.store import NotInStoreError, Stamp, open_plain, shards, stamp_of

PAGE_ROWS = 100
BATCH_ROWS = 1000
TEXT_MAX = 2000
"""So many characters of a value are shown."""
SHARDS_REMEMBERED = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Rows of a table from ``start`` on, and how many the table has; ``columns`` name what each row holds."""

    kind: Kind
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    start: int
    total: int

    @property
    def end(self) -> int:
        """The number of the row after the last one of the page."""
        return self.start + len(self.rows)

    @property
    def before(self) -> int | None:
        """Where the page before begins, if there is any."""
        return max(self.start - PAGE_ROWS, 0) if self.start else None

    @property
    def after(self) -> int | None:
        """Where the next page begins, if there is any."""
        return self.end if self.rows and self.end < self.total else None

    @property
    def last(self) -> int:
        """Where the last page begins."""
        return max(self.total - 1, 0) // PAGE_ROWS * PAGE_ROWS


def read_page(folder: Path, kind: Kind, start: int) -> Page:
    """One page of a table. Raises NotInStoreError for a shard that cannot be read."""
    counted = [(path, _rows_in(path)) for path in shards(folder, kind)]
    total = sum(rows for _, rows in counted)
    start = min(max(start, 0), max(total - 1, 0))
    found: list[Sequence[str]] = []
    columns: Sequence[str] = SCHEMAS[kind].names
    begin = 0
    for path, rows in counted:
        if begin + rows > start and len(found) < PAGE_ROWS:
            columns, new = _read(path, max(start - begin, 0), PAGE_ROWS - len(found))
            found += new
        begin += rows
    return Page(kind=kind, columns=columns, rows=found, start=start, total=total)


def _rows_in(path: Path) -> int:
    stamp = stamp_of(path)
    return 0 if stamp is None else _counted(path, stamp)


@lru_cache(maxsize=SHARDS_REMEMBERED)
def _counted(path: Path, stamp: Stamp) -> int:
    del stamp
    try:
        with open_plain(path) as file:
            return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise NotInStoreError(f"{path.parent.name}/{path.name} cannot be read: {error}") from None


def _read(path: Path, skip: int, count: int) -> tuple[Sequence[str], list[Sequence[str]]]:
    """So many rows of a shard, after the first ones are skipped, of the row groups that hold them."""
    found: list[Sequence[str]] = []
    try:
        with open_plain(path) as opened, pq.ParquetFile(opened) as file:
            columns: Sequence[str] = file.schema_arrow.names
            for batch in _batches(file, skip, count):
                found += zip(*(map(shown, column.to_pylist()) for column in batch.columns), strict=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise NotInStoreError(f"{path.parent.name}/{path.name} cannot be read: {error}") from None
    return columns, found


def _batches(file: pq.ParquetFile, skip: int, count: int) -> Iterator[pa.RecordBatch]:
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if skip >= rows:
            skip -= rows
            continue
        for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group]):
            taken = batch.slice(min(skip, batch.num_rows), count)
            skip = max(skip - batch.num_rows, 0)
            count -= taken.num_rows
            if taken.num_rows:
                yield taken
            if not count:
                return


def shown(value: Any) -> str:
    """A value of a table as text, no longer than TEXT_MAX; nothing for null."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list() if value and isinstance(value[0], dict) and value[0].keys() == {"offset", "value"}:
            text = ", ".join(f"{record['offset']}: {record['value']}" for record in value[: TEXT_MAX // 4])
        case list():
            text = ", ".join(map(shown, value[: TEXT_MAX // 2]))
        case _:
            text = str(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
