"""One run as continuous integration counts it: a case with a name, a verdict, and what to show when it is not valid.

Owns the value, and how a judged run becomes one. Knows no format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nemesis.ci.judged import UNKNOWN, VALID, JudgedRun
from nemesis.ci.words import told


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``message`` is one line, ``text`` all of it; ``command`` repeats the run.

    ``file`` and ``line`` are those of a test; ``is_expected`` says that the test wanted this verdict.
    """

    group: str
    name: str
    verdict: str
    message: str
    text: str = ""
    command: str = ""
    seconds: float = 0.0
    properties: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    line: int = 0
    is_expected: bool = False

    @property
    def outcome(self) -> str:
        """The verdict as it counts: what a test has expected is as good as valid."""
        return VALID if self.is_expected else self.verdict

    @property
    def is_passed(self) -> bool:
        """Whether it counts as passed."""
        return self.outcome == VALID


def case_of(run: JudgedRun, *, group: str = "nemesis", name: str | None = None, seconds: float = 0.0) -> Case:
    """The case of a judged run, called by its workload, schedule, variant and seed where it has no name."""
    parts = (run.workload, run.schedule, run.variant, f"seed {run.seed}")
    return Case(
        group=group,
        name=name or ", ".join(part for part in parts if part),
        verdict=run.verdict,
        message="; ".join([*run.reasons, *run.warnings]),
        text=told(run),
        command=run.command,
        seconds=seconds,
        properties=properties_of(run),
    )


def properties_of(run: JudgedRun) -> dict[str, str]:
    """What a reader of a JUnit file wants to know of a run, valid or not."""
    return {"nemesis_seed": str(run.seed), "nemesis_verdict": run.verdict, "nemesis_store": str(run.folder)}


def properties_without_verdict(*, seed: int, store: Path, error: str) -> dict[str, str]:
    """The same of a run that came to no verdict, ``error`` says why; ``store`` is where its folder would be."""
    return {
        "nemesis_seed": str(seed),
        "nemesis_verdict": UNKNOWN,
        "nemesis_store": str(store),
        "nemesis_error": error,
    }


def undecided(*, group: str, name: str, reason: str, seconds: float = 0.0, command: str = "") -> Case:
    """The case of a run that came to no verdict: unknown, whatever kept it from one."""
    lines = reason.strip().splitlines() or ["no verdict"]
    return Case(
        group=group, name=name, verdict=UNKNOWN, message=lines[0], text=reason, seconds=seconds, command=command
    )
