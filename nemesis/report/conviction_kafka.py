"""The page of another system's Kafka workload: the verdict, and a picture of each anomaly that can have one.

Owns which anomalies are shown, and what clients say of an offset: a history of clients has no logs of replicas, but
whoever was acknowledged or polled there has seen what stood there. Knows nothing of HTML.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nemesis.checks.cycles import OF_READS
from nemesis.checks.losses import LOST_WRITE
from nemesis.checks.schemas import Severity
from nemesis.history.events import APPEND, EventType
from nemesis.report.conviction_cycle import Cycle, Transaction, cycle_of
from nemesis.report.conviction_logs import OffsetRow, OffsetTable, windows
from nemesis.report.template import VERDICT_WORDS, environment
from nemesis.verdict import Verdict

SHOWN_PER_KIND_MAX = 5
SHOWN_MAX = 40
TOLD_PER_CELL_MAX = 3
RECORDS_IN_WORDS_MAX = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One anomaly; ``transactions`` are those that it names, by their indexes.

    The table of the same offsets ``is_above`` where an anomaly before has shown it.
    """

    anomaly: str
    severity: str
    topic_partition: str
    sentence: str
    cycle: Cycle | None
    offsets: OffsetTable | None
    is_above: bool
    transactions: Mapping[int, Transaction]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPage:
    """What the page says; ``left_out`` anomalies of ``found`` are not shown."""

    name: str
    verdict: Verdict
    reasons: Sequence[str]
    not_judged: Sequence[str]
    events: int
    topic_partitions: int
    found: int
    findings: Sequence[Finding]
    left_out: int


def write_kafka_page(target: Path, result: Mapping[str, Any], operations: pa.Table) -> None:
    """Write the page of a judged history to ``target``. ``operations`` has the columns of MICRO_OPERATION_SCHEMA.

    ``result`` is what ``nemesis check`` writes as JSON. Raises ``OSError`` where the page cannot be written.
    """
    verdict = Verdict(result["verdict"])
    rows = result["anomalies"]
    shown = _shown(rows)
    page = KafkaPage(
        name=Path(result["file"]).name,
        verdict=verdict,
        reasons=result["reasons"],
        not_judged=result["not_judged"],
        events=result["events"],
        topic_partitions=result["topic_partitions"],
        found=len(rows),
        findings=_findings(shown, operations),
        left_out=len(rows) - len(shown),
    )
    sign, word, meaning = VERDICT_WORDS[verdict]
    template = environment().get_template("conviction_kafka.html.j2")
    target.write_text(
        template.render(page=page, sign=sign, word=word, meaning=meaning, judged_as="a Kafka workload"),
        encoding="utf-8",
    )


