"""What a seed has drawn once it draws for ever: kinds of faults that come later change no schedule of those before."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import pytest

from nemesis.faults.catalogue import FAMILIES
from nemesis.schedules.drawn import flip_flop_schedule, random_schedule
from nemesis.schedules.schedule import Schedule

GOLDEN = Path(__file__).parent / "drawn"
"""For each family a file with the hashes of what its faults have drawn, by their words."""
SEEDS = 20
BESIDE = ("partition", "kill", "pause")
TOGETHER = ("partition", "kill", "pause", "rolling-restart", "membership", "reassign", "replace-disk", "memory-limit")
"""Those that have rules for what strikes when, and where a seed draws from first."""
WORDS = {
    family.__module__.rpartition(".")[2]: [fault.kind for fault in family.faults if fault.drawn_as is not None]
    for family in FAMILIES
}


def digest_of(draw: Callable[[int], Schedule]) -> str:
    """The hash of what so many seeds draw, whatever the order of fields in JSON is."""
    digest = sha256()
    for seed in range(SEEDS):
        digest.update(json.dumps(json.loads(draw(seed).to_json()), sort_keys=True).encode())
    return digest.hexdigest()


def drawn(word: str) -> dict[str, str]:
    """What a kind of fault draws in all ways of drawing."""
    return {
        "alone": digest_of(lambda seed: random_schedule(seed=seed, kinds=[word], time_limit_s=60)),
        "beside others": digest_of(lambda seed: random_schedule(seed=seed, kinds=[*BESIDE, word], time_limit_s=60)),
        "in turns": digest_of(lambda seed: flip_flop_schedule(seed=seed, kinds=[word, "kill"], time_limit_s=60)),
    }


def together(words: tuple[str, ...], seed: int) -> Schedule:
    """What a seed draws from these."""
    return random_schedule(seed=seed, kinds=words, time_limit_s=60)


@pytest.mark.parametrize("family", [*WORDS, "together"])
def test_a_family_draws_what_it_drew(family: str, pytestconfig: pytest.Config) -> None:
    """The golden file of each family holds the hashes of all that its faults draw; --rewrite writes it instead.

    So it is with each three kinds of those that strike into one another by rule.
    """
    found: dict[str, object] = {word: drawn(word) for word in WORDS.get(family, [])}
    if family == "together":
        found = {"+".join(words): digest_of(partial(together, words)) for words in combinations(TOGETHER, 3)}
    path = GOLDEN / f"{family}.json"
    now = json.dumps(found, indent=2) + "\n"
    if pytestconfig.getoption("--rewrite"):
        path.write_text(now)

    assert now == path.read_text(), "what seeds drew before they draw no more: if that is meant, run with --rewrite"
