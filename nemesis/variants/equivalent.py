"""The mutants that cannot be run, since nobody could tell them from the right protocol here.

Owns the table.
"""

from __future__ import annotations

from nemesis.variants.mutant import Equivalent, Invariant

EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent(
        id="R7",
        name="diverging-below-log-start",
        origin="KAFKA-12996",
        breaks=Invariant.PROGRESS,
        summary="A follower below the log start is told that it diverged, not that it is out of range.",
        reason=(
            "Each time it is told so it drops its last epoch, or begins anew at the leader's log start where nothing "
            "else would be left; so it soon names an epoch that the leader has, and an offset out of range is refused "
            "for itself then."
        ),
    ),
    Equivalent(
        id="P16",
        name="lazy-epoch-checkpoint",
        origin="classic; a comment in Kafka's LeaderEpochFileCache",
        breaks=Invariant.LOG_MATCHING,
        summary="The epoch cache is not stored when an epoch begins.",
        reason=(
            "Above the recovery point recovery rebuilds the epochs from the batches, whatever was stored. Below it, a "
            "log of epochs that were not stored is taken for damaged and refused: no log comes to differ by it."
        ),
    ),
)
