"""What must hold of the cluster's metadata after every decision, clause by clause.

Two kinds: clauses about one image, and clauses about a decision (the image before and after). They are checked after
every decision in debug builds (``python -O`` leaves them out). A clause that fails is our own mistake, hence an
``AssertionError`` with the values. What a decision has not changed is not gone through again.

Source: kafka-specification (LeaderInIsr), KIP-966 (ValidControllerState).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from replica.core.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from replica.core.metadata.levels import level_of
from replica.core.metadata.records import MetadataRecord, PartitionRegistration
from replica.ids import ReplicaId, TopicId, TopicPartition


class _Step(Struct, frozen=True):
    """One partition before (absent if it is new) and after a decision."""

    name: str
    before: PartitionRegistration | None
    after: PartitionRegistration


def check_image(image: MetadataImage) -> None:
    """Raise AssertionError unless every clause about one image holds for all its partitions."""
    fenced = _fenced(image)
    for topic_partition, registration in image.partitions():
        _check_partition(str(topic_partition), registration, fenced)


def check_decision(before: MetadataImage, after: MetadataImage, *, elr_enable: bool) -> None:
    """Raise AssertionError unless ``after`` is a good image and a good successor of ``before``."""
    if after is before:
        return
    _broker_epochs_never_fall(before, after)
    if after.brokers is not before.brokers:
        check_image(after)
    fenced = _fenced(after)
    for step in _changed_partitions(before, after):
        _check_partition(step.name, step.after, fenced)
        _epochs_never_fall(step)
        if elr_enable:
            _nobody_is_fenced_in_the_isr(step, fenced, _fenced(before))


def check_offline(
    before: MetadataImage, after: MetadataImage, offline: Mapping[ReplicaId, Collection[tuple[TopicId, int]]]
) -> None:
    """Raise AssertionError if a decision lets a replica lead that has said that its log is ``offline``."""
    for broker_id, held in offline.items():
        for topic_id, number in held:
            name = TopicPartition(after.topic_names.get(topic_id, ""), number)
            registration = after.partition(name)
            if registration is not None and registration is not before.partition(name):
                assert registration.leader_id != broker_id, (name, registration)


def check_levels(records: Iterable[MetadataRecord], image: MetadataImage) -> None:
    """Raise AssertionError for a record, in the image now, whose kind the cluster's feature level does not have yet."""
    for record in records:
        assert level_of(record) <= image.level, (record, image.level)


def _changed_partitions(before: MetadataImage, after: MetadataImage) -> Iterator[_Step]:
    for name, topic in after.topics.items():
        known = before.topics.get(name)
        if topic is not known:
            same_topic = known if known is not None and known.topic_id == topic.topic_id else None
            yield from _changed_in_topic(same_topic, topic)


def _changed_in_topic(before: TopicImage | None, after: TopicImage) -> Iterator[_Step]:
    for number, registration in after.partitions.items():
        known = None if before is None else before.partitions.get(number)
        if registration is not known:
            yield _Step(f"{after.name}-{number}", known, registration)


def _fenced(image: MetadataImage) -> frozenset[ReplicaId]:
    return frozenset(broker.broker_id for broker in image.brokers.values() if broker.fenced)


# --- one image ------------------------------------------------------------------------------------------------------


def _check_partition(name: str, registration: PartitionRegistration, fenced: frozenset[ReplicaId]) -> None:
    _leader_is_in_sync_and_not_fenced(name, registration, fenced)
    _replicas_are_in_one_place(name, registration)
    _reassigned_replicas_are_assigned(name, registration)
    _fenced_member_is_alone(name, registration, fenced)


def _leader_is_in_sync_and_not_fenced(
    name: str, registration: PartitionRegistration, fenced: frozenset[ReplicaId]
) -> None:
    leader_id = registration.leader_id
    assert leader_id is None or leader_id in registration.isr, (name, registration)
    assert leader_id is None or leader_id not in fenced, (name, registration, fenced)
    assert registration.last_known_leader is None or not registration.isr, (name, registration)


def _replicas_are_in_one_place(name: str, registration: PartitionRegistration) -> None:
    isr, elr = set(registration.isr), set(registration.elr)
    assert len(isr) == len(registration.isr), (name, registration)
    assert len(elr) == len(registration.elr), (name, registration)
    assert not isr & elr, (name, registration)
    assert isr | elr <= set(registration.replicas), (name, registration)
    assert registration.last_known_leader in (None, *registration.replicas), (name, registration)


def _reassigned_replicas_are_assigned(name: str, registration: PartitionRegistration) -> None:
    adding, removing = set(registration.adding_replicas), set(registration.removing_replicas)
    assert len(set(registration.replicas)) == len(registration.replicas), (name, registration)
    assert not adding & removing, (name, registration)
    assert adding | removing <= set(registration.replicas), (name, registration)
    assert adding < set(registration.replicas), (name, registration)
    assert removing < set(registration.replicas), (name, registration)


def _fenced_member_is_alone(name: str, registration: PartitionRegistration, fenced: frozenset[ReplicaId]) -> None:
    if not fenced.isdisjoint(registration.isr):
        assert len(registration.isr) == 1, (name, registration, fenced)


# --- a decision -----------------------------------------------------------------------------------------------------


def _broker_epochs_never_fall(before: MetadataImage, after: MetadataImage) -> None:
    for broker_id, broker in before.brokers.items():
        now = after.brokers.get(broker_id)
        if now is None:
            _forgotten_is_nowhere(broker, after)
            continue
        assert broker.broker_epoch <= now.broker_epoch, (broker, now)
        assert broker.broker_epoch < now.broker_epoch or broker.incarnation_id == now.incarnation_id, (broker, now)


def _forgotten_is_nowhere(broker: BrokerRegistration, after: MetadataImage) -> None:
    assert broker.fenced, broker
    for topic_partition, registration in after.partitions():
        assert broker.broker_id not in registration.replicas, (broker, topic_partition, registration)


def _nobody_is_fenced_in_the_isr(
    step: _Step, fenced: frozenset[ReplicaId], fenced_before: frozenset[ReplicaId]
) -> None:
    """Eligible leader replicas leave no reason for it; but they may have been switched on only now."""
    was_there = frozenset() if step.before is None else fenced_before.intersection(step.before.isr)
    assert fenced.intersection(step.after.isr) <= was_there, (step, fenced)


def _epochs_never_fall(step: _Step) -> None:
    before, after = step.before, step.after
    if before is not None and before != after:
        assert before.partition_epoch < after.partition_epoch, step
        assert before.leader_epoch <= after.leader_epoch, step
        assert before.leader_id == after.leader_id or before.leader_epoch < after.leader_epoch, step
