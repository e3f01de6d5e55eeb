"""A set that grows and is read whole: decided without a search.

Owns the rules. Every read returned a set, so it says of each element whether it was added before or after. With each
element added once, (1) of two reads one has all that the other has; (2) that puts all operations into ranks: reads by
their size, and before those of each size the adds of what the smaller lack; (3) nothing of a lower rank began after
something of a higher rank had returned. An order by rank, and within a rank by invocation, then explains all. An add
that nobody saw comes last, or never. O(n log n), and what it takes to compare each read with the next larger one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from nemesis.linearizability.forms import EVER, AddForm, MembersForm
from nemesis.linearizability.operations import Operation, Value
from nemesis.linearizability.violation import InapplicableError, Violation


def violation_of(operations: Sequence[Operation], forms: Sequence[AddForm | MembersForm]) -> Violation | None:
    """Why a set cannot have done ``operations``, which are in the order of their invocations; None if it can.

    Raises InapplicableError if an element was added twice.
    """
    adds: dict[Value, int] = {}
    for k, form in enumerate(forms):
        if isinstance(form, AddForm) and adds.setdefault(form.element, k) != k:
            raise InapplicableError(f"{form.element!r} was added twice")
    reads = [(form.elements, k) for k, form in enumerate(forms) if isinstance(form, MembersForm)]
    for elements, k in reads:
        if len(set(elements)) < len(elements):
            return Violation(operations=(k,), reason="an element was read twice, and a set has it once")
    reads.sort(key=lambda read: len(read[0]))
    return _wrong_read(adds, reads) or _wrong_time(operations, _Ranks(adds, reads))


Reads = Sequence[tuple[Sequence[Value], int]]
"""What each read returned, and which operation that is; the smallest first."""


def _sets(reads: Reads) -> Iterator[tuple[frozenset[Value], int]]:
    """The same as sets, one at a time: all of them together would take many times what the history does."""
    return ((frozenset(elements), k) for elements, k in reads)


def _wrong_read(adds: dict[Value, int], reads: Reads) -> Violation | None:
    """Two reads that each have what the other lacks, or a read of what nobody added."""
    for (smaller, one), (larger, other) in pairwise(_sets(reads)):
        if not smaller <= larger:
            both = tuple(sorted((one, other)))
            return Violation(operations=both, reason="each of two reads has an element that the other lacks")
    largest, reader = reads[-1] if reads else ((), -1)
    for element in largest:
        if element not in adds:
            return Violation(operations=(reader,), reason=f"{element!r} was read and never added")
    return None


class _Ranks:
    """The operations in ranks: adds have even ones, reads odd ones. ``readers`` are one read for each odd one."""

    def __init__(self, adds: dict[Value, int], reads: Reads) -> None:
        self.adds = {k: element for element, k in adds.items()}
        self.rank: dict[int, int] = {}
        self.readers: list[tuple[Sequence[Value], int]] = []
        known: frozenset[Value] = frozenset()
        for (elements, k), read in zip(_sets(reads), reads, strict=True):
            if not self.readers or len(elements) > len(known):
                self.rank |= {adds[element]: 2 * len(self.readers) for element in elements - known}
                self.readers.append(read)
                known = elements
            self.rank[k] = 2 * len(self.readers) - 1
        last = 2 * len(self.readers)
        self.rank |= {k: last for k in self.adds if k not in self.rank}


def _wrong_time(operations: Sequence[Operation], ranks: _Ranks) -> Violation | None:
    """Something that began after something of a higher rank had returned: of the former, what begins first.

    The latter is, of all that ended before, what has the highest rank.
    """
    returns = sorted(ranks.rank, key=lambda k: _end(operations[k]))
    highest, ended = -1, 0
    for k, operation in enumerate(operations):
        while ended < len(returns) and _end(operations[returns[ended]]) < operation.invoked:
            if highest < 0 or ranks.rank[returns[ended]] > ranks.rank[highest]:
                highest = returns[ended]
            ended += 1
        if highest >= 0 and ranks.rank[highest] > ranks.rank[k]:
            return _told(ranks, k, highest)
    return None


def _told(ranks: _Ranks, late: int, early: int) -> Violation:
    """``late`` must take effect before ``early``, which returned before it began."""
    added, lacked = ranks.adds.get(late), ranks.adds.get(early)
    if late in ranks.adds and early in ranks.adds:
        # The reads that have the former lack the latter.
        reader = ranks.readers[ranks.rank[late] // 2][1]
        reason = f"a read returns {added!r} without {lacked!r}, which was added before {added!r}"
        return Violation(operations=tuple(sorted((late, early, reader))), reason=reason)
    if late in ranks.adds:
        reason = f"{added!r} was read before it was added"
    elif early in ranks.adds:
        reason = f"{lacked!r} was added before the read began, and the read does not return it"
    else:
        larger, smaller = (ranks.readers[ranks.rank[k] // 2][0] for k in (early, late))
        lost = min(set(larger).difference(smaller), key=repr)
        reason = f"{lost!r} was read, and a read that began later does not return it"
    return Violation(operations=tuple(sorted((late, early))), reason=reason)


def _end(operation: Operation) -> int:
    return EVER if operation.returned is None else operation.returned
