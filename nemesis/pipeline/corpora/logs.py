"""The link of logs with offsets: the known records are carried, and what is pending.

Owns where such a log is cut, for which nothing need be at rest. Let L be the length that is known from what returned
before a moment. All records below L were appended before it, and all that stands behind L was after whatever stands
below: so operations are of the one part or of the other, if every offset below L has a record that was shown, and an
append that is known to have put it there. What is of the second part is carried, with the appends that nobody saw.
What is of the first is judged with these as appends of unknown outcome, which is what they are by then. If an offset
below L has no record there is no cut, unless none can be there: then the history up to the moment is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays import logs
from nemesis.linearizability.arrays.columns import Bools, Decision, Ending, Function, Ints
from nemesis.linearizability.model import ModelError
from nemesis.pipeline.corpora.bucket import Task, completed, judge_bucket, malformed, told
from nemesis.pipeline.corpora.chain import Judged, Link, Row, unknown
from nemesis.pipeline.corpora.encoding import columns_of, ints, operations_of
from nemesis.pipeline.corpora.log_numbers import Known, LogNumbers, LogRows, Reasons
from nemesis.verdict import Verdict

RECORDS_MAX = 50_000_000
"""How many records may be known, of eight bytes each, and as many more while there is too little room."""
NUMBERED_MAX = 5_000_000
"""How many records that are no numbers may be known: each is kept as it is, with a number that stands for it."""
PENDING_MAX = 100_000
"""How many operations may be carried."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The first part of a history: which rows are of it, and the records that it leaves."""

    is_first: Bools
    records: Ints


class LogLink(Link):
    """One log, in windows of ``window_operations`` operations and records, or more.

    It works on rows of numbers; what is carried, and told as evidence, are the rows as they were.
    """

    def __init__(self, task: Task, window_operations: int) -> None:
        self.asked = window_operations
        self._task = task
        self._numbers = LogNumbers()
        self._known = Known(self._numbers.value)
        self._carried: pa.Table | None = None

    def window(self, rows: pa.Table) -> Judged | None:
        whole = self._whole(rows.slice(0, rows.num_rows - 1))
        moment, taken = int(ints(rows, "invoked", 0)[-1]), rows.num_rows - 1
        try:
            plain = self._plain(whole)
        except ModelError as error:
            return Judged(row=_refused(whole, error), taken=taken)
        behind, wrong = self._known.behind(plain)
        part = _first_part(behind, moment)
        if part is None:
            return self._refuted(whole, behind, wrong, _is_over(behind, moment), taken)
        row = self._judged(whole, *_prefix(behind, part.is_first), wrong)
        if row["verdict"] == Verdict.INVALID and self._returned(whole, row["last_line"]) >= moment:
            return None
        if row["verdict"] != Verdict.VALID:
            return Judged(row=row | _counts(plain), taken=taken)
        self._known.extend(part.records)
        self._carried = whole.filter(pa.array(~part.is_first))
        ended = _counts(plain.filter(pa.array(part.is_first & _is_ended(behind, moment))))
        row |= _counts(plain.filter(pa.array(part.is_first))) | {"decided": ended["judged"]}
        return Judged(row=row, taken=taken, obstacle=self._too_much())

    def rest(self, rows: pa.Table) -> Row:
        whole = self._whole(rows)
        try:
            plain = self._plain(whole)
        except ModelError as error:
            return _refused(whole, error)
        behind, wrong = self._known.behind(plain)
        row = self._judged(whole, behind, np.arange(whole.num_rows), wrong)
        return row | _counts(plain)

    def _plain(self, whole: pa.Table) -> pa.Table:
        """The rows as those of numbers. Raises ModelError where one of them is no operation on a log."""
        spoiled = malformed(whole, np.zeros(whole.num_rows, dtype=np.int64))
        if spoiled:
            raise ModelError(spoiled[0])
        return self._numbers.rows(whole)

    def _whole(self, rows: pa.Table) -> pa.Table:
        rows = completed(rows)
        return rows if self._carried is None else pa.concat_tables([self._carried, rows]).combine_chunks()

    def _refuted(self, whole: pa.Table, behind: pa.Table, wrong: Reasons, is_over: Bools, taken: int) -> Judged | None:
        """The judgement of what cannot be cut, if it is wrong whatever comes."""
        prefix, places = _prefix(behind, is_over)
        if not prefix.num_rows:
            return None
        columns = columns_of(prefix, np.zeros(prefix.num_rows, dtype=np.int64), 1)
        if logs.decide(columns).decisions[0] != Decision.VIOLATED:
            return None
        row = self._judged(whole, prefix, places, wrong)
        return Judged(row=row | _counts(behind), taken=taken) if row["verdict"] == Verdict.INVALID else None

    def _judged(self, whole: pa.Table, behind: pa.Table, places: Ints, wrong: Reasons) -> Row:
        """The judgement of the rows ``behind``, which stand in ``whole`` at ``places``; evidence is of ``whole``."""
        row: dict[str, Any] = judge_bucket(behind, self._task, self._numbers.operations).to_pylist()[0]
        if row["conflict"] is None or not self._known.length:
            return row
        lines = ints(whole, "line", 0)
        conflict = np.isin(lines, [operation["line"] for operation in row["conflict"]])
        named = operations_of(whole.filter(pa.array(conflict & np.isin(np.arange(len(lines)), places))))
        reasons = [reason for place, reason in sorted(wrong.items()) if lines[place] == row["last_line"]]
        if reasons:
            return row | {"reason": reasons[0], "conflict": [told(operation) for operation in named]}
        reason = f"{row['reason']} (offsets are counted from {self._known.length}, where the window begins)"
        return row | {"reason": reason, "conflict": [told(operation) for operation in named]}

    def _returned(self, whole: pa.Table, line: int) -> int:
        """When the operation of this line returned: what begins before may be wrong first."""
        return int(ints(whole, "returned", 0)[ints(whole, "line", 0) == line].max())

    def _too_much(self) -> str | None:
        """Why that cannot be carried, if it is so."""
        assert self._carried is not None, "nothing was cut"
        if self._known.length > RECORDS_MAX:
            return f"{self._known.length} records are too many to be kept, more than {RECORDS_MAX}"
        if len(self._numbers) > NUMBERED_MAX:
            return f"{len(self._numbers)} records that are no numbers are too many to be kept, more than {NUMBERED_MAX}"
        if self._carried.num_rows > PENDING_MAX:
            return f"where it was cut {self._carried.num_rows} operations were pending, more than {PENDING_MAX}"
        return None


