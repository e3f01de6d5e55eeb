"""The limits of one log on disk, checked once. Sizes are bytes; names and defaults are Kafka's where it has them."""

from __future__ import annotations

from dataclasses import dataclass

from replica.core.config import InvalidConfigError
from replica.storage.offset_index import POSITION_MAX


@dataclass(slots=True, kw_only=True)
class LogConfig:
    """How the logs of a data directory are stored: one value for all of them.

    ``segment_bytes``: a new segment begins before a batch that would make the current one longer. Another number may be
    set while logs are open, and the next batch goes by it; everything else stays.
    ``index_interval_bytes``: the distance of index entries. ``tail_bytes_max``: what the newest batches may take of the
    memory, for readers that keep up. ``batch_bytes_max``: a longer batch is never written, and taken for damage when
    found. ``quorum_state_required``: a log with records but without a quorum-state file is refused, because its replica
    has voted and forgotten; off for logs whose leaders are appointed.
    """

    segment_bytes: int = 1 << 30
    index_interval_bytes: int = 4096
    tail_bytes_max: int = 4 << 20
    batch_bytes_max: int = 64 << 20
    quorum_state_required: bool = True

    def __post_init__(self) -> None:
        for name in ("segment_bytes", "index_interval_bytes", "batch_bytes_max"):
            if getattr(self, name) <= 0:
                raise InvalidConfigError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.tail_bytes_max < 0:
            raise InvalidConfigError(f"tail_bytes_max is {self.tail_bytes_max}; it must be 0 or more")
        if max(self.segment_bytes, self.batch_bytes_max) > POSITION_MAX:
            raise InvalidConfigError(f"segment_bytes and batch_bytes_max must not exceed {POSITION_MAX}")
