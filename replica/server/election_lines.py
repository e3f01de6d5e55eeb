"""Elections that may lose records, and partitions that nobody may lead, as log lines of the active controller.

Owns these lines, the counter of such elections, and what tells the kinds apart: ``unclean_election`` of a replica that
was not known to hold everything, ``last_known_leader_elected`` of the one that led last where nobody is known to, and
``partition_offline`` while there is neither. Each says who was in sync and who was eligible: an operator asks whose
return saves what. Where nobody's return does, ``partition_waits_for_operator`` says that he must choose.

Source: Kafka ``PartitionChangeBuilder`` (its log line of an unclean election); KIP-106, KIP-966.
"""

from __future__ import annotations

from collections.abc import Collection

from structlog.typing import FilteringBoundLogger

from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.ids import ReplicaId, TopicPartition
from replica.server.metrics import Metrics


class ElectionLines:
    """Compares the partitions of the cluster after a change of the metadata with those before."""

    def __init__(self, *, metrics: Metrics, logger: FilteringBoundLogger) -> None:
        self._metrics = metrics
        self._logger = logger

    def on_active(self, image: MetadataImage) -> None:
        """Write what waited already when this controller became the active one: who was before it may be gone."""
        for name, registration in image.partitions():
            if registration.waits_for_operator:
                self._on_waiting(name, registration)

    def on_topics(self, before: MetadataImage, now: MetadataImage) -> None:
        """Write what has changed; of partitions that are new there is nothing to tell."""
        returned = _returned(before, now)
        for name, topic in now.topics.items():
            was = before.topics.get(name)
            if was is None or was is topic or was.topic_id != topic.topic_id:
                continue
            for number, registration in topic.partitions.items():
                seen = was.partitions.get(number)
                if seen is None:
                    continue
                if seen.leader_epoch != registration.leader_epoch:
                    self._on_leadership(TopicPartition(name, number), seen, registration, returned)
                if registration.waits_for_operator and not seen.waits_for_operator:
                    self._on_waiting(TopicPartition(name, number), registration)

    def _on_waiting(self, name: TopicPartition, now: PartitionRegistration) -> None:
        self._logger.warning("partition_waits_for_operator", **_which(name, now), replicas=list(now.replicas))

    def _on_leadership(
        self,
        name: TopicPartition,
        before: PartitionRegistration,
        now: PartitionRegistration,
        returned: Collection[ReplicaId],
    ) -> None:
        what = _which(name, now)
        if now.leader_id is None:
            if before.leader_id is not None:
                self._logger.warning("partition_offline", **what, replicas=list(now.replicas), **_claims(now))
            return
        if _is_unclean(before, now):
            event = "last_known_leader_elected" if _led_last(before, now, returned) else "unclean_election"
            self._metrics.unclean_leader_elections += 1
            self._logger.warning(event, **what, leader_id=now.leader_id, **_claims(before))


def _returned(before: MetadataImage, now: MetadataImage) -> Collection[ReplicaId]:
    """The brokers that have come back since: those that may have lost something are not eligible any more.

    One that still holds what it acknowledged is, and is elected without a loss when it returns.
    """
    return {
        broker_id
        for broker_id, broker in now.brokers.items()
        if broker_id in before.brokers and before.brokers[broker_id].broker_epoch != broker.broker_epoch
    }


def _led_last(before: PartitionRegistration, now: PartitionRegistration, returned: Collection[ReplicaId]) -> bool:
    """Tell whether nobody is known to have more than this leader; while another is eligible, somebody is.

    Several changes may have been read at once.
    """
    if before.leader_id == now.leader_id:
        return True  # It was leaderless in between.
    return now.leader_id == before.last_known_leader and {*before.isr, *before.elr} <= set(returned)


def _is_unclean(before: PartitionRegistration, now: PartitionRegistration) -> bool:
    """Tell whether this election began the leader's recovery; one that was begun before goes on after a clean one."""
    if now.leader_recovery_state is not LeaderRecoveryState.RECOVERING:
        return False
    was_recovered = before.leader_recovery_state is LeaderRecoveryState.RECOVERED
    return was_recovered or now.leader_id not in (*before.isr, *before.elr)


def _which(name: TopicPartition, now: PartitionRegistration) -> dict[str, object]:
    return {"log": str(name), "epoch": now.leader_epoch, "partition_epoch": now.partition_epoch}


def _claims(registration: PartitionRegistration) -> dict[str, object]:
    """Say who may lead without a loss."""
    return {
        "isr": list(registration.isr),
        "elr": list(registration.elr),
        "last_known_leader": registration.last_known_leader,
    }
