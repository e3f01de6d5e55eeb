"""Logs with offsets: decided without a search.

Owns the rules. An append that was acknowledged, or that a read shows, has a place; a read tells between which lengths
the log was. A log is linearizable exactly if (1) an offset has one value and a value one offset, and nobody read what
nobody appended; (2) no two appends overlap, and no read sees a part of one; (3) with M(t) the greatest length that is
known from what returned before t, nothing that began at t needs a smaller one; (4) each hole below the greatest known
length can be filled by an unknown append of its own, begun while M was not above the hole. Only lower bounds travel
forward in time, so to read at the least possible length is always best; thresholds of holes are nested, so Hall's
condition is a count. Acknowledged appends of unknown offset, where there is no hole, stand behind all that is known, in
the order in which they returned: that is as late as they can, so the log is never longer than it must be. Where there
are holes, ``holes`` says which of them stand there. O(n log n).

Exact for single records. Batches of unknown offset beside holes are a packing problem: where they do not fit as they
come, it is not for this kernel.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from nemesis.linearizability.forms import EVER, AppendForm, FetchForm
from nemesis.linearizability.holes import Filler, fill, pack
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.linearizability.violation import InapplicableError, Violation


@dataclass(slots=True, kw_only=True)
class LogFacts:
    """What is known of one log. Operations are indexes.

    ``placed`` are (base, end, operation) of appends. ``lengths`` are (low, high, operation): the log was at least so
    long, and at most, when the operation read it. ``unseen`` are (records, operation) of acknowledged appends without
    a place, ``unknown`` those of unknown appends without one.
    """

    placed: list[tuple[int, int, int]] = field(default_factory=list)
    lengths: list[tuple[int, int, int]] = field(default_factory=list)
    unseen: list[tuple[int, int]] = field(default_factory=list)
    unknown: list[tuple[int, int]] = field(default_factory=list)


def violation_of(operations: Sequence[Operation], forms: Sequence[AppendForm | FetchForm]) -> Violation | None:
    """Why a log cannot have done ``operations``; None if it can.

    Raises InapplicableError if a record was appended twice, or where a packing problem is left.
    """
    facts = _facts(operations, forms)
    return facts if isinstance(facts, Violation) else contradiction(operations, facts)


@dataclass(slots=True)
class _Places:
    """At which offset a record stands, which record at an offset, and who said so first."""

    offset_of: dict[Hashable, tuple[int, int]] = field(default_factory=dict)
    record_at: dict[int, tuple[Hashable, int]] = field(default_factory=dict)

    def put(self, offset: int, record: Hashable, k: int) -> Violation | None:
        """``k`` says that ``record`` stands at ``offset``."""
        there, by = self.record_at.setdefault(offset, (record, k))
        if there != record:
            return Violation(operations=_both(by, k), reason=f"offset {offset} holds both {there!r} and {record!r}")
        place, by = self.offset_of.setdefault(record, (offset, k))
        if place != offset:
            return Violation(operations=_both(by, k), reason=f"{record!r} is at offsets {place} and {offset}")
        return None


def _both(one: int, other: int) -> tuple[int, ...]:
    return tuple(sorted({one, other}))


def _facts(operations: Sequence[Operation], forms: Sequence[AppendForm | FetchForm]) -> LogFacts | Violation:
    """Where everything is, or why that cannot be."""
    appended: set[Hashable] = set()
    places = _Places()
    for form in forms:
        if isinstance(form, AppendForm):
            if not appended.isdisjoint(form.records) or len(set(form.records)) < len(form.records):
                raise InapplicableError("a record was appended twice")
            appended.update(form.records)
    facts = LogFacts()
    for k, form in enumerate(forms):
        if isinstance(form, FetchForm):
            start, records = form.start, form.records
            if form.limit is not None and len(records) > form.limit:
                return Violation(
                    operations=(k,), reason=f"a fetch of at most {form.limit} records returned {len(records)}"
                )
            facts.lengths.append((*_bounds(form), k))
        elif form.base is not None:
            start, records = form.base, form.records
        else:
            continue
        for offset, record in enumerate(records, start):
            if record not in appended:
                return Violation(operations=(k,), reason=f"{record!r} was read and never appended")
            if (clash := places.put(offset, record, k)) is not None:
                return clash
    return _placed(operations, forms, facts, places) or facts


def _bounds(form: FetchForm) -> tuple[int, int]:
    """Between which lengths the log was when it was read so."""
    count = len(form.records)
    end = form.start + count if count else 0
    if form.limit is not None and count >= form.limit:
        return end, EVER
    if form.stale:
        return end, EVER
    return end, form.start + count


def _placed(
    operations: Sequence[Operation], forms: Sequence[AppendForm | FetchForm], facts: LogFacts, places: _Places
) -> Violation | None:
    """Give each append its place, by what it returned or by where its first shown record stands."""
    for k, form in enumerate(forms):
        if not isinstance(form, AppendForm):
            continue
        base = form.base
        if base is None:
            shown = (
                (i, places.offset_of[record][0]) for i, record in enumerate(form.records) if record in places.offset_of
            )
            first = next(shown, None)
            base = None if first is None else first[1] - first[0]
        if base is None:
            group = facts.unseen if operations[k].outcome is Outcome.OK else facts.unknown
            group.append((len(form.records), k))
            continue
        for offset, record in enumerate(form.records, base):
            if (clash := places.put(offset, record, k)) is not None:
                return clash
        facts.placed.append((base, base + len(form.records), k))
        if base < 0:
            return Violation(operations=(k,), reason="a batch is shown so that it would begin before the log")
    return None


def contradiction(operations: Sequence[Operation], facts: LogFacts) -> Violation | None:
    """Why ``facts`` cannot all be true; None if they can. Raises InapplicableError where a packing problem is left."""
    facts.placed.sort()
    for one, other in pairwise(facts.placed):
        if other[0] < one[1]:
            return Violation(operations=_both(one[2], other[2]), reason=f"two appends were given offset {other[0]}")
    if (torn := _whole_batches(facts)) is not None:
        return torn
    bounds = _Bounds(operations, facts)
    early = bounds.too_short(operations, facts)
    if facts.unseen and (gaps := _gaps(facts)):
        known = replace(facts, unseen=[])
        if (sure := _Bounds(operations, known).too_short(operations, known)) is not None:
            return sure
        if all(records == 1 for records, _ in [*facts.unseen, *facts.unknown]):
            return _with_holes_filled(operations, facts, gaps)
        if early is not None:
            _check_packed(operations, facts, gaps)
            return None
    return early or _unfilled(operations, facts, bounds)


def _whole_batches(facts: LogFacts) -> Violation | None:
    """Move each read's lengths to where batches begin and end; a read within a batch is a violation."""
    bases = [base for base, _, _ in facts.placed]
    for place, (low, high, k) in enumerate(facts.lengths):
        above, below = _batch_around(facts, bases, low), _batch_around(facts, bases, high)
        facts.lengths[place] = (low if above is None else above[1], high if below is None else below[0], k)
        if above is not None and facts.lengths[place][0] > facts.lengths[place][1]:
            return Violation(operations=_both(above[2], k), reason="a part of a batch was read")
    return None


