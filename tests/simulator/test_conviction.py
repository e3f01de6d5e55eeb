"""How many seeds a conviction takes is measured as it says, and the page lists every variant."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any

import pytest

from nemesis.simulator.conviction import MISTAKES, Conviction, convict, document, page
from nemesis.simulator.corpus import RunRow, SeedResult
from nemesis.simulator.run import SimOptions
from nemesis.simulator.sweep import Lost, Workers
from nemesis.variants.catalogue import ALL, BUILT
from nemesis.variants.mutant import Equivalent

VARIANT = "ack-before-replication"


class Scripted(Workers):
    """Workers that know beforehand of what each seed convicts; all others are valid."""

    def __init__(self, script: dict[int, str | Lost]) -> None:
        super().__init__(1)
        self.seen: list[int] = []
        self.asked: list[SimOptions] = []
        self._script = script

    def in_order(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Generator[tuple[Any, Any], None, None]:
        """See ``Workers``."""
        assert isinstance(work, partial), work
        self.asked.append(work.args[0])
        for seed in items:
            self.seen.append(seed)
            found = self._script.get(seed)
            yield seed, found if isinstance(found, Lost) else SeedResult(row=row(seed, found), tables={})


def row(seed: int, violation: str | None) -> RunRow:
    """How a run of that seed ends."""
    verdict = "valid" if violation is None else "invalid"
    command = f"repeat {seed}"
    return RunRow(
        run_id="",
        seed=seed,
        world="quorum",
        variant=VARIANT,
        time_limit_s=1,
        verdict=verdict,
        violation=violation,
        rare={},
        command=command,
    )


def test_trials_are_the_seeds_between_convictions() -> None:
    """Seeds go from 1 on, each conviction begins a new count, and the first one is what the command repeats."""
    workers = Scripted({3: "liveness", 4: "one-vote", 9: "one-vote", 11: "liveness"})

    assert convict(VARIANT, workers, trials=3) == Conviction(
        variant=VARIANT, seeds=9, trials=(3, 1, 5), violations={"one-vote": 2, "liveness": 1}, command="repeat 3"
    )
    assert workers.seen == list(range(1, 10))


@pytest.mark.parametrize(
    ("script", "seeds", "trials"), [({}, 5, ()), ({5: "liveness"}, 10, (5,)), ({6: "liveness"}, 5, ())]
)
def test_a_variant_that_is_not_convicted_is_given_up(
    script: dict[int, str | Lost], seeds: int, trials: tuple[int, ...]
) -> None:
    """After so many seeds in a row without a conviction it is over, also when there was one before."""
    found = convict(VARIANT, Scripted(script), trials=2, seeds_max=5)

    assert (found.seeds, found.trials) == (seeds, trials)
    assert found.median == (5 if trials else None)


def test_an_error_of_the_harness_convicts_nobody() -> None:
    """A seed without a result is counted apart."""
    found = convict(VARIANT, Scripted({1: Lost(error="broken"), 2: "liveness"}), trials=1)

    assert (found.errors, found.trials, found.violations) == (1, (2,), {"liveness": 1})


@pytest.mark.parametrize("name", [VARIANT, "high-watermark-of-isr-majority"])
def test_a_variant_is_tried_in_its_own_kind_of_world(name: str) -> None:
    """Each seed is run in a world of the kind that the variant names."""
    workers = Scripted({1: "liveness"})
    convict(name, workers, trials=1)

    assert [options.world for options in workers.asked] == [BUILT[name].world]


@pytest.mark.slow
def test_how_many_work_makes_no_difference() -> None:
    """Two processes find what one finds, though they run ahead of each other."""
    found, names = [], (VARIANT, "inclusive-high-watermark-read")
    for jobs in (1, 2):
        with Workers(jobs) as workers:
            found.append([convict(name, workers, trials=2, time_limit_s=5) for name in names])

    assert found[0] == found[1]
    assert [(len(one.trials), one.errors) for one in found[0]] == [(2, 0), (2, 0)]


def test_the_page_lists_every_variant() -> None:
    """Built or not, measured or not, each has one row."""
    found = convict(VARIANT, Scripted({2: "one-vote", 9: "one-vote"}), trials=2)
    lost = convict("take-nothing-back", Scripted({}), seeds_max=4)
    told = page(document([found, lost], seeds_max=1000, time_limit_s=60))
    rows = [line for line in told.splitlines() if line.startswith("| ") and "`" in line]

    assert [row.split("|")[2].strip(" `") for row in rows] == [mutant.name for mutant in ALL]
    assert sum("not measured" in row for row in rows) == len(BUILT) - 2
    assert sum("not built, nothing would" in row for row in rows) == sum(isinstance(one, Equivalent) for one in ALL)
    assert len({row.replace("\\|", "").count("|") for row in rows}) == 1
    assert "| one-vote (2) | 2 | 4.5 | 7 | `repeat 2` |" in told
    assert "| **not convicted** in 4 seeds | 0 |" in told
    assert f"Convicted: 1 of {len(BUILT)}." in told


def test_the_page_names_a_built_variant_for_each_known_mistake() -> None:
    """Whoever looks for a mistake by its usual name finds the variant that makes it."""
    found = convict("snapshot-one-off", Scripted({1: "snapshot-id"}), trials=1)
    told = page(document([found], seeds_max=9, time_limit_s=60))

    assert {name for _, name in MISTAKES} <= set(BUILT)
    assert "| snapshot id off by one | snapshot-one-off | snapshot-id (1) | 1 |" in told
    assert told.partition("| mistake |")[2].count("| not measured |  |") == len(MISTAKES) - 1


def test_the_page_in_docs_is_of_these_variants(pytestconfig: pytest.Config) -> None:
    """The page that is kept lists the variants that there are now, in their order; ``make variants`` writes it anew."""
    kept = (pytestconfig.rootpath / "docs" / "variants.md").read_text(encoding="utf-8")
    rows = [line for line in kept.splitlines() if line.startswith("| ") and "`" in line]

    assert [row.split("|")[2].strip(" `") for row in rows] == [mutant.name for mutant in ALL]
    assert [row for row in rows if "not measured" in row] == []
