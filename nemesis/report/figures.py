"""The drawing: replicas and faults, throughput, and latency on one axis of time.

Owns colours, symbols and layout of the plotly figure. Knows the values it draws and nothing of where they come from.
Colours are near Okabe and Ito's palette for colour-blind readers, of middle lightness so that they stand out on white
and on black; each is doubled by a dash, a symbol or a pattern. All text goes through ``html.escape``, because plotly
reads its texts as markup. Only SVG traces are used: WebGL ones compile code, which the page's content policy forbids.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from nemesis.faults.look import LOOKS, Look
from nemesis.history.events import APPEND, FINAL_READ, POLL
from nemesis.report.timeline import FAULTS_MAX, MARKS_MAX
from nemesis.report.values import (
    Fault,
    Latency,
    LatencyPoints,
    Leadership,
    Mark,
    MarkKind,
    Offline,
    Outcome,
    RunView,
    Throughput,
    Timeline,
)

OUTCOME_COLOURS: Mapping[Outcome, str] = {Outcome.OK: "#2f86c9", Outcome.FAIL: "#c9519b", Outcome.INFO: "#dd8a0c"}
OUTCOME_DASHES: Mapping[Outcome, str] = {Outcome.OK: "solid", Outcome.FAIL: "dash", Outcome.INFO: "dot"}
OUTCOME_SYMBOLS: Mapping[Outcome, str] = {Outcome.OK: "circle", Outcome.FAIL: "x", Outcome.INFO: "diamond"}
FINAL_READ_SYMBOL = "square-open"
QUANTILE_COLOUR = "#1f9c7b"
QUANTILE_DASHES: Mapping[float, str] = {0.5: "solid", 0.99: "dash"}
LEADER_COLOUR = "#1f9c7b"
MARK_COLOURS: Mapping[MarkKind, str] = {
    MarkKind.CONTROLLER: "#2f6fb5",
    MarkKind.ELECTION: "#1f9c7b",
    MarkKind.UNCLEAN: "#c2264b",
    MarkKind.TRUNCATION: "#d0552b",
    MarkKind.ISR_SHRINK: "#b08a00",
}
MARK_DASHES: Mapping[MarkKind, str] = {
    MarkKind.CONTROLLER: "dash",
    MarkKind.ELECTION: "solid",
    MarkKind.UNCLEAN: "solid",
    MarkKind.TRUNCATION: "dot",
    MarkKind.ISR_SHRINK: "dashdot",
}
MARK_SYMBOLS: Mapping[MarkKind, str] = {
    MarkKind.CONTROLLER: "star",
    MarkKind.ELECTION: "triangle-up",
    MarkKind.UNCLEAN: "diamond",
    MarkKind.TRUNCATION: "x-thin",
    MarkKind.ISR_SHRINK: "triangle-down",
}
MARK_VERBS: Mapping[MarkKind, str] = {
    MarkKind.CONTROLLER: "controls",
    MarkKind.ELECTION: "leads",
    MarkKind.UNCLEAN: "leads uncleanly",
    MarkKind.TRUNCATION: "truncates",
    MarkKind.ISR_SHRINK: "loses a replica",
}
OFFLINE_COLOUR = "#c2264b"
OFFLINE_PX = 7
LABELLED_MARKS_MAX = 30
NEUTRAL = "rgba(128,136,144,0.28)"
LANE_PX, RATE_PX, LATENCY_PX, GAP_PX, TOP_PX, BOTTOM_PX = 56, 130, 190, 46, 34, 44
LANES = 1
"""The row of the lanes, at the top; below it two rows for each function: throughput and latency."""


def run_figure(run: RunView) -> go.Figure:
    """All plots of a run on one shared axis of time, in seconds since the first thing that was recorded."""
    functions = drawn_functions(run)
    heights = [LANE_PX * max(len(run.timeline.replicas), 1)] + [RATE_PX, LATENCY_PX] * len(functions)
    inner_px = sum(heights) + GAP_PX * (len(heights) - 1)
    figure = make_subplots(
        rows=len(heights), cols=1, shared_xaxes=True, vertical_spacing=GAP_PX / inner_px, row_heights=heights
    )
    _add_lanes(figure, run.timeline, run.duration_s)
    for position, f in enumerate(functions):
        _add_rates(figure, run.throughput, f, LANES + 1 + 2 * position)
        _add_latency(figure, run.latency, f, LANES + 2 + 2 * position)
    _lay_out(figure, run, inner_px)
    _shade_faults(figure, run.timeline.faults[:FAULTS_MAX], run.duration_s)
    _rule_marks(figure, run.timeline.marks[:MARKS_MAX])
    _mark_offline(figure, run.timeline.offline[:MARKS_MAX], run.duration_s, OFFLINE_PX / inner_px)
    return figure


def drawn_functions(run: RunView) -> tuple[str, ...]:
    """The functions that have rows of their own; final reads are drawn with the polls."""
    found = tuple(dict.fromkeys(rate.f for rate in run.throughput.rates if rate.f != FINAL_READ))
    return found or (APPEND, POLL)


def _lay_out(figure: go.Figure, run: RunView, inner_px: int) -> None:
    figure.update_layout(
        height=inner_px + TOP_PX + BOTTOM_PX,
        margin={"l": 70, "r": 14, "t": TOP_PX, "b": BOTTOM_PX},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#808890"},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "#808890", "activecolor": OUTCOME_COLOURS[Outcome.OK]},
        barmode="overlay",
        hovermode="closest",
        showlegend=False,
        uniformtext={"mode": "hide", "minsize": 10},
    )
    figure.update_xaxes(
        range=[0, max(run.duration_s, 0.1)], gridcolor=NEUTRAL, zeroline=False, showticklabels=True, ticksuffix=" s"
    )
    figure.update_yaxes(gridcolor=NEUTRAL, zeroline=False, title_standoff=8)
    lanes = list(run.timeline.replicas)
    figure.update_yaxes(
        row=LANES,
        col=1,
        tickvals=lanes,
        ticktext=[f"replica {replica}" for replica in lanes],
        range=[max(lanes, default=0) + 0.55, min(lanes, default=0) - 0.55],
        fixedrange=True,
    )


# --- lanes ------------------------------------------------------------------------------------------------------------


def _add_lanes(figure: go.Figure, timeline: Timeline, duration_s: float) -> None:
    _add_leaderships(figure, timeline.leaderships[:MARKS_MAX], duration_s)
    for look in LOOKS:
        faults = [fault for fault in timeline.faults[:FAULTS_MAX] if fault.look is look]
        if faults:
            _add_fault_bars(figure, look, faults, timeline.replicas, duration_s)
    for mark_kind in MarkKind:
        marks = [mark for mark in timeline.marks[:MARKS_MAX] if mark.kind is mark_kind]
        if marks:
            _add_mark_symbols(figure, mark_kind, marks)


def _add_leaderships(figure: go.Figure, reigns: Sequence[Leadership], duration_s: float) -> None:
    figure.add_bar(
        row=LANES,
        col=1,
        orientation="h",
        base=[reign.start_s for reign in reigns],
        x=[_width(reign.start_s, reign.end_s, duration_s) for reign in reigns],
        y=[reign.replica_id - 0.2 for reign in reigns],
        width=0.34,
        text=[f"epoch {reign.epoch}" for reign in reigns],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        textfont={"color": "#ffffff"},
        marker={"color": LEADER_COLOUR, "line": {"width": 0}},
        hovertext=[
            f"replica {reign.replica_id} leads {html.escape(reign.log or '')} epoch {reign.epoch}<br>"
            f"{_span(reign.start_s, reign.end_s)}"
            for reign in reigns
        ],
        hoverinfo="text",
    )


def _add_fault_bars(
    figure: go.Figure, look: Look, faults: Iterable[Fault], lanes: Sequence[int], duration_s: float
) -> None:
    bars = [(fault, replica) for fault in faults for replica in (fault.replicas or lanes)]
    figure.add_bar(
        row=LANES,
        col=1,
        orientation="h",
        base=[fault.start_s for fault, _ in bars],
        x=[_width(fault.start_s, fault.end_s, duration_s) for fault, _ in bars],
        y=[replica + 0.2 for _, replica in bars],
        width=0.34,
        marker={
            "color": look.colour,
            "line": {"width": 1, "color": look.colour},
            "pattern": {"shape": look.pattern, "size": 7, "solidity": 0.35, "fillmode": "replace"},
        },
        hovertext=[
            f"{html.escape(fault.name)} {html.escape(fault.target[:120])}<br>{_span(fault.start_s, fault.end_s)}"
            for fault, _ in bars
        ],
        hoverinfo="text",
    )


def _add_mark_symbols(figure: go.Figure, kind: MarkKind, marks: Sequence[Mark]) -> None:
    figure.add_scatter(
        row=LANES,
        col=1,
        mode="markers",
        x=[mark.time_s for mark in marks],
        y=[mark.replica_id + (0.02 if kind is MarkKind.ELECTION else 0.0) for mark in marks],
        marker={
            "symbol": MARK_SYMBOLS[kind],
            "size": 9,
            "color": MARK_COLOURS[kind],
            "line": {"width": 2.5 if kind is MarkKind.TRUNCATION else 0, "color": MARK_COLOURS[kind]},
        },
        hovertext=[_mark_text(mark) for mark in marks],
        hoverinfo="text",
    )


def _width(start_s: float, end_s: float | None, duration_s: float) -> float:
    return max((duration_s if end_s is None else end_s) - start_s, 0.0)


def _span(start_s: float, end_s: float | None) -> str:
    return f"{start_s:.2f} s to {'the end' if end_s is None else f'{end_s:.2f} s'}"


def _mark_text(mark: Mark) -> str:
    epoch = "" if mark.epoch is None else f", epoch {mark.epoch}"
    offset = "" if mark.offset is None else f", at offset {mark.offset}"
    log = "" if mark.log is None else f" of {html.escape(mark.log)}"
    return f"{mark.kind.value}{log} on replica {mark.replica_id}{epoch}{offset}<br>{mark.time_s:.2f} s"


# --- across the plots -------------------------------------------------------------------------------------------------


def _shade_faults(figure: go.Figure, faults: Sequence[Fault], duration_s: float) -> None:
    """Shade the time of each fault behind throughput and latency; the lanes above say which one it is."""
    top = figure.layout.yaxis2.domain[1]
    shapes = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": fault.start_s,
            "x1": duration_s if fault.end_s is None else fault.end_s,
            "y0": 0,
            "y1": top,
            "fillcolor": fault.look.colour,
            "opacity": 0.13,
            "line": {"width": 0},
            "layer": "below",
        }
        for fault in faults
    ]
    figure.update_layout(shapes=shapes)


def _mark_offline(figure: go.Figure, offline: Sequence[Offline], duration_s: float, height: float) -> None:
    """A bar above throughput and latency while a partition had no leader; those of several cover each other."""
    top = figure.layout.yaxis2.domain[1]
    bars = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": one.start_s,
            "x1": duration_s if one.end_s is None else one.end_s,
            "y0": top,
            "y1": top + height,
            "fillcolor": OFFLINE_COLOUR,
            "line": {"width": 0},
        }
        for one in offline
    ]
    figure.update_layout(shapes=[*figure.layout.shapes, *bars])


def _rule_marks(figure: go.Figure, marks: Sequence[Mark]) -> None:
    """A vertical line for each election and truncation, labelled while there are few enough to read.

    What befell several logs of one replica at one moment is one line: they would cover each other.
    """
    ruled = {(m.kind, m.replica_id, round(m.time_s, 1)): m for m in marks if m.kind is not MarkKind.ISR_SHRINK}
    marks = tuple(ruled.values())
    top = figure.layout.yaxis2.domain[1]
    rules = [
        {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": mark.time_s,
            "x1": mark.time_s,
            "y0": 0,
            "y1": top,
            "line": {"width": 1.3, "color": MARK_COLOURS[mark.kind], "dash": MARK_DASHES[mark.kind]},
        }
        for mark in marks
    ]
    labels = [
        {
            "xref": "x",
            "yref": "paper",
            "x": mark.time_s,
            "y": top,
            "yanchor": "top",
            "xanchor": "center",
            "textangle": 90,
            "xshift": 8,
            "showarrow": False,
            "text": _label(mark),
            "font": {"size": 11},
        }
        for mark in (marks if len(marks) <= LABELLED_MARKS_MAX else ())
    ]
    figure.update_layout(shapes=[*figure.layout.shapes, *rules], annotations=labels)


def _label(mark: Mark) -> str:
    epoch = "" if mark.epoch is None else f" epoch {mark.epoch}"
    return f"{mark.replica_id} {MARK_VERBS[mark.kind]}{epoch}"


# --- throughput and latency -------------------------------------------------------------------------------------------


def _add_rates(figure: go.Figure, throughput: Throughput, f: str, row: int) -> None:
    figure.update_yaxes(row=row, col=1, title_text=f"{html.escape(f)}s per second", rangemode="tozero")
    for rate in throughput.rates:
        if rate.f == f:
            figure.add_scatter(
                row=row,
                col=1,
                mode="lines",
                x=throughput.starts_s,
                y=rate.per_second,
                line={
                    "shape": "hv",
                    "width": 1.6,
                    "color": OUTCOME_COLOURS[rate.outcome],
                    "dash": OUTCOME_DASHES[rate.outcome],
                },
                fill="tozeroy" if rate.outcome is Outcome.OK else None,
                fillcolor="rgba(47,134,201,0.18)",
                hovertemplate=f"{html.escape(f)} {rate.outcome}: %{{y:.0f}}/s at %{{x:.2f}} s<extra></extra>",
            )


def _add_latency(figure: go.Figure, latency: Latency, f: str, row: int) -> None:
    figure.update_yaxes(row=row, col=1, title_text=f"{html.escape(f)} latency (ms)", type="log", dtick=1)
    for points in latency.points:
        if points.f == f or (f == POLL and points.f == FINAL_READ):
            _add_points(figure, points, row)
    for line in latency.quantiles:
        if line.f == f:
            figure.add_scatter(
                row=row,
                col=1,
                mode="lines",
                x=line.times_s,
                y=line.latency_ms,
                line={"width": 2, "color": QUANTILE_COLOUR, "dash": QUANTILE_DASHES[line.quantile]},
                hovertemplate=f"{html.escape(f)} ok p{line.quantile * 100:g}: %{{y:.1f}} ms<extra></extra>",
            )


def _add_points(figure: go.Figure, points: LatencyPoints, row: int) -> None:
    usual = points.outcome is Outcome.OK and points.f != FINAL_READ
    figure.add_scatter(
        row=row,
        col=1,
        mode="markers",
        x=points.times_s,
        y=points.latency_ms,
        marker={
            "symbol": FINAL_READ_SYMBOL if points.f == FINAL_READ else OUTCOME_SYMBOLS[points.outcome],
            "size": 4 if usual else 7,
            "opacity": 0.45 if usual else 0.9,
            "color": OUTCOME_COLOURS[points.outcome],
        },
        hovertemplate=f"{html.escape(points.f)} {points.outcome}: %{{y:.1f}} ms at %{{x:.2f}} s<extra></extra>",
    )
