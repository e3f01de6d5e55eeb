"""The Pythons of a machine are found where they are, and what only looks like one is passed over."""

from __future__ import annotations

import sys
from pathlib import Path

from release.interpreters import MINORS, candidates, find_interpreters, name_of, works

HERE = sys.version_info.minor


def program(path: Path, does: str) -> Path:
    """A program of a shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_all_places_are_searched_in_order(tmp_path: Path) -> None:
    """First the PATH, then pyenv's versions, then uv's; a folder without the program is none."""
    first = program(tmp_path / "bin" / "python3.12", "")
    second = program(tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python3.12", "")
    third = program(tmp_path / ".local/share/uv/python/cpython-3.12.4-linux/bin/python3.12", "")
    program(tmp_path / "pyenv" / "versions" / "3.13.0" / "bin" / "python3.13", "")
    path = f"{tmp_path / 'empty'}:{tmp_path / 'bin'}"
    environ = {"PATH": path, "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path / "pyenv")}
    assert list(candidates(12, environ)) == [first, second, third]


def test_a_program_that_does_not_work_is_passed_over(tmp_path: Path) -> None:
    """One that fails, as pyenv's does for a version that is not chosen, does not hide the one behind it."""
    program(tmp_path / "shims" / name_of(HERE), "exit 127")
    right = program(tmp_path / "bin" / name_of(HERE), f'exec {sys.executable} "$@"')
    environ = {"PATH": f"{tmp_path / 'shims'}:{tmp_path / 'bin'}", "HOME": str(tmp_path)}
    found = find_interpreters(environ)
    assert found[HERE] == right
    assert [minor for minor, path in found.items() if path is None] == [minor for minor in MINORS if minor != HERE]


def test_a_program_of_another_version_is_none(tmp_path: Path) -> None:
    """A name is not believed: the program is asked."""
    other = MINORS[0] if MINORS[0] != HERE else MINORS[1]
    assert not works(program(tmp_path / name_of(other), f'exec {sys.executable} "$@"'), other)
