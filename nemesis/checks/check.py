"""A check as one value: what it is called, what it promises, what it needs, and how it looks.

Owns the form of a declaration, and of what a check says of its own work. Whatever tells of checks (verdict, terminal,
``results.json``, report, docs, who follows a run) derives it from these values. Knows no rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.partition import Partition

Row = Mapping[str, Any]
"""A row of ``ANOMALY_SCHEMA``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much a check has looked at, and how much it should have and could not; in units of its ``needs``.

    ``why`` is a sentence about what was missed; of several the least is kept, so that no order of adding tells.
    """

    looked: int = 0
    missed: int = 0
    why: str = ""

    def __add__(self, other: Coverage) -> Coverage:
        whys = sorted(filter(None, (self.why, other.why)))
        return Coverage(
            looked=self.looked + other.looked, missed=self.missed + other.missed, why=whys[0] if whys else ""
        )


Found = Generator[Anomaly, None, Coverage]
"""What a check gives: it yields what it finds, and returns what it has looked at."""
Identity = Callable[[Row, Mapping[str, Any]], tuple[Any, ...]]
"""From a row and its evidence to what is the same of the anomaly whenever it is seen."""


def by_latest_operation(row: Row, evidence: Mapping[str, Any]) -> tuple[Any, ...]:
    """The later of two operations: what it is held against may be another when more is known."""
    del evidence
    return tuple(row["op_indexes"][-1:]) or tuple(row["offsets"])


def by_value(row: Row, evidence: Mapping[str, Any]) -> tuple[Any, ...]:
    """The value that was seen."""
    del row
    return (evidence["value"],)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One kind of anomaly, and the promise that it would break.

    ``needs`` names, in the plural, what must have been recorded for it to look at, and is the unit of its coverage: a
    check that had none of it has judged nothing.

    ``implies`` says what a prefix proves: of a run whose beginning shows this anomaly, the whole shows at least one of
    these. Where it is empty a beginning proves nothing, and the anomaly is never told early; else ``identity`` says by
    what it is known again. ``rests_on_all`` marks what says that *nobody* did something, what a process did *next*, or
    that an operation did something twice: a line that is missing, or there twice, could explain it. All others convict
    by the lines that they name.
    """

    name: str
    promise: str
    needs: str
    implies: frozenset[str] = frozenset()
    identity: Identity = by_latest_operation
    rests_on_all: bool = False

    def identify(self, row: Row) -> tuple[Any, ...]:
        """What is the same of this anomaly in every prefix that shows it."""
        return row["topic_partition"], self.name, *self.identity(row, json.loads(row["evidence"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheck(Check):
    """A check of one topic-partition of one run: a pure function of its columns."""

    run: Callable[[Partition], Found]
