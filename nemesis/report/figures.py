"""The drawing as data: what the page's own script draws, in columns that are short to write.

Owns colours, dashes and symbols, and the form of the JSON. Knows the values that are drawn and nothing of where they
come from. Colours are near Okabe and Ito's palette for colour-blind readers, of a lightness that stands out three to
one on white and on black; each is doubled by a dash, a symbol or a pattern. Texts are plain: the script writes them as
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemesis.faults.look import LOOKS
from nemesis.history.events import APPEND, FINAL_READ, METADATA_LOG, POLL
from nemesis.report.evidence import shortened
from nemesis.report.timeline import FAULTS_MAX, MARKS_MAX
from nemesis.report.values import (
    AnomalyView,
    Leadership,
    LogView,
    MarkKind,
    OperationRow,
    Outcome,
    RunView,
    Series,
    Timeline,
)

OUTCOME_COLOURS: Mapping[Outcome, str] = {Outcome.OK: "#2f86c9", Outcome.FAIL: "#c9519b", Outcome.INFO: "#b8720a"}
OUTCOME_DASHES: Mapping[Outcome, Sequence[int]] = {Outcome.OK: (), Outcome.FAIL: (7, 4), Outcome.INFO: (2, 3)}
QUANTILE_COLOUR = "#1d8f70"
QUANTILE_DASHES: Mapping[float, Sequence[int]] = {0.5: (), 0.99: (7, 4)}
LEADER_COLOUR = "#157a5f"
OFFLINE_COLOUR = "#c2264b"
ANOMALY_COLOUR = "#d0412b"
REPLICA_COLOURS = (
    *("#2f86c9", "#b8720a", "#8a63c7", "#1d8f70", "#c9519b", "#6b8e23", "#a0527a", "#3b7f8c", "#808890"),
)
"""Of lines and points of one replica each; they repeat after the ninth."""
SENTENCE_MAX = 160
"""Characters of an anomaly's sentence at its mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkLook:
    """``verb`` is what the replica does, for the label; an ISR shrink has no line through the plots, and no label."""

    colour: str
    dash: Sequence[int]
    symbol: str
    verb: str


MARK_LOOKS: Mapping[MarkKind, MarkLook] = {
    MarkKind.CONTROLLER: MarkLook(colour="#2f6fb5", dash=(7, 4), symbol="star", verb="controls"),
    MarkKind.ELECTION: MarkLook(colour="#1d8f70", dash=(), symbol="up", verb="leads"),
    MarkKind.UNCLEAN: MarkLook(colour="#c2264b", dash=(), symbol="diamond", verb="leads uncleanly"),
    MarkKind.TRUNCATION: MarkLook(colour="#d0552b", dash=(2, 3), symbol="cross", verb="truncates"),
    MarkKind.ISR_SHRINK: MarkLook(colour="#9a7900", dash=(), symbol="down", verb=""),
}


def picture(run: RunView) -> Mapping[str, Any]:
    """All that is drawn of a run, on one axis of time in seconds since the first thing that was recorded."""
    return {
        "duration": max(run.duration_s, 0.1),
        "leader": LEADER_COLOUR,
        "anomaly": ANOMALY_COLOUR,
        "offlineColour": OFFLINE_COLOUR,
        "replicaColours": REPLICA_COLOURS,
        "outcomes": [
            {"words": outcome, "colour": OUTCOME_COLOURS[outcome], "dash": OUTCOME_DASHES[outcome]}
            for outcome in Outcome
        ],
        **_befell(run.timeline),
        "anomalies": [_anomaly(anomaly) for anomaly in run.judgement.anomalies],
        "plots": [_plot(run, f) for f in drawn_functions(run)],
        "binS": run.throughput.bin_ms / 1000,
        "quantile": QUANTILE_COLOUR,
        "operations": _operations(run.operations),
        "logs": [_log(view) for view in run.log_views],
    }


def drawn_functions(run: RunView) -> tuple[str, ...]:
    """The functions that have plots of their own; final reads are drawn with the polls."""
    found = tuple(dict.fromkeys(rate.f for rate in run.throughput.rates if rate.f != FINAL_READ))
    return found or (APPEND, POLL)


def lanes_of(reigns: Sequence[Leadership]) -> tuple[Leadership, ...]:
    """What the lanes of the replicas show: where there is a log of metadata who leads that, else who leads."""
    of_metadata = tuple(reign for reign in reigns if reign.log == METADATA_LOG)
    return of_metadata or tuple(reigns)


