"""The published mutants that cannot be run: of parts that are not built, or without an effect here.

Owns the table. Each entry moves to the built ones with the part it waits for.
"""

from __future__ import annotations

from nemesis.variants.mutant import Equivalent, Invariant, Part, Pending


def _pending(id: str, name: str, origin: str, breaks: Invariant, waits_for: Part, summary: str) -> Pending:
    return Pending(id=id, name=name, origin=origin, breaks=breaks, waits_for=waits_for, summary=summary)


_SPECIFICATION = "hachikuji/kafka-specification"

PENDING: tuple[Pending, ...] = (
    _pending(
        "M2",
        "offset-without-epoch",
        f"KIP-101; {_SPECIFICATION}",
        Invariant.STRONG_ISR,
        Part.ISR_PARTITIONS,
        "A leader that answers where an epoch ends with an offset alone, and followers that cut there.",
    ),
    _pending(
        "M3",
        "exact-truncation-without-fencing",
        f"KIP-279; {_SPECIFICATION}",
        Invariant.STRONG_ISR,
        Part.ISR_PARTITIONS,
        "A follower that cuts at the right place by the word of any leader, be it of another epoch.",
    ),
    _pending(
        "M4",
        "unfenced-fetch",
        f"the first try at KIP-320; {_SPECIFICATION}",
        Invariant.STRONG_ISR,
        Part.ISR_PARTITIONS,
        "A leader that counts a fetch from another epoch, which on a quorum log commits nothing: an offset from an "
        "earlier epoch never lies beyond the start of the leader's own.",
    ),
    _pending(
        "M5",
        "unfenced-truncation",
        f"KIP-320; {_SPECIFICATION}",
        Invariant.STRONG_ISR,
        Part.ISR_PARTITIONS,
        "All is fenced but the truncation of a new follower.",
    ),
    _pending(
        "R1",
        "expand-below-epoch-start",
        "KAFKA-7128",
        Invariant.LEADER_CANDIDATE_COMPLETENESS,
        Part.ISR_PARTITIONS,
        "A follower joins the ISR at the high watermark, though it has not reached the start of the leader's epoch.",
    ),
    _pending(
        "R2",
        "epoch-assigned-at-first-append",
        "KAFKA-7415",
        Invariant.LOG_MATCHING,
        Part.ISR_PARTITIONS,
        "A new leader's epoch is in its cache only once something is written in it.",
    ),
    _pending(
        "R3",
        "same-leader-needs-no-truncation",
        "KAFKA-7164",
        Invariant.LOG_MATCHING,
        Part.ISR_PARTITIONS,
        "A follower that does not reconcile when the epoch is new and the leader the same.",
    ),
    _pending(
        "R4",
        "truncation-keeps-empty-epochs",
        "KAFKA-10706",
        Invariant.PROGRESS,
        Part.ISR_PARTITIONS,
        "A truncation at the log's end leaves the epochs that begin there and have no records.",
    ),
    _pending(
        "R7",
        "diverging-below-log-start",
        "KAFKA-12996",
        Invariant.PROGRESS,
        Part.LOG_START_AND_SNAPSHOTS,
        "A follower below the log start is told that it diverged, not that it is out of range.",
    ),
    _pending(
        "R8",
        "epoch-zero-not-recovered",
        "KAFKA-10432",
        Invariant.LOG_MATCHING,
        Part.ISR_PARTITIONS,
        "Recovery leaves epoch 0 out of the cache; a quorum's first epoch is 1.",
    ),
    _pending(
        "R9",
        "high-watermark-below-new-log-start",
        "KAFKA-9491",
        Invariant.ORDERED_OFFSETS,
        Part.LOG_START_AND_SNAPSHOTS,
        "A log that was emptied and begins anew keeps its old high watermark.",
    ),
    _pending(
        "R11",
        "no-high-watermark-after-shrink",
        "KAFKA-13091",
        Invariant.PROGRESS,
        Part.ISR_PARTITIONS,
        "A committed shrink of the ISR does not make the leader compute its high watermark again.",
    ),
    _pending(
        "R12",
        "late-alter-partition-reply",
        "KAFKA-12686",
        Invariant.VALID_HIGH_WATERMARK,
        Part.ISR_PARTITIONS,
        "An AlterPartition reply is applied over newer metadata.",
    ),
    _pending(
        "R13",
        "high-watermark-below-min-isr",
        "KAFKA-15583",
        Invariant.LEADER_COMPLETENESS,
        Part.ISR_PARTITIONS,
        "The high watermark goes on with fewer replicas in the ISR than the minimum.",
    ),
    _pending(
        "R14",
        "ineligible-replica-joins",
        "KAFKA-13916, KIP-903",
        Invariant.VALID_CONTROLLER_STATE,
        Part.CONTROLLER,
        "A fenced, stopping or former incarnation of a replica joins the ISR.",
    ),
    _pending(
        "R15",
        "retention-above-high-watermark",
        "KAFKA-5634",
        Invariant.CONSISTENT_READ,
        Part.LOG_START_AND_SNAPSHOTS,
        "Retention deletes what is not committed.",
    ),
    _pending(
        "R17",
        "high-watermark-forgotten-at-start",
        "KAFKA-769",
        Invariant.MONOTONIC_HIGH_WATERMARK,
        Part.ISR_PARTITIONS,
        "A replica starts with the high watermark 0 instead of the stored one; a quorum log stores none.",
    ),
    _pending(
        "R18",
        "churn-at-equal-ends",
        "KAFKA-7152, KAFKA-4485",
        Invariant.PROGRESS,
        Part.ISR_PARTITIONS,
        "A follower leaves the ISR by time alone though it has everything.",
    ),
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
        Part.LOG_START_AND_SNAPSHOTS,
        "A snapshot's end offset is its last offset.",
    ),
    _pending(
        "P1",
        "high-watermark-of-committed-isr",
        "KIP-497",
        Invariant.VALID_HIGH_WATERMARK,
        Part.ISR_PARTITIONS,
        "While an expansion is in flight the high watermark counts the smaller ISR.",
    ),
    _pending(
        "P2",
        "shrink-before-commit",
        "KIP-497",
        Invariant.STRONG_ISR,
        Part.ISR_PARTITIONS,
        "A shrink counts for the high watermark before the controller has committed it.",
    ),
    _pending(
        "P5",
        "high-watermark-of-isr-majority",
        "classic",
        Invariant.STRONG_ISR,
        Part.ISR_PARTITIONS,
        "The high watermark of an ISR partition is what most or one of its replicas have, not what all have.",
    ),
    _pending(
        "P10",
        "read-index-of-an-old-fetch",
        "classic",
        Invariant.LINEARIZABLE,
        Part.STATE_MACHINES,
        "A linearizable read is confirmed by a fetch that was sent before the read, or by a lease without a clock.",
    ),
    _pending(
        "P11",
        "producer-state-not-rebuilt",
        "classic",
        Invariant.DUPLICATE_SUPPRESSION,
        Part.IDEMPOTENT_PRODUCERS,
        "A new leader, or one that has truncated, does not know the last sequence numbers from its log.",
    ),
    _pending(
        "P12",
        "unclean-restart-stays-in-isr",
        "KIP-966",
        Invariant.LEADER_COMPLETENESS,
        Part.CONTROLLER,
        "A replica that may have lost its unflushed tail stays in the ISR.",
    ),
    _pending(
        "P17",
        "min-isr-after-append",
        "classic",
        Invariant.DEFINITE_FAILURE,
        Part.ISR_PARTITIONS,
        "A write for which the ISR is too small is appended, and then refused as definitely not done.",
    ),
    _pending(
        "P20",
        "timeout-drops-maximal-isr",
        "KIP-497",
        Invariant.VALID_HIGH_WATERMARK,
        Part.ISR_PARTITIONS,
        "An AlterPartition request without an answer is taken for one that failed.",
    ),
)

EQUIVALENT: tuple[Equivalent, ...] = (
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
