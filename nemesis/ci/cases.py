"""One run as continuous integration counts it: a case with a name, a verdict, and what to show when it is not valid.

Owns the value, and how a judged run becomes one. Knows no format.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nemesis.ci.judged import UNKNOWN, VALID, VERDICTS, JudgedRun, NotJudgedError, judged_run, verdict_in
from nemesis.ci.words import told

CASES_MAX = 10_000
"""Cases of a corpus: what reads JUnit files holds all of one at once."""


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


def case_of_folder(folder: Path) -> Case:
    """The case of the run in a folder. One that was not recorded here is called by its folder, and has no seed.

    Raises NotJudgedError for one that was not judged.
    """
    try:
        return case_of(judged_run(folder))
    except NotJudgedError:
        verdict, said = verdict_in(folder)
        command = shlex.join(("nemesis", "check", str(folder)))
        return plain_case(name=str(folder), verdict=verdict, said=said, command=command)


def plain_case(*, name: str, verdict: str, said: Sequence[str], command: str = "") -> Case:
    """The case of what has a verdict and a few words, and nothing else that is known; ``name`` is where it is."""
    again = [f"again: {command}"] if command else []
    text = "\n".join([f"verdict: {verdict}", *(f"  {line}" for line in said), *again])
    properties = {"nemesis_verdict": verdict, "nemesis_store": name}
    message = "; ".join(said)
    return Case(
        group="nemesis", name=name, verdict=verdict, message=message, text=text, command=command, properties=properties
    )


def at_most(cases: Sequence[Case], count: int = CASES_MAX) -> list[Case]:
    """The cases, or the worst of them and one for all others, which has the worst verdict of those."""
    if len(cases) <= count:
        return list(cases)
    order = sorted(cases, key=lambda case: -VERDICTS.index(case.outcome))
    others = order[count:]
    said = (f"{len(others)} more, of which the worst is {others[0].verdict}",)
    return [*order[:count], plain_case(name="all others", verdict=others[0].verdict, said=said)]


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
