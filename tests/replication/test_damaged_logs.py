"""The log of one partition rots: it is offline there, others lead, and it is fetched anew where they have it.

Damage is done to finished segments under processes that run, as a disk does it. Nobody is to halt by it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from nemesis.simulator.disk import DATA
from nemesis.simulator.node import Node, Step
from nemesis.simulator.world import Observer
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import ControllerConfig
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, TopicPartition
from replica.records import NO_TIMESTAMP
from tests.replication.bench import Cluster
from tests.replication.tampering import EPOCHS, segments

VALUE = b"v" * 400
WRITTEN = 12
WITHOUT_ELR = ControllerConfig(broker_session_timeout_ms=1500, auto_leader_rebalance_enable=False, elr_enable=False)


def written(cluster: Cluster, name: str, *replicas: int, **configs: str) -> TopicPartition:
    """A topic of one partition with some finished segments on each replica, and what is in it is in no memory."""
    topic = cluster.create(name, replicas, **configs)
    for _ in range(WRITTEN):
        cluster.produce(topic, VALUE)
    cluster.wait_for_same_logs(topic, *replicas)
    cluster.pass_ms(6_000)  # By then the recovery points are above all of it.
    return topic


def rot(cluster: Cluster, broker_id: int, name: TopicPartition) -> Path:
    """Flip one bit of the first record in the first segment of a log."""
    path, *others = segments(cluster, broker_id, name)
    assert others, "the segment is still written to"
    files = cluster.node(broker_id).disk.files
    content = bytearray(files.content(path))
    content[100] ^= 1
    files.overwrite(path, bytes(content))
    cluster.node(broker_id).disk.is_damaged = True
    return path


def offline(cluster: Cluster, broker_id: int) -> dict[TopicPartition, str]:
    """Which partitions are offline on a broker, and why."""
    core = cluster.node(broker_id).core
    assert core is not None, broker_id
    assert core.broker is not None, broker_id
    return {name: found.reason for name, found in core.broker.offline.items()}


class Damages(Observer):
    """Remembers which damage was found by whom."""

    def __init__(self) -> None:
        self.found: list[tuple[int, ev.LogDamaged]] = []

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        if isinstance(step.event, ev.LogDamaged):
            self.found.append((node.replica_id, step.event))


def put_aside(cluster: Cluster, broker_id: int) -> list[str]:
    """The damaged logs that a broker keeps for somebody to look at."""
    return [name for name in cluster.node(broker_id).disk.files.names(DATA) if name.endswith("-damaged")]


def incarnations(cluster: Cluster) -> list[int]:
    """How often each machine has begun."""
    return [node.incarnation for node in cluster.world.nodes.values()]


def wait_until_repaired(cluster: Cluster, topic: TopicPartition, *replicas: int) -> None:
    """Wait until all replicas are in sync again, with equal logs, and nobody is offline."""
    cluster.wait_for_isr(topic, *replicas)
    cluster.wait_for_same_logs(topic, *replicas)
    assert all(not offline(cluster, broker_id) for broker_id in replicas)
    assert cluster.values(topic) == [VALUE] * WRITTEN


def test_consumer_that_reads_a_rotten_batch_of_the_leader() -> None:
    """It is told so; another replica leads, with all that was acknowledged; the log is fetched anew; nobody halts."""
    damages = Damages()
    cluster = Cluster(3, observers=(damages,))
    topic, other = written(cluster, "topic", 1, 2, 3), written(cluster, "other", 1, 2, 3)
    path = rot(cluster, 1, topic)

    assert cluster.fetch(topic, at=1).error is ErrorCode.KAFKA_STORAGE_ERROR
    ((broker_id, damage),) = damages.found
    assert (broker_id, damage.topic_partition, damage.offset) == (1, topic, 0)
    assert damage.reason.startswith(f"{path} at byte 0 holds a corrupt batch")
    cluster.wait(lambda: cluster.registration(topic).leader_id != 1, "another leads")
    wait_until_repaired(cluster, topic, 1, 2, 3)
    assert cluster.leader(other) == 1
    assert cluster.registration(other).leader_epoch == 0
    assert incarnations(cluster) == [1, 1, 1]
    assert [name.partition(".")[0] for name in put_aside(cluster, 1)] == ["topic-0"]


def test_whoever_comes_upon_the_damage_is_told() -> None:
    """So it is with a question for the first record since a time, and with a dump."""
    cluster = Cluster(3)
    topic, other = written(cluster, "topic", 1, 2, 3), written(cluster, "other", 1, 2, 3)
    rot(cluster, 1, topic)
    rot(cluster, 1, other)
    since = m.ListOffsetsRequest(topic_partition=topic, timestamp_ms=NO_TIMESTAMP)
    assert cluster.ask(1, since, m.ListOffsetsResponse).error is ErrorCode.KAFKA_STORAGE_ERROR
    dump = m.DumpLogRequest(topic_partition=other, offset=Offset(0), max_bytes=9999)
    assert cluster.ask(1, dump, m.DumpLogResponse).error is ErrorCode.KAFKA_STORAGE_ERROR
    wait_until_repaired(cluster, topic, 1, 2, 3)
    wait_until_repaired(cluster, other, 1, 2, 3)


def test_disk_that_cannot_be_read() -> None:
    """A read that fails, and writes that do not, are damage of the log that is read."""
    damages = Damages()
    cluster = Cluster(3, observers=(damages,))
    topic, other = written(cluster, "topic", 1, 2, 3), written(cluster, "other", 1, 2, 3)
    bad_sectors = [("pread", segments(cluster, 1, topic)[0])]

    def fault(call: str, at: Path) -> OSError | None:
        if (call, at) not in bad_sectors:
            return None
        bad_sectors.remove((call, at))
        return OSError(errno.EIO, "Input/output error", str(at))

    cluster.node(1).disk.files.fault = fault
    assert cluster.fetch(topic, at=1).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert "cannot be read: [Errno 5]" in damages.found[0][1].reason
    wait_until_repaired(cluster, topic, 1, 2, 3)
    assert cluster.leader(other) == 1
    assert incarnations(cluster) == [1, 1, 1]


def test_only_copy_stays_offline() -> None:
    """Where nobody else holds the data, the partition waits, says so, and keeps its files, also after a restart."""
    cluster = Cluster(3)
    topic, other = written(cluster, "topic", 1), written(cluster, "other", 1, 2, 3)
    path = rot(cluster, 1, topic)
    content = cluster.node(1).disk.files.content(path)
    assert cluster.fetch(topic, at=1).error is ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(2):
        cluster.pass_ms(10_000)
        assert list(offline(cluster, 1)) == [topic]
        waiting = cluster.registration(topic)
        assert (waiting.leader_id, waiting.isr, waiting.elr) == (None, (), (1,))
        assert cluster.fetch(topic, at=1).error is ErrorCode.KAFKA_STORAGE_ERROR
        request = m.DescribeReplicaRequest(topic_partition=topic)
        assert cluster.ask(1, request, m.DescribeReplicaResponse).error is ErrorCode.KAFKA_STORAGE_ERROR
        cluster.produce(other, b"goes on")
        assert cluster.node(1).disk.files.content(path) == content
        cluster.bounce(1)
    assert put_aside(cluster, 1) == []


def damage_epochs(cluster: Cluster, topic: TopicPartition) -> None:
    """Spoil a small file of a log."""
    cluster.node(2).disk.files.overwrite(DATA / str(topic) / EPOCHS, b"no epochs")
    cluster.node(2).disk.is_damaged = True


def lose_folder(cluster: Cluster, topic: TopicPartition) -> None:
    """Take a whole log away."""
    cluster.node(2).disk.files.remove(DATA / str(topic))
    cluster.node(2).disk.is_damaged = True


def spoil_metadata(cluster: Cluster, topic: TopicPartition) -> None:
    """Make it unknown of which topic a log is."""
    cluster.node(2).disk.files.overwrite(DATA / str(topic) / "partition.metadata", b"whose?")
    cluster.node(2).disk.is_damaged = True


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda cluster, topic: rot(cluster, 2, topic), id="segment"),
        damage_epochs,
        lose_folder,
        spoil_metadata,
    ],
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_damage_that_a_start_finds(harm: Callable[[Cluster, TopicPartition], object], is_clean: bool) -> None:
    """One damaged log keeps no broker from starting: all others are served, and it is fetched anew."""
    cluster = Cluster(3)
    topic, other = written(cluster, "topic", 1, 2, 3), written(cluster, "other", 2, 1, 3)
    if is_clean:
        cluster.stop(2)
    else:
        cluster.kill(2)
    cluster.pass_ms(3_000)
    harm(cluster, topic)
    cluster.start(2)
    if is_clean and topic not in offline(cluster, 2):
        cluster.fetch(topic, at=2)  # A log that was closed cleanly is not searched.
    wait_until_repaired(cluster, topic, 1, 2, 3)
    cluster.wait_for_isr(other, 1, 2, 3)
    assert incarnations(cluster) == [1, 2, 1]


def test_log_that_rots_again_fills_no_disk() -> None:
    """Of what was put aside of one log, the last is kept."""
    cluster = Cluster(3)
    topic = written(cluster, "topic", 1, 2, 3)
    for _ in range(3):
        rot(cluster, 2, topic)
        cluster.fetch(topic, at=2)
        cluster.pass_ms(8_000)
        wait_until_repaired(cluster, topic, 1, 2, 3)
    assert len(put_aside(cluster, 2)) == 1


def test_deleted_topic_leaves_nothing_aside() -> None:
    """With a topic goes what was put aside of it, and what is damaged; and its name is free."""
    cluster = Cluster(3)
    topic, only = written(cluster, "topic", 1, 2, 3), written(cluster, "only", 2)
    for name in (topic, only):
        rot(cluster, 2, name)
        cluster.fetch(name, at=2)
    cluster.wait(lambda: list(offline(cluster, 2)) == [only], "the other one is fetched anew")
    for name in (topic, only):
        request = m.DeleteTopicRequest(name=name.topic)
        assert cluster.ask(cluster.controller_id, request, m.DeleteTopicResponse).error is ErrorCode.NONE
    cluster.pass_ms(2_000)
    assert put_aside(cluster, 2) == []
    assert offline(cluster, 2) == {}
    written(cluster, "only", 2)


class InTheSameEpoch(Rules):
    """A damaged log is replaced in the leader epoch in which it was damaged."""

    def damage_begins_new_epoch(self) -> bool:
        """The ISR is what counts."""
        return False

    def may_begin_anew(self, *, damaged_in: Epoch, leader_epoch: Epoch, is_counted_on: bool, has_leader: bool) -> bool:
        """Once nobody counts on it."""
        return has_leader and not is_counted_on


def late_fetch(rules: type[Rules]) -> bool:
    """Whether a fetch from before the damage, that comes long after it, lets a replica in that has nothing by then."""
    cluster = Cluster(3, controller=WITHOUT_ELR, rules=rules, is_judged=False)
    controller = cluster.controller_id
    leader, follower = (broker for broker in (1, 2, 3) if broker != controller)
    topic = written(cluster, "topic", leader, follower, controller)
    node = cluster.node(follower)
    assert node.core is not None
    assert node.core.broker is not None
    asked = cluster.replica(follower, topic).next_request(node.now_ms)
    assert isinstance(asked, m.FetchPartition)
    late = m.FetchRequest(
        partitions=(asked,),
        cluster_id=node.core.config.cluster_id,
        replica_id=node.replica_id,
        replica_directory_id=node.disk.directory_id,
        broker_epoch=node.core.broker.broker_epoch,
    )
    cluster.world.network.cut(1, frozenset({(leader, follower), (follower, leader)}))
    rot(cluster, follower, topic)
    cluster.fetch(topic, at=follower)
    cluster.wait_for_isr(topic, leader, controller)
    cluster.wait(lambda: bool(put_aside(cluster, follower)), "it has begun anew")
    cluster.ask(leader, late, m.FetchResponse)
    cluster.pass_ms(200)
    assert cluster.replica(follower, topic).log.log_end_offset == 0
    return follower in cluster.registration(topic).isr


def test_fetch_from_before_the_damage_lets_nobody_in() -> None:
    """It is of a leader epoch that is over. In the same epoch a replica would join for what it has lost."""
    assert not late_fetch(Rules)
    assert late_fetch(InTheSameEpoch)
