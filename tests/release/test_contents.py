"""What must be in a release, and what must not: found by the files of the commit alone."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from hatch_build import LIBRARIES
from release.commands import ReleaseError
from release.contents import NEEDED, check_contents, differences, expected_in_sdist, expected_in_wheel
from release.source import Source, read_source
from tests.release.checkouts import SMALL, small_checkout

METADATA = b"Metadata-Version: 2.4\nName: some-log\nVersion: 1.2.3\n"
TEMPLATES = {pattern.replace("*", "one"): "text" for pattern in NEEDED if "_pb2" not in pattern}


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """A commit with at least one file of all that a wheel must have."""
    return read_source(small_checkout(tmp_path / "checkout", **TEMPLATES))


def wheel_of(folder: Path, names: set[str], *, pure: bool = True, metadata: bytes = METADATA) -> Path:
    """A wheel with these files."""
    path = folder / f"some_log-1.2.3-py3-none-{'any' if pure else 'linux_x86_64'}.whl"
    with ZipFile(path, "w") as archive:
        for name in sorted(names):
            archive.writestr(name, metadata if name.endswith("METADATA") else b"")
    return path


def test_a_wheel_has_both_packages_and_what_is_made_of_the_source(source: Source) -> None:
    """Committed files of both packages and generated modules are expected, tests are not, libraries where compiled."""
    pure, native = expected_in_wheel(source, pure=True), expected_in_wheel(source, pure=False)
    assert pure == {
        *(name for name in {**SMALL, **TEMPLATES} if name.startswith(("replica/", "nemesis/"))),
        *("replica/v1/__init__.py", "replica/v1/data_pb2.py", "replica/v1/data_pb2.pyi"),
        *(f"some_log-1.2.3.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")),
        "some_log-1.2.3.dist-info/licenses/LICENSE",
    }
    assert native - pure == set(map(str, LIBRARIES))


@pytest.mark.parametrize("pure", [True, False])
def test_a_wheel_that_is_right_passes(source: Source, pure: bool, tmp_path: Path) -> None:
    """A wheel with exactly the expected files is accepted, of each kind."""
    check_contents(source, wheel_of(tmp_path, expected_in_wheel(source, pure=pure), pure=pure))


@pytest.mark.parametrize(
    ("left_out", "added", "why"),
    [
        ("replica/v1/data_pb2.py", "", "replica/v1/data_pb2.py is missing"),
        ("nemesis/report/templates/one.css", "", "nemesis/report/templates/one.css is missing"),
        ("", "tests/test_some.py", "tests/test_some.py does not belong there"),
        ("", str(next(iter(LIBRARIES))), "register_search.so does not belong there"),
        ("", "replica/__pycache__/ids.cpython-311.pyc", "ids.cpython-311.pyc does not belong there"),
    ],
)
def test_a_wheel_that_is_wrong_is_refused(source: Source, left_out: str, added: str, why: str, tmp_path: Path) -> None:
    """One file too few or too many is named: a module, a style, a test, a library, what Python has compiled."""
    names = (expected_in_wheel(source, pure=True) | {added}) - {left_out, ""}
    with pytest.raises(ReleaseError, match=why):
        check_contents(source, wheel_of(tmp_path, names))


def test_a_wheel_of_another_version_is_refused(source: Source, tmp_path: Path) -> None:
    """The version in the metadata is that of the commit, not of an older build."""
    wheel = wheel_of(tmp_path, expected_in_wheel(source, pure=True), metadata=METADATA.replace(b"1.2.3", b"1.2.2"))
    with pytest.raises(ReleaseError, match=r"it is not of version 1\.2\.3"):
        check_contents(source, wheel)


def test_what_a_wheel_needs_is_demanded_even_if_it_is_not_committed(tmp_path: Path) -> None:
    """If a kind of file is gone from the commit, less is expected of a wheel, which is wrong all the same."""
    source = read_source(small_checkout(tmp_path / "checkout", **TEMPLATES))
    (source.root / "nemesis/report/templates/one.css").unlink()
    shrunk = Source(
        root=source.root,
        commit=source.commit,
        committed_s=source.committed_s,
        tracked=tuple(name for name in source.tracked if not name.endswith("one.css")),
        pyproject=source.pyproject,
    )
    with pytest.raises(ReleaseError, match=r"there is no nemesis/report/templates/\*\.css"):
        check_contents(shrunk, wheel_of(tmp_path, expected_in_wheel(shrunk, pure=True)))


def test_an_sdist_has_what_is_included(source: Source, tmp_path: Path) -> None:
    """Folders and files that pyproject.toml includes are expected, and others are not."""
    assert expected_in_sdist(source) == {"some/text.txt", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    path = tmp_path / "some_log-1.2.3.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in expected_in_sdist(source):
            content = METADATA if name == "PKG-INFO" else b""
            entry = tarfile.TarInfo(f"some_log-1.2.3/{name}")
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    check_contents(source, path)


def test_differences_are_told_in_both_directions() -> None:
    """What is missing comes first, then what is too much."""
    assert list(differences(["a", "c"], ["a", "b"])) == ["b is missing", "c does not belong there"]
