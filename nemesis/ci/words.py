"""Why a run is not valid, in lines for a terminal.

Owns the words and how much of the evidence is shown. A verdict *unknown* has words of its own: it is no pass, and no
conviction either.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from nemesis.ci.judged import INVALID, UNKNOWN, VALID, JudgedRun

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
