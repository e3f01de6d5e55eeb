"""The switchboard: every mutant there is, those that can be run, and those that a live cluster can be directed into.

Owns the names that ``--variant`` takes, and their order. Light to import: the command line lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nemesis.variants.built_on_clusters import BUILT_ON_CLUSTERS
from nemesis.variants.built_on_groups import BUILT_ON_GROUPS
from nemesis.variants.built_on_quorum_logs import BUILT_ON_QUORUM_LOGS
from nemesis.variants.built_on_voters import BUILT_ON_VOTERS
from nemesis.variants.equivalent import EQUIVALENT
from nemesis.variants.mutant import DirectedVariant, Equivalent, Variant

_SERIES = "MRPH"


def _place(mutant: Variant | Equivalent) -> tuple[int, int]:
    return _SERIES.index(mutant.id[0]), int(mutant.id[1:])


BUILT_MUTANTS: tuple[Variant, ...] = (*BUILT_ON_QUORUM_LOGS, *BUILT_ON_CLUSTERS, *BUILT_ON_GROUPS, *BUILT_ON_VOTERS)

ALL: tuple[Variant | Equivalent, ...] = tuple(sorted((*BUILT_MUTANTS, *EQUIVALENT), key=_place))
"""Every mutant once: M1 to M5, R1 to R22, P1 to P20, then our own."""

BUILT: Mapping[str, Variant] = MappingProxyType({variant.name: variant for variant in BUILT_MUTANTS})
"""Those that can be run, by name."""

DIRECTED_VARIANTS: Mapping[str, DirectedVariant] = MappingProxyType(
    {variant.name: variant for variant in BUILT_MUTANTS if isinstance(variant, DirectedVariant)}
)
"""Those with a schedule for a live cluster, by name."""
