"""What scripted brokers say of a small cluster: values for tests of the clients."""

from __future__ import annotations

from collections.abc import Mapping

from replica.core.messages import CurrentLeader, DescribeClusterResponse
from replica.core.metadata.image import BrokerRegistration, TopicImage
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId, TopicPartition

ONE, TWO, THREE = ReplicaId(1), ReplicaId(2), ReplicaId(3)
BROKERS = (ONE, TWO, THREE)
ORDERS = TopicPartition("orders", 0)
BOOTSTRAP = ["b1:1", "b2:2"]


def leads(leader_id: int | None, epoch: int) -> CurrentLeader:
    """Who leads."""
    return CurrentLeader(leader_id=None if leader_id is None else ReplicaId(leader_id), leader_epoch=Epoch(epoch))


def broker(broker_id: int, *, fenced: bool = False, port: int | None = None) -> BrokerRegistration:
    """A broker in a rack of its own, ``r1`` for broker 1."""
    return BrokerRegistration(
        broker_id=ReplicaId(broker_id),
        broker_epoch=BrokerEpoch(broker_id),
        incarnation_id=f"i{broker_id}",
        directory_id=f"d{broker_id}",
        flushes=True,
        address=f"b{broker_id}:{port or broker_id}",
        rack=f"r{broker_id}",
        fenced=fenced,
        in_controlled_shutdown=False,
    )


def led_by(leader_id: int | None, epoch: int, isr: tuple[ReplicaId, ...] = BROKERS) -> PartitionRegistration:
    """A partition with three replicas."""
    return PartitionRegistration(
        replicas=BROKERS,
        isr=isr,
        leader_id=None if leader_id is None else ReplicaId(leader_id),
        leader_epoch=Epoch(epoch),
        partition_epoch=PartitionEpoch(epoch),
    )


def described(
    partitions: Mapping[int, PartitionRegistration] | None = None,
    *,
    offset: int = 10,
    brokers: tuple[BrokerRegistration, ...] = (broker(1), broker(2), broker(3)),
    controller: CurrentLeader | None = None,
    topic_id: int = 7,
) -> DescribeClusterResponse:
    """An answer to DescribeCluster: with the topic ``orders`` if it has any partitions."""
    topics = [TopicImage(name="orders", topic_id=TopicId(topic_id), partitions=partitions)] if partitions else []
    return DescribeClusterResponse(
        error=ErrorCode.NONE,
        cluster_id="c",
        controller=controller,
        metadata_offset=Offset(offset),
        brokers=brokers,
        topics=tuple(topics),
    )
