"""What a simulated run can be convicted of while it goes on.

Owns the error that ends a run. The names are those of the invariants (``invariants``), ``core-assertion`` for a clause
that the core checks itself, and ``liveness`` for a cluster that healed and did not recover.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken promise: its name, what was seen, and the virtual time."""

    name: str
    detail: str
    at_ms: int


class BrokenInvariantError(Exception):
    """Something that must hold did not: the run ends here."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail
