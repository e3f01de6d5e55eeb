"""One broker on a bench: metadata, requests and answers in, effects and requests out.

Owns the committed image, the clock, and the words in which scenarios are written. Broker 1 is the one under test; a
broker's epoch is ten times its id. Nothing is flushed before a scenario says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.broker.broker import Broker
from replica.core.config import BrokerConfig, BrokerIdentity, ReplicaConfig
from replica.core.log.recovered import RecoveredLog
from replica.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionRecord,
    PartitionRegistration,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from replica.core.metadata.replay import MetadataReplay
from replica.core.rules import Rules
from replica.ids import (
    BrokerEpoch,
    CallId,
    CorrelationId,
    Epoch,
    Offset,
    PartitionEpoch,
    ReplicaId,
    TopicId,
    TopicPartition,
)
from replica.records import encode_batch
from replica.voters import VoterSet
from tests.core.harness import batches_of, epochs_of
from tests.core.ruled import rules_now

BROKER = ReplicaId(1)
CONTROLLER = ReplicaId(5)
CLUSTER = "cluster"
INCARNATION = "broker-1-now"
CONFIG = BrokerConfig()

E = TypeVar("E")
R = TypeVar("R", bound=m.PeerRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request that went out and is not answered."""

    to: ReplicaId
    correlation_id: CorrelationId
    request: m.PeerRequest


def topic_partition(name: str, number: int = 0) -> TopicPartition:
    """Name a partition."""
    return TopicPartition(name, number)


