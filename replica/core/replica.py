"""A replica: quorum logs, on the one that holds the cluster's metadata a controller and a broker, on others groups.

Owns the routing of events to its parts and the order in which they follow from one another; nothing that only one part
knows. The driver hands in events and performs effects; it is the only thing that touches clocks, disks and networks.

Two tables say who takes what: a request by its type, anything else that happens by its own. A quorum log is stepped if
something concerns it or it is due, and whoever reads it then *settles*: a group, or what this replica is in its cluster
(``member``). Whom nothing concerns is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from replica.core import messages as m
from replica.core.config import ReplicaConfig
from replica.core.controller.controller import CONTROLLER_REQUESTS
from replica.core.dynamic_settings import NOTHING_SAID, DynamicSettings
from replica.core.earliest import earliest
from replica.core.effects import Effect, Halt, Reply, Send
from replica.core.events import (
    BatchFound,
    ClockRead,
    Event,
    Flushed,
    LogDamaged,
    LogDirectoryFailed,
    LogRead,
    LogStartMoved,
    PeerRefused,
    ProducersScanned,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    SendFailed,
    SnapshotStored,
    SnapshotTooLarge,
    Started,
    StorageFailed,
    Ticked,
)
from replica.core.group import Group
from replica.core.group.group import GROUP_REQUESTS
from replica.core.log.recovered import RecoveredLog
from replica.core.member import Member
from replica.core.metadata.replay import METADATA_LOG, MetadataReplay
from replica.core.quorum import QuorumLog
from replica.core.quorum.quorum_log import QUORUM_REQUESTS
from replica.core.refusals import refusal
from replica.core.rules import Rules
from replica.deadlines import Deadlines
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, ReplicaId, TopicPartition
from replica.machines import AppliedLog

StorageReport = Flushed | SnapshotStored | SnapshotTooLarge | BatchFound | ProducersScanned | LogStartMoved


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
        self._concerned: set[TopicPartition] = set()
        """Quorum logs with which something was done, or with who reads them, that has not settled yet."""
        self._deadlines = Deadlines[TopicPartition]()
        """When a quorum log, or who reads it, is due; of those that are concerned it is not up to date."""
        self.watched_peers: frozenset[ReplicaId] = frozenset()
        """Of whose end (``PeerRefused``) this replica wants to hear at once; another object when they are others."""
        self._last_correlation_id = CorrelationId(0)
        self._asked_by_logs: dict[CorrelationId, TopicPartition] = {}
        """Which quorum log has asked; what is neither here nor a group's, the broker has."""
        self._asked_by_groups: dict[CorrelationId, TopicPartition] = {}
        rules = rules or Rules()
        self._logs = {
            topic_partition: QuorumLog(
                topic_partition=topic_partition,
                config=config,
                recovered=recovered,
                rules=rules.of_quorum_logs,
                random=random,
                next_correlation_id=partial(self._next_correlation_id, topic_partition),
                is_of_group=topic_partition in (groups or {}),
            )
            for topic_partition, recovered in logs.items()
            if not recovered.is_of_partition
        }
        self._order = {name: place for place, name in enumerate(self._logs)}
        places = {name: place for place, name in enumerate(sorted(groups or {}))}
        self._groups = {
            name: self._new_group(name, logs, rules, machine, places[name]) for name, machine in (groups or {}).items()
        }
        self.metadata = MetadataReplay(
            read_max_bytes=config.broker.metadata_read_max_bytes, rules=rules, newest_level=config.newest_level
        )
        """What the cluster has decided, as far as this replica has applied it."""
        self._member = self._new_member(logs, rules)
        self.controller = None if self._member is None else self._member.controller
        """The controller in this process; absent where the configuration or the quorum gives it no such part."""
        self.broker = None if self._member is None else self._member.broker
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

    def _new_member(self, logs: Mapping[TopicPartition, RecoveredLog], rules: Rules) -> Member | None:
        log = self._logs.get(METADATA_LOG)
        if log is None:
            assert not any(recovered.is_of_partition for recovered in logs.values()), sorted(logs)
            return None
        return Member(
            config=self.config,
            log=log,
            logs=logs,
            metadata=self.metadata,
            rules=rules,
            emit=self._emit,
            is_halted=lambda: self.halted is not None,
            next_correlation_id=partial(self._next_correlation_id, None),
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
    def settings(self) -> DynamicSettings:
        """What the metadata says of this replica's settings, as far as it is applied here."""
        return NOTHING_SAID if self._member is None else self._member.settings

    @property
    def deadline_ms(self) -> int | None:
        """When ``step(Ticked())`` is wanted at the latest; absent while only an event can change anything."""
        return earliest(self._deadlines.earliest_ms, None if self._member is None else self._member.deadline_ms)

    def step(self, event: Event, now_ms: int) -> tuple[Effect, ...]:
        """Take one event at ``now_ms`` (monotonic milliseconds) and return what the driver must do, in order.

        After a Halt every further event is met with silence.
        """
        if self.halted is not None:
            return ()
        if isinstance(event, RequestReceived):
            ON_REQUEST[type(event.request)](self, event.call_id, event.request, now_ms)
        else:
            ON_EVENT[type(event)](self, event, now_ms)
        self._tick_logs(now_ms)
        if self._member is not None and self.halted is None:
            steps = self._logs[METADATA_LOG].steps
            self._member.settle(now_ms)
            if self._logs[METADATA_LOG].steps != steps:
                self._concerned.add(METADATA_LOG)
        if self._concerned:
            self._settle_logs(now_ms)
        effects, self._outbox = tuple(self._outbox), []
        return effects

    # --- requests ---------------------------------------------------------------------------------------------------

    def _on_log_request(self, call_id: CallId, request: m.LogRequest, now_ms: int) -> None:
        name = request.topic_partition
        if name in self._logs:
            if isinstance(request, m.ProduceRequest) and (name == METADATA_LOG or name in self._groups):
                self._refuse(call_id, request, ErrorCode.INVALID_REQUEST)  # Only who reads this log writes into it.
            else:
                self._step_log(name, RequestReceived(call_id=call_id, request=request), now_ms)
        elif self.broker is None:
            self._refuse(call_id, request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif (partition := self.broker.partition_for(call_id, request)) is not None:
            partition.on_request(call_id, request, now_ms)

    def _on_fetch(self, call_id: CallId, request: m.FetchRequest, now_ms: int) -> None:
        log = self._logs.get(request.partitions[0].topic_partition) if request.partitions else None
        if log is not None:
            self._step_log(log.topic_partition, RequestReceived(call_id=call_id, request=request), now_ms)
        elif self.broker is not None:
            self.broker.server.on_fetch(call_id, request, now_ms)
        else:
            self._refuse(call_id, request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _on_group_request(self, call_id: CallId, request: m.GroupRequest, now_ms: int) -> None:
        name = request.topic_partition
        if name not in self._groups:
            self._refuse(call_id, request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        self._tick_logs(now_ms)  # A leader that has to resign by now takes no more commands.
        if self.halted is None:
            self._concerned.add(name)
            self._groups[name].on_request(call_id, request, now_ms)

    def _on_controller_request(self, call_id: CallId, request: m.ControllerRequest, now_ms: int) -> None:
        if isinstance(request, m.CreateTopicRequest) and any(request.name == name.topic for name in self._groups):
            message = f"{request.name} is the name of a group"
            response = m.CreateTopicResponse(error=ErrorCode.INVALID_TOPIC_EXCEPTION, message=message)
            self._emit(Reply(call_id=call_id, response=response))
            return
        if self._member is None:
            self._refuse(call_id, request, ErrorCode.NOT_CONTROLLER)
            return
        self._concerned.add(METADATA_LOG)
        self._member.on_controller_request(call_id, request, now_ms)

    def _on_describe_cluster(self, call_id: CallId, request: m.DescribeClusterRequest, _now_ms: int) -> None:
        if request.cluster_id not in (None, self.config.cluster_id):
            self._refuse(call_id, request, ErrorCode.INCONSISTENT_CLUSTER_ID)
        elif self._member is None:
            self._refuse(call_id, request, ErrorCode.BROKER_NOT_AVAILABLE)
        else:
            self._emit(Reply(call_id=call_id, response=self._member.describe_cluster(request)))

    def _refuse(self, call_id: CallId, request: m.Request, error: ErrorCode) -> None:
        self._emit(Reply(call_id=call_id, response=refusal(request, error)))

    # --- what else happens ------------------------------------------------------------------------------------------

    def _on_started(self, event: Started, now_ms: int) -> None:
        self._on_clock(event, now_ms)
        self._step_every_log(event, now_ms)
        if self._member is not None and self.halted is None:
            self._member.start(now_ms)
        for group in self._groups.values():
            group.start(now_ms)

    def _on_ticked(self, _event: Ticked, _now_ms: int) -> None:
        """Do nothing else: what is due is done in every step."""

    def _on_clock(self, event: Started | ClockRead, now_ms: int) -> None:
        if self.broker is not None and event.unix_ms is not None:
            self.broker.lifecycle.clock.on_read(event.unix_ms, now_ms)

    def _on_answer(self, event: ResponseReceived | SendFailed, now_ms: int) -> None:
        log = self._asked_by_logs.pop(event.correlation_id, None)
        asking_group = self._asked_by_groups.pop(event.correlation_id, None)
        if log is not None:
            self._step_log(log, event, now_ms)
        elif asking_group is not None:
            self._concerned.add(asking_group)
            self._groups[asking_group].on_answer(event)
        elif self.broker is not None:
            asker = self.broker.fetchers if self.broker.fetchers.owns(event.correlation_id) else self.broker
            if isinstance(event, ResponseReceived):
                asker.on_response(event.correlation_id, event.response, now_ms)
            else:
                asker.on_failed(event.correlation_id, now_ms)

    def _on_peer_refused(self, event: PeerRefused, now_ms: int) -> None:
        if event.replica_id in self.watched_peers:
            self._step_every_log(event, now_ms)
            if self._member is not None:
                self._member.on_peer_refused(event, now_ms)

    def _on_storage(self, event: StorageReport, now_ms: int) -> None:
        """Hand what storage reports of a log to who has it, unless that is gone."""
        if event.topic_partition in self._logs:
            self._step_log(event.topic_partition, event, now_ms)
            return
        assert self.broker is not None, event
        partition = self.broker.touch(event.topic_partition)
        if partition is None:
            return
        match event:
            case Flushed(end_offset=end_offset):
                partition.on_flushed(end_offset, now_ms)
            case BatchFound(offset=offset, base_offset=base_offset):
                partition.on_batch_found(offset, base_offset)
            case ProducersScanned(producers=producers):
                partition.on_producers_scanned(producers)
            case LogStartMoved(log_start_offset=log_start_offset):
                partition.on_log_start_moved(log_start_offset)
            case _:
                raise AssertionError(f"{event.topic_partition} is a partition: it has no snapshots")

    def _on_damaged(self, event: LogDamaged, now_ms: int) -> None:
        assert self.broker is not None, event
        self.broker.on_log_damaged(event, now_ms)

    def _on_directory_failed(self, event: LogDirectoryFailed, now_ms: int) -> None:
        if self.broker is not None:  # Whoever keeps no partitions does not need the directory.
            self.broker.on_directory_failed(event, now_ms)

    def _on_read(self, event: LogRead, _now_ms: int) -> None:
        self._concerned.add(event.topic_partition)
        if event.topic_partition in self._groups:
            self._groups[event.topic_partition].on_read(event)
        else:
            assert self._member is not None, event
            self._member.on_read(event)

    def _on_resign_requested(self, event: ResignRequested, now_ms: int) -> None:
        self._step_every_log(event, now_ms)
        if self.broker is not None:
            self.broker.shut_down(now_ms)

    def _step_every_log(self, event: Event, now_ms: int) -> None:
        for name in self._logs:
            if self.halted is None:
                self._step_log(name, event, now_ms)

    def _step_log(self, name: TopicPartition, event: Event, now_ms: int) -> None:
        self._concerned.add(name)
        for effect in self._logs[name].step(event, now_ms):
            self._emit(effect)

    # --- what follows from it ---------------------------------------------------------------------------------------

    def _settle_logs(self, now_ms: int) -> None:
        """Let the groups look whose logs are concerned, because something has happened or because they are due.

        Who has acted on its log looks at it again in the next step, whatever that is of.
        """
        concerned, self._concerned = sorted(self._concerned, key=self._order.__getitem__), set()
        for name in concerned:
            log, group = self._logs[name], self._groups.get(name)
            steps = log.steps
            if group is not None and self.halted is None:
                group.settle(now_ms)
            if log.steps != steps:
                self._concerned.add(name)
            self._deadlines.set(name, earliest(log.deadline_ms, None if group is None else group.deadline_ms))
        self._choose_watched()

    def _choose_watched(self) -> None:
        """Name anew whose end is to be told at once, after something that can have changed that."""
        leaders = {leader_id for log in self._logs.values() if (leader_id := log.watched_leader) is not None}
        watched = leaders if self._member is None else leaders | self._member.brokers_alive
        if watched != self.watched_peers:
            self.watched_peers = frozenset(watched)

    def _tick_logs(self, now_ms: int) -> None:
        """Let no quorum log go on past what it has to do by now, because the event concerned something else.

        A process that was paused for long may first come upon requests for its broker: a leader that resigns by then
        must not decide anything as a controller first.
        """
        self._concerned.update(self._deadlines.take_due(now_ms))
        for name in sorted(self._concerned, key=self._order.__getitem__):
            deadline_ms = self._logs[name].deadline_ms
            if deadline_ms is not None and deadline_ms <= now_ms and self.halted is None:
                self._step_log(name, Ticked(), now_ms)

    # --- effects ----------------------------------------------------------------------------------------------------

    def _emit(self, effect: Effect) -> None:
        """Add an effect to this step's; nothing follows a Halt."""
        if self.halted is not None:
            return
        self._outbox.append(effect)
        if isinstance(effect, Halt):
            self.halted = effect.reason

    def _send_of_group(
        self, name: TopicPartition, replica_id: ReplicaId, request: m.PeerRequest, timeout_ms: int
    ) -> CorrelationId:
        """Send a request of a group; its answer goes to that."""
        correlation_id = self._next_correlation_id(None)
        self._asked_by_groups[correlation_id] = name
        self._emit(Send(replica_id=replica_id, correlation_id=correlation_id, request=request, timeout_ms=timeout_ms))
        return correlation_id

    def _next_correlation_id(self, owner: TopicPartition | None) -> CorrelationId:
        self._last_correlation_id = CorrelationId(self._last_correlation_id + 1)
        if owner is not None:
            self._asked_by_logs[self._last_correlation_id] = owner
        return self._last_correlation_id


ON_REQUEST: Mapping[type[m.Request], Callable[[Replica, CallId, Any, int], None]] = {
    **dict.fromkeys(QUORUM_REQUESTS, Replica._on_log_request),
    **dict.fromkeys(GROUP_REQUESTS, Replica._on_group_request),
    **dict.fromkeys(CONTROLLER_REQUESTS, Replica._on_controller_request),
    m.FetchRequest: Replica._on_fetch,
    m.DescribeClusterRequest: Replica._on_describe_cluster,
}
"""Who takes which request."""

ON_EVENT: Mapping[type[Event], Callable[[Replica, Any, int], None]] = {
    Started: Replica._on_started,
    Ticked: Replica._on_ticked,
    ClockRead: Replica._on_clock,
    ResponseReceived: Replica._on_answer,
    SendFailed: Replica._on_answer,
    PeerRefused: Replica._on_peer_refused,
    Flushed: Replica._on_storage,
    SnapshotStored: Replica._on_storage,
    SnapshotTooLarge: Replica._on_storage,
    LogRead: Replica._on_read,
    BatchFound: Replica._on_storage,
    ProducersScanned: Replica._on_storage,
    LogStartMoved: Replica._on_storage,
    LogDamaged: Replica._on_damaged,
    LogDirectoryFailed: Replica._on_directory_failed,
    StorageFailed: Replica._step_every_log,
    ResignRequested: Replica._on_resign_requested,
}
"""Who takes what else happens."""
