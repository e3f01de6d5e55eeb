"""From a run folder to the one value that the page shows.

Owns putting the parts together, the facts of the run and the sentences on what is bounded or missing. Draws nothing and
writes nothing: the same folder gives the same ``RunView``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nemesis.history.operations import extent_ns
from nemesis.report.evidence import places_of, rows_at, worded
from nemesis.report.final_logs import replica_logs
from nemesis.report.folder import RunFiles, read_run_files
from nemesis.report.headlines import headlines
from nemesis.report.judgement import read_judgement
from nemesis.report.log_views import LOGS_MAX, log_views
from nemesis.report.narrative import narrative
from nemesis.report.operations import (
    NS_PER_SECOND,
    Operations,
    count_errors,
    count_operations,
    drawn_positions,
    of_clients,
    pair_operations,
    quantile_lines,
    throughput,
)
from nemesis.report.timeline import FAULTS_MAX, MARKS_MAX, read_timeline
from nemesis.report.values import Judgement, Latency, OperationRow, RunView, Timeline

FACT_OPTIONS = (
    *("nodes", "topic_count", "partitions", "replication_factor", "min_insync_replicas", "unclean_leader_election"),
    *("acks", "idempotence", "keys", "reads"),
    *("nemesis", "time_limit", "concurrency", "rate", "final_time_limit"),
)
"""Options of ``test.json`` that the header names, in this order; all of them stand in the command."""
DRAWN_RECORDS_MAX, DRAWN_TEXT_MAX = 4, 80
"""Of each operation that is drawn: so many records of a poll, and characters of a value or error."""


def read_run(folder: Path) -> RunView:
    """Everything the page shows of the run in ``folder``, whatever of it is there.

    Raises ``NotADirectoryError`` when there is no such folder.
    """
    return view_of(read_run_files(folder))


def view_of(files: RunFiles) -> RunView:
    """The same of files that were read."""
    origin_ns, end_ns = extent_ns(files.history, files.events)
    duration_s = (end_ns - origin_ns) / NS_PER_SECOND
    operations = pair_operations(files.history, origin_ns)
    timeline = read_timeline(files.history, files.events, origin_ns)
    by_clients = of_clients(operations, files.history)
    logs = replica_logs(files.logs)
    judgement = read_judgement(files, operations, logs)
    said = headlines(judgement, operations, files.history, logs, timeline, _replicas(files.test))
    judgement, story = narrative(judgement, files, timeline, logs, origin_ns)
    judgement = replace(judgement, headlines=said, narrative=story)
    in_question = dict.fromkeys(one.topic_partition for one in judgement.anomalies if one.topic_partition)
    views = log_views(files.history, files.events, timeline, logs, (origin_ns, end_ns), in_question)
    drawn = _drawn(by_clients, files.history, judgement)
    quantiles = quantile_lines(by_clients, duration_s)
    latency = Latency(quantiles=quantiles, shown=len(drawn), total=len(by_clients.invoke_row))
    return RunView(
        name=files.folder.resolve().name,
        command=_command(files.test),
        facts=_facts(files.test, duration_s, judgement.engine),
        duration_s=duration_s,
        judgement=judgement,
        timeline=timeline,
        throughput=throughput(by_clients, duration_s),
        latency=latency,
        operations=drawn,
        log_views=views[:LOGS_MAX],
        counts=count_operations(operations),
        errors=count_errors(operations, files.history),
        logs=logs,
        log_files=tuple(str(path.relative_to(files.folder)) for path in files.log_files),
        missing=files.missing + _gaps(operations, files),
        notes=_notes(latency, timeline, len(views)),
    )


def _drawn(operations: Operations, history: pa.Table, judgement: Judgement) -> tuple[OperationRow, ...]:
    """The operations that are drawn, among them all that an anomaly shows."""
    shown = [operation.index for anomaly in judgement.anomalies for operation in anomaly.operations]
    always = np.array(list(places_of(operations, history, shown).values()), dtype=np.int64)
    positions = drawn_positions(operations, always)
    return tuple(rows_at(operations, history, positions, records_max=DRAWN_RECORDS_MAX, text_max=DRAWN_TEXT_MAX))


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
    return tuple((name.replace("_", " "), worded(value)) for name, value in facts if value not in (None, "", [], {}))


def _notes(latency: Latency, timeline: Timeline, logs: int) -> tuple[str, ...]:
    """What the page leaves out, in full sentences."""
    notes = []
    if latency.shown < latency.total:
        notes.append(
            f"{latency.shown:,} of {latency.total:,} operations are drawn: those that anomalies name, of each kind the "
            "slowest and the fastest in every stretch of time, and others evenly over time. Throughput and "
            "quantiles are those of all."
        )
    notes += _beyond("faults", len(timeline.faults), FAULTS_MAX)
    notes += _beyond("elections and truncations", len(timeline.marks), MARKS_MAX)
    if logs > LOGS_MAX:
        notes.append(f"{LOGS_MAX} of {logs:,} logs are drawn one by one: those with anomalies, then the most eventful.")
    return tuple(notes)


def _beyond(what: str, count: int, limit: int) -> list[str]:
    return [f"The plots draw the first {limit} of {count:,} {what}."] if count > limit else []
