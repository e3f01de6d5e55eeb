"""The list of what simulated worlds leave out, held against the code that leaves it out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from nemesis.simulator.faults import WEATHER
from nemesis.simulator.seeds import DRAWN
from nemesis.variants.mutant import Need

SIMULATOR = Path("nemesis/simulator")


def words_of(node: ast.expr) -> Iterator[str]:
    """The literal beginnings of the sentences in an expression."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value.strip():
            yield part.value.split(":")[0].split(",")[0].strip()


def undecided(root: Path) -> set[str]:
    """How each reason begins for which a run ends as unknown before its history is judged."""
    run = ast.parse((root / SIMULATOR / "run.py").read_text(encoding="utf-8"))
    calls = [
        node for node in ast.walk(run) if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("_undecided")
    ]
    reasons = {word for call in calls for arg in call.args for word in words_of(arg)}
    recovery = ast.parse((root / SIMULATOR / "recovery.py").read_text(encoding="utf-8"))
    (lost,) = (node for node in recovery.body if isinstance(node, ast.FunctionDef) and node.name == "lost_to_damage")
    returned = [node.value for node in ast.walk(lost) if isinstance(node, ast.Return) and node.value is not None]
    return reasons | {end for value in returned for end in ends_of(value)}


def ends_of(node: ast.expr) -> Iterator[str]:
    """What follows the name of a log in a sentence."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.startswith(": "):
            yield part.value.removeprefix(": ")


def never_asked(root: Path) -> set[str]:
    """The requests of administrators that nobody in the simulator makes."""
    admin = ast.parse((root / "replica/core/messages/admin.py").read_text(encoding="utf-8"))
    requests = {node.name for node in admin.body if isinstance(node, ast.ClassDef) and node.name.endswith("Request")}
    sources = [path.read_text(encoding="utf-8") for path in sorted((root / SIMULATOR).glob("*.py"))]
    return {name for name in requests if not any(f"m.{name}(" in source for source in sources)}


def never_drawn() -> set[str]:
    """The weather of no seed."""
    drawn = {kind for draw in DRAWN.values() for seed in range(300) for kind in draw(Random(seed)).weather}
    return {fault.kind for fault in WEATHER.keys() - drawn}


def test_the_list_names_all_that_is_left_out(pytestconfig: pytest.Config) -> None:
    """Needs of variants, reasons for unknown, requests that are never made, weather that is never drawn."""
    root = pytestconfig.rootpath
    page = (root / "docs/simulator.md").read_text(encoding="utf-8")
    told = page.partition("## What the worlds leave out")[2].partition("## Repeating a failure")[0]
    expected = {need.name for need in Need} | undecided(root) | never_asked(root) | never_drawn()
    assert {"LYING_DISKS", "the disks lied", "UnregisterBrokerRequest", "clock-stop"} <= expected
    assert [what for what in sorted(expected) if f"`{what}" not in told] == []
