"""The acknowledged records that are lost, one by one, from the rows of ``results.json``.

Owns finding them: a row names one, and the row that counts those beyond the bound lists theirs. Whatever is not of
that shape is passed over. Why each is lost is told by ``lives``, where ``results.json`` does not say it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nemesis.checks.losses import LOST_WRITE
from nemesis.checks.schemas import Severity
from nemesis.report.headlines import listed
from nemesis.report.lives import LogLife, Span
from nemesis.report.timeline import parsed
from nemesis.report.values import Fault, LostRecord


def lost_records(rows: Sequence[Mapping[str, Any]]) -> tuple[LostRecord, ...]:
    """All that stood at a known offset, by log and offset."""
    lost = [row for row in rows if row.get("anomaly") == LOST_WRITE.name]
    found = {record for row in lost if row.get("severity") == Severity.VIOLATION for record in _records(row)}
    return tuple(sorted(found, key=lambda record: (record.topic_partition, record.offset, record.value)))


def explained_losses(
    lost: Sequence[LostRecord], lives: Mapping[str, LogLife], faults: Sequence[Fault]
) -> tuple[LostRecord, ...]:
    """The same with the causes that the replicas have told, where no election is known to be the cause, and faults."""
    values: dict[str, set[int]] = {}
    for record in lost:
        values.setdefault(record.topic_partition, set()).add(record.value)
    spans = {log: lives[log].acknowledgements.spans(own) for log, own in values.items()}
    return tuple(
        _explained(record, span, lives[record.topic_partition], faults)
        if (span := spans[record.topic_partition].get((record.value, record.offset))) is not None
        else record
        for record in lost
    )


def _explained(record: LostRecord, span: Span, life: LogLife, faults: Sequence[Fault]) -> LostRecord:
    causes, leader = life.causes(span), life.leader_of(span)
    concerned = {cause.replica_id for cause in causes} | (set() if leader is None else {leader.replica_id})
    end_s = max((cause.time_s for cause in causes), default=span.start_s)
    told = (f"{cause.time_s:.1f} s: replica {cause.replica_id} {cause.deed}" for cause in causes)
    return replace(
        record,
        cause=record.cause or "; ".join(told),
        faults="; ".join(_worded(fault) for fault in faults if fault.struck(concerned, span.start_s, end_s)),
    )


def _worded(fault: Fault) -> str:
    until = "" if fault.end_s is None else f" to {fault.end_s:.1f} s"
    whom = listed(fault.replicas) if fault.replicas else "all replicas"
    return f"{fault.start_s:.1f}{until or ' s on'}: {fault.name} of {whom}"


def unlisted(rows: Sequence[Mapping[str, Any]]) -> int:
    """How many lost records are only counted: those beyond the bound of what a row lists, or without an offset."""
    return sum(
        max(_more(row) - len(tuple(_records(row))), 0)
        for row in rows
        if row.get("anomaly") == LOST_WRITE.name and row.get("severity") == Severity.VIOLATION
    )


def _more(row: Mapping[str, Any]) -> int:
    evidence = parsed(row.get("evidence"))
    more = evidence.get("more") if isinstance(evidence, dict) else None
    return more if isinstance(more, int) else 0


def _records(row: Mapping[str, Any]) -> Iterator[LostRecord]:
    evidence = parsed(row.get("evidence"))
    if not isinstance(evidence, dict):
        return
    listed = evidence.get("records", [])
    own = [{**evidence, "offset": offset} for offset in row.get("offsets") or ()]
    for record in (*own, *(listed if isinstance(listed, list) else ())):
        offset, value = record.get("offset"), record.get("value")
        if isinstance(offset, int) and isinstance(value, int):
            yield LostRecord(
                topic_partition=str(row.get("topic_partition") or ""),
                offset=offset,
                value=value,
                cause=str(record.get("cause") or ""),
            )
