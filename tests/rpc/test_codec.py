"""The codec: what goes in comes out, absent stays absent, and nothing malformed gets through."""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from google.protobuf import descriptor_pool
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from replica.bounds import DIRECTORY_ID_BYTES_MAX, INT32_MAX, INT64_MAX
from replica.core import messages
from replica.core import messages as m
from replica.core.metadata.image import TopicImage
from replica.core.metadata.records import PartitionRegistration
from replica.core.refusals import refusal
from replica.errors import DEFINITELY_NOT_WRITTEN, ErrorCode
from replica.ids import (
    BrokerEpoch,
    Epoch,
    EpochEndOffset,
    Offset,
    PartitionEpoch,
    ReplicaId,
    TopicId,
    TopicPartition,
)
from replica.rpc import codec
from replica.rpc.codec import METHODS, SERVICES, MalformedMessageError, method_of
from replica.rpc.codec_shapes import ContractMismatchError, Shape
from replica.v1 import admin_pb2, common_pb2, data_pb2, quorum_pb2

LOG = TopicPartition("log", 0)
NO_UTF_8 = b"\x0a\x02\xff\xfe\x12\x02\xff\xfe\x1a\x02\xff\xfe"
"""Fields 1 to 3 as texts that are none; every request has a text or a message among them."""
_WIDE = {
    "Offset",
    "TopicId",
    "BrokerEpoch",
    "last_fetch_ms_ago",
    "last_caught_up_ms_ago",
    "last_offset",
    "timestamp_ms",
    "producer_id",
}


def _values(name: str, hint: Any) -> st.SearchStrategy[Any]:
    """Generate what a field of this annotation may hold, to the bounds of its number on the wire."""
    if isinstance(hint, types.UnionType) or type(None) in get_args(hint):
        return st.one_of(*(_values(name, argument) for argument in get_args(hint)))
    if hint is type(None):
        return st.none()
    if get_origin(hint) is tuple:
        return st.lists(_values(name, get_args(hint)[0]), max_size=4).map(tuple)
    if get_origin(hint) is Mapping:
        keys, values = get_args(hint)
        return st.dictionaries(_values(name, keys), _values(name, values), max_size=4)
    if hint is TopicPartition:
        return st.builds(TopicPartition, st.text(min_size=1, max_size=9), st.integers(0, INT32_MAX))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _instances(hint)
    return _scalars(name, hint)


def _scalars(name: str, hint: Any) -> st.SearchStrategy[Any]:
    if name == "acks":
        return st.sampled_from([-1, 0, 1, 2])
    plain = getattr(hint, "__supertype__", hint)
    if plain is int:
        return st.integers(0, INT64_MAX if _WIDE & {name, getattr(hint, "__name__", "")} else INT32_MAX)
    return st.text(max_size=DIRECTORY_ID_BYTES_MAX // 4) if plain is str else st.from_type(plain)


def _built(value_type: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(value_type)
    return st.builds(value_type, **{name: _values(name, hint) for name, hint in hints.items()})


_instances: Callable[[Any], st.SearchStrategy[Any]] = functools.cache(_built)
"""Derived once for each type."""


def _message_types(suffix: str) -> set[Any]:
    return {value for name, value in vars(messages).items() if name.endswith(suffix) and isinstance(value, type)}


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.rpc)
@given(data=st.data())
def test_every_request_survives_the_wire(method: codec.Method[Any, Any], data: st.DataObject) -> None:
    """Decoding an encoded request gives an equal value, absent fields and bounds of the numbers included."""
    request = data.draw(_instances(method.request_type))

    assert method.request.decode(method.request.encode(request)) == request


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.rpc)
@given(data=st.data())
def test_every_response_survives_the_wire(method: codec.Method[Any, Any], data: st.DataObject) -> None:
    """Decoding an encoded response gives an equal value, absent fields and bounds of the numbers included."""
    response = data.draw(_instances(method.response_type))

    assert method.response.decode(method.response.encode(response)) == response


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.rpc)
@given(data=st.data())
def test_every_request_can_be_refused(method: codec.Method[Any, Any], data: st.DataObject) -> None:
    """A refusal is the answer that the request's RPC carries, and says its error, of a fetch for each of its logs."""
    request = data.draw(_instances(method.request_type))
    if isinstance(request, m.ProduceRequests):  # Each write is refused for itself.
        request = data.draw(_instances(m.ProduceRequest))
    response: Any = refusal(request, ErrorCode.INVALID_REQUEST)
    carried = m.ProduceResponses(responses=(response,)) if isinstance(response, m.ProduceResponse) else response

    assert method.response.decode(method.response.encode(carried)) == carried
    answers = [response]
    if isinstance(response, m.FetchResponse) and request.partitions:
        answers = [response.answer_for(part.topic_partition) for part in request.partitions]
    assert {answer.error for answer in answers} == {ErrorCode.INVALID_REQUEST}


