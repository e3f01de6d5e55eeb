"""A list that grows at its end and is read whole: decided without a search.

Owns the reduction to a log: the longest read has every element's place, every other read is a prefix of it and tells
the exact length. An acknowledged element that the longest read lacks comes after all that were read. O(n log n) and one
comparison of each read with the longest.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from nemesis.linearizability.forms import AppendForm, WholeForm
from nemesis.linearizability.logs import LogFacts, contradiction
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.linearizability.violation import InapplicableError, Violation


def violation_of(operations: Sequence[Operation], forms: Sequence[AppendForm | WholeForm]) -> Violation | None:
    """Why a list cannot have done ``operations``; None if it can.

    Raises InapplicableError if an element was appended twice.
    """
    reads = [(form.records, k) for k, form in enumerate(forms) if isinstance(form, WholeForm)]
    longest, reader = max(reads, key=lambda read: len(read[0]), default=((), -1))
    places = {record: place for place, record in enumerate(longest)}
    facts = LogFacts()
    appended: set[Hashable] = set()
    for k, form in enumerate(forms):
        if not isinstance(form, AppendForm):
            continue
        (record,) = form.records
        if record in appended:
            raise InapplicableError(f"{record!r} was appended twice")
        appended.add(record)
        if record in places:
            facts.placed.append((places[record], places[record] + 1, k))
        elif operations[k].outcome is Outcome.OK:
            facts.unseen.append((1, k))
    if (wrong := _wrong_read(reads, longest, reader, appended)) is not None:
        return wrong
    facts.lengths = [(len(records), len(records), k) for records, k in reads]
    return contradiction(operations, facts)


def _wrong_read(
    reads: Sequence[tuple[tuple[Hashable, ...], int]],
    longest: tuple[Hashable, ...],
    reader: int,
    appended: set[Hashable],
) -> Violation | None:
    """A read of what nobody appended, of an element twice, or one that does not begin the longest."""
    for record in longest:
        if record not in appended:
            return Violation(operations=(reader,), reason=f"{record!r} was read and never appended")
    if len(set(longest)) < len(longest):
        return Violation(operations=(reader,), reason="an element was read twice, and appended once")
    for records, k in reads:
        if longest[: len(records)] != records:
            return Violation(operations=tuple(sorted((k, reader))), reason="neither of two reads begins the other")
    return None
