"""The same decoders led by coverage: ``python -m tests.fuzz.guided --decoder NAME --inputs 1000000``.

libFuzzer, by way of atheris, keeps the inputs that reach what none before has reached, and changes those: by its own
changes and by those of ``mutations``, and what has a checksum is sealed again. atheris is not among what is installed
for the tests: ``pip install atheris``. What is found is told and kept, and the search goes on.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import NoReturn

import atheris

with atheris.instrument_imports(include=["replica", "nemesis"]):
    from tests.fuzz.catalogue import DECODERS
    from tests.fuzz.decoder import Decoder
    from tests.fuzz.keeping import kept
    from tests.fuzz.mutations import BYTES_MAX, Material, changed
    from tests.fuzz.running import Report, timed, tried, warm_up

INPUT_BYTES_MAX = 1 << 16


def guided(decoder: Decoder, inputs: int, seed: int, found: Path) -> None:
    """Run so many inputs, tell, and end the process, which libFuzzer does not give back; findings go to ``found``."""
    report, material = Report(), Material(decoder.right(), decoder.words)
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as right, timed():
        warm_up(decoder, Path(scratch))
        for number, content in enumerate(material.right):
            (Path(right) / f"{number}").write_bytes(content)

        def run(content: bytes) -> None:
            finding = tried(decoder, report.inputs, content, Path(scratch), report, is_traced=False)
            if finding is not None:
                if f"{finding.kind}: {finding.where}" not in report.found:
                    sys.stdout.write(f"{finding.kind}: {finding.where}: {kept(found, decoder, finding)}\n")
                report.note(finding)
            if report.inputs >= inputs:
                _end(decoder, report)

        def mutate(content: bytes, size_max: int, number: int) -> bytes:
            dice = Random(number)
            own = bytearray(content if dice.random() < 0.5 else atheris.Mutate(content, size_max))
            made = changed(own, material, dice)
            if decoder.reseal is not None and dice.random() < 0.9:
                decoder.reseal(made, dice)
            return bytes(made[: min(size_max, BYTES_MAX)])

        words = (sys.argv[0], f"-seed={seed + 1}", f"-max_len={INPUT_BYTES_MAX}", right)
        atheris.Setup([*words], run, custom_mutator=mutate)
        atheris.Fuzz()


def _end(decoder: Decoder, report: Report) -> NoReturn:
    counts = f"{report.inputs:,} inputs, {report.accepted:,} taken, {report.refused:,} refused"
    sys.stdout.write(f"{decoder.name}: {counts}, {len(report.found)} findings\n")
    sys.stdout.flush()
    os._exit(int(bool(report.found)))


def main() -> None:
    """Fuzz one decoder."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("--decoder", required=True, choices=DECODERS, metavar="NAME")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("store/fuzz-findings"), help="where findings are kept")
    asked = parser.parse_args()
    guided(DECODERS[asked.decoder], asked.inputs, asked.seed, asked.found)


if __name__ == "__main__":
    main()
