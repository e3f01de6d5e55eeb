"""The fuzzer finds what it is for: errors that are no refusals, inputs without an end, claims, and dead processes."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.decoder import Decoder, of_bytes
from tests.fuzz.keeping import kept, shrunk
from tests.fuzz.mutations import ANYWHERE, BYTES_MAX, IN_TEXT, Material, drawn
from tests.fuzz.running import Finding, Kind, Report, fuzz, inputs_of, replayed
from tests.fuzz.watching import watched
from tests.fuzz.worker import report_from_json, report_to_json

RIGHT = b"\x00\x00\x00\x03abc"


def honest(content: bytes) -> bytes:
    """Bytes behind their length."""
    (size,) = struct.unpack_from(">I", content.ljust(4, b"\xff"))
    if size != len(content) - 4:
        raise ValueError(size)
    return content[4:]


def crashing(content: bytes) -> bytes:
    """Believes that there is a length."""
    (size,) = struct.unpack_from(">I", content)
    return content[4 : 4 + size]


def claiming(content: bytes) -> bytes:
    """Believes the length, as far as 64 MiB."""
    (size,) = struct.unpack_from(">I", content.ljust(4, b"\0"))
    bytearray(min(size, 64 << 20))
    return honest(content)


def hanging(content: bytes) -> bytes:
    """Goes back and forth where the length is 0."""
    while content[:4] == bytes(4):
        pass
    return honest(content)


def decoder(function: Callable[[bytes], object], **fields: object) -> Decoder:
    """A decoder of bytes behind their length."""
    given: dict[str, object] = {"name": "test", "right": lambda: [RIGHT], "refusals": (ValueError,)}
    return Decoder(decode=of_bytes(function), **{**given, **fields})  # type: ignore[arg-type] # fields of any kind


def found(function: Callable[[bytes], object], tmp_path: Path, inputs: int = 3_000) -> Report:
    """What the fuzzer makes of it."""
    return fuzz(decoder(function), range(inputs), seed=1, folder=tmp_path)


def test_an_honest_decoder_passes(tmp_path: Path) -> None:
    """Where nothing is wrong nothing is found, and every input is counted once."""
    report = found(honest, tmp_path)
    assert (report.inputs, report.found.total()) == (3_000, 0)
    assert min(report.accepted, report.refused, report.traced) > 0


def test_an_error_that_is_no_refusal_is_found(tmp_path: Path) -> None:
    """It is told by its kind and place, with an input that raises it again, and made small."""
    report = found(crashing, tmp_path)
    assert list(report.found) == ["crash: error in fuzz/test_engine.py:crashing"]
    smaller = shrunk(decoder(crashing), report.examples[0])
    assert smaller.content == b""
    again = replayed(decoder(crashing), smaller.content, tmp_path)
    assert again is not None
    assert again.where == smaller.where
    assert kept(tmp_path, decoder(crashing), smaller).read_bytes() == smaller.content


def test_a_claim_that_is_believed_is_found(tmp_path: Path) -> None:
    """A length field of four bytes does not make a decoder take megabytes."""
    report = found(claiming, tmp_path, inputs=300)
    assert list(report.found) == ["memory: more than test may take"]


def test_an_input_without_an_end_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended by the time that it takes of the processor."""
    monkeypatch.setattr("tests.fuzz.running.CPU_S_MAX", 0.05)
    finding = replayed(decoder(hanging), bytes(9), tmp_path)
    assert finding is not None
    assert finding.kind is Kind.HANG
    assert replayed(decoder(hanging), RIGHT, tmp_path) is None


def test_the_same_seed_makes_the_same_inputs() -> None:
    """An input depends on the decoder, the seed and its number alone; the first are those that are right."""
    whole = list(inputs_of(decoder(honest), 5, range(200)))
    assert whole[0] == (0, RIGHT)
    assert list(inputs_of(decoder(honest), 5, range(150, 200))) == whole[150:]
    assert list(inputs_of(decoder(honest), 6, range(200))) != whole


def test_checksums_are_made_to_fit() -> None:
    """What a decoder would refuse at its seal is sealed again, mostly."""

    def seal(content: bytearray, dice: Random) -> None:
        content[:] = b"sealed"

    inputs = [content for _, content in inputs_of(decoder(honest, reseal=seal), 5, range(1, 300))]
    assert 0.8 < inputs.count(b"sealed") / len(inputs) < 1


@pytest.mark.parametrize("change", dict.fromkeys((*ANYWHERE, *IN_TEXT)), ids=lambda change: change.__name__)
def test_every_change_changes_something(change: Callable[[bytearray, Random, Material], None]) -> None:
    """None fails on bytes of any length, and each makes others of most."""
    material = Material([json.dumps({"a": [1, 22, "x"]}).encode() + b"\nsecond\n"], (b"word",))
    changed = 0
    for seed in range(100):
        content = bytearray(material.right[0] if seed % 2 else bytes(1 + seed % 3))
        before = bytes(content)
        change(content, Random(seed), material)
        changed += bytes(content) != before
    assert changed > 30


@pytest.mark.parametrize("words", [(), (b"word",)])
def test_inputs_stay_small(words: tuple[bytes, ...]) -> None:
    """However often pieces are repeated and nested."""
    material = Material([b"[1, 2]" * 50], words)
    assert max(len(drawn(material, Random(seed))) for seed in range(2_000)) <= 2 * BYTES_MAX


def test_a_report_survives_its_json() -> None:
    """What a process tells of its slice arrives as it was, and adds up."""
    report = Report(accepted=3, refused=4, traced=1, peak_bytes=9)
    report.note(Finding(kind=Kind.CRASH, where="here", number=7, content=b"\xff\x00"))
    again = report_from_json(json.loads(json.dumps(report_to_json(report))))
    assert again == report
    again.add(report)
    assert (again.inputs, again.found.total(), len(again.examples)) == (16, 2, 2)


def ending(content: bytes) -> bytes:
    """Ends the process where a length is 0, as native code can."""
    if content[:4] == bytes(4):
        os.abort()
    return honest(content)


DECODERS = {"test": decoder(ending, may_kill=True)}


@pytest.mark.slow
def test_a_process_that_ends_is_found() -> None:
    """Another one goes on behind the input that has ended it; each input but those is counted once."""
    report = watched(DECODERS["test"], seed=1, numbers=range(200), catalogue="tests.fuzz.test_engine")
    assert report.inputs == 200
    assert list(report.found) == ["died: test: status -6"]
    assert all(one.content[:4] == bytes(4) for one in report.examples)


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each input is counted once, however often a run was stopped; what has all of its own is not run again."""
    output = tmp_path / "fuzz.json"

    def row_after(*words: str) -> dict[str, object]:
        monkeypatch.setattr("sys.argv", ["fuzz", "--decoder", "quorum-state", "--output", str(output), *words])
        assert main() == 0
        (row,) = json.loads(output.read_text())["decoders"]
        return {name: row[name] for name in ("seed", "done", "inputs", "accepted", "refused", "traced")}

    begun = row_after("--inputs", "100")
    assert (begun["done"], begun["inputs"]) == (100, 100)
    gone_on = row_after("--inputs", "300")
    assert (gone_on["done"], gone_on["inputs"]) == (300, 300)
    assert row_after("--inputs", "100") == gone_on
    assert row_after("--inputs", "300", "--afresh") == gone_on
