"""The one streaming RPC: many Apply and Query calls on one stream, each under an id, answered as each is done.

Owns its values and how they become bytes. A call on the wire holds one of several requests; a value holds the one that
it is. Knows no channel and no server.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.bounds import AnyLong
from replica.core.messages import ApplyRequest, ApplyResponse, QueryRequest, QueryResponse
from replica.server.codec_bounds import MalformedMessageError
from replica.server.codec_shapes import Shape
from replica.v1 import group_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCall:
    """One call on a stream. ``id`` is the client's name for it; two that wait at once had better differ."""

    id: int
    request: ApplyRequest | QueryRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """The answer to the call of this ``id``."""

    id: int
    response: ApplyResponse | QueryResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallOnWire:
    id: AnyLong
    apply: ApplyRequest | None = None
    query: QueryRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnswerOnWire:
    id: AnyLong
    apply: ApplyResponse | None = None
    query: QueryResponse | None = None


class StreamMethod:
    """The streaming RPC: ``service`` is the full name of its service, ``rpc`` its own name within it."""

    def __init__(self) -> None:
        service = group_pb2.DESCRIPTOR.services_by_name["GroupService"]
        method = service.methods_by_name["Converse"]
        self.service: str = service.full_name
        self.rpc: str = method.name
        self.calls = Shape(_CallOnWire, method.input_type)
        self.answers = Shape(_AnswerOnWire, method.output_type)

    @property
    def full_name(self) -> str:
        """The path that gRPC calls it by."""
        return f"/{self.service}/{self.rpc}"

    def encode_call(self, call: GroupCall) -> bytes:
        """Translate a call to the wire."""
        match call.request:
            case ApplyRequest() as apply:
                return self.calls.encode(_CallOnWire(id=call.id, apply=apply))
            case QueryRequest() as query:
                return self.calls.encode(_CallOnWire(id=call.id, query=query))

    def decode_call(self, data: bytes) -> GroupCall:
        """Translate a call from the wire. Raises MalformedMessageError."""
        wire = self.calls.decode(data)
        request = wire.query if wire.apply is None else wire.apply
        if request is None:
            raise MalformedMessageError(f"{self.calls.descriptor.full_name}: it holds neither apply nor query")
        return GroupCall(id=wire.id, request=request)

    def encode_answer(self, answer: GroupAnswer) -> bytes:
        """Translate an answer to the wire."""
        match answer.response:
            case ApplyResponse() as apply:
                return self.answers.encode(_AnswerOnWire(id=answer.id, apply=apply))
            case QueryResponse() as query:
                return self.answers.encode(_AnswerOnWire(id=answer.id, query=query))

    def decode_answer(self, data: bytes) -> GroupAnswer:
        """Translate an answer from the wire. Raises MalformedMessageError."""
        wire = self.answers.decode(data)
        response = wire.query if wire.apply is None else wire.apply
        if response is None:
            raise MalformedMessageError(f"{self.answers.descriptor.full_name}: it holds neither apply nor query")
        return GroupAnswer(id=wire.id, response=response)


CONVERSE = StreamMethod()
"""``GroupService.Converse``."""