def test_every_message_of_the_core_has_its_rpc() -> None:
    """No request or response class is left without a method that carries it."""
    carried = {codec.PRODUCE.request_type: m.ProduceRequest, codec.PRODUCE.response_type: m.ProduceResponse}
    requests = {carried.get(method.request_type, method.request_type) for method in METHODS.values()}
    responses = {carried.get(method.response_type, method.response_type) for method in METHODS.values()}

    assert requests == _message_types("Request")
    assert responses == _message_types("Response")


def test_the_table_holds_every_rpc_of_the_services_and_no_other() -> None:
    """The methods are those that the registered descriptors name, under the paths that gRPC derives from them."""
    pool = descriptor_pool.Default()
    described = {f"/{service}/{rpc}" for service in SERVICES for rpc in pool.FindServiceByName(service).methods_by_name}

    assert set(METHODS) == described
    assert all(name == method.full_name for name, method in METHODS.items())


def test_a_request_finds_its_method() -> None:
    """The lookup by value leads to the RPC that carries it."""
    request = m.VoteRequest(
        topic_partition=LOG,
        candidate_id=ReplicaId(1),
        candidate_epoch=Epoch(3),
        last_offset_epoch=0,
        last_offset=0,
        pre_vote=True,
    )

    assert method_of(request) is codec.VOTE
    assert method_of(request).full_name == "/replica.v1.QuorumService/Vote"


def test_absent_is_not_zero() -> None:
    """An absent number arrives absent and a 0 arrives as 0: offset 0, epoch 0 and replica 0 exist."""
    part = m.FetchPartition(topic_partition=LOG, fetch_offset=Offset(0))
    zeros = replace(
        part,
        topic_id=TopicId(0),
        current_leader_epoch=Epoch(0),
        last_fetched_epoch=Epoch(0),
        log_start_offset=Offset(0),
        high_watermark=Offset(0),
    )
    absent = m.FetchRequest(partitions=(part,))
    zero = m.FetchRequest(partitions=(zeros,), replica_id=ReplicaId(0), broker_epoch=BrokerEpoch(0), cluster_id="")

    assert codec.FETCH.request.encode(absent) != codec.FETCH.request.encode(zero)
    assert codec.FETCH.request.decode(codec.FETCH.request.encode(absent)) == absent
    assert codec.FETCH.request.decode(codec.FETCH.request.encode(zero)) == zero


def test_an_absent_message_is_not_an_empty_one() -> None:
    """A divergence at epoch 0, offset 0 (truncate everything) is not mistaken for no divergence."""
    end = EpochEndOffset(Epoch(0), Offset(0))
    part = m.FetchedPartition(topic_partition=LOG, error=ErrorCode.NONE, diverging_epoch=end)
    diverging = m.FetchResponse(partitions=(part,))

    assert codec.FETCH.response.decode(codec.FETCH.response.encode(diverging)) == diverging


def test_addresses_arrive_by_replica() -> None:
    """The address table of a replica arrives as a mapping from replica ids."""
    response = m.DescribeReplicaResponse(
        error=ErrorCode.NONE, addresses={ReplicaId(0): "127.0.0.1:1", ReplicaId(2): "127.0.0.1:3"}
    )

    decoded = codec.DESCRIBE_REPLICA.response.decode(codec.DESCRIBE_REPLICA.response.encode(response))

    assert decoded.addresses == {0: "127.0.0.1:1", 2: "127.0.0.1:3"}


@pytest.mark.parametrize("topics", [None, (), ("",), ("a", "b")])
def test_no_topic_is_not_every_topic(topics: tuple[str, ...] | None) -> None:
    """A list that is absent arrives absent, an empty one empty."""
    request = m.DescribeClusterRequest(topics=topics)

    assert codec.DESCRIBE_CLUSTER.request.decode(codec.DESCRIBE_CLUSTER.request.encode(request)) == request


def test_a_setting_that_is_taken_back_is_not_set_to_nothing() -> None:
    """In a map too an absent value arrives absent, and an empty one empty."""
    request = m.AlterTopicRequest(name="t", configs={"a": None, "b": "", "c": "1"})

    assert codec.ALTER_TOPIC.request.decode(codec.ALTER_TOPIC.request.encode(request)) == request


