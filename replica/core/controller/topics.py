"""Topics: created with their partitions in one decision, told other settings, deleted.

Everything is checked before the first record is written. What leaders and the controller must agree about, the minimum
of the ISR, stands in the metadata even where it is the cluster's default: a controller with another default that comes
later must not let go of eligible leaders that the minimum of the leaders still counts on (KIP-966).

Source: Kafka ``ReplicationControlManager.createTopic``, ``deleteTopic``, ``ConfigurationControlManager``.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

from replica.bounds import REPLICAS_MAX, TEXT_BYTES_MAX
from replica.core.config import InvalidConfigError
from replica.core.controller.elections import elect_for_topic
from replica.core.controller.partition_change import Wanted
from replica.core.controller.placement import Assignment, assignment_fault, placed
from replica.core.controller.state import ControllerState
from replica.core.messages import (
    AlterTopicRequest,
    AlterTopicResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
)
from replica.core.metadata.configs import (
    DEFAULTS,
    TopicSetting,
    canonical_configs,
    check_names,
)
from replica.core.metadata.image import TopicImage
from replica.core.metadata.records import (
    ConfigRecord,
    PartitionRecord,
    PartitionRegistration,
    RemoveTopicRecord,
    TopicRecord,
)
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import Epoch, PartitionEpoch, ReplicaId, TopicId, TopicPartition

NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._-")


class _RefusedError(Exception):
    """A topic that cannot be created, and why."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message


# --- create ---------------------------------------------------------------------------------------------------------


def on_create_topic(c: ControllerState, request: CreateTopicRequest, _now_ms: int) -> CreateTopicResponse:
    """Create a topic with all its partitions; its id is the offset of its record."""
    try:
        _check_name(c, request.name)
        assignment = _assignment(c, request)
        configs = _settled(c, _checked_configs(request.configs))
    except _RefusedError as refused:
        return CreateTopicResponse(error=refused.error, message=refused.message)
    topic_id = TopicId(c.next_offset)
    c.append(TopicRecord(name=request.name, topic_id=topic_id))
    for name, value in configs.items():
        c.append(ConfigRecord(topic_id=topic_id, name=name, value=value))
    active = c.active_brokers
    registrations = [_registration(replicas, active) for replicas in assignment]
    c.append(
        *(
            PartitionRecord(topic_id=topic_id, partition=partition, registration=registration)
            for partition, registration in enumerate(registrations)
        )
    )
    return CreateTopicResponse(error=ErrorCode.NONE, topic_id=topic_id)


def _registration(replicas: Sequence[ReplicaId], active: frozenset[ReplicaId]) -> PartitionRegistration:
    """A new partition: all of its replicas that are alive are in sync, and the first of them leads."""
    isr = tuple(replica for replica in replicas if replica in active)
    return PartitionRegistration(
        replicas=tuple(replicas), isr=isr, leader_id=isr[0], leader_epoch=Epoch(0), partition_epoch=PartitionEpoch(0)
    )


def _check_name(c: ControllerState, name: str) -> None:
    fault = _name_fault(name)
    if fault is not None:
        raise _RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if name in c.image.topics:
        raise _RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"{name} exists")


def _name_fault(name: str) -> str | None:
    if not 0 < len(name) <= TEXT_BYTES_MAX:
        return f"a name has 1 to {TEXT_BYTES_MAX} characters, this one has {len(name)}"
    if name in (".", "..", METADATA_LOG.topic):
        return f"{name} is not free to be used"
    if not set(name) <= NAME_CHARACTERS:
        return f"a name is made of letters, digits, dots, underscores and dashes, this one is {name!r}"
    return None


def _assignment(c: ControllerState, request: CreateTopicRequest) -> Assignment:
    placed_before = sum(len(topic.partitions) for topic in c.image.topics.values())
    if request.assignment:
        count = len(request.assignment)
    else:
        count = c.config.num_partitions if request.partition_count is None else request.partition_count
    if not 0 < count <= c.config.partitions_max - placed_before:
        raise _RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"{count} partitions; it must be from 1 to {c.config.partitions_max}, the {placed_before} of all other "
            "topics counted",
        )
    return _by_hand(c, request) if request.assignment else _by_count(c, request, count, placed_before)


