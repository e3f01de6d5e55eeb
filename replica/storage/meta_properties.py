"""``meta.properties``: whose data directory this is.

Owns the file's format (Java properties, one ``name=value`` a line, ``#`` for comments) and the rules of its values.
Source: Kafka's ``MetaProperties`` version 1; KIP-631, KIP-858 (directory ids).
"""

from __future__ import annotations

import base64
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from replica.core.metadata.levels import FIRST_LEVEL, LEVELS, NEWEST_LEVEL
from replica.ids import ReplicaId
from replica.storage.errors import CorruptCheckpointError
from replica.storage.files import Files, atomic_write, read_file

FILE_NAME = "meta.properties"
_VERSION = "1"
_IDENTIFIER = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The identity of a data directory. ``directory_id`` is fresh at every format: a wiped disk is a new voter.

    Ids are 1 to 64 letters, digits, dots, dashes and underscores (ValueError). ``feature_level`` is that at which the
    cluster begins, if this disk is of its first voters; what it has come to since, the metadata log says.
    """

    cluster_id: str
    replica_id: ReplicaId
    directory_id: str
    feature_level: int = FIRST_LEVEL

    def __post_init__(self) -> None:
        for name, value in (("cluster id", self.cluster_id), ("directory id", self.directory_id)):
            if not _IDENTIFIER.fullmatch(value):
                raise ValueError(f"{name} {value!r} must be 1 to 64 letters, digits, dots, dashes and underscores")
        if self.replica_id < 0:
            raise ValueError(f"replica id {self.replica_id} must be 0 or more")
        if self.feature_level not in LEVELS:
            raise ValueError(f"feature level {self.feature_level} must be from {FIRST_LEVEL} to {NEWEST_LEVEL}")


def random_directory_id() -> str:
    """A fresh id: 128 random bits in URL-safe base64, 22 characters, as Kafka writes its ``Uuid``.

    None begins with a dash: on a command line that would look like an option.
    """
    while True:
        directory_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not directory_id.startswith("-"):
            return directory_id


def write_meta_properties(files: Files, path: Path, meta: MetaProperties) -> None:
    """Replace the file, durably."""
    lines = (
        f"version={_VERSION}",
        f"cluster.id={meta.cluster_id}",
        f"node.id={meta.replica_id}",
        f"directory.id={meta.directory_id}",
        *([] if meta.feature_level == FIRST_LEVEL else [f"feature.level={meta.feature_level}"]),
    )
    atomic_write(files, path, "".join(f"{line}\n" for line in lines).encode())


def read_meta_properties(files: Files, path: Path) -> MetaProperties:
    """The identity in the file; CorruptCheckpointError if a property is missing or malformed."""
    properties = _properties(path, read_file(files, path))
    for name in ("version", "cluster.id", "node.id", "directory.id"):
        if name not in properties:
            raise CorruptCheckpointError(path, f"property {name} is missing")
    if properties["version"] != _VERSION:
        raise CorruptCheckpointError(path, f"version {properties['version']!r} is not {_VERSION}")
    node_id = properties["node.id"]
    if not node_id.isascii() or not node_id.isdigit():
        raise CorruptCheckpointError(path, f"node.id {node_id!r} is not a number of 0 or more")
    level = properties.get("feature.level", str(FIRST_LEVEL))
    if level not in map(str, LEVELS):
        raise CorruptCheckpointError(path, f"feature.level {level!r} is none of {', '.join(map(str, LEVELS))}")
    try:
        return MetaProperties(
            cluster_id=properties["cluster.id"],
            replica_id=ReplicaId(int(node_id)),
            directory_id=properties["directory.id"],
            feature_level=int(level),
        )
    except ValueError as error:
        raise CorruptCheckpointError(path, str(error)) from None


def _properties(path: Path, content: bytes) -> dict[str, str]:
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError:
        raise CorruptCheckpointError(path, "the file is not text") from None
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator or name.strip() in properties:
            raise CorruptCheckpointError(path, f"{line!r} is not name=value, or names a property twice", line=number)
        properties[name.strip()] = value.strip()
    return properties
