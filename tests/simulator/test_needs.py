"""What wrong protocols need of a world leaves the right one in the right."""

from __future__ import annotations

from random import Random

import pytest

from nemesis.simulator.climate import Climate
from nemesis.simulator.needs import with_needs
from nemesis.simulator.run import SimOptions, resolved, simulate
from nemesis.simulator.seeds import DRAWN
from nemesis.variants.catalogue import BUILT
from nemesis.variants.mutant import Need, Variant
from nemesis.verdict import Verdict

SEED = 3
"""One whose worlds have neither slow lanes nor evidence of ends by themselves: these are drawn beside the climate."""
NEEDY = {variant.name: variant for variant in BUILT.values() if variant.needs}


def drawn(variant: Variant) -> Climate:
    """The climate of the seed, with what the variant needs."""
    return with_needs(DRAWN[variant.world](Random(f"{SEED} climate")), variant.needs)


def test_somebody_needs_each_need() -> None:
    """None is kept for nobody."""
    assert {need for variant in NEEDY.values() for need in variant.needs} == set(Need)


@pytest.mark.parametrize("variant", NEEDY.values(), ids=NEEDY)
def test_a_variant_is_tried_in_a_world_that_has_what_it_needs(variant: Variant) -> None:
    """The climate of its run is the seed's with that changed."""
    run = resolved(SimOptions(seed=SEED, world=variant.world, variant=variant.name))

    assert run.climate == drawn(variant)
    assert run.climate != resolved(SimOptions(seed=SEED, world=variant.world)).climate


@pytest.mark.parametrize("needs", sorted({variant.needs for variant in NEEDY.values()}), ids="+".join)
def test_the_right_protocol_is_not_convicted_there(needs: tuple[Need, ...]) -> None:
    """Whatever the world is like, it breaks no promise."""
    variant = next(variant for variant in NEEDY.values() if variant.needs == needs)
    options = SimOptions(seed=SEED, world=variant.world, climate=drawn(variant), time_limit_s=20)

    assert simulate(options).outcome.verdict is not Verdict.INVALID
