"""What a step that was broken off was about to append is not committed: nobody was told of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nemesis.simulator.node import Step
from nemesis.simulator.partition_invariants import PartitionInvariants
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.lanes import Lane
from replica.core.metadata.encoding import metadata_batch
from replica.core.metadata.records import MetadataRecord, PartitionRecord, PartitionRegistration, TopicRecord
from replica.core.partition.roles import CommittedIsr, Leader
from replica.ids import Epoch, Offset, PartitionEpoch, ReplicaId, TopicId, TopicPartition
from replica.records import encode_batch

ONE, TOPIC, LOG = ReplicaId(1), TopicId(0), TopicPartition("topic", 0)
ALONE = PartitionRegistration(
    replicas=(ONE,), isr=(ONE,), leader_id=ONE, leader_epoch=Epoch(0), partition_epoch=PartitionEpoch(0)
)


def append(base_offset: int) -> fx.Append:
    """One record more."""
    return fx.Append(topic_partition=LOG, batches=(encode_batch([b"v"], base_offset=base_offset, leader_epoch=0),))


@pytest.mark.parametrize("pending", [frozenset(), frozenset((LOG,))], ids=["at once", "in its lane"])
def test_the_last_copy_of_what_is_committed_is_known_after_a_broken_off_append(pending: frozenset[Lane]) -> None:
    """A leader that is alone and does not flush counts a record as committed as it appends it, and the disk is full.

    If that counted, no replica would hold all that is committed, and the one that holds the rest of it could go.
    """
    leader = Leader(epoch_start_offset=Offset(0), isr_state=CommittedIsr(isr=frozenset({ONE})), shrink_check_at_ms=0)
    partition = SimpleNamespace(
        topic_partition=LOG, topic_id=TOPIC, role=leader, leader_epoch=0, high_watermark=Offset(0), maximal_isr={ONE}
    )
    core = SimpleNamespace(broker=SimpleNamespace(partitions={LOG: partition}), metadata=SimpleNamespace())
    disk = SimpleNamespace(directory_id="disk", is_damaged=False, rotten=set())
    node: Any = SimpleNamespace(replica_id=ONE, core=core, flushed_end={}, disk=disk)
    judge = PartitionInvariants({ONE: node}, is_durable=False, may_forget=True, may_be_unclean=False)
    records: tuple[MetadataRecord, ...] = (
        TopicRecord(name=LOG.topic, topic_id=TOPIC),
        PartitionRecord(topic_id=TOPIC, partition=0, registration=ALONE),
    )
    judge.on_metadata(metadata_batch(records, Offset(0), Epoch(0)))
    core.metadata.image, core.metadata.applied_offset = judge.image, Offset(len(records))

    def step(*effects: fx.Effect, interrupted: fx.Effect | None = None) -> None:
        partition.high_watermark = Offset(partition.high_watermark + 1)
        tell(ev.Ticked(), *effects, interrupted=interrupted, is_whole=interrupted is None)

    def tell(event: ev.Event, *effects: fx.Effect, interrupted: fx.Effect | None = None, is_whole: bool) -> None:
        left = frozenset() if is_whole else pending
        told = Step(event=event, effects=effects, answers={}, interrupted=interrupted, is_whole=is_whole, pending=left)
        judge.on_step(node, told)

    step(fx.CreateLog(topic_partition=LOG, topic_id=TOPIC), append(0))
    assert not judge.survive_without(ONE)
    step(interrupted=append(1))
    tell(ev.StorageFailed(reason="the disk is full"), is_whole=False)
    node.stores = {LOG: SimpleNamespace(log_end_offset=Offset(1))}
    node.recovered = {LOG: SimpleNamespace(topic_id=TOPIC, damage=None)}
    judge.on_boot(node, torn_bytes=0)
    assert not judge.survive_without(ONE)
