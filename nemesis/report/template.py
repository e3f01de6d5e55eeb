"""Where the templates of all pages are, and the words for a verdict that they share."""

from __future__ import annotations

import functools

from jinja2 import Environment, PackageLoader, StrictUndefined

from nemesis.report.values import Fault
from nemesis.verdict import Verdict

VERDICT_WORDS = {
    Verdict.VALID: ("✔", "Valid", "Every promise that was judged was kept."),
    Verdict.INVALID: ("✘", "Invalid", "At least one promise was broken."),
    Verdict.UNKNOWN: ("?", "Unknown", "Nothing can be said for sure: this is not a pass."),
}


@functools.cache
def environment() -> Environment:
    """Where the templates are; every text in them passes autoescape."""
    found = Environment(
        loader=PackageLoader("nemesis.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["seconds"] = _seconds
    found.filters["replicas"] = _replicas
    return found


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.3f} s"


def _replicas(fault: Fault) -> str:
    return ", ".join(str(replica) for replica in fault.replicas) or "all"
