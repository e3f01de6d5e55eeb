"""A run in a few lines, for a terminal: the verdict, what happened, the worst that was found, and how to repeat it."""

from __future__ import annotations

from collections.abc import Iterator

from nemesis.report.values import AnomalyView, RunView

ANOMALIES_MAX = 3
OPERATIONS_MAX = 6


def explained(run: RunView) -> Iterator[str]:
    """Lines, without ends."""
    judgement = run.judgement
    yield f"{run.name}: {judgement.verdict}"
    yield from (f"  {reason}" for reason in judgement.reasons)
    yield from (f"  {headline}" for headline in judgement.headlines)
    if judgement.narrative:
        yield ""
        yield "What happened:"
        yield from (f"  {sentence}" for sentence in judgement.narrative)
    worst = {anomaly.anomaly: anomaly for anomaly in reversed(judgement.anomalies)}
    first = sorted(worst.values(), key=lambda anomaly: anomaly.number)[:ANOMALIES_MAX]
    for anomaly in first:
        yield ""
        yield from _anomaly(anomaly)
    if len(worst) > len(first):
        yield ""
        yield f"Other kinds of anomalies: {', '.join(sorted(worst.keys() - {one.anomaly for one in first}))}"
    if run.command:
        yield ""
        yield "The same faults again:"
        yield f"  {run.command}"


def _anomaly(anomaly: AnomalyView) -> Iterator[str]:
    where = f" in {anomaly.topic_partition}" if anomaly.topic_partition else ""
    yield f"{anomaly.anomaly}{where}: {anomaly.sentence}"
    for operation in anomaly.operations[:OPERATIONS_MAX]:
        at = "" if operation.invoked_s is None else f"{operation.invoked_s:.3f} s: "
        offset = f" at offset {operation.offset}" if operation.offset else ""
        yield f"  {at}process {operation.process} {operation.f} {operation.value}{offset}: {operation.outcome}"
    for held in anomaly.held[:OPERATIONS_MAX]:
        yield f"  replica {held.replica_id} holds at offset {held.offset}: {held.holds}"
