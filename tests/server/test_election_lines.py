"""What the active controller says of elections that may lose records, and of partitions that nobody leads."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from replica.core.events import Started, Ticked
from replica.core.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.ids import BrokerEpoch, Epoch, PartitionEpoch, ReplicaId, TopicId
from tests.server.observer_fakes import ONE, TWO, FakeReplica, observer_of_replica

LINES = ("partition_offline", "unclean_election", "last_known_leader_elected", "partition_waits_for_operator")
RECOVERING = LeaderRecoveryState.RECOVERING
ALONE = PartitionRegistration(
    replicas=(ONE, TWO), isr=(ONE,), leader_id=ONE, leader_epoch=Epoch(2), partition_epoch=PartitionEpoch(5)
)
"""Replica 1 leads, and replica 2 is not in sync."""
WAITING = replace(ALONE, isr=(), elr=(ONE,), last_known_leader=ONE, leader_id=None, leader_epoch=Epoch(3))
"""Replica 1 is gone, and is still eligible."""
LOST = replace(WAITING, elr=())
"""Replica 1 has stopped uncleanly, so that nobody is eligible."""
EMPTIED = replace(LOST, last_known_leader=None)
"""Replica 1 has come back with another disk, so that nobody leads unless somebody is told to."""
UNCLEAN = replace(ALONE, isr=(TWO,), leader_id=TWO, leader_epoch=Epoch(4), leader_recovery_state=RECOVERING)
BACK = replace(ALONE, leader_epoch=Epoch(4))


def image_of(registration: PartitionRegistration, topic_id: int = 7) -> MetadataImage:
    return MetadataImage(topics={"t": TopicImage(name="t", topic_id=TopicId(topic_id), partitions={0: registration})})


def lines_of(*images: MetadataImage, is_active: bool = True) -> list[dict[str, Any]]:
    """The lines about elections that these images make, one after another; each election that they tell is counted."""
    replica = FakeReplica(replica_id=ReplicaId(3), is_active_controller=is_active)
    observer, metrics = observer_of_replica(replica)
    with capture_logs() as lines:
        observer.on_step(Started(), (), 1)
        for image in images:
            replica.image = image
            observer.on_step(Ticked(), (), 2)
    told = [dict(line) for line in lines if line["event"] in LINES]
    elections = sum(line["event"].endswith(("election", "elected")) for line in told)
    assert metrics.registry.get_sample_value("replica_unclean_leader_elections_total") == elections
    return told


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (ALONE, UNCLEAN, ["unclean_election"]),
        (WAITING, UNCLEAN, ["unclean_election"]),
        (LOST, UNCLEAN, ["unclean_election"]),
        (LOST, replace(BACK, leader_recovery_state=RECOVERING), ["last_known_leader_elected"]),
        (ALONE, replace(BACK, leader_recovery_state=RECOVERING), ["last_known_leader_elected"]),
        (replace(WAITING, elr=(TWO,)), replace(BACK, leader_recovery_state=RECOVERING), ["unclean_election"]),
        (ALONE, WAITING, ["partition_offline"]),
        (WAITING, replace(LOST, leader_epoch=Epoch(4)), []),
        (WAITING, LOST, []),
        (WAITING, EMPTIED, ["partition_waits_for_operator"]),
        (EMPTIED, replace(EMPTIED, replicas=(TWO, ONE)), []),
        (ALONE, replace(EMPTIED, leader_epoch=Epoch(4)), ["partition_offline", "partition_waits_for_operator"]),
        (EMPTIED, UNCLEAN, ["unclean_election"]),
        (WAITING, BACK, []),
        (replace(ALONE, isr=(ONE, TWO)), replace(ALONE, isr=(TWO,), leader_id=TWO, leader_epoch=Epoch(3)), []),
        (UNCLEAN, replace(UNCLEAN, leader_epoch=Epoch(5)), []),
        (UNCLEAN, replace(UNCLEAN, isr=(ONE,), leader_id=ONE, leader_epoch=Epoch(5)), ["unclean_election"]),
        (UNCLEAN, replace(UNCLEAN, leader_recovery_state=LeaderRecoveryState.RECOVERED), []),
    ],
)
def test_each_change_of_leadership_that_may_cost_records_is_a_line(
    before: PartitionRegistration, now: PartitionRegistration, expected: list[str]
) -> None:
    """A leader that was not eligible, the last known one where nobody is, and nobody at all; not what costs nothing."""
    assert [line["event"] for line in lines_of(image_of(before), image_of(now))] == expected


def test_a_new_controller_says_what_waits_already() -> None:
    """Whoever was the controller when it began may be gone, with its log."""
    replica = FakeReplica(replica_id=ReplicaId(3), is_active_controller=False)
    observer, _ = observer_of_replica(replica)
    with capture_logs() as lines:
        replica.image = image_of(EMPTIED)
        observer.on_step(Ticked(), (), 1)
        replica.is_active_controller = True
        observer.on_step(Ticked(), (), 2)
        observer.on_step(Ticked(), (), 3)
    assert [line["log"] for line in lines if line["event"] == "partition_waits_for_operator"] == ["t-0"]


def broker(epoch: BrokerEpoch) -> BrokerRegistration:
    """Replica 2 as it has registered."""
    return BrokerRegistration(
        broker_id=TWO,
        broker_epoch=epoch,
        incarnation_id=f"at {epoch}",
        directory_id="d",
        flushes=False,
        address="127.0.0.1:1",
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
    )


@pytest.mark.parametrize(("epoch", "expected"), [(8, "unclean_election"), (9, "last_known_leader_elected")])
def test_who_comes_back_uncleanly_is_not_eligible_any_more(epoch: int, expected: str) -> None:
    """All may be read at once: the last member of the ELR comes back without what it had, and another leads for it."""
    before = image_of(replace(WAITING, elr=(TWO,)))
    now = image_of(replace(BACK, leader_recovery_state=RECOVERING))
    images = (
        replace(before, brokers={TWO: broker(BrokerEpoch(8))}),
        replace(now, brokers={TWO: broker(BrokerEpoch(epoch))}),
    )
    assert [line["event"] for line in lines_of(*images)] == [expected]


def test_an_unclean_election_names_who_had_everything() -> None:
    """The line has the new leader and its epoch, and who was in sync and eligible before: whose return would help."""
    alone, waiting = lines_of(image_of(ALONE), image_of(UNCLEAN)) + lines_of(image_of(WAITING), image_of(UNCLEAN))
    assert (alone["log"], alone["epoch"], alone["leader_id"], alone["isr"], alone["elr"]) == ("t-0", 4, 2, [1], [])
    assert (waiting["isr"], waiting["elr"], waiting["last_known_leader"]) == ([], [1], 1)
    assert alone["log_level"] == "warning"


def test_an_offline_partition_names_who_may_lead_it() -> None:
    """The line has the epoch without a leader, and for whom the partition waits."""
    (line,) = lines_of(image_of(ALONE), image_of(WAITING))
    assert (line["log"], line["epoch"], line["isr"], line["elr"], line["replicas"]) == ("t-0", 3, [], [1], [1, 2])


def test_only_the_active_controller_tells_of_elections() -> None:
    """A cluster's lines tell of each election once."""
    assert lines_of(image_of(ALONE), image_of(UNCLEAN), is_active=False) == []


def test_a_new_topic_tells_nothing() -> None:
    """A partition that was created, or created again under the same name, had no leader to lose."""
    assert lines_of(image_of(UNCLEAN)) == []
    assert lines_of(image_of(ALONE), image_of(UNCLEAN, topic_id=8)) == []
