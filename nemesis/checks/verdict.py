"""From what was found and what was looked at to a verdict: valid, invalid or unknown.

Owns the decision and its sentences. A verdict is *valid* exactly if every check that
applies, which is each that had anything to look at, has looked at all there was and found nothing; a check that crashed
or a history that was cut off is *unknown*, never valid. Source: the three-valued checkers of ``jepsen.checker``.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from nemesis.checks.evidence import MISSING_EVIDENCE
from nemesis.checks.promises import Checked, blind_spots, checked
from nemesis.checks.registry import BY_NAME
from nemesis.checks.schemas import Severity
from nemesis.history.events import MOVED, OFFLINE, UNCLEAN_ELECTION, VOTERS_CHANGED
from nemesis.verdict import Verdict

CAUSES_MAX = 3
"""So many causes are named in the sentence about a kind of anomaly."""
MISSING_MAX = 10
"""So many pieces of evidence that are missing are named, each by a sentence of its own."""
LOGS_MAX = 3
"""So many topic-partitions are named of which the same is missing."""


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
    """A verdict with one sentence for each reason, warnings, which do not change it, and what became of each check."""

    verdict: Verdict
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    checks: tuple[Checked, ...]


def decide(
    *,
    counts: RunCounts,
    anomalies: Sequence[Mapping[str, Any]],
    coverage: Iterable[Mapping[str, Any]],
    complete: bool,
    problems: Sequence[str],
    shows_logs: bool = True,
) -> Decision:
    """The verdict of one run: ``anomalies`` are its rows of ``ANOMALY_SCHEMA``, ``coverage`` those of
    ``COVERAGE_SCHEMA``, ``problems`` those of its files.

    Without ``shows_logs`` nobody could read the nodes' logs, and what clients saw is all there is to look at.

    A violation convicts whatever else is unknown: nothing that is missing could make it good.
    """
    gaps = (*_gaps(counts, complete, shows_logs), *problems)
    wants = _wants(counts, shows_logs)
    checks = checked(anomalies, coverage, is_whole=not gaps)
    violations = _counted(anomalies, Severity.VIOLATION)
    missing = [row for row in anomalies if row["anomaly"] == MISSING_EVIDENCE.name]
    others = [row for row in anomalies if row["anomaly"] != MISSING_EVIDENCE.name]
    undecided = (*gaps, *wants, *_missing(missing), *blind_spots(checks), *_counted(others, Severity.UNKNOWN))
    warnings = (*_warnings(counts), *_counted(anomalies, Severity.ALLOWED))
    verdict = Verdict.INVALID if violations else Verdict.UNKNOWN if undecided else Verdict.VALID
    reasons = (*violations, *undecided) or (_kept(counts),)
    return Decision(verdict=verdict, reasons=reasons, warnings=warnings, checks=checks)


def undecided_where_lines_lack(
    anomalies: Sequence[Mapping[str, Any]], counts: RunCounts
) -> tuple[Mapping[str, Any], ...]:
    """The anomalies of a run; where lines of its history lack, what rests on all of them convicts nobody."""
    return tuple(map(undecided, anomalies) if counts.lacks_lines else anomalies)


def undecided(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """An anomaly as far as it convicts without resting on all lines of its history."""
    rests_on_all = BY_NAME[row["anomaly"]].rests_on_all and row["severity"] == Severity.VIOLATION
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
        yield f"{MISSING_EVIDENCE.name}: {len(logs) - MISSING_MAX} more (undecided)"


def _kept(counts: RunCounts) -> str:
    """The sentence about a run in which nothing is wrong and nothing unknown."""
    if counts.objects:
        return f"{counts.operations_ok} acknowledged operations on {counts.objects} objects keep every promise"
    promised = counts.append_ok - counts.append_weak
    return f"{promised} acknowledged writes and {counts.values_read} read values keep every promise"


def _counted(anomalies: Sequence[Mapping[str, Any]], severity: Severity) -> tuple[str, ...]:
    """One sentence for each kind of anomaly of this severity, in the order of ``CHECKS``, with known causes.

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
    return tuple(f"{name}: {found[name]}{suffix}{_caused(causes[name])}" for name in BY_NAME if name in found)


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
    if shows_logs and not counts.logs_dumped_completely:
        yield "no replica's log was read to its end, so what was finally kept is not known"
    if counts.harness_failures:
        what = "the replicas did not agree in time, voters or partitions were not back where they should be"
        yield f"{counts.harness_failures} times {what}, a log could not be read, or damage was not noticed"
    if counts.faults_tried and not counts.faults:
        yield "no fault struck: all that were tried were refused, or came to nothing"


def _wants(counts: RunCounts, shows_logs: bool) -> Iterator[str]:
    """What is missing for a verdict, though the record is as whole as it can be."""
    if not shows_logs and not counts.objects:
        yield "no replica's log is shown, and nothing else tells what was finally kept of what was appended"
    if not counts.append_ok + counts.operations_ok:
        yield "nothing was acknowledged, so nothing was promised"


def _warnings(counts: RunCounts) -> Iterator[str]:
    if counts.append_weak:
        yield f"{counts.append_weak} writes asked for less than all replicas: that they are kept was not promised"
    if counts.faults and not faults_bit(counts):
        yield "the faults did not bite: no leader was seen to change after the first of them was done"


def faults_bit(counts: RunCounts) -> bool:
    """Whether a leader changed while clients asked, after a fault was done: of a log, or the controller."""
    return counts.faults > 0 and counts.changes_after_faults > 0
