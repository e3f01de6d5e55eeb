"""A whole replica whose controller is the scenario: what the cluster has decided is said record by record.

Owns the metadata log of a cluster of which broker 1 alone is a process. That one fetches the log from controller 5, and
sends it its registration, its heartbeats and the ISRs that it proposes. Proposals wait until the scenario answers them;
all else is answered at once. The other brokers are puppets, which fetch what the scenario says.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from nemesis.simulator.disk import CLUSTER_ID
from nemesis.simulator.node import Node
from nemesis.simulator.queue import US_PER_MS
from replica.core import effects as fx
from replica.core import messages as m
from replica.core.config import BrokerConfig, ReplicaConfig
from replica.core.metadata.encoding import metadata_batch
from replica.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionRecord,
    PartitionRegistration,
    RegisterBrokerRecord,
    TopicRecord,
)
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId, TopicPartition
from replica.records import RecordBatch
from replica.storage import LogTable
from tests.replication.bench import Cluster
from tests.replication.stage import FAST_BROKER, FAST_CONTROLLER, Heard, StagedWorld

BROKER, OTHER, THIRD = ReplicaId(1), ReplicaId(9), ReplicaId(8)
CONTROLLER = ReplicaId(5)
TOPIC, TOPIC_ID = TopicPartition("topic", 0), TopicId(7)
METADATA_EPOCH = Epoch(1)
NEWS_MS = 50
"""How long news take to reach the broker, and what follows from them to be flushed."""


class DecidedWorld(StagedWorld):
    """Broker 1 without a vote in the metadata log; ``serve`` is called when something has come to its controller."""

    def __init__(self, *, broker: BrokerConfig, serve: Callable[[], None]) -> None:
        super().__init__(voters=1, puppets=(CONTROLLER, OTHER, THIRD), broker=broker, controller=FAST_CONTROLLER)
        self._serve = serve

    def config(self, node: Node, opened: LogTable) -> ReplicaConfig:
        """What the process is told: who decides, and that it does not."""
        return dataclasses.replace(super().config(node, opened), voters=(CONTROLLER,), controller=None)

    def send(self, node: Node, effect: fx.Send) -> None:
        """Carry a request to a puppet."""
        super().send(node, effect)
        if effect.replica_id == CONTROLLER:
            self.queue.after(US_PER_MS, self._serve)


class DecidedCluster(Cluster):
    """Broker 1, which is let in, the puppets 8 and 9, which are registered and alive, and what is decided of them."""

    present: PartitionRegistration
    """What is decided about the topic's one partition, once it is assigned."""

    def __init__(self, *, broker: BrokerConfig = FAST_BROKER) -> None:
        self.decisions: list[RecordBatch] = []
        self.proposals: deque[Heard] = deque()
        """The requests for other ISRs that wait for an answer, oldest first."""
        self._readers: list[Heard] = []
        self.world: DecidedWorld = DecidedWorld(broker=broker, serve=self._serve)
        for puppet in (OTHER, THIRD):
            self.register(puppet, f"{puppet}.first")
        self.world.start_all()
        self.wait(lambda: BROKER in self._unfenced(), "the broker knows that it is let in")

    # --- what is decided --------------------------------------------------------------------------------------------

    @property
    def decided_end(self) -> Offset:
        """Where the metadata log ends."""
        return self.decisions[-1].end_offset if self.decisions else Offset(0)

    def decide(self, *records: MetadataRecord) -> None:
        """Commit one decision, and let it be heard."""
        self._commit(*records)
        self.pass_ms(NEWS_MS)

    def register(self, broker_id: ReplicaId, incarnation: str) -> BrokerEpoch:
        """Let an incarnation of a broker in."""
        epoch = BrokerEpoch(self.decided_end)
        self._commit(
            RegisterBrokerRecord(
                broker_id=broker_id,
                broker_epoch=epoch,
                incarnation_id=incarnation,
                directory_id=f"disk-{broker_id}",
                flushes=True,
                address=f"broker-{broker_id}:9092",
            ),
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=epoch, fenced=False, in_controlled_shutdown=False
            ),
        )
        return epoch

    def assign(self, *replicas: ReplicaId, isr: tuple[ReplicaId, ...] = ()) -> None:
        """Create the topic, led by the first of these replicas; they are all in sync unless something else is said."""
        self.present = PartitionRegistration(
            replicas=replicas,
            isr=isr or replicas,
            leader_id=replicas[0],
            leader_epoch=Epoch(0),
            partition_epoch=PartitionEpoch(0),
        )
        self.decide(TopicRecord(name=TOPIC.topic, topic_id=TOPIC_ID), self._record(self.present))

    def change(self, **fields: Any) -> None:
        """Decide something else about the partition: the next partition epoch, and these fields."""
        following = PartitionEpoch(self.present.partition_epoch + 1)
        self.present = replace(self.present, **{"partition_epoch": following, **fields})
        self.decide(self._record(self.present))

    def repeat(self, registration: PartitionRegistration) -> None:
        """Say something about the partition that is no longer so."""
        self.decide(self._record(registration))

    def _record(self, registration: PartitionRegistration) -> PartitionRecord:
        return PartitionRecord(topic_id=TOPIC_ID, partition=0, registration=registration)

    def _commit(self, *records: MetadataRecord) -> None:
        self.decisions.append(metadata_batch(records, self.decided_end, METADATA_EPOCH))
        self._tell()

    # --- the controller's part --------------------------------------------------------------------------------------

    def _serve(self) -> None:
        heard = self.world.heard[CONTROLLER]
        while heard:
            oldest = heard.popleft()
            match oldest.request:
                case m.FetchRequest(max_wait_ms=max_wait_ms):
                    self._readers.append(oldest)
                    self.world.queue.after(max_wait_ms * US_PER_MS, lambda: self._tell(is_over=True))
                case m.BrokerRegistrationRequest(broker_id=broker_id, incarnation_id=incarnation):
                    epoch = self.register(broker_id, incarnation)
                    oldest.answer(m.BrokerRegistrationResponse(error=ErrorCode.NONE, broker_epoch=epoch))
                case m.BrokerHeartbeatRequest():
                    oldest.answer(m.BrokerHeartbeatResponse(error=ErrorCode.NONE, is_fenced=False))
                case m.AlterPartitionRequest():
                    self.proposals.append(oldest)
                case _:
                    raise AssertionError(f"no controller is asked for {oldest.request}")
        self._tell()

    def _tell(self, *, is_over: bool = False) -> None:
        """Answer the fetches for which there is news, or all of them where their time ``is_over``."""
        waiting, self._readers = self._readers, []
        for reader in waiting:
            assert isinstance(reader.request, m.FetchRequest), reader
            (part,) = reader.request.partitions
            if is_over or part.fetch_offset < self.decided_end or part.high_watermark != self.decided_end:
                reader.answer(self._decided_from(part))
            else:
                self._readers.append(reader)

    def _decided_from(self, part: m.FetchPartition) -> m.FetchResponse:
        answer = m.FetchedPartition(
            topic_partition=part.topic_partition,
            error=ErrorCode.NONE,
            high_watermark=self.decided_end,
            log_start_offset=Offset(0),
            current_leader=m.CurrentLeader(leader_id=CONTROLLER, leader_epoch=METADATA_EPOCH),
            records=b"".join(batch.data for batch in self.decisions if batch.base_offset >= part.fetch_offset),
        )
        return m.FetchResponse(partitions=(answer,))

    def take_proposal(self) -> tuple[m.AlterPartition, Heard]:
        """Take the ISR that the broker proposes, or wait for that."""
        self.wait(lambda: bool(self.proposals), "an ISR is proposed")
        heard = self.proposals.popleft()
        assert isinstance(heard.request, m.AlterPartitionRequest), heard
        (proposal,) = heard.request.partitions
        return proposal, heard

    def refuse(self, heard: Heard, error: ErrorCode) -> None:
        """Refuse a proposal, and let that be heard."""
        altered = m.AlteredPartition(topic_id=TOPIC_ID, partition=0, error=error)
        heard.answer(m.AlterPartitionResponse(error=ErrorCode.NONE, partitions=(altered,)))
        self.pass_ms(1)

    def accept(self, proposal: m.AlterPartition, heard: Heard) -> None:
        """Answer that a proposal is committed, before the metadata say so."""
        altered = m.AlteredPartition(
            topic_id=TOPIC_ID,
            partition=0,
            error=ErrorCode.NONE,
            leader_id=BROKER,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=PartitionEpoch(proposal.partition_epoch + 1),
            isr=tuple(member.broker_id for member in proposal.new_isr),
        )
        heard.answer(m.AlterPartitionResponse(error=ErrorCode.NONE, partitions=(altered,)))
        self.pass_ms(1)

    # --- the other brokers' part ------------------------------------------------------------------------------------

    def begin_fetch(
        self,
        broker_id: ReplicaId,
        offset: int,
        *,
        broker_epoch: BrokerEpoch | None = None,
        epoch: int | None = None,
        max_wait_ms: int = 0,
    ) -> list[m.Response | None]:
        """Let a puppet fetch, in the present epoch and incarnation unless something else is said.

        All that it has is of epoch 0.
        """
        registered = self.image.brokers[broker_id]
        part = m.FetchPartition(
            topic_partition=TOPIC,
            fetch_offset=Offset(offset),
            current_leader_epoch=self.present.leader_epoch if epoch is None else Epoch(epoch),
            last_fetched_epoch=Epoch(0) if offset else None,
            log_start_offset=Offset(0),
        )
        request = m.FetchRequest(
            partitions=(part,),
            cluster_id=CLUSTER_ID,
            replica_id=broker_id,
            replica_directory_id=registered.directory_id,
            broker_epoch=registered.broker_epoch if broker_epoch is None else broker_epoch,
            max_wait_ms=max_wait_ms,
        )
        return self.begin(BROKER, request)

    def fetch_as(self, broker_id: ReplicaId, offset: int, *, broker_epoch: BrokerEpoch | None = None) -> ErrorCode:
        """Let a puppet fetch and be answered at once."""
        answers = self.begin_fetch(broker_id, offset, broker_epoch=broker_epoch)
        self.wait(lambda: bool(answers), f"{broker_id} is answered")
        return fetched_of(answers).error

    def append(self, records: int) -> None:
        """Append records at the broker, which leads, and wait until they are flushed."""
        for _ in range(records):
            answer = self.send(TOPIC, b"v", acks=1, to=BROKER)
            assert answer.error is ErrorCode.NONE, answer
        self.pass_ms(NEWS_MS)

    @property
    def isrs(self) -> tuple[set[int], set[int]]:
        """The broker's committed and maximal ISR."""
        partition = self.replica(BROKER, TOPIC)
        return set(partition.in_sync_replicas), set(partition.maximal_isr)

    @property
    def high_watermark(self) -> int:
        """Up to where the broker holds the log to be committed."""
        return self.replica(BROKER, TOPIC).high_watermark


def fetched_of(answers: list[m.Response | None]) -> m.FetchedPartition:
    """The one answer to a fetch of one partition."""
    (answer,) = answers
    assert isinstance(answer, m.FetchResponse), answer
    (part,) = answer.partitions
    return part
