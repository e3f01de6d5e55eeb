"""The wheels: one of each platform that has a compiler, with the libraries in it, and one for all the others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from ctypes import CDLL
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from hatch_build import ACCELERATOR, LIBRARIES, PURE, RECORDS_WALK, SourceBuildHook, compile_library, platform_tag
from nemesis.linearizability.accelerator import load
from replica.records.walking import ABI_VERSION
from tests.linearizability.native import ROOT, needs_compiler

SOURCES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "proto", "replica", "nemesis")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the source tree, for a build to write into; an old library of an editable install lies in it."""
    copy = tmp_path / "tree"
    copy.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*_pb2*"))
        else:
            shutil.copy(ROOT / name, copy / name)
    for library in LIBRARIES:
        (copy / library).write_bytes(b"old")
    return copy


def built(tree: Path, **environment: str) -> Path:
    """The one wheel that hatchling builds of ``tree``."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tree / "out")]
    subprocess.run(command, cwd=tree, env={**os.environ, **environment}, check=True, capture_output=True)
    (wheel,) = (tree / "out").iterdir()
    return wheel


@pytest.mark.slow
@needs_compiler
def test_a_wheel_of_a_platform_has_the_library(tree: Path, tmp_path: Path) -> None:
    """With a compiler, the wheel is of this platform and any Python 3, and its libraries can be loaded."""
    wheel = built(tree, **{PURE: "0"})
    assert wheel.name.endswith(f"-{platform_tag()}.whl")
    with ZipFile(wheel) as archive:
        load(Path(archive.extract(ACCELERATOR.as_posix(), tmp_path)))
        assert CDLL(archive.extract(RECORDS_WALK.as_posix(), tmp_path)).records_walk_abi() == ABI_VERSION
        assert not [name for name in archive.namelist() if name.endswith(".gitignore")]
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = archive.read(metadata).decode()
    assert "\nName: highwater-log\n" in told
    assert "\nProject-URL: Homepage, https://" in told
    assert "\nRequires-Dist: highwater" not in told  # Extras that name others of this distribution are resolved.


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{PURE: "1"}, {"CC": "no-such-compiler"}, {"CC": "false"}], ids=str)
def test_a_wheel_without_compiler_is_for_all(environment: dict[str, str], tree: Path) -> None:
    """Forbidden, absent or broken: a wheel results nevertheless, and nothing that was compiled is in it."""
    wheel = built(tree, **environment)
    assert wheel.name.endswith("-py3-none-any.whl")
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    for library in LIBRARIES:
        assert library.as_posix() not in names
        assert library.with_suffix(".c").as_posix() in names


def installed(tree: Path) -> None:
    """What an editable install does to the source tree."""
    builder = WheelBuilder(str(tree))
    hook = SourceBuildHook(
        str(tree), {}, builder.config, builder.metadata, str(tree / "out"), builder.PLUGIN_NAME, builder.app
    )
    hook.initialize("editable", builder.get_default_build_data())


@pytest.mark.slow
@needs_compiler
def test_an_editable_install_has_the_library_in_the_source_tree(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is replaced by the one of these sources; where it is forbidden, none is left to be found."""
    monkeypatch.setenv(PURE, "0")
    installed(tree)
    load(tree / ACCELERATOR)
    monkeypatch.setenv(PURE, "1")
    installed(tree)
    assert not any((tree / library).exists() for library in LIBRARIES)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (PURE, "1", "forbids it"),
        ("CC", "no-such-compiler", "FileNotFoundError"),
        ("CC", "'", "ValueError"),
        ("CC", "false", "ended with status 1"),
    ],
)
def test_what_does_not_compile_says_why(
    name: str, value: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No library is left behind, and the reason is told."""
    monkeypatch.setenv(name, value)
    refusal = compile_library(ROOT, ACCELERATOR, tmp_path / "library.so")
    assert refusal is not None
    assert why in refusal
    assert list(tmp_path.iterdir()) == []
