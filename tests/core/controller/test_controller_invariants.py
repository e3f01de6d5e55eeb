"""Each clause about the cluster's metadata fails on an image that breaks it, and only then."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from replica.core.controller.invariants import check_decision, check_image
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionRecord,
    PartitionRegistration,
    RegisterBrokerRecord,
    TopicRecord,
)
from replica.ids import BrokerEpoch, ReplicaId, TopicId
from tests.core.controller.bench import registration


def image(partition: PartitionRegistration, *, fenced: tuple[int, ...] = ()) -> MetadataImage:
    """Brokers 1, 2 and 3 and one topic with one partition."""
    records = [
        RegisterBrokerRecord(
            broker_id=ReplicaId(number),
            broker_epoch=BrokerEpoch(number),
            incarnation_id=str(number),
            directory_id=str(number),
            flushes=True,
            address="a:1",
        )
        for number in (1, 2, 3)
    ]
    changes = [
        BrokerRegistrationChangeRecord(
            broker_id=ReplicaId(number),
            broker_epoch=BrokerEpoch(number),
            fenced=number in fenced,
            in_controlled_shutdown=False,
        )
        for number in (1, 2, 3)
    ]
    topic = TopicRecord(name="topic", topic_id=TopicId(5))
    record = PartitionRecord(topic_id=TopicId(5), partition=0, registration=partition)
    return MetadataImage().apply_all([*records, *changes, topic, record])


@pytest.mark.parametrize(
    ("partition", "fenced"),
    [
        pytest.param(registration(), (), id="all_in_sync"),
        pytest.param(registration(isr=(1,), leader=None), (1,), id="dead_last_member"),
        pytest.param(registration(isr=(), leader=None, elr=(1, 2), last_known_leader=1), (1, 2, 3), id="all_dead"),
    ],
)
def test_good_images(partition: PartitionRegistration, fenced: tuple[int, ...]) -> None:
    """What the protocol allows is not complained about."""
    check_image(image(partition, fenced=fenced))


@pytest.mark.parametrize(
    ("partition", "fenced"),
    [
        pytest.param(registration(isr=(2, 3)), (), id="leader_is_not_in_sync"),
        pytest.param(registration(), (1,), id="leader_is_fenced"),
        pytest.param(registration(), (3,), id="fenced_among_others"),
        pytest.param(registration(isr=(1, 2), elr=(2,)), (), id="in_sync_and_eligible"),
        pytest.param(registration(isr=(1, 1)), (), id="twice_in_sync"),
        pytest.param(registration((1, 2), (1, 3)), (), id="in_sync_and_no_replica"),
        pytest.param(registration((1, 2), (1,), elr=(3,)), (), id="eligible_and_no_replica"),
        pytest.param(registration(last_known_leader=1), (), id="last_known_leader_beside_an_isr"),
    ],
)
def test_bad_images(partition: PartitionRegistration, fenced: tuple[int, ...]) -> None:
    """Each clause about one image is broken by one of these."""
    with pytest.raises(AssertionError):
        check_image(image(partition, fenced=fenced))
    with pytest.raises(AssertionError):
        check_decision(MetadataImage(), image(partition, fenced=fenced), elr_enable=False)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(registration(isr=(1,), partition_epoch=9), id="same_partition_epoch"),
        pytest.param(registration(isr=(1,), partition_epoch=8), id="partition_epoch_falls"),
        pytest.param(registration(partition_epoch=10, leader_epoch=4), id="leader_epoch_falls"),
        pytest.param(registration(leader=2, partition_epoch=10), id="two_leaders_in_one_epoch"),
        pytest.param(registration(leader=None, partition_epoch=10), id="leadership_ends_in_its_epoch"),
    ],
)
def test_bad_decisions(after: PartitionRegistration) -> None:
    """Each clause about epochs is broken by one of these."""
    before = image(registration())
    check_decision(before, before, elr_enable=True)
    with pytest.raises(AssertionError):
        record = PartitionRecord(topic_id=TopicId(5), partition=0, registration=after)
        check_decision(before, before.apply(record), elr_enable=True)


@pytest.mark.parametrize("change", [{"broker_epoch": BrokerEpoch(0)}, {"incarnation_id": "another"}])
def test_bad_registrations(change: dict[str, object]) -> None:
    """A broker epoch never falls, and no two incarnations share one."""
    before = image(registration())
    broker = replace(before.brokers[ReplicaId(1)], **change)
    after = replace(before, brokers={**before.brokers, ReplicaId(1): broker})
    with pytest.raises(AssertionError):
        check_decision(before, after, elr_enable=True)


def test_last_member_leaves_when_others_are_remembered() -> None:
    """With eligible leader replicas nobody is kept in the ISR when it is fenced."""
    before = image(registration(isr=(1,)))
    record = PartitionRecord(
        topic_id=TopicId(5),
        partition=0,
        registration=registration(isr=(1,), leader=None, leader_epoch=6, partition_epoch=10),
    )
    fencing = BrokerRegistrationChangeRecord(
        broker_id=ReplicaId(1), broker_epoch=BrokerEpoch(1), fenced=True, in_controlled_shutdown=False
    )
    after = before.apply_all([fencing, record])
    check_decision(before, after, elr_enable=False)
    with pytest.raises(AssertionError):
        check_decision(before, after, elr_enable=True)
