"""The accelerator for tests: compiled from the source tree, so that no older one is what they look at."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from ctypes import CDLL
from pathlib import Path
from shutil import which

import pytest

from hatch_build import ACCELERATOR, compile_library
from nemesis.linearizability.accelerator import NativeRuns, fits
from nemesis.linearizability.beam import Finding
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.model import Model, relevant
from nemesis.linearizability.operations import Operation
from nemesis.linearizability.register_events import RegisterEvents, encode
from nemesis.linearizability.register_pending import Config
from nemesis.linearizability.register_search import THRIFTY, PythonRuns, Runs, search
from tests.linearizability.runs import register_forms

ROOT = Path(__file__).resolve().parents[2]
BUDGETS = (Budget(), Budget(configurations=30, frontier=4))
ROOM = 2_000
HELD_MAX = 500

needs_compiler = pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")


def compiled(directory: Path) -> Path:
    """The library, compiled into ``directory``."""
    target = directory / ACCELERATOR.name
    assert compile_library(ROOT, ACCELERATOR, target) is None
    return target


def compiled_from(text: str, directory: Path) -> Path:
    """A library made of C's ``text``."""
    target = directory / "other.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(target)], input=text, text=True, check=True)
    return target


def everything_found(history: RegisterEvents, runs: Runs) -> Iterator[tuple[str, Finding[Config]]]:
    """What the search finds, with much and with little budget, and what each kind of run finds alone."""
    count = len(history.events)
    for budget in BUDGETS:
        yield f"search of {budget.configurations}", search(count, budget, runs)
    yield "outline", runs.outline(room=ROOM)
    yield "outline of little room", runs.outline(room=10)
    for held_max in (HELD_MAX, 5):
        yield f"relaxed, {held_max} held", runs.relaxed(room=ROOM, held_max=held_max)
        for width, enough in ((1, 1), *THRIFTY):
            found = runs.thrifty(stop=count, width=width, enough=enough, room=ROOM, held_max=held_max)
            yield f"thrifty beam of {width}, {held_max} held", found
        for width in (1, 2, 16):
            found = runs.beam(stop=count, width=width, room=ROOM, held_max=held_max)
            yield f"beam of {width}, {held_max} held", found
    yield "beam to the middle", runs.beam(stop=count // 2, width=1, room=ROOM, held_max=3)
    yield "thrifty to the middle", runs.thrifty(stop=count // 2, width=1, enough=8, room=ROOM, held_max=3)


def differences(history: RegisterEvents, native: CDLL) -> list[str]:
    """Where the findings in C and in Python are not equal."""
    assert fits(history)
    in_python = dict(everything_found(history, PythonRuns(history)))
    in_c = dict(everything_found(history, NativeRuns(history, native)))
    return [f"{name}: {found} in Python, {in_c[name]} in C" for name, found in in_python.items() if found != in_c[name]]


def differences_of(operations: Sequence[Operation], model: Model, native: CDLL) -> list[str]:
    """The same of each key in a history; none if it is not one of registers."""
    parts = [relevant(part, model) for part in model.partition(operations).values()]
    kept = [told for part in parts if (told := register_forms(part, model)) is not None]
    return [line for ops, forms in kept for line in differences(encode(ops, forms, model.register_initial()), native)]
