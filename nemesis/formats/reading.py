"""A file of any known format, read: the way in for whoever wants the events and not the format.

Owns the table of readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nemesis.formats.errors import refuse
from nemesis.formats.events import Event, EventColumns, checked
from nemesis.formats.jepsen_edn import read_jepsen_edn, read_maelstrom, read_porcupine_kv
from nemesis.formats.jepsen_log import read_jepsen_log
from nemesis.formats.json_lines import read_json
from nemesis.formats.keyed import KeyPairs, split_keys
from nemesis.formats.pairing import operations_of
from nemesis.formats.recognise import Format, recognised
from nemesis.linearizability.packed import PackedOperations


def _read_parquet(path: Path) -> Iterator[Event | None]:
    from nemesis.formats.parquet import read_parquet

    return read_parquet(path)


READERS: dict[Format, Callable[[Path], Iterator[Event | None]]] = {
    Format.EDN: read_jepsen_edn,
    Format.JEPSEN_LOG: read_jepsen_log,
    Format.JSON: read_json,
    Format.PORCUPINE_KV: read_porcupine_kv,
    Format.MAELSTROM: read_maelstrom,
    Format.PARQUET: _read_parquet,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory:
    """What a file holds: the events of its clients in order, and how many events were others'.

    ``has_keys_from_values`` says that keys were taken out of values because these look like it, and nobody said so.
    ``lines_missing`` is how many indexes no line has, where the file gives indexes.
    """

    path: Path
    format: Format
    events: EventColumns
    skipped: int
    has_keys_from_values: bool
    lines_missing: int = 0

    @property
    def doubt(self) -> str | None:
        """Why nothing that rests on all lines being there convicts; absent where, by the indexes, they are."""
        if not self.lines_missing:
            return None
        remedy = "leave the indexes out, or number the lines again, if these are all that happened"
        return f"{self.lines_missing} lines are missing by the indexes, and might explain it: {remedy}"

    def operations(self) -> PackedOperations:
        """The events paired, in the order of their invocations. Raises HistoryError."""
        return operations_of(self.events, self.path)


@dataclass(slots=True)
class _Gaps:
    """Counts the indexes that no line has: the first is 0 or 1, and lines without an index may have those between."""

    missing: int = 0
    _last: int | None = None
    _since: int = 0

    def see(self, event: Event | None) -> None:
        """The next line; None for one that is no client's."""
        if event is None or event.index is None:
            self._since += 1
            return
        expected = self._since + (1 if self._last is None else self._last + 1)
        self.missing += max(0, event.index - expected)
        self._last, self._since = event.index, 0


def read_history_file(path: Path, *, format: Format | None = None, key_pairs: KeyPairs = KeyPairs.AUTO) -> ReadHistory:
    """Read a file as ``format``, or as what it begins like.

    Raises HistoryError, also for what is there and is no file: a pipe or a device may have no end.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        refuse(path, None, "this is no file with an end", "copy what comes from it into a file")
    known = recognised(path) if format is None else format
    events, skipped, gaps = EventColumns(path), 0, _Gaps()
    for event in checked(READERS[known](path), path):
        gaps.see(event)
        if event is None:
            skipped += 1
        else:
            events.append(event)
    is_always_keyed = known is Format.MAELSTROM and key_pairs is KeyPairs.AUTO
    keyed, is_keyed = split_keys(events, path, KeyPairs.YES if is_always_keyed else key_pairs)
    is_guess = is_keyed and key_pairs is KeyPairs.AUTO and not is_always_keyed
    return ReadHistory(
        path=path,
        format=known,
        events=keyed,
        skipped=skipped,
        has_keys_from_values=is_guess,
        lines_missing=gaps.missing,
    )
