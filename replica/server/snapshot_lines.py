"""What happens to the snapshots of state machines, as log lines: one was stored here, or came from the leader.

Owns these lines. One that came and cannot be loaded is fetched again, and warned of: the log stands still meanwhile.
Source: KIP-630.
"""

from __future__ import annotations

from collections.abc import Mapping

from structlog.typing import FilteringBoundLogger

from replica.core.effects import Effect, InstallSnapshot, StoreSnapshot
from replica.core.events import Event, SnapshotStored
from replica.ids import SnapshotId, TopicPartition
from replica.server.view import LogView


class SnapshotLines:
    """Watches steps for what is stored and installed, and logs for what they reject."""

    def __init__(self, *, logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._sizes: dict[TopicPartition, int] = {}
        """Of the snapshots on their way: one of a log at most."""
        self._rejected: dict[TopicPartition, int] = {}

    def on_step(self, event: Event, effects: tuple[Effect, ...], logs: Mapping[TopicPartition, LogView]) -> None:
        """Write what became of a snapshot by this step."""
        if isinstance(event, SnapshotStored):
            self._say("snapshot_stored", event.topic_partition, event.snapshot_id)
        for effect in effects:
            if isinstance(effect, StoreSnapshot | InstallSnapshot):
                self._sizes[effect.topic_partition] = len(effect.data)
            if isinstance(effect, InstallSnapshot):
                self._say("snapshot_installed", effect.topic_partition, effect.snapshot_id)
        for name, log in logs.items():
            if log.snapshots_rejected != self._rejected.get(name, 0):
                self._rejected[name] = log.snapshots_rejected
                if log.snapshots_rejected:
                    self._logger.warning(
                        "snapshot_rejected", log=str(name), leader_id=log.leader_id, times=log.snapshots_rejected
                    )

    def _say(self, line: str, log: TopicPartition, snapshot_id: SnapshotId) -> None:
        self._logger.info(
            line,
            log=str(log),
            end_offset=snapshot_id.end_offset,
            epoch=snapshot_id.epoch,
            size_bytes=self._sizes.pop(log, None),
        )
