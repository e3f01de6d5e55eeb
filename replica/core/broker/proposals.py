"""Asking the controller for other ISRs: the proposals of all partitions that this broker leads, in one request.

Owns what is out to the controller. One request at a time, with as many partitions as it may name; a proposal that
meanwhile has become another is the partition's to notice. An answer that never comes leaves every proposal pending.

Source: Kafka ``AlterPartitionManager``; KIP-497.
"""

from __future__ import annotations

from collections.abc import Mapping

from replica.bounds import PROPOSALS_MAX
from replica.core.config import ReplicaConfig
from replica.core.messages import AlterPartition, AlterPartitionRequest, AlterPartitionResponse
from replica.core.partition import Partition
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, TopicPartition

PROPOSED_AT_ONCE = 128
"""How many partitions one request names at most: a thousand may want another ISR at once, and each is looked at, and
decided about, in one step."""
assert PROPOSED_AT_ONCE <= PROPOSALS_MAX, PROPOSALS_MAX


class Proposals:
    """The ISR changes that partitions want and the controller has not decided."""

    def __init__(
        self,
        *,
        config: ReplicaConfig,
        incarnation_id: str,
        partitions: Mapping[TopicPartition, Partition],
    ) -> None:
        self._broker_id = config.replica_id
        self._incarnation_id = incarnation_id
        self._cluster_id = config.cluster_id
        self._partitions = partitions
        self._wanting: set[TopicPartition] = set()
        self._out: dict[TopicPartition, AlterPartition] = {}
        self._refused_at_ms: int | None = None
        """When a whole request was refused last: what has had no room in it waits for another step."""

    def note(self, topic_partition: TopicPartition) -> None:
        """Look at this partition when the next request is made."""
        self._wanting.add(topic_partition)

    def next_request(self, broker_epoch: BrokerEpoch, now_ms: int) -> AlterPartitionRequest | None:
        """Build a request from what is wanted; None while one is out, or if nothing is. What has no room comes next."""
        if self._out or not self._wanting or now_ms == self._refused_at_ms:
            return None
        for topic_partition in sorted(self._wanting):
            if len(self._out) == PROPOSED_AT_ONCE:
                break
            self._wanting.remove(topic_partition)
            partition = self._partitions.get(topic_partition)
            proposal = None if partition is None else partition.alter_partition_proposal(now_ms)
            if partition is not None and proposal is not None:
                self._out[topic_partition] = proposal
                partition.on_proposal_sent()
        if not self._out:
            return None
        return AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=broker_epoch,
            incarnation_id=self._incarnation_id,
            cluster_id=self._cluster_id,
            partitions=tuple(self._out.values()),
        )

    def on_response(self, response: AlterPartitionResponse | None, now_ms: int) -> tuple[TopicPartition, ...]:
        """Tell the partitions what became of their proposals, None for an unknown fate; return which those were."""
        results = {}
        if response is not None and response.error is ErrorCode.NONE:
            results = {(result.topic_id, result.partition): result for result in response.partitions}
        else:
            self._refused_at_ms = now_ms
        out, self._out = self._out, {}
        for topic_partition, proposal in out.items():
            partition = self._partitions.get(topic_partition)
            if partition is not None and partition.topic_id == proposal.topic_id:
                partition.on_altered(proposal, results.get((proposal.topic_id, proposal.partition)), now_ms)
        return tuple(out)