def _batch_around(facts: LogFacts, bases: Sequence[int], length: int) -> tuple[int, int, int] | None:
    place = bisect_right(bases, length) - 1
    if place >= 0 and facts.placed[place][0] < length < facts.placed[place][1]:
        return facts.placed[place]
    return None


class _Bounds:
    """M(t): the greatest length that is known from what returned before t, if no hole is for an unseen append."""

    def __init__(self, operations: Sequence[Operation], facts: LogFacts) -> None:
        known = [(end, k) for _, end, k in facts.placed]
        known += [(low, k) for low, _, k in facts.lengths if low]
        known += _behind_all(operations, facts)
        returned = ((operations[k].returned, length, k) for length, k in known)
        self._times: list[int] = []
        self._lengths: list[tuple[int, int]] = []
        greatest = (0, -1)
        for time, length, k in sorted((time, length, k) for time, length, k in returned if time is not None):
            greatest = max(greatest, (length, k))
            self._times.append(time)
            self._lengths.append(greatest)

    def at(self, time: int) -> tuple[int, int]:
        """M, and by which operation it is known; (0, -1) if nothing returned."""
        place = bisect_left(self._times, time) - 1
        return self._lengths[place] if place >= 0 else (0, -1)

    def too_short(self, operations: Sequence[Operation], facts: LogFacts) -> Violation | None:
        """An operation that needs the log to have been shorter than it was known to be; who knew it comes first."""
        highest = [(base, k) for base, _, k in facts.placed] + [(high, k) for _, high, k in facts.lengths]
        for high, k in highest:
            length, by = self.at(operations[k].invoked)
            if length > high:
                reason = f"the log had at least {length} records before that began, and at most {high} by its answer"
                return Violation(operations=(by, k), reason=reason)
        return None


