"""How long files and functions may be: what does not fit a head is split before it grows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PACKAGES = ("replica", "nemesis")
GENERATED = "replica/v1"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
MOST_FUNCTION_LINES_BELOW = 40
MOST = 0.95


def sources(root: Path) -> Mapping[str, str]:
    """Map the path of every module that is written by hand, from ``root`` on, to its source."""
    paths = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return {name: path.read_text(encoding="utf-8") for name, path in names.items() if not name.startswith(GENERATED)}


def functions(files: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Yield every function, methods and nested ones included, as ``path:line name`` and its length in lines."""
    for name, source in files.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield f"{name}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def long_files(files: Mapping[str, str]) -> list[str]:
    """Return the files above the limit, each with its length."""
    lengths = {name: len(source.splitlines()) for name, source in files.items()}
    return [f"{name}: {length} lines" for name, length in lengths.items() if length > FILE_LINES_MAX]


def long_functions(files: Mapping[str, str]) -> list[str]:
    """Return the functions above the limit, each with its length."""
    return [f"{name}: {length} lines" for name, length in functions(files) if length > FUNCTION_LINES_MAX]


def share_of_short_functions(files: Mapping[str, str]) -> float:
    """Return which part of all functions is short, from 0.0 to 1.0; 1.0 where there are none."""
    lengths = [length for _, length in functions(files)]
    return sum(length < MOST_FUNCTION_LINES_BELOW for length in lengths) / len(lengths) if lengths else 1.0


def function_of(lines: int) -> str:
    """Write a function of so many lines."""
    return "\n".join(["def f():", *["    pass"] * (lines - 1)])


def test_no_file_is_too_long(pytestconfig: pytest.Config) -> None:
    """Every file stays within 500 lines."""
    assert long_files(sources(pytestconfig.rootpath)) == []


@pytest.mark.slow
def test_no_function_is_too_long(pytestconfig: pytest.Config) -> None:
    """Every function stays within 60 lines."""
    assert long_functions(sources(pytestconfig.rootpath)) == []


@pytest.mark.slow
def test_most_functions_are_short(pytestconfig: pytest.Config) -> None:
    """Of all functions, 95 in 100 stay below 40 lines."""
    assert share_of_short_functions(sources(pytestconfig.rootpath)) >= MOST


def test_the_project_is_what_is_measured(pytestconfig: pytest.Config) -> None:
    """Both packages are read, and generated code is not."""
    names = sources(pytestconfig.rootpath)

    assert {name.split("/")[0] for name in names} == set(PACKAGES)
    assert not any(name.endswith("_pb2.py") for name in names)


def test_a_long_file_is_found() -> None:
    """One line above the limit is told, the limit itself is not."""
    assert long_files({"a.py": "x = 1\n" * 501, "b.py": "x = 1\n" * 500}) == ["a.py: 501 lines"]


def test_a_long_function_is_found() -> None:
    """One line above the limit is told, the limit itself is not, and methods count."""
    method = "class C:\n" + "\n".join(f"    {line}" for line in function_of(61).splitlines())

    assert long_functions({"a.py": function_of(60)}) == []
    assert long_functions({"a.py": method}) == ["a.py:2 f: 61 lines"]


def test_too_many_middling_functions_are_found() -> None:
    """Lengths of 40 lines count against the share, lengths of 39 do not."""
    short = {f"short{number}.py": function_of(39) for number in range(18)}
    middling = {f"middling{number}.py": function_of(40) for number in range(2)}

    assert share_of_short_functions(short) == 1.0
    assert share_of_short_functions(short | middling) == pytest.approx(0.9)
