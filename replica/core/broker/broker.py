"""A broker as a machine: its standing with the controller, its partitions, and what they ask of others.

Owns who is asked what next. An event first reaches the part that it concerns; then the broker *settles*: partitions
that were touched wake their parked fetches, propose ISRs, and have their leaders asked. Knows nothing of how the
metadata log is kept: it is handed the image of what is committed.

Source: Kafka ``BrokerServer``, ``ReplicaManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from replica.core.broker.fetchers import Fetchers
from replica.core.broker.hosting import Hosting, OfflinePartition
from replica.core.broker.lifecycle import Lifecycle
from replica.core.broker.proposals import Proposals
from replica.core.broker.serving import FetchServer
from replica.core.config import BrokerConfig, BrokerIdentity, ReplicaConfig
from replica.core.earliest import earliest
from replica.core.effects import Effect, Halt, Reply, StoreHighWatermarks
from replica.core.events import LogDamaged, LogDirectoryFailed
from replica.core.log.producing import has_valid_acks
from replica.core.log.recovered import RecoveredLog
from replica.core.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    BrokerRequest,
    LogRequest,
    OfflineReplica,
    PeerRequest,
    PeerResponse,
    ProduceRequest,
)
from replica.core.metadata.image import BrokerRegistration, MetadataImage
from replica.core.metadata.replay import MetadataReplay
from replica.core.partition import Partition, SessionFetch
from replica.core.refusals import refusal
from replica.core.rules import Rules
from replica.deadlines import Deadlines
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, CallId, CorrelationId, Offset, ReplicaId, TopicPartition

TICKED_AT_ONCE = 128
"""How many partitions that are due are called in one step: a thousand can be at the same millisecond."""


class Broker:
    """The broker in one replica process. ``emit`` takes effects, ``send`` takes requests to others or to itself."""

    def __init__(
        self,
        *,
        config: ReplicaConfig,
        identity: BrokerIdentity,
        metadata_end_offset: Offset,
        recovered: Mapping[TopicPartition, RecoveredLog],
        rules: Rules,
        emit: Callable[[Effect], None],
        send: Callable[[ReplicaId, PeerRequest, int], CorrelationId],
    ) -> None:
        self._broker_id = config.replica_id
        self.config = config.broker
        self._emit = emit
        self._send = send
        self._image = MetadataImage()
        self._told_offset = Offset(0)
        """Up to where all partitions were told what the metadata says."""
        self.broker_epoch: BrokerEpoch | None = None
        """Under which this incarnation acts: absent until its own registration has come by the metadata log."""
        self.lifecycle = Lifecycle(config=config, identity=identity, metadata_end_offset=metadata_end_offset)
        session_fetches: dict[ReplicaId, SessionFetch] = {}
        self._hosting = Hosting(
            broker_id=config.replica_id,
            cluster_id=config.cluster_id,
            config=config.broker,
            recovered=recovered,
            rules=rules,
            clock=self.lifecycle.clock,
            session_fetches=session_fetches,
            emit=emit,
        )
        self.partitions: Mapping[TopicPartition, Partition] = self._hosting.partitions
        """The partitions that this broker hosts, to look at between steps."""
        self.offline: Mapping[TopicPartition, OfflinePartition] = self._hosting.offline
        """Those that it would host if their logs were not damaged."""
        self._proposals = Proposals(config=config, incarnation_id=identity.incarnation_id, partitions=self.partitions)
        self.server = self._new_server(config, session_fetches)
        """Who takes the fetches of others."""
        self.fetchers = Fetchers(
            config=config,
            partitions=self.partitions,
            is_waited_at=self.server.is_waited_at,
            send=send,
            on_told=self._note_told,
        )
        """Who takes the answers of leaders."""
        self.has_news = False
        """Whether something has happened that it has not settled yet."""
        self._asked_controller: dict[CorrelationId, BrokerRequest] = {}
        self._touched: set[TopicPartition] = set()
        self._leaders: set[ReplicaId] = set()
        """Leaders that may be asked something new."""
        self._deadlines = Deadlines[TopicPartition]()
        self.deadline_ms: int | None = None
        """When it is to settle at the latest; absent while only an event can change anything."""
        self._checkpoint_at_ms = 0
        self._checkpointed: Mapping[TopicPartition, Offset] = {}

    def _new_server(self, config: ReplicaConfig, session_fetches: dict[ReplicaId, SessionFetch]) -> FetchServer:
        return FetchServer(
            config=config,
            registered=self._registered,
            partitions=self.partitions,
            why_not_hosted=self._why_not_hosted,
            last_fetches=session_fetches,
            on_change=self._note_change,
            on_parked=self._note_deadline,
            emit=self._emit,
        )

    @property
    def failed_directories(self) -> Mapping[str, str]:
        """The log directories that have failed, and why."""
        return self._hosting.failed_directories

    @property
    def tellings(self) -> int:
        """How often a partition was told something by the metadata."""
        return self._hosting.tellings

    def told_since(self, tellings: int) -> Sequence[TopicPartition]:
        """Name the partitions that were told something since there were so many ``tellings``."""
        return self._hosting.told_since(tellings)

    @property
    def high_watermarks(self) -> Mapping[TopicPartition, Offset]:
        """The high watermark of every partition, as the checkpoint wants it."""
        return {name: partition.high_watermark for name, partition in sorted(self.partitions.items())}

    # --- events -----------------------------------------------------------------------------------------------------

    def partition_for(self, call_id: CallId, request: LogRequest) -> Partition | None:
        """Find the partition that is to take a request now; None where none is here, which is answered."""
        partition = self.touch(request.topic_partition)
        if partition is None:
            self._emit(Reply(call_id=call_id, response=refusal(request, self._why_not_served(request))))
        return partition

    def touch(self, topic_partition: TopicPartition) -> Partition | None:
        """Find a partition to which something is about to happen; None where none of that name is here."""
        self._note_change(topic_partition)
        return self.partitions.get(topic_partition)

    def _note_change(self, topic_partition: TopicPartition) -> None:
        """Have all who may be concerned look at a partition, if it is here."""
        if topic_partition in self.partitions:
            self.has_news = True
            self._touched.add(topic_partition)

    def _note_deadline(self, deadline_ms: int) -> None:
        """Have this broker settle at that time, at the latest."""
        self.deadline_ms = earliest(self.deadline_ms, deadline_ms)

    def _note_told(self, leader_id: ReplicaId, told: Iterable[TopicPartition]) -> None:
        """Have all who may be concerned look at what a leader has answered, or not answered."""
        self.has_news = True
        self._leaders.add(leader_id)
        self._touched.update(told)

    def on_response(self, correlation_id: CorrelationId, response: PeerResponse, now_ms: int) -> None:
        """Take what the controller has answered."""
        self.has_news = True
        if self._asked_controller.pop(correlation_id, None) is None:
            return
        match response:
            case BrokerRegistrationResponse():
                self.lifecycle.on_registered(response, now_ms)
            case BrokerHeartbeatResponse():
                self.lifecycle.on_heartbeat(response, now_ms)
                if self.lifecycle.may_shut_down:
                    self._checkpoint_at_ms = now_ms  # This may be the last chance.
            case AlterPartitionResponse():
                self._touched.update(self._proposals.on_response(response, now_ms))
            case _:
                raise AssertionError(f"{type(response).__name__} is no answer of a controller")

    def on_failed(self, correlation_id: CorrelationId, now_ms: int) -> None:
        """Try again later what may not have got through to the controller."""
        self.has_news = True
        match self._asked_controller.pop(correlation_id, None):
            case AlterPartitionRequest():
                self._touched.update(self._proposals.on_response(None, now_ms))
            case BrokerRegistrationRequest() | BrokerHeartbeatRequest():
                self.lifecycle.on_failed(now_ms)
            case None:
                pass

    def on_log_damaged(self, event: LogDamaged, now_ms: int) -> None:
        """Give up the partition whose log is damaged, answer who waits for it, and tell the controller soon."""
        if self._hosting.set_offline(event.topic_partition, event.reason, now_ms):
            self.has_news = True
            self._note_hosting(event.topic_partition)
            self.lifecycle.hurry(now_ms)

    def on_directory_failed(self, event: LogDirectoryFailed, now_ms: int) -> None:
        """Give up all partitions whose logs lie in a directory that has failed, and tell the controller soon."""
        self._hosting.fail_directory(event.directory, event.logs, event.reason, now_ms)
        self.has_news = True
        for topic_partition in event.logs:
            self._note_hosting(topic_partition)
        self.lifecycle.hurry(now_ms)

    def reports(self) -> tuple[OfflineReplica, ...]:
        """Which damaged logs the controller has to hear of with the next heartbeat."""
        return self._hosting.reports()

    def configure(self, config: BrokerConfig, now_ms: int) -> None:
        """Go by other settings from now on; what they make due sooner is due sooner."""
        self.has_news = True
        self.config = config
        self.lifecycle.configure(config, now_ms)
        self.fetchers.config = config
        self._hosting.configure(config, now_ms)
        self._touched.update(self.partitions)
        checkpoint_at_ms = now_ms + config.replica_high_watermark_checkpoint_interval_ms
        self._checkpoint_at_ms = min(self._checkpoint_at_ms, checkpoint_at_ms)

    def shut_down(self, now_ms: int) -> None:
        """Begin to leave: the controller moves what this broker leads."""
        self.has_news = True
        self.lifecycle.shut_down(now_ms)
        self._checkpoint_at_ms = now_ms

    # --- what follows from them -------------------------------------------------------------------------------------

    def settle(
        self, metadata: MetadataReplay, controller_id: ReplicaId | None, now_ms: int, *, flushed_end_offset: Offset
    ) -> None:
        """Do all that is due, and all that follows from what has happened in this step.

        The controller is told of metadata on which all partitions act, and on stable storage, below
        ``flushed_end_offset``: once it lets a broker in, that the disk has the record of its registration tells that it
        is the same disk.
        """
        self.has_news = False
        self._take_image(metadata.image)
        self._tell_some(metadata.applied_offset, now_ms)
        self._tick(now_ms)
        if self._touched:
            touched, self._touched = sorted(self._touched), set()
            self.server.complete(touched)
            self._have_asked(touched)
        if self.broker_epoch is not None and self._leaders:
            leaders, self._leaders = sorted(self._leaders), set()
            for leader_id in leaders:
                self.fetchers.pump(leader_id, self.broker_epoch, now_ms)
        if controller_id is not None:
            self._ask_controller(controller_id, min(self._told_offset, flushed_end_offset), now_ms)
        if self.lifecycle.refusal is not None:
            self._emit(Halt(reason=self.lifecycle.refusal))
        self.deadline_ms = earliest(
            self._deadlines.earliest_ms,
            self.fetchers.deadline_ms,
            self.server.deadline_ms,
            self._checkpoint_at_ms if self.partitions else None,
            now_ms if self._hosting.has_more else None,
            None if controller_id is None else self.lifecycle.deadline_ms,
        )

    def _take_image(self, image: MetadataImage) -> None:
        if image is self._image:
            return
        self._image = image
        registered = image.brokers.get(self._broker_id)
        is_own = registered is not None and registered.incarnation_id == self.lifecycle.incarnation_id
        self.broker_epoch = registered.broker_epoch if registered is not None and is_own else None
        if self.broker_epoch is None:
            return
        for topic_partition in self._hosting.apply(image):
            self._note_hosting(topic_partition)

    def _tell_some(self, applied_offset: Offset, now_ms: int) -> None:
        """Let partitions act on the image, some now and the others right after what else has happened meanwhile."""
        if self._hosting.has_more:
            for topic_partition in self._hosting.tell_some(now_ms):
                self._note_hosting(topic_partition)
            if self._hosting.has_reports:
                self.lifecycle.hurry(now_ms)
        if not self._hosting.has_more:
            self._told_offset = applied_offset

    def _note_hosting(self, topic_partition: TopicPartition) -> None:
        """Have the right leader asked for a partition that was told something, or is gone."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            self._deadlines.set(topic_partition, None)
        leader_id = None if partition is None or partition.is_leader else partition.leader_id
        former_id = self.fetchers.follow(topic_partition, leader_id)
        if former_id is not None:
            # 1. A fetch from this leader waits for a flush of this partition. 2. The partition leaves it. 3. The
            # flush ends, and wakes the new leader only. So the former one is looked at now, and waits for others.
            self._leaders.add(former_id)
        self._touched.add(topic_partition)

    def _tick(self, now_ms: int) -> None:
        for topic_partition in self._deadlines.take_due(now_ms, at_most=TICKED_AT_ONCE):
            self.partitions[topic_partition].tick(now_ms)
            self._touched.add(topic_partition)
        self._leaders |= self.fetchers.take_due(now_ms)
        self.server.expire(now_ms)
        if now_ms >= self._checkpoint_at_ms:
            self._checkpoint_at_ms = now_ms + self.config.replica_high_watermark_checkpoint_interval_ms
            self._checkpoint()

    def _checkpoint(self) -> None:
        high_watermarks = self.high_watermarks
        if high_watermarks != self._checkpointed:
            self._checkpointed = high_watermarks
            self._emit(StoreHighWatermarks(offsets=high_watermarks))

    def _have_asked(self, touched: Iterable[TopicPartition]) -> None:
        """Have others asked what partitions that have changed want of them."""
        for topic_partition in touched:
            partition = self.partitions.get(topic_partition)
            self._deadlines.set(topic_partition, None if partition is None else partition.deadline_ms)
            self._proposals.note(topic_partition)
            leader_id = self.fetchers.note(topic_partition)
            if leader_id is not None:
                self._leaders.add(leader_id)

    def _ask_controller(self, controller_id: ReplicaId, metadata_offset: Offset, now_ms: int) -> None:
        requests: list[BrokerRequest | None] = [self.lifecycle.next_request(now_ms, metadata_offset, self.reports)]
        if self.broker_epoch is not None:
            requests.append(self._proposals.next_request(self.broker_epoch, now_ms))
        for request in requests:
            if request is not None:
                timeout_ms = self.config.controller_request_timeout_ms
                self._asked_controller[self._send(controller_id, request, timeout_ms)] = request

    def _registered(self, broker_id: ReplicaId) -> BrokerRegistration | None:
        return self._image.brokers.get(broker_id)

    def _why_not_served(self, request: LogRequest) -> ErrorCode:
        """A write that no leader would take is not sent on to one, as in Kafka (``ReplicaManager.appendRecords``)."""
        error = self._why_not_hosted(request.topic_partition)
        is_known = error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_known and isinstance(request, ProduceRequest) and not has_valid_acks(request):
            return ErrorCode.INVALID_REQUIRED_ACKS
        return error

    def _why_not_hosted(self, topic_partition: TopicPartition) -> ErrorCode:
        """A partition of the cluster that is not here is offline, or somebody else's to serve; others do not exist."""
        if topic_partition in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self._image.partition(topic_partition) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
