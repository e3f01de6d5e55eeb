"""The switchboard names every mutant, and those that can be run are wrong in what they say, and not by accident."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from nemesis.checks import BY_NAME
from nemesis.schedules.directed import DIRECTED
from nemesis.variants.catalogue import ALL, BUILT, DIRECTED_VARIANTS
from nemesis.variants.mutant import DirectedVariant, Equivalent, Variant
from nemesis.variants.worlds import WorldKind
from replica.cli.start import start_command
from replica.core.rules import Rules
from tests.core.controller.decisions import CONTROLLER_TABLES
from tests.core.decisions import TABLES, decide
from tests.core.group.decisions import GROUP_TABLES
from tests.core.partition.decisions import PARTITION_TABLES

ALL_TABLES = {**TABLES, **PARTITION_TABLES, **CONTROLLER_TABLES, **GROUP_TABLES}
PUBLISHED = [
    f"{series}{number}" for series, count in (("M", 5), ("R", 22), ("P", 20)) for number in range(1, count + 1)
]


def test_every_published_mutant_is_listed_once() -> None:
    """The 47 published mutants come first and in their order, then our own, numbered without a hole."""
    own = [f"H{number}" for number in range(1, len(ALL) - len(PUBLISHED) + 1)]

    assert [mutant.id for mutant in ALL] == PUBLISHED + own


def test_names_are_unique_and_in_kebab_case() -> None:
    """Whatever its state, a mutant is told from all others by its name."""
    names = [mutant.name for mutant in ALL]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_every_mutant_says_what_is_wrong(mutant: Variant | Equivalent) -> None:
    """Each has its one sentence, and its origin."""
    assert re.fullmatch(r"[A-Z][^\n]*\.", mutant.summary)
    assert mutant.origin


def test_what_can_be_run_is_what_is_built() -> None:
    """``--variant`` takes exactly the variants of the list, and the directed ones are some of them."""
    assert {mutant.name: mutant for mutant in ALL if isinstance(mutant, Variant)} == dict(BUILT)
    assert DIRECTED_VARIANTS.items() <= BUILT.items()


@pytest.mark.parametrize("variant", BUILT.values(), ids=BUILT)
def test_a_variant_overrides_rules_and_nothing_else(variant: Variant) -> None:
    """Whatever a variant's class has beside rules says only by which rules quorum logs go."""
    wrong = [part for part in variant.rules.__mro__ if issubclass(part, Rules) and part is not Rules]
    names = {name for part in wrong for name in vars(part) if not name.startswith("__")}

    assert variant.overrides
    assert names - {"of_quorum_logs"} == set(variant.overrides)


@pytest.mark.parametrize("variant", BUILT.values(), ids=BUILT)
def test_a_variant_that_overrides_several_rules_says_why(variant: Variant) -> None:
    """One wrong decision is a summary; more than one need a word more."""
    documentation = (variant.rules.__doc__ or "").strip()

    assert len(variant.overrides) == 1 or "\n\n" in documentation


@pytest.mark.parametrize("variant", BUILT.values(), ids=BUILT)
def test_a_variant_of_partitions_leaves_the_metadata_log_right(variant: Variant) -> None:
    """In a cluster it is the partitions that are wrong; otherwise the broken quorum would be convicted."""
    assert (type(variant.rules().of_quorum_logs) is Rules) is (variant.world is WorldKind.CLUSTER)


@pytest.mark.parametrize("variant", BUILT.values(), ids=BUILT)
def test_a_variant_decides_otherwise(variant: Variant) -> None:
    """Of each rule that it overrides, at least one question is answered otherwise than by the right rules."""
    for rule in variant.overrides:
        assert any(decide(variant.rules(), rule, row) != row.expected for row in ALL_TABLES[rule]), rule


@pytest.mark.parametrize("variant", DIRECTED_VARIANTS.values(), ids=DIRECTED_VARIANTS)
def test_a_directed_variant_has_a_schedule_and_an_anomaly(variant: DirectedVariant) -> None:
    """Its schedule is one that ``--schedule`` knows, and its anomaly one that the checks can find."""
    assert variant.convicted_of
    assert all(name in BY_NAME for name in variant.convicted_of)
    assert DIRECTED[variant.schedule.name] is variant.schedule


@pytest.mark.slow
def test_replica_start_knows_no_variant() -> None:
    """No option of ``replica start`` names a variant, and its process imports nothing of this package.

    Nor does it look for garbage, of which there is none, more than a few times while it imports.
    """
    names = {option for parameter in start_command().params for option in parameter.opts}
    found = "[module for module in sys.modules if module.startswith('nemesis')]"
    looked = "gc.get_stats()[0]['collections'] - before"
    program = (
        "import gc, sys; before = gc.get_stats()[0]['collections']; import replica.cli.__main__, replica.server.main"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print({found}, {looked})"], capture_output=True, text=True, check=True
    )
    modules, _, collections = done.stdout.strip().rpartition(" ")

    assert not {name for name in names if "variant" in name or "rule" in name}
    assert modules == "[]"
    assert int(collections) < 10


def test_an_unknown_variant_is_refused() -> None:
    """The variants' own entry point names those that there are."""
    done = subprocess.run(
        [sys.executable, "-m", "nemesis.variants.server", "--variant", "perfect", "--data-dir", "x"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert all(name in done.stderr for name in BUILT)
