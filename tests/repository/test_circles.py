"""No circles between the packages of nemesis: whoever reads one needs nothing of those that build on it.

Imports count wherever they stand, in functions and for types as well.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

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


@pytest.mark.slow
def test_there_are_no_circles(packages: Graph) -> None:
    """No package needs itself, by whichever way."""
    assert circle_in(packages) == []


def test_a_circle_is_found() -> None:
    """Three packages in a row, of which the last one imports the first in a function, are told."""
    sources = {
        "nemesis.a.x": "from nemesis.b.y import f",
        "nemesis.b.y": "import nemesis.c",
        "nemesis.c": "def g():\n    from nemesis import a",
    }
    assert set(circle_in(packages_of(sources))) == {"a", "b", "c"}
    assert circle_in(packages_of(sources | {"nemesis.c": "from nemesis.c.z import h\nimport json"})) == []
