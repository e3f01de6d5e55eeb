"""The RPCs of a replica: their names on the wire, and how their values become bytes and come back.

Owns the table of methods that server and client build their calls from, and is with its ``codec_*`` siblings the only
importer of generated code. Importing it registers the descriptors that gRPC reflection serves. Knows no channel, no
server and no rule of the protocol: records are opaque bytes here.

A method is used as::

    channel.unary_unary(
        FETCH.full_name, request_serializer=FETCH.encode_request, response_deserializer=FETCH.decode_response
    )
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import ServiceDescriptor

from replica.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    DumpLogRequest,
    DumpLogResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from replica.server.codec_shapes import MalformedMessageError, Shape
from replica.v1 import data_pb2, inspection_pb2, quorum_pb2

__all__ = [
    "BEGIN_QUORUM_EPOCH",
    "DESCRIBE_QUORUM",
    "DESCRIBE_REPLICA",
    "DUMP_LOG",
    "END_QUORUM_EPOCH",
    "FETCH",
    "LIST_OFFSETS",
    "METHODS",
    "OFFSET_FOR_LEADER_EPOCH",
    "PRODUCE",
    "SERVICES",
    "VOTE",
    "MalformedMessageError",
    "Method",
    "method_of",
]

RequestT = TypeVar("RequestT", bound=Request)
ResponseT = TypeVar("ResponseT", bound=Response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Generic[RequestT, ResponseT]):
    """One unary RPC: ``service`` is the full name of its service, ``rpc`` its own name within it."""

    service: str
    rpc: str
    request: Shape[RequestT]
    response: Shape[ResponseT]

    @property
    def full_name(self) -> str:
        """The path that gRPC calls it by, such as ``/replica.v1.ReplicaService/Produce``."""
        return f"/{self.service}/{self.rpc}"

    @property
    def request_type(self) -> type[RequestT]:
        """The class of its requests, from ``replica.core.messages``."""
        return self.request.value_type

    @property
    def response_type(self) -> type[ResponseT]:
        """The class of its responses, from ``replica.core.messages``."""
        return self.response.value_type

    def encode_request(self, request: RequestT) -> bytes:
        """Translate a request to the wire."""
        return self.request.encode(request)

    def decode_request(self, data: bytes) -> RequestT:
        """Translate a request from the wire. Raises MalformedMessageError."""
        return self.request.decode(data)

    def encode_response(self, response: ResponseT) -> bytes:
        """Translate a response to the wire."""
        return self.response.encode(response)

    def decode_response(self, data: bytes) -> ResponseT:
        """Translate a response from the wire. Raises MalformedMessageError, also for an unspecified error code."""
        return self.response.decode(data)


def _method(
    service: ServiceDescriptor, rpc: str, request_type: type[RequestT], response_type: type[ResponseT]
) -> Method[RequestT, ResponseT]:
    descriptor = service.methods_by_name[rpc]
    return Method(
        service=service.full_name,
        rpc=rpc,
        request=Shape(request_type, descriptor.input_type),
        response=Shape(response_type, descriptor.output_type),
    )


_REPLICA = data_pb2.DESCRIPTOR.services_by_name["ReplicaService"]
_QUORUM = quorum_pb2.DESCRIPTOR.services_by_name["QuorumService"]
_INSPECTION = inspection_pb2.DESCRIPTOR.services_by_name["InspectionService"]

PRODUCE = _method(_REPLICA, "Produce", ProduceRequest, ProduceResponse)
FETCH = _method(_REPLICA, "Fetch", FetchRequest, FetchResponse)
OFFSET_FOR_LEADER_EPOCH = _method(
    _REPLICA, "OffsetForLeaderEpoch", OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
)
LIST_OFFSETS = _method(_REPLICA, "ListOffsets", ListOffsetsRequest, ListOffsetsResponse)
VOTE = _method(_QUORUM, "Vote", VoteRequest, VoteResponse)
BEGIN_QUORUM_EPOCH = _method(_QUORUM, "BeginQuorumEpoch", BeginQuorumEpochRequest, BeginQuorumEpochResponse)
END_QUORUM_EPOCH = _method(_QUORUM, "EndQuorumEpoch", EndQuorumEpochRequest, EndQuorumEpochResponse)
DESCRIBE_QUORUM = _method(_QUORUM, "DescribeQuorum", DescribeQuorumRequest, DescribeQuorumResponse)
DESCRIBE_REPLICA = _method(_INSPECTION, "DescribeReplica", DescribeReplicaRequest, DescribeReplicaResponse)
DUMP_LOG = _method(_INSPECTION, "DumpLog", DumpLogRequest, DumpLogResponse)

METHODS: Mapping[str, Method[Any, Any]] = MappingProxyType(
    {
        method.full_name: method
        for method in (
            PRODUCE,
            FETCH,
            OFFSET_FOR_LEADER_EPOCH,
            LIST_OFFSETS,
            VOTE,
            BEGIN_QUORUM_EPOCH,
            END_QUORUM_EPOCH,
            DESCRIBE_QUORUM,
            DESCRIBE_REPLICA,
            DUMP_LOG,
        )
    }
)
"""Every RPC by its full name."""

SERVICES: tuple[str, ...] = (_REPLICA.full_name, _QUORUM.full_name, _INSPECTION.full_name)
"""The full names of the services, for health checking and reflection."""

_METHOD_OF_REQUEST = {method.request_type: method for method in METHODS.values()}


def method_of(request: Request) -> Method[Any, Any]:
    """Return the RPC that carries this request."""
    return _METHOD_OF_REQUEST[type(request)]
