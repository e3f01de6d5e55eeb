"""Images are built where an engine answers, named by the version, and listed: here by an engine that is a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from release.commands import ReleaseError
from release.images import build_images, engine_answers
from release.sbom import add_debian_packages, debian_components
from release.source import read_source
from tests.release.checkouts import PYPROJECT, small_checkout, written
from tests.release.test_interpreters import program

ENGINE = """
echo "$@" >> {told}
case "$6" in
    "dpkg-query") printf 'libc6\\t2.36-9+deb12u1\\tamd64\\ntzdata\\t2024a\\tall\\n' ;;
    "sh") cd {packages} && tar --create --gzip *.dist-info | base64 ;;
    *) echo "$6, version 1.2.3" ;;
esac
"""
METADATA = "Metadata-Version: 2.1\nName: click\nVersion: 8.1.0\n"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ``docker`` that answers as the engine does, and writes down what it was told."""
    told = tmp_path / "told"
    packages = written(tmp_path / "packages", {"click-8.1.0.dist-info/METADATA": METADATA})
    program(tmp_path / "bin" / "docker", ENGINE.format(told=told, packages=packages))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("BASE", raising=False)
    return told


def checkout(root: Path) -> Path:
    """A source tree whose images are built by writing down the version."""
    small_checkout(root)
    program(root / ".ci" / "images", "exit 0")
    return root


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_images_are_named_and_listed(engine: Path, tmp_path: Path) -> None:
    """Each has the tag of the version, and a list of its packages, Python's and Debian's; for whom it is, is said."""
    root = checkout(tmp_path / "checkout")
    made, said = tmp_path / "made", list[str]()
    made.mkdir()
    build_images(read_source(root), root, made, tmp_path, said.append)
    assert {path.name for path in made.iterdir()} == {f"highwater-{n}-1.2.3.cdx.json" for n in ("replica", "nemesis")}
    listed = json.loads((made / "highwater-replica-1.2.3.cdx.json").read_text(encoding="utf-8"))
    assert {(each["name"], each["version"]) for each in listed["components"]} == {
        ("click", "8.1.0"),
        ("libc6", "2.36-9+deb12u1"),
        ("tzdata", "2024a"),
    }
    assert listed["metadata"]["component"]["name"] == "some-log"
    assert "tag highwater-replica highwater-replica:1.2.3" in engine.read_text(encoding="utf-8")
    assert said[0] == "the images are for this machine: with BASE=IMAGE they are for others"


def test_an_image_of_another_version_is_refused(engine: Path, tmp_path: Path) -> None:
    """What the command in the image tells must be the version that is released."""
    root = checkout(tmp_path / "checkout")
    (root / "pyproject.toml").write_text(PYPROJECT.replace("1.2.3", "1.2.4"), encoding="utf-8")
    source = read_source(small_checkout(tmp_path / "newer", **{"pyproject.toml": PYPROJECT.replace("1.2.3", "1.2.4")}))
    with pytest.raises(ReleaseError, match=r"highwater-replica says 'replica, version 1\.2\.3'"):
        build_images(source, root, tmp_path, tmp_path, list[str]().append)


def test_an_engine_that_does_not_answer_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where there is no client, nor where it finds no engine."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not engine_answers()
    program(tmp_path / "docker", "exit 1")
    assert not engine_answers()
    program(tmp_path / "docker", "exit 0")
    assert engine_answers()


def test_a_package_of_debian_is_named_so_that_it_is_found() -> None:
    """Signs of Debian's versions are written as package URLs have them."""
    (component,) = debian_components(["libstdc++6\t1:12.2.0-14+deb12u1\tamd64"])
    assert component["purl"] == "pkg:deb/debian/libstdc%2B%2B6@1%3A12.2.0-14%2Bdeb12u1?arch=amd64"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_list_that_breaks_the_schema_is_refused(tmp_path: Path) -> None:
    """What was added is looked at by CycloneDX's own schema."""
    target = tmp_path / "list.cdx.json"
    target.write_text('{"bomFormat": "CycloneDX", "specVersion": "1.6", "colour": "red"}', encoding="utf-8")
    with pytest.raises(ReleaseError, match="not as CycloneDX wants it"):
        add_debian_packages(target, "tzdata\t2024a\tall\n")
