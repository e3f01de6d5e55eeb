"""What one replica is in its cluster: the metadata that it has applied, a controller, a broker.

Owns the order in which these follow from one another. When the metadata log has moved, a snapshot that has come is
restored, what has been committed is read and applied, the settings that it says are followed, and the controller
becomes active or ceases to be; then, or when something has concerned it alone, the broker acts on what is new; and what
one asks of the other is handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from replica.core import messages as m
from replica.core.broker.broker import Broker
from replica.core.config import ControllerConfig, MetadataConfig, ReplicaConfig
from replica.core.controller.quorum_controller import QuorumController
from replica.core.dynamic_settings import NOTHING_SAID, numbers_of, settings_in_force, with_values
from replica.core.earliest import earliest
from replica.core.effects import ApplySettings, Effect, Halt, Send
from replica.core.events import LogRead, PeerRefused
from replica.core.limits import LimitTable
from replica.core.log.recovered import RecoveredLog
from replica.core.loopback import Loopback
from replica.core.metadata.encoding import CorruptMetadataRecordError
from replica.core.metadata.pages import page_of, topics_told
from replica.core.metadata.quotas import limit_table
from replica.core.metadata.replay import METADATA_LOG, MetadataReplay
from replica.core.metadata.resources import told_to
from replica.core.quorum import QuorumLog
from replica.core.rules import Rules
from replica.core.snapshotting import SnapshotPace, Snapshotting, not_for_this_replica
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, ReplicaId, TopicPartition

SETTLING_MAX = 100
"""More rounds than any chain of causes within one replica has: beyond that the core is going in circles."""


def _pace(config: MetadataConfig) -> SnapshotPace:
    return SnapshotPace(
        record_bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
        interval_ms=config.metadata_log_max_snapshot_interval_ms,
    )


class Member:
    """A replica that has the cluster's metadata in ``log``. Of the ``logs``, those with a topic id are partitions."""

    def __init__(
        self,
        *,
        config: ReplicaConfig,
        log: QuorumLog,
        logs: Mapping[TopicPartition, RecoveredLog],
        metadata: MetadataReplay,
        rules: Rules,
        emit: Callable[[Effect], None],
        is_halted: Callable[[], bool],
        next_correlation_id: Callable[[], CorrelationId],
    ) -> None:
        self._config = config
        self._log = log
        self._metadata = metadata
        self._recovered: RecoveredLog | None = logs[METADATA_LOG]
        self._emit = emit
        self._is_halted = is_halted
        self._next_correlation_id = next_correlation_id
        self._loopback = Loopback()
        self._numbers = numbers_of(config)
        self._configs = metadata.image.configs
        self.settings = NOTHING_SAID
        """What the metadata says of this replica's settings, as far as it is applied here."""
        self._limits = LimitTable()
        self._steps_seen = 0
        """How many steps of the log there were when it was looked at; those that it takes then are seen next."""
        self._has_news = False
        """Whether the controller was asked, or something was applied, since then."""
        self._due_ms: int | None = None
        self._snapshots = Snapshotting(log=log, machine=metadata, pace=_pace(config.metadata), emit=emit)
        self.controller = self._new_controller(rules)
        """The controller in this process, which decides while its replica leads the metadata log."""
        self.broker = self._new_broker(logs, rules)
        """The broker in this process; absent where the configuration has none."""

    def _new_controller(self, rules: Rules) -> QuorumController:
        """Build a controller, by default settings if need be.

        Anybody can come to lead the metadata log: a leader without a controller would leave the cluster without one.
        """
        return QuorumController(
            cluster_id=self._config.cluster_id,
            config=self._config.controller or ControllerConfig(),
            numbers=self._numbers,
            rules=rules,
            log=self._log,
            emit=self._emit_of_controller,
            initial_level=self._config.initial_level,
        )

    def _new_broker(self, logs: Mapping[TopicPartition, RecoveredLog], rules: Rules) -> Broker | None:
        partitions = {name: recovered for name, recovered in logs.items() if recovered.is_of_partition}
        if self._config.identity is None:
            assert not partitions, sorted(partitions)
            return None
        return Broker(
            config=self._config,
            identity=self._config.identity,
            metadata_end_offset=logs[METADATA_LOG].log_end_offset,
            recovered=partitions,
            rules=rules,
            emit=self._emit,
            send=self._send,
        )

    @property
    def deadline_ms(self) -> int | None:
        """When it is to settle at the latest; absent while only an event can change anything."""
        return earliest(self._due_ms, None if self.broker is None else self.broker.deadline_ms)

    # --- what happens -----------------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> None:
        """Begin with the newest snapshot of the metadata on disk: once, before anything is read of the log."""
        assert self._recovered is not None, METADATA_LOG
        recovered, self._recovered = self._recovered, None
        self._snapshots.restore_recovered(recovered, now_ms)

    def on_read(self, event: LogRead) -> None:
        """Apply what was read of the metadata log."""
        self._has_news = True
        try:
            self._snapshots.note_applied(self._metadata.on_read(event))
        except CorruptMetadataRecordError as error:
            what = f"what is committed from offset {self._metadata.applied_offset} on"
            self._emit(Halt(reason=f"{METADATA_LOG}: {not_for_this_replica(METADATA_LOG, what, error)}"))

    def on_controller_request(self, call_id: CallId, request: m.ControllerRequest, now_ms: int) -> None:
        """Let the controller decide, or say where another one may be."""
        self._has_news = True
        self.controller.on_request(call_id, request, now_ms)

    def on_peer_refused(self, event: PeerRefused, now_ms: int) -> None:
        """Let the controller know whose process has ended."""
        self._has_news = True
        self.controller.on_peer_refused(event.replica_id, event.refused_at_ms, now_ms)

    @property
    def brokers_alive(self) -> frozenset[ReplicaId]:
        """The other brokers of whose end the controller wants to hear at once."""
        return self.controller.brokers_alive - {self._config.replica_id}

    def describe_cluster(self, request: m.DescribeClusterRequest) -> m.DescribeClusterResponse:
        """Tell what the cluster has decided, as far as it is applied here."""
        image = self._metadata.image
        told, next_cursor = page_of(
            image, topics=request.topics, cursor=request.cursor, limit=request.response_partition_limit
        )
        return m.DescribeClusterResponse(
            error=ErrorCode.NONE,
            cluster_id=self._config.cluster_id,
            controller=self._log.current_leader,
            metadata_offset=self._metadata.applied_offset,
            brokers=tuple(image.brokers.values()),
            topics=topics_told(told),
            next_cursor=next_cursor,
        )

    # --- what follows from it ---------------------------------------------------------------------------------------

    def settle(self, now_ms: int) -> None:
        """Do what follows from all that has happened in this step, and what is due."""
        has_moved = False
        for _ in range(SETTLING_MAX):
            if self._has_moved(now_ms):
                has_moved = True
                self._settle_metadata(now_ms)
            broker = self.broker
            if broker is not None and (
                broker.has_news or (broker.deadline_ms is not None and broker.deadline_ms <= now_ms)
            ):
                flushed_end_offset = self._log.log.flushed_end_offset
                broker.settle(self._metadata, self._log.leader_id, now_ms, flushed_end_offset=flushed_end_offset)
            if self._is_halted() or not self._hand_over(now_ms):
                break
        else:
            raise AssertionError(f"more than {SETTLING_MAX} rounds at {now_ms}: the parts never stop asking each other")
        if has_moved and not self._is_halted():
            self._snapshots.maybe_store(self._metadata.view, now_ms)
            self._due_ms = earliest(self._snapshots.deadline_ms, self.controller.deadline_ms)

    def _has_moved(self, now_ms: int) -> bool:
        has_moved = self._has_news or self._log.steps != self._steps_seen
        return has_moved or (self._due_ms is not None and self._due_ms <= now_ms)

    def _settle_metadata(self, now_ms: int) -> None:
        self._has_news, self._steps_seen, self._due_ms = False, self._log.steps, None
        self._snapshots.restore_received(now_ms)
        read = self._metadata.next_read(self._log.log.high_watermark)
        if read is not None:
            self._emit(read)
        self._follow_settings(now_ms)
        self.controller.settle(self._metadata, now_ms)
        if self.broker is not None:
            self.broker.has_news = True

    def _follow_settings(self, now_ms: int) -> None:
        """Go by what the metadata says of this replica's settings by now."""
        configs = self._metadata.image.configs
        if configs is self._configs:
            return
        self._configs = configs
        settings = settings_in_force(self._numbers, told_to(configs, self._config.replica_id))
        limits = limit_table(configs)
        if (settings, limits) == (self.settings, self._limits):
            return
        self.settings, self._limits = settings, limits
        self._snapshots.pace = _pace(with_values(self._config.metadata, settings.values))
        if self.broker is not None:
            self.broker.configure(with_values(self._config.broker, settings.values), now_ms)
        self._emit(ApplySettings(values=settings.values, left_out=settings.left_out, limits=limits))

    def _hand_over(self, now_ms: int) -> bool:
        """Pass on what the parts ask of each other; whether there was anything."""
        was_asked = False
        while (asked := self._loopback.take_request()) is not None:
            self.on_controller_request(*asked, now_ms)
            was_asked = True
        while (answered := self._loopback.take_answer()) is not None:
            assert self.broker is not None, answered
            self.broker.on_response(*answered, now_ms)
            was_asked = True
        return was_asked

    # --- effects ----------------------------------------------------------------------------------------------------

    def _emit_of_controller(self, effect: Effect) -> None:
        """Pass an effect on, unless it is an answer to what the broker in this very process has asked."""
        if not self._loopback.catches(effect):
            self._emit(effect)

    def _send(self, replica_id: ReplicaId, request: m.PeerRequest, timeout_ms: int) -> CorrelationId:
        """Send a request of the broker, or keep it if it is for the controller in this very process."""
        correlation_id = self._next_correlation_id()
        if replica_id == self._config.replica_id:
            assert isinstance(request, m.ControllerRequest), request
            self._loopback.ask(correlation_id, request)
        else:
            self._emit(
                Send(replica_id=replica_id, correlation_id=correlation_id, request=request, timeout_ms=timeout_ms)
            )
        return correlation_id
