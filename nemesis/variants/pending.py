"""The published mutants that cannot be run: of parts that are not built, or without an effect here.

Owns the table. Each entry moves to the built ones with the part it waits for.
"""

from __future__ import annotations

from nemesis.variants.mutant import Equivalent, Invariant, Part, Pending


def _pending(id: str, name: str, origin: str, breaks: Invariant, waits_for: Part, summary: str) -> Pending:
    return Pending(id=id, name=name, origin=origin, breaks=breaks, waits_for=waits_for, summary=summary)


PENDING: tuple[Pending, ...] = (
    _pending(
        "R21",
        "leads-before-applying",
        "KAFKA-17333, KAFKA-15345",
        Invariant.APPLIED_IS_COMMITTED,
        Part.STATE_MACHINES,
        "A state machine is told that it leads before it has applied its epoch's start, or after the resignation.",
    ),
    _pending(
        "R22",
        "snapshot-one-off",
        "KAFKA-14618",
        Invariant.SNAPSHOT_AT_LOG_START,
        Part.SNAPSHOTS,
        "A snapshot's end offset is its last offset.",
    ),
    _pending(
        "P10",
        "read-index-of-an-old-fetch",
        "classic",
        Invariant.LINEARIZABLE,
        Part.STATE_MACHINES,
        "A linearizable read is confirmed by a fetch that was sent before the read, or by a lease without a clock.",
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
