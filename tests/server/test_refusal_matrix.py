"""The refusal matrix: each RPC, asked by everybody who should not, and by who should."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from replica.core import messages as m
from replica.core.messages import Request, Response
from replica.core.metadata.acls import THE_CLUSTER, ResourceType
from replica.core.metadata.replay import METADATA_LOG
from replica.core.metadata.resources import ALL_BROKERS
from replica.errors import AUTHORIZATION_FAILED, ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, ReplicaId, TopicPartition
from replica.rpc.codec import METHODS
from replica.rpc.tls import TlsFiles
from replica.rpc.transport import DeniedError, NotAppliedError
from replica.server.rights import Needs, needs_of_rpcs
from replica.voters import ReplicaKey, Voter
from tests.core.metadata.test_acls import entry
from tests.rpc.certificates import files_of
from tests.server.authorizing import (
    GROUP,
    TOPIC,
    answer_ok,
    authorizer_of,
    calling,
    image_of,
    serving,
    token_files,
    token_key,
    token_of,
)

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
ONE = ReplicaId(1)
ORDERS, KV = TopicPartition(TOPIC, 0), TopicPartition(GROUP, 0)
PARTS = (m.FetchPartition(topic_partition=ORDERS, fetch_offset=Offset(0), max_bytes=1),)
EPOCH, BROKER_EPOCH = Epoch(1), BrokerEpoch(1)

NOBODY = "no connection"
SERVED = "served"
DENIED = "PERMISSION_DENIED"
TO_REPLICAS = "the certificate of replica-1"
TO_ALL = "nothing"

REQUESTS: Mapping[str, tuple[Request, str]] = {
    "Produce": (m.ProduceRequest(topic_partition=ORDERS, acks=-1, timeout_ms=1, records=b"x"), "write topic orders"),
    "Fetch": (m.FetchRequest(partitions=PARTS), "read topic orders"),
    "OffsetForLeaderEpoch": (
        m.OffsetForLeaderEpochRequest(topic_partition=ORDERS, leader_epoch=EPOCH),
        "describe topic orders",
    ),
    "ListOffsets": (m.ListOffsetsRequest(topic_partition=ORDERS, latest=True), "describe topic orders"),
    "DeleteRecords": (
        m.DeleteRecordsRequest(topic_partition=ORDERS, offset=Offset(0), timeout_ms=1),
        "delete topic orders",
    ),
    "Vote": (
        m.VoteRequest(
            topic_partition=METADATA_LOG,
            candidate_id=ONE,
            candidate_epoch=EPOCH,
            last_offset_epoch=0,
            last_offset=0,
            pre_vote=False,
        ),
        TO_REPLICAS,
    ),
    "BeginQuorumEpoch": (
        m.BeginQuorumEpochRequest(topic_partition=METADATA_LOG, leader_id=ONE, leader_epoch=EPOCH),
        TO_REPLICAS,
    ),
    "EndQuorumEpoch": (
        m.EndQuorumEpochRequest(
            topic_partition=METADATA_LOG, leader_id=ONE, leader_epoch=EPOCH, preferred_candidates=()
        ),
        TO_REPLICAS,
    ),
    "DescribeQuorum": (m.DescribeQuorumRequest(topic_partition=METADATA_LOG), "describe cluster cluster"),
    "TransferLeadership": (
        m.TransferLeadershipRequest(topic_partition=KV, target_id=ONE, timeout_ms=1),
        "alter group kv",
    ),
    "AddVoter": (
        m.AddVoterRequest(
            topic_partition=METADATA_LOG, voter=Voter(replica_id=ONE, directory_id=None, address=""), timeout_ms=1
        ),
        "alter cluster cluster",
    ),
    "RemoveVoter": (
        m.RemoveVoterRequest(
            topic_partition=METADATA_LOG, voter=ReplicaKey(replica_id=ONE, directory_id=None), timeout_ms=1
        ),
        "alter cluster cluster",
    ),
    "Apply": (m.ApplyRequest(topic_partition=KV, entries=(b"x",), timeout_ms=1), "write group kv"),
    "Query": (
        m.QueryRequest(topic_partition=KV, requests=(b"x",), consistency=m.Consistency.STALE, timeout_ms=1),
        "read group kv",
    ),
    "ReadIndex": (
        m.ReadIndexRequest(topic_partition=KV, replica_id=ONE, current_leader_epoch=EPOCH),
        TO_REPLICAS,
    ),
    "FetchSnapshot": (
        m.FetchSnapshotRequest(
            topic_partition=KV,
            snapshot_end_offset=Offset(1),
            snapshot_epoch=EPOCH,
            position=0,
            max_bytes=1,
            current_leader_epoch=EPOCH,
        ),
        "read group kv",
    ),
    "BrokerRegistration": (
        m.BrokerRegistrationRequest(
            broker_id=ONE,
            cluster_id="c",
            incarnation_id="i",
            directory_id="d",
            flushes=True,
            metadata_end_offset=Offset(0),
            address="h:1",
        ),
        TO_REPLICAS,
    ),
    "BrokerHeartbeat": (
        m.BrokerHeartbeatRequest(
            broker_id=ONE,
            broker_epoch=BROKER_EPOCH,
            incarnation_id="i",
            cluster_id="c",
            metadata_offset=Offset(0),
            want_shut_down=True,
        ),
        TO_REPLICAS,
    ),
    "AlterPartition": (
        m.AlterPartitionRequest(
            broker_id=ONE, broker_epoch=BROKER_EPOCH, incarnation_id="i", cluster_id="c", partitions=()
        ),
        TO_REPLICAS,
    ),
    "CreateTopic": (m.CreateTopicRequest(name="new"), "create topic new"),
    "DeleteTopic": (m.DeleteTopicRequest(name=TOPIC), "delete topic orders"),
    "AlterTopic": (m.AlterTopicRequest(name=TOPIC, configs={}), "alter topic orders"),
    "ElectLeader": (
        m.ElectLeaderRequest(topic_partition=ORDERS, election_type=m.ElectionType.UNCLEAN),
        "alter cluster cluster",
    ),
    "AlterPartitionReassignments": (m.AlterPartitionReassignmentsRequest(partitions=()), "alter cluster cluster"),
    "ListPartitionReassignments": (m.ListPartitionReassignmentsRequest(), "describe cluster cluster"),
    "InitProducerId": (m.InitProducerIdRequest(), "write topic anything"),
    "UnregisterBroker": (m.UnregisterBrokerRequest(broker_id=ONE), "alter cluster cluster"),
    "CreateAcls": (m.CreateAclsRequest(acls=()), "alter cluster cluster"),
    "DeleteAcls": (m.DeleteAclsRequest(acls=()), "alter cluster cluster"),
    "DescribeAcls": (m.DescribeAclsRequest(), "describe cluster cluster"),
    "AlterConfigs": (m.AlterConfigsRequest(resource=ALL_BROKERS, configs={}), "alter cluster cluster"),
    "DescribeConfigs": (
        m.DescribeConfigsRequest(resource_type=ALL_BROKERS.resource_type),
        "describe cluster cluster",
    ),
    "UpdateFeatures": (m.UpdateFeaturesRequest(feature_level=1), "alter cluster cluster"),
    "DescribeFeatures": (m.DescribeFeaturesRequest(), "describe cluster cluster"),
    "DescribeCluster": (m.DescribeClusterRequest(), TO_ALL),
    "DescribeReplica": (m.DescribeReplicaRequest(topic_partition=KV), "describe group kv"),
    "DumpLog": (m.DumpLogRequest(topic_partition=METADATA_LOG, offset=Offset(0), max_bytes=1), "read cluster cluster"),
}
"""By RPC, a request, and what alone lets somebody make it."""

AS_REPLICA: Mapping[str, tuple[Request, str]] = {
    "Fetch as a replica": (
        m.FetchRequest(partitions=PARTS, replica_id=ONE, broker_epoch=BROKER_EPOCH, cluster_id="c"),
        TO_REPLICAS,
    ),
    "ListOffsets as a replica": (
        m.ListOffsetsRequest(topic_partition=ORDERS, latest=True, replica_id=ONE),
        TO_REPLICAS,
    ),
    "FetchSnapshot as a replica": (
        m.FetchSnapshotRequest(
            topic_partition=METADATA_LOG,
            snapshot_end_offset=Offset(1),
            snapshot_epoch=EPOCH,
            position=0,
            max_bytes=1,
            current_leader_epoch=EPOCH,
            replica_id=ONE,
        ),
        TO_REPLICAS,
    ),
}
MATRIX = {**REQUESTS, **AS_REPLICA}


def test_every_rpc_has_a_row() -> None:
    """Neither the table of what RPCs need nor this matrix is without one."""
    assert set(REQUESTS) == {method.rpc for method in METHODS.values()} == set(needs_of_rpcs())


def expected(right: str) -> dict[str, str]:
    """A row of the matrix: what each caller gets."""
    refused = {TO_REPLICAS: DENIED, TO_ALL: SERVED}.get(right) or f"{right.split()[1].upper()}_AUTHORIZATION_FAILED"
    return {
        "no certificate": NOBODY,
        "one of another authority": NOBODY,
        "a client's": refused,
        "another replica's": refused,
        "a token without the right": refused,
        "the right one": SERVED,
    }


def callers(folder: Path, right: str) -> dict[str, TlsFiles]:
    """Who asks: the files of each."""
    right_one = "replica-1" if right == TO_REPLICAS else "shop"
    return {
        "no certificate": files_of(folder, None),
        "one of another authority": files_of(folder / "other", right_one, ca=folder / "ca.pem"),
        "a client's": files_of(folder, "client"),
        "another replica's": files_of(folder, "replica-2"),
        "a token without the right": token_files(folder, token_of("bob")),
        "the right one": files_of(folder, right_one),
    }


@pytest.mark.parametrize("row", MATRIX)
async def test_who_is_refused_and_who_is_served(row: str, tmp_path: Path) -> None:
    """What a caller may not do the core never sees; one right alone, or the replica's own certificate, is enough."""
    request, right = MATRIX[row]
    files_of(tmp_path, "client")
    acls = [] if right in (TO_REPLICAS, TO_ALL) else [entry(f"allow User:shop {right}")]
    image, seen, found = image_of(*acls), list[Request](), dict[str, str]()

    async def call(asked: Request) -> Response:
        seen.append(asked)
        return await answer_ok(asked)

    authorizer = authorizer_of(lambda: image, tokens=token_key(tmp_path))
    async with serving(tmp_path, authorizer, call) as address:
        for who, tls in callers(tmp_path, right).items():
            async with calling(address, tls) as ask:
                try:
                    found[who] = _told(request, await ask(request))
                except DeniedError as error:
                    found[who] = DENIED if DENIED in str(error) else str(error)
                except NotAppliedError:
                    found[who] = NOBODY
            assert len(seen) == list(found.values()).count(SERVED), who
    assert found == expected(right)


