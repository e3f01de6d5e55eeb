"""Find and read the shards of a run folder, and say what is wrong with them.

Owns the rule of what counts of a damaged folder: the shards up to the first that is missing or unreadable. What comes
after a gap would be judged without its past, and could be convicted wrongly. Does not know what the rows mean.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nemesis.history.errors import HistoryError
from nemesis.history.schemas import COMPLETE_MARKER, SCHEMAS, Kind

SHARD_BYTES_MAX = 1024**3
"""How much a shard, which holds what a run did in a few seconds, may come to when it is read."""
TABLE_BYTES_MAX = 4 * 1024**3
"""How much all shards of one table of a run may come to when they are read together."""
_SHARD_NAME = re.compile(r"part-(\d{5,})\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardListing:
    """The usable shards of one table in order, and one sentence for each thing that is wrong with the others."""

    kind: Kind
    paths: tuple[Path, ...]
    problems: tuple[str, ...]


def is_complete(folder: Path) -> bool:
    """Whether the history was closed: without its end a run is *unknown* at best."""
    return (folder / Kind.HISTORY / COMPLETE_MARKER).is_file()


def list_shards(folder: Path, kind: Kind) -> ShardListing:
    """The shards of one table up to the first that is missing or unreadable.

    Raises ``HistoryError`` when there is no such run folder, or when a readable shard has not the declared columns.
    """
    if not (folder / Kind.HISTORY).is_dir():
        raise HistoryError(f"{folder} is not a run folder: it has no {Kind.HISTORY}/ with the recorded operations")
    numbered = sorted((int(match[1]), path) for path, match in _shard_matches(folder / kind))
    paths: list[Path] = []
    rows = 0
    for number, path in numbered:
        found = _gap(kind, len(paths), path) if number != len(paths) else _rows_in(kind, path)
        if isinstance(found, str):
            return ShardListing(kind=kind, paths=tuple(paths), problems=(found,))
        paths.append(path)
        rows += found
    problem = _miscounted(folder, kind, rows)
    return ShardListing(kind=kind, paths=tuple(paths), problems=() if problem is None else (problem,))


def _shard_matches(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    if not folder.is_dir():
        return []
    matches = ((path, _SHARD_NAME.fullmatch(path.name)) for path in folder.iterdir())
    return [(path, match) for path, match in matches if match is not None]


def _miscounted(folder: Path, kind: Kind, found: int) -> str | None:
    """What is wrong with a table of a complete history that has not the rows that its marker tells."""
    if not is_complete(folder):
        return None
    try:
        told = int(json.loads((folder / Kind.HISTORY / COMPLETE_MARKER).read_text(encoding="utf-8"))[kind])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return f"{Kind.HISTORY}/{COMPLETE_MARKER} does not say how many rows {kind}/ has, so some may be missing"
    if found == told:
        return None
    return f"{kind}/ has {found} rows, and {Kind.HISTORY}/{COMPLETE_MARKER} says that it had {told}"


def _gap(kind: Kind, expected: int, found: Path) -> str:
    return f"{kind}/part-{expected:05d}.parquet is missing: {found.name} and what follows it is not judged"


def _rows_in(kind: Kind, path: Path) -> int | str:
    """How many rows a shard has, or why it cannot be read."""
    try:
        with path.open("rb") as file:
            told = pq.read_metadata(file)
        found = told.schema.to_arrow_schema()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        return f"{kind}/{path.name} cannot be read ({error}): it and what follows it is not judged"
    declared = SCHEMAS[kind]
    if found.names != declared.names or found.types != declared.types:
        raise HistoryError(f"{path} has columns {found.names}, declared are {declared.names} with their types")
    return int(told.num_rows)


def read_table(listing: ShardListing) -> pa.Table:
    """All rows of the usable shards in order; an empty table with the declared columns when there are none.

    Raises ``HistoryError`` when what a shard holds is not what was written: no verdict can rest on it; and when all of
    them come to more than there is room for.
    """
    tables: list[pa.Table] = []
    size = 0
    for path in listing.paths:
        tables.append(_rows_of(path, SCHEMAS[listing.kind]))
        size += tables[-1].nbytes
        if size > TABLE_BYTES_MAX:
            what = f"{path.parent}/ comes to more than TABLE_BYTES_MAX, {TABLE_BYTES_MAX} bytes in memory"
            raise HistoryError(
                f"{what}: --engine spark reads it in parts, and judges each topic-partition that is not too large"
            )
    return pa.concat_tables(tables) if tables else SCHEMAS[listing.kind].empty_table()


def _rows_of(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        with pq.ParquetFile(path, read_dictionary=texts, page_checksum_verification=True) as file:
            _check_size(path, sum(file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)))
            table = file.read()
        _check_size(path, sum(_text_bytes(table.column(name)) for name in texts))
        table = table.cast(schema)
        table.validate(full=True)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise HistoryError(f"{path} is damaged, so the run cannot be judged: {error}") from error
    return table


def _text_bytes(column: pa.ChunkedArray) -> int:
    """How many bytes the texts of all rows come to, of which each is there once."""
    lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
    return sum(pc.sum(own).as_py() or 0 for own in lengths)


def _check_size(path: Path, size: int) -> None:
    if size > SHARD_BYTES_MAX:
        problem = f"comes to {size} bytes in memory, more than SHARD_BYTES_MAX, {SHARD_BYTES_MAX}"
        raise HistoryError(f"{path} {problem}: no run writes such a shard; look at where it comes from")


def read_history(folder: Path) -> pa.Table:
    """The recorded operations (``HISTORY_SCHEMA``), in order of their index."""
    return read_table(list_shards(folder, Kind.HISTORY))


def read_replica_logs(folder: Path) -> pa.Table:
    """The replicas' final logs (``REPLICA_LOG_SCHEMA``), in the order in which they were dumped."""
    return read_table(list_shards(folder, Kind.LOGS))


def read_replica_events(folder: Path) -> pa.Table:
    """What the replicas reported of themselves (``REPLICA_EVENT_SCHEMA``)."""
    return read_table(list_shards(folder, Kind.EVENTS))
