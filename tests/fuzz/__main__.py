"""Fuzz the decoders: ``python -m tests.fuzz --inputs 1000000 --output store/fuzz.json`` (docs/fuzzing.md).

Each decoder is given as many inputs as are asked for, in a process of its own that is watched. Status 1 says that
something was found; its input is kept in the folder of the output, for ``tests/fuzz/corpus``.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from tests.fuzz.catalogue import DECODERS
from tests.fuzz.decoder import Decoder
from tests.fuzz.keeping import kept, shrunk
from tests.fuzz.running import Report
from tests.fuzz.watching import watched

INPUTS = 1_000_000
FINDINGS = "fuzz-findings"
"""The folder for what was found, beside the output."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="so many for each decoder")
    parser.add_argument("--decoder", action="append", metavar="NAME", help="this one, or all that begin like it")
    parser.add_argument("--seed", type=int, default=0, help="which inputs")
    parser.add_argument("--time-limit", type=float, metavar="S", help="for each decoder, in seconds")
    parser.add_argument("--workers", type=int, default=1, help="so many decoders side by side")
    parser.add_argument("--output", type=Path, help="write the counts, as JSON")
    parser.add_argument("--list", action="store_true", help="print the names of the decoders")
    return parser.parse_args()


def chosen(prefixes: Sequence[str] | None) -> list[Decoder]:
    """The decoders whose names begin with one of these; all without any."""
    return [each for name, each in DECODERS.items() if not prefixes or name.startswith(tuple(prefixes))]


def row_of(decoder: Decoder, report: Report, asked: int, took_s: float) -> dict[str, Any]:
    """What is written of one decoder."""
    return {
        "decoder": decoder.name,
        "asked": asked,
        "inputs": report.inputs,
        "accepted": report.accepted,
        "refused": report.refused,
        "traced": report.traced,
        "peak_bytes": report.peak_bytes,
        "took_s": round(took_s, 1),
        "found": dict(report.found),
    }


def main() -> int:
    """Fuzz, tell, and write what was counted."""
    asked = _arguments()
    decoders = chosen(asked.decoder)
    if asked.list or not decoders:
        sys.stdout.write("\n".join(DECODERS) + "\n")
        return 0 if asked.list else 2
    rows: dict[str, dict[str, Any]] = {}
    writing = Lock()
    about = {"seed": asked.seed, "python": platform.python_version(), "machine": platform.machine()}

    def write() -> None:
        if asked.output is None:
            return
        with writing:
            asked.output.parent.mkdir(parents=True, exist_ok=True)
            document = about | {"decoders": [rows[name] for name in DECODERS if name in rows]}
            asked.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def run(decoder: Decoder) -> tuple[Decoder, Report]:
        begun = time.monotonic()

        def told(so_far: Report) -> None:
            rows[decoder.name] = row_of(decoder, so_far, asked.inputs, time.monotonic() - begun)
            write()

        report = watched(decoder, seed=asked.seed, inputs=asked.inputs, time_s=asked.time_limit, told=told)
        told(report)
        row = rows[decoder.name]
        counts = f"{row['inputs']:>9,} inputs  {row['accepted']:>9,} taken  {row['refused']:>9,} refused"
        sys.stdout.write(f"{decoder.name:<36} {counts}  {row['took_s']:>8} s  {len(report.found)} findings\n")
        for cause, times in report.found.items():
            sys.stdout.write(f"    {times:>7,} times {cause}\n")
        sys.stdout.flush()
        return decoder, report

    with ThreadPoolExecutor(asked.workers) as threads:
        reports = list(threads.map(run, decoders))
    for decoder, report in reports if asked.output is not None else ():
        for finding in report.examples:
            kept(asked.output.parent / FINDINGS, decoder, shrunk(decoder, finding))
    return int(any(row["found"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
