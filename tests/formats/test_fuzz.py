"""Files that were right until something happened to them: each is refused or judged, and nothing else happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from nemesis.formats.errors import HistoryError
from nemesis.formats.reading import read_history_file
from nemesis.formats.recognise import Format
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.model import Model, ModelError
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.models.text_store import TextStore
from nemesis.verdict import Verdict
from tests.depth import seeds
from tests.formats.histories import ALL_SAMPLES, Sample, parquet, written
from tests.formats.test_readers import ROWS

ROUNDS = 150
BUDGET = Budget(configurations=10_000, frontier=1_000)
PIECES = (b"nil", b":ok", b":fail", b'"', b"[", b"]", b"{", b"}", b"-", b"9" * 30, b"NaN", b"null", b"\\u0000", b"#")


def flip_a_bit(content: bytearray, dice: Random) -> None:
    """One bit is the other."""
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)


def cut(content: bytearray, dice: Random) -> None:
    """The end is missing."""
    del content[dice.randrange(len(content)) :]


def lose(content: bytearray, dice: Random) -> None:
    """Some bytes are missing."""
    start = dice.randrange(len(content))
    del content[start : start + dice.randrange(1, 20)]


def insert(content: bytearray, dice: Random) -> None:
    """Something stands where it does not belong."""
    place = dice.randrange(len(content))
    content[place:place] = dice.choice(PIECES)


def _on_lines(change: Callable[[list[bytes], Random], None]) -> Callable[[bytearray, Random], None]:
    def changed(content: bytearray, dice: Random) -> None:
        lines = bytes(content).splitlines(keepends=True)
        change(lines, dice)
        content[:] = b"".join(lines)

    return changed


def _drop(lines: list[bytes], dice: Random) -> None:
    del lines[dice.randrange(len(lines))]


def _repeat(lines: list[bytes], dice: Random) -> None:
    lines.insert(dice.randrange(len(lines)), dice.choice(lines))


def _swap(lines: list[bytes], dice: Random) -> None:
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


DAMAGES = (flip_a_bit, cut, lose, insert, _on_lines(_drop), _on_lines(_repeat), _on_lines(_swap))


def verdict_of(path: Path, known: Format | None, model: Model) -> str:
    """What becomes of a file: its verdict, or that it was refused."""
    try:
        judgements = judge(read_history_file(path, format=known).operations(), model, BUDGET)
    except (HistoryError, ModelError):
        return "refused"
    assert all(isinstance(judgement.verdict, Verdict) for judgement in judgements)
    return "judged"


def model_of(sample: Sample) -> Model:
    """The model that a sample is of."""
    if sample.format is Format.PORCUPINE_KV:
        return TextStore()
    return load_model(sample.model, **({"failed_cas_is_read": True} if sample.failed_cas_is_read else {}))


@pytest.mark.parametrize("sample", ALL_SAMPLES, ids=lambda sample: sample.name)
@pytest.mark.parametrize("is_known", [True, False])
def test_damage_is_refused_or_judged(sample: Sample, is_known: bool, tmp_path: Path) -> None:
    """A sample with one to four damages ends in the one error or in a verdict, and both happen."""
    model, whole = model_of(sample), sample.path.read_bytes()
    ends = []
    for seed in seeds(ROUNDS):
        dice, content = Random(seed), bytearray(whole)
        for _ in range(dice.randrange(1, 5)):
            if content:
                dice.choice(DAMAGES)(content, dice)
        path = written(tmp_path, bytes(content), f"{sample.name}-{seed}")
        ends.append(verdict_of(path, sample.format if is_known else None, model))

    assert set(ends) == {"refused", "judged"}


def test_damaged_parquet_is_refused_or_judged(tmp_path: Path) -> None:
    """The same for the format that is not ours to parse."""
    whole = parquet(tmp_path, ROWS).read_bytes()
    ends = []
    for seed in seeds(ROUNDS):
        dice, content = Random(seed), bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            dice.choice((flip_a_bit, flip_a_bit, cut, lose))(content, dice)
            content = content or bytearray(b"P")
        ends.append(verdict_of(written(tmp_path, bytes(content)), Format.PARQUET, load_model("cas-register")))

    assert set(ends) == {"refused", "judged"}


@pytest.mark.parametrize("known", Format)
def test_noise_is_refused_or_judged(known: Format, tmp_path: Path) -> None:
    """Bytes without any sense are no history of any format."""
    for seed in seeds(ROUNDS):
        dice = Random(seed)
        noise = dice.randbytes(dice.randrange(200)) if seed % 2 else b" ".join(dice.choices(PIECES, k=20))
        assert verdict_of(written(tmp_path, noise), known, load_model("register")) == "refused"
