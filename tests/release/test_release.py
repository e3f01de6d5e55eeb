"""The whole program: what it says beforehand, and, at length, what it makes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shutil import which
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from release.__main__ import begin, main, put
from release.archives import is_pure, is_sdist
from release.build import build, check_same
from release.commands import ReleaseError
from release.contents import check_contents
from release.installing import has_libraries, install, remove_installers, try_out
from release.interpreters import MINORS
from release.sbom import write_sbom
from release.source import Source, read_source
from release.sums import SUMS, write_sums
from tests.depth import at_night
from tests.linearizability.native import needs_compiler
from tests.release.checkouts import COMMITTED_S, ROOT, checkout_of_this, small_checkout, written


def test_what_is_left_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is one Python and nothing else, each thing that a release would have otherwise has a line."""
    root = written(small_checkout(tmp_path / "checkout"), {"new.txt": ""})
    source = read_source(root)
    name = f"python3.{sys.version_info.minor}"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / name).symlink_to(Path(sys.executable).resolve())
    (tmp_path / "bin" / "git").symlink_to(str(which("git")))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    assert list(begin(source, has_engine=False, has_key=False)) == [sys.version_info.minor]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"some_log 1.2.3, commit {source.commit[:12]}"
    assert said[1] == "left out: what is not committed: new.txt"
    missing = [minor for minor in MINORS if minor != sys.version_info.minor]
    assert said[2:5] == [f"left out: trying it on Python 3.{minor}: there is none here" for minor in missing]
    assert [line.partition(":")[0] for line in said[5:8]] == ["left out"] * 3
    assert said[8] == f"tried on Python 3.{sys.version_info.minor}"


@pytest.mark.slow
def test_a_dry_run_makes_nothing(tmp_path: Path) -> None:
    """It says version and commit of this checkout, and leaves no folder."""
    done = CliRunner().invoke(main, ["--dry-run", "--output", str(tmp_path / "dist")])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"highwater_log {read_source(ROOT).version}, commit ")
    assert not (tmp_path / "dist").exists()


def test_a_release_that_cannot_be_ends_with_an_error(tmp_path: Path) -> None:
    """A folder with files of others, a tag of no version here and a key that is none each stop it beforehand."""
    (tmp_path / "letter.txt").write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(main, ["--dry-run", "--output", str(tmp_path)])
    assert (done.exit_code, "letter.txt" in done.output) == (1, True)
    done = CliRunner().invoke(main, ["--dry-run", "--tag", "v0.0.0"])
    assert (done.exit_code, "the tag is v0.0.0" in done.output) == (1, True)
    done = CliRunner().invoke(main, ["--dry-run", "--sign-key", str(tmp_path / "none")])
    assert (done.exit_code, "there is no key" in done.output) == (1, True)


def test_a_release_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """What it had and this one has not is gone; nothing of both is mixed."""
    old, new = tmp_path / "dist", tmp_path / "made"
    for folder, name in ((old, "log-1.whl"), (new, "log-2.whl")):
        written(folder, {name: "wheel"})
        write_sums(folder)
    put(new, old, [*old.iterdir()])
    assert sorted(path.name for path in old.iterdir()) == [SUMS, "log-2.whl"]
    assert "log-2.whl" in (old / SUMS).read_text(encoding="utf-8")


def test_a_second_build_that_differs_is_refused(tmp_path: Path) -> None:
    """The file in a wheel that was another one the second time is named; so is another order."""
    one, other = tmp_path / "one.whl", tmp_path / "again" / "one.whl"
    other.parent.mkdir()
    for path, text in ((one, "first"), (other, "second")):
        with ZipFile(path, "w") as archive:
            archive.writestr("same.py", "same")
            archive.writestr("built.py", text)
    with pytest.raises(ReleaseError, match=r"is another one when it is built a second time: built\.py$"):
        check_same(one, other)
    with ZipFile(other, "w") as archive:
        archive.writestr("built.py", "first")
        archive.writestr("same.py", "same")
    with pytest.raises(ReleaseError, match="the order or the times"):
        check_same(one, other)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Source, tuple[Path, ...]]:
    """The files of this source tree, built as a release builds them: twice."""
    scratch = tmp_path_factory.mktemp("release")
    (scratch / "checkout").mkdir()
    source = read_source(checkout_of_this(scratch / "checkout"))
    return source, build(source, scratch)


@pytest.mark.slow
@needs_compiler
@pytest.mark.xdist_group("release")
@pytest.mark.timeout(600)
def test_this_source_tree_builds_the_same_twice(released: tuple[Source, tuple[Path, ...]]) -> None:
    """From the commit and from the sdist come the same bytes; each file has all that it must have, and nothing else."""
    source, files = released
    assert [has_libraries(path) for path in files] == [True, True, False]
    assert [is_sdist(path) for path in files] == [True, False, False]
    assert "-py3-none-manylinux" in files[1].name
    assert is_pure(files[2])
    for path in files:
        check_contents(source, path)
    with ZipFile(files[2]) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    assert source.committed_s == COMMITTED_S


@at_night("installs packages in empty environments")
@needs_compiler
@pytest.mark.slow
@pytest.mark.xdist_group("release")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", [0, 1, 2], ids=["sdist", "native", "pure"])
def test_each_file_can_be_installed(released: tuple[Source, tuple[Path, ...]], number: int, tmp_path: Path) -> None:
    """In an empty environment of this Python everything that is tried works, and its list names what it needs alone."""
    source, files = released
    environment = tmp_path / "environment"
    install(files[number], Path(sys.executable), environment)
    try_out(files[number], environment, source)
    remove_installers(environment)
    write_sbom(environment, ROOT, tmp_path / "list.cdx.json")
    listed = json.loads((tmp_path / "list.cdx.json").read_text(encoding="utf-8"))
    names = {each["name"] for each in listed["components"]}
    assert {"grpcio", "protobuf", "numpy", "pyarrow"} <= names
    assert names.isdisjoint({"pip", "setuptools", "pytest", "highwater-log"})
    assert listed["metadata"]["component"]["name"] == "highwater-log"