def _shown(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first of each kind, violations before the rest, and of these what is lost and cycles before the others."""
    order, worst = list(Severity), (LOST_WRITE.name, *(check.name for check in OF_READS))
    seen: Counter[tuple[str, str]] = Counter()
    chosen = []

    def rank(row: Mapping[str, Any]) -> tuple[int, int]:
        kind = row["anomaly"]
        return order.index(Severity(row["severity"])), worst.index(kind) if kind in worst else len(worst)

    for row in sorted(rows, key=rank):
        kind = row["severity"], row["anomaly"]
        seen[kind] += 1
        if seen[kind] <= SHOWN_PER_KIND_MAX:
            chosen.append(row)
    return chosen[:SHOWN_MAX]


def _findings(rows: Sequence[Mapping[str, Any]], operations: pa.Table) -> list[Finding]:
    indexes = {index for row in rows for index in row["op_indexes"]}
    transactions = transactions_of(operations, indexes)
    found: list[Finding] = []
    shown: set[tuple[str, tuple[int, ...]]] = set()
    for row in rows:
        cycle = cycle_of(row, transactions)
        place = row["topic_partition"] or "", tuple(row["offsets"])
        is_new = cycle is None and place not in shown
        shown.add(place)
        found.append(
            Finding(
                anomaly=row["anomaly"],
                severity=row["severity"],
                topic_partition=row["topic_partition"] or "",
                sentence=row["detail"],
                cycle=cycle,
                offsets=seen_at(operations, *place) if is_new else None,
                is_above=cycle is None and not is_new and bool(row["offsets"]),
                transactions={index: transactions[index] for index in row["op_indexes"] if index in transactions},
            )
        )
    return found


def transactions_of(operations: pa.Table, indexes: Iterable[int]) -> dict[int, Transaction]:
    """What the operations that were invoked at ``indexes`` did, a line for each send and each log that was polled."""
    own = operations.filter(pc.is_in(operations.column("invoke_index"), pa.array(sorted(indexes), pa.int64())))
    lines: defaultdict[int, list[str]] = defaultdict(list)
    process: dict[int, str] = {}
    for row in own.to_pylist():
        process[row["invoke_index"]] = str(row["process"])
        lines[row["invoke_index"]].append(_micro_words(row))
    return {index: Transaction(process=process[index], lines=own) for index, own in lines.items()}


def _micro_words(row: Mapping[str, Any]) -> str:
    where = row["topic_partition"]
    if row["f"] == APPEND:
        at = "" if row["offset"] is None else f" at {row['offset']}"
        return f"send {row['value']} to {where}{at}" + ("" if row["type"] == EventType.OK else f" ({row['type']})")
    records = row["records"] or []
    told = ", ".join(f"{record['value']} at {record['offset']}" for record in records[:RECORDS_IN_WORDS_MAX])
    more = f" and {len(records) - RECORDS_IN_WORDS_MAX} more" if len(records) > RECORDS_IN_WORDS_MAX else ""
    return f"poll {where}: {told or 'nothing'}{more}"


# --- offset by offset -------------------------------------------------------------------------------------------------


def seen_at(operations: pa.Table, topic_partition: str, named: Sequence[int]) -> OffsetTable | None:
    """What clients were told of these offsets and those around them; None where there is none to look at."""
    offsets = windows(set(named))
    if not topic_partition or not offsets:
        return None
    own = operations.filter(pc.equal(operations.column("topic_partition"), topic_partition))
    acknowledged, polled = _acknowledged(own, offsets), _polled(own, offsets)
    rows: list[OffsetRow] = []
    for offset in offsets:
        known = {value for value, _ in acknowledged[offset]} | {value for value, _ in polled[offset]}
        rows.append(
            OffsetRow(
                offset=offset,
                is_named=offset in named,
                is_first=False,
                differs=len(known) > 1,
                follows=bool(rows) and rows[-1].offset == offset - 1,
                cells=[_told(acknowledged[offset], "acknowledged"), _told(polled[offset], "polled")],
                colours=[None, None],
            )
        )
    return OffsetTable(columns=["Acknowledged at it", "Polled from it"], rows=rows)


Seen = defaultdict[int, list[tuple[int, int]]]
"""By offset: values, and the operations that saw them, in their order."""


def _acknowledged(own: pa.Table, offsets: Sequence[int]) -> Seen:
    is_sent = pc.and_(pc.equal(own.column("f"), APPEND), pc.equal(own.column("type"), EventType.OK.value))
    chosen = own.filter(pc.and_(is_sent, pc.is_in(own.column("offset"), pa.array(offsets, pa.int64()))))
    found: Seen = defaultdict(list)
    for row in chosen.select(["offset", "value", "invoke_index"]).to_pylist():
        found[row["offset"]].append((row["value"], row["invoke_index"]))
    return found


def _polled(own: pa.Table, offsets: Sequence[int]) -> Seen:
    records = own.column("records").combine_chunks()
    parents = pc.list_parent_indices(records)
    flat = pc.list_flatten(records)
    at = pc.struct_field(flat, "offset")
    chosen = pc.is_in(at, pa.array(offsets, pa.int64()))
    index = own.column("invoke_index").combine_chunks().take(parents)
    columns = (array.filter(chosen).to_pylist() for array in (at, pc.struct_field(flat, "value"), index))
    found: Seen = defaultdict(list)
    for offset, value, read_by in zip(*columns, strict=True):
        found[offset].append((value, read_by))
    return found


def _told(seen: Sequence[tuple[int, int]], verb: str) -> str:
    """Each value with how often it was seen, and by whom first."""
    counts = Counter(value for value, _ in seen)
    first = dict(reversed(seen))
    words = [
        f"{value} ({verb} by T{first[value]}{f' and {count - 1} more' if count > 1 else ''})"
        for value, count in counts.items()
    ]
    more = f"; {len(words) - TOLD_PER_CELL_MAX} more values" if len(words) > TOLD_PER_CELL_MAX else ""
    return "; ".join(words[:TOLD_PER_CELL_MAX]) + more
