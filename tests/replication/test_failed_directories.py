"""A log directory fails under a running broker: its partitions are offline there, all others go on, and it comes back.

Each broker has two; the faults are done to the files of one, as a disk does them.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nemesis.simulator.node import Node
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.variants.controller import OfflineReplicaElected
from nemesis.variants.isr import EmptyDirectoryBelieved
from replica.core import messages as m
from replica.core.config import ControllerConfig
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.records import encode_batch
from tests.replication.bench import Cluster
from tests.replication.stage import FAST_CONTROLLER, StagedWorld
from tests.replication.test_damaged_logs import WITHOUT_ELR, incarnations, offline

CALLS = ("pwrite", "fsync")


class TwoDisks(StagedWorld):
    """Each machine has two log directories."""

    @property
    def log_dirs(self) -> int:
        """See ``World``."""
        return 2


def disk_of(node: Node, name: TopicPartition) -> Path:
    """The log directory in which a partition lies."""
    (found,) = (path for path in node.disk.log_dirs if name in node.disk.logs_in(path))
    return found


def two_topics(cluster: Cluster, *replicas: int, **configs: str) -> tuple[TopicPartition, TopicPartition]:
    """Two partitions of these replicas, which lie on different disks of each broker, with a record each."""
    topics = cluster.create("one", replicas, **configs), cluster.create("other", replicas, **configs)
    for topic in topics:
        cluster.produce(topic, b"first")
        cluster.wait_for_same_logs(topic, *replicas)
    for replica in replicas:
        one, other = (disk_of(cluster.node(replica), topic) for topic in topics)
        assert one != other
    return topics


def refuse(cluster: Cluster, broker_id: int, name: TopicPartition, *calls: str, error: int = errno.EIO) -> None:
    """Let these calls fail, or all, on the disk on which a partition lies."""
    disk = disk_of(cluster.node(broker_id), name)

    def fault(call: str, at: Path) -> OSError | None:
        return OSError(error, "refused", str(at)) if call in (calls or (call,)) and at.is_relative_to(disk) else None

    cluster.node(broker_id).disk.files.fault = fault


def repair(cluster: Cluster, broker_id: int, *, replaced: Path | None = None) -> None:
    """Let the disk work again, perhaps an empty one in its place, and start the broker anew."""
    node = cluster.node(broker_id)
    node.disk.files.fault = None
    cluster.world.hold_down(node.replica_id, 0)
    node.kill()
    if replaced is not None:
        node.disk.replace_dir(replaced)
    cluster.world.release(node.replica_id, 0)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_leader_of_which_the_disk_refuses(call: str, error: int) -> None:
    """The write is not acknowledged, another leads, and the other disk's partition goes on under the same leader."""
    cluster = Cluster(3, stage=TwoDisks)
    one, other = two_topics(cluster, 1, 2, 3)
    refuse(cluster, 1, one, call, error=error)
    request = m.ProduceRequest(topic_partition=one, acks=-1, timeout_ms=5000, records=encode_batch([b"lost"]).data)
    answer = cluster.ask(1, request, m.ProduceResponse)
    assert answer.error is not ErrorCode.NONE
    assert list(offline(cluster, 1)) == [one]
    assert "refused" in offline(cluster, 1)[one]
    assert cluster.fetch(one, at=1).error is ErrorCode.KAFKA_STORAGE_ERROR
    cluster.wait(lambda: cluster.registration(one).leader_id in (2, 3), "another leads")
    assert 1 not in cluster.registration(one).isr
    cluster.produce(other, b"second")
    assert (cluster.leader(other), cluster.registration(other).leader_epoch) == (1, 0)
    assert incarnations(cluster) == [1, 1, 1]
    repair(cluster, 1)
    cluster.produce(one, b"second")
    cluster.wait_for_isr(one, 1, 2, 3)
    cluster.wait_for_same_logs(one, 1, 2, 3)
    assert cluster.values(one)[0] == b"first"
    assert cluster.values(one)[-1] == b"second"


def test_write_that_wants_no_other_replica_is_not_acknowledged() -> None:
    """A leader answers acks=1 once it has appended: not where its disk has refused just that."""
    cluster = Cluster(3, stage=TwoDisks)
    one, _ = two_topics(cluster, 1, 2, 3)
    refuse(cluster, 1, one, "pwrite")
    request = m.ProduceRequest(topic_partition=one, acks=1, timeout_ms=5000, records=encode_batch([b"lost"]).data)
    assert cluster.ask(1, request, m.ProduceResponse).error is ErrorCode.KAFKA_STORAGE_ERROR


def test_follower_of_which_the_disk_refuses() -> None:
    """What waits for it is acknowledged once it is out of the ISR, and it does not come back before its restart."""
    cluster = Cluster(3, stage=TwoDisks)
    one, _ = two_topics(cluster, 1, 2, 3)
    refuse(cluster, 2, one)
    cluster.produce(one, b"second")
    assert cluster.registration(one).isr == (1, 3)
    cluster.pass_ms(10_000)
    assert cluster.registration(one).isr == (1, 3)
    repair(cluster, 2)
    cluster.wait_for_isr(one, 1, 2, 3)
    cluster.wait_for_same_logs(one, 1, 2, 3)


