"""The mutants that cannot be run, since nobody could tell them from the right protocol here.

Owns the table.
"""

from __future__ import annotations

from nemesis.variants.mutant import Equivalent, Invariant

EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent(
        id="M5",
        name="unfenced-truncation",
        origin="KIP-320; hachikuji/kafka-specification",
        breaks=Invariant.STRONG_ISR,
        summary=(
            "All is fenced but the truncation of a new follower, which takes the word of a leader of another epoch."
        ),
        reason=(
            "A follower asks nobody where an epoch ends before it fetches. It is told so in the answer to its fetch, "
            "which is fenced as a whole or, as in M4, not at all."
        ),
    ),
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
)
