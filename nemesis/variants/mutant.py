"""What is known of a wrong protocol: its name, where it comes from, which invariant it breaks, and how it is run.

Owns the values. Knows no particular mutant. Invariants have the names of the specifications they come from: KIP-966,
hachikuji/kafka-specification, Raft, and Kafka's ``RaftEventSimulationTest``; those without one there have ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nemesis.schedules.schedule import Schedule
from nemesis.variants.worlds import WorldKind
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


class Need(StrEnum):
    """What the worlds must be like in which a wrong rule can show: a guard shows only where the danger is."""

    LYING_DISKS = "disks that lie about a flush"
    SLOW_LANES = "disks that are slow for some logs, and processes that are killed"
    FORGETTING = "no fsync, and power losses"
    REPLACED_DISKS = "disks that are replaced at any time"
    ROTTING_LOGS = "logs of partitions that rot"
    RETENTION = "retention"
    TURMOIL = "leaders that change often, fetches of one batch, and messages that come late"
    STALE_METADATA = "brokers that hear late who leads"
    PAIRS = "two replicas each, both of which every write needs"
    OLD_FETCHES = "leaders to which fetches come late, and many reads"
    LEASES = "leases, clocks that differ by a tenth, and leaders that are cut off from all but clients"
    STANDING_CLOCKS = "leases that no question is content with, leaders that are cut off, and clocks that stand still"
    LATE_REFUSALS = "late news of processes that have ended, and others in their place"
    FALSE_REFUSALS = "leaders that seem to have ended, again and again"
    CHANGING_VOTERS = "voters that come and go"
    CHANGES_CUT_OFF = "leaders that are cut off, and asked for one change of voters after the other"
    CHANGES_AT_ONCE = "leaders that are struck at once, and asked for changes of voters at once"
    REASSIGNMENTS = "partitions that are moved"
    FAILING_DIRECTORIES = "log directories that fail, also with the only copy of a partition"
    SETTING_CHANGES = "settings that change often"
    UPGRADES = "replicas of two releases, which are upgraded"


RULES = frozenset(name for part in Rules.__bases__ for name in vars(part) if not name.startswith("_"))
"""The names of all rules of the right protocol."""


def overridden(rules: type[Rules]) -> tuple[str, ...]:
    """The names of the rules that a class has otherwise than the right protocol."""
    wrong = (part for part in rules.__mro__ if issubclass(part, Rules) and part is not Rules)
    return tuple(name for part in wrong for name in vars(part) if name in RULES)


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

    Or those few that belong together, and the class says why. ``world`` is the kind of simulated world in which it is
    tried, ``needs`` what such a world must have beside.
    """

    rules: type[Rules]
    world: WorldKind = WorldKind.QUORUM
    needs: tuple[Need, ...] = ()

    @property
    def overrides(self) -> tuple[str, ...]:
        """The names of the rules that are wrong."""
        return overridden(self.rules)

    @property
    def summary(self) -> str:
        """What is wrong, in one sentence."""
        return (self.rules.__doc__ or "").strip().partition("\n\n")[0].replace("\n    ", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectedVariant(Variant):
    """A variant with a schedule that brings its wrong rule about in a live cluster, and all that is found there."""

    schedule: Schedule
    convicted_of: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent(Mutant):
    """A mutant that nobody can tell from the right protocol here, and why: to build it would prove nothing."""

    summary: str
    reason: str
