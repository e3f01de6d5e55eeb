"""What is real in a running cluster, as any of its replicas tells whoever asks.

Owns the questions, and which of the answers may stand in which field of a forged message.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import grpc.aio

from benchmarks.extreme_messages import NEW_TOPICS, TOPIC_SETTINGS, entries, questions, records
from replica.core.messages import DescribeClusterRequest, DescribeClusterResponse, DescribeReplicaRequest
from replica.core.metadata.image import BrokerRegistration, TopicImage
from replica.core.metadata.levels import NEWEST_LEVEL
from replica.core.metadata.replay import METADATA_LOG
from replica.ids import TopicPartition
from replica.rpc.codec import DESCRIBE_CLUSTER, DESCRIBE_REPLICA

BROKERS_MAX = 12
TOPICS_MAX = 8
"""The first so many are learned; forgers make more of them all the time."""

_LOGS = (METADATA_LOG, TopicPartition("group", 0))
_PATIENCE_S = 5

IDS = ("replica_id", "broker_id", "leader_id", "candidate_id", "voter_id", "target_id")
DIRECTORY_IDS = ("directory_id", "voter_directory_id", "candidate_directory_id")
TOPICS = ("topic", "name", "names")
EPOCHS = (
    *("leader_epoch", "current_leader_epoch", "candidate_epoch", "last_fetched_epoch"),
    *("last_offset_epoch", "snapshot_epoch"),
)
OFFSETS = (
    *("offset", "fetch_offset", "last_offset", "metadata_offset", "metadata_end_offset"),
    *("log_start_offset", "high_watermark", "snapshot_end_offset", "position", "after_offset"),
)


class Learned:
    """What was heard so far."""

    def __init__(self) -> None:
        self._heard: defaultdict[str, list[Any]] = defaultdict(list)
        self._replicas: dict[int, Mapping[str, Sequence[Any]]] = {}
        self._logs: dict[str, Mapping[str, Sequence[Any]]] = {}

    async def look(self, channel: grpc.aio.Channel) -> None:
        """Ask one replica. Raises AioRpcError."""
        call: Any = channel.unary_unary(DESCRIBE_CLUSTER.full_name)
        encoded = await call(DESCRIBE_CLUSTER.request.encode(DescribeClusterRequest()), timeout=_PATIENCE_S)
        cluster: DescribeClusterResponse = DESCRIBE_CLUSTER.response.decode(encoded)
        self._learn("cluster_id", cluster.cluster_id)
        for broker in cluster.brokers[:BROKERS_MAX]:
            self._on_broker(broker)
        topics = cluster.topics[:TOPICS_MAX]
        call = channel.unary_unary(DESCRIBE_REPLICA.full_name)
        for log in (*_LOGS, *(TopicPartition(topic.name, 0) for topic in topics)):
            request = DESCRIBE_REPLICA.request.encode(DescribeReplicaRequest(topic_partition=log))
            replica = DESCRIBE_REPLICA.response.decode(await call(request, timeout=_PATIENCE_S))
            offsets = [replica.log_start_offset, replica.high_watermark, replica.log_end_offset]
            for offset in offsets:
                self._learn("offset", offset)
            if replica.leader is not None:
                epoch = replica.leader.leader_epoch
                self._learn("leader_epoch", epoch)
                fact: dict[str, Sequence[Any]] = {name: [epoch] * 3 + [epoch + 1] for name in EPOCHS}
                fact |= {name: [log.topic] for name in TOPICS} | {"partition": [log.partition]}
                ends: list[int] = [offset for offset in offsets if offset is not None] or [0]
                self._logs[log.topic] = fact | {name: [*ends, ends[-1] + 1] for name in OFFSETS}
        for topic in topics:
            self._on_topic(topic)

    def _on_broker(self, broker: BrokerRegistration) -> None:
        told: dict[str, Any] = {"broker_epoch": broker.broker_epoch, "incarnation_id": broker.incarnation_id}
        for name, value in {**told, "replica_id": broker.broker_id, "directory_id": broker.directory_id}.items():
            self._learn(name, value)
        fact: dict[str, Sequence[Any]] = {name: [broker.broker_id] for name in IDS}
        fact |= {name: [broker.directory_id] for name in DIRECTORY_IDS}
        self._replicas[broker.broker_id] = fact | {name: [value] for name, value in told.items()}

    def _on_topic(self, topic: TopicImage) -> None:
        self._learn("topic", topic.name)
        self._learn("topic_id", topic.topic_id)
        for registration in list(topic.partitions.values())[:3]:
            self._learn("leader_epoch", registration.leader_epoch)
            self._learn("partition_epoch", registration.partition_epoch)
        first = topic.partitions.get(0)
        if first is not None and topic.name in self._logs:
            ids: dict[str, Sequence[Any]] = {"topic_id": [topic.topic_id]}
            self._logs[topic.name] = {**self._logs[topic.name], **ids, "partition_epoch": [first.partition_epoch]}

    def _learn(self, name: str, value: object) -> None:
        if value is not None and value not in self._heard[name]:
            self._heard[name].append(value)

    @property
    def together(self) -> tuple[Sequence[Mapping[str, Sequence[Any]]], ...]:
        """What names one replica, and what names one log and where it ends."""
        return tuple(self._replicas.values()), tuple(self._logs.values())

    def values(self) -> dict[str, Sequence[Any]]:
        """What may stand in which field, each on its own."""
        heard = self._heard
        replicas = [*(heard["replica_id"] or [1, 2, 3]), 4]
        epochs = sorted({each for epoch in heard["leader_epoch"] or [0] for each in (epoch, epoch + 1)})
        offsets = sorted({each for offset in heard["offset"] for each in (offset, offset + 1)} | {0, 1})
        broker_epochs = heard["broker_epoch"] or [0]
        now_ms = round(time.time() * 1000)
        lists: dict[tuple[str, ...], Sequence[Any]] = {
            TOPICS: [*heard["topic"], *[log.topic for log in _LOGS] * 3, *NEW_TOPICS],
            IDS: replicas,
            DIRECTORY_IDS: [*heard["directory_id"], "forged"],
            EPOCHS: epochs,
            OFFSETS: offsets,
            ("partition",): [0, 0, 0, 1, 2],
            ("topic_id",): heard["topic_id"] or [0],
            ("cluster_id",): [*heard["cluster_id"] * 9, "another"],
            ("replicas", "preferred_candidates"): replicas,
            ("incarnation_id",): [*heard["incarnation_id"], "forged"],
            ("broker_epoch", "previous_broker_epoch", "replaces"): [*broker_epochs, max(broker_epochs) + 1],
            ("partition_epoch",): heard["partition_epoch"] or [0],
            ("timeout_ms", "max_wait_ms"): [0, 0, 1, 10, 100, 30_000],
            ("max_bytes", "min_bytes"): [0, 1, 1000, 1 << 20, 10 << 20],
            ("acks",): [-1, -1, 0, 1],
            ("partition_count", "replication_factor"): [1, 2, 3],
            ("timestamp_ms", "unix_ms"): [0, now_ms, now_ms + 10**9],
            ("read_round", "session_id", "session_epoch"): [0, 1, 2],
            ("response_partition_limit",): [1, 2, 2000],
            ("feature_level", "newest_feature_level"): [1, NEWEST_LEVEL, NEWEST_LEVEL + 1],
            ("address", "peer_address", "leader_address"): ["127.0.0.1:1", "127.0.0.1:2"],
            ("rack", "rack_id"): ["forged", "a"],
            ("principal",): ["User:forged", "User:*"],
            ("records",): records(),
            ("entries",): entries(),
            ("requests",): questions(),
        }
        return {**TOPIC_SETTINGS, **{name: values for names, values in lists.items() for name in names}}
