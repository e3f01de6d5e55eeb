"""What is released is a commit, and its version stands in one place."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nemesis.cli.__main__ import cli
from release.commands import ReleaseError
from release.source import check_tag, export, read_source, uncommitted
from replica.cli.__main__ import main
from tests.release.checkouts import COMMITTED_S, PYPROJECT, ROOT, git, small_checkout, written

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
RECORDED = ("CHANGELOG.md", "docs/performance.md", "tests/")
"""Where a version is told that was released or measured, or is made up."""


def test_the_commit_is_released_and_not_what_lies_beside_it(tmp_path: Path) -> None:
    """Version, files and texts are those of the commit, whatever was changed or added since; and that is told."""
    root = small_checkout(tmp_path / "checkout")
    written(root, {"pyproject.toml": PYPROJECT.replace("1.2.3", "9.9.9"), "new.txt": "new"})
    source = read_source(root)
    export(source, tmp_path / "exported")
    assert (source.name, source.version, source.committed_s) == ("some_log", "1.2.3", COMMITTED_S)
    assert (tmp_path / "exported" / "pyproject.toml").read_text(encoding="utf-8") == PYPROJECT
    assert "new.txt" not in source.tracked
    assert sorted(uncommitted(source)) == ["new.txt", "pyproject.toml"]


def test_a_folder_without_history_is_refused(tmp_path: Path) -> None:
    """Where no commit is, nothing can be released, and the message is git's."""
    with pytest.raises(ReleaseError, match="not a git repository"):
        read_source(tmp_path)


def test_a_tag_that_fits_is_accepted(tmp_path: Path) -> None:
    """The tag of this version, on this commit, with a heading in the changelog, is right."""
    root = small_checkout(tmp_path)
    git(root, "tag", "v1.2.3")
    check_tag(read_source(root), "v1.2.3")


@pytest.mark.parametrize(
    ("tag", "changed", "why"),
    [
        ("v1.2.4", {}, "the tag is v1.2.4, and the version in pyproject.toml is 1.2.3"),
        ("v1.2.3", {"CHANGELOG.md": "## [Unreleased]\n"}, "CHANGELOG.md has no heading"),
        ("v1.2.3", {"CHANGELOG.md": "## [1.2.3]\n"}, "CHANGELOG.md has no heading"),
    ],
)
def test_a_tag_that_does_not_fit_is_refused(tag: str, changed: dict[str, str], why: str, tmp_path: Path) -> None:
    """A tag of another version, or of one that the changelog does not tell of, stops the release and says which."""
    root = small_checkout(tmp_path, **changed)
    git(root, "tag", tag)
    with pytest.raises(ReleaseError, match=re.escape(why)):
        check_tag(read_source(root), tag)


def test_a_tag_of_another_commit_is_refused(tmp_path: Path) -> None:
    """A release is not made under a tag that is of something else."""
    root = small_checkout(tmp_path)
    git(root, "tag", "v1.2.3")
    git(root, "commit", "--allow-empty", "--message", "Go on")
    with pytest.raises(ReleaseError, match="is checked out"):
        check_tag(read_source(root), "v1.2.3")


@pytest.mark.parametrize("command", [main, cli], ids=["replica", "nemesis"])
def test_a_command_tells_the_version_that_is_installed(command: click.Command) -> None:
    """Both commands look up where packages are installed which version they are of, as the tables of runs do."""
    told = CliRunner().invoke(command, ["--version"], prog_name="some")
    assert told.output == f"some, version {version('highwater-log')}\n"


def test_the_version_stands_in_one_place() -> None:
    """No file but pyproject.toml has the number of the version, nor a name of its own for it."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = [name for name in listed.splitlines() if not name.startswith(RECORDED) and not name.endswith(".png")]
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names if (ROOT / name).is_file()}
    number = re.compile(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.])|__version__")
    assert [name for name, text in texts.items() if number.search(text)] == ["pyproject.toml"]
    assert len(number.findall(texts["pyproject.toml"])) == 1
