"""The page of the rules names Kafka's scenarios truly: those that are tests here, and those that are none.

Read from the sources alone; nothing is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

PAGE = "docs/rules.md"
SECTION = "\n## Kafka's scenarios by name\n"
HELD = ("about", "Kafka's test", "file", "tests")
NOT_HELD = ("Kafka's tests", "why there is none here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenarios:
    """What the page says: ``path::test`` or ``path::test[case]`` of those that are tests, and names of those not.

    ``reasons`` are the tests that its sentences name.
    """

    held: tuple[str, ...]
    not_held: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """The tests of one file, each with the ids of its cases."""

    tests: Mapping[str, frozenset[str]]


def scenarios_of(page: str) -> Scenarios:
    """Read the section, which is the last of the page; a line of a table that is neither kind is a ValueError."""
    _, found, section = page.partition(SECTION)
    if not found or "\n## " in section:
        raise ValueError(f"no last section {SECTION.strip()}")
    held: list[str] = []
    not_held: list[str] = []
    reasons: list[str] = []
    for line in section.splitlines():
        if not line.startswith("|"):
            reasons += _tests_in(line)
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if not line.startswith("|") or cells in (HELD, NOT_HELD) or set(line) <= set("|-"):
            continue
        if len(cells) == len(HELD):
            (path,), tests = _quoted(cells[2]), _quoted(cells[3])
            held += [f"{path}::{test}" for test in tests]
        elif len(cells) == len(NOT_HELD) and _quoted(cells[0]) and cells[1]:
            not_held += _quoted(cells[0])
            reasons += _tests_in(cells[1])
        else:
            raise ValueError(f"no scenario: {line}")
    return Scenarios(held=tuple(held), not_held=tuple(not_held), reasons=tuple(reasons))


def _quoted(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


def _tests_in(text: str) -> list[str]:
    return [name for name in _quoted(text) if re.fullmatch(r"test_\w+", name)]


def snake_case(name: str) -> str:
    """Write one of Kafka's names as ours: ``testAddVoter`` is ``test_add_voter``."""
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name.replace("KRaft", "Kraft"))
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def module_of(source: str) -> Module:
    """Find the tests of a file, and the ids of their cases, also where those stand in a constant of the module."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return Module(tests={node.name: _case_ids(node, constants) for node in functions})


def _case_ids(function: ast.FunctionDef, constants: Mapping[str, ast.expr]) -> frozenset[str]:
    decorators = [node for decorator in function.decorator_list for node in ast.walk(decorator)]
    named = [constants[node.id] for node in decorators if isinstance(node, ast.Name) and node.id in constants]
    nodes = [*decorators, *(node for value in named for node in ast.walk(value))]
    ids = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "id"]
    return frozenset(str(value.value) for value in ids if isinstance(value, ast.Constant))


def missing(scenarios: Scenarios, modules: Mapping[str, Module]) -> list[str]:
    """Tell the tests and cases of the page that are not where it says. ``modules`` are the files, by their paths."""
    named = {test for module in modules.values() for test in module.tests}
    return [
        *(test for test in scenarios.held if not _exists(test, modules)),
        *(test for test in scenarios.reasons if test not in named),
    ]


def _exists(test: str, modules: Mapping[str, Module]) -> bool:
    path, _, name = test.partition("::")
    name, _, case = name.removesuffix("]").partition("[")
    tests = modules[path].tests if path in modules else {}
    return name in tests and (not case or case in tests[name])


def wrongly_left_out(scenarios: Scenarios, modules: Mapping[str, Module]) -> list[str]:
    """Tell the names that are said to be no tests here, and are."""
    tests = {test for module in modules.values() for test in module.tests}
    return [name for name in scenarios.not_held if snake_case(name) in tests]


@pytest.fixture(scope="module")
def scenarios(pytestconfig: pytest.Config) -> Scenarios:
    """What the page says."""
    return scenarios_of((pytestconfig.rootpath / PAGE).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def modules(pytestconfig: pytest.Config) -> Mapping[str, Module]:
    """All files of tests."""
    root = pytestconfig.rootpath
    paths = sorted((root / "tests").rglob("test_*.py"))
    return {path.relative_to(root).as_posix(): module_of(path.read_text(encoding="utf-8")) for path in paths}


@pytest.mark.slow
def test_every_scenario_is_a_test(scenarios: Scenarios, modules: Mapping[str, Module]) -> None:
    """Each test and each case that the page names is in the file where it says, and named once."""
    assert len(scenarios.held) > 150
    assert missing(scenarios, modules) == []
    assert len(set(scenarios.held)) == len(scenarios.held)


def test_no_scenario_is_left_out_that_is_a_test(scenarios: Scenarios, modules: Mapping[str, Module]) -> None:
    """What the page gives a reason for is not a test after all."""
    assert scenarios.not_held
    assert wrongly_left_out(scenarios, modules) == []


GOOD = f"""# Page
{SECTION}
| {" | ".join(HELD)} |
|---|---|---|---|
| votes | `VoteTest` | `tests/test_a.py` | `test_it_holds`, `test_cases[first]`, `test_more[third]` |