def _told(request: Request, response: Response) -> str:
    error = response.answer_for(ORDERS).error if isinstance(response, m.FetchResponse) else response.error
    if isinstance(request, m.FetchRequest) and isinstance(response, m.FetchResponse) and not response.partitions:
        return SERVED if response.error is ErrorCode.NONE else str(response.error)  # The core of this test reads none.
    return SERVED if error is ErrorCode.NONE else str(error)


def test_refusals_are_definite() -> None:
    """A write that was refused so is certainly not in the log, and each kind of resource has its error."""
    assert {str(error) for error in AUTHORIZATION_FAILED} == {
        f"{kind.upper()}_AUTHORIZATION_FAILED" for kind in ResourceType
    }


def test_docs_tell_who_is_refused() -> None:
    """The matrix of docs/server.md, in which all RPCs of a kind are one column, is this one."""
    page = PAGE.read_text(encoding="utf-8").split("| who calls | what clients ask | what replicas ask |")[1]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", page.split("\n\n")[0], re.M)
    of_clients, of_replicas = expected("write topic orders"), expected(TO_REPLICAS)
    of_clients = {who: what.removeprefix("TOPIC_") for who, what in of_clients.items()}
    assert rows == [(who, of_clients[who], of_replicas[who]) for who in of_clients]


