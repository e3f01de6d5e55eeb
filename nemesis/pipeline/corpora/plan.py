"""Which objects are judged together, and which are too large for that.

Owns the arithmetic: an object's slot is its number modulo a prime, a bucket is some slots. Buckets are filled so that
one call can hold any of them; an object with more than ``HOT_OPERATIONS`` is *hot*, and goes through ``hot``. Both
engines count rows by slot and ask here. A row weighs one, and one more for each record in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import CALL_OPERATIONS_MAX, Ints

SLOTS = 4_093
"""A prime, so that objects that are numbered with a stride spread over all slots."""


class ChangedError(Exception):
    """What was judged is not what was counted before."""


class TooManyError(Exception):
    """There is no dealing into buckets of which each fits a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is judged at once, in rows and records."""

    bucket: int = 500_000
    """How full a bucket should be."""
    hot: int = 250_000
    """How many an object may have to be put into a bucket."""
    window: int = 100_000
    """How many a window of a hot object has at least."""
    call: int = CALL_OPERATIONS_MAX
    """How many one call takes at most."""

    def __post_init__(self) -> None:
        assert self.hot + self.bucket <= self.call <= CALL_OPERATIONS_MAX, f"{self} overflows a call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``buckets`` of all objects that are not ``hot``; ``hot`` gives the rows of those that are."""

    buckets: int
    hot: Mapping[int, int]
    operations: int
    columns: frozenset[str]
    """Which of the columns that may be empty have something in them."""

    def buckets_of(self, objects: Ints) -> Ints:
        """The bucket of each of these objects; -1 for those that are hot."""
        buckets: Ints = objects % SLOTS % self.buckets
        return np.where(np.isin(objects, list(self.hot)), -1, buckets) if self.hot else buckets

    def check_whole(self, judgements: pa.Table) -> pa.Table:
        """The judgements (``JUDGEMENT_ROWS``). Raises ChangedError unless they are of all operations."""
        judged = sum(judgements.column("operations").to_pylist())
        if judged != self.operations:
            raise ChangedError(f"{self.operations} operations were counted, and then {judged} were judged")
        return judgements


def planned(
    slots: Mapping[int, int],
    hot: Mapping[int, int],
    columns: Sequence[str],
    sizes: Sizes,
    *,
    parallelism: int,
    operations: int = 0,
) -> Plan:
    """The plan for ``slots``, which weigh so much without the hot objects, and have so many ``operations`` with them.

    At least ``parallelism`` buckets, unless there is too little. Raises TooManyError where no number of buckets is
    enough: beyond some billions of operations, or where the numbers of most objects leave one remainder.
    """
    weights = np.zeros(SLOTS, dtype=np.int64)
    for slot, weight in slots.items():
        weights[slot] = weight
    total = int(weights.sum())
    least = max(1, -(-total // sizes.bucket), min(parallelism, -(-total // 10_000)))
    for buckets in range(min(least, SLOTS), SLOTS + 1):
        if int(np.bincount(np.arange(SLOTS) % buckets, weights=weights).max()) <= sizes.call:
            return Plan(buckets=buckets, hot=hot, operations=operations, columns=frozenset(columns))
    raise TooManyError(
        f"{total} operations do not fit {SLOTS} buckets of {sizes.call}, dealt by their objects' numbers modulo {SLOTS}"
    )