def test_an_assignment_keeps_its_order() -> None:
    """The first replica of each partition is the preferred one, wherever it stands among the brokers."""
    one, two, three = ReplicaId(1), ReplicaId(2), ReplicaId(3)
    request = m.CreateTopicRequest(name="t", assignment=((three, one), (one, two), (), (two, three)))

    assert codec.CREATE_TOPIC.request.decode(codec.CREATE_TOPIC.request.encode(request)) == request


def test_no_target_is_not_an_empty_one() -> None:
    """A partition without a target stays where it is; one that is to have no replicas is the controller's to refuse."""
    one = TopicPartition("t", 1)
    request = m.AlterPartitionReassignmentsRequest(
        partitions=tuple(
            m.ReassignablePartition(topic_partition=one, replicas=replicas)
            for replicas in (None, (), (ReplicaId(3), ReplicaId(1)))
        )
    )

    method = codec.ALTER_PARTITION_REASSIGNMENTS
    assert method.request.decode(method.request.encode(request)) == request


def test_partitions_arrive_in_their_order() -> None:
    """A map has no order on the wire; it is read by its keys, so that two answers alike read alike."""
    registration = PartitionRegistration(
        replicas=(ReplicaId(1),), isr=(), leader_id=None, leader_epoch=Epoch(0), partition_epoch=PartitionEpoch(0)
    )
    topic = TopicImage(name="t", topic_id=TopicId(9), partitions=dict.fromkeys((5, 1, 9, 4, 77, 1000, 2), registration))
    response = m.DescribeClusterResponse(error=ErrorCode.NONE, topics=(topic,))

    decoded = codec.DESCRIBE_CLUSTER.response.decode(codec.DESCRIBE_CLUSTER.response.encode(response))

    assert decoded == response
    assert list(decoded.topics[0].partitions) == [1, 2, 4, 5, 9, 77, 1000]


def test_a_message_that_must_be_there_is_missed() -> None:
    """Protobuf lets every sender leave a message out; a voter that is not named is never a voter of all zeros."""
    for method, request in (
        (codec.ADD_VOTER, quorum_pb2.AddVoterRequest(topic="log")),
        (codec.REMOVE_VOTER, quorum_pb2.RemoveVoterRequest(topic="log")),
    ):
        with pytest.raises(MalformedMessageError, match=r"VoterRequest: voter is missing"):
            method.request.decode(request.SerializeToString())


def test_an_unspecified_choice_is_refused() -> None:
    """A closed set has no default on the wire: an unclean election is never what a sender left out."""
    data = admin_pb2.ElectLeaderRequest(topic="t").SerializeToString()

    with pytest.raises(MalformedMessageError, match="election_type is 0: unspecified"):
        codec.ELECT_LEADER.request.decode(data)


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.rpc)
def test_an_unspecified_error_code_is_refused(method: codec.Method[Any, Any]) -> None:
    """A response that leaves its outcome out is a protocol error, never a success: also the empty response."""
    empty = b"\x0a\x00" if method is codec.PRODUCE else b""  # It has an outcome for each write.
    with pytest.raises(MalformedMessageError, match="error_code is 0: unspecified"):
        method.response.decode(empty)


def test_an_error_code_of_the_future_is_refused() -> None:
    """A number that names no error known here is refused instead of guessed."""
    data = quorum_pb2.VoteResponse()
    data.error_code = 999  # type: ignore[assignment]  # a number that no reader of today knows

    with pytest.raises(MalformedMessageError, match=r"replica\.v1\.VoteResponse: error_code is 999: unknown"):
        codec.VOTE.response.decode(data.SerializeToString())


@pytest.mark.parametrize("garbage", [b"\xff", b"\x08", b"not a message at all", NO_UTF_8, b"\x00" * 64])
@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.rpc)
def test_garbage_is_refused(method: codec.Method[Any, Any], garbage: bytes) -> None:
    """Bytes that are no such message (cut, wrong tags, no UTF-8) are refused by name, as request and as response."""
    with pytest.raises(MalformedMessageError, match=r"replica\.v1\."):
        method.request.decode(garbage)
    with pytest.raises(MalformedMessageError, match=r"replica\.v1\."):
        method.response.decode(garbage)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"fetch_offset": 1, "topic": ""}, "topic is empty"),
        ({"topic": "log", "fetch_offset": -1}, "fetch_offset is -1; it must be from 0"),
        ({"topic": "log", "topic_id": -1}, "topic_id is -1; it must be from 0"),
        ({"topic": "log", "last_fetched_epoch": -1}, "last_fetched_epoch is -1; it must be from 0"),
        ({"topic": "log", "high_watermark": -1}, "high_watermark is -1; it must be from 0"),
    ],
)
def test_what_no_honest_sender_says_is_refused(fields: dict[str, Any], complaint: str) -> None:
    """Negative identifiers, where Kafka would mean "absent", and a nameless topic are refused by name."""
    part = data_pb2.FetchPartition(**fields)
    data = data_pb2.FetchRequest(partitions=[part]).SerializeToString()

    with pytest.raises(MalformedMessageError, match=complaint):
        codec.FETCH.request.decode(data)


