"""Reads what is in an sdist or a wheel."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

SDIST_SUFFIX = ".tar.gz"
PURE_SUFFIX = "-py3-none-any.whl"


def is_sdist(path: Path) -> bool:
    """Whether this is an sdist; everything else is a wheel."""
    return path.name.endswith(SDIST_SUFFIX)


def is_pure(path: Path) -> bool:
    """Whether this is a wheel for every platform, with nothing in it that is compiled."""
    return path.name.endswith(PURE_SUFFIX)


def members(path: Path) -> Mapping[str, bytes]:
    """The files in the archive, by their names; those of an sdist without the folder that all of them lie in."""
    if not is_sdist(path):
        with ZipFile(path) as archive:
            return {entry.filename: archive.read(entry) for entry in archive.infolist() if not entry.is_dir()}
    found: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            if content is not None:
                found[entry.name.partition("/")[2]] = content.read()
    return found


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return sha256(path.read_bytes()).hexdigest()
