"""What was planted where, as a value and as JSON.

Owns the form of the manifest. A key is a number in the histories of objects, and a topic-partition in those of logs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.synth.plan import Plan

MANIFEST_SUFFIX = ".manifest"
"""No history has such a name: a folder that is checked may have manifests in it."""


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
