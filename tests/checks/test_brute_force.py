"""The checks and a brute-force judge agree on random runs, clean and with lies."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.checks.brute_force import brute_force, identity
from tests.checks.histories import judge
from tests.checks.simulation import simulate
from tests.depth import seeds

BLOCKS = 4
SEEDS_PER_BLOCK = 30


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("lies", [1, 2, 4])
def test_agrees_with_brute_force(block: int, lies: int) -> None:
    """Kind, severity and place of everything found are those that loops over the definitions find."""
    for seed in seeds(BLOCKS * SEEDS_PER_BLOCK)[block::BLOCKS]:
        run = simulate(seed, lies)
        rows = judge(run.operations, run.logs, run.events, gapless=run.gapless)
        assert {identity(row) for row in rows} == brute_force(run), f"simulate({seed}, {lies})"


def test_clean_runs_are_never_convicted() -> None:
    """A run without lies shows no violation."""
    for seed in seeds(75):
        run = simulate(seed, 0)
        rows = judge(run.operations, run.logs, run.events, gapless=run.gapless)
        assert [row for row in rows if row["severity"] == "violation"] == [], f"simulate({seed}, 0)"


@pytest.mark.slow
def test_lies_show_every_anomaly() -> None:
    """The random runs are not blind: each kind that they can show is shown several times."""
    shown: Counter[str] = Counter()
    for seed in range(250):
        run = simulate(seed, 3)
        shown.update({identity(row)[0] for row in judge(run.operations, run.logs, run.events, gapless=run.gapless)})
    expected = {
        "lost-write",
        "duplicate",
        "inconsistent-offsets",
        "phantom-read",
        "aborted-read",
        "uncommitted-read",
        "nonmonotonic-poll",
        "poll-skip",
        "int-nonmonotonic-poll",
        "int-poll-skip",
        "nonmonotonic-send",
        "realtime-reorder",
        "stale-read",
        "hole",
        "unseen",
        "diverged-log",
        "epoch-regression",
    }
    assert {name for name in expected if shown[name] >= 3} == expected