def _behind_all(operations: Sequence[Operation], facts: LogFacts) -> list[tuple[int, int]]:
    """The lengths that unseen appends make, behind all that has a place or was read: (length, operation)."""
    length = max([0, *(end for _, end, _ in facts.placed), *(low for low, _, _ in facts.lengths)])
    lengths: list[tuple[int, int]] = []
    for records, k in sorted(facts.unseen, key=lambda unseen: operations[unseen[1]].returned or 0):
        length += records
        lengths.append((length, k))
    return lengths


def _gaps(facts: LogFacts) -> list[tuple[int, int]]:
    """The holes below the greatest known length, as (first offset, one after the last)."""
    greatest = max((low for low, _, _ in facts.lengths), default=0)
    gaps: list[tuple[int, int]] = []
    end = 0
    for base, after, _ in [*facts.placed, (greatest, greatest, -1)]:
        if base > end:
            gaps.append((end, base))
        end = max(end, after)
    return gaps


def _unfilled(operations: Sequence[Operation], facts: LogFacts, bounds: _Bounds) -> Violation | None:
    """A hole that no unknown append can fill."""
    gaps = _gaps(facts)
    if not gaps:
        return None
    batches = any(records > 1 for records, _ in facts.unknown)
    candidates = sorted((bounds.at(operations[k].invoked)[0], records) for records, k in facts.unknown)
    needed = filled = place = 0
    for first, after in gaps:
        for hole in range(first, after):
            needed += 1
            while place < len(candidates) and candidates[place][0] <= hole:
                filled += candidates[place][1]
                place += 1
            if filled < needed:
                if not facts.unseen:
                    return _nobody(facts, hole, after)
                _check_packed(operations, facts, gaps)
                return None
    if batches:
        _check_packed(operations, facts, gaps)
    return None


def _nobody(facts: LogFacts, hole: int, after: int) -> Violation:
    """That a hole stays empty, which ends at offset ``after``."""
    members = [k for base, _, k in facts.placed if base == after][:1]
    members = members or [k for low, _, k in facts.lengths if low > hole][:1]
    return Violation(operations=tuple(members), reason=f"no append can have filled offset {hole}")


def _with_holes_filled(
    operations: Sequence[Operation], facts: LogFacts, gaps: Sequence[tuple[int, int]]
) -> Violation | None:
    """What is wrong even if single records of unknown offset fill the ``gaps`` as well as they can."""
    fillers = _fillers(operations, facts)
    length = max([0, *(end for _, end, _ in facts.placed), *(low for low, _, _ in facts.lengths)])
    offsets = fill(gaps, length, fillers, len(facts.unseen))
    if isinstance(offsets, int):
        return _nobody(facts, offsets, next(after for _, after in gaps if after > offsets))
    placed = [*facts.placed, *((offset, offset + 1, k) for k, offset in offsets.items())]
    full = LogFacts(placed=placed, lengths=facts.lengths)
    early = _Bounds(operations, full).too_short(operations, full)
    if early is None:
        return None
    reason = "wherever the appends of unknown offset stand, some operation needs the log to have been shorter"
    return Violation(operations=early.operations, reason=reason)


def _check_packed(operations: Sequence[Operation], facts: LogFacts, gaps: Sequence[tuple[int, int]]) -> None:
    """Raise InapplicableError unless batches of unknown offset are seen to fill the ``gaps``, and nothing is wrong."""
    offsets = pack(gaps, _fillers(operations, facts))
    if offsets is not None:
        placed = [*facts.placed, *((offsets[k], offsets[k] + n, k) for n, k in _unplaced(facts) if k in offsets)]
        unseen = [(n, k) for n, k in facts.unseen if k not in offsets]
        if contradiction(operations, LogFacts(placed=placed, lengths=list(facts.lengths), unseen=unseen)) is None:
            return
    raise InapplicableError("batches of unknown offset beside holes")


def _unplaced(facts: LogFacts) -> list[tuple[int, int]]:
    return [*facts.unseen, *facts.unknown]


def _fillers(operations: Sequence[Operation], facts: LogFacts) -> list[Filler]:
    """What has no place, and from where on it may have one."""
    known = _Bounds(operations, replace(facts, unseen=[]))
    fillers: list[Filler] = []
    for records, k in _unplaced(facts):
        invoked, returned = operations[k].invoked, operations[k].returned
        fillers.append(Filler(known.at(invoked)[0], EVER if returned is None else returned, k, invoked, records))
    return fillers
