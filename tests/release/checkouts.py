"""A checkout to release from: the files of this one as they lie there, committed, or a few files of a test's own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMITTED_S = 1_700_000_000
PYPROJECT = """
[project]
name = "some-log"
version = "1.2.3"
scripts = {some = "some:main"}
[tool.hatch.build.targets.sdist]
include = ["/some", "/README.md"]
[tool.hatch.build.targets.wheel]
packages = ["replica", "nemesis"]
"""
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-02-03\n\n- It is there.\n"
SMALL = {
    "pyproject.toml": PYPROJECT,
    "CHANGELOG.md": CHANGELOG,
    "README.md": "Some.\n",
    "some/text.txt": "some\n",
    "replica/py.typed": "",
    "nemesis/page.html.j2": "page\n",
    "proto/replica/v1/data.proto": "syntax = 'proto3';\n",
    "tests/test_some.py": "assert True\n",
}


def git(root: Path, *arguments: str) -> None:
    """Run git there, as somebody, at one and the same time, by nobody's configuration."""
    environment = {
        **{f"GIT_{who}_{what}": "someone" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        **{f"GIT_{who}_DATE": f"{COMMITTED_S} +0000" for who in ("AUTHOR", "COMMITTER")},
        **{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(root)},
        "PATH": "/usr/local/bin:/usr/bin:/bin",
    }
    subprocess.run(["git", *arguments], cwd=root, env=environment, check=True, capture_output=True)


def commit(root: Path) -> Path:
    """Commit all that lies below ``root``, which becomes a checkout."""
    if not (root / ".git").exists():
        git(root, "init", "--quiet")
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--no-gpg-sign", "--message", "Release it")
    return root


def small_checkout(root: Path, **changed: str) -> Path:
    """A checkout of a few files."""
    return commit(written(root, {**SMALL, **changed}))


def written(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below ``root``."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def checkout_of_this(root: Path) -> Path:
    """A checkout of the files of this one that are under version control, as they lie there now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    return commit(root)
