"""Every test says in one sentence which property it holds."""

from __future__ import annotations

import ast

import pytest


def silent_tests(source: str) -> list[str]:
    """Return the names of the test functions that do not say what they are for."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]


@pytest.mark.slow
def test_every_test_says_what_it_holds(pytestconfig: pytest.Config) -> None:
    """No test function of the project goes without a docstring."""
    root = pytestconfig.rootpath
    silent = [
        f"{path.relative_to(root)}: {name}"
        for path in sorted((root / "tests").rglob("test_*.py"))
        for name in silent_tests(path.read_text(encoding="utf-8"))
    ]

    assert silent == []


def test_a_silent_test_is_found() -> None:
    """A test without a docstring is told, also within a class or when it is asynchronous."""
    source = "class TestX:\n    async def test_a(self): ...\ndef test_b():\n    '''It holds.'''\ndef helps(): ..."

    assert silent_tests(source) == ["test_a"]
