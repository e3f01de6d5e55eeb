"""A run in a few lines, for a terminal: the verdict, what happened, the worst that was found, and how to repeat it.

Owns which of it is told, and in which order: the story, one of each of the worst kinds of anomalies with its evidence,
what befell the cluster around the first of them, and the commands that show or do more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nemesis.report.evidence import shortened
from nemesis.report.values import AnomalyView, Fault, Mark, MarkKind, RunView

ANOMALIES_MAX = 3
OPERATIONS_MAX = 6
FACTS_MAX = 4
VALUE_CHARACTERS_MAX = 60
EXCERPT_MAX = 12
"""So many lines of the timeline are told."""


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
        yield from _anomaly(anomaly, judgement.narrative)
    if len(worst) > len(first):
        yield ""
        yield f"Other kinds of anomalies: {', '.join(sorted(worst.keys() - {one.anomaly for one in first}))}"
    yield from _excerpt(run)
    if run.command:
        yield ""
        yield "The same faults again:"
        yield f"  {run.command}"


def _anomaly(anomaly: AnomalyView, told: Sequence[str]) -> Iterator[str]:
    """An anomaly with its evidence; what befell its records only where ``told`` does not have it all."""
    where = f" in {anomaly.topic_partition}" if anomaly.topic_partition else ""
    yield f"{anomaly.anomaly}{where}: {anomaly.sentence}"
    if not set(anomaly.life) <= set(told):
        yield from (f"  {sentence}" for sentence in anomaly.life)
    for operation in anomaly.operations[:OPERATIONS_MAX]:
        at = "" if operation.invoked_s is None else f"{operation.invoked_s:.3f} s: "
        offset = f" at offset {operation.offset}" if operation.offset else ""
        value = shortened(operation.value, VALUE_CHARACTERS_MAX)
        yield f"  {at}process {operation.process} {operation.f} {value}{offset}: {operation.outcome}"
    for held in anomaly.held[:OPERATIONS_MAX]:
        yield f"  replica {held.replica_id} holds at offset {held.offset}: {held.holds}"
    if not anomaly.operations and not anomaly.held:
        yield from (f"  {name}: {value}" for name, value in anomaly.facts[:FACTS_MAX])


def _excerpt(run: RunView) -> Iterator[str]:
    """What befell the cluster, in the order of time; of much, what is nearest to the worst that was found."""
    moments = [(fault.start_s, _fault_words(fault)) for fault in run.timeline.faults]
    moments += [(mark.time_s, _mark_words(mark)) for mark in run.timeline.marks]
    if not moments:
        return
    worst = run.judgement.anomalies[:1]
    times_s = [op.invoked_s for anomaly in worst for op in anomaly.operations if op.invoked_s is not None]
    start_s, end_s = (min(times_s), max(times_s)) if times_s else (0.0, 0.0)
    nearest = sorted(moments, key=lambda moment: (max(start_s - moment[0], moment[0] - end_s, 0.0), moment))
    shown = sorted(nearest[:EXCERPT_MAX])
    yield ""
    of = f", {len(shown)} of {len(moments):,} events" if len(shown) < len(moments) else ""
    yield f"The timeline{of}:"
    yield from (f"  {time_s:7.1f} s  {words}" for time_s, words in shown)


def _fault_words(fault: Fault) -> str:
    whom = f" of {', '.join(f'replica {replica_id}' for replica_id in fault.replicas)}" if fault.replicas else ""
    return f"{fault.name}{whom}" + ("" if fault.end_s is None else f", until {fault.end_s:.1f} s")


def _mark_words(mark: Mark) -> str:
    log = "" if mark.log is None else f" of {mark.log}"
    epoch = "" if mark.epoch is None else f", epoch {mark.epoch}"
    end = f" to offset {mark.offset}" if mark.kind is MarkKind.TRUNCATION and mark.offset is not None else ""
    return f"{mark.kind}{log}: replica {mark.replica_id}{end}{epoch}"
