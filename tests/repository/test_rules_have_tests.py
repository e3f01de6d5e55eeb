"""The page of the rules is true: each rule names tests that exist, and every decision is in it.

Read from the sources alone; nothing is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PAGE = "docs/rules.md"
DECISIONS = tuple(f"replica/core/rules/{part}.py" for part in ("log", "quorum", "partition", "controller", "group"))
HEADER = ("rule", "decision", "test")
OTHER_TABLES = "\n## Kafka's scenarios by name\n"
"""From there on no rules stand in the tables; ``test_kafka_scenarios`` reads those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a table: the rule, the decisions that it is, and ``path::test`` of those that hold it."""

    text: str
    decisions: tuple[str, ...]
    tests: tuple[str, ...]


def rules_of(page: str) -> list[Rule]:
    """Read all tables of the page; a line that is no rule with its three columns is a ValueError that names it."""
    found = []
    for line in page.splitlines():
        if not line.startswith("|"):
            continue
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if cells == HEADER or set(line) <= set("|-"):
            continue
        if len(cells) != len(HEADER) or not cells[0]:
            raise ValueError(f"no rule with three columns: {line}")
        found.append(Rule(text=cells[0], decisions=_quoted(cells[1]), tests=_quoted(cells[2])))
    return found


def _quoted(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


def functions_of(source: str) -> set[str]:
    """Name all functions of a module, within classes too."""
    nodes = ast.walk(ast.parse(source))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def decisions_of(source: str) -> set[str]:
    """Name the decisions of a module of rules: the public methods of its classes."""
    return {
        node.name
        for rules in ast.parse(source).body
        if isinstance(rules, ast.ClassDef)
        for node in rules.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def missing_tests(rules: Iterable[Rule], functions: Mapping[str, set[str]]) -> list[str]:
    """Tell rules without a test, and tests that are not there. ``functions`` are those of each file, by its path."""
    without = [f"{rule.text}: no test" for rule in rules if not rule.tests]
    named = sorted({test for rule in rules for test in rule.tests})
    return without + [test for test in named if not _exists(test, functions)]


def _exists(test: str, functions: Mapping[str, set[str]]) -> bool:
    path, _, name = test.partition("::")
    return name.startswith("test_") and name in functions.get(path, set())


def wrong_decisions(rules: Iterable[Rule], decisions: set[str]) -> tuple[list[str], list[str]]:
    """Tell the decisions that no rule is, and those that rules name and nobody takes."""
    named = {decision for rule in rules for decision in rule.decisions}
    return sorted(decisions - named), sorted(named - decisions)


@pytest.fixture(scope="module")
def rules(pytestconfig: pytest.Config) -> list[Rule]:
    """The rules of the page."""
    page = (pytestconfig.rootpath / PAGE).read_text(encoding="utf-8")
    return rules_of(page.partition(OTHER_TABLES)[0])


@pytest.mark.slow
def test_every_rule_has_a_test_that_exists(rules: list[Rule], pytestconfig: pytest.Config) -> None:
    """No rule of the page goes without a test, and each test that it names is in the file where it says."""
    root: Path = pytestconfig.rootpath
    paths = {test.partition("::")[0] for rule in rules for test in rule.tests}
    functions = {
        path: functions_of((root / path).read_text(encoding="utf-8")) for path in paths if (root / path).is_file()
    }

    assert missing_tests(rules, functions) == []


def test_every_decision_is_a_rule(rules: list[Rule], pytestconfig: pytest.Config) -> None:
    """Every method of the rules is named by the page, and the page names none that is not there."""
    decisions: set[str] = set()
    for path in DECISIONS:
        decisions |= decisions_of((pytestconfig.rootpath / path).read_text(encoding="utf-8"))

    assert len(decisions) > 50
    assert wrong_decisions(rules, decisions) == ([], [])


def test_no_file_of_decisions_is_overlooked(pytestconfig: pytest.Config) -> None:
    """The page is compared with every file of the rules but the one that puts them together."""
    folder = pytestconfig.rootpath / "replica/core/rules"
    found = {f"replica/core/rules/{path.name}" for path in folder.glob("*.py")}

    assert found - {"replica/core/rules/__init__.py"} == set(DECISIONS)


GOOD = """
| rule | decision | test |
|---|---|---|
| It holds | `holds` | `tests/test_a.py::test_it_holds`<br>`tests/test_b.py::test_it_holds_too` |
"""
FUNCTIONS = {"tests/test_a.py": {"test_it_holds", "helps"}, "tests/test_b.py": {"test_it_holds_too"}}


@pytest.mark.parametrize(
    ("page", "missing", "decisions"),
    [
        pytest.param(GOOD, [], ([], []), id="good"),
        pytest.param(GOOD.replace("a.py", "c.py"), ["tests/test_c.py::test_it_holds"], ([], []), id="no_such_file"),
        pytest.param(GOOD.replace("_too", ""), ["tests/test_b.py::test_it_holds"], ([], []), id="no_such_test"),
        pytest.param(GOOD.replace("test_it_holds`", "helps`"), ["tests/test_a.py::helps"], ([], []), id="no_test"),
        pytest.param(GOOD + "| Nobody looks | | |", ["Nobody looks: no test"], ([], []), id="rule_without_a_test"),
        pytest.param(GOOD.replace("`holds`", ""), [], (["holds"], []), id="decision_that_is_left_out"),
        pytest.param(GOOD.replace("`holds`", "`holds`, `helps`"), [], ([], ["helps"]), id="no_such_decision"),
    ],
)
def test_what_is_wrong_is_told(page: str, missing: list[str], decisions: tuple[list[str], list[str]]) -> None:
    """A page is wrong where it names what is not there, or leaves out what is."""
    source = "class Rules:\n    def holds(self): ...\n    def _helps(self): ...\ndef helps(): ..."

    assert missing_tests(rules_of(page), FUNCTIONS) == missing
    assert wrong_decisions(rules_of(page), decisions_of(source)) == decisions


def test_a_line_that_is_no_rule_is_told() -> None:
    """A table with other columns is not passed over."""
    with pytest.raises(ValueError, match="no rule with three columns"):
        rules_of("| It holds | `tests/test_a.py::test_it_holds` |")
