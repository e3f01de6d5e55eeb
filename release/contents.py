"""What must be in the sdist and in the wheels: what is under version control, what is made of it, and nothing else.

There is no list to keep: a file that is added to a package is expected from then on. ``NEEDED`` guards against a list
that is right because nothing is on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from hatch_build import GENERATED_PACKAGE, LIBRARIES
from release.archives import is_pure, is_sdist, members
from release.commands import ReleaseError
from release.source import Source

NEEDED = (
    "replica/py.typed",
    "nemesis/py.typed",
    "replica/v1/*_pb2.py",
    "replica/v1/*_pb2.pyi",
    "nemesis/report/templates/*.html.j2",
    "nemesis/report/templates/*.css",
    "nemesis/report/templates/*.js",
    "nemesis/scenarios/stories/*.txt",
    "nemesis/serve/assets/*.js",
    "nemesis/serve/templates/*.html.j2",
)
"""What a wheel has at least one file of each."""
OF_A_WHEEL = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
OF_AN_SDIST = ("PKG-INFO", ".gitignore")


def check_contents(source: Source, path: Path) -> None:
    """Raise ReleaseError unless exactly that is in the file that must be, by the version of the commit."""
    found = members(path)
    expected = expected_in_sdist(source) if is_sdist(path) else expected_in_wheel(source, pure=is_pure(path))
    faults = list(differences(found, expected))
    if not is_sdist(path):
        faults += [f"there is no {pattern}" for pattern in NEEDED if not _any_like(found, pattern)]
    metadata = found.get("PKG-INFO" if is_sdist(path) else f"{_dist_info(source)}/METADATA", b"").decode()
    if f"\nVersion: {source.version}\n" not in metadata:
        faults.append(f"it is not of version {source.version}")
    if faults:
        raise ReleaseError(f"{path.name}: {'; '.join(faults)}")


def differences(found: Iterable[str], expected: Iterable[str]) -> Iterator[str]:
    """Say of each file that is missing, and of each that does not belong there."""
    there, wanted = set(found), set(expected)
    yield from (f"{name} is missing" for name in sorted(wanted - there))
    yield from (f"{name} does not belong there" for name in sorted(there - wanted))


def expected_in_wheel(source: Source, *, pure: bool) -> set[str]:
    """Both packages as they are committed, what is generated from proto/, the libraries, and what describes a wheel."""
    packages = [f"{package}/" for package in source.pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
    libraries = () if pure else map(str, LIBRARIES)
    described = (f"{_dist_info(source)}/{name}" for name in OF_A_WHEEL)
    return {*_below(source, packages), *_generated(source), *libraries, *described}


def expected_in_sdist(source: Source) -> set[str]:
    """What pyproject.toml includes, as it is committed, and what describes an sdist."""
    included = source.pyproject["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    names = [name.removeprefix("/") for name in included]
    files = set(names) & set(source.tracked)
    return {*files, *_below(source, [f"{name}/" for name in names]), "pyproject.toml", *OF_AN_SDIST}


def _below(source: Source, folders: Iterable[str]) -> Iterator[str]:
    beginnings = tuple(folders)
    return (name for name in source.tracked if name.startswith(beginnings))


def _generated(source: Source) -> Iterator[str]:
    package = PurePosixPath(GENERATED_PACKAGE)
    yield str(package / "__init__.py")
    for name in _below(source, [f"proto/{package}/"]):
        stem = PurePosixPath(name).stem
        yield from (str(package / f"{stem}_pb2{suffix}") for suffix in (".py", ".pyi"))


def _dist_info(source: Source) -> str:
    return f"{source.name}-{source.version}.dist-info"


def _any_like(names: Iterable[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)
