"""Fuzz the decoders: ``python -m tests.fuzz --inputs 1000000 --output store/fuzz.json`` (docs/fuzzing.md).

Each decoder is given as many inputs as are asked for, in a process of its own that is watched; the cheap ones come
first. What was counted is in the output, and another run with the same seed goes on from there. Status 1 says that
something was found; its input is kept in the folder of the output, for ``tests/fuzz/corpus``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from nemesis.history.whole_files import write_whole
from nemesis.runner import versions
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
    parser.add_argument("--output", type=Path, help="write the counts, as JSON, and go on from those that are there")
    parser.add_argument("--afresh", action="store_true", help="begin again, also with what has all its inputs")
    parser.add_argument("--list", action="store_true", help="print the names of the decoders")
    return parser.parse_args()


def chosen(prefixes: Sequence[str] | None) -> list[Decoder]:
    """The decoders whose names begin with one of these, the cheap ones first; all without any."""
    found = [each for name, each in DECODERS.items() if not prefixes or name.startswith(tuple(prefixes))]
    return sorted(found, key=lambda decoder: decoder.cost)


Row = dict[str, Any]


def new_row(decoder: Decoder, seed: int) -> Row:
    """What is written of a decoder of which no input has been run."""
    return {"decoder": decoder.name, "seed": seed, "commits": [], "done": 0, "took_s": 0.0} | counts_of(Report())


def counts_of(report: Report) -> Row:
    """What was counted."""
    return {
        "inputs": report.inputs,
        "accepted": report.accepted,
        "refused": report.refused,
        "traced": report.traced,
        "peak_bytes": report.peak_bytes,
        "found": dict(report.found),
    }


def report_of(row: Row) -> Report:
    """What ``counts_of`` was given, without the inputs that were found."""
    plain = {name: row[name] for name in ("accepted", "refused", "traced", "peak_bytes")}
    return Report(**plain, found=Counter(row["found"]))


def read_rows(output: Path | None) -> dict[str, Row]:
    """What earlier runs have written of each decoder; ``done`` are the numbers up to the one to go on from."""
    if output is None or not output.exists():
        return {}
    return {row["decoder"]: row for row in json.loads(output.read_text(encoding="utf-8"))["decoders"]}


def main() -> int:
    """Fuzz, tell, and write what was counted."""
    asked = _arguments()
    decoders = chosen(asked.decoder)
    if asked.list or not decoders:
        sys.stdout.write("\n".join(DECODERS) + "\n")
        return 0 if asked.list else 2
    rows = read_rows(asked.output)
    writing = Lock()
    about = versions()

    def write() -> None:
        if asked.output is None:
            return
        with writing:
            asked.output.parent.mkdir(parents=True, exist_ok=True)
            document = {"versions": about, "decoders": [rows[name] for name in DECODERS if name in rows]}
            write_whole(asked.output.parent, asked.output.name, json.dumps(document, indent=1) + "\n")

    def run(decoder: Decoder) -> None:
        before = rows.get(decoder.name)
        if before is None or asked.afresh or before["seed"] != asked.seed:
            before = new_row(decoder, asked.seed)
        commits = [*dict.fromkeys((*before["commits"], about.get("commit", "unknown")))]
        begun = time.monotonic()

        def told(report: Report, done: int) -> None:
            took_s = round(before["took_s"] + time.monotonic() - begun, 1)
            rows[decoder.name] = before | counts_of(report) | {"commits": commits, "done": done, "took_s": took_s}
            write()
            for finding in report.examples if asked.output is not None else ():
                kept(asked.output.parent / FINDINGS, decoder, finding)

        if before["done"] < asked.inputs:
            report = report_of(before)
            numbers = range(before["done"], asked.inputs)
            watched(decoder, seed=asked.seed, numbers=numbers, time_s=asked.time_limit, report=report, told=told)
            for finding in report.examples if asked.output is not None else ():
                kept(asked.output.parent / FINDINGS, decoder, shrunk(decoder, finding))
        row = rows[decoder.name]
        counts = f"{row['inputs']:>9,} inputs  {row['accepted']:>9,} taken  {row['refused']:>9,} refused"
        sys.stdout.write(f"{decoder.name:<36} {counts}  {row['took_s']:>8} s  {len(row['found'])} findings\n")
        for cause, times in row["found"].items():
            sys.stdout.write(f"    {times:>7,} times {cause}\n")
        sys.stdout.flush()

    with ThreadPoolExecutor(asked.workers) as threads:
        list(threads.map(run, decoders))
    return int(any(rows[decoder.name]["found"] for decoder in decoders))


if __name__ == "__main__":
    sys.exit(main())