def _by_hand(c: ControllerState, request: CreateTopicRequest) -> Assignment:
    if request.partition_count is not None or request.replication_factor is not None:
        raise _RefusedError(ErrorCode.INVALID_REQUEST, "an assignment is given, so the counts must be left out")
    fault = assignment_fault(request.assignment, registered=c.image.brokers, active=c.active_brokers)
    if fault is not None:
        raise _RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
    return request.assignment


def _by_count(c: ControllerState, request: CreateTopicRequest, count: int, placed_before: int) -> Assignment:
    asked = request.replication_factor
    replication_factor = c.config.default_replication_factor if asked is None else asked
    brokers = sorted(c.active_brokers)
    if not 0 < replication_factor <= min(len(brokers), REPLICAS_MAX):
        raise _RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor}; it must be from 1 to {REPLICAS_MAX} and there are "
            f"{len(brokers)} active brokers",
        )
    return placed(brokers, partition_count=count, replication_factor=replication_factor, first_partition=placed_before)


# --- settings -------------------------------------------------------------------------------------------------------


def _checked_configs(configs: Mapping[str, str]) -> Mapping[str, str]:
    try:
        return canonical_configs(configs)
    except InvalidConfigError as invalid:
        raise _RefusedError(ErrorCode.INVALID_CONFIG, str(invalid)) from invalid


def _settled(c: ControllerState, configs: Mapping[str, str]) -> Mapping[str, str]:
    """The settings with the minimum of the ISR written out where brokers could not know it."""
    if TopicSetting.MIN_INSYNC_REPLICAS in configs or c.defaults.min_insync_replicas == DEFAULTS.min_insync_replicas:
        return configs
    return {**configs, TopicSetting.MIN_INSYNC_REPLICAS.value: str(c.defaults.min_insync_replicas)}


def on_alter_topic(c: ControllerState, request: AlterTopicRequest, _now_ms: int) -> AlterTopicResponse:
    """Change settings, all or none, and what follows from them for the partitions."""
    topic = c.image.topics.get(request.name)
    if topic is None:
        return AlterTopicResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=f"{request.name} does not exist")
    try:
        check_names(request.configs)
        wanted = {**topic.configs, **request.configs}
        configs = _checked_configs({name: value for name, value in wanted.items() if value is not None})
        if TopicSetting.MIN_INSYNC_REPLICAS in request.configs:
            configs = _settled(c, configs)
    except InvalidConfigError as invalid:
        return AlterTopicResponse(error=ErrorCode.INVALID_CONFIG, message=str(invalid))
    except _RefusedError as refused:
        return AlterTopicResponse(error=refused.error, message=refused.message)
    _write_configs(c, topic, configs)
    if c.topic_config(topic).min_insync_replicas != c.topic_config(c.image.topics[topic.name]).min_insync_replicas:
        _touch_partitions(c, topic)
    elect_for_topic(c, topic.name)
    return AlterTopicResponse(error=ErrorCode.NONE)


def _write_configs(c: ControllerState, topic: TopicImage, configs: Mapping[str, str]) -> None:
    for name in sorted({*topic.configs, *configs}):
        if topic.configs.get(name) != configs.get(name):
            c.append(ConfigRecord(topic_id=topic.topic_id, name=name, value=configs.get(name)))


def _touch_partitions(c: ControllerState, topic: TopicImage) -> None:
    """Bring every partition's eligible leaders in line with another minimum, under a new partition epoch."""
    wanted = Wanted(touch=c.rules.another_minimum_is_a_change())
    c.change_all((TopicPartition(topic.name, number) for number in topic.partitions), wanted)


# --- delete ---------------------------------------------------------------------------------------------------------


def on_delete_topic(c: ControllerState, request: DeleteTopicRequest, _now_ms: int) -> DeleteTopicResponse:
    """Delete a topic and its partitions. Its id is never used again."""
    topic_id = c.image.topic_id(request.name)
    if topic_id is None:
        return DeleteTopicResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=f"{request.name} does not exist")
    c.append(RemoveTopicRecord(topic_id=topic_id))
    return DeleteTopicResponse(error=ErrorCode.NONE)
