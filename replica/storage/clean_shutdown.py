"""``.kafka_cleanshutdown``: the marker of a clean stop, and as which incarnation of a broker it came.

Owns the file's format, Kafka's JSON. A controller takes a broker's word for a clean stop only if the number is the
broker epoch that it gave out last: a marker from an earlier life says nothing of what was lost since.
Source: Kafka's ``CleanShutdownFileHandler``; KIP-966.
"""

from __future__ import annotations

import json
from pathlib import Path

from replica.ids import BrokerEpoch
from replica.storage.errors import CorruptCheckpointError
from replica.storage.files import Files, atomic_write, read_file

FILE_NAME = ".kafka_cleanshutdown"
_VERSION = 0
_INT64_MAX = (1 << 63) - 1


def write_clean_shutdown(files: Files, path: Path, broker_epoch: BrokerEpoch | None) -> None:
    """Leave the marker, durably; the number stays absent where the replica was never registered as a broker."""
    document = {"version": _VERSION} | ({} if broker_epoch is None else {"brokerEpoch": broker_epoch})
    atomic_write(files, path, json.dumps(document, separators=(",", ":")).encode() + b"\n")


def read_clean_shutdown(files: Files, path: Path) -> BrokerEpoch | None:
    """The broker epoch in the marker, absent if it has none. CorruptCheckpointError if the file is malformed."""
    try:
        document = json.loads(read_file(files, path))
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(path, f"the file is not JSON ({error})") from None
    if not isinstance(document, dict):
        raise CorruptCheckpointError(path, "the file is not a JSON object")
    version = document.get("version")
    if isinstance(version, bool) or version != _VERSION:
        raise CorruptCheckpointError(path, f"version {version!r} is not {_VERSION}")
    if "brokerEpoch" not in document:
        return None
    epoch = document["brokerEpoch"]
    if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 <= epoch <= _INT64_MAX:
        raise CorruptCheckpointError(path, f"brokerEpoch {epoch!r} is not a number from 0 to {_INT64_MAX}")
    return BrokerEpoch(epoch)
