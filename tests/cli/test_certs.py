"""``replica certs``: no name takes the files of another one, and keys are for their owner."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from replica.cli.certs import certs


def make(folder: Path, *names: str) -> tuple[int, str]:
    """The exit code, and what is said."""
    done = CliRunner().invoke(certs, ["--dir", str(folder), *names])
    return done.exit_code, done.output


@pytest.mark.parametrize("name", ["ca", "ca-key", "one-key", "../one", ".one", "a/b"])
def test_a_name_takes_no_other_files(name: str, tmp_path: Path) -> None:
    """Neither the authority's, nor another name's key, nor one outside of the folder; nothing is written then."""
    assert make(tmp_path, "one")[0] == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code, said = make(tmp_path, name)
    assert (code, "cannot be the name" in said) == (2, True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_keys_are_for_their_owner(tmp_path: Path) -> None:
    """Whatever was left in the folder: a file that all may read, or a link."""
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "tls"
    folder.mkdir()
    (folder / "one-key.new").touch(mode=0o666)
    (folder / "one.new").symlink_to(outside)
    assert make(folder, "one")[0] == 0
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*-key.pem")} == {0o600}
    assert outside.read_text() == "mine"


def test_an_authority_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """Half of one is no reason to make another, which nobody would believe."""
    assert make(tmp_path, "one")[0] == 0
    (tmp_path / "ca-key.pem").write_text("no key")
    code, said = make(tmp_path, "two")
    assert (code, "has no authority that can be used" in said) == (1, True)
