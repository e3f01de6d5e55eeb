"""The metadata log gives way to snapshots, and who lacks what is gone goes on as if it had come record by record.

Every step is judged: each image is the fold of the whole committed log at its offset, each snapshot is that image.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nemesis.simulator.node import Node, Step
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import messages as m
from replica.core.config import MetadataConfig
from replica.core.metadata import snapshots
from replica.core.metadata.encoding import VERSION
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.replay import METADATA_LOG
from replica.core.metadata.snapshots import encode_image
from replica.core.quorum import QuorumLog
from replica.errors import ErrorCode
from replica.ids import ReplicaId, SnapshotId, TopicPartition
from replica.machines import Snapshot
from replica.machines.snapshots import sealed, unsealed
from tests.replication.bench import Cluster

OFTEN = MetadataConfig(metadata_log_max_record_bytes_between_snapshots=1)
"""After as many bytes of records as the last snapshot has."""
BY_TIME = MetadataConfig(metadata_log_max_snapshot_interval_ms=2000)


class Installed(Observer):
    """Who has begun its metadata log anew at a leader's snapshot."""

    def __init__(self) -> None:
        self.replicas: list[int] = []

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        self.replicas += [node.replica_id for effect in step.effects if isinstance(effect, fx.InstallSnapshot)]


def metadata_log(cluster: Cluster, broker_id: int) -> QuorumLog:
    core = cluster.node(broker_id).core
    assert core is not None, broker_id
    return core.logs[METADATA_LOG]


def delete(cluster: Cluster, name: TopicPartition) -> None:
    answer = cluster.ask(cluster.controller_id, m.DeleteTopicRequest(name=name.topic), m.DeleteTopicResponse)
    assert answer.error is ErrorCode.NONE, answer


def churn(cluster: Cluster, times: int, *replicas: int) -> None:
    """Create topics and delete them again, as often as that."""
    for number in range(times):
        delete(cluster, cluster.create(f"churn{number}", replicas))


def new_producer_id(cluster: Cluster) -> int:
    answer = cluster.ask(cluster.controller_id, m.InitProducerIdRequest(), m.InitProducerIdResponse)
    assert answer.producer_id is not None, answer
    return answer.producer_id


def let_control(cluster: Cluster, broker_id: int) -> None:
    """Hand the leadership of the metadata log to a replica."""
    if cluster.controller_id == broker_id:
        return
    target = ReplicaId(broker_id)
    request = m.TransferLeadershipRequest(topic_partition=METADATA_LOG, target_id=target, timeout_ms=5000)
    cluster.begin(cluster.controller_id, request)
    cluster.wait(lambda: metadata_log(cluster, broker_id).leader_id == broker_id, f"{broker_id} leads")
    assert cluster.controller_id == broker_id


def settle(cluster: Cluster) -> None:
    """Wait until all who are up have the same image."""

    def same() -> bool:
        cores = [node.core for node in cluster.world.up() if node.core is not None]
        return len({core.metadata.applied_offset for core in cores}) == 1

    cluster.wait(same, "all have applied equally much")
    images = [node.core.metadata.image for node in cluster.world.up() if node.core is not None]
    assert all(image == images[0] for image in images)


@pytest.mark.slow
def test_the_metadata_log_does_not_grow_for_ever() -> None:
    """However many topics come and go, each replica keeps two snapshots, and of the log what lies above the older."""
    cluster = Cluster(metadata=OFTEN)
    churn(cluster, 5, 1, 2, 3)
    starts, kept = [], []
    for _ in range(3):
        churn(cluster, 10, 1, 2, 3)
        settle(cluster)
        for broker_id in (1, 2, 3):
            log = metadata_log(cluster, broker_id)
            assert log.log.log_start_offset == log.snapshots[0].id.end_offset > 0
            assert len(log.snapshots) == 2
        log = metadata_log(cluster, 1)
        starts.append(log.log.log_start_offset)
        kept.append(log.log.log_end_offset - log.log.log_start_offset)
    assert starts[0] < starts[1] < starts[2]
    assert max(kept) < 2 * min(kept)


