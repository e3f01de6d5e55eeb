"""A sample of what ``python -m tests.fuzz`` does: every decoder takes or refuses what it is given, soon and cheaply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.depth import seeds, times
from tests.fuzz.catalogue import BOUNDED, DECODERS
from tests.fuzz.decoder import Decoder
from tests.fuzz.keeping import corpus
from tests.fuzz.running import Report, fuzz, replayed, warm_up
from tests.fuzz.watching import watched
from tests.records.compiled import needs_compiler

INPUTS = 200
KILLED_INPUTS = 1_000
LEAST = 10
"""However much one input takes, so many are tried."""
MANY = 100
(SEED,) = seeds(1)[:1]


def marked(decoder: Decoder) -> object:
    """A decoder as a case; one that takes long has the mark of that, one of native code that of its compiler."""
    is_slow = decoder.may_kill or decoder.cost >= 20
    marks = [pytest.mark.slow] * is_slow + [needs_compiler] * decoder.name.startswith("native")
    return pytest.param(decoder, id=decoder.name, marks=marks)


def told(report: Report, decoder: Decoder) -> Sequence[str]:
    """What was found, with the command that finds it again."""
    command = f"python -m tests.fuzz --decoder {decoder.name} --seed {SEED}"
    return [f"{cause}: {command}, input {one.number}" for one in report.examples for cause in [one.where]]


def check(report: Report, decoder: Decoder) -> None:
    """Hold that nothing was found, and that inputs were taken and refused, if there were enough of them."""
    assert told(report, decoder) == []
    if report.inputs >= MANY:
        assert report.accepted > 0, "nothing was taken"
        assert report.refused > 0 or not decoder.refusals, "nothing was refused"


@pytest.mark.parametrize(
    "decoder", [marked(each) for each in (*DECODERS.values(), *BOUNDED.values()) if not each.may_kill]
)
def test_what_is_nearly_right_is_taken_or_refused(decoder: Decoder, tmp_path: Path) -> None:
    """No input makes a decoder raise what is no refusal, take more memory than it may, or go on for ever."""
    warm_up(decoder, tmp_path)
    first = len(decoder.right())
    numbers = range(first, first + max(LEAST, times(INPUTS) // decoder.cost))
    check(fuzz(decoder, numbers, seed=SEED, folder=tmp_path), decoder)


@pytest.mark.parametrize("decoder", [marked(each) for each in DECODERS.values() if each.may_kill])
def test_no_input_ends_the_process(decoder: Decoder) -> None:
    """What native code reads does not end the process either, where it stands before memory that nobody may touch."""
    numbers = range(max(LEAST, times(KILLED_INPUTS) // decoder.cost))
    check(watched(decoder, seed=SEED, numbers=numbers), decoder)


@pytest.mark.parametrize("decoder", [marked(each) for each in DECODERS.values()])
def test_what_is_right_is_taken(decoder: Decoder, tmp_path: Path) -> None:
    """The inputs that all others are made of are ones that the project itself has written, and they are taken."""
    warm_up(decoder, tmp_path)
    right = range(len(decoder.right()))
    report = fuzz(decoder, right, seed=SEED, folder=tmp_path)
    assert (report.accepted, told(report, decoder)) == (len(right), [])


@pytest.mark.parametrize(("name", "path"), [pytest.param(*each, id=f"{each[0]}/{each[1].stem}") for each in corpus()])
def test_what_was_found_once_is_refused(name: str, path: Path, tmp_path: Path) -> None:
    """Each input that a decoder once crashed or hung on, or took all memory for, is taken or refused."""
    warm_up(DECODERS[name], tmp_path)
    assert replayed(DECODERS[name], path.read_bytes(), tmp_path) is None