| {" | ".join(NOT_HELD)} |
|---|---|
| `testBuffers` | No buffers (`test_more`) |
"""
SOURCE = """
MORE = [pytest.param(3, id="third")]
def test_it_holds(): ...
@pytest.mark.parametrize("n", [pytest.param(1, id="first"), pytest.param(2, id="second")])
def test_cases(n): ...
@pytest.mark.parametrize("n", MORE)
def test_more(n): ...
def helps(): ...
"""


@pytest.mark.parametrize(
    ("page", "missed", "left_out"),
    [
        pytest.param(GOOD, [], [], id="good"),
        pytest.param(
            GOOD.replace("a.py", "c.py"),
            [f"tests/test_c.py::{test}" for test in ("test_it_holds", "test_cases[first]", "test_more[third]")],
            [],
            id="no_such_file",
        ),
        pytest.param(GOOD.replace("_holds", "_did"), ["tests/test_a.py::test_it_did"], [], id="no_such_test"),
        pytest.param(GOOD.replace("[first]", "[third]"), ["tests/test_a.py::test_cases[third]"], [], id="no_such_case"),
        pytest.param(GOOD.replace("test_it_holds", "helps"), ["tests/test_a.py::helps"], [], id="no_test"),
        pytest.param(GOOD + "See `test_none`.", ["test_none"], [], id="no_such_test_in_a_sentence"),
        pytest.param(GOOD.replace("(`test_more`)", "(`test_none`)"), ["test_none"], [], id="no_such_reason"),
        pytest.param(GOOD.replace("testBuffers", "testItHolds"), [], ["testItHolds"], id="a_test_after_all"),
    ],
)
def test_what_is_wrong_is_told(page: str, missed: list[str], left_out: list[str]) -> None:
    """A page is wrong where it names what is not there, or denies what is."""
    modules = {"tests/test_a.py": module_of(SOURCE)}

    assert missing(scenarios_of(page), modules) == missed
    assert wrongly_left_out(scenarios_of(page), modules) == left_out


@pytest.mark.parametrize("page", ["# Page\n", GOOD + "\n## Another\n", GOOD + "| `testBuffers` | |\n"])
def test_a_page_that_cannot_be_read_is_told(page: str) -> None:
    """Without its section, with another behind it, or with a line that gives no reason, nothing is passed over."""
    with pytest.raises(ValueError, match=r"no last section|no scenario"):
        scenarios_of(page)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("testAddVoterWithKRaftVersion0", "test_add_voter_with_kraft_version0"),
        ("testValidateOffsetLessThanLEO", "test_validate_offset_less_than_leo"),
    ],
)
def test_names_are_kafkas_in_snake_case(name: str, ours: str) -> None:
    """A run of capitals is one word."""
    assert snake_case(name) == ours
