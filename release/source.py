"""The commit that is released: its files, its version, its time.

Owns what is asked of git. Nothing is taken from the working tree: what is not committed is not released.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from release.commands import ReleaseError, run

PROJECT_FILE = "pyproject.toml"
CHANGELOG = "CHANGELOG.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A commit of the checkout at ``root``; ``committed_s`` is its time, which all files of the release bear."""

    root: Path
    commit: str
    committed_s: int
    tracked: tuple[str, ...]
    pyproject: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the distribution, as it stands in the names of files."""
        return re.sub(r"[-_.]+", "_", self.pyproject["project"]["name"])

    @property
    def version(self) -> str:
        """The version, which stands in pyproject.toml and nowhere else."""
        version: str = self.pyproject["project"]["version"]
        return version


def read_source(root: Path) -> Source:
    """Read the commit that is checked out at ``root``. Raises ReleaseError if that is no checkout."""
    commit = _git(root, "rev-parse", "HEAD").strip()
    return Source(
        root=root,
        commit=commit,
        committed_s=int(_git(root, "log", "-1", "--format=%ct", commit)),
        tracked=tuple(_git(root, "ls-tree", "-r", "--name-only", "-z", commit).rstrip("\0").split("\0")),
        pyproject=tomllib.loads(_git(root, "show", f"{commit}:{PROJECT_FILE}")),
    )


def uncommitted(source: Source) -> list[str]:
    """The files that are not as the commit has them, new ones included."""
    lines = _git(source.root, "status", "--porcelain", "--untracked-files=all").splitlines()
    return [line[3:] for line in lines]


def export(source: Source, folder: Path) -> None:
    """Write the files of the commit into ``folder``."""
    archive = folder.with_suffix(".tar")
    run("git", "archive", "--format=tar", f"--output={archive}", source.commit, cwd=source.root)
    unpack(archive, folder)


def unpack(archive: Path, folder: Path) -> None:
    """Write the files of an archive that this program has made into ``folder``."""
    folder.mkdir(parents=True)
    run("tar", "--extract", f"--file={archive}", f"--directory={folder}")


def check_tag(source: Source, tag: str) -> None:
    """Raise ReleaseError unless ``tag`` is the one of this version and commit, and the changelog tells of it."""
    if tag != f"v{source.version}":
        raise ReleaseError(f"the tag is {tag}, and the version in {PROJECT_FILE} is {source.version}")
    commit = _git(source.root, "rev-parse", f"refs/tags/{tag}^{{commit}}").strip()
    if commit != source.commit:
        raise ReleaseError(f"the tag {tag} is of commit {commit}, and {source.commit} is checked out")
    changelog = _git(source.root, "show", f"{source.commit}:{CHANGELOG}")
    if not re.search(rf"^## \[{re.escape(source.version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        raise ReleaseError(f"{CHANGELOG} has no heading '## [{source.version}] - YYYY-MM-DD'")


def _git(root: Path, *arguments: str) -> str:
    return run("git", *arguments, cwd=root)
