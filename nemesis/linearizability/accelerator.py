"""The runs of the register search in C, where the installation has compiled them.

Owns finding the library, what may be trusted to it, and the way of the arrays there and back. The walks are those of
``register_search.PythonRuns``, so that a finding is the same to the last field; where there is no library, or a history
does not fit it, the runs in Python find it more slowly. A walk comes back from the library again and again before it
has finished, so that it can be interrupted.
"""

from __future__ import annotations

import os
import warnings
from array import array
from collections.abc import Sequence
from ctypes import CDLL, POINTER, Structure, byref, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from nemesis.linearizability.beam import MEMO, Answer, Finding
from nemesis.linearizability.forms import EVER
from nemesis.linearizability.register_events import RegisterEvents
from nemesis.linearizability.register_pending import DOMINANCE_MAX, REUSED, WITNESSES, Config
from nemesis.linearizability.register_search import (
    FORGETS,
    RELAXED_WIDTH,
    PythonRuns,
    Runs,
)

LIBRARY = Path(__file__).parent / "native" / "register_search.so"
ABI_VERSION = 4
"""What the library must answer to be the one that this module knows."""
SWITCH = "NEMESIS_ACCELERATOR"
"""The environment variable that forbids the library by the value ``off``, or names the file of another one."""

SLOTS_MAX = 64
"""How many operations that return may be pending at once: the bits of one word."""
UNKNOWN_MAX = 1023
"""How many unknown operations there may be: each configuration has a bit for each of them."""

SLICE = 100_000
"""How many configurations, or events, a call into the library goes over before it comes back."""

_FINISHED, _PAUSED, _OUT_OF_ORDER = 0, 2, 3
_ANSWERS = (Answer.UNDECIDED, Answer.YES, Answer.NO)
_ARRAYS = ("events", "kinds", "values", "news", "places", "ends", "needed")
_COUNTS = ("events_count", "operations_count", "values_count", "unknown", "has_misses")


class _History(Structure):
    _fields_ = (*((name, c_void_p) for name in _ARRAYS), *((name, c_int64) for name in _COUNTS))


class _Walk(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("width", "stop", "room", "held_max", "enough", "forgets", "memo", "slice")),
        *((name, c_int64) for name in ("relaxed_width", "dominance_max", "witnesses")),
        *((name, c_int64) for name in ("answer", "reached", "died", "visited", "frontier_count", "row_words")),
        ("frontier", POINTER(c_uint64)),
        ("state", c_void_p),
    )


class UnusableError(Exception):
    """There is a library, and it is not the one that this module knows."""


def load(path: Path) -> CDLL:
    """The library at ``path``. Raises UnusableError if it is damaged, or of another version."""
    try:
        library = CDLL(str(path))
        version = library.register_search_abi
        walk, free = library.register_search_walk, library.register_search_free
    except (OSError, AttributeError) as error:
        raise UnusableError(str(error)) from error
    version.argtypes, version.restype = (), c_int64
    walk.argtypes, walk.restype = (POINTER(_History), POINTER(_Walk)), c_int64
    free.argtypes, free.restype = (POINTER(_Walk),), None
    if version() != ABI_VERSION:
        raise UnusableError(f"its interface has version {version()}, not {ABI_VERSION}")
    return library


@cache
def _library_at(path: Path) -> CDLL | None:
    try:
        return load(path)
    except UnusableError as error:
        warnings.warn(f"{path} is of no use, Python searches instead: {error}", RuntimeWarning, stacklevel=3)
        return None


def loaded() -> CDLL | None:
    """The installed library, or the one that the environment names.

    None where there is none, or the environment forbids it; and where it is of no use, with one warning that says why.
    """
    named = os.environ.get(SWITCH, "")
    if named == "off" or not (named or LIBRARY.exists()):
        return None
    return _library_at(Path(named) if named else LIBRARY)


def fits(history: RegisterEvents) -> bool:
    """Whether the sets of ``history`` are small enough for the library."""
    return history.slots <= SLOTS_MAX and history.unknown <= UNKNOWN_MAX


def runs_over(history: RegisterEvents, *, accelerated: bool) -> Runs:
    """The runs in C where they may be, are there, and fit; else those in Python."""
    if accelerated and fits(history) and (native := loaded()) is not None:
        return NativeRuns(history, native)
    return PythonRuns(history)


class NativeRuns:
    """Runs over one history, which ``fits``."""

    def __init__(self, history: RegisterEvents, native: CDLL) -> None:
        self._native = native
        places = [bit.bit_length() - 1 for bit in history.bits]
        columns = (history.events, history.kinds, history.values, history.news, places, history.ends, history.needed)
        self._arrays = [array("q", column) for column in columns]  # what the addresses below point to
        self._history = _History(
            *(column.buffer_info()[0] for column in self._arrays),
            len(history.events),
            len(history.kinds),
            len(history.needed),
            history.unknown,
            history.has_misses,
        )
        self._events_count = len(history.events)

    def relaxed(self, *, room: int, held_max: int) -> Finding[Config]:
        return self._found(0, self._events_count, room, held_max, EVER)

    def outline(self, *, room: int) -> Finding[Config]:
        return self._found(-1, self._events_count, room, EVER, EVER)

    def thrifty(self, *, stop: int, width: int, enough: int, room: int, held_max: int) -> Finding[Config]:
        return self._found(width, stop, room, held_max, enough)

    def beam(self, *, stop: int, width: int, room: int, held_max: int) -> Finding[Config]:
        assert width > 0, "a beam of width 0 is the relaxed run"
        return self._found(width, stop, room, held_max, EVER)

    def _found(self, width: int, stop: int, room: int, held_max: int, enough: int) -> Finding[Config]:
        walk = _walk(width, stop, room, held_max, enough)
        status = _PAUSED
        try:
            while status == _PAUSED:
                status = self._native.register_search_walk(byref(self._history), byref(walk))
            if status == _OUT_OF_ORDER:
                raise ValueError("an operation returns where it begins, or before")
            if status != _FINISHED:
                raise MemoryError("the register search lacks memory")
            words = walk.frontier[: walk.frontier_count * walk.row_words]
        finally:
            self._native.register_search_free(byref(walk))
        return Finding(
            answer=_ANSWERS[walk.answer],
            reached=walk.reached,
            died=walk.died,
            visited=walk.visited,
            frontier=[
                _config(words[start : start + walk.row_words]) for start in range(0, len(words), walk.row_words or 1)
            ],
        )


def _walk(width: int, stop: int, room: int, held_max: int, enough: int) -> _Walk:
    forgets = EVER if enough == EVER else FORGETS
    memo = min(held_max, EVER, MEMO * forgets)
    limits = (min(room, EVER), min(held_max, EVER), enough, forgets, memo)
    return _Walk(width, stop, *limits, SLICE, RELAXED_WIDTH, DOMINANCE_MAX, WITNESSES)


def _config(row: Sequence[int]) -> Config:
    """A row of the library: the value and the sets, the last of them in as many words as there are."""
    value, done, optional, *words = row
    used = sum(word << 64 * place for place, word in enumerate(words))
    is_reused = words[-1] == (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value, done, optional, REUSED if is_reused else used
