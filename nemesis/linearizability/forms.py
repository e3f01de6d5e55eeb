"""What an operation comes to in the languages that the fast kernels speak: registers, logs, lists and sets read whole.

Owns the values between a model and a kernel: a model says of each operation what it means in one of these languages,
and a kernel knows no model. An operation that has no meaning there goes to the general search, with all others on its
key.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import IntEnum
from typing import NamedTuple

from nemesis.linearizability.operations import Value

EVER: int = 1 << 62
"""Later than every event: the return of what never returns."""


class RegisterKind(IntEnum):
    """What an operation does to a register."""

    READ = 0
    """The register holds ``value``."""
    WRITE = 1
    """It holds ``value`` from now on."""
    CAS = 2
    """It holds ``value``, and from now on ``new``."""
    MISS = 3
    """It holds anything but ``value``."""


class RegisterForm(NamedTuple):
    """One operation on a register."""

    kind: RegisterKind
    value: Value
    new: Value = None

    @property
    def reads_only(self) -> bool:
        """Whether it changes nothing, so that it says nothing while its outcome is unknown."""
        return self.kind in {RegisterKind.READ, RegisterKind.MISS}


class AppendForm(NamedTuple):
    """``records`` are put at the end of a log, as one; ``base`` is the offset of the first, None if nobody knows."""

    records: tuple[Hashable, ...]
    base: int | None


class FetchForm(NamedTuple):
    """``records`` were read from offset ``start`` on, at most ``limit`` of them (None: as many as there are).

    Unless ``stale`` is allowed, a fetch that came back with fewer than the limit saw the end of the log.
    """

    start: int
    limit: int | None
    records: tuple[Hashable, ...]
    stale: bool


class WholeForm(NamedTuple):
    """The whole of a list was read."""

    records: tuple[Hashable, ...]


class AddForm(NamedTuple):
    """``element`` is in a set from now on."""

    element: Value


class MembersForm(NamedTuple):
    """The whole of a set was read, in any order."""

    elements: tuple[Value, ...]


Form = RegisterForm | AppendForm | FetchForm | WholeForm | AddForm | MembersForm
