"""What hinders a disk that a replica runs on: full, slow, or failing in one kind of call.

Owns the word in a file by which a harness tells a running replica, and the looking at it before each call.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

_ERRORS = {errno.ENOSPC: "No space left on device", errno.EIO: "Input/output error"}
REFUSALS = tuple(f"[Errno {number}] {words}" for number, words in _ERRORS.items())
"""How the errors that a hindered disk gives are told by whoever names them as Python does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindrance:
    """``is_full`` refuses whatever takes space, ``failing`` are calls that end with an input/output error, and a flush
    takes ``slow_factor`` times as long."""

    is_full: bool = False
    slow_factor: int = 1
    failing: tuple[str, ...] = ()


NOTHING = Hindrance()


def together(hindrances: Iterable[Hindrance]) -> Hindrance:
    """All of them at once."""
    all_of_them = tuple(hindrances)
    return Hindrance(
        is_full=any(one.is_full for one in all_of_them),
        slow_factor=max((one.slow_factor for one in all_of_them), default=1),
        failing=tuple(sorted({call for one in all_of_them for call in one.failing})),
    )


def tell(path: Path, hindrance: Hindrance) -> None:
    """Put the word where a replica looks; it sees it whole, or the one before."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(json.dumps(asdict(hindrance)), encoding="utf-8")
    temporary.replace(path)


class Hindered:
    """Looks at the word in ``path`` whenever it is asked; where there is none, nothing is hindered."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._read = NOTHING

    @property
    def now(self) -> Hindrance:
        """What hinders the disk now."""
        try:
            status = self._path.stat()
            stamp = (status.st_ino, status.st_mtime_ns)
            if stamp != self._stamp:
                fields = json.loads(self._path.read_text(encoding="utf-8"))
                self._read = Hindrance(**{**fields, "failing": tuple(fields["failing"])})
                self._stamp = stamp
        except FileNotFoundError:
            return NOTHING
        return self._read

    def check(self, call: str, path: Path, *, takes_space: bool = False) -> None:
        """Refuse the call, if it is to be refused. Raises OSError."""
        hindrance = self.now
        if takes_space and hindrance.is_full:
            raise OSError(errno.ENOSPC, _ERRORS[errno.ENOSPC], str(path))
        if call in hindrance.failing:
            raise OSError(errno.EIO, _ERRORS[errno.EIO], str(path))