def test_what_the_core_has_an_error_code_for_reaches_it() -> None:
    """Negative numbers that mean something, or that have an error of their own, pass: INVALID_REQUIRED_ACKS for one."""
    produce = data_pb2.ProduceRequest(topic="log", acks=-7)
    deletion = data_pb2.DeleteRecordsRequest(topic="log", offset=-1)

    assert codec.DELETE_RECORDS.request.decode(deletion.SerializeToString()).offset == -1
    writes = data_pb2.ReplicaServiceProduceRequest(requests=[produce])
    assert codec.PRODUCE.request.decode(writes.SerializeToString()).requests[0].acks == -7


def test_a_fault_in_a_nested_message_names_both() -> None:
    """The error of an inner message says which message it was in."""
    data = data_pb2.ProduceResponse(
        error_code=common_pb2.ERROR_CODE_NONE, current_leader=common_pb2.CurrentLeader(leader_id=-5)
    )

    with pytest.raises(MalformedMessageError, match=r"ProduceResponse: replica\.v1\.CurrentLeader: leader_id is -5"):
        codec.PRODUCE.response.decode(data_pb2.ReplicaServiceProduceResponse(responses=[data]).SerializeToString())


def test_fields_of_the_future_are_skipped() -> None:
    """A field that a newer sender adds does not make a message unreadable."""
    response = m.ProduceResponses(responses=(m.ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(7)),))
    unknown_field_1000 = b"\xc0\x3e\x01"

    assert codec.PRODUCE.response.decode(codec.PRODUCE.response.encode(response) + unknown_field_1000) == response


def test_a_value_of_another_class_is_not_encoded() -> None:
    """A request handed to the wrong method is our own mistake and raises at once."""
    request: Any = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=1, records=b"")

    with pytest.raises(TypeError, match=r"replica\.v1\.FetchRequest carries FetchRequest, not ProduceRequest"):
        codec.FETCH.request.encode(request)


def test_every_error_has_its_code_on_the_wire() -> None:
    """The enum on the wire is ErrorCode with Kafka's names behind the prefix, and UNSPECIFIED at 0."""
    on_the_wire = dict(common_pb2.ErrorCode.items())

    assert on_the_wire.pop("ERROR_CODE_UNSPECIFIED") == 0
    assert set(on_the_wire) == {f"ERROR_CODE_{code.name}" for code in ErrorCode}
    assert on_the_wire["ERROR_CODE_NONE"] == 1


def test_the_proto_documents_each_error_as_the_client_judges_it(pytestconfig: pytest.Config) -> None:
    """The comment of each error code says *Definite* for exactly those that are definite for a write."""
    source = (pytestconfig.rootpath / "proto/replica/v1/common.proto").read_text(encoding="utf-8").splitlines()
    definite = {
        following.split(" = ")[0].strip().removeprefix("ERROR_CODE_")
        for line, following in itertools.pairwise(source)
        if line.strip().startswith("//") and line.endswith("Definite.")
    }

    assert definite == {code.name for code in DEFINITELY_NOT_WRITTEN}


def test_a_field_on_one_side_only_stops_the_import() -> None:
    """A value class and a message with different fields are refused with the difference named."""
    with pytest.raises(ContractMismatchError, match="differ in vote_granted"):
        Shape(m.BeginQuorumEpochResponse, codec.VOTE.response.descriptor)


def test_absence_on_one_side_only_stops_the_import() -> None:
    """A field that may be absent in the value but not on the wire would arrive as 0, and is refused."""
    with pytest.raises(ContractMismatchError, match="vote_granted must be optional"):
        Shape(_VoteResponseWithOptionalVote, codec.VOTE.response.descriptor)


def test_a_choice_on_one_side_only_stops_the_import() -> None:
    """A closed set that has other members than the enum on the wire is refused with the difference named."""
    with pytest.raises(ContractMismatchError, match="differ in ANY, UNCLEAN"):
        Shape(_Election, codec.ELECT_LEADER.request.descriptor)


class _VoteResponseWithOptionalVote(Struct, frozen=True, kw_only=True):
    error: ErrorCode
    vote_granted: bool | None = None


class _ElectionType(StrEnum):
    PREFERRED = "preferred"
    ANY = "any"


class _Election(Struct, frozen=True, kw_only=True):
    topic_partition: TopicPartition
    election_type: _ElectionType
    cluster_id: str | None = None
