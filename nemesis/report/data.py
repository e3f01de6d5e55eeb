"""From a run folder to the one value that the page shows.

Owns putting the parts together, the facts of the run and the sentences on what is bounded or missing. Draws nothing and
writes nothing: the same folder gives the same ``RunView``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nemesis.history.operations import extent_ns
from nemesis.report.evidence import worded
from nemesis.report.final_logs import replica_logs
from nemesis.report.folder import RunFiles, read_run_files
from nemesis.report.headlines import headlines
from nemesis.report.judgement import ANOMALIES_PER_KIND_MAX, read_judgement
from nemesis.report.lives import LogLife
from nemesis.report.lost_records import explained_losses
from nemesis.report.narrative import WITH_LIVES, Narrator
from nemesis.report.operations import (
    NS_PER_SECOND,
    Operations,
    count_errors,
    count_operations,
    latency,
    of_clients,
    pair_operations,
    throughput,
)
from nemesis.report.timeline import FAULTS_MAX, MARKS_MAX, read_timeline
from nemesis.report.values import Judgement, Latency, ReplicaLog, RunView, Timeline

FACT_OPTIONS = (
    *("nodes", "topic_count", "partitions", "replication_factor", "min_insync_replicas", "unclean_leader_election"),
    *("acks", "idempotence", "keys", "reads"),
    *("nemesis", "time_limit", "concurrency", "rate", "final_time_limit"),
)
"""Options of ``test.json`` that the header names, in this order; all of them stand in the command."""


def read_run(folder: Path) -> RunView:
    """Everything the page shows of the run in ``folder``, whatever of it is there.

    Raises ``NotADirectoryError`` when there is no such folder.
    """
    files = read_run_files(folder)
    origin_ns, end_ns = extent_ns(files.history, files.events)
    duration_s = (end_ns - origin_ns) / NS_PER_SECOND
    operations = pair_operations(files.history, origin_ns)
    timeline = read_timeline(files.history, files.events, origin_ns)
    by_clients = of_clients(operations, files.history)
    drawn = latency(by_clients, duration_s)
    logs = replica_logs(files.logs)
    judgement = read_judgement(files, operations, logs)
    said = headlines(judgement, operations, files.history, logs, timeline, _replicas(files.test))
    judgement = _with_causes(replace(judgement, headlines=said), files, timeline, logs, origin_ns)
    return RunView(
        name=folder.resolve().name,
        command=_command(files.test),
        facts=_facts(files.test, duration_s, judgement.engine),
        duration_s=duration_s,
        judgement=judgement,
        timeline=timeline,
        throughput=throughput(by_clients, duration_s),
        latency=drawn,
        counts=count_operations(operations),
        errors=count_errors(operations, files.history),
        logs=logs,
        log_files=tuple(str(path.relative_to(files.folder)) for path in files.log_files),
        missing=files.missing + _gaps(operations, files),
        notes=_notes(drawn, timeline, judgement),
    )


def _with_causes(
    judgement: Judgement, files: RunFiles, timeline: Timeline, logs: Sequence[ReplicaLog], origin_ns: int
) -> Judgement:
    """A judgement with the story of the worst, and of all that is lost or shown what befell it."""
    named = {record.topic_partition for record in judgement.lost}
    named |= {anomaly.topic_partition for anomaly in judgement.anomalies if anomaly.topic_partition}
    lives = {log: LogLife(log, files.history, files.events, origin_ns) for log in sorted(named)}
    narrator = Narrator(lives, timeline.faults, logs)
    judgement = replace(judgement, lost=explained_losses(judgement.lost, lives))
    return replace(
        judgement,
        narrative=narrator.narrative(judgement),
        anomalies=tuple(
            replace(anomaly, life=narrator.life(anomaly)) if anomaly.anomaly in WITH_LIVES else anomaly
            for anomaly in judgement.anomalies
        ),
    )


def _gaps(operations: Operations, files: RunFiles) -> tuple[str, ...]:
    if files.history.num_rows and not len(operations.invoke_row):
        return ("The history has no client operation at all.",)
    return ()


def _replicas(test: Mapping[str, Any]) -> int:
    """How many replicas each log has: as many as its topic was to have, else as there are nodes."""
    options = test.get("options")
    options = options if isinstance(options, dict) else {}
    nodes = options.get("replication_factor", options.get("nodes"))
    return nodes if isinstance(nodes, int) else len(nodes) if isinstance(nodes, list) else 0


def _command(test: Mapping[str, Any]) -> str:
    """The command that repeats the run: as it was given, with the seed that was drawn when none was given."""
    argv = test.get("argv")
    if not isinstance(argv, list) or not argv:
        return ""
    words = ["nemesis", *(str(word) for word in argv[1:])]
    seed = test.get("seed")
    if seed is not None and not any(word == "--seed" or word.startswith("--seed=") for word in words):
        words += ["--seed", str(seed)]
    return shlex.join(words)


def _facts(test: Mapping[str, Any], duration_s: float, engine: str) -> tuple[tuple[str, str], ...]:
    options = test.get("options")
    options = options if isinstance(options, dict) else {}
    facts = [(name, test.get(name, options.get(name))) for name in ("workload", "variant", "seed", "started_at")]
    facts += [(name, options.get(name)) for name in FACT_OPTIONS]
    facts.append(("duration", f"{duration_s:.1f} s"))
    facts.append(("judged by", engine or None))
    facts.append(("versions", test.get("versions")))
    return tuple((name.replace("_", " "), _fact(value)) for name, value in facts if value not in (None, "", [], {}))


def _fact(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{key} {worded(part)}" for key, part in value.items())
        case list():
            return ", ".join(worded(part) for part in value)
        case _:
            return worded(value)


def _notes(drawn: Latency, timeline: Timeline, judgement: Judgement) -> tuple[str, ...]:
    """What the page leaves out, in full sentences."""
    notes = []
    if drawn.shown < drawn.total:
        notes.append(
            f"The latency plots draw {drawn.shown:,} of {drawn.total:,} operations: the slowest of each kind, and the "
            f"others evenly over time. Their quantile lines are computed from all of them."
        )
    notes += _beyond("faults", timeline.faults, FAULTS_MAX)
    notes += _beyond("elections and truncations", timeline.marks, MARKS_MAX)
    if judgement.anomaly_count > len(judgement.anomalies):
        notes.append(
            f"{len(judgement.anomalies)} of {judgement.anomaly_count:,} anomalies are shown in full, at most "
            f"{ANOMALIES_PER_KIND_MAX} of each kind; results.json has them all."
        )
    return tuple(notes)


def _beyond(what: str, entries: Sequence[object], limit: int) -> list[str]:
    return [f"The plots draw the first {limit} of {len(entries):,} {what}."] if len(entries) > limit else []
