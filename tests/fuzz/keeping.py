"""What the fuzzer has found, a small file for each cause: ``corpus/DECODER/what-it-is.bin``, replayed by each test run.

Owns the folder, and how an input is made small.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.fuzz.decoder import Decoder
from tests.fuzz.running import Finding, Kind, replayed

CORPUS = Path(__file__).parent / "corpus"
TRIES_MAX = 3_000


def corpus() -> Iterator[tuple[str, Path]]:
    """Each file, with the name of the decoder that it is for."""
    for path in sorted(CORPUS.glob("*/*.bin")):
        yield path.parent.name, path


def kept(folder: Path, decoder: Decoder, finding: Finding) -> Path:
    """Write the input of a finding into a folder; returns its path."""
    cause = re.sub(r"[^A-Za-z0-9]+", "-", f"{finding.kind} {finding.where}").strip("-").lower()
    digest = hashlib.sha256(finding.content).hexdigest()[:8]
    path = folder / decoder.name / f"{cause[:80]}-{digest}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(finding.content)
    return path


def shrunk(decoder: Decoder, finding: Finding) -> Finding:
    """The same finding with as small an input as pieces can be left out of; of a crash alone, which is soon over."""
    if finding.kind is not Kind.CRASH or decoder.may_kill:
        return finding
    content, tries = finding.content, 0
    size = max(1, len(content) // 2)
    with tempfile.TemporaryDirectory() as folder:
        while tries < TRIES_MAX:
            at, before = 0, len(content)
            while at < len(content) and tries < TRIES_MAX:
                smaller = content[:at] + content[at + size :]
                tries += 1
                found = replayed(decoder, smaller, Path(folder))
                if found is not None and found.where == finding.where:
                    content = smaller
                else:
                    at += size
            if size == 1 and len(content) == before:
                break
            size = max(1, size // 2)
    return replace(finding, content=content)
