"""The checksums speak for every file of a release, and a signature for them."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path
from shutil import which

import pytest

from release.commands import ReleaseError
from release.sums import SIGNATURE, SUMS, released_in, sign, write_sums

needs_ssh = pytest.mark.skipif(which("ssh-keygen") is None, reason="there is no ssh-keygen")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of a release."""
    path = tmp_path / "dist"
    path.mkdir()
    (path / "b.whl").write_bytes(b"wheel")
    (path / "a.tar.gz").write_bytes(b"sdist")
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A key of OpenSSH without a password."""
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def test_every_file_has_its_line(folder: Path) -> None:
    """In the form that sha256sum reads, by name; written again they are the same, without a line of their own."""
    write_sums(folder)
    text = (folder / SUMS).read_text(encoding="utf-8")
    assert text == f"{sha256(b'sdist').hexdigest()}  a.tar.gz\n{sha256(b'wheel').hexdigest()}  b.whl\n"
    write_sums(folder)
    assert (folder / SUMS).read_text(encoding="utf-8") == text


@needs_ssh
def test_the_signature_is_of_these_sums_and_this_key(folder: Path, key: Path, tmp_path: Path) -> None:
    """Whoever has the public key finds the signature good, and no longer once a checksum is another one."""
    write_sums(folder)
    sign(folder, key)
    signers = tmp_path / "signers"
    signers.write_text(f"release {key.with_suffix('.pub').read_text(encoding='utf-8')}", encoding="utf-8")
    verify = ("ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", "release", "-n", "file")

    def holds(sums: bytes) -> bool:
        command = (*verify, "-s", str(folder / SIGNATURE))
        return subprocess.run(command, input=sums, capture_output=True, check=False).returncode == 0

    sums = (folder / SUMS).read_bytes()
    assert holds(sums)
    assert not holds(sums.replace(b"a.tar.gz", b"c.tar.gz"))


@needs_ssh
def test_a_file_that_is_no_key_is_told(folder: Path) -> None:
    """A release that was to be signed does not go on without, and says what ssh-keygen says."""
    write_sums(folder)
    with pytest.raises(ReleaseError, match=r"ssh-keygen .* ended with status"):
        sign(folder, folder / "b.whl")
    assert not (folder / SIGNATURE).exists()


def test_an_earlier_release_is_known_by_its_sums(folder: Path) -> None:
    """Its files, sums and signature are what may be replaced; of a folder that is not there, nothing."""
    write_sums(folder)
    (folder / SIGNATURE).write_text("signature", encoding="utf-8")
    assert [path.name for path in released_in(folder)] == [SUMS, SIGNATURE, "a.tar.gz", "b.whl"]
    assert released_in(folder / "none") == []


def test_files_of_others_are_left_alone(folder: Path) -> None:
    """A folder with something that no release has listed is not written to, and the file is named."""
    with pytest.raises(ReleaseError, match=r"has what no release has put there: a\.tar\.gz, b\.whl"):
        released_in(folder)
