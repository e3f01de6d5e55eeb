"""From what was found and what was looked at to a verdict: valid, invalid or unknown.

Owns the decision and its sentences. A verdict is *valid* only when everything that could have shown a violation was
there to be looked at; a check that crashed or a history that was cut off is *unknown*, never valid. Source: the
three-valued checkers of ``jepsen.checker``.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from nemesis.checks.schemas import AnomalyName, Severity
from nemesis.history.events import MOVED, OFFLINE, UNCLEAN_ELECTION, VOTERS_CHANGED

CAUSES_MAX = 3
"""So many causes are named in the sentence about a kind of anomaly."""
MISSING_MAX = 10
"""So many pieces of evidence that are missing are named, each by a sentence of its own."""
LOGS_MAX = 3
"""So many topic-partitions are named of which the same is missing."""
RESTS_ON_ALL = frozenset(
    {
        AnomalyName.PHANTOM_READ,
        AnomalyName.NONMONOTONIC_POLL,
        AnomalyName.POLL_SKIP,
        AnomalyName.INT_NONMONOTONIC_SEND,
        AnomalyName.HOLE,
        AnomalyName.NONLINEARIZABLE,
        AnomalyName.WRONG_ORDER,
    }
)
"""What says that *nobody* did something, or what a process did *next*: a line that is missing could explain it; or that
one operation did something twice: so does one that is there twice. All others convict by the lines that they name."""


class Verdict(StrEnum):
    """What is known of a run."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


COUNTED_EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "truncations": "truncated",
        "isr_shrinks": "isr-shrunk",
        "isr_expands": "isr-expanded",
        "snapshots_installed": "snapshot-installed",
        "membership_changes": VOTERS_CHANGED,
        "partitions_moved": MOVED,
    }
)
"""Those of the counts that are numbers of replica events, each with its event."""
COUNTED_EPOCHS: Mapping[str, str] = MappingProxyType(
    {"unclean_elections": UNCLEAN_ELECTION, "offline_partitions": OFFLINE}
)
"""Those that are numbers of epochs of logs: a controller that has just taken over may tell of one again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """What a run did and what of it was looked at.

    ``events`` counts the lines of the history, ``repeated`` those of them whose index is none or another one's,
    ``index_end`` is the last index plus one: it is greater when lines are missing. ``orphans`` are completions without
    an invocation that asked for the same. ``backwards`` are operations whose end has an earlier time than their begin.
    ``append_weak`` are those of ``append_ok`` that asked for less than all replicas, so that nothing was promised of
    them; ``acked_checked`` are the others that stand at a known offset. ``faults`` are those that were done,
    ``faults_tried`` all. ``harness_failures`` are what the harness itself could not bring about: that the replicas
    agree, that all vote, that partitions have their replicas, that a log is dumped, that damage is noticed.
    ``final_reads`` counts the logs of which a final read was begun, ``final_reads_whole`` those of which one saw the
    end. ``replicas_silent`` are those with a log of which no event is told, ``replicas_undumped`` those that
    were started and have no log. ``operations_ok``, ``operations_fail`` and
    ``operations_info`` count the operations on ``objects``; those that are ok are among ``acked_checked``.

    Elections, epochs and the rest are of the logs that clients write to, but for ``controller_elections``: those are of
    the metadata log. ``leader_elections`` counts each epoch of each log once, ``logs_led`` the logs that had any;
    ``leader_changes`` counts how often a log that was led was led in another epoch, since the first operation began;
    ``changes_after_faults`` the same of all logs, since the first fault that was done began as well. ``epochs`` counts
    those of each final log, ``topic_partitions`` the logs. ``epoch_max`` is -1 when no epoch is known.
    ``offline_partitions`` counts how often a partition lost its leader and nobody might lead. ``membership_changes``
    counts the records by which a leader made others vote in a log of a state machine, also those that were taken back.
    ``partitions_moved`` counts the moves of partitions that were seen to come to their target.
    """

    events: int = 0
    index_end: int = 0
    repeated: int = 0
    orphans: int = 0
    backwards: int = 0
    append_ok: int = 0
    append_fail: int = 0
    append_info: int = 0
    append_weak: int = 0
    poll_ok: int = 0
    poll_fail: int = 0
    poll_info: int = 0
    operations_ok: int = 0
    operations_fail: int = 0
    operations_info: int = 0
    objects: int = 0
    acked_checked: int = 0
    values_read: int = 0
    final_reads: int = 0
    final_reads_whole: int = 0
    faults: int = 0
    faults_tried: int = 0
    harness_failures: int = 0
    logs_dumped: int = 0
    logs_dumped_completely: int = 0
    batches_dumped: int = 0
    replicas_silent: int = 0
    replicas_undumped: int = 0
    leader_elections: int = 0
    logs_led: int = 0
    controller_elections: int = 0
    leader_changes: int = 0
    changes_after_faults: int = 0
    truncations: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    snapshots_installed: int = 0
    membership_changes: int = 0
    partitions_moved: int = 0
    unclean_elections: int = 0
    offline_partitions: int = 0
    epochs: int = 0
    topic_partitions: int = 0
    epoch_max: int = -1

    @property
    def lacks_lines(self) -> bool:
        """Whether something may have happened between the lines of the history that it does not tell."""
        return self.events - self.repeated != self.index_end or self.repeated > 0 or self.orphans > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict with one sentence for each reason, and warnings, which do not change it."""

    verdict: Verdict
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def decide(
    *,
    counts: RunCounts,
    anomalies: Sequence[Mapping[str, Any]],
    complete: bool,
    problems: Sequence[str],
    shows_logs: bool = True,
) -> Decision:
    """The verdict of one run: ``anomalies`` are its rows of ``ANOMALY_SCHEMA``, ``problems`` those of its files.

    Without ``shows_logs`` nobody could read the nodes' logs, and what clients saw is all there is to look at.

    A violation convicts whatever else is unknown: nothing that is missing could make it good.
    """
    violations = _counted(anomalies, Severity.VIOLATION)
    missing = [row for row in anomalies if row["anomaly"] == AnomalyName.MISSING_EVIDENCE]
    others = [row for row in anomalies if row["anomaly"] != AnomalyName.MISSING_EVIDENCE]
    doubts = _counted(others, Severity.UNKNOWN)
    undecided = [*_gaps(counts, complete, shows_logs), *problems, *_missing(missing), *doubts]
    warnings = (*_warnings(counts), *_counted(anomalies, Severity.ALLOWED))
    if violations:
        return Decision(verdict=Verdict.INVALID, reasons=(*violations, *undecided), warnings=warnings)
    if undecided:
        return Decision(verdict=Verdict.UNKNOWN, reasons=tuple(undecided), warnings=warnings)
    return Decision(verdict=Verdict.VALID, reasons=(_kept(counts),), warnings=warnings)


