"""The name of the distribution: whoever follows a text of ours installs ours."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIRED = re.compile(r"\b(highwater[\w-]*)\[([\w,-]+)\]")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
RAW = "https://raw.githubusercontent.com/highwater-log/highwater-log/main/"


def texts() -> dict[str, str]:
    """All texts under version control that could tell somebody what to install, by their paths."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in listed.splitlines()]
    kinds = {".py", ".md", ".toml", ".yml", ".yaml", ""}
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in paths
        if path.suffix in kinds and path.is_file() and path.name != "CHANGELOG.md"
    }


def test_whoever_installs_extras_installs_this_distribution() -> None:
    """Each text that names extras names the distribution of pyproject.toml, and extras that it has."""
    found = [(path, *match) for path, text in texts().items() for match in REQUIRED.findall(text)]

    assert len({path for path, *_ in found}) > 5, found
    for path, name, extras in found:
        assert name == PROJECT["name"], path
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys(), (path, extras)


@pytest.mark.parametrize("command", ["replica", "nemesis"])
def test_a_command_asks_for_the_version_of_this_distribution(command: str) -> None:
    """What --version looks up is what is installed."""
    source = (ROOT / command / "cli" / "__main__.py").read_text(encoding="utf-8")

    assert f'package_name="{PROJECT["name"]}"' in source


def test_images_of_the_readme_are_found_from_anywhere() -> None:
    """The page of a package index has no files beside it: images have whole addresses, of files that are here."""
    images = IMAGE.findall((ROOT / PROJECT["readme"]).read_text(encoding="utf-8"))

    assert images
    for address in images:
        assert address.startswith(RAW), address
        assert (ROOT / address.removeprefix(RAW)).is_file(), address
    assert all(url.startswith("https://github.com/highwater-log/highwater-log") for url in PROJECT["urls"].values())


@pytest.mark.parametrize("folder", ["data/1", "store/append"])
def test_what_the_readme_makes_is_not_committed(folder: str) -> None:
    """The folders that the README's commands fill are ignored by git."""
    ignored = subprocess.run(["git", "check-ignore", "--quiet", f"{folder}/file"], cwd=ROOT, check=False)

    assert ignored.returncode == 0
