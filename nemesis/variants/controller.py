"""Wrong rules about brokers and their metadata: who may count as in sync, what an unclean stop costs, what is kept.

Owns nothing else. Source: KIP-455, KIP-630, KIP-841, KIP-903, KIP-966.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from nemesis.variants.partitions_only import PartitionsOnly
from replica.core.metadata.image import BrokerRegistration
from replica.ids import BrokerEpoch, Offset, ReplicaId


class IneligibleReplicaJoins(PartitionsOnly):
    """A fenced, stopping or former incarnation of a replica joins the ISR.

    The leader proposes nobody of whom it knows that, so that its check and the controller's go together.
    """

    def is_eligible_for_isr(
        self, *, is_active: bool, broker_epoch: BrokerEpoch | None, registered: BrokerEpoch | None
    ) -> bool:
        """Who fetches is alive."""
        return True

    def eligible_for_isr(self, *, registration: BrokerRegistration | None, broker_epoch: BrokerEpoch | None) -> bool:
        """The leader knows best."""
        return True


class UncleanRestartStaysInIsr(PartitionsOnly):
    """A replica that may have lost its unflushed tail stays in the ISR."""

    def holds_what_it_acknowledged(
        self, *, registered: BrokerRegistration, previous_broker_epoch: BrokerEpoch | None
    ) -> bool:
        """Who comes back has everything."""
        return True


class BrokersByIdAlone(PartitionsOnly):
    """A broker that comes back with another disk counts for what the one that it had before has acknowledged."""

    def has_another_disk(
        self, *, registered: BrokerRegistration, directory_id: str, metadata_end_offset: Offset
    ) -> bool:
        """A broker is its id."""
        return False


class KilledWhileItRegisters(PartitionsOnly):
    """A broker that was killed before it had the record of its registration counts as one with another disk."""

    def has_another_disk(
        self, *, registered: BrokerRegistration, directory_id: str, metadata_end_offset: Offset
    ) -> bool:
        """Every incarnation is held against the disk, whether it was ever let in or not."""
        return registered.directory_id != directory_id or metadata_end_offset <= registered.broker_epoch


class ReassignedAtOnce(PartitionsOnly):
    """A move that is complete when it begins, whoever of its target is in sync by then."""

    def reassignment_is_complete(self, *, target: tuple[ReplicaId, ...], isr: tuple[ReplicaId, ...]) -> bool:
        """Those that go are not waited with."""
        return True


class ProducerIdsNotInSnapshot(PartitionsOnly):
    """A snapshot of the metadata that holds brokers and topics, and not which producer ids are given away."""

    def producer_ids_are_in_snapshot(self) -> bool:
        """A controller that begins with it gives them away again."""
        return False


class LevelRaisedUnasked(PartitionsOnly):
    """A controller that raises the feature level though a replica runs a release that does not know it."""

    def lacks_level(self, *, newest_level: int | None, level: int) -> bool:
        """Somebody will have seen to that."""
        return False


class SettingsBeforeTheirLevel(PartitionsOnly):
    """A controller that takes settings of brokers before the feature level is there that has such records."""

    def level_suffices(self, *, level: int, since: int) -> bool:
        """Who asks for it has the release."""
        return True


class DecisionToldAtOnce(PartitionsOnly):
    """A controller that tells of a decision before it is committed."""

    def decision_is_told(self, *, end_offset: Offset, high_watermark: Offset | None) -> bool:
        """It is written, and will be committed."""
        return True


class MinimumChangesUnnoticed(PartitionsOnly):
    """Another minimum of in-sync replicas comes within the partition epoch: old proposals are taken by the new one."""

    def another_minimum_is_a_change(self) -> bool:
        """The partition stays as it is."""
        return False


class OfflineReplicaElected(PartitionsOnly):
    """Whoever is alive can lead, also where it has said that its log directory has failed."""

    def electable(self, *, active: frozenset[ReplicaId], offline: frozenset[ReplicaId]) -> frozenset[ReplicaId]:
        """It is alive."""
        return active


class FencesByAnOldRefusal(PartitionsOnly):
    """A controller that fences a broker because its process has ended, though the next one has registered since."""

    def refusal_ends_session(self, *, refused_at_ms: int, heard_ms: int) -> bool:
        """A broker is its id."""
        return True
