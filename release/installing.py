"""Installs a file of the release in an empty environment, as a user does, and tries it there."""

from __future__ import annotations

from pathlib import Path

from hatch_build import PURE
from release.archives import is_pure, is_sdist
from release.build import has_compiler
from release.commands import ReleaseError, run
from release.source import Source

TRIED = Path(__file__).with_name("tried.py")
SEEDS = "3"


def install(path: Path, interpreter: Path, environment: Path) -> None:
    """Make an empty environment and install the file there, with what it needs from the package index."""
    run(interpreter, "-m", "venv", environment)
    pip = (environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-compile", path, env={PURE: "0"})


def try_out(path: Path, environment: Path, source: Source) -> None:
    """Raise ReleaseError unless the commands answer, records come back, and simulated clusters keep their promises."""
    programs = environment / "bin"
    for name in source.pyproject["project"]["scripts"]:
        told = _run_there(environment, programs / name, "--version")
        if told.strip() != f"{name}, version {source.version}":
            raise ReleaseError(f"{name} --version says {told.strip()!r}, and {source.version} is released")
    _run_there(environment, programs / "python", "-I", TRIED, "native" if has_libraries(path) else "pure")
    _run_there(environment, programs / "nemesis", "sim", "--seeds", SEEDS)


def has_libraries(path: Path) -> bool:
    """Whether the libraries in C are there once the file is installed here; an sdist compiles them where it can."""
    return has_compiler() if is_sdist(path) else not is_pure(path)


def remove_installers(environment: Path) -> None:
    """Take out of an environment what is there only because it was made: pip, and setuptools with Python 3.11."""
    run(environment / "bin" / "python", "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools", "pip")


def _run_there(environment: Path, *command: str | Path) -> str:
    """Run a program in a folder of its own, where nothing lies that it could take for a package."""
    folder = environment / "tried"
    folder.mkdir(exist_ok=True)
    return run(*command, cwd=folder)
