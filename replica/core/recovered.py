"""What storage hands to the core when a log has been opened: the log as it stands on disk, in four facts."""

from __future__ import annotations

from dataclasses import dataclass

from replica.core.effects import QuorumState
from replica.ids import EpochEntry, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredLog:
    """A log after recovery: everything below ``log_end_offset`` is verified and on stable storage.

    ``epochs`` are cut to ``[log_start_offset, log_end_offset]`` and agree with the batches. ``quorum_state`` is absent
    on a freshly formatted disk only.
    """

    log_start_offset: Offset
    log_end_offset: Offset
    epochs: tuple[EpochEntry, ...]
    quorum_state: QuorumState | None = None
