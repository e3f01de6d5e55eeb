"""What an operator sees of the cluster: who controls it, which brokers come and go, whose ISR changes, and how many."""

from __future__ import annotations

from msgspec.structs import replace
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from replica.core.events import Started, Ticked
from replica.core.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.ids import BrokerEpoch, Epoch, PartitionEpoch, ReplicaId, TopicId, TopicPartition
from tests.server.observer_fakes import ONE, TWO, FakePartition, FakeReplica, FakeRole, observer_of_replica

PART = TopicPartition("t", 0)
BROKER = BrokerRegistration(
    broker_id=ONE,
    broker_epoch=BrokerEpoch(4),
    incarnation_id="i",
    directory_id="d",
    flushes=True,
    address="a:1",
    rack=None,
    fenced=True,
    in_controlled_shutdown=False,
)
LED = PartitionRegistration(
    replicas=(ONE, TWO),
    isr=(ONE, TWO),
    elr=(),
    last_known_leader=None,
    leader_id=ONE,
    leader_epoch=Epoch(2),
    partition_epoch=PartitionEpoch(5),
    leader_recovery_state=LeaderRecoveryState.RECOVERED,
)


def image_of(*brokers: BrokerRegistration, partition: PartitionRegistration | None = None) -> MetadataImage:
    topic = TopicImage(name="t", topic_id=TopicId(7), partitions={} if partition is None else {0: partition})
    return MetadataImage(brokers={broker.broker_id: broker for broker in brokers}, topics={"t": topic})


def lines_of(replica: FakeReplica, *images: MetadataImage) -> list[str]:
    """The lines that these images make, one after another: the event, and the broker that it is about."""
    observer, _ = observer_of_replica(replica)
    with capture_logs() as lines:
        observer.on_step(Started(), (), 1)
        for image in images:
            replica.image = image
            observer.on_step(Ticked(), (), 2)
    return [f"{line['event']} {line['broker_id']}" for line in lines if "broker_id" in line]


LIFE = (
    image_of(BROKER),
    image_of(replace(BROKER, fenced=False)),
    image_of(replace(BROKER, fenced=False, in_controlled_shutdown=True)),
    image_of(replace(BROKER, in_controlled_shutdown=True)),
    image_of(replace(BROKER, broker_epoch=BrokerEpoch(9), fenced=False)),
)


def test_a_broker_tells_of_its_own_life() -> None:
    """Each change of a broker's standing is one line, written by itself."""
    assert lines_of(FakeReplica(), *LIFE) == [
        "broker_registered 1",
        "broker_unfenced 1",
        "broker_leaving 1",
        "broker_fenced 1",
        "broker_registered 1",
        "broker_unfenced 1",
    ]


def test_of_other_brokers_only_the_active_controller_tells() -> None:
    """A broker is silent about others, so that a cluster's lines tell everything about once."""
    elsewhere = FakeReplica(replica_id=TWO)
    assert lines_of(elsewhere, *LIFE) == []
    assert len(lines_of(FakeReplica(replica_id=TWO, is_active_controller=True), *LIFE)) == 6


def test_a_broker_that_is_forgotten_is_one_line() -> None:
    """The active controller writes it."""
    lines = lines_of(FakeReplica(replica_id=TWO, is_active_controller=True), image_of(BROKER), image_of())
    assert lines == ["broker_registered 1", "broker_unregistered 1"]


def test_controllers_come_and_go() -> None:
    """Becoming the active controller and ceasing to be are one line each, with the epoch of the metadata log."""
    replica = FakeReplica()
    observer, _ = observer_of_replica(replica)
    observer.on_step(Started(), (), 1)
    with capture_logs() as lines:
        for is_active in (True, True, False):
            replica.is_active_controller = is_active
            observer.on_step(Ticked(), (), 2)
    assert [(line["event"], line["epoch"]) for line in lines] == [("controller_active", 3), ("controller_renounced", 3)]


