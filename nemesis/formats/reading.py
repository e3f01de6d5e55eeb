"""A file of any known format, read: the way in for whoever wants the events and not the format.

Owns the table of readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nemesis.formats.errors import refuse
from nemesis.formats.event_columns import EventColumns
from nemesis.formats.events import Event, checked
from nemesis.formats.jepsen_edn import read_jepsen_edn
from nemesis.formats.jepsen_log import read_jepsen_log
from nemesis.formats.json_lines import read_json
from nemesis.formats.keyed import KeyPairs, split_keys
from nemesis.formats.maelstrom import read_maelstrom
from nemesis.formats.pairing import operations_of
from nemesis.formats.porcupine_kv import read_porcupine_kv
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
    """

    path: Path
    format: Format
    events: EventColumns
    skipped: int
    has_keys_from_values: bool

    def operations(self) -> PackedOperations:
        """The events paired, in the order of their invocations. Raises HistoryError."""
        return operations_of(self.events, self.path)


def read_history_file(path: Path, *, format: Format | None = None, key_pairs: KeyPairs = KeyPairs.AUTO) -> ReadHistory:
    """Read a file as ``format``, or as what it begins like.

    Raises HistoryError, also for what is there and is no file: a pipe or a device may have no end.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        refuse(path, None, "this is no file with an end", "copy what comes from it into a file")
    known = recognised(path) if format is None else format
    events, skipped = EventColumns(path), 0
    for event in checked(READERS[known](path), path):
        if event is None:
            skipped += 1
        else:
            events.append(event)
    is_always_keyed = known is Format.MAELSTROM and key_pairs is KeyPairs.AUTO
    keyed, is_keyed = split_keys(events, path, KeyPairs.YES if is_always_keyed else key_pairs)
    is_guess = is_keyed and key_pairs is KeyPairs.AUTO and not is_always_keyed
    return ReadHistory(path=path, format=known, events=keyed, skipped=skipped, has_keys_from_values=is_guess)
