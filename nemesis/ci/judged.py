"""A run that was judged, as one value read from its folder.

Owns the reading of ``test.json`` and ``results.json`` for those who tell others of a run, and the order in which
anomalies are told: worst first. Judges nothing.

What stays of a run that was valid: enough to judge it again, not what only an accused needs.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VALID, INVALID, UNKNOWN = "valid", "invalid", "unknown"
VERDICTS = (VALID, UNKNOWN, INVALID)
"""From good to bad."""
VIOLATION = "violation"
MORE = "more"
REPORT_NAME = "report.html"


class NotJudgedError(Exception):
    """A run that was not brought to a verdict: the harness failed, or refused; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """What is known of a run. ``verdict`` is valid, invalid or unknown; ``reasons`` say why, the worst first.

    ``anomalies`` are rows of ``results.json``, violations first and in the order of ``reasons``. ``argv`` is the
    command that repeats the run's faults. ``stats`` are the counts of what it did.
    """

    folder: Path
    verdict: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    anomalies: tuple[Mapping[str, Any], ...]
    stats: Mapping[str, int]
    faults_bit: bool
    seed: int
    workload: str
    schedule: str
    variant: str | None
    argv: tuple[str, ...]

    @property
    def is_valid(self) -> bool:
        """Whether every promise was kept, and everything was there to show that."""
        return self.verdict == VALID

    @property
    def violations(self) -> tuple[Mapping[str, Any], ...]:
        """The anomalies that convict."""
        return tuple(row for row in self.anomalies if row["severity"] == VIOLATION)

    @property
    def found(self) -> frozenset[str]:
        """The names of the anomalies that convict, such as ``lost-write``."""
        return frozenset(row["anomaly"] for row in self.violations)

    @property
    def report(self) -> Path | None:
        """The page, where one was written."""
        path = self.folder / REPORT_NAME
        return path if path.exists() else None

    @property
    def command(self) -> str:
        """The command that repeats the run's faults, for a shell."""
        return shlex.join(self.argv)


def judged_run(folder: Path) -> JudgedRun:
    """Read what is known of the run in ``folder``. Raises NotJudgedError when it was not judged."""
    with _reading(folder):
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        test = json.loads((folder / "test.json").read_text(encoding="utf-8"))
        return JudgedRun(
            folder=folder.resolve(),
            verdict=results["verdict"],
            reasons=tuple(results["reasons"]),
            warnings=tuple(results["warnings"]),
            anomalies=_worst_first(results["anomalies"], results["reasons"]),
            stats=results["stats"],
            faults_bit=results["faults_bit"],
            seed=test["seed"],
            workload=test["workload"],
            schedule=test["options"]["schedule"],
            variant=test["options"].get("variant"),
            argv=tuple(test["argv"]),
        )


def verdict_in(folder: Path) -> tuple[str, tuple[str, ...]]:
    """The verdict on a run that anybody may have recorded, and what is said with it. Raises NotJudgedError."""
    with _reading(folder):
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        return VERDICTS[VERDICTS.index(results["verdict"])], (*results["reasons"], *results["warnings"])


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Raise NotJudgedError for what is not there or makes no sense."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotJudgedError(f"{folder} was not judged: there is no {Path(error.filename).name}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotJudgedError(f"what {folder} says of its run cannot be read: {error!r}") from None


def _worst_first(anomalies: Sequence[Mapping[str, Any]], reasons: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Violations before the rest, kinds in the order of the reasons, and what only counts the others of a kind last."""
    weights = {reason.partition(":")[0]: weight for weight, reason in reversed(list(enumerate(reasons)))}

    def order(row: Mapping[str, Any]) -> tuple[bool, int, bool]:
        return row["severity"] != VIOLATION, weights.get(row["anomaly"], len(weights)), MORE in row["evidence"]

    return tuple(sorted(anomalies, key=order))


def worst(verdicts: Sequence[str]) -> str:
    """The verdict on all: a violation outweighs what is unknown, and that outweighs what is valid."""
    return max(verdicts, key=VERDICTS.index, default=UNKNOWN)


DROPPED = ("nodes", "report.html")
"""The replicas' data and log files, and a page of some megabytes that ``nemesis check`` writes again."""


def make_small(folder: Path) -> None:
    """Drop what takes the most room; what is recorded and how it was judged stays."""
    for name in DROPPED:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