def test_docs_tell_what_each_rpc_needs() -> None:
    """The table of docs/server.md is that of the code."""
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8").split("| needed | RPCs |")[1], re.M
    )
    told: dict[str, set[str]] = {
        needed: set(re.findall(r"\b[A-Z]\w+", rpcs.partition(";")[0])) for needed, rpcs in rows if needed != "---"
    }
    needed: dict[str, set[str]] = {}
    for rpc, needs in needs_of_rpcs().items():
        needed.setdefault(_in_words(needs, MATRIX[rpc][0]), set()).add(rpc)
    assert {words: rpcs for words, rpcs in told.items() if words in needed} == needed


def _in_words(needs: Needs, request: Request) -> str:
    if needs.operation is None:
        return "nothing" if needs.speaker is None else "the replica's certificate"
    if needs.of_any:
        return f"{needs.operation}, any {needs.kind}"
    if needs.kind is ResourceType.CLUSTER:
        assert tuple(needs.names(request)) == (THE_CLUSTER,)
        return f"{needs.operation}, the cluster"
    return f"{needs.operation}, the {'topic' if hasattr(request, 'name') else 'log'}"


def test_what_changes_something_is_administration() -> None:
    """A line tells of each call that creates, deletes or alters something, and of no other."""
    administration = {rpc for rpc, needs in needs_of_rpcs().items() if needs.is_administration}
    assert administration == {
        *("CreateTopic", "DeleteTopic", "AlterTopic", "DeleteRecords"),
        *("ElectLeader", "AlterPartitionReassignments", "UnregisterBroker", "CreateAcls", "DeleteAcls"),
        *("AlterConfigs", "UpdateFeatures"),
        *("TransferLeadership", "AddVoter", "RemoveVoter"),
    }
