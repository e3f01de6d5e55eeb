"""What became of each check in a run: whether its promise was kept, and how much was looked at to say so.

Owns the words for that, and the rule: nothing is called kept that nobody has looked at, or not at all there was. Does
not decide the verdict.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nemesis.checks.check import Check, Coverage
from nemesis.checks.evidence import MISSING_EVIDENCE
from nemesis.checks.registry import CHECKS
from nemesis.checks.schemas import Severity

CHECKS_MAX = 5
"""So many checks are named to which the same happened."""


class Kept(StrEnum):
    """What is known of one promise."""

    KEPT = "kept"
    VIOLATED = "violated"
    UNDECIDED = "undecided"
    """Something was found that could not be decided, or not all was looked at: nobody is convicted, nor cleared."""
    ALLOWED = "allowed"
    """It was not kept, and the system may do that."""
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What became of one promise in a run: ``found`` anomalies, ``looked`` and ``missed`` in units of what it needs.

    ``why`` says why it was not judged, or not all of it; else it is empty.
    """

    name: str
    kept: Kept
    found: int
    looked: int
    missed: int
    why: str


def checked(
    anomalies: Iterable[Mapping[str, Any]], coverage: Iterable[Mapping[str, Any]], *, is_whole: bool
) -> tuple[Checked, ...]:
    """What became of each check, by the rows of one run. Where its record is not whole, what is there may be all right,
    and nothing is called kept."""
    found: Counter[tuple[str, str]] = Counter()
    for row in anomalies:
        found[row["anomaly"], row["severity"]] += json.loads(row["evidence"]).get("more", 1)
    looked: defaultdict[str, Coverage] = defaultdict(Coverage)
    for row in coverage:
        looked[row["check"]] += Coverage(looked=row["looked"], missed=row["missed"], why=row["why"])
    return tuple(_checked(check, found, looked[check.name], is_whole) for check in CHECKS)


def _checked(check: Check, found: Counter[tuple[str, str]], coverage: Coverage, is_whole: bool) -> Checked:
    by_severity = {severity: found[check.name, severity] for severity in Severity}
    why = coverage.why
    if by_severity[Severity.VIOLATION]:
        kept = Kept.VIOLATED
    elif by_severity[Severity.UNKNOWN] or coverage.missed:
        kept = Kept.UNDECIDED
    elif not is_whole and (coverage.looked or check is MISSING_EVIDENCE):
        kept, why = Kept.UNDECIDED, "the record of the run is not whole"
    elif by_severity[Severity.ALLOWED]:
        kept = Kept.ALLOWED
    elif coverage.looked:
        kept = Kept.KEPT
    else:
        kept, why = Kept.NOT_JUDGED, f"there were no {check.needs}"
    number = sum(by_severity.values())
    return Checked(name=check.name, kept=kept, found=number, looked=coverage.looked, missed=coverage.missed, why=why)


def blind_spots(checks: Iterable[Checked]) -> Iterator[str]:
    """Why checks that apply have not looked at all there was; one sentence for all to whom the same happened."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for check in checks:
        if check.missed:
            names[check.why].append(check.name)
    for why, blind in names.items():
        more = f" and {len(blind) - CHECKS_MAX} others" if len(blind) > CHECKS_MAX else ""
        yield f"{why}: not all was looked at for {', '.join(blind[:CHECKS_MAX])}{more}"


def not_judged(checks: Iterable[Checked]) -> Iterator[str]:
    """Which checks had nothing to look at, and what they would have needed; one sentence for all that need the same."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for check in checks:
        if check.kept is Kept.NOT_JUDGED:
            names[check.why].append(check.name)
    yield from (f"{', '.join(idle)} ({why})" for why, idle in names.items())
