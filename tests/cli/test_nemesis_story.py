"""``nemesis story``: the text on standard output, the page in a file, and a list of what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from nemesis.cli.__main__ import cli
from nemesis.scenarios.collection import story_names, story_text


@pytest.mark.parametrize("name", story_names())
def test_a_story_is_told_as_its_file_says(name: str) -> None:
    """What the command prints is the story's file, for that is what its commands print."""
    result = CliRunner().invoke(cli, ["story", name])

    assert result.exit_code == 0, result.output
    assert result.stdout == story_text(name)


@pytest.mark.parametrize("arguments", [["story"], ["story", "--list"]])
def test_the_stories_are_listed_with_their_titles(arguments: list[str]) -> None:
    """Without a name, or when asked, every story is listed with what it is about."""
    result = CliRunner().invoke(cli, arguments)

    assert [line.split()[0] for line in result.stdout.splitlines()] == list(story_names())
    assert "why only a record of a leader's own epoch commits older ones" in result.stdout


def test_the_page_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    """With --html the page is a file, its folder is made, and standard output says where it is."""
    path = tmp_path / "pages" / "election.html"
    result = CliRunner().invoke(cli, ["story", "election", "--html", str(path)])

    assert result.stdout == f"page: {path}\n"
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_an_unknown_story_is_refused_with_those_that_there_are() -> None:
    """A name that there is not is a bad argument, and the message names the others."""
    result = CliRunner().invoke(cli, ["story", "figure-9"])

    assert result.exit_code == 2
    assert "figure-8" in result.stderr
