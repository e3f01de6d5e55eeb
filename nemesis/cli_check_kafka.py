"""``nemesis check FILE --model kafka``: the history of a Kafka workload, judged by the checks of logs in this process.

Owns the words of the result and its JSON. The checks are those that judge a run; what they need and a history does not
have, such as the replicas' logs, they do without.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pyarrow as pa

    from nemesis.formats.reading import ReadHistory

MODEL = "kafka"
WORDS = {"violation": "", "unknown": " (undecided)", "allowed": " (allowed)"}
ROWS_SHOWN = 20
"""Anomalies told on the terminal; the JSON has them all."""


def judged_as_kafka(path: Path, format: str | None) -> tuple[ReadHistory, dict[str, object]]:
    """Judge the history in ``path``; returns it and the result as JSON has it. Raises HistoryError."""
    from nemesis.checks import judge_transactions
    from nemesis.formats.kafka_operations import micro_operations
    from nemesis.formats.keyed import KeyPairs
    from nemesis.formats.reading import read_history_file
    from nemesis.formats.recognise import Format

    history = read_history_file(path, format=None if format is None else Format(format), key_pairs=KeyPairs.NO)
    operations = micro_operations(history.events, path)
    rows = judge_transactions(operations).to_pylist()
    found = _counts(rows)
    verdict, reasons = _decided(operations, found)
    return history, {
        "file": str(path),
        "format": history.format.value,
        "model": MODEL,
        "verdict": verdict,
        "reasons": reasons,
        "events": len(history.events),
        "events_of_others": history.skipped,
        "topic_partitions": len(set(operations.column("topic_partition").to_pylist())),
        "anomalies": [_without_run(row) for row in rows],
    }


def tell_kafka(history: ReadHistory, result: dict[str, Any]) -> None:
    """Print the result: what was found, the summary, the verdict."""
    rows = result["anomalies"]
    for row in rows[:ROWS_SHOWN]:
        where = row["topic_partition"] or "all logs"
        click.echo(f"{where}: {row['anomaly']}{WORDS[row['severity']]}: {row['detail']}")
    if len(rows) > ROWS_SHOWN:
        click.echo(f"{len(rows) - ROWS_SHOWN} more, in the JSON of --output")
    others = f", {history.skipped} events of others" if history.skipped else ""
    click.echo(f"history: {history.path.name} ({history.format}), {len(history.events)} events{others}")
    click.echo(f"judged as {MODEL}: {result['topic_partitions']} topic-partitions")
    for reason in result["reasons"]:
        click.echo(f"  {reason}")
    click.echo(f"verdict: {result['verdict']}")


def _without_run(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name != "run_id"}
    return kept | {"evidence": json.loads(row["evidence"])}


def _counts(rows: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for row in rows:
        found[(row["severity"], row["anomaly"])] += json.loads(row["evidence"]).get("more", 1)
    return found


def _decided(operations: pa.Table, found: Counter[tuple[str, str]]) -> tuple[str, list[str]]:
    """The verdict, and one sentence for each kind of anomaly."""
    reasons = [f"{name}: {found[(severity, name)]}{WORDS[severity]}" for severity, name in sorted(found)]
    severities = {severity for severity, _ in found}
    if "violation" in severities:
        return "invalid", reasons
    promised = set(zip(operations.column("f").to_pylist(), operations.column("type").to_pylist(), strict=True))
    if ("append", "ok") not in promised:
        reasons.append("nothing was acknowledged, so nothing was promised")
        return "unknown", reasons
    return ("unknown" if "unknown" in severities else "valid"), reasons
