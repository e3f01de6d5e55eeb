"""How deep the tests look: ``pytest --depth`` says it, and here alone it is known what that means.

- ``quick``, after each edit: of every test that needs neither a JVM nor processes one case, over a tenth of the seeds.
- ``normal``, before a commit: all tests, over the same seeds each time: what is red was turned red by the change.
- ``nightly``: all tests, over forty times as many seeds, from one on that is another each night. It is printed, and
  ``make test-nightly SEED=N`` repeats the night.

How often a wrong protocol is convicted is counted over seeds of its own, that no depth changes: see ``convicted``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

import pytest
from hypothesis import settings

QUICK_SHARE = 10
NIGHTLY_TIMES = 40
EXAMPLES = 30
"""How many examples Hypothesis draws at normal depth."""


class Depth(StrEnum):
    """How deep; see above."""

    QUICK = "quick"
    NORMAL = "normal"
    NIGHTLY = "nightly"


class _Chosen:
    """What the command line says, known before any test is collected."""

    depth = Depth.NORMAL
    first_seed = 0


def choose(depth: Depth, first_seed: int) -> None:
    """Let all counts and seeds that follow be those of this depth, and Hypothesis draw as many examples."""
    _Chosen.depth, _Chosen.first_seed = depth, first_seed
    settings.register_profile(
        "depth",
        deadline=None,
        database=None,
        derandomize=not is_night(),
        print_blob=is_night(),
        max_examples=times(EXAMPLES),
    )
    settings.load_profile("depth")


def times(normal: int) -> int:
    """How many to try where it is so many at normal depth: a tenth, and at least one, or forty times as many."""
    match _Chosen.depth:
        case Depth.QUICK:
            return -(-normal // QUICK_SHARE)
        case Depth.NORMAL:
            return normal
        case Depth.NIGHTLY:
            return normal * NIGHTLY_TIMES


def seeds(normal: int) -> range:
    """So many seeds to try, from 0 on, or in the night from the one that is its own."""
    return range(_Chosen.first_seed, _Chosen.first_seed + times(normal))


def is_night() -> bool:
    """Whether this is the depth that has all the time it needs."""
    return _Chosen.depth is Depth.NIGHTLY


def at_night(why: str) -> pytest.MarkDecorator:
    """Leave a test or a case to the night, and say why: docs/architecture.md lists all of them."""
    return pytest.mark.skipif(not is_night(), reason=f"{why}: make test-nightly")


def convicted(is_convicted: Callable[[int], bool], *, first_seed: int, of: int, least: int) -> None:
    """Check that a wrong protocol is convicted by the seed that tells it, and in the night by so many of all of them.

    One seed that is known to tell is as good as a search for one, which would hide that others tell no more.
    """
    assert is_convicted(first_seed), f"seed {first_seed} does not convict it"
    if is_night():
        found = sum(is_convicted(seed) for seed in range(of))
        assert found >= least, f"{found} of {of} seeds convict it, which were at least {least}"


def chosen(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Divide tests into those of this depth and the others."""
    kept: dict[str, pytest.Item] = {}
    others: list[pytest.Item] = []
    for item in items:
        name, _, _ = item.nodeid.partition("[")
        if _Chosen.depth is Depth.QUICK:
            is_kept = name not in kept and not any(map(item.get_closest_marker, ("cluster", "spark", "slow")))
        else:
            is_kept, name = True, item.nodeid
        if is_kept:
            kept[name] = item
        else:
            others.append(item)
    return list(kept.values()), others
