"""The admin client against a whole simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from replica.cli.topic_waiting import replica_ends, waiting_lines
from replica.client.admin import Admin
from replica.client.cluster_view import ViewConfig
from replica.client.failures import AdminError, UnknownTopicError
from replica.core.messages import HIGH_WATERMARK, CreateTopicRequest, DeleteRecordsRequest, ElectionType
from replica.core.metadata.image import TopicImage
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition
from tests.client.virtual import ClusterConnections, bootstrap
from tests.replication.bench import Cluster

FAST = ViewConfig(request_timeout_ms=2000, api_timeout_ms=20_000)


def admin_of(cluster: Cluster) -> tuple[Admin, ClusterConnections]:
    connections = ClusterConnections(cluster)
    return Admin(bootstrap(cluster), FAST, connections=connections, clock=connections.clock), connections


async def described(admin: Admin, holds: Callable[[TopicImage], bool]) -> TopicImage:
    """Describe ``orders`` until the broker that answers has heard of the change that was made."""
    for _ in range(100):
        with suppress(UnknownTopicError):
            topic = await admin.describe_topic("orders")
            if holds(topic):
                return topic
    raise AssertionError("the broker that answers does not hear of it")


async def test_a_topic_lives_from_its_creation_to_its_end(cluster: Cluster) -> None:
    """A topic is created, described, altered, led by whom the operator wants, and deleted."""
    admin, _ = admin_of(cluster)
    topic_id = await admin.create_topic("orders", assignment=[[2, 1], [3, 2]], configs={"min.insync.replicas": "2"})
    topic = await described(admin, lambda topic: topic.topic_id == topic_id)
    assert [topic.partitions[number].leader_id for number in (0, 1)] == [2, 3]
    await admin.alter_topic("orders", {"min.insync.replicas": None, "retention.ms": "1000"})
    await described(admin, lambda topic: topic.configs == {"retention.ms": "1000"})
    with pytest.raises(AdminError, match="ELECTION_NOT_NEEDED: 2 leads already"):
        await admin.elect_leader(TopicPartition("orders", 0), ElectionType.PREFERRED)
    await admin.delete_topic("orders")
    with pytest.raises(UnknownTopicError, match="orders does not exist"):
        for _ in range(100):
            await admin.describe_topic("orders")


async def test_an_operator_moves_the_leadership_back(cluster: Cluster) -> None:
    """A preferred leader that was away leads again when it is asked for."""
    topic = cluster.create("orders", (2, 1))
    admin, _ = admin_of(cluster)
    cluster.bounce(2)
    cluster.wait_for_isr(topic, 1, 2)
    assert cluster.leader(topic) == 1
    await admin.elect_leader(topic)
    assert cluster.leader(topic) == 2


async def test_partitions_move_and_go_back(cluster: Cluster) -> None:
    """A move is begun, told of while it is under way, taken back, and told of no more when it is done."""
    first = cluster.create("orders", (1, 2), (2, 1))
    second = TopicPartition("orders", 1)
    admin, _ = admin_of(cluster)
    cluster.node(3).disk.slow_factor = 1000
    await admin.alter_partition_reassignments({first: [3, 2], second: [3, 1]})
    moving = await admin.list_partition_reassignments()
    assert {ongoing.topic_partition: ongoing.replicas for ongoing in moving} == {first: (3, 2, 1), second: (3, 1, 2)}
    assert [(ongoing.adding_replicas, ongoing.removing_replicas) for ongoing in moving] == [((3,), (1,)), ((3,), (2,))]
    assert await admin.list_partition_reassignments(["refunds"]) == ()
    await admin.alter_partition_reassignments({second: None})
    assert [ongoing.topic_partition for ongoing in await admin.list_partition_reassignments(["orders"])] == [first]
    cluster.node(3).disk.slow_factor = 1
    cluster.wait_for_replicas(first, 3, 2)
    assert await admin.list_partition_reassignments() == ()
    topic = await described(admin, lambda topic: topic.partitions[0].leader_id == 3)
    assert [topic.partitions[number].replicas for number in (0, 1)] == [(3, 2), (1, 2)]


async def test_a_refused_move_says_which_and_leaves_the_others(cluster: Cluster) -> None:
    """The first partition that is refused gives its reason; the others are moved all the same."""
    first = cluster.create("orders", (1, 2), (2, 1))
    second = TopicPartition("orders", 1)
    admin, _ = admin_of(cluster)
    with pytest.raises(AdminError) as refused:
        await admin.alter_partition_reassignments({first: [2, 2], second: [1, 2]})
    assert str(refused.value) == (
        "INVALID_REPLICA_ASSIGNMENT: the target of orders-0 names a broker twice: [2, 2]; "
        "1 of 2 partitions are moved as asked"
    )
    assert (refused.value.error, refused.value.may_be_done) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, True)
    cluster.wait_for_replicas(second, 1, 2)
    with pytest.raises(AdminError, match=r"^NO_REASSIGNMENT_IN_PROGRESS: orders-0 is not being reassigned$") as refused:
        await admin.alter_partition_reassignments({first: None})
    assert not refused.value.may_be_done


async def test_a_change_survives_the_controller(cluster: Cluster) -> None:
    """With the controller gone, the next one is found and makes the change."""
    admin, _ = admin_of(cluster)
    await admin.create_topic("before", partition_count=1, replication_factor=3)
    cluster.kill(cluster.controller_id)
    await admin.create_topic("after", partition_count=1, replication_factor=1)
    assert set(cluster.image.topics) == {"before", "after"}


async def test_a_lost_answer_leaves_a_doubt(cluster: Cluster) -> None:
    """A refusal after an attempt whose answer was lost says that the change may be done."""
    admin, connections = admin_of(cluster)
    lost: list[int] = []

    def lose(_: object, request: object) -> bool:
        if isinstance(request, CreateTopicRequest) and "orders" in cluster.image.topics and not lost:
            lost.append(1)
            return True
        return False

    connections.lose = lose
    with pytest.raises(AdminError, match="may have done it") as refused:
        await admin.create_topic("orders", partition_count=1, replication_factor=3)
    assert refused.value.error is ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused.value.may_be_done
    with pytest.raises(AdminError) as again:
        await admin.create_topic("orders", partition_count=1, replication_factor=3)
    assert not again.value.may_be_done


async def test_records_are_deleted_up_to_an_offset(cluster: Cluster) -> None:
    """Each partition begins where it was told to, or at its high watermark; on all replicas, and once is enough."""
    admin, connections = admin_of(cluster)
    first, second = cluster.create("orders", (1, 2)), cluster.create("refunds", (2, 3))
    for topic in (first, second):
        cluster.produce(topic, b"0", b"1", b"2", b"3")
    assert await admin.delete_records({first: 3, second: HIGH_WATERMARK}) == {first: 3, second: 4}
    assert await admin.delete_records({first: 2}) == {first: 3}
    assert connections.asked(DeleteRecordsRequest) == [1, 2, 1]
    cluster.pass_ms(2000)
    assert {cluster.replica(broker, first).log.log_start_offset for broker in (1, 2)} == {3}


async def test_uncommitted_records_are_not_deleted(cluster: Cluster) -> None:
    """Beyond the high watermark is a refusal at once, by which nothing was changed."""
    admin, _ = admin_of(cluster)
    topic = cluster.create("orders", (1, 2))
    cluster.produce(topic, b"0")
    with pytest.raises(AdminError, match="orders-0: broker 1 answered OFFSET_OUT_OF_RANGE") as refused:
        await admin.delete_records({topic: 2})
    assert (refused.value.error, refused.value.may_be_done) == (ErrorCode.OFFSET_OUT_OF_RANGE, False)
    assert cluster.replica(1, topic).log.log_start_offset == 0


async def test_records_of_no_partition_cannot_be_deleted(cluster: Cluster) -> None:
    """A partition that stays unknown is named as unknown when the time is up; certainly nothing was done."""
    admin, _ = admin_of(cluster)
    with pytest.raises(UnknownTopicError, match=r"^nothing-0 does not exist$") as refused:
        await admin.delete_records({TopicPartition("nothing", 0): 1}, timeout_ms=500)
    assert refused.value.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("offset", [-2, 2**63, 10**19])
async def test_what_is_no_offset_is_said_before_anybody_is_asked(cluster: Cluster, offset: int) -> None:
    """No partition's records are deleted if one of the offsets cannot be meant."""
    admin, connections = admin_of(cluster)
    topic = cluster.create("orders", (1, 2))
    with pytest.raises(ValueError, match=f"orders-1: {offset} is no offset"):
        await admin.delete_records({topic: 0, TopicPartition("orders", 1): offset})
    assert connections.calls == []