def _refused(rows: pa.Table, error: ModelError) -> Row:
    """That nothing is known, for the model does not know one of the operations."""
    unknown_outcomes = int((ints(rows, "ending", 0) == Ending.INFO).sum())
    counts = {"operations": rows.num_rows, "judged": rows.num_rows, "unknown_outcomes": unknown_outcomes}
    return unknown(str(error)) | counts


def _counts(rows: pa.Table) -> Row:
    """How many rows there are, of unknown outcome, and that say something."""
    log = LogRows.of(rows)
    is_told = (log.columns.function < Function.APPEND) & (log.columns.ending != Ending.FAIL)
    return {
        "operations": rows.num_rows,
        "unknown_outcomes": int((log.columns.ending == Ending.INFO).sum()),
        "judged": int((log.is_append | log.is_read | is_told).sum()),
    }


def _is_over(rows: pa.Table, moment: int) -> Bools:
    """Which rows have ended before the moment, or have had no effect."""
    over: Bools = _is_ended(rows, moment) | (ints(rows, "ending", 0) == Ending.FAIL)
    return over


def _is_ended(rows: pa.Table, moment: int) -> Bools:
    ended: Bools = rows.column("returned").is_valid().to_numpy() & (ints(rows, "returned", 0) < moment)
    return ended


def _prefix(rows: pa.Table, is_first: Bools) -> tuple[pa.Table, Ints]:
    """The rows that are first, and all other appends as such of unknown outcome; and where they stand in ``rows``."""
    is_unknown = ~is_first & (ints(rows, "function", 0) == Function.APPEND)
    if not is_unknown.any():
        return rows.filter(pa.array(is_first)), np.flatnonzero(is_first)
    changed = {
        "ending": pa.array(np.where(is_unknown, Ending.INFO, ints(rows, "ending", 0)).astype(np.int8)),
        "returned": pa.array(ints(rows, "returned", 0), mask=is_unknown | rows.column("returned").is_null().to_numpy()),
        "result": pa.array(ints(rows, "result", 0), mask=is_unknown | rows.column("result").is_null().to_numpy()),
    }
    for name, column in changed.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), column)
    kept = is_first | is_unknown
    return rows.filter(pa.array(kept)), np.flatnonzero(kept)


def _first_part(rows: pa.Table, moment: int) -> _Part | None:
    """What is of the first part, where the log is cut at ``moment``; None if it cannot be."""
    log = LogRows.of(rows)
    columns = log.columns
    over = _is_over(rows, moment)
    if ((columns.function < Function.APPEND) & (columns.ending != Ending.FAIL)).any():
        return None
    length = int(np.max(log.end, where=over & (log.is_sure | (log.counts > 0)), initial=0))
    # A limit may end a read within a batch, all of which was there.
    length = int(np.max(log.end, where=log.is_sure & (columns.result < length), initial=length))
    read = log.is_read & (over | (log.end <= length))
    sure = log.is_sure & (over | (columns.result < length))
    shown = log.shown(read | sure)
    shown = shown.where((shown.offset >= 0) & (shown.offset < length))
    if length > len(shown.offset):
        return None
    records, is_filled, is_claimed = np.zeros(length, np.int64), np.zeros(length, np.bool_), np.zeros(length, np.bool_)
    records[shown.offset], is_filled[shown.offset] = shown.record, True
    is_claimed[shown.offset[sure[shown.row]]] = True
    if not is_filled.all():
        return None
    unclaimed = records[~is_claimed]
    seen = _seen(log, unclaimed, over)
    if seen is None:
        return None
    if not (over | read | sure | seen).any():
        return None
    silent = (columns.function >= Function.FETCH) & ~log.is_read
    return _Part(is_first=over | read | sure | seen | silent, records=records)


def _seen(log: LogRows, unclaimed: Ints, over: Bools) -> Bools | None:
    """The appends that nobody told the offset of, and that put the ``unclaimed`` records; None if that is not sure.

    An append that is told to have put one of these elsewhere is among them: it contradicts who saw it.
    """
    unsure = np.flatnonzero(log.is_append & ~log.is_sure)
    first = log.first_records(unsure)
    is_shown = np.isin(first, unclaimed)
    found = np.zeros(len(over), dtype=np.bool_)
    found[unsure[is_shown]] = True
    claimed = log.records_of(unsure[is_shown])
    if len(np.unique(claimed)) < len(claimed) or (over[unsure] & ~is_shown).any():
        return None
    left = np.setdiff1d(unclaimed, claimed)
    if not np.isin(claimed, unclaimed).all():
        return None
    if len(left) and (log.size[unsure[~is_shown]] > 1).any():
        return None
    rest = np.flatnonzero(log.is_sure)
    found[rest[np.isin(log.first_records(rest), left)]] = True
    return found
