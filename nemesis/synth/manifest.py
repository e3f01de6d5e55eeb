"""What was planted where, as a value and as JSON.

Owns the form of the manifest, and how its file is told from a history. A key is a number in the histories of objects,
and a topic-partition in those of logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nemesis.synth.plan import Plan

MANIFEST_NAME = "manifest.json"
MANIFEST_BYTES_MAX = 64 * 1024 * 1024
"""A longer file is taken for what its name does not say."""
_PARTS = frozenset({"plan", "events", "planted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One anomaly. ``op_indexes`` are the invocations of the operations that show it; of replicas there are none.

    ``severity`` is what a judge should say of it: *violation*, *unknown* where it can only be suspected, or *allowed*.
    ``implies`` are the anomalies that a judge may also report of these keys, because of this one.
    """

    anomaly: str
    keys: tuple[int | str, ...]
    op_indexes: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    severity: str = "violation"
    implies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A history that was made up: how, how much of it there is, and what is wrong in it."""

    plan: Plan
    events: int
    planted: Sequence[Planted]

    def to_json(self) -> str:
        """One indented document with a newline at its end; the same plan gives the same bytes."""
        anomalies = dict(sorted(self.plan.anomalies.items()))
        plan = asdict(self.plan) | {"model": self.plan.model.value, "anomalies": anomalies}
        document = {"plan": plan, "events": self.events, "planted": [asdict(one) for one in self.planted]}
        return json.dumps(document, indent=1) + "\n"

    def write(self, path: Path) -> None:
        """Write it."""
        path.write_text(self.to_json(), encoding="utf-8")


def without_manifests(files: Iterable[Path]) -> list[Path]:
    """The files that are no manifests, in their order: a corpus that was made up has one beside each history."""
    return [file for file in files if not is_manifest(file)]


def is_manifest(file: Path) -> bool:
    """Whether a file is one by its name and by all that is in it. What cannot be read is none: it may be a history."""
    if file.name != MANIFEST_NAME and not file.name.endswith(f".{MANIFEST_NAME}"):
        return False
    try:
        if file.stat().st_size > MANIFEST_BYTES_MAX:
            return False
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.keys() == _PARTS and isinstance(document["planted"], list)
