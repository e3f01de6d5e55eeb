"""What is known of a wrong protocol: its name, where it comes from, which invariant it breaks, and whether it is built.

Owns the values. Knows no particular mutant. Invariants have the names of the specifications they come from: KIP-966,
hachikuji/kafka-specification, Raft, and Kafka's ``RaftEventSimulationTest``; those without one there have ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nemesis.schedule import Schedule
from replica.core.rules import Rules


class Invariant(StrEnum):
    """What must hold, and convicts a protocol under which it does not."""

    ORDERED_OFFSETS = "I1 OrderedOffsets"
    STRONG_ISR = "I4 StrongIsr"
    VALID_HIGH_WATERMARK = "I5 ValidHighWatermark"
    LEADER_CANDIDATE_COMPLETENESS = "I6 LeaderCandidateCompleteness"
    LEADER_COMPLETENESS = "I7 LeaderCompleteness"
    LOG_MATCHING = "I8 LogMatching"
    NO_COMMITTED_RECORD_LOST = "I9 NoCommittedRecordLost"
    CONSISTENT_READ = "I10 ConsistentRead"
    MONOTONIC_HIGH_WATERMARK = "I11 MonotonicHighWatermark"
    ELECTION_SAFETY = "I12 ElectionSafety"
    MAJORITY_REACHED_HIGH_WATERMARK = "I13 MajorityReachedHighWatermark"
    SNAPSHOT_AT_LOG_START = "I14 SnapshotAtLogStart"
    CONSISTENT_COMMITTED_DATA = "I15 ConsistentCommittedData"
    VALID_CONTROLLER_STATE = "I17 ValidControllerState"
    APPLIED_IS_COMMITTED = "I18 AppliedIsCommitted"
    DUPLICATE_SUPPRESSION = "I19 DuplicateSuppression"
    LINEARIZABLE = "Linearizable"
    DEFINITE_FAILURE = "DefiniteFailure"
    PROGRESS = "Progress"


class Part(StrEnum):
    """A part of the product that a mutant needs and that is not built."""

    ISR_PARTITIONS = "ISR partitions"
    CONTROLLER = "controller"
    STATE_MACHINES = "state machines"
    LOG_START_AND_SNAPSHOTS = "log start and snapshots"
    IDEMPOTENT_PRODUCERS = "idempotent producers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A wrong protocol. ``id`` is M, R, P for the published ones and H for our own; ``breaks`` is what convicts it."""

    id: str
    name: str
    origin: str
    breaks: Invariant


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant(Mutant):
    """A mutant that can be run: ``rules`` overrides one decision of the right protocol.

    ``needs_lying_disks`` marks a guard: what it guards against happens only where a disk breaks its word.
    """

    rules: type[Rules]
    needs_lying_disks: bool = False

    @property
    def overrides(self) -> str:
        """The name of the rule that is wrong."""
        (rule,) = (name for name in vars(self.rules) if not name.startswith("__"))
        return rule

    @property
    def summary(self) -> str:
        """What is wrong, in one sentence."""
        return (self.rules.__doc__ or "").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectedVariant(Variant):
    """A variant with a schedule that brings its wrong rule about in a live cluster, and the anomaly found there."""

    schedule: Schedule
    convicted_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending(Mutant):
    """A mutant of a part that is not built; it lands with that part."""

    summary: str
    waits_for: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent(Mutant):
    """A mutant that nobody can tell from the right protocol here, and why: to build it would prove nothing."""

    summary: str
    reason: str
