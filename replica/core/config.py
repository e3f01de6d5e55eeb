"""The parameters of the core, with Kafka's names and defaults, checked once at start.

Every queue, batch, wait and loop of the core has its named maximum here. Times are milliseconds, sizes bytes.
Source of names and defaults: Kafka's ``QuorumConfig``, ``KafkaRaftClient`` constants, ``message.max.bytes``.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.ids import ReplicaId


class InvalidConfigError(ValueError):
    """A parameter, or a combination of them, that no replica should start with; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """Timing and limits of one quorum log.

    ``truncate_on_fetch`` chooses how a follower finds where its log parts from the leader's: in the Fetch answer
    itself (the default), or by asking OffsetForLeaderEpoch before it fetches, as before Kafka 2.7.
    """

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    message_max_bytes: int = 1_048_588
    produce_timeout_max_ms: int = 120_000
    fetch_wait_max_ms: int = 30_000
    dump_max_bytes: int = 4 << 20
    parked_produces_max: int = 10_000
    parked_fetches_max: int = 10_000
    observers_max: int = 1000
    truncate_on_fetch: bool = True

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, bool) and value <= 0:
                raise InvalidConfigError(f"{name} is {value}; it must be above 0")
        if self.fetch_max_wait_ms >= self.fetch_timeout_ms:
            raise InvalidConfigError(
                f"fetch_max_wait_ms ({self.fetch_max_wait_ms}) must be below "
                f"fetch_timeout_ms ({self.fetch_timeout_ms}), or an idle leader looks dead"
            )
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            raise InvalidConfigError(
                f"fetch_max_wait_ms ({self.fetch_max_wait_ms}) must be below "
                f"request_timeout_ms ({self.request_timeout_ms}), or an idle leader's answers come too late"
            )

    @property
    def check_quorum_timeout_ms(self) -> int:
        """How long a leader may go without fetches from a majority before it resigns: 1.5 fetch timeouts."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_epoch_interval_ms(self) -> int:
        """How often a leader repeats BeginQuorumEpoch to a voter that does not fetch: half a fetch timeout."""
        return max(1, self.fetch_timeout_ms // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """Who this replica is and with whom it forms a quorum. ``directory_id`` is that of its formatted data directory."""

    cluster_id: str
    replica_id: ReplicaId
    directory_id: str
    voters: tuple[ReplicaId, ...]
    quorum: QuorumConfig = QuorumConfig()

    def __post_init__(self) -> None:
        if not self.voters:
            raise InvalidConfigError("voters is empty; name at least one voter")
        if len(set(self.voters)) != len(self.voters):
            raise InvalidConfigError(f"voters {self.voters} names a replica twice")
