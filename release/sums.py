"""The checksums of a release, and their signature.

One file is signed, ``SHA256SUMS``, which speaks for all others. It is signed by ``ssh-keygen``, with a key that people
who release have anyway, and without a network; docs/releasing.md says how the signature is looked at.
"""

from __future__ import annotations

from pathlib import Path

from release.archives import digest
from release.commands import ReleaseError, run

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sig"
NAMESPACE = "file"
"""What the signature is for: ssh-keygen's word for files."""


def write_sums(folder: Path) -> None:
    """Write the checksums of all files in the folder, as ``sha256sum --check`` reads them."""
    paths = sorted(path for path in folder.iterdir() if path.name not in (SUMS, SIGNATURE))
    lines = (f"{digest(path)}  {path.name}\n" for path in paths)
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def sign(folder: Path, key: Path) -> None:
    """Sign the checksums with a private key of OpenSSH. Raises ReleaseError if that fails, or does not hold."""
    run("ssh-keygen", "-Y", "sign", "-f", key, "-n", NAMESPACE, folder / SUMS)
    signature = folder / SIGNATURE
    check = ("ssh-keygen", "-Y", "check-novalidate", "-n", NAMESPACE, "-s", signature)
    run(*check, stdin=(folder / SUMS).read_bytes())


def released_in(folder: Path) -> list[Path]:
    """The files of an earlier release that lie in the folder. Raises ReleaseError if others lie there too."""
    if not folder.exists():
        return []
    there = sorted(folder.iterdir())
    sums = folder / SUMS
    listed = (
        {line.partition("  ")[2] for line in sums.read_text(encoding="utf-8").splitlines()} if sums.exists() else set()
    )
    others = [path.name for path in there if path.name not in listed | {SUMS, SIGNATURE}]
    if others:
        raise ReleaseError(f"{folder} has what no release has put there: {', '.join(others)}")
    return there
