"""The judgement of one run as a value, and as the bytes of ``results.json``.

Owns their form. The same run judged by the same engine gives the same bytes: everything is ordered, and nothing of the
time or the place of judging is in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nemesis.checks.anomalies import row_order
from nemesis.checks.promises import Checked
from nemesis.checks.registry import is_shown
from nemesis.checks.verdict import RunCounts, decide, faults_bit, undecided_where_lines_lack
from nemesis.history.document import TEST_NAME
from nemesis.history.whole_files import write_whole
from nemesis.pipeline.runs import RunFolder
from nemesis.verdict import Verdict
from nemesis.workload.objects import ObjectWorkload

RESULTS_NAME = "results.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is known of one run.

    ``checks`` says what became of each promise, ``anomalies`` are rows of ``ANOMALY_SCHEMA`` in their one order,
    ``stats`` what the run did, ``engine`` the name and the versions of what judged it.
    """

    run_id: str
    verdict: Verdict
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    checks: tuple[Checked, ...]
    anomalies: tuple[Mapping[str, Any], ...]
    stats: RunCounts
    faults_bit: bool
    engine: Mapping[str, str]

    def to_json(self) -> str:
        """``results.json``: evidence as objects, keys in order, one indented document with a newline at its end."""
        document = asdict(self) | {
            "verdict": self.verdict.value,
            "checks": {check.pop("name"): check for check in map(asdict, self.checks)},
            "anomalies": [dict(row) | {"evidence": json.loads(row["evidence"])} for row in self.anomalies],
            "engine": dict(self.engine),
        }
        return json.dumps(document, indent=2, sort_keys=True) + "\n"


def judgement_of(
    run: RunFolder,
    counts: RunCounts,
    anomalies: Iterable[Mapping[str, Any]],
    coverage: Iterable[Mapping[str, Any]],
    engine: Mapping[str, str],
) -> Judgement:
    """The judgement of one run from its own counts, anomaly rows and rows of coverage."""
    rows = undecided_where_lines_lack(sorted(anomalies, key=row_order), counts)
    problems = (*run.problems, *_silent(run, counts), *_unjudged(run, counts), *_contradicted(run, rows))
    decision = decide(
        counts=counts,
        anomalies=rows,
        coverage=coverage,
        complete=run.complete,
        problems=problems,
        shows_logs=run.shows_logs,
    )
    return Judgement(
        run_id=run.run_id,
        verdict=decision.verdict,
        reasons=decision.reasons,
        warnings=(*decision.warnings, *(() if run.stopped is None else (str(run.stopped),))),
        checks=decision.checks,
        anomalies=rows,
        stats=counts,
        faults_bit=faults_bit(counts),
        engine=engine,
    )


def _silent(run: RunFolder, counts: RunCounts) -> tuple[str, ...]:
    """Every replica tells at least that it was started, and whoever was has logs."""
    sentences = {
        "replicas have logs, and nothing that they reported is there": counts.replicas_silent,
        "replicas were started, and no log of theirs is there": counts.replicas_undumped,
    }
    return tuple(f"{number} {what}" for what, number in sentences.items() if number and run.is_evident)


def _unjudged(run: RunFolder, counts: RunCounts) -> tuple[str, ...]:
    """A run is judged by its workload; what does not belong to that nobody has looked at."""
    if issubclass(run.workload, ObjectWorkload):
        strangers = counts.append_ok + counts.append_fail + counts.append_info
        what, how = "operations on logs", f"by the workload {run.workload.name}"
    else:
        strangers = counts.operations_ok + counts.operations_fail + counts.operations_info
        what, how = "operations on objects", f"since {TEST_NAME} names no workload on objects"
    return (f"{strangers} {what} were not judged, {how}",) if strangers else ()


def _contradicted(run: RunFolder, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What stopped a run must stand in the judgement of its whole history; else one of the two is wrong."""
    if run.stopped is None:
        return ()
    found = run.stopped.found
    if is_shown(found.anomaly, found.topic_partition, rows):
        return ()
    return (f"the run was stopped at {found}; the whole of it does not show that: one of the two is wrong",)


def write_results(judgement: Judgement, folder: Path) -> Path:
    """Write ``results.json`` into the run's folder, whole or not at all; returns its path."""
    return write_whole(folder, RESULTS_NAME, judgement.to_json())
