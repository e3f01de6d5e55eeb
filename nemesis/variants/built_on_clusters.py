"""The mutants that can be run on a cluster: every published one of partitions, brokers and their controller.

Owns the table; the wrong rules are in the modules beside it.
"""

from __future__ import annotations

from nemesis.variants import controller, isr, log_start, producing, reconciling
from nemesis.variants.mutant import Invariant, Need, Variant
from nemesis.variants.worlds import WorldKind
from replica.core.rules import Rules

_SPECIFICATION = "hachikuji/kafka-specification"


def _variant(id: str, name: str, origin: str, breaks: Invariant, rules: type[Rules], *needs: Need) -> Variant:
    return Variant(id=id, name=name, origin=origin, breaks=breaks, rules=rules, world=WorldKind.CLUSTER, needs=needs)


BUILT_ON_CLUSTERS: tuple[Variant, ...] = (
    _variant(
        "M2",
        "offset-without-epoch",
        f"KIP-101; {_SPECIFICATION}",
        Invariant.STRONG_ISR,
        reconciling.OffsetWithoutEpoch,
        Need.TURMOIL,
    ),
    _variant(
        "M3",
        "exact-truncation-without-fencing",
        f"KIP-279; {_SPECIFICATION}",
        Invariant.STRONG_ISR,
        reconciling.ExactTruncationWithoutFencing,
        Need.TURMOIL,
    ),
    _variant(
        "M4",
        "unfenced-fetch",
        f"the first try at KIP-320; {_SPECIFICATION}",
        Invariant.STRONG_ISR,
        reconciling.UnfencedFetch,
        Need.TURMOIL,
        Need.STALE_METADATA,
    ),
    _variant(
        "R1",
        "expand-below-epoch-start",
        "KAFKA-7128",
        Invariant.LEADER_CANDIDATE_COMPLETENESS,
        isr.ExpandBelowEpochStart,
        Need.TURMOIL,
    ),
    _variant(
        "R2",
        "epoch-assigned-at-first-append",
        "KAFKA-7415",
        Invariant.LOG_MATCHING,
        reconciling.EpochAssignedAtFirstAppend,
        Need.TURMOIL,
        Need.PAIRS,
    ),
    _variant(
        "R3",
        "same-leader-needs-no-truncation",
        "KAFKA-7164",
        Invariant.PROGRESS,
        reconciling.SameLeaderNeedsNoTruncation,
        Need.TURMOIL,
        Need.STALE_METADATA,
    ),
    _variant(
        "R4",
        "truncation-keeps-empty-epochs",
        "KAFKA-10706",
        Invariant.PROGRESS,
        reconciling.TruncationKeepsEmptyEpochs,
    ),
    _variant(
        "R8",
        "epoch-zero-not-recovered",
        "KAFKA-10432",
        Invariant.LOG_MATCHING,
        reconciling.EpochZeroNotRecovered,
    ),
    _variant(
        "R9",
        "high-watermark-below-new-log-start",
        "KAFKA-9491",
        Invariant.ORDERED_OFFSETS,
        log_start.HighWatermarkBelowNewLogStart,
        Need.RETENTION,
    ),
    _variant(
        "R11",
        "no-high-watermark-after-shrink",
        "KAFKA-13091",
        Invariant.PROGRESS,
        isr.NoHighWatermarkAfterShrink,
    ),
    _variant(
        "R12",
        "late-alter-partition-reply",
        "KAFKA-12686",
        Invariant.VALID_HIGH_WATERMARK,
        isr.LateAlterPartitionReply,
        Need.TURMOIL,
    ),
    _variant(
        "R13",
        "high-watermark-below-min-isr",
        "KAFKA-15583",
        Invariant.LEADER_COMPLETENESS,
        isr.HighWatermarkBelowMinIsr,
    ),
    _variant(
        "R14",
        "ineligible-replica-joins",
        "KAFKA-13916, KIP-903",
        Invariant.VALID_CONTROLLER_STATE,
        controller.IneligibleReplicaJoins,
    ),
    _variant(
        "R15",
        "retention-above-high-watermark",
        "KAFKA-5634",
        Invariant.CONSISTENT_READ,
        log_start.RetentionAboveHighWatermark,
        Need.RETENTION,
    ),
    _variant(
        "R17",
        "high-watermark-forgotten-at-start",
        "KAFKA-769",
        Invariant.MONOTONIC_HIGH_WATERMARK,
        log_start.HighWatermarkForgottenAtStart,
    ),
    _variant(
        "R18",
        "churn-at-equal-ends",
        "KAFKA-7152, KAFKA-4485",
        Invariant.PROGRESS,
        isr.ChurnAtEqualEnds,
    ),
    _variant(
        "P1",
        "high-watermark-of-committed-isr",
        "KIP-497",
        Invariant.VALID_HIGH_WATERMARK,
        isr.HighWatermarkOfCommittedIsr,
    ),
    _variant(
        "P2",
        "shrink-before-commit",
        "KIP-497",
        Invariant.STRONG_ISR,
        isr.ShrinkBeforeCommit,
    ),
    _variant(
        "P5",
        "high-watermark-of-isr-majority",
        "classic",
        Invariant.STRONG_ISR,
        isr.HighWatermarkOfIsrMajority,
    ),
    _variant(
        "P11",
        "producer-state-not-rebuilt",
        "classic",
        Invariant.DUPLICATE_SUPPRESSION,
        producing.ProducerStateNotRebuilt,
    ),
    _variant(
        "P12",
        "unclean-restart-stays-in-isr",
        "KIP-966",
        Invariant.LEADER_COMPLETENESS,
        controller.UncleanRestartStaysInIsr,
        Need.FORGETTING,
    ),
    _variant(
        "H26",
        "brokers-by-id-alone",
        "ours; KIP-858",
        Invariant.LEADER_CANDIDATE_COMPLETENESS,
        controller.BrokersByIdAlone,
        Need.REPLACED_DISKS,
    ),
    _variant(
        "H28",
        "killed-while-it-registers",
        "ours; KIP-966",
        Invariant.VALID_CONTROLLER_STATE,
        controller.KilledWhileItRegisters,
    ),
    _variant(
        "H31",
        "fences-by-an-old-refusal",
        "ours; KIP-631",
        Invariant.VALID_CONTROLLER_STATE,
        controller.FencesByAnOldRefusal,
        Need.LATE_REFUSALS,
    ),
    _variant(
        "P17",
        "min-isr-after-append",
        "classic",
        Invariant.DEFINITE_FAILURE,
        producing.MinIsrAfterAppend,
    ),
    _variant(
        "P20",
        "timeout-drops-maximal-isr",
        "KIP-497",
        Invariant.VALID_HIGH_WATERMARK,
        isr.TimeoutDropsMaximalIsr,
        Need.TURMOIL,
    ),
    _variant(
        "H25",
        "reassigned-at-once",
        "KIP-455",
        Invariant.LEADER_CANDIDATE_COMPLETENESS,
        controller.ReassignedAtOnce,
        Need.REASSIGNMENTS,
    ),
    _variant(
        "H27",
        "damaged-log-emptied-in-sync",
        "ours; KIP-112",
        Invariant.LEADER_CANDIDATE_COMPLETENESS,
        isr.DamagedLogEmptiedInSync,
        Need.ROTTING_LOGS,
    ),
    _variant(
        "H24",
        "producer-ids-not-in-snapshot",
        "KIP-630; the metadata's form of H11",
        Invariant.APPLIED_IS_COMMITTED,
        controller.ProducerIdsNotInSnapshot,
    ),
)