def registration(
    *replicas: int, leader: int | None, epoch: int = 0, isr: tuple[int, ...] | None = None, partition_epoch: int = 0
) -> PartitionRegistration:
    """Say who keeps and leads a partition; everybody is in sync unless something else is said."""
    members = tuple(ReplicaId(replica) for replica in replicas)
    return PartitionRegistration(
        replicas=members,
        isr=members if isr is None else tuple(ReplicaId(replica) for replica in isr),
        leader_id=None if leader is None else ReplicaId(leader),
        leader_epoch=Epoch(epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
    )


def registered(broker_id: int, incarnation: str | None = None) -> tuple[MetadataRecord, ...]:
    """Register a broker and let it in."""
    known, epoch = ReplicaId(broker_id), BrokerEpoch(10 * broker_id)
    return (
        RegisterBrokerRecord(
            broker_id=known,
            broker_epoch=epoch,
            incarnation_id=incarnation or f"broker-{broker_id}-now",
            directory_id=f"disk-{broker_id}",
            flushes=True,
            address=f"broker-{broker_id}:9092",
        ),
        BrokerRegistrationChangeRecord(broker_id=known, broker_epoch=epoch, fenced=False, in_controlled_shutdown=False),
    )


def topic(name: str, topic_id: int, *partitions: PartitionRegistration) -> tuple[MetadataRecord, ...]:
    """Create a topic."""
    return (
        TopicRecord(name=name, topic_id=TopicId(topic_id)),
        *(
            PartitionRecord(topic_id=TopicId(topic_id), partition=number, registration=each)
            for number, each in enumerate(partitions)
        ),
    )


def changed(topic_id: int, number: int, to: PartitionRegistration) -> PartitionRecord:
    """Change a partition."""
    return PartitionRecord(topic_id=TopicId(topic_id), partition=number, registration=to)


def removed(topic_id: int) -> RemoveTopicRecord:
    """Delete a topic."""
    return RemoveTopicRecord(topic_id=TopicId(topic_id))


def recovered(topic_id: int, *epochs_and_counts: tuple[int, int]) -> RecoveredLog:
    """A log that was found on disk."""
    batches = batches_of(*epochs_and_counts)
    return RecoveredLog(
        log_start_offset=Offset(0),
        log_end_offset=Offset(len(batches)),
        epochs=epochs_of(batches),
        topic_id=TopicId(topic_id),
    )


class BrokerBench:
    """Broker 1 with its metadata. ``effects`` are those since the last word was said; ``now_ms`` moves by hand."""

    def __init__(
        self,
        *,
        logs: Mapping[TopicPartition, RecoveredLog] | None = None,
        config: BrokerConfig = CONFIG,
        rules: Rules | None = None,
    ) -> None:
        self.now_ms = 1_000_000
        self.effects: list[fx.Effect] = []
        self.sent: list[Sent] = []
        self.controller_id: ReplicaId | None = None
        self.metadata = MetadataReplay(read_max_bytes=1)
        self.flushed_metadata: Offset | None = None
        """How far the metadata log is flushed; absent where it always is as far as it is applied."""
        self._correlation_ids = count(1)
        self.broker = Broker(
            config=ReplicaConfig(
                cluster_id=CLUSTER,
                replica_id=BROKER,
                directory_id="disk-1",
                voters=(CONTROLLER,),
                initial_voters=VoterSet(()),
                broker=config,
            ),
            metadata_end_offset=Offset(0),
            identity=BrokerIdentity(incarnation_id=INCARNATION, address="broker-1:9092"),
            recovered=logs or {},
            rules=rules or rules_now(),
            emit=self.effects.append,
            send=self._send,
        )

    def _send(self, to: ReplicaId, request: m.PeerRequest, timeout_ms: int) -> CorrelationId:
        assert timeout_ms > 0, request
        correlation_id = CorrelationId(next(self._correlation_ids))
        self.sent.append(Sent(to=to, correlation_id=correlation_id, request=request))
        return correlation_id

    # --- looking ----------------------------------------------------------------------------------------------------

    def made(self, kind: type[E]) -> list[E]:
        """The effects of this kind since the last word."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def out(self, kind: type[R]) -> list[tuple[int, R]]:
        """What of this kind is out, and to whom."""
        return [(sent.to, sent.request) for sent in self.sent if isinstance(sent.request, kind)]

    def asked(self, leader: int) -> list[str]:
        """The partitions in the one fetch that is out to a leader, whatever their order."""
        return sorted(self.asked_in_turn(leader))

    def asked_in_turn(self, leader: int) -> list[str]:
        """The partitions in the one fetch that is out to a leader, in its order."""
        (request,) = (request for to, request in self.out(m.FetchRequest) if to == leader)
        return [f"{part.topic_partition}" for part in request.partitions]

    # --- words ------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let the broker do what follows."""
        held = self.metadata.applied_offset if self.flushed_metadata is None else self.flushed_metadata
        self.broker.settle(self.metadata, self.controller_id, self.now_ms, flushed_end_offset=held)

    def decide(self, *records: MetadataRecord) -> None:
        """Let these decisions be committed and applied."""
        self.effects.clear()
        self.metadata.image = self.metadata.image.apply_all(records)
        self.metadata.applied_offset = Offset(self.metadata.applied_offset + len(records))
        self.settle()

    def elapse(self, ms: int) -> None:
        """Let time pass, and the broker look at it at the end only."""
        self.effects.clear()
        self.now_ms += ms
        self.settle()

    def fetch(self, call_id: int, request: m.FetchRequest) -> None:
        """Let somebody fetch."""
        self.effects.clear()
        self.broker.server.on_fetch(CallId(call_id), request, self.now_ms)
        self.settle()

    def ask(self, call_id: int, request: m.LogRequest) -> None:
        """Let somebody ask something about one log; nothing follows from it yet."""
        partition = self.broker.partition_for(CallId(call_id), request)
        if partition is not None:
            partition.on_request(CallId(call_id), request, self.now_ms)

    def produce(self, name: TopicPartition, value: bytes = b"v", *, call_id: int = 99) -> None:
        """Let a client write one record without waiting, and flush it."""
        self.effects.clear()
        records = encode_batch([value]).data
        request = m.ProduceRequest(topic_partition=name, acks=0, timeout_ms=1000, records=records)
        self.ask(call_id, request)
        self.settle()

    def damage(self, name: TopicPartition) -> None:
        """Let storage say that a log is damaged."""
        self.broker.on_log_damaged(ev.LogDamaged(topic_partition=name, offset=None, reason="rotten"), self.now_ms)
        self.settle()

    def fail_directory(self, *names: TopicPartition) -> None:
        """Let storage say that the disk has failed on which these logs lie."""
        event = ev.LogDirectoryFailed(directory="/disk1", logs=names, reason="no more space")
        self.broker.on_directory_failed(event, self.now_ms)
        self.settle()

    def flush(self, name: TopicPartition) -> None:
        """Finish the flush of a log up to its end."""
        self.effects.clear()
        end_offset = self.broker.partitions[name].log.log_end_offset
        partition = self.broker.touch(name)
        assert partition is not None, name
        partition.on_flushed(end_offset, self.now_ms)
        self.settle()

    def answer(self, kind: type[R], response: m.PeerResponse | None) -> R:
        """Answer the oldest request of this kind, or (None) let it fail; return it."""
        self.effects.clear()
        sent = next(sent for sent in self.sent if isinstance(sent.request, kind))
        self.sent.remove(sent)
        asker = self.broker.fetchers if self.broker.fetchers.owns(sent.correlation_id) else self.broker
        if response is None:
            asker.on_failed(sent.correlation_id, self.now_ms)
        else:
            asker.on_response(sent.correlation_id, response, self.now_ms)
        assert self.broker.has_news, "nobody would let it do what follows"
        self.settle()
        assert isinstance(sent.request, kind), sent
        return sent.request


A = topic_partition("topic", 0)


def followed() -> BrokerBench:
    """Broker 1 follows broker 2 in epoch 0, and is in sync."""
    bench = BrokerBench(logs={A: recovered(7, (0, 3))})
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, registration(2, 1, leader=2)))
    return bench
