"""What each RPC needs of who calls it: a right on a resource, or to be the replica that it speaks for.

Owns the table, one value for each RPC; that there is one is checked when this is imported. Knows no caller. Source:
Kafka's ``KafkaApis``, ``ControllerApis``, and its table of protocols and privileges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from replica.core import messages as m
from replica.core.metadata.acls import THE_CLUSTER, Operation, ResourceType
from replica.rpc.codec import METHODS


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a client needs: ``operation`` on each resource that ``names`` finds in a request; absent: nothing.

    A log is a topic or a group by its name, and the metadata log is the cluster; ``kind`` is what an unknown name is
    taken for. ``of_any`` is content with the right on any resource of the kind. What only replicas ask has ``speaker``
    alone, the field in which they name themselves; what clients ask as well leaves that field out then.
    """

    operation: Operation | None = None
    kind: ResourceType = ResourceType.CLUSTER
    names: Callable[[Any], Iterable[str]] = lambda _: (THE_CLUSTER,)
    of_any: bool = False
    speaker: str | None = None

    @property
    def is_administration(self) -> bool:
        """Whether each call is worth a line, also one that is allowed."""
        return self.operation in _ADMINISTRATION


_ADMINISTRATION = frozenset({Operation.CREATE, Operation.DELETE, Operation.ALTER})


def _log(request: Any) -> tuple[str]:
    return (request.topic_partition.topic,)


def _name(request: Any) -> tuple[str]:
    return (request.name,)


def _fetched(request: m.FetchRequest) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.topic_partition.topic for part in request.partitions))


_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP

NEEDS: Mapping[type, Needs] = MappingProxyType(
    {
        m.ProduceRequest: Needs(operation=Operation.WRITE, kind=_TOPIC, names=_log),
        m.FetchRequest: Needs(operation=Operation.READ, kind=_TOPIC, names=_fetched, speaker="replica_id"),
        m.OffsetForLeaderEpochRequest: Needs(operation=Operation.DESCRIBE, kind=_TOPIC, names=_log),
        m.ListOffsetsRequest: Needs(operation=Operation.DESCRIBE, kind=_TOPIC, names=_log, speaker="replica_id"),
        m.DeleteRecordsRequest: Needs(operation=Operation.DELETE, kind=_TOPIC, names=_log),
        m.VoteRequest: Needs(speaker="candidate_id"),
        m.BeginQuorumEpochRequest: Needs(speaker="leader_id"),
        m.EndQuorumEpochRequest: Needs(speaker="leader_id"),
        m.DescribeQuorumRequest: Needs(operation=Operation.DESCRIBE, kind=_GROUP, names=_log),
        m.TransferLeadershipRequest: Needs(operation=Operation.ALTER, kind=_GROUP, names=_log),
        m.AddVoterRequest: Needs(operation=Operation.ALTER, kind=_GROUP, names=_log),
        m.RemoveVoterRequest: Needs(operation=Operation.ALTER, kind=_GROUP, names=_log),
        m.ApplyRequest: Needs(operation=Operation.WRITE, kind=_GROUP, names=_log),
        m.QueryRequest: Needs(operation=Operation.READ, kind=_GROUP, names=_log),
        m.ReadIndexRequest: Needs(speaker="replica_id"),
        m.FetchSnapshotRequest: Needs(operation=Operation.READ, kind=_GROUP, names=_log, speaker="replica_id"),
        m.BrokerRegistrationRequest: Needs(speaker="broker_id"),
        m.BrokerHeartbeatRequest: Needs(speaker="broker_id"),
        m.AlterPartitionRequest: Needs(speaker="broker_id"),
        m.CreateTopicRequest: Needs(operation=Operation.CREATE, kind=_TOPIC, names=_name),
        m.DeleteTopicRequest: Needs(operation=Operation.DELETE, kind=_TOPIC, names=_name),
        m.AlterTopicRequest: Needs(operation=Operation.ALTER, kind=_TOPIC, names=_name),
        m.ElectLeaderRequest: Needs(operation=Operation.ALTER),
        m.AlterPartitionReassignmentsRequest: Needs(operation=Operation.ALTER),
        m.ListPartitionReassignmentsRequest: Needs(operation=Operation.DESCRIBE),
        m.InitProducerIdRequest: Needs(operation=Operation.WRITE, kind=_TOPIC, of_any=True),
        m.UnregisterBrokerRequest: Needs(operation=Operation.ALTER),
        m.CreateAclsRequest: Needs(operation=Operation.ALTER),
        m.DeleteAclsRequest: Needs(operation=Operation.ALTER),
        m.DescribeAclsRequest: Needs(operation=Operation.DESCRIBE),
        m.AlterConfigsRequest: Needs(operation=Operation.ALTER),
        m.DescribeConfigsRequest: Needs(operation=Operation.DESCRIBE),
        m.UpdateFeaturesRequest: Needs(operation=Operation.ALTER),
        m.DescribeFeaturesRequest: Needs(operation=Operation.DESCRIBE),
        m.DescribeClusterRequest: Needs(),
        m.DescribeReplicaRequest: Needs(operation=Operation.DESCRIBE, kind=_GROUP, names=_log),
        m.DumpLogRequest: Needs(operation=Operation.READ, kind=_GROUP, names=_log),
    }
)
"""By the class of the request. DescribeCluster needs nothing: it leaves out topics that may not be described."""


def needs_of_rpcs() -> Mapping[str, Needs]:
    """The same by the names of the RPCs. A Produce carries several writes, each of which is judged for itself."""
    carried = {m.ProduceRequests: m.ProduceRequest}
    return {method.rpc: NEEDS[carried.get(method.request_type, method.request_type)] for method in METHODS.values()}


assert len(needs_of_rpcs()) == len(METHODS) == len(NEEDS), "an RPC is without its needs, or there are needs of none"
