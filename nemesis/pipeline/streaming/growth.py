"""Which shards of a run there are by now: the beginning of its tables, growing.

Owns the rule of what counts while a run goes on: the shards of history and events by their numbers, up to the first
that is not there yet; each is whole when it appears. Reads the ends of files only, and each of them once. Does not know
what the rows mean, and does not look at the replicas' logs, which are read when the run is over.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.history.schemas import SCHEMAS, Kind
from nemesis.history.writer import shard_name

FOLLOWED = (Kind.HISTORY, Kind.EVENTS)
"""The tables that grow while a run goes on."""
EVENTS_MAX = 4_000_000
"""Events of the history that are followed at most: each look judges again what they make of a topic-partition."""


class FollowError(Exception):
    """The run cannot be judged any further while it goes on. Its verdict at the end is as good as without."""


class TooLongError(FollowError):
    """The history has outgrown being judged again and again."""


class Growth:
    """The shards of one run folder. Looking again finds those that have been added."""

    def __init__(self, folder: Path, *, events_max: int = EVENTS_MAX) -> None:
        self._folder = folder
        self._events_max = events_max
        self._events = 0
        self._paths: dict[Kind, tuple[Path, ...]] = dict.fromkeys(FOLLOWED, ())

    @property
    def paths(self) -> dict[Kind, tuple[Path, ...]]:
        """All shards found so far, in order."""
        return dict(self._paths)

    def look(self) -> dict[Kind, tuple[Path, ...]]:
        """The shards that have been added since the last look, in order.

        Raises ``FollowError`` for a shard that is damaged, and where the history has become too long.
        """
        return {kind: tuple(self._added(kind)) for kind in FOLLOWED}

    def _added(self, kind: Kind) -> list[Path]:
        added: list[Path] = []
        while (path := self._folder / kind / shard_name(len(self._paths[kind]))).is_file():
            rows = _rows(path, kind)
            if kind is Kind.HISTORY:
                self._count(rows)
            self._paths[kind] += (path,)
            added.append(path)
        return added

    def _count(self, rows: int) -> None:
        self._events += rows
        if self._events > self._events_max:
            raise TooLongError(f"the history has become longer than {self._events_max} events")


def _rows(path: Path, kind: Kind) -> int:
    try:
        metadata = pq.read_metadata(path)
        found = metadata.schema.to_arrow_schema()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise FollowError(f"{path} cannot be read: {error}") from error
    if found.names != SCHEMAS[kind].names or found.types != SCHEMAS[kind].types:
        raise FollowError(f"{path} has other columns than are declared")
    return int(metadata.num_rows)