@pytest.mark.parametrize("controller", [FAST_CONTROLLER, WITHOUT_ELR], ids=["with_elr", "without_elr"])
def test_only_copy_waits_for_its_disk(controller: ControllerConfig) -> None:
    """Nobody leads it, also after a restart in vain; once the disk works it is led again, and has all its records."""
    cluster = Cluster(3, stage=TwoDisks, controller=controller)
    one, other = two_topics(cluster, 1)
    refuse(cluster, 1, one)
    cluster.begin(1, m.ProduceRequest(topic_partition=one, acks=-1, timeout_ms=500, records=encode_batch([b"x"]).data))
    cluster.wait(lambda: cluster.registration(one).leader_id is None, "nobody leads")
    fault = cluster.node(1).disk.files.fault
    cluster.bounce(1)
    cluster.node(1).disk.files.fault = fault
    cluster.pass_ms(10_000)
    assert cluster.registration(one).leader_id is None
    assert 1 in (*cluster.registration(one).isr, *cluster.registration(one).elr)
    cluster.produce(other, b"second")
    repair(cluster, 1)
    cluster.wait(lambda: cluster.registration(one).leader_id == 1, "it leads again")
    assert cluster.values(one) == [b"first"]


def test_topic_that_is_created_again_while_its_disk_fails() -> None:
    """Nothing can be deleted from that disk; once it works, the broker starts, and has the new topic alone."""
    cluster = Cluster(3, stage=TwoDisks)
    one, other = two_topics(cluster, 1, 2, 3)
    failed = disk_of(cluster.node(2), one)
    refuse(cluster, 2, one)
    cluster.produce(one, b"second")
    cluster.ask(cluster.controller_id, m.DeleteTopicRequest(name=one.topic), m.DeleteTopicResponse)
    cluster.create(one.topic, (1, 2, 3))
    cluster.produce(one, b"new")
    assert one in cluster.node(2).disk.logs_in(failed)
    repair(cluster, 2)
    cluster.pass_ms(3_000)
    cluster.wait_for_isr(one, 1, 2, 3)
    cluster.wait_for_same_logs(one, 1, 2, 3)
    assert cluster.values(one) == [b"new"]
    assert disk_of(cluster.node(2), one) == disk_of(cluster.node(2), other) != failed


def replace_disk_of_who_may_lead(cluster: Cluster) -> None:
    """Two brokers are killed at once, the disk of one that may lead is replaced, and it comes back first."""
    one, other = two_topics(cluster, 1, 2, **{"min.insync.replicas": "2"})
    disk = disk_of(cluster.node(1), one)
    for broker_id in (2, 1):
        cluster.world.hold_down(cluster.node(broker_id).replica_id, 1)
        cluster.node(broker_id).kill()
    cluster.wait(lambda: 1 in cluster.registration(one).elr, "it may lead")
    cluster.node(1).disk.replace_dir(disk)
    cluster.world.release(cluster.node(1).replica_id, 1)
    cluster.wait(lambda: cluster.registration(other).leader_id == 1, "the other disk is as it was")
    cluster.pass_ms(3_000)
    assert cluster.registration(one).leader_id is None
    cluster.world.release(cluster.node(2).replica_id, 1)
    cluster.wait(lambda: cluster.registration(one).leader_id == 2, "who has all leads")
    cluster.wait_for_isr(one, 1, 2)
    cluster.wait_for_same_logs(one, 1, 2)
    assert cluster.values(one) == [b"first"]


def test_replaced_disk_is_not_believed() -> None:
    """Its broker does not lead what only the other one holds, and follows that when it is back."""
    replace_disk_of_who_may_lead(Cluster(5, stage=TwoDisks))


def test_replaced_disk_that_is_believed_is_convicted() -> None:
    """It may be elected, and has nothing."""
    with pytest.raises(BrokenInvariantError, match="leader-candidate-completeness"):
        replace_disk_of_who_may_lead(Cluster(5, stage=TwoDisks, rules=EmptyDirectoryBelieved))


def test_offline_replica_that_is_elected_is_convicted() -> None:
    """An operator who would let another one lead is told that there is a leader, and clients ask it for ever."""
    cluster = Cluster(3, stage=TwoDisks, rules=OfflineReplicaElected)
    one, _ = two_topics(cluster, 1)
    refuse(cluster, 1, one)
    cluster.begin(1, m.ProduceRequest(topic_partition=one, acks=-1, timeout_ms=500, records=encode_batch([b"x"]).data))
    cluster.pass_ms(10_000)
    assert list(offline(cluster, 1)) == [one]
    assert cluster.registration(one).leader_id == 1
