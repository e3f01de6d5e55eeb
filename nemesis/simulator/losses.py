"""What the storage of one machine's process has lost, log by log, and the process has yet to hear.

Owns the order: it hears of a loss before anything else happens to it. A loss that no disk has provoked is a mistake of
the storage under test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemesis.simulator.violations import BrokenInvariantError
from replica.core import effects as fx
from replica.core import events as ev
from replica.ids import TopicPartition
from replica.storage import DamagedLogError, FailedDirectoryError, LogTable

if TYPE_CHECKING:
    from nemesis.simulator.node import Node

Loss = DamagedLogError | FailedDirectoryError


class Losses:
    """Those of the process that runs on ``node``."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._untold: list[ev.LogDamaged | ev.LogDirectoryFailed] = []
        self._errors_before = 0

    def begin(self) -> None:
        """Another process begins: only what its disk refuses from now on explains what it loses."""
        self._untold = []
        self._errors_before = self._node.disk.files.errors_returned

    def note(self, loss: Loss, opened: LogTable, *, is_going: bool) -> None:
        """Storage has come upon a loss. Of a log that ``is_going`` nobody wants to hear."""
        self.check_provoked(str(loss))
        if isinstance(loss, FailedDirectoryError):
            self._untold.append(opened.on_failed(loss))
        elif not is_going:
            log = loss.topic_partition
            self._untold.append(ev.LogDamaged(topic_partition=log, offset=loss.offset, reason=str(loss)))

    @staticmethod
    def stays(effect: fx.Effect, opened: LogTable | None) -> bool:
        """Whether this would remove a log whose disk has failed: it is there again when its disk is."""
        return (
            isinstance(effect, fx.DeleteLog)
            and opened is not None
            and opened.directory.is_failed(effect.topic_partition)
        )

    def take(self) -> ev.LogDamaged | ev.LogDirectoryFailed | None:
        """What the process is to hear next; absent if there is nothing."""
        return self._untold.pop(0) if self._untold else None

    @property
    def logs(self) -> frozenset[TopicPartition]:
        """The logs of which it has yet to hear."""
        return frozenset(
            log
            for event in self._untold
            for log in (event.logs if isinstance(event, ev.LogDirectoryFailed) else (event.topic_partition,))
        )

    def check_provoked(self, reason: str) -> None:
        """Storage fails where the disk failed or rots, and nowhere else."""
        disk = self._node.disk
        provoked = disk.files.errors_returned > self._errors_before or disk.is_damaged or disk.rotten
        if not provoked and not disk.is_lying:
            raise BrokenInvariantError("unprovoked-storage-failure", f"replica {self._node.replica_id}: {reason}")