def test_a_snapshot_is_taken_after_a_while() -> None:
    """Also where little is decided; and none while nothing new is decided since the last."""
    cluster = Cluster(metadata=BY_TIME)
    cluster.create("t", (1, 2, 3))
    cluster.wait(lambda: len(metadata_log(cluster, 2).snapshots) == 1, "a first snapshot")
    settle(cluster)
    cluster.pass_ms(3000)
    known = metadata_log(cluster, 2).snapshots
    assert known[-1].id.end_offset == cluster.metadata.applied_offset
    cluster.pass_ms(10_000)
    assert metadata_log(cluster, 2).snapshots == known


def test_without_need_none_is_taken() -> None:
    """By Kafka's defaults a small metadata log begins at 0."""
    cluster = Cluster()
    churn(cluster, 10, 1, 2, 3)
    assert metadata_log(cluster, 1).snapshots == ()
    assert metadata_log(cluster, 1).log.log_start_offset == 0


def test_a_cluster_begins_again_with_its_snapshots() -> None:
    """After a stop of all, topics, records, epochs and producer ids are what they were."""
    cluster = Cluster(metadata=OFTEN)
    name = cluster.create("t", (1, 2, 3))
    cluster.produce(name, b"a", b"b")
    given = new_producer_id(cluster)
    churn(cluster, 8, 1, 2, 3)
    epochs = {broker_id: cluster.image.brokers[ReplicaId(broker_id)].broker_epoch for broker_id in (1, 2, 3)}
    before = cluster.registration(name)
    for broker_id in (1, 2, 3):
        cluster.kill(broker_id)
    for broker_id in (1, 2, 3):
        cluster.world.release(ReplicaId(broker_id), broker_id)
    assert all(cluster.node(broker_id).recovered[METADATA_LOG].snapshots for broker_id in (1, 2, 3))
    for broker_id in (1, 2, 3):
        cluster.start(broker_id)
    assert cluster.values(name) == [b"a", b"b"]
    assert new_producer_id(cluster) > given
    assert all(cluster.image.brokers[ReplicaId(broker)].broker_epoch > epoch for broker, epoch in epochs.items())
    assert cluster.registration(name).leader_epoch >= before.leader_epoch
    assert cluster.registration(name).partition_epoch > before.partition_epoch


def gone_for_a_while(cluster: Cluster, meanwhile: Callable[[], None]) -> None:
    """Replica 3 is killed and comes back later."""
    cluster.kill(3)
    meanwhile()
    cluster.start(3)


def paused_for_a_while(cluster: Cluster, meanwhile: Callable[[], None]) -> None:
    """The process of replica 3 stands still, and goes on later with all the partitions that it has in its memory."""
    cluster.node(3).pause(0)
    meanwhile()
    cluster.node(3).resume(0)


@pytest.mark.parametrize("away", [gone_for_a_while, paused_for_a_while])
def test_who_is_far_behind_goes_on_from_a_snapshot(away: Callable[[Cluster, Callable[[], None]], None]) -> None:
    """A broker that missed what is gone from the log does what the records would have told it, all at once.

    Of its topics one is deleted, one is deleted and made anew, one has another leader in another epoch; one is new.
    """
    installed = Installed()
    cluster = Cluster(metadata=OFTEN, observers=(installed,))
    deleted, renewed = cluster.create("deleted", (3, 1, 2)), cluster.create("renewed", (3, 1, 2))
    moved = cluster.create("moved", (3, 1, 2), min_insync_replicas="2")
    cluster.produce(renewed, b"old")
    cluster.produce(moved, b"a")
    let_control(cluster, 1)
    new = TopicPartition("new", 0)

    def meanwhile() -> None:
        cluster.wait(lambda: cluster.registration(moved).leader_id not in (None, 3), "another leads")
        cluster.produce(moved, b"b")
        delete(cluster, deleted)
        delete(cluster, renewed)
        for name in (renewed, new):
            request = m.CreateTopicRequest(name=name.topic, assignment=((ReplicaId(1), ReplicaId(2), ReplicaId(3)),))
            assert cluster.ask(cluster.controller_id, request, m.CreateTopicResponse).error is ErrorCode.NONE
        cluster.produce(renewed, b"new")
        churn(cluster, 10, 1, 2)

    away(cluster, meanwhile)
    cluster.wait(lambda: 3 in installed.replicas, "3 has loaded a snapshot")
    cluster.wait_for_isr(moved, 1, 2, 3)
    cluster.wait_for_same_logs(moved, 1, 2, 3)
    assert cluster.values(moved) == [b"a", b"b"]
    for name in (renewed, new):
        cluster.wait_for_isr(name, 1, 2, 3)
        cluster.wait_for_same_logs(name, 1, 2, 3)
    assert cluster.values(renewed) == [b"new"]
    settle(cluster)
    assert cluster.hosts(deleted) == set()
    assert set(cluster.node(3).stores) == {METADATA_LOG, moved, renewed, new}


