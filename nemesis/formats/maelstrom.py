"""What Maelstrom leaves of its workload ``lin-kv``: Jepsen's ``history.edn`` with ``[key value]`` throughout.

Owns what differs from other histories of Jepsen: each value is a pair with the key first. Its ``history.txt`` is read
as any of Jepsen's. Source: ``maelstrom.workload.lin-kv``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nemesis.formats.errors import excerpt, refuse
from nemesis.formats.events import Event
from nemesis.formats.jepsen_edn import read_jepsen_edn

OPERATIONS = ("read", "write", "cas")


def read_maelstrom(path: Path) -> Iterator[Event | None]:
    """The events in order, None for each that is no client's. Raises HistoryError."""
    for event in read_jepsen_edn(path):
        if event is not None and event.f not in OPERATIONS:
            remedy = f"give one of {', '.join(OPERATIONS)}, as the workload lin-kv does; or name another --format"
            refuse(path, event.line, f"the operation {excerpt(event.f)} is none of lin-kv", remedy)
        yield event