async def test_records_are_deleted_by_the_next_leader(cluster: Cluster) -> None:
    """With the leader gone the next one is found; an answer that was lost is asked for again."""
    admin, connections = admin_of(cluster)
    topic = cluster.create("orders", (1, 2))
    cluster.produce(topic, b"0", b"1")
    assert await admin.delete_records({topic: 1}) == {topic: 1}
    cluster.kill(1)
    lost: list[int] = []

    def lose(_: object, request: object) -> bool:
        if isinstance(request, DeleteRecordsRequest) and len(lost) < 2:
            lost.append(1)
            return True
        return False

    connections.lose = lose
    assert await admin.delete_records({topic: HIGH_WATERMARK}) == {topic: 2}
    assert len(lost) == 2
    assert connections.asked(DeleteRecordsRequest)[-1] == 2


async def test_a_deletion_without_an_answer_is_in_doubt(cluster: Cluster) -> None:
    """Where every answer is lost, the records may be gone."""
    admin, connections = admin_of(cluster)
    topic = cluster.create("orders", (1, 2))
    cluster.produce(topic, b"0")
    connections.lose = lambda _, request: isinstance(request, DeleteRecordsRequest)
    with pytest.raises(AdminError, match="may be done all the same") as unanswered:
        await admin.delete_records({topic: 1}, timeout_ms=5000)
    assert unanswered.value.may_be_done
    assert cluster.replica(1, topic).log.log_start_offset == 1


