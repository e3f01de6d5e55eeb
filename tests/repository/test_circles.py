"""No circles between the packages of nemesis: whoever reads one needs nothing of those that build on it.

Imports count wherever they stand, in functions and for types as well. What is still in a circle is listed, with the
reason; the list only gets shorter.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REMAINING: Mapping[tuple[str, str], str] = {
    ("faults", "workload"): "what families do is recorded, and told to the clients, whose client is the System's",
}
"""Who imports whom, against the way of the data."""

Graph = Mapping[str, set[str]]


def imports_in(source: str) -> Iterator[str]:
    """The full names of all modules and members that a source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def packages_of(sources: Mapping[str, str]) -> Graph:
    """Which packages each package imports; the modules at the top are packages of their own."""
    graph: defaultdict[str, set[str]] = defaultdict(set)
    for module, source in sources.items():
        _, own, *_ = (*module.split("."), "")
        for name in imports_in(source):
            top, other, *_ = (*name.split("."), "")
            if top == "nemesis" and other not in ("", own):
                graph[own].add(other)
    return graph


def circle_in(graph: Graph) -> list[str]:
    """One circle, if there is any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.fixture
def packages(pytestconfig: pytest.Config) -> Graph:
    """The packages of this checkout."""
    root = pytestconfig.rootpath
    paths = [path for path in sorted((root / "nemesis").rglob("*.py")) if path != root / "nemesis" / "__init__.py"]

    def name(path: Path) -> str:
        return ".".join(path.relative_to(root).with_suffix("").parts)

    return packages_of({name(path): path.read_text(encoding="utf-8") for path in paths})


def test_there_are_no_circles_but_those_that_are_known(packages: Graph) -> None:
    """Without the imports that are listed no package needs itself, by whichever way."""
    left = {name: {other for other in others if (name, other) not in REMAINING} for name, others in packages.items()}
    assert circle_in(left) == []


@pytest.mark.parametrize(("importer", "imported"), list(REMAINING))
def test_what_is_listed_is_still_a_circle(packages: Graph, importer: str, imported: str) -> None:
    """An import that is gone, or that closes no circle any more, is off the list."""
    left = {
        name: {other for other in others if (name, other) not in REMAINING or (name, other) == (importer, imported)}
        for name, others in packages.items()
    }
    assert circle_in(left) != []


def test_a_circle_is_found() -> None:
    """Three packages in a row, of which the last one imports the first in a function, are told."""
    sources = {
        "nemesis.a.x": "from nemesis.b.y import f",
        "nemesis.b.y": "import nemesis.c",
        "nemesis.c": "def g():\n    from nemesis import a",
    }
    assert set(circle_in(packages_of(sources))) == {"a", "b", "c"}
    assert circle_in(packages_of(sources | {"nemesis.c": "from nemesis.c.z import h\nimport json"})) == []
