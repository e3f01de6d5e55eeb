"""What happens to the snapshots of state machines, as log lines: one was stored here, or came from the leader.

Owns these lines. One that is too large is not stored, and warned of: the log grows until it is smaller. One that came
and cannot be loaded is fetched again, and warned of: the log stands still meanwhile.
Source: KIP-630.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from structlog.typing import FilteringBoundLogger

from replica.core.effects import Effect, InstallSnapshot
from replica.core.events import Event, SnapshotStored, SnapshotTooLarge
from replica.ids import SnapshotId, TopicPartition
from replica.server.view import LogView


class SnapshotLines:
    """Watches steps for what is stored and installed, and logs for what they reject."""

    def __init__(self, *, logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._rejected: dict[TopicPartition, int] = {}

    def on_step(self, event: Event, effects: Iterable[Effect], logs: Mapping[TopicPartition, LogView]) -> None:
        """Write what became of a snapshot by this step, which was of these ``logs``."""
        match event:
            case SnapshotStored(size_bytes=size_bytes):
                self._logger.info("snapshot_stored", **_named(event.topic_partition, event.snapshot_id, size_bytes))
            case SnapshotTooLarge(size_bytes=size_bytes):
                named = _named(event.topic_partition, event.snapshot_id, size_bytes)
                self._logger.warning("snapshot_too_large", **named)
            case _:
                pass
        for effect in effects:
            if isinstance(effect, InstallSnapshot):
                named = _named(effect.topic_partition, effect.snapshot_id, len(effect.data))
                self._logger.info("snapshot_installed", **named)
        for name, log in logs.items():
            if log.snapshots_rejected != self._rejected.get(name, 0):
                self._rejected[name] = log.snapshots_rejected
                if log.snapshots_rejected:
                    self._logger.warning(
                        "snapshot_rejected", log=str(name), leader_id=log.leader_id, times=log.snapshots_rejected
                    )


def _named(log: TopicPartition, snapshot_id: SnapshotId, size_bytes: int) -> dict[str, object]:
    return {
        "log": str(log),
        "end_offset": snapshot_id.end_offset,
        "epoch": snapshot_id.epoch,
        "size_bytes": size_bytes,
    }
