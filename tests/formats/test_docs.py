"""The examples of the page about histories are what the command says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from nemesis.cli.__main__ import cli
from tests.formats.histories import SAMPLES

PAGE = Path(__file__).parents[2] / "docs" / "histories.md"
EXAMPLE = re.compile(r"^    \$ nemesis (?P<command>.*)\n(?P<said>(?:    [^$].*\n)+)", re.MULTILINE)
EXAMPLES = [(match["command"], match["said"]) for match in EXAMPLE.finditer(PAGE.read_text(encoding="utf-8"))]


def said_to(command: str) -> str:
    """What the command says on both outputs, as the page shows it; of a refusal, the error alone."""
    result = CliRunner().invoke(cli, command.split())
    lines = [line for line in result.output.splitlines() if line and not line.startswith(("Usage: ", "Try "))]
    return "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(("command", "said"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_an_example_is_true(command: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands on the page is what is printed, word for word."""
    monkeypatch.chdir(SAMPLES)

    assert said_to(command) == said


def test_there_are_examples() -> None:
    """The page has some, and none was overlooked."""
    assert len(EXAMPLES) == PAGE.read_text(encoding="utf-8").count("    $ nemesis ") == 6
