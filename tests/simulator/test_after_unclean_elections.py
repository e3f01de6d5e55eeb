"""What the judge of partitions holds a partition to after an unclean election: all that the new leader tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from nemesis.simulator.node import Step
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.violations import BrokenInvariantError
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.metadata.encoding import metadata_batch
from replica.core.metadata.records import (
    LeaderRecoveryState,
    MetadataRecord,
    PartitionRecord,
    PartitionRegistration,
    TopicRecord,
)
from replica.core.partition.roles import CommittedIsr, Leader
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId, TopicPartition
from replica.records import encode_batch

ONE, TWO, TOPIC, LOG = ReplicaId(1), ReplicaId(2), TopicId(0), TopicPartition("topic", 0)
CLEAN = PartitionRegistration(
    replicas=(ONE, TWO), isr=(ONE,), leader_id=ONE, leader_epoch=Epoch(0), partition_epoch=PartitionEpoch(0)
)
OFFLINE = msgspec.structs.replace(CLEAN, leader_id=None, leader_epoch=Epoch(1), partition_epoch=PartitionEpoch(1))
UNCLEAN = PartitionRegistration(
    replicas=(ONE, TWO),
    isr=(TWO,),
    leader_id=TWO,
    leader_epoch=Epoch(2),
    partition_epoch=PartitionEpoch(2),
    leader_recovery_state=LeaderRecoveryState.RECOVERING,
)
CALL = CallId(7)


def records(epoch: int) -> bytes:
    """One record at offset 0, of this epoch."""
    return encode_batch([b"v"], base_offset=0, leader_epoch=epoch).data


class Elected:
    """A judge that has seen replica 2 elected uncleanly in epoch 2, and replica 2."""

    def __init__(self) -> None:
        self.partition = SimpleNamespace(
            topic_partition=LOG,
            topic_id=TOPIC,
            role=Leader(
                epoch_start_offset=Offset(0), isr_state=CommittedIsr(isr=frozenset({TWO})), shrink_check_at_ms=0
            ),
            leader_epoch=2,
            high_watermark=Offset(0),
            maximal_isr={TWO},
        )
        metadata = SimpleNamespace()
        core = SimpleNamespace(broker=SimpleNamespace(partitions={LOG: self.partition}), metadata=metadata)
        disk = SimpleNamespace(directory_id="disk", is_damaged=False, rotten=set())
        self.node: Any = SimpleNamespace(
            replica_id=TWO, core=core, flushed_end={LOG: Offset(9)}, disk=disk, requests={}
        )
        other: Any = SimpleNamespace(replica_id=ONE, core=None, flushed_end={}, disk=disk, requests={})
        nodes: dict[ReplicaId, Any] = {ONE: other, TWO: self.node}
        self.judge = PartitionInvariants(nodes, is_durable=False, may_forget=False, may_be_unclean=True)
        topic = TopicRecord(name=LOG.topic, topic_id=TOPIC)
        changes = [PartitionRecord(topic_id=TOPIC, partition=0, registration=at) for at in (CLEAN, OFFLINE, UNCLEAN)]
        decided: list[MetadataRecord] = [topic, *changes]
        for offset, record in enumerate(decided):
            self.judge.on_metadata(metadata_batch((record,), Offset(offset), Epoch(0)))
        metadata.image, metadata.applied_offset = self.judge.image, Offset(4)
        self._step(fx.CreateLog(topic_partition=LOG, topic_id=TOPIC))

    def _step(self, *effects: fx.Effect, answers: Any = None) -> None:
        told = Step(event=ev.Ticked(), effects=effects, answers=answers or {}, interrupted=None, is_whole=True)
        self.judge.on_step(self.node, told)

    def commits(self) -> None:
        """The new leader appends a record and commits it."""
        self.partition.high_watermark = Offset(1)
        self._step(fx.Append(topic_partition=LOG, batches=(encode_batch([b"v"], base_offset=0, leader_epoch=2),)))

    def acknowledges(self, epoch: int) -> None:
        """It says that a record stands at offset 0, written in this epoch."""
        self.node.requests[CALL] = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=1, records=records(epoch))
        response = m.ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(0), leader_epoch=Epoch(epoch))
        self._step(fx.Reply(call_id=CALL, response=response))

    def shows(self, epoch: int) -> None:
        """It shows a consumer a record of this epoch at offset 0."""
        self.node.requests[CALL] = m.FetchRequest(partitions=())
        response = m.FetchResponse()
        self._step(
            fx.ReplyWithRecords(call_id=CALL, response=response, ranges=(), max_bytes=1),
            answers={CALL: {LOG: records(epoch)}},
        )


def test_the_election_is_known_with_what_it_gave_up() -> None:
    """Who might have led before, who leads, in which epoch, and from where on."""
    (election,) = Elected().judge.given_up()[LOG]

    assert (election.epoch, election.leader_id, election.isr, election.end_offset) == (2, TWO, (ONE,), 0)


@pytest.mark.parametrize(
    ("tell", "name"), [(Elected.acknowledges, "acknowledged-is-committed"), (Elected.shows, "uncommitted-read")]
)
def test_what_the_new_leader_tells_must_be_committed(tell: Any, name: str) -> None:
    """A record of its own epoch that it has not committed convicts it; of what came before nothing is known."""
    tell(Elected(), 0)
    with pytest.raises(BrokenInvariantError) as broken:
        tell(Elected(), 2)
    assert broken.value.name == name

    honest = Elected()
    honest.commits()
    tell(honest, 2)
