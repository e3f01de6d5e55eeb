"""Pair invocations with completions, count them, and bin them over time.

Owns the arithmetic from the rows of a history to throughput, latency and counts, in numpy so that a history of millions
of rows is drawn in seconds, and the bounds on what is drawn. Knows nothing of faults, verdicts or drawing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nemesis.history.events import APPEND, FINAL_READ, NEMESIS_PROCESS, POLL
from nemesis.history.pairing import UNRETURNED, pairs
from nemesis.report.values import (
    ErrorCount,
    LatencyQuantile,
    OperationCounts,
    Outcome,
    Rate,
    Throughput,
)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

BINS_MAX = 160
"""So many bins fit on a page before neighbours can no longer be told apart."""
BIN_WIDTHS_MS = (100, 200, 250, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 3_600_000)
DRAWN_MAX = 20_000
"""Operations that are drawn, of all functions and outcomes together."""
QUANTILES = (0.5, 0.99)
ERRORS_MAX = 30
KNOWN_FUNCTIONS = (APPEND, POLL, FINAL_READ)
"""The functions of clients in the order in which they are shown; a workload's own ones follow by name."""
NS_PER_SECOND = 1_000_000_000
NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The operations of clients and of the harness in order of invocation, one entry of each array for each of them.

    ``invoke_row`` and ``return_row`` are rows of the history (the latter may be ``UNRETURNED``); times are seconds
    since the origin, and the time of return of an open operation is NaN. ``outcome`` indexes ``tuple(Outcome)``.
    """

    functions: tuple[str, ...]
    f: Ints
    outcome: Ints
    invoke_row: Ints
    return_row: Ints
    invoked_s: Floats
    returned_s: Floats

    def where(self, f: int, outcome: Outcome) -> Bools:
        mask: Bools = (self.f == f) & (self.outcome == tuple(Outcome).index(outcome))
        return mask

    def groups(self) -> Iterator[tuple[str, Outcome, Bools]]:
        for code, name in enumerate(self.functions):
            for outcome in Outcome:
                mask = self.where(code, outcome)
                if mask.any():
                    yield name, outcome, mask


def pair_operations(history: pa.Table, origin_ns: int) -> Operations:
    """Join each invocation but the nemesis's to its completion. ``history`` has the columns of ``HISTORY_SCHEMA``.

    A completion without invocation is left out: it can only come from a damaged history.
    """
    rows = np.flatnonzero(_ints(history.column("process")) != NEMESIS_PROCESS)
    begins, ends = pairs(history.take(pa.array(rows)))
    return_row = np.append(rows, UNRETURNED)[ends]
    return _operations(history, rows[begins], return_row, origin_ns)


def of_clients(operations: Operations, history: pa.Table) -> Operations:
    """Without what the harness did: its looking and waiting are no throughput and no latency of the system."""
    chosen = _ints(history.column("process"))[operations.invoke_row] >= 0
    names = ("f", "outcome", "invoke_row", "return_row", "invoked_s", "returned_s")
    return replace(operations, **{name: getattr(operations, name)[chosen] for name in names})


def _operations(history: pa.Table, invoke_row: Ints, return_row: Ints, origin_ns: int) -> Operations:
    names = set(history.column("f").take(pa.array(invoke_row)).unique().to_pylist())
    functions = (*KNOWN_FUNCTIONS, *sorted(names - set(KNOWN_FUNCTIONS)))
    times_s = (_ints(history.column("time_ns")) - origin_ns) / NS_PER_SECOND
    outcome = _codes(history.column("type"), tuple(Outcome))
    is_open = return_row == UNRETURNED
    return Operations(
        functions=functions,
        f=_codes(history.column("f"), functions)[invoke_row],
        outcome=np.where(is_open, tuple(Outcome).index(Outcome.INFO), outcome[return_row]),
        invoke_row=invoke_row,
        return_row=return_row,
        invoked_s=times_s[invoke_row],
        returned_s=np.where(is_open, np.nan, times_s[return_row]),
    )


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _codes(column: pa.ChunkedArray, values: tuple[str, ...]) -> Ints:
    """The position of each string in ``values``; -1 for any other."""
    return _ints(pc.fill_null(pc.index_in(column, value_set=pa.array(values)), -1))


def bin_width_ms(duration_s: float) -> int:
    """The finest listed width that gives at most ``BINS_MAX`` bins; the coarsest when none does."""
    return next((width for width in BIN_WIDTHS_MS if duration_s * 1000 / width <= BINS_MAX), BIN_WIDTHS_MS[-1])


def throughput(operations: Operations, duration_s: float) -> Throughput:
    """Completions per second by bin; an operation that never returned counts where it was invoked."""
    width_ms = bin_width_ms(duration_s)
    bins = int(duration_s * 1000 // width_ms) + 1
    ended_s = np.where(np.isnan(operations.returned_s), operations.invoked_s, operations.returned_s)
    position = np.clip((ended_s * 1000 // width_ms).astype(np.int64), 0, bins - 1)
    rates = tuple(
        Rate(
            f=f,
            outcome=outcome,
            per_second=tuple((np.bincount(position[mask], minlength=bins) * 1000 / width_ms).round(3).tolist()),
        )
        for f, outcome, mask in operations.groups()
    )
    return Throughput(bin_ms=width_ms, starts_s=tuple(i * width_ms / 1000 for i in range(bins)), rates=rates)


def quantile_lines(operations: Operations, duration_s: float) -> tuple[LatencyQuantile, ...]:
    """The quantiles of the latency of each function over all that ended ok."""
    milliseconds = _milliseconds(operations)
    return tuple(
        line
        for f, outcome, mask in operations.groups()
        if outcome is Outcome.OK
        for line in _quantile_lines(f, operations.invoked_s[mask], milliseconds[mask], duration_s)
    )


def _milliseconds(operations: Operations) -> Floats:
    """How long each took; infinite where it never returned."""
    took: Floats = np.maximum((operations.returned_s - operations.invoked_s) * 1000, 0.001)
    return np.where(np.isnan(took), np.inf, took)


def drawn_positions(operations: Operations, always: Ints, drawn_max: int = DRAWN_MAX) -> Ints:
    """The positions of at most about ``drawn_max`` operations, in order of invocation: all while there are no more.

    Else of each function and outcome: in each stretch of time the slowest and the fastest, so that no extreme is lost,
    and others evenly over time. Those in ``always`` are among them.
    """
    milliseconds = _milliseconds(operations)
    groups = [np.flatnonzero(mask) for _, _, mask in operations.groups()]
    shares = _shares([len(found) for found in groups], drawn_max)
    drawn = [_sample(found, milliseconds, share) for found, share in zip(groups, shares, strict=True)]
    return np.unique(np.concatenate([always, *drawn]).astype(np.int64))


def _shares(sizes: Sequence[int], drawn_max: int) -> list[int]:
    """How many each group may draw: small groups all of theirs, the others what is left in equal parts."""
    shares, left = [0] * len(sizes), drawn_max
    for rank, group in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[group] = min(sizes[group], left // (len(sizes) - rank))
        left -= shares[group]
    return shares


def _sample(found: Ints, milliseconds: Floats, share: int) -> Ints:
    """At most about ``share`` of ``found``: a quarter each for the slowest and the fastest, the rest evenly."""
    if len(found) <= share:
        return found
    stretches = max(share // 4, 1)
    stretch = np.arange(len(found)) * stretches // len(found)
    order = np.lexsort((milliseconds[found], stretch))
    edges = np.searchsorted(stretch, np.arange(stretches + 1))
    extremes = np.concatenate([found[order[edges[:-1]]], found[order[edges[1:] - 1]]])
    evenly = found[np.linspace(0, len(found) - 1, max(share - 2 * stretches, 0)).astype(np.int64)]
    return np.union1d(extremes, evenly)


def _quantile_lines(f: str, invoked_s: Floats, milliseconds: Floats, duration_s: float) -> Iterator[LatencyQuantile]:
    width_s = bin_width_ms(duration_s) / 1000
    bins = int(duration_s // width_s) + 1
    position = np.clip((invoked_s // width_s).astype(np.int64), 0, bins - 1)
    order = np.argsort(position, kind="stable")
    edges = np.searchsorted(position[order], np.arange(bins + 1))
    parts = [milliseconds[order[edges[i] : edges[i + 1]]] for i in range(bins)]
    for quantile in QUANTILES:
        values = tuple(round(float(np.quantile(part, quantile)), 4) if len(part) else None for part in parts)
        times_s = tuple((i + 0.5) * width_s for i in range(bins))
        yield LatencyQuantile(f=f, quantile=quantile, times_s=times_s, latency_ms=values)


def count_operations(operations: Operations) -> tuple[OperationCounts, ...]:
    """One entry for each function that occurs."""
    counts = (
        OperationCounts(f=f, counts={outcome: int(operations.where(code, outcome).sum()) for outcome in Outcome})
        for code, f in enumerate(operations.functions)
    )
    return tuple(entry for entry in counts if entry.total)


def count_errors(operations: Operations, history: pa.Table) -> tuple[ErrorCount, ...]:
    """The recorded errors, most frequent first, at most ``ERRORS_MAX``; what never returned has a line of its own."""
    rows = operations.return_row[operations.return_row != UNRETURNED]
    table = history.select(["f", "type", "error"]).take(pa.array(rows))
    table = table.filter(pc.is_valid(table.column("error")))
    grouped = table.group_by(["f", "type", "error"]).aggregate([([], "count_all")])
    errors = [
        ErrorCount(f=row["f"], outcome=Outcome(row["type"]), error=row["error"], count=row["count_all"])
        for row in grouped.to_pylist()
    ]
    for code, f in enumerate(operations.functions):
        never = int(((operations.f == code) & (operations.return_row == UNRETURNED)).sum())
        if never:
            errors.append(ErrorCount(f=f, outcome=Outcome.INFO, error="never returned", count=never))
    return tuple(sorted(errors, key=lambda entry: (-entry.count, entry.f, entry.error))[:ERRORS_MAX])
