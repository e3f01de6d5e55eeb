"""A replica: quorum logs, on the one that holds the cluster's metadata a controller and a broker, on others groups.

Owns the routing of events to its parts and the order in which they follow from one another; nothing that only one part
knows. The driver hands in events and performs effects; it is the only thing that touches clocks, disks and networks.

After each event the replica *settles*: a snapshot of the metadata that has come is restored, what has been committed is
read and applied, the controller becomes active or ceases to be, the broker acts on what is new, and what one asks of
the other is handed over. Each group settles for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random

from replica.core import messages as m
from replica.core.broker.broker import Broker
from replica.core.config import ControllerConfig, ReplicaConfig
from replica.core.controller.quorum_controller import QuorumController
from replica.core.earliest import earliest
from replica.core.effects import Effect, Halt, Reply, Send
from replica.core.events import (
    BatchFound,
    ClockRead,
    Event,
    Flushed,
    LogDamaged,
    LogRead,
    LogStartMoved,
    ProducersScanned,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SendFailed,
    SnapshotStored,
    Started,
    StorageFailed,
    Ticked,
)
from replica.core.group import Group
from replica.core.loopback import Loopback
from replica.core.metadata.pages import page_of, topics_told
from replica.core.metadata.replay import METADATA_LOG, MetadataReplay
from replica.core.quorum import QuorumLog
from replica.core.recovered import RecoveredLog
from replica.core.refusals import refusal
from replica.core.rules import Rules
from replica.core.snapshotting import SnapshotPace, Snapshotting
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, ReplicaId, TopicPartition
from replica.machines import AppliedLog

SETTLING_MAX = 100
"""More rounds than any chain of causes within one replica has: beyond that the core is going in circles."""


class Replica:
    """One replica process as a value-in, value-out machine over all its logs. Not reentrant.

    Of the ``logs``, those with a topic id are partitions of the broker, the others are kept by quorums. ``groups`` are
    fresh machines for some of the latter. ``random`` is used for election jitter only. ``rules`` are the protocol's
    decisions; nothing but a test of the tests passes other than the default.
    """

    def __init__(
        self,
        *,
        config: ReplicaConfig,
        logs: Mapping[TopicPartition, RecoveredLog],
        random: Random,
        rules: Rules | None = None,
        groups: Mapping[TopicPartition, AppliedLog] | None = None,
    ) -> None:
        self.config = config
        self.halted: str | None = None
        """Why this replica has stopped for good; absent while it runs."""
        self._outbox: list[Effect] = []
        self._is_deadline_known = False
        self._deadline_ms: int | None = None
        self._last_correlation_id = CorrelationId(0)
        self._owners: dict[CorrelationId, TopicPartition] = {}
        """Which quorum log has asked; what is neither here nor a group's, the broker has."""
        self._asked_by_groups: dict[CorrelationId, Group] = {}
        self._loopback = Loopback()
        rules = rules or Rules()
        self._logs = {
            topic_partition: QuorumLog(
                topic_partition=topic_partition,
                config=config,
                recovered=recovered,
                rules=rules.of_quorum_logs,
                random=random,
                next_correlation_id=partial(self._next_correlation_id, topic_partition),
                has_leases=config.group.lease_reads and topic_partition in (groups or {}),
            )
            for topic_partition, recovered in logs.items()
            if not recovered.is_of_partition
        }
        places = {name: place for place, name in enumerate(sorted(groups or {}))}
        self._groups = {
            name: self._new_group(name, logs, rules, machine, places[name]) for name, machine in (groups or {}).items()
        }
        self._metadata_log = self._logs.get(METADATA_LOG)
        self.metadata = MetadataReplay(read_max_bytes=config.broker.metadata_read_max_bytes, rules=rules)
        """What the cluster has decided, as far as this replica has applied it."""
        self._metadata_recovered = logs.get(METADATA_LOG)
        self._metadata_snapshots = self._new_metadata_snapshots()
        self.controller = self._new_controller(rules)
        """The controller in this process; absent where the configuration or the quorum gives it no such part."""
        self.broker = self._new_broker(logs, rules)
        """The broker in this process; absent where the configuration has none."""

    def _new_group(
        self,
        name: TopicPartition,
        logs: Mapping[TopicPartition, RecoveredLog],
        rules: Rules,
        machine: AppliedLog,
        place: int,
    ) -> Group:
        assert name in self._logs, f"{name} is no log that is kept by a quorum"
        assert name != METADATA_LOG, name
        return Group(
            config=self.config.group,
            log=self._logs[name],
            recovered=logs[name],
            machine=machine,
            rules=rules.of_quorum_logs,
            emit=self._emit,
            send=partial(self._send_of_group, name),
            place=place,
        )

    def _new_metadata_snapshots(self) -> Snapshotting | None:
        """Build what takes and restores snapshots of the metadata, whatever part this replica has in the cluster."""
        if self._metadata_log is None:
            return None
        pace = SnapshotPace(
            record_bytes_between=self.config.metadata.metadata_log_max_record_bytes_between_snapshots,
            interval_ms=self.config.metadata.metadata_log_max_snapshot_interval_ms,
        )
        return Snapshotting(log=self._metadata_log, machine=self.metadata, pace=pace, emit=self._emit)

    def _new_controller(self, rules: Rules) -> QuorumController | None:
        """Build the controller of who can lead the metadata log.

        Where voters change that is anybody, by default settings if need be: a leader without a controller would leave
        the cluster without one.
        """
        log, config = self._metadata_log, self.config.controller
        if not self.config.has_static_voters:
            config = config or ControllerConfig()
        elif log is not None and not log.is_voter:
            return None
        if log is None or config is None:
            return None
        return QuorumController(cluster_id=self.config.cluster_id, config=config, rules=rules, log=log, emit=self._emit)

    def _new_broker(self, logs: Mapping[TopicPartition, RecoveredLog], rules: Rules) -> Broker | None:
        partitions = {name: recovered for name, recovered in logs.items() if recovered.is_of_partition}
        if self.config.identity is None or self._metadata_log is None:
            assert not partitions, sorted(partitions)
            return None
        return Broker(
            config=self.config,
            identity=self.config.identity,
            metadata_end_offset=logs[METADATA_LOG].log_end_offset,
            recovered=partitions,
            rules=rules,
            emit=self._emit,
            send=self._send,
        )

    @property
    def logs(self) -> Mapping[TopicPartition, QuorumLog]:
        """The quorum logs that this replica hosts, to look at between steps."""
        return self._logs

    @property
    def groups(self) -> Mapping[TopicPartition, Group]:
        """The groups that this replica hosts, to look at between steps."""
        return self._groups

    @property
    def deadline_ms(self) -> int | None:
        """When ``step(Ticked())`` is wanted at the latest; absent while only an event can change anything."""
        if not self._is_deadline_known:  # It changes with a step only, and is asked for before and after.
            self._deadline_ms = earliest(
                *[log.deadline_ms for log in self._logs.values()],
                *[group.deadline_ms for group in self._groups.values()],
                None if self._metadata_snapshots is None else self._metadata_snapshots.deadline_ms,
                None if self.controller is None else self.controller.deadline_ms,
                None if self.broker is None else self.broker.deadline_ms,
            )
            self._is_deadline_known = True
        return self._deadline_ms

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """Take one event at ``now_ms`` (monotonic milliseconds) and return what the driver must do, in order.

        After a Halt every further event is met with silence.
        """
        if self.halted is not None:
            return ()
        self._is_deadline_known = False
        self._route(event, now_ms)
        if self._metadata_log is not None and self._metadata_snapshots is not None and self.halted is None:
            self._tick_logs(now_ms)
            self._metadata_snapshots.restore_received(now_ms)
            self._settle(self._metadata_log, now_ms)
            if self.halted is None:
                self._metadata_snapshots.maybe_store(self.metadata.snapshot, now_ms)
        if self._groups and self.halted is None:
            self._settle_groups(now_ms)
        effects, self._outbox = tuple(self._outbox), []
        return effects

    # --- where an event goes ----------------------------------------------------------------------------------------

    def _route(self, event: Event, now_ms: int) -> None:
        match event:
            case RequestReceived(call_id=call_id, request=request):
                self._on_request(call_id, request, now_ms)
            case ResponseReceived(correlation_id=correlation_id) | SendFailed(correlation_id=correlation_id):
                owner = self._owners.pop(correlation_id, None)
                group = self._asked_by_groups.pop(correlation_id, None)
                if owner is not None:
                    self._step_log(self._logs[owner], event, now_ms)
                elif group is not None:
                    group.on_answer(event)
                elif self.broker is not None:
                    _answer(self.broker, event, now_ms)
            case Flushed(topic_partition=topic_partition) if topic_partition in self._logs:
                self._step_log(self._logs[topic_partition], event, now_ms)
            case LogRead(topic_partition=topic_partition) if topic_partition in self._groups:
                self._groups[topic_partition].on_read(event)
            case LogRead():
                self._on_metadata_read(event)
            case SnapshotStored(topic_partition=topic_partition):
                self._step_log(self._logs[topic_partition], event, now_ms)
            case Flushed() | BatchFound() | ProducersScanned() | LogStartMoved() | LogDamaged():
                self._on_storage(event, now_ms)
            case ClockRead(unix_ms=unix_ms):
                self._on_clock(unix_ms, now_ms)
            case Started(unix_ms=unix_ms):
                self._on_clock(unix_ms, now_ms)
                self._step_every_log(event, now_ms)
                self._restore_metadata(now_ms)
                for group in self._groups.values():
                    group.start(now_ms)
            case Ticked() | StorageFailed():
                self._step_every_log(event, now_ms)
            case ResignRequested():
                self._step_every_log(event, now_ms)
                if self.broker is not None:
                    self.broker.shut_down(now_ms)

    def _on_storage(
        self, event: Flushed | BatchFound | ProducersScanned | LogStartMoved | LogDamaged, now_ms: int
    ) -> None:
        assert self.broker is not None, event
        if isinstance(event, LogDamaged):
            self.broker.on_log_damaged(event, now_ms)
        else:
            self.broker.on_storage(event, now_ms)

    def _on_clock(self, unix_ms: int | None, now_ms: int) -> None:
        if self.broker is not None and unix_ms is not None:
            self.broker.lifecycle.clock.on_read(unix_ms, now_ms)

    def _restore_metadata(self, now_ms: int) -> None:
        """Begin with the newest snapshot of the metadata on disk: once, before anything is read of the log."""
        recovered, self._metadata_recovered = self._metadata_recovered, None
        if self._metadata_snapshots is not None and recovered is not None and self.halted is None:
            self._metadata_snapshots.restore_recovered(recovered, now_ms)

    def _on_metadata_read(self, event: LogRead) -> None:
        assert self._metadata_snapshots is not None, event
        self._metadata_snapshots.note_applied(self.metadata.on_read(event))

    def _on_request(self, call_id: CallId, request: m.Request, now_ms: int) -> None:
        match request:
            case m.FetchRequest(partitions=partitions):
                log = self._logs.get(partitions[0].topic_partition) if partitions else None
                if log is not None:
                    self._step_log(log, RequestReceived(call_id=call_id, request=request), now_ms)
                elif self.broker is not None:
                    self.broker.on_fetch(call_id, request, now_ms)
                else:
                    self._refuse(call_id, request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            case m.DescribeClusterRequest():
                self._emit(Reply(call_id=call_id, response=self._describe_cluster(request)))
            case m.ProduceRequest(topic_partition=topic_partition) if self._is_written_by_itself(topic_partition):
                self._refuse(call_id, request, ErrorCode.INVALID_REQUEST)
            case m.ApplyRequest() | m.QueryRequest() | m.ReadIndexRequest():
                self._on_group_request(call_id, request, now_ms)
            case _ if isinstance(request, m.ControllerRequest):
                self._ask_controller(call_id, request, now_ms)
            case _:
                self._on_log_request(call_id, request, now_ms)

    def _is_written_by_itself(self, topic_partition: TopicPartition) -> bool:
        """Whether only the controller, or only the group on it, writes into this log."""
        return topic_partition == METADATA_LOG or topic_partition in self._groups

    def _on_group_request(self, call_id: CallId, request: m.GroupRequest, now_ms: int) -> None:
        group = self._groups.get(request.topic_partition)
        if group is None:
            self._refuse(call_id, request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        self._tick_logs(now_ms)  # A leader that has to resign by now takes no more commands.
        if self.halted is None:
            group.on_request(call_id, request, now_ms)

    def _on_log_request(self, call_id: CallId, request: m.LogRequest, now_ms: int) -> None:
        log = self._logs.get(request.topic_partition)
        if log is not None:
            self._step_log(log, RequestReceived(call_id=call_id, request=request), now_ms)
        elif self.broker is not None:
            self.broker.on_request(call_id, request, now_ms)
        else:
            self._refuse(call_id, request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _ask_controller(self, call_id: CallId, request: m.ControllerRequest, now_ms: int) -> None:
        if isinstance(request, m.CreateTopicRequest) and any(request.name == name.topic for name in self._groups):
            message = f"{request.name} is the name of a group"
            response = m.CreateTopicResponse(error=ErrorCode.INVALID_TOPIC_EXCEPTION, message=message)
            self._emit(Reply(call_id=call_id, response=response))
            return
        if self.controller is not None:
            self.controller.on_request(call_id, request, now_ms)
            return
        leader = None if self._metadata_log is None else self._metadata_log.current_leader
        refused = refusal(request, ErrorCode.NOT_CONTROLLER, current_leader=leader)
        self._emit(Reply(call_id=call_id, response=refused))

    def _describe_cluster(self, request: m.DescribeClusterRequest) -> m.DescribeClusterResponse:
        if request.cluster_id not in (None, self.config.cluster_id):
            return m.DescribeClusterResponse(error=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if self._metadata_log is None:
            return m.DescribeClusterResponse(error=ErrorCode.BROKER_NOT_AVAILABLE)
        image = self.metadata.image
        told, next_cursor = page_of(
            image, topics=request.topics, cursor=request.cursor, limit=request.response_partition_limit
        )
        return m.DescribeClusterResponse(
            error=ErrorCode.NONE,
            cluster_id=self.config.cluster_id,
            controller=self._metadata_log.current_leader,
            metadata_offset=self.metadata.applied_offset,
            brokers=tuple(image.brokers.values()),
            topics=topics_told(told),
            next_cursor=next_cursor,
        )

    def _refuse(self, call_id: CallId, request: m.Request, error: ErrorCode) -> None:
        self._emit(Reply(call_id=call_id, response=refusal(request, error)))

    # --- what follows from it ---------------------------------------------------------------------------------------

    def _tick_logs(self, now_ms: int) -> None:
        """Let no quorum log go on past what it has to do by now, because the event concerned something else.

        A process that was paused for long may first come upon requests for its broker: a leader that resigns by then
        must not decide anything as a controller first.
        """
        for log in self._logs.values():
            deadline_ms = log.deadline_ms
            if deadline_ms is not None and deadline_ms <= now_ms and self.halted is None:
                self._step_log(log, Ticked(), now_ms)

    def _settle(self, log: QuorumLog, now_ms: int) -> None:
        for _ in range(SETTLING_MAX):
            read = self.metadata.next_read(log.log.high_watermark)
            if read is not None:
                self._emit(read)
            if self.controller is not None:
                self.controller.settle(self.metadata, now_ms)
            if self.broker is not None:
                flushed_end_offset = log.log.flushed_end_offset
                self.broker.settle(self.metadata, log.leader_id, now_ms, flushed_end_offset=flushed_end_offset)
            if self.halted is not None or not self._hand_over(now_ms):
                return
        raise AssertionError(f"more than {SETTLING_MAX} rounds at {now_ms}: the parts never stop asking each other")

    def _settle_groups(self, now_ms: int) -> None:
        self._tick_logs(now_ms)
        for group in self._groups.values():
            if self.halted is None:
                group.settle(now_ms)

    def _hand_over(self, now_ms: int) -> bool:
        """Pass on what the parts ask of each other; whether there was anything."""
        was_asked = False
        while (asked := self._loopback.take_request()) is not None:
            self._ask_controller(*asked, now_ms)
            was_asked = True
        while (answered := self._loopback.take_answer()) is not None:
            assert self.broker is not None, answered
            self.broker.on_response(*answered, now_ms)
            was_asked = True
        return was_asked

    def _step_every_log(self, event: Event, now_ms: int) -> None:
        for log in self._logs.values():
            if self.halted is None:
                self._step_log(log, event, now_ms)

    def _step_log(self, log: QuorumLog, event: Event, now_ms: int) -> None:
        for effect in log.step(event, now_ms):
            self._emit(effect)

    # --- effects ----------------------------------------------------------------------------------------------------

    def _emit(self, effect: Effect) -> None:
        """Add an effect to this step's; nothing follows a Halt, and what the parts ask of each other stays here."""
        if self.halted is not None or self._loopback.catches(effect):
            return
        self._outbox.append(effect)
        if isinstance(effect, Halt):
            self.halted = effect.reason

    def _send(self, replica_id: ReplicaId, request: m.PeerRequest, timeout_ms: int) -> CorrelationId:
        """Send a request of the broker, or keep it if it is for the controller in this very process."""
        correlation_id = self._next_correlation_id(None)
        if replica_id == self.config.replica_id:
            assert isinstance(request, m.ControllerRequest), request
            self._loopback.ask(correlation_id, request)
        else:
            self._emit(
                Send(replica_id=replica_id, correlation_id=correlation_id, request=request, timeout_ms=timeout_ms)
            )
        return correlation_id

    def _send_of_group(
        self, name: TopicPartition, replica_id: ReplicaId, request: m.PeerRequest, timeout_ms: int
    ) -> CorrelationId:
        """Send a request of a group; its answer goes to that."""
        correlation_id = self._next_correlation_id(None)
        self._asked_by_groups[correlation_id] = self._groups[name]
        self._emit(Send(replica_id=replica_id, correlation_id=correlation_id, request=request, timeout_ms=timeout_ms))
        return correlation_id

    def _next_correlation_id(self, owner: TopicPartition | None) -> CorrelationId:
        self._last_correlation_id = CorrelationId(self._last_correlation_id + 1)
        if owner is not None:
            self._owners[self._last_correlation_id] = owner
        return self._last_correlation_id


def _answer(broker: Broker, event: ResponseReceived | SendFailed, now_ms: int) -> None:
    match event:
        case ResponseReceived(correlation_id=correlation_id, response=response):
            broker.on_response(correlation_id, response, now_ms)
        case SendFailed(correlation_id=correlation_id):
            broker.on_send_failed(correlation_id, now_ms)
