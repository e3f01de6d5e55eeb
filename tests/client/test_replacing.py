"""One broker in the place of another: the verdicts, and the moves on a scripted cluster."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from replica.client.admin import Admin
from replica.client.connections import Endpoint
from replica.client.replacing import Verdict, check_partitions, faults_of, move_all
from replica.core import messages as m
from replica.core.metadata.image import TopicImage
from replica.core.metadata.records import PartitionRegistration
from replica.errors import ErrorCode
from replica.ids import Epoch, PartitionEpoch, ReplicaId, TopicId, TopicPartition
from tests.client.views import BOOTSTRAP, broker, described
from tests.client.virtual import ClusterConnections, ScriptedConnections, VirtualClock, bootstrap
from tests.replication.bench import Cluster

OLD, NEW = ReplicaId(1), ReplicaId(4)


def partition(replicas: str, isr: str, **others: Any) -> PartitionRegistration:
    """A partition by the ids of its replicas and those in sync; the first of the latter leads."""
    return PartitionRegistration(
        replicas=tuple(map(ReplicaId, map(int, replicas))),
        isr=tuple(map(ReplicaId, map(int, isr))),
        leader_id=ReplicaId(int(isr[0])) if isr else None,
        leader_epoch=Epoch(0),
        partition_epoch=PartitionEpoch(0),
        **others,
    )


def cluster(*partitions: PartitionRegistration, old_runs: bool = True, min_isr: int = 2) -> m.DescribeClusterResponse:
    """Brokers 1 to 4 and one topic."""
    brokers = (broker(1, fenced=not old_runs), broker(2), broker(3), broker(4))
    topic = TopicImage(
        name="orders",
        topic_id=TopicId(1),
        partitions=dict(enumerate(partitions)),
        configs={"min.insync.replicas": str(min_isr)},
    )
    return replace(described(), brokers=brokers, topics=(topic,))


@pytest.mark.parametrize(
    ("registration", "runs", "verdict", "target"),
    [
        (partition("123", "123"), True, Verdict.SAFE, (4, 2, 3)),
        (partition("321", "123"), False, Verdict.SAFE, (3, 2, 4)),
        (partition("123", "12"), True, Verdict.BELOW_MIN_ISR, (4, 2, 3)),
        (partition("123", "1", elr=(2,)), True, Verdict.BELOW_MIN_ISR, (4, 2, 3)),
        (partition("123", "", elr=(2,)), False, Verdict.BELOW_MIN_ISR, (4, 2, 3)),
        (partition("123", "1"), True, Verdict.LAST_COPY, (4, 2, 3)),
        (partition("1", "1"), True, Verdict.LAST_COPY, (4,)),
        (partition("12", "12"), True, Verdict.BELOW_MIN_ISR, (4, 2)),
        (partition("123", "1"), False, Verdict.UNREACHABLE, (4, 2, 3)),
        (partition("123", "", last_known_leader=OLD), False, Verdict.UNREACHABLE, (4, 2, 3)),
        (partition("123", "", last_known_leader=ReplicaId(2)), True, Verdict.BELOW_MIN_ISR, (4, 2, 3)),
        (partition("123", ""), True, Verdict.UNREACHABLE, (4, 2, 3)),
        (partition("124", "124"), True, Verdict.SAFE, None),
        (partition("4231", "1", adding_replicas=(NEW,), removing_replicas=(OLD,)), True, Verdict.LAST_COPY, (4, 2, 3)),
        (partition("4231", "4231", adding_replicas=(NEW,), removing_replicas=(OLD,)), True, Verdict.SAFE, (4, 2, 3)),
    ],
)
def test_verdicts(
    registration: PartitionRegistration, runs: bool, verdict: Verdict, target: tuple[int, ...] | None
) -> None:
    """A copy counts if it is in sync or eligible; the new broker stands where the old one stood."""
    (row,) = check_partitions(cluster(registration, old_runs=runs), OLD, NEW)
    assert (row.verdict, row.target, row.is_moving) == (verdict, target, bool(registration.removing_replicas))
    assert row.would_be_lost is (verdict in (Verdict.LAST_COPY, Verdict.UNREACHABLE))


def test_partitions_of_others_are_not_looked_at() -> None:
    """A partition without the old broker is none of its business."""
    assert check_partitions(cluster(partition("234", "234")), OLD, NEW) == []


@pytest.mark.parametrize(
    ("image", "old", "new", "faults"),
    [
        (cluster(partition("123", "123")), 1, 4, []),
        (cluster(partition("123", "123")), 1, 9, ["broker 9 is not registered; start it first"]),
        (cluster(partition("123", "123")), 8, 4, ["broker 8 is not registered"]),
        (cluster(old_runs=False), 2, 1, ["broker 1 is fenced; start it, and wait until it is ready"]),
        (
            cluster(partition("124", "124"), partition("123", "123")),
            *(1, 4),
            ["broker 4 has a replica already of orders-0; move these elsewhere first"],
        ),
    ],
)
def test_who_cannot_take_the_place(image: m.DescribeClusterResponse, old: int, new: int, faults: list[str]) -> None:
    """Each reason is a sentence that says what to do."""
    assert faults_of(image, ReplicaId(old), ReplicaId(new)) == faults


class Moving:
    """A cluster that begins the moves it is asked for, and ends the oldest one whenever it is looked at."""

    def __init__(self, image: m.DescribeClusterResponse) -> None:
        self.partitions = dict(image.topics[0].partitions)
        self._image = image
        self.most_at_once = 0
        self.elected: list[int] = []

    def answer(self, _endpoint: Endpoint, request: m.Request) -> m.Response:
        """Play the controller and every broker."""
        match request:
            case m.AlterPartitionReassignmentsRequest(partitions=wishes):
                for wish in wishes:
                    assert wish.replicas is not None
                    self._begin(wish.topic_partition.partition, wish.replicas)
                self.most_at_once = max(self.most_at_once, sum(one.is_reassigned for one in self.partitions.values()))
                return m.AlterPartitionReassignmentsResponse(error=ErrorCode.NONE)
            case m.ElectLeaderRequest(topic_partition=name):
                self.elected.append(name.partition)
                self.partitions[name.partition] = replace(self.partitions[name.partition], leader_id=NEW)
                return m.ElectLeaderResponse(error=ErrorCode.NONE)
            case m.DescribeClusterRequest():
                self._end_one()
                return replace(
                    self._image,
                    topics=(replace(self._image.topics[0], partitions=dict(self.partitions)),),
                    controller=m.CurrentLeader(leader_id=ReplicaId(2), leader_epoch=Epoch(1)),
                )
        raise AssertionError(request)

    def _begin(self, number: int, target: tuple[ReplicaId, ...]) -> None:
        replicas = (*target, OLD)
        self.partitions[number] = replace(
            self.partitions[number], replicas=replicas, adding_replicas=(NEW,), removing_replicas=(OLD,)
        )

    def _end_one(self) -> None:
        for number, one in self.partitions.items():
            if one.is_reassigned:
                kept = tuple(replica for replica in one.replicas if replica != OLD)
                self.partitions[number] = replace(
                    one,
                    replicas=kept,
                    isr=kept[1:] + kept[:1],
                    leader_id=kept[-1],
                    adding_replicas=(),
                    removing_replicas=(),
                )
                return


async def test_all_partitions_move_a_few_at_a_time_and_again() -> None:
    """No more than so many are under way; what cannot move is told; a second run finds nothing left to do."""
    safe = [partition("123", "123") for _ in range(5)]
    begun = partition("4231", "231", adding_replicas=(NEW,), removing_replicas=(OLD,))
    moving = Moving(cluster(*safe, begun, partition("231", "231"), partition("123", ""), partition("234", "234")))
    connections, clock = ScriptedConnections(moving.answer), VirtualClock()
    admin = Admin(BOOTSTRAP, connections=connections, clock=clock)
    said: list[str] = []
    for _ in range(2):
        left = await move_all(admin, OLD, NEW, at_once=2, say=said.append, clock=clock)
        assert [(str(row.topic_partition), row.verdict) for row in left] == [("orders-7", Verdict.UNREACHABLE)]
    assert moving.most_at_once == 2
    assert {number: one.replicas for number, one in moving.partitions.items()} == {
        **dict.fromkeys(range(6), (4, 2, 3)),
        6: (2, 3, 4),
        7: (1, 2, 3),
        8: (2, 3, 4),
    }
    assert sorted(moving.elected) == [0, 1, 2, 3, 4, 5]
    assert said[0] == "6 partitions left on broker 1, 2 of them moving"
    assert len(said) == len(set(said)) == 6


async def test_nothing_acknowledged_is_lost_by_it() -> None:
    """On a simulated cluster that is written to all the time, with a partition of which the old broker has all."""
    simulated = Cluster(4)
    simulated.create("orders", (1, 2, 3), (2, 1, 3), min_insync_replicas="2")
    names = [TopicPartition("orders", 0), TopicPartition("orders", 1), simulated.create("single", (1,))]
    acknowledged: dict[TopicPartition, list[bytes]] = {name: [] for name in names}
    connections = ClusterConnections(simulated)
    admin = Admin(bootstrap(simulated), connections=connections, clock=connections.clock)

    def write(_endpoint: Endpoint, _request: m.Request) -> bool:
        for name in names:
            value = b"%d" % len(acknowledged[name])
            simulated.produce(name, value)
            acknowledged[name].append(value)
        return False

    connections.lose = write
    assert await move_all(admin, OLD, NEW, at_once=2, say=lambda _: None, clock=connections.clock) == []
    assert [simulated.registration(name).replicas for name in names] == [(4, 2, 3), (2, 4, 3), (4,)]
    simulated.kill(OLD)
    for name in names:
        assert simulated.leader(name) != OLD
        assert simulated.values(name) == acknowledged[name]
        assert len(acknowledged[name]) > 5
