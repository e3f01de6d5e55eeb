"""The mutants that cannot be run: of parts that are not built, or without an effect here.

Owns the table. Each entry moves to the built ones with the part it waits for.
"""

from __future__ import annotations

from nemesis.variants.mutant import Equivalent, Invariant, Part, Pending


def _pending(id: str, name: str, origin: str, breaks: Invariant, waits_for: Part, summary: str) -> Pending:
    return Pending(id=id, name=name, origin=origin, breaks=breaks, waits_for=waits_for, summary=summary)


PENDING: tuple[Pending, ...] = (
    _pending(
        "H13",
        "lease-without-a-clock-bound",
        "classic; the other half of P10",
        Invariant.LINEARIZABLE,
        Part.LEASES,
        "A leader answers reads by a lease that it takes to last as long by its clock as by everybody's.",
    ),
)

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
            "Recovery believes the stored epochs only after a clean stop, and only if they end with the epoch of the "
            "last record; otherwise it rebuilds them from the batches. What was stored too late is rebuilt."
        ),
    ),
)