def test_a_disk_that_is_empty_begins_with_a_snapshot() -> None:
    """Who comes back without anything loads the image, registers anew, and hosts what it hosted."""
    installed = Installed()
    cluster = Cluster(metadata=OFTEN, observers=(installed,))
    name = cluster.create("t", (1, 2, 3))
    cluster.produce(name, b"a")
    let_control(cluster, 1)
    cluster.kill(3)
    cluster.wait_for_isr(name, 1, 2)
    churn(cluster, 10, 1, 2)
    cluster.world.change_disk(cluster.node(3))
    cluster.start(3)
    assert installed.replicas == [3]
    cluster.wait_for_isr(name, 1, 2, 3)
    cluster.wait_for_same_logs(name, 1, 2, 3)
    settle(cluster)


def test_a_reassignment_goes_on_from_a_snapshot() -> None:
    """A move that began before the snapshot is completed by a controller that has loaded it."""
    installed = Installed()
    cluster = Cluster(5, metadata=OFTEN, observers=(installed,))
    moving = cluster.create("moving", (1, 2))
    cluster.produce(moving, b"a")
    let_control(cluster, 1)
    cluster.kill(3)
    cluster.node(4).pause(0)
    assert cluster.reassign(moving, 4, 1).error is ErrorCode.NONE
    churn(cluster, 10, 1, 2)
    cluster.start(3)
    assert installed.replicas == [3]
    let_control(cluster, 3)
    assert cluster.registration(moving).is_reassigned
    cluster.node(4).resume(0)
    cluster.wait_for_replicas(moving, 4, 1)
    cluster.wait_for_same_logs(moving, 4, 1)
    assert cluster.values(moving) == [b"a"]


def test_a_controller_goes_on_from_a_snapshot() -> None:
    """A controller that began with a snapshot gives no id a second time, and fences nobody whom it should not."""
    installed = Installed()
    cluster = Cluster(metadata=OFTEN, observers=(installed,))
    name = cluster.create("t", (1, 2, 3), min_insync_replicas="2")
    let_control(cluster, 1)
    cluster.kill(3)
    given = [new_producer_id(cluster) for _ in range(3)]
    churn(cluster, 10, 1, 2)
    cluster.start(3)
    assert installed.replicas == [3]
    cluster.wait_for_isr(name, 1, 2, 3)
    before = cluster.registration(name)
    epochs = {broker.broker_id: broker.broker_epoch for broker in cluster.image.brokers.values()}
    let_control(cluster, 3)
    assert new_producer_id(cluster) not in given
    cluster.pass_ms(3000)
    assert {broker.broker_id: broker.broker_epoch for broker in cluster.image.brokers.values()} == epochs
    assert cluster.registration(name) == before
    cluster.kill(1)
    cluster.wait_for_isr(name, 2, 3)
    assert cluster.registration(name).partition_epoch > before.partition_epoch
    assert cluster.produce(name, b"a") == 0


class Halts(Observer):
    """Who has halted, and why."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        self.reasons += [effect.reason for effect in step.effects if isinstance(effect, fx.Halt)]


def test_what_a_later_release_has_written_stops_the_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """As such a record in the log does. It would be fetched for ever, and the replica would live in old metadata."""

    def later(image: MetadataImage, snapshot_id: SnapshotId) -> Snapshot:
        data = unsealed(encode_image(image, snapshot_id).data)
        return Snapshot(id=snapshot_id, data=sealed(bytes([VERSION + 1]) + data[1:]))

    halts = Halts()
    cluster = Cluster(metadata=OFTEN, observers=(halts,), is_judged=False)
    let_control(cluster, 1)
    cluster.kill(3)
    monkeypatch.setattr(snapshots, "encode_image", later)
    churn(cluster, 10, 1, 2)
    cluster.world.release(ReplicaId(3), 3)
    cluster.wait(lambda: bool(halts.reasons), "a replica halts")
    assert f"version {VERSION + 1} is unknown" in halts.reasons[0]