async def test_an_operator_chooses_where_a_partition_waits() -> None:
    """The last in sync has lost its disk: it is told what each replica has, and the one that is named leads."""
    cluster = Cluster(3, is_judged=False)
    name = cluster.create("orders", (1, 2), min_insync_replicas="1")
    cluster.produce(name, b"a", b"b")
    admin, _ = admin_of(cluster)
    cluster.kill(2)
    cluster.wait_for_isr(name, 1)
    cluster.kill(1)
    cluster.world.change_disk(cluster.node(1))
    cluster.start(2)  # It votes, as its disk is the one that the log names; without it nobody leads.
    cluster.start(1)
    topic = await described(admin, lambda topic: topic.partitions[0].waits_for_operator)
    ends = await replica_ends(admin, topic, 5000)
    assert waiting_lines("orders", 0, topic.partitions[0], ends)[1:3] == [
        "  replica 1 is empty, and ends at offset 0",
        "  replica 2 has its last record in epoch 0, and ends at offset 2",
    ]
    with pytest.raises(AdminError, match=r"INVALID_REQUEST: name the one that is to lead, \[1, 2\] are active"):
        await admin.elect_leader(name, ElectionType.UNCLEAN)
    await admin.elect_leader(name, ElectionType.UNCLEAN, leader_id=ReplicaId(2))
    cluster.wait_for_isr(name, 1, 2)
    assert cluster.leader(name) == 2


async def test_the_high_watermark_is_looked_up_once(cluster: Cluster) -> None:
    """What is committed after a deletion was asked for outlives it, however often it has to be asked for again."""
    name = cluster.create("orders", (1, 2))
    cluster.produce(name, b"a", b"b")
    admin, connections = admin_of(cluster)
    lost: list[int] = []

    def lose(_: object, request: object) -> bool:
        if isinstance(request, DeleteRecordsRequest) and not lost:
            lost.append(request.offset)
            cluster.produce(name, b"c")
            return True
        return False

    connections.lose = lose
    assert await admin.delete_records({name: HIGH_WATERMARK}) == {name: 2}
    assert lost == [2]
    log = cluster.replica(1, name).log
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
