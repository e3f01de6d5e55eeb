"""One run as continuous integration counts it: a case with a name, a verdict, and what to show when it is not valid.

Owns the value, and how a judged run becomes one. Knows no format.

Why a run is not valid, in lines for a terminal.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemesis.ci.judged import INVALID, UNKNOWN, VALID, VERDICTS, JudgedRun, NotJudgedError, judged_run, verdict_in

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


ANOMALIES_MAX = 5
PER_KIND_MAX = 2
OPERATIONS_MAX = 3
EVIDENCE_MAX = 160
TIMES = ("invoke_ns", "return_ns")
MEANINGS: Mapping[str, str] = {
    VALID: "every promise that was judged was kept",
    INVALID: "at least one promise was broken",
    UNKNOWN: "nothing can be said for sure, and that is not a pass",
}


def told(run: JudgedRun, *again: str) -> str:
    """All that is needed to begin with: verdict, reasons, the worst anomalies, and the commands that repeat it.

    ``again`` are commands beside that of the run.
    """
    return "\n".join(_lines(run, *again))


def _lines(run: JudgedRun, *again: str) -> Iterator[str]:
    yield f"verdict: {run.verdict}: {MEANINGS[run.verdict]}"
    yield from (f"  {reason}" for reason in run.reasons)
    yield from (f"  warning: {warning}" for warning in run.warnings)
    yield from _anomalies(run)
    variant = f", variant {run.variant}" if run.variant else ""
    yield f"seed: {run.seed} (schedule {run.schedule}{variant})"
    for command in (*again, run.command):
        yield f"again: {command}"
    if run.report is not None:
        yield f"report: {run.report}"
    yield f"run: {run.folder}"


def _anomalies(run: JudgedRun) -> Iterator[str]:
    chosen = worst_anomalies(run)
    if chosen:
        yield f"worst anomalies ({len(chosen)} of {len(run.anomalies)} that are listed in results.json):"
    for row in chosen:
        yield f"  {titled(row)}: {row['detail']}"
        yield from (f"    {line}" for line in _evidence(row["evidence"]))


def _evidence(evidence: Mapping[str, Any]) -> Iterator[str]:
    """The operations that cannot all be true, a line each; evidence of another kind as it is."""
    operations = [one.get("operation", one) for one in evidence.get("operations") or evidence.get("seen") or ()]
    if operations and all("process" in one for one in operations):
        yield from map(_operation, operations[:OPERATIONS_MAX])
    elif evidence:
        yield _shortened(json.dumps(evidence, sort_keys=True))


def _operation(one: Mapping[str, Any]) -> str:
    """``append of 16 at offset 4 by process 0, 10.083 s to 10.312 s: ok``."""
    value = f" of {one['value']}" if one.get("value") is not None else ""
    offset = f" at offset {one['offset']}" if one.get("offset") is not None else ""
    begin_s, end_s = (None if one.get(name) is None else f"{one[name] / 1e9:.3f} s" for name in TIMES)
    return (
        f"{one.get('f')}{value}{offset} by process {one.get('process')}, {begin_s} to {end_s or 'the end'}: "
        f"{one.get('type')}"
    )


def worst_anomalies(run: JudgedRun) -> tuple[Mapping[str, Any], ...]:
    """The first few, of one kind no more than ``PER_KIND_MAX``."""
    seen: dict[str, int] = {}
    chosen = []
    for row in run.anomalies:
        seen[row["anomaly"]] = seen.get(row["anomaly"], 0) + 1
        if seen[row["anomaly"]] <= PER_KIND_MAX:
            chosen.append(row)
    return tuple(chosen[:ANOMALIES_MAX])


def titled(row: Mapping[str, Any]) -> str:
    """``lost-write in topic1-0 at offset 17``."""
    where = f" in {row['topic_partition']}" if row["topic_partition"] else ""
    offsets = ", ".join(map(str, row["offsets"][:PER_KIND_MAX]))
    more = " and more" if len(row["offsets"]) > PER_KIND_MAX else ""
    return f"{row['anomaly']}{where}{f' at offset {offsets}{more}' if offsets else ''}"


def _shortened(text: str) -> str:
    return text if len(text) <= EVIDENCE_MAX else f"{text[: EVIDENCE_MAX - 1]}…"
