"""The examples of docs/machines.md, run as they stand."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from replica.machines import Refusal, SessionLimits
from replica.machines.key_value import commands, values

EXAMPLE = re.compile(r"```python\n(.*?)```(.*?)(?=```python|^## |\Z)", re.DOTALL | re.MULTILINE)


def page(root: Path) -> str:
    """The page's text."""
    return (root / "docs" / "machines.md").read_text(encoding="utf-8")


def examples(text: str) -> list[tuple[str, str]]:
    """Each program on the page, and what it is said to print: the indented lines behind it."""
    return [(program, indented(behind)) for program, behind in EXAMPLE.findall(text)]


def indented(text: str) -> str:
    """The lines of a text that are shown as they are."""
    return "".join(f"{line[4:]}\n" for line in text.splitlines() if line.startswith("    "))


def test_the_examples_print_what_the_page_says(pytestconfig: pytest.Config) -> None:
    """Each program goes on with the names of those before it, and prints what stands behind it."""
    names: dict[str, Any] = {"__name__": "example"}
    (counter, _), *shown = examples(page(pytestconfig.rootpath))
    exec(counter, names)
    assert len(shown) == 4
    for program, expected in shown:
        printed = StringIO()
        with redirect_stdout(printed):
            exec(program, names)
        assert printed.getvalue() == expected


def test_the_counter_is_the_one_of_the_package(pytestconfig: pytest.Config) -> None:
    """What the page shows is the module behind its docstring, but for the linter's remarks."""
    source = (pytestconfig.rootpath / "replica" / "machines" / "counter.py").read_text(encoding="utf-8")
    code = re.sub(r"  # noqa.*", "", source).partition("from __future__ import annotations\n\n")[2]
    assert examples(page(pytestconfig.rootpath))[0][0] == code


def test_the_page_names_everything(pytestconfig: pytest.Config) -> None:
    """No command, question, refusal of an entry, or bound goes without being told."""
    text = page(pytestconfig.rootpath)
    named = [kind.__name__ for kind in (*commands.Command.__args__, *commands.Request.__args__)]
    named += [refusal.value for refusal in Refusal if refusal is not Refusal.QUERY_FAILED]
    assert [name for name in named if f"`{name}`" not in text] == []
    limits = SessionLimits()
    bounds = (limits.sessions_max, limits.window, values.KEY_BYTES_MAX, values.OPERATIONS_MAX, values.RANGE_KEYS_MAX)
    assert [bound for bound in (*bounds, values.WATCH_CHANGES_MAX, values.LEASES_MAX) if f"{bound:,}" not in text] == []
    assert f"{limits.kept_bytes_total_max >> 20} MiB" in text
    assert (limits.kept_bytes_max, values.VALUE_BYTES_MAX, values.ANSWER_BYTES_MAX) == (4 << 20, 1 << 20, 1 << 20)
