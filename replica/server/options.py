"""What a replica process is told at start, as one value, and the table of logs that it hosts.

Owns names, defaults and bounds. Where the values come from (arguments, environment) is the command line's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from replica.core.config import InvalidConfigError, QuorumConfig
from replica.ids import ReplicaId, TopicPartition
from replica.server.channels import MESSAGE_BYTES_MAX


class LogKind(StrEnum):
    """Which protocol keeps the copies of a log the same."""

    QUORUM = "quorum"


HOSTED_LOGS: Mapping[TopicPartition, LogKind] = MappingProxyType({TopicPartition("log", 0): LogKind.QUORUM})
"""The logs that every replica of a cluster holds."""

STOPPING_MS_MAX = 60_000
CLIENT_CALLS_MAX = 1_000_000
RECORDS_BYTES_MAX = MESSAGE_BYTES_MAX // 4
"""Records that one request or answer may carry. A follower whose fetch is answered with more gets nothing, for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The whole configuration of ``replica start``. Addresses are ``HOST:PORT``; port 0 of ``listen`` takes a free one.

    ``voters`` are the advertised addresses; ``dial`` overrides them, entry by entry, for this replica's own dials.
    ``cluster_id`` and ``replica_id``, when given, must be those that the data directory was formatted with.
    """

    data_dir: Path
    listen: str
    voters: Mapping[ReplicaId, str]
    dial: Mapping[ReplicaId, str] = field(default_factory=dict)
    cluster_id: str | None = None
    replica_id: ReplicaId | None = None
    quorum: QuorumConfig = field(default_factory=QuorumConfig)
    log_level: str = "info"
    metrics_listen: str | None = None
    client_calls_max: int = 4096
    handover_wait_ms: int = 3000
    stop_grace_ms: int = 500
    recovery_point_interval_ms: int = 5000

    def __post_init__(self) -> None:
        for name, largest in (
            ("client_calls_max", CLIENT_CALLS_MAX),
            ("handover_wait_ms", STOPPING_MS_MAX),
            ("stop_grace_ms", STOPPING_MS_MAX),
            ("recovery_point_interval_ms", 24 * 3_600_000),
        ):
            value = getattr(self, name)
            if not 0 < value <= largest:
                raise InvalidConfigError(f"{name} is {value}; it must be above 0 and at most {largest}")
        for name in ("message_max_bytes", "fetch_max_bytes", "dump_max_bytes"):
            if getattr(self.quorum, name) > RECORDS_BYTES_MAX:
                raise InvalidConfigError(
                    f"{name} is {getattr(self.quorum, name)}; it must be at most {RECORDS_BYTES_MAX}, "
                    "a quarter of what a connection takes in one message"
                )