def test_an_isr_is_told_by_the_leader_that_goes_on() -> None:
    """isr_shrunk and isr_expanded name who left and joined, and are counted; a new leader's first ISR is no change."""
    partition = FakePartition(role=FakeRole("leader"), registration=LED)
    replica = FakeReplica(partitions={PART: partition})
    observer, metrics = observer_of_replica(replica)
    changes = (
        LED,
        replace(LED, isr=(ONE,), partition_epoch=PartitionEpoch(6)),
        replace(LED, isr=(ONE, TWO), partition_epoch=PartitionEpoch(7)),
        replace(LED, isr=(TWO,), leader_id=TWO, leader_epoch=Epoch(3)),
        replace(LED, isr=(ONE, TWO), leader_id=TWO, leader_epoch=Epoch(3)),
        replace(LED, isr=(ONE,), leader_epoch=Epoch(4)),
    )
    with capture_logs() as lines:
        for registration in changes:
            replica.change(PART, registration)
            observer.on_step(Ticked(), (), 2)
    told = [line for line in lines if line["event"].startswith("isr_")]
    assert [(line["event"], line["isr"]) for line in told] == [("isr_shrunk", [1]), ("isr_expanded", [1, 2])]
    assert (told[0]["left"], told[1]["joined"]) == ([2], [2])
    page = generate_latest(metrics.registry).decode()
    assert "replica_isr_shrinks_total 1.0" in page
    assert "replica_isr_expands_total 1.0" in page


def test_a_partitions_change_of_role_names_topic_and_partition() -> None:
    """role_changed of a partition comes when new metadata gives it another role, leader or epoch, and not otherwise."""
    replica = FakeReplica(logs={}, partitions={PART: FakePartition(registration=LED)})
    observer, _ = observer_of_replica(replica)
    with capture_logs() as lines:
        for leader_id in (TWO, TWO, ONE):
            replica.change(PART, replace(LED, leader_id=leader_id))
            observer.on_step(Ticked(), (), 1)
    told = [(line["log"], line["topic"], line["partition"], line["epoch"], line["leader_id"]) for line in lines[:2]]
    assert told == [("t-0", "t", 0, 2, 2), ("t-0", "t", 0, 2, 1)]
    assert lines[0]["isr"] == LED.isr


def test_partitions_are_looked_at_when_they_are_told_something() -> None:
    """Of many partitions those are looked at that a step has told something, not all because the metadata is new."""
    names = [TopicPartition("t", number) for number in range(3)]
    replica = FakeReplica(logs={}, partitions={name: FakePartition(registration=LED) for name in names})
    observer, _ = observer_of_replica(replica)
    looked_at: list[list[str]] = []
    with capture_logs() as lines:
        for told in ([], names[:1], names[1:]):
            replica.image = image_of(partition=LED)
            replica.told += told
            observer.on_step(Ticked(), (), 1)
            looked_at.append([line["log"] for line in lines])
    assert looked_at == [[], ["t-0"], ["t-0", "t-1", "t-2"]]


def page_of(replica: FakeReplica) -> dict[str, float]:
    """The numbers without labels."""
    _, metrics = observer_of_replica(replica)
    lines = generate_latest(metrics.registry).decode().splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines if line.count(" ") == 1)}


def test_partitions_are_counted_by_how_well_they_are_kept() -> None:
    """Hosted and led partitions are counted, and among those that are led the ones that lack replicas in sync."""
    others = replace(LED, leader_id=TWO, isr=(TWO,))
    registrations = (LED, replace(LED, isr=(ONE,)), others)
    partitions = {TopicPartition("t", at): FakePartition(registration=one) for at, one in enumerate(registrations)}
    page = page_of(FakeReplica(partitions=partitions))
    assert (page["replica_partition_count"], page["replica_leader_count"]) == (3, 2)
    assert page["replica_under_replicated_partitions"] == 1
    assert (page["replica_under_min_isr_partition_count"], page["replica_at_min_isr_partition_count"]) == (1, 1)


def test_only_the_active_controller_counts_the_cluster() -> None:
    """Offline partitions and brokers are counted by the active controller and are 0 elsewhere."""
    other = replace(BROKER, broker_id=ReplicaId(2), fenced=False)
    image = image_of(BROKER, other, partition=replace(LED, isr=(), leader_id=None))
    names = (
        "active_controller_count",
        "offline_partitions_count",
        "partitions_waiting_for_operator_count",
        "active_broker_count",
        "fenced_broker_count",
    )
    for is_active in (True, False):
        page = page_of(FakeReplica(image=image, is_active_controller=is_active))
        assert [page[f"replica_{name}"] for name in names] == [is_active] * 5
