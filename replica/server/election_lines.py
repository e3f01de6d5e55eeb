"""Elections that may lose records, and partitions that nobody may lead, as log lines of the active controller.

Owns these lines and what tells the kinds apart: ``unclean_election`` of a replica that was not known to hold
everything, ``last_known_leader_elected`` of the one that led last where nobody is known to, and ``partition_offline``
while there is neither. Each says who was in sync and who was eligible: an operator asks whose return saves what.

Source: Kafka ``PartitionChangeBuilder`` (its log line of an unclean election); KIP-106, KIP-966.
"""

from __future__ import annotations

from collections.abc import Mapping

from structlog.typing import FilteringBoundLogger

from replica.core.metadata.image import TopicImage
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.ids import TopicPartition


class ElectionLines:
    """Compares the partitions of the cluster after a change of the metadata with those before."""

    def __init__(self, *, logger: FilteringBoundLogger) -> None:
        self._logger = logger

    def on_topics(self, before: Mapping[str, TopicImage], now: Mapping[str, TopicImage]) -> None:
        """Write what has changed; of partitions that are new there is nothing to tell."""
        for name, topic in now.items():
            was = before.get(name)
            if was is None or was is topic or was.topic_id != topic.topic_id:
                continue
            for number, registration in topic.partitions.items():
                seen = was.partitions.get(number)
                if seen is not None and seen.leader_epoch != registration.leader_epoch:
                    self._on_leadership(TopicPartition(name, number), seen, registration)

    def _on_leadership(self, name: TopicPartition, before: PartitionRegistration, now: PartitionRegistration) -> None:
        what = {"log": str(name), "epoch": now.leader_epoch, "partition_epoch": now.partition_epoch}
        if now.leader_id is None:
            if before.leader_id is not None:
                self._logger.warning("partition_offline", **what, replicas=list(now.replicas), **_claims(now))
            return
        if _is_unclean(before, now):
            event = "last_known_leader_elected" if _led_last(before, now) else "unclean_election"
            self._logger.warning(event, **what, leader_id=now.leader_id, **_claims(before))


def _led_last(before: PartitionRegistration, now: PartitionRegistration) -> bool:
    """Tell whether nobody is known to have more than this leader; while another is eligible, somebody is."""
    if before.leader_id == now.leader_id:
        return True  # Several changes were read at once: it was leaderless in between.
    return now.leader_id == before.last_known_leader and not before.isr and not before.elr


def _is_unclean(before: PartitionRegistration, now: PartitionRegistration) -> bool:
    """Tell whether this election began the leader's recovery; one that was begun before goes on after a clean one."""
    if now.leader_recovery_state is not LeaderRecoveryState.RECOVERING:
        return False
    was_recovered = before.leader_recovery_state is LeaderRecoveryState.RECOVERED
    return was_recovered or now.leader_id not in (*before.isr, *before.elr)


def _claims(registration: PartitionRegistration) -> dict[str, object]:
    """Say who may lead without a loss."""
    return {
        "isr": list(registration.isr),
        "elr": list(registration.elr),
        "last_known_leader": registration.last_known_leader,
    }