def _befell(timeline: Timeline) -> Mapping[str, Any]:
    kinds = tuple(MARK_LOOKS)
    return {
        "replicas": timeline.replicas,
        "reigns": [_reign(reign) for reign in lanes_of(timeline.leaderships)[:MARKS_MAX]],
        "looks": [{"words": look.words, "colour": look.colour, "pattern": look.pattern} for look in LOOKS],
        "faults": [
            {
                "look": LOOKS.index(fault.look),
                "name": fault.name,
                "target": shortened(fault.target, SENTENCE_MAX),
                "replicas": fault.replicas,
                "span": _span(fault.start_s, fault.end_s),
            }
            for fault in timeline.faults[:FAULTS_MAX]
        ],
        "kinds": [
            {"words": kind, "colour": look.colour, "dash": look.dash, "symbol": look.symbol, "verb": look.verb}
            for kind, look in MARK_LOOKS.items()
        ],
        "marks": [
            [kinds.index(mark.kind), mark.replica_id, _seconds(mark.time_s), mark.epoch, mark.offset, mark.log]
            for mark in timeline.marks[:MARKS_MAX]
        ],
        "offline": [[one.log, *_span(one.start_s, one.end_s)] for one in timeline.offline[:MARKS_MAX]],
    }


def _seconds(time_s: float) -> float:
    return round(time_s, 4)


def _span(start_s: float, end_s: float | None) -> tuple[float, float | None]:
    return _seconds(start_s), None if end_s is None else _seconds(end_s)


def _reign(reign: Leadership) -> Sequence[Any]:
    return [reign.replica_id, reign.epoch, reign.log, *_span(reign.start_s, reign.end_s)]


def _anomaly(anomaly: AnomalyView) -> Mapping[str, Any]:
    moment = anomaly.moment
    return {
        "number": anomaly.number,
        "name": anomaly.anomaly,
        "log": anomaly.topic_partition,
        "says": shortened(anomaly.sentence, SENTENCE_MAX),
        "span": None if moment is None else _span(moment.start_s, moment.end_s),
        "at": None if moment is None else _seconds(moment.at_s),
        "operations": [operation.index for operation in anomaly.operations],
    }


def _plot(run: RunView, f: str) -> Mapping[str, Any]:
    outcomes = tuple(Outcome)
    return {
        "f": f,
        "with": [f, FINAL_READ] if f == POLL else [f],
        "rates": [[outcomes.index(rate.outcome), rate.per_second] for rate in run.throughput.rates if rate.f == f],
        "quantiles": [
            {"words": f"p{line.quantile * 100:g}", "dash": QUANTILE_DASHES[line.quantile], "ms": line.latency_ms}
            for line in run.latency.quantiles
            if line.f == f
        ],
    }


def _operations(rows: Sequence[OperationRow]) -> Mapping[str, Any]:
    """Columns, of which those with few values are positions in a list of them; times are in microseconds."""
    return {
        "index": [row.index for row in rows],
        "invoked": [round((row.invoked_s or 0) * 1_000_000) for row in rows],
        "took": [-1 if row.returned_s is None else _took_us(row) for row in rows],
        "process": _coded(row.process for row in rows),
        "f": _coded(row.f for row in rows),
        "key": _coded(row.key for row in rows),
        "outcome": _coded(row.outcome.value for row in rows),
        "node": _coded(row.node for row in rows),
        "error": _coded(row.error for row in rows),
        "value": [_short(row.value) for row in rows],
        "offset": [_short(row.offset) for row in rows],
    }


def _took_us(row: OperationRow) -> int:
    return max(round(((row.returned_s or 0) - (row.invoked_s or 0)) * 1_000_000), 1)


def _coded(texts: Iterable[str]) -> Mapping[str, Any]:
    places: dict[str, int] = {}
    codes = [places.setdefault(text, len(places)) for text in texts]
    return {"texts": list(places), "codes": codes}


def _short(text: str) -> str | int:
    """A number without its quotes, where it is one and stays as it is."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 and str(int(text)) == text else text


def _log(view: LogView) -> Mapping[str, Any]:
    return {
        "name": view.name,
        "reigns": [_reign(reign) for reign in view.reigns[:MARKS_MAX]],
        "inSync": [[one.replica_id, *_span(one.start_s, one.end_s)] for one in view.in_sync[: 4 * MARKS_MAX]],
        "highWatermarks": [_series(series) for series in view.high_watermarks],
        "logEnds": [_series(series) for series in view.log_ends],
        "cuts": [
            [cut.replica_id, _seconds(cut.time_s), cut.from_offset, cut.to_offset] for cut in view.cuts[:MARKS_MAX]
        ],
        "acknowledged": _series(view.acknowledged),
    }


def _series(series: Series) -> Mapping[str, Any]:
    return {"replica": series.replica_id, "times": series.times_s, "offsets": series.offsets}
