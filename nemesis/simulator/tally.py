"""What a sweep comes to: verdicts, how often the rare happened, how fast it went, and which seeds failed.

Owns the sums and the JSON document of a sweep. Valid runs mean something only if what is rare has happened in them: so
every rare event is listed with the share of runs that had it, and those that none had once more by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from nemesis.simulator.corpus import RunRow
from nemesis.simulator.not_promised import reason_of
from nemesis.simulator.rare import rares_of
from nemesis.variants.worlds import WorldKind
from nemesis.verdict import Verdict

ERROR = "error"
"""What stands for a verdict where the harness failed. Never a verdict itself."""


class Tally:
    """The sums over the rows that were added, all of one kind of world."""

    def __init__(self, rows: Iterable[RunRow] = (), *, world: WorldKind = WorldKind.QUORUM) -> None:
        self.rares = rares_of(world)
        """What should have happened, by name."""
        self.endings: Counter[str] = Counter()
        self.failures: list[RunRow] = []
        self.allowed: list[RunRow] = []
        """The runs in which something did not hold that was not promised there."""
        self.runs_with: Counter[str] = Counter()
        self.times: Counter[str] = Counter()
        self.violations: Counter[str] = Counter()
        self.simulated_ms = 0
        self.steps = 0
        self.acknowledged = 0
        for row in rows:
            self.add(row)

    def add(self, row: RunRow) -> None:
        """Count one run."""
        self.endings[row.verdict or ERROR] += 1
        if row.verdict != Verdict.VALID:
            self.failures.append(row)
        if row.not_promised:
            self.allowed.append(row)
        if row.violation is not None:
            self.violations[row.violation] += 1
        self.runs_with.update(row.rare.keys())
        self.times.update(row.rare)
        self.simulated_ms += row.simulated_ms
        self.steps += row.steps
        self.acknowledged += row.acknowledged

    @property
    def runs(self) -> int:
        """How many runs were counted."""
        return self.endings.total()

    @property
    def not_promised(self) -> Counter[str]:
        """What did not hold in some runs and was not promised there, with the number of these runs."""
        return Counter(reason_of(sentence) for row in self.allowed for sentence in row.not_promised)

    @property
    def never(self) -> list[str]:
        """The rare events that no run had."""
        return [rare for rare in self.rares if not self.runs_with[rare]]

    def rare(self) -> dict[str, dict[str, float]]:
        """Of each rare event: in how many runs it happened, in what share of them, and how often in all."""
        return {
            rare: {
                "runs": self.runs_with[rare],
                "share": round(self.runs_with[rare] / self.runs, 6) if self.runs else 0.0,
                "times": self.times[rare],
            }
            for rare in self.rares
        }

    def document(self, wall_s: float) -> dict[str, Any]:
        """The sums as JSON holds them. ``wall_s`` is how long the sweep took."""
        return {
            "verdicts": {ending: self.endings[ending] for ending in (*(v.value for v in Verdict), ERROR)},
            "violations": dict(self.violations.most_common()),
            "rare": self.rare(),
            "never": self.never,
            "acknowledged": self.acknowledged,
            "steps": self.steps,
            "speed": speed(self.runs, self.simulated_ms, wall_s),
            "failures": [_failure(row) for row in self.failures],
            "not_promised": [{"seed": row.seed, "what": list(row.not_promised)} for row in self.allowed],
        }


def speed(runs: int, simulated_ms: int, wall_s: float) -> Mapping[str, float]:
    """Runs a minute and simulated seconds a second of real time."""
    return {
        "wall_s": round(wall_s, 3),
        "simulated_s": simulated_ms / 1000,
        "seeds_per_minute": round(60 * runs / wall_s, 1),
        "simulated_s_per_wall_s": round(simulated_ms / 1000 / wall_s, 1),
    }


def _failure(row: RunRow) -> dict[str, Any]:
    told = {
        "seed": row.seed,
        "verdict": row.verdict,
        "violation": row.violation,
        "at_ms": row.at_ms,
        "reasons": list(row.reasons),
        "error": row.error,
        "command": row.command,
    }
    return {name: value for name, value in told.items() if value not in (None, [])}
