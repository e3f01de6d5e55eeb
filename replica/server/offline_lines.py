"""The log lines of partitions whose logs are damaged: offline, and why; put aside, and begun anew.

Owns what was told already. A line is written once for each damage, and once for what becomes of it; one alone for all
that lies in a log directory that has failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from structlog.typing import FilteringBoundLogger

from replica.core.broker.hosting import OfflinePartition
from replica.core.effects import DeleteLog, Effect, ReplaceLog
from replica.core.events import Event, LogDamaged, LogDirectoryFailed
from replica.ids import Offset, TopicPartition


class OfflineLines:
    """Watches which partitions are offline on one broker."""

    def __init__(self, *, logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._told: set[TopicPartition] = set()
        self._failed: set[str] = set()

    def tell_found(self, damaged: Mapping[TopicPartition, str]) -> None:
        """Tell which logs a start has found damaged, and why: before anything is served."""
        for name, reason in sorted(damaged.items()):
            self._on_offline(name, reason, None)

    def on_step(
        self, event: Event, effects: Iterable[Effect], offline: Mapping[TopicPartition, OfflinePartition]
    ) -> None:
        """Tell what is offline since this step, and what begins anew by it."""
        for effect in effects:
            match effect:
                case ReplaceLog(topic_partition=name):
                    self._told.discard(name)
                    self._logger.warning("damaged_log_replaced", **_names(name))
                case DeleteLog(topic_partition=name):
                    self._told.discard(name)
                case _:
                    pass
        if isinstance(event, LogDirectoryFailed):
            self._on_directory_failed(event)
        for name in sorted(offline.keys() - self._told):  # Nearly always there is none.
            offset = event.offset if isinstance(event, LogDamaged) and event.topic_partition == name else None
            self._on_offline(name, offline[name].reason, offset)

    def _on_directory_failed(self, event: LogDirectoryFailed) -> None:
        if self._told >= set(event.logs) and event.directory in self._failed:
            return
        self._told |= set(event.logs)
        self._failed.add(event.directory)
        logs = [str(name) for name in event.logs]
        self._logger.error("log_directory_failed", directory=event.directory, logs=logs, reason=event.reason)

    def _on_offline(self, name: TopicPartition, reason: str, offset: Offset | None) -> None:
        self._told.add(name)
        self._logger.error("log_damaged", **_names(name), offset=offset, reason=reason)


def _names(name: TopicPartition) -> dict[str, str | int]:
    return {"log": str(name), "topic": name.topic, "partition": name.partition}
