"""Who votes in a quorum log, as a log line: ``voters_changed`` when another set is in force here.

Owns this line. A set is in force from its record on, committed or not: one that is truncated away has been told of, and
the one before is told of again. Source: KIP-853.
"""

from __future__ import annotations

from collections.abc import Mapping

from structlog.typing import FilteringBoundLogger

from replica.ids import TopicPartition
from replica.server.view import LogView
from replica.voters import VoterSet


class VoterLines:
    """Compares the voters of each log after a step with those before; those at the start are no news."""

    def __init__(self, *, logs: Mapping[TopicPartition, LogView], logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._seen: dict[TopicPartition, VoterSet] = {name: log.voters for name, log in logs.items()}

    def on_step(self, logs: Mapping[TopicPartition, LogView]) -> None:
        """Write what has changed by the last step, which was of these logs."""
        for name, log in logs.items():
            if log.voters is not self._seen[name]:
                if log.voters != self._seen[name]:
                    self._say(name, log)
                self._seen[name] = log.voters

    def _say(self, name: TopicPartition, log: LogView) -> None:
        self._logger.info(
            "voters_changed",
            log=str(name),
            offset=log.voter_history.latest_offset,
            epoch=log.leader_epoch,
            role=log.role.name,
            voters=list(log.voters.ids),
        )
