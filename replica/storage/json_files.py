"""Small JSON files with a version that are replaced whole, durably: how they are written, read and refused.

Owns the frame and the reading of fields; which fields there are is the business of each file's module. A file that is
not exactly right is refused by name: what stands in such files is promised to others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from replica.storage.errors import CorruptCheckpointError
from replica.storage.files import Files, atomic_write, read_file

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
_VERSION = "data_version"


def write_document(files: Files, path: Path, document: Mapping[str, object], *, data_version: int) -> None:
    """Replace the file, durably."""
    whole = {**document, _VERSION: data_version}
    atomic_write(files, path, json.dumps(whole, separators=(",", ":")).encode() + b"\n")


def read_document(files: Files, path: Path, *, data_version: int) -> dict[str, object] | None:
    """The document; None if there is no file; CorruptCheckpointError if it is malformed or of another version."""
    try:
        content = read_file(files, path)
    except FileNotFoundError:
        return None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(path, f"the file is not JSON ({error})") from None
    if not isinstance(document, dict):
        raise CorruptCheckpointError(path, "the file is not a JSON object")
    if document.get(_VERSION) != data_version:
        raise CorruptCheckpointError(path, f"data_version {document.get(_VERSION)!r} is not {data_version}")
    return document


def integer_in(path: Path, document: Mapping[str, object], name: str, *, minimum: int = 0, maximum: int) -> int:
    """The number of this name. Raises CorruptCheckpointError."""
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise CorruptCheckpointError(path, f"{name} {value!r} is not a number from {minimum} to {maximum}")
    return value


def text_in(path: Path, document: Mapping[str, object], name: str) -> str:
    """The text of this name. Raises CorruptCheckpointError."""
    value = document.get(name)
    if not isinstance(value, str):
        raise CorruptCheckpointError(path, f"{name} {value!r} is not a string")
    return value
