"""Samples, and files made for one test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.formats.recognise import Format

SAMPLES = Path(__file__).parent / "samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A file that is right: its format, the model that it is of, and what the model says of it."""

    name: str
    format: Format
    model: str
    verdict: str = "valid"
    failed_cas_is_read: bool = False

    @property
    def path(self) -> Path:
        """Where it is."""
        return SAMPLES / self.name


ALL_SAMPLES = (
    Sample(name="register.edn", format=Format.EDN, model="cas-register"),
    Sample(name="records.edn", format=Format.EDN, model="cas-register", verdict="invalid"),
    Sample(name="register.log", format=Format.JEPSEN_LOG, model="cas-register"),
    Sample(name="history.txt", format=Format.JEPSEN_LOG, model="cas-register"),
    Sample(name="log.jsonl", format=Format.JSON, model="log"),
    Sample(name="transactions.json", format=Format.JSON, model="multi-register"),
    Sample(name="store.porcupine", format=Format.PORCUPINE_KV, model="kv"),
    Sample(name="maelstrom.edn", format=Format.MAELSTROM, model="cas-register", failed_cas_is_read=True),
)
"""``maelstrom.edn`` begins as any EDN does: its format is said, and not recognised."""


def written(folder: Path, content: str | bytes, name: str = "history") -> Path:
    """A file with this content."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet(folder: Path, rows: Iterable[Mapping[str, Any]], schema: pa.Schema | None = None) -> Path:
    """A Parquet file with these rows."""
    path = folder / "history.parquet"
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), path)
    return path
