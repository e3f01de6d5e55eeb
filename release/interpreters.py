"""The Pythons of this machine that the release is tried on.

Owns where they are looked for: on the PATH, and where pyenv and uv put them. A program that is called so and is none
(pyenv's for a version that is not chosen) or cannot make virtual environments is passed over.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

MINORS = range(11, 15)
"""The minor versions of Python 3 that a release is for."""
ANSWER_TIMEOUT_S = 30
_QUESTION = "import ensurepip, sys, venv; print(*sys.version_info[:2], sep='.')"


def name_of(minor: int) -> str:
    """What the program is called."""
    return f"python3.{minor}"


def find_interpreters(environ: Mapping[str, str] = os.environ) -> dict[int, Path | None]:
    """For each minor version the program, or None where there is none that works."""
    return {minor: next((path for path in candidates(minor, environ) if works(path, minor)), None) for minor in MINORS}


def candidates(minor: int, environ: Mapping[str, str]) -> Iterator[Path]:
    """Where it may be, in the order of preference."""
    home = Path(environ.get("HOME", "/nonexistent"))
    pyenv = Path(environ.get("PYENV_ROOT") or home / ".pyenv")
    folders = [Path(folder) for folder in environ.get("PATH", "").split(os.pathsep) if folder]
    folders += sorted(pyenv.glob(f"versions/3.{minor}.*/bin"))
    folders += sorted((home / ".local/share/uv/python").glob(f"cpython-3.{minor}*/bin"))
    return (path for folder in folders if (path := folder / name_of(minor)).is_file())


def works(path: Path, minor: int) -> bool:
    """Whether this is a Python of that version which can make virtual environments."""
    try:
        done = subprocess.run(
            [str(path), "-I", "-c", _QUESTION], capture_output=True, text=True, check=True, timeout=ANSWER_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.stdout.strip() == f"3.{minor}"
