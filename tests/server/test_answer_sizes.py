"""No answer is larger than a message may be, whatever a cluster within its bounds has come to."""

from __future__ import annotations

from typing import Any

import pytest

from replica.bounds import (
    ADDRESS_BYTES_MAX,
    ANSWER_BYTES_MAX,
    BATCH_BYTES_MAX,
    BROKERS_MAX,
    CONFIG_RESOURCES_MAX,
    DIRECTORY_ID_BYTES_MAX,
    INT32_MAX,
    INT64_MAX,
    MESSAGE_BYTES_MAX,
    PAGE_PARTITIONS_MAX,
    PARTITIONS_MAX,
    RECORDS_BYTES_MAX,
    REPLICAS_MAX,
    TEXT_BYTES_MAX,
)
from replica.core.messages import CurrentLeader, DescribeClusterResponse, DescribeConfigsResponse, ResourceConfigs
from replica.core.metadata.configs import TopicSetting
from replica.core.metadata.image import BrokerRegistration, TopicImage
from replica.core.metadata.pages import Cursor
from replica.core.metadata.records import LeaderRecoveryState, PartitionRegistration
from replica.core.metadata.resources import broker_resource
from replica.core.setting_kinds import UpdateMode
from replica.core.settings import SETTINGS
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId
from replica.rpc.codec import DESCRIBE_CLUSTER, DESCRIBE_CONFIGS, FETCH, METHODS, Method
from replica.rpc.codec_shapes import largest_message

PREFIX_BYTES = 7
BOUNDED_BY_THEIR_MAKERS = {
    "FetchResponse": "records are counted by whoever reads them, see below",
    "ApplyResponse": "outcomes are counted while they are made (GroupConfig.answer_bytes_max)",
    "QueryResponse": "outcomes are counted while they are made (GroupConfig.answer_bytes_max)",
    "DescribeConfigsResponse": "only what may be changed is set, see below",
    "DescribeClusterResponse": "a page counts partitions, whosever they are, see below",
}


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.rpc)
def test_every_answer_fits_into_a_message(method: Method[Any, Any]) -> None:
    """With every field at its bound; where a product of bounds is larger, somebody counts, and is named."""
    fits = method.response.bytes_max <= MESSAGE_BYTES_MAX
    assert fits != (method.response.descriptor.name in BOUNDED_BY_THEIR_MAKERS)


def test_a_fetch_of_every_partition_fits_into_a_message() -> None:
    """Beside the records of an answer, and a batch on top, there is room for what is said of each partition."""
    (partitions,) = (field for field in FETCH.response.fields if field.name == "partitions")
    (element,) = partitions.elements.values()
    without_records = PREFIX_BYTES + largest_message(element.nested) - BATCH_BYTES_MAX
    of_partitions = ANSWER_BYTES_MAX + RECORDS_BYTES_MAX + PARTITIONS_MAX * without_records
    assert max(of_partitions, BATCH_BYTES_MAX + without_records) <= MESSAGE_BYTES_MAX


def test_a_page_of_a_cluster_fits_into_a_message() -> None:
    """As many brokers as may register, and a page of partitions, each of a topic of its own, all at their largest."""
    replica_id = ReplicaId(INT32_MAX)
    broker = BrokerRegistration(
        broker_id=replica_id,
        broker_epoch=BrokerEpoch(INT64_MAX),
        incarnation_id="x" * TEXT_BYTES_MAX,
        directory_id="x" * DIRECTORY_ID_BYTES_MAX,
        flushes=True,
        address="x" * ADDRESS_BYTES_MAX,
        rack="x" * TEXT_BYTES_MAX,
        fenced=True,
        in_controlled_shutdown=True,
    )
    moving = (replica_id,) * (2 * REPLICAS_MAX)
    registration = PartitionRegistration(
        replicas=moving,
        isr=moving,
        elr=moving,
        last_known_leader=replica_id,
        leader_id=replica_id,
        leader_epoch=Epoch(INT32_MAX),
        partition_epoch=PartitionEpoch(INT32_MAX),
        leader_recovery_state=LeaderRecoveryState.RECOVERING,
        adding_replicas=moving,
        removing_replicas=moving,
    )
    topic = TopicImage(
        name="x" * TEXT_BYTES_MAX,
        topic_id=TopicId(INT64_MAX),
        partitions={INT32_MAX: registration},
        configs={setting.value: str(INT64_MAX) for setting in TopicSetting},
    )
    page = DescribeClusterResponse(
        error=ErrorCode.NONE,
        cluster_id="x" * TEXT_BYTES_MAX,
        controller=CurrentLeader(leader_id=replica_id, leader_epoch=Epoch(INT32_MAX), address="x" * ADDRESS_BYTES_MAX),
        metadata_offset=Offset(INT64_MAX),
        brokers=(broker,) * BROKERS_MAX,
        topics=(topic,) * PAGE_PARTITIONS_MAX,
        next_cursor=Cursor(topic_id=TopicId(INT64_MAX), partition=INT32_MAX),
    )
    encoded = DESCRIBE_CLUSTER.response.encode(page)
    assert len(encoded) <= MESSAGE_BYTES_MAX // 4
    assert DESCRIBE_CLUSTER.response.decode(encoded) == page


def test_the_settings_of_all_brokers_fit_into_a_message() -> None:
    """As many brokers as may have settings, each with all that may be changed, in the longest words."""
    names = [name for name, setting in SETTINGS.items() if setting.mode is not UpdateMode.READ_ONLY]
    values = dict.fromkeys(names, "x" * TEXT_BYTES_MAX)
    told = DescribeConfigsResponse(
        error=ErrorCode.NONE,
        resources=tuple(
            ResourceConfigs(resource=broker_resource(ReplicaId(INT32_MAX - number)), configs=values)
            for number in range(CONFIG_RESOURCES_MAX)
        ),
    )
    encoded = DESCRIBE_CONFIGS.response.encode(told)
    assert len(encoded) <= MESSAGE_BYTES_MAX
    assert DESCRIBE_CONFIGS.response.decode(encoded) == told
