"""What happens rarely: by how often it did, one knows whether a sweep meant anything.

Owns the table of what is counted, and in which kinds of world that can happen. Each is counted where it is seen, all in
one ``Counter`` of the run's record: by the censuses, and by what brings it about.
"""

from __future__ import annotations

from enum import StrEnum

from nemesis.variants.worlds import WorldKind


class Rare(StrEnum):
    """Events that a sweep should have seen: a name, and the ``worlds`` that can have it, all if none is named."""

    worlds: frozenset[WorldKind]

    def __new__(cls, name: str, *worlds: WorldKind) -> Rare:
        """See the class."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.worlds = frozenset(worlds or WorldKind)
        return member

    # Elections, ends of processes, disks.
    ELECTION = "election"
    SPLIT_VOTE = "split-vote"
    RESIGNATION = "resignation"
    DIVERGENCE_TRUNCATED = "divergence-truncated"
    CRASH_BETWEEN_EFFECTS = "crash-between-effects"
    CRASH_IN_EFFECT = "crash-in-effect"
    POWER_LOSS = "power-loss"
    TORN_TAIL = "torn-tail"
    FULL_DISK = "full-disk"
    STORAGE_FAILURE = "storage-failure"
    DAMAGE_DETECTED = "damage-detected"
    SEVERAL_RECORDS = "several-records", WorldKind.QUORUM, WorldKind.CLUSTER
    # Evidence of the end of processes.
    LEADER_REFUSED = "leader-refused"
    BROKER_REFUSED = "broker-refused", WorldKind.CLUSTER
    REFUSED_FALSELY = "refused-falsely"
    # Partitions, brokers, controllers.
    ISR_SHRINK = "isr-shrink", WorldKind.CLUSTER
    ISR_EXPAND = "isr-expand", WorldKind.CLUSTER
    LEADER_FAILOVER = "leader-failover", WorldKind.CLUSTER
    ELR_ELECTION = "elr-election", WorldKind.CLUSTER
    UNCLEAN_ELECTION = "unclean-election", WorldKind.CLUSTER
    BROKER_FENCED = "broker-fenced", WorldKind.CLUSTER
    CONTROLLED_SHUTDOWN = "controlled-shutdown", WorldKind.CLUSTER
    CONTROLLER_FAILOVER = "controller-failover", WorldKind.CLUSTER
    PARTITION_TRUNCATED = "partition-truncated", WorldKind.CLUSTER
    HW_REGRESSION_ON_FOLLOWER = "hw-regression-on-follower", WorldKind.CLUSTER
    DUPLICATE_PRODUCE_SUPPRESSED = "duplicate-produce-suppressed", WorldKind.CLUSTER
    OUT_OF_RANGE_RESET = "out-of-range-reset", WorldKind.CLUSTER
    STALE_METADATA = "stale-metadata", WorldKind.CLUSTER
    LEADER_EPOCH_MISSED = "leader-epoch-missed", WorldKind.CLUSTER
    LOG_START_RAISED = "log-start-raised", WorldKind.CLUSTER
    LOG_DELETED = "log-deleted", WorldKind.CLUSTER
    LOG_DELETED_AFTER_START = "log-deleted-after-start", WorldKind.CLUSTER
    PARTITION_OFFLINE = "partition-offline", WorldKind.CLUSTER
    PARTITION_OFFLINE_AT_START = "partition-offline-at-start", WorldKind.CLUSTER
    DAMAGED_LOG_REPLACED = "damaged-log-replaced", WorldKind.CLUSTER
    DISK_REPLACED = "disk-replaced", WorldKind.CLUSTER
    EARLIER_DISK_PUT_BACK = "earlier-disk-put-back", WorldKind.CLUSTER
    COUNTED_ON_DISK_REPLACED = "counted-on-disk-replaced", WorldKind.CLUSTER
    LAST_COUNTED_ON_DISK_REPLACED = "last-counted-on-disk-replaced", WorldKind.CLUSTER
    PARTITION_WAITED_FOR_OPERATOR = "partition-waited-for-operator", WorldKind.CLUSTER
    # Settings and the feature level.
    SETTING_CHANGED = "setting-changed", WorldKind.CLUSTER
    TOPIC_SETTING_CHANGED = "topic-setting-changed", WorldKind.CLUSTER
    LEVEL_REFUSED = "level-refused", WorldKind.CLUSTER
    LEVEL_RAISED = "level-raised", WorldKind.CLUSTER
    # Snapshots of the metadata.
    METADATA_SNAPSHOT_STORED = "metadata-snapshot-stored", WorldKind.CLUSTER
    METADATA_SNAPSHOT_INSTALLED = "metadata-snapshot-installed", WorldKind.CLUSTER
    METADATA_SNAPSHOT_IN_PIECES = "metadata-snapshot-in-pieces", WorldKind.CLUSTER
    METADATA_SNAPSHOT_GONE = "metadata-snapshot-gone", WorldKind.CLUSTER
    METADATA_SNAPSHOT_ON_NEW_DISK = "metadata-snapshot-on-new-disk", WorldKind.CLUSTER
    METADATA_SNAPSHOT_NEW_TO_HOST = "metadata-snapshot-new-to-host", WorldKind.CLUSTER
    METADATA_RESTORED_AT_START = "metadata-restored-at-start", WorldKind.CLUSTER
    CONTROLLER_AFTER_RESTORE = "controller-after-restore", WorldKind.CLUSTER
    # Partitions that move.
    REASSIGNMENT_BEGUN = "reassignment-begun", WorldKind.CLUSTER
    REASSIGNMENT_CHANGED = "reassignment-changed", WorldKind.CLUSTER
    REASSIGNMENT_COMPLETED = "reassignment-completed", WorldKind.CLUSTER
    REASSIGNMENT_CANCELLED = "reassignment-cancelled", WorldKind.CLUSTER
    REASSIGNED_LEADER = "reassigned-leader", WorldKind.CLUSTER
    # State machines.
    GROUP_FAILOVER = "group-failover", WorldKind.GROUP
    SNAPSHOT_STORED = "snapshot-stored", WorldKind.GROUP
    SNAPSHOT_INSTALLED = "snapshot-installed", WorldKind.GROUP
    SNAPSHOT_IN_PIECES = "snapshot-in-pieces", WorldKind.GROUP
    SNAPSHOT_GONE = "snapshot-gone", WorldKind.GROUP
    RESTORED_AT_START = "restored-at-start", WorldKind.GROUP
    FOLLOWER_READ = "follower-read", WorldKind.GROUP
    LEASE_READ = "lease-read", WorldKind.GROUP
    LATE_READ = "late-read", WorldKind.GROUP
    REPEATED_COMMAND = "repeated-command", WorldKind.GROUP
    REPEATED_AFTER_RESTORE = "repeated-after-restore", WorldKind.GROUP
    SESSION_EXPIRED = "session-expired", WorldKind.GROUP
    UNKNOWN_COMMAND = "unknown-command", WorldKind.GROUP
    # Voters that change.
    VOTER_ADDED = "voter-added", WorldKind.CLUSTER, WorldKind.GROUP
    VOTER_REMOVED = "voter-removed", WorldKind.CLUSTER, WorldKind.GROUP
    VOTER_REPLACED = "voter-replaced", WorldKind.CLUSTER, WorldKind.GROUP
    LEADER_REMOVED_ITSELF = "leader-removed-itself", WorldKind.CLUSTER, WorldKind.GROUP
    VOTERS_TAKEN_BACK = "voters-taken-back", WorldKind.CLUSTER, WorldKind.GROUP
    CHANGE_TOO_SOON = "change-too-soon", WorldKind.CLUSTER, WorldKind.GROUP
    CHANGE_UNKNOWN = "change-unknown", WorldKind.CLUSTER, WorldKind.GROUP
    NEWCOMER_TOO_SLOW = "newcomer-too-slow", WorldKind.CLUSTER, WorldKind.GROUP
    LED_BY_NEWCOMER = "led-by-newcomer", WorldKind.CLUSTER, WorldKind.GROUP
    SNAPSHOT_INSTALLED_BY_NEW_VOTER = "snapshot-installed-by-new-voter", WorldKind.CLUSTER, WorldKind.GROUP
    OBSERVER_DISK_WIPED = "observer-disk-wiped", WorldKind.CLUSTER, WorldKind.GROUP
    VOTER_DISK_WIPED = "voter-disk-wiped", WorldKind.CLUSTER, WorldKind.GROUP
    OTHER_DISK_REFUSED_VOTE = "other-disk-refused-vote", WorldKind.CLUSTER, WorldKind.GROUP
    LEADERSHIP_HANDED_OVER = "leadership-handed-over", WorldKind.CLUSTER, WorldKind.GROUP


def rares_of(world: WorldKind) -> tuple[Rare, ...]:
    """The rare events that a kind of world can have."""
    return tuple(rare for rare in Rare if world in rare.worlds)
