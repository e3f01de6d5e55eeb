"""Every scenario file, stories and cases, is performed and prints exactly what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.scenarios.collection import STORIES
from nemesis.scenarios.play import play
from nemesis.simulator.scenario_files import parse_scenario, render_scenario

CASES = Path(__file__).parent / "cases"
FILES = sorted([*STORIES.glob("*.txt"), *CASES.glob("*.txt")])


def performed(text: str) -> str:
    """The scenario as it would be written with what it prints now."""
    return render_scenario(step.directive for step in play(parse_scenario(text)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_prints_what_its_file_says(path: Path, pytestconfig: pytest.Config) -> None:
    """The output of every command is as written; with --rewrite it is written instead."""
    text = path.read_text(encoding="utf-8")
    now = performed(text)
    if pytestconfig.getoption("--rewrite"):
        path.write_text(now, encoding="utf-8")
        return

    assert now == text, "read the difference, and if it is meant, run pytest with --rewrite"


def test_an_output_that_is_not_so_is_seen() -> None:
    """A file that claims another output is not what performing it gives."""
    text = "world voters=3\n----\n4 replicas with the right rules\n"

    assert performed(text) == "world voters=3\n----\n3 replicas with the right rules\n"


def test_playing_twice_gives_the_same() -> None:
    """A scenario is a function of its file: a second play prints the same."""
    text = (STORIES / "figure-8.txt").read_text(encoding="utf-8")

    assert performed(text) == performed(text)