def undecided_where_lines_lack(
    anomalies: Sequence[Mapping[str, Any]], counts: RunCounts
) -> tuple[Mapping[str, Any], ...]:
    """The anomalies of a run; where lines of its history lack, what rests on all of them convicts nobody."""
    return tuple(map(undecided, anomalies) if counts.lacks_lines else anomalies)


def undecided(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """An anomaly as far as it convicts without resting on all lines of its history."""
    rests_on_all = row["anomaly"] in RESTS_ON_ALL and row["severity"] == Severity.VIOLATION
    return {**row, "severity": Severity.UNKNOWN.value} if rests_on_all else row


def _missing(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What of the evidence is missing, and of which logs; of that which has no sentence, the number."""
    logs: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        logs[row["detail"]].append(row["topic_partition"])
    for what, names in list(logs.items())[:MISSING_MAX]:
        more = f" and {len(names) - LOGS_MAX} others" if len(names) > LOGS_MAX else ""
        yield f"{', '.join(names[:LOGS_MAX])}{more}: {what}"
    if len(logs) > MISSING_MAX:
        yield f"{AnomalyName.MISSING_EVIDENCE}: {len(logs) - MISSING_MAX} more (undecided)"


def _kept(counts: RunCounts) -> str:
    """The sentence about a run in which nothing is wrong and nothing unknown."""
    if counts.objects:
        return f"{counts.operations_ok} acknowledged operations on {counts.objects} objects keep every promise"
    promised = counts.append_ok - counts.append_weak
    return f"{promised} acknowledged writes and {counts.values_read} read values keep every promise"


def _counted(anomalies: Sequence[Mapping[str, Any]], severity: Severity) -> tuple[str, ...]:
    """One sentence for each kind of anomaly of this severity, in the order of ``AnomalyName``, with known causes.

    The last row of a kind that has too many stands for ``more`` of them.
    """
    found: Counter[str] = Counter()
    causes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in anomalies:
        if row["severity"] == severity:
            evidence = json.loads(row["evidence"])
            found[row["anomaly"]] += evidence.get("more", 1)
            for reason, number in _reasons(evidence):
                where = f" ({row['topic_partition']})" if row["topic_partition"] else ""
                causes[row["anomaly"]][f"{reason}{where}"] += number
    suffix = {Severity.UNKNOWN: " (undecided)", Severity.ALLOWED: " (allowed)"}.get(severity, "")
    return tuple(f"{name}: {found[name]}{suffix}{_caused(causes[name])}" for name in AnomalyName if name in found)


def _reasons(evidence: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """What is known of why, or at least of where, and how many anomalies of its row that is about."""
    causes = {evidence["cause"]: 1} if "cause" in evidence else evidence.get("causes", {})
    cuts = {evidence["cut_by"]: 1} if "cut_by" in evidence else evidence.get("cuts", {})
    yield from ((f"by {cause}", number) for cause, number in causes.items())
    yield from ((f"at offsets cut by {cut}", number) for cut, number in cuts.items())


def _caused(causes: Counter[str]) -> str:
    """``, 64 by unclean election in epoch 1 of replica 2 (topic1-0)``; nothing where nothing is known."""
    shown = causes.most_common(CAUSES_MAX)
    rest = sum(causes.values()) - sum(number for _, number in shown)
    told = "".join(f", {number} {cause}" for cause, number in shown)
    return told + (f", {rest} by {len(causes) - CAUSES_MAX} others" if rest else "")


def _gaps(counts: RunCounts, complete: bool, shows_logs: bool) -> Iterator[str]:
    if not complete:
        yield "the history has no end: the run was cut off, and what it did after the last shard is not known"
    if counts.events - counts.repeated != counts.index_end:
        there = counts.events - counts.repeated
        yield f"the history has {there} events but indexes up to {counts.index_end - 1}: lines are missing"
    if counts.repeated:
        yield f"{counts.repeated} events have an index that is none or another one's: the history is damaged"
    if counts.orphans:
        yield f"{counts.orphans} completions have no invocation that asked for the same: the history is damaged"
    if counts.backwards:
        yield f"{counts.backwards} operations ended before they began, by their times: the history is damaged"
    if not shows_logs and not counts.objects:
        yield "no replica's log is shown, and nothing else tells what was finally kept of what was appended"
    elif shows_logs and not counts.logs_dumped_completely:
        yield "no replica's log was read to its end, so what was finally kept is not known"
    elif counts.logs_dumped_completely < counts.logs_dumped:
        yield f"{counts.logs_dumped_completely} of {counts.logs_dumped} replicas' logs were read to their end"
    if counts.harness_failures:
        what = "the replicas did not agree in time, voters or partitions were not back where they should be"
        yield f"{counts.harness_failures} times {what}, a log could not be read, or damage was not noticed"
    if counts.faults_tried and not counts.faults:
        yield "no fault struck: all that were tried were refused, or came to nothing"
    if counts.final_reads_whole < counts.final_reads:
        yield f"a final read saw the end of {counts.final_reads_whole} of {counts.final_reads} logs"
    promised = counts.append_ok - counts.append_weak + counts.operations_ok
    if not counts.append_ok + counts.operations_ok:
        yield "nothing was acknowledged, so nothing was promised"
    elif counts.acked_checked < promised:
        yield f"{promised - counts.acked_checked} of {promised} acknowledgements do not tell an offset"


def _warnings(counts: RunCounts) -> Iterator[str]:
    if counts.append_weak:
        yield f"{counts.append_weak} writes asked for less than all replicas: that they are kept was not promised"
    if counts.faults and not faults_bit(counts):
        yield "the faults did not bite: no leader was seen to change after the first of them was done"


def faults_bit(counts: RunCounts) -> bool:
    """Whether a leader changed while clients asked, after a fault was done: of a log, or the controller."""
    return counts.faults > 0 and counts.changes_after_faults > 0
