"""A broker's standing with the controller: registered, alive, fenced, leaving.

Owns the registration of this incarnation and the rhythm of heartbeats, with which clocks are compared as well. One
request is out at a time. Knows nothing of partitions; what fencing means for them comes through the metadata log alone.

Source: Kafka ``BrokerLifecycleManager``; KIP-631.
"""

from __future__ import annotations

from collections.abc import Callable

from replica.core.cluster_clock import ClusterClock
from replica.core.config import BrokerConfig, BrokerIdentity, LogFlush, ReplicaConfig
from replica.core.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    OfflineReplica,
)
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Offset


class Lifecycle:
    """One incarnation of a broker, from its first registration to its leave."""

    def __init__(self, *, config: ReplicaConfig, identity: BrokerIdentity, metadata_end_offset: Offset) -> None:
        self._broker_id = config.replica_id
        self._cluster_id = config.cluster_id
        self._directory_id = config.directory_id
        self._identity = identity
        self.incarnation_id = identity.incarnation_id
        self._metadata_end_offset = metadata_end_offset
        self._replaces: BrokerEpoch | None = None
        """The registration of this id that the controller has told of."""
        self._config = config.broker
        self.clock = ClusterClock(skew_max_ms=config.broker.clock_skew_max_ms)
        """What time of day it is, for all that this broker hosts."""
        self._is_asking = False
        self._next_at_ms = 0
        self.broker_epoch: BrokerEpoch | None = None
        """Under which epoch this incarnation is registered; absent until the controller has said so."""
        self.is_fenced = True
        self.want_shut_down = False
        self.may_shut_down = False
        """Whether the controller has moved everything that this broker led."""
        self.refusal: str | None = None
        """Why this broker can never serve in this cluster; absent while it can."""

    @property
    def deadline_ms(self) -> int | None:
        """When the next request is due; absent while one is out."""
        return None if self._is_asking or self.refusal is not None else self._next_at_ms

    def next_request(
        self, now_ms: int, metadata_offset: Offset, offline: Callable[[], tuple[OfflineReplica, ...]] = tuple
    ) -> BrokerRegistrationRequest | BrokerHeartbeatRequest | None:
        """Build the request that is due; None if there is none. The caller sends it.

        ``offline`` names the replicas that a heartbeat has to report.
        """
        if self._is_asking or now_ms < self._next_at_ms or self.refusal is not None:
            return None
        self._is_asking = True
        if self.broker_epoch is None:
            return BrokerRegistrationRequest(
                broker_id=self._broker_id,
                cluster_id=self._cluster_id,
                incarnation_id=self._identity.incarnation_id,
                directory_id=self._directory_id,
                flushes=self._config.log_flush is LogFlush.FSYNC,
                metadata_end_offset=self._metadata_end_offset,
                address=self._identity.address,
                peer_address=self._identity.peer_address,
                rack=self._identity.rack,
                previous_broker_epoch=self._identity.previous_broker_epoch,
                replaces=self._replaces,
            )
        return BrokerHeartbeatRequest(
            broker_id=self._broker_id,
            broker_epoch=self.broker_epoch,
            incarnation_id=self._identity.incarnation_id,
            cluster_id=self._cluster_id,
            metadata_offset=metadata_offset,
            want_shut_down=self.want_shut_down,
            offline=offline(),
            unix_ms=self.clock.own_unix_ms(now_ms),
        )

    def shut_down(self, now_ms: int) -> None:
        """Ask the controller, at once and with every heartbeat, to move away what this broker leads."""
        self.want_shut_down = True
        self._next_at_ms = min(self._next_at_ms, now_ms)

    def configure(self, config: BrokerConfig, now_ms: int) -> None:
        """Go by other settings; the next heartbeat is no later than they say."""
        self._config = config
        self._next_at_ms = min(self._next_at_ms, now_ms + config.broker_heartbeat_interval_ms)

    def hurry(self, now_ms: int) -> None:
        """Let the next heartbeat go at once: there is news for the controller."""
        self._next_at_ms = min(self._next_at_ms, now_ms)

    def on_registered(self, response: BrokerRegistrationResponse, now_ms: int) -> None:
        """Begin the heartbeats, or try again later; at once where it is only to say which registration it replaces."""
        self._is_asking = False
        self._next_at_ms = now_ms + self._config.controller_retry_backoff_ms
        if response.error is ErrorCode.NONE:
            assert response.broker_epoch is not None, response
            self.broker_epoch = response.broker_epoch
        elif response.error is ErrorCode.STALE_BROKER_EPOCH:
            self._replaces = response.broker_epoch
            self._next_at_ms = now_ms
        elif response.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self.refusal = f"broker {self._broker_id} belongs to another cluster than {self._cluster_id}"

    def on_heartbeat(self, response: BrokerHeartbeatResponse, now_ms: int) -> None:
        """Take the controller's view of this broker."""
        self._is_asking = False
        self._next_at_ms = now_ms + self._pause_ms(response)
        if response.error is ErrorCode.NONE:
            if response.unix_ms is not None:
                self.clock.on_told(response.unix_ms, now_ms)
            self.is_fenced = response.is_fenced
            self.may_shut_down = self.want_shut_down and response.should_shut_down
        elif response.error is ErrorCode.STALE_BROKER_EPOCH:
            self.refusal = f"another process has registered as broker {self._broker_id}: only one may run"
        elif response.error is ErrorCode.BROKER_ID_NOT_REGISTERED:
            self.refusal = f"broker {self._broker_id} was unregistered; it registers anew when it is started again"

    def _pause_ms(self, response: BrokerHeartbeatResponse) -> int:
        """A broker that waits for the controller's decision asks more often."""
        if response.error is not ErrorCode.NONE or response.is_fenced or self.want_shut_down:
            return self._config.controller_retry_backoff_ms
        return self._config.broker_heartbeat_interval_ms

    def on_failed(self, now_ms: int) -> None:
        """Ask again after a pause."""
        self._is_asking = False
        self._next_at_ms = now_ms + self._config.controller_retry_backoff_ms
