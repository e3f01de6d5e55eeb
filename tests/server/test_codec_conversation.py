"""The calls of a stream on the wire: an id and one request, back as they went, or refused by name."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.messages import ApplyRequest, ApplyResponse, Consistency, CurrentLeader, QueryRequest, QueryResponse
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.server.codec import MalformedMessageError
from replica.server.codec_conversation import CONVERSE, GroupAnswer, GroupCall
from replica.v1 import group_pb2

LOG = TopicPartition("kv", 0)
APPLY = ApplyRequest(topic_partition=LOG, entries=(b"", b"put"), timeout_ms=7, cluster_id="c")
QUERY = QueryRequest(
    topic_partition=LOG, request=b"get", consistency=Consistency.STALE, timeout_ms=0, after_offset=Offset(0)
)
APPLIED = ApplyResponse(error=ErrorCode.NONE, base_offset=Offset(0), outcomes=(b"", b"x"), leader_epoch=Epoch(0))
LEADER = CurrentLeader(leader_id=ReplicaId(0), leader_epoch=Epoch(3))
ASKED = QueryResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LEADER)


@pytest.mark.parametrize("id_", [0, 1, -(1 << 63), (1 << 63) - 1])
@pytest.mark.parametrize("request_", [APPLY, QUERY])
def test_a_call_survives_the_wire(id_: int, request_: ApplyRequest | QueryRequest) -> None:
    """Whichever request it holds, with any id."""
    call = GroupCall(id=id_, request=request_)
    assert CONVERSE.decode_call(CONVERSE.encode_call(call)) == call


@pytest.mark.parametrize("id_", [0, 1, -(1 << 63), (1 << 63) - 1])
@pytest.mark.parametrize("response", [APPLIED, ASKED])
def test_an_answer_survives_the_wire(id_: int, response: ApplyResponse | QueryResponse) -> None:
    """Whichever response it holds, with any id."""
    answer = GroupAnswer(id=id_, response=response)
    assert CONVERSE.decode_answer(CONVERSE.encode_answer(answer)) == answer


def test_a_call_holds_something() -> None:
    """An id alone is no call and no answer."""
    with pytest.raises(MalformedMessageError, match="ConverseRequest: it holds neither apply nor query"):
        CONVERSE.decode_call(group_pb2.ConverseRequest(id=4).SerializeToString())
    with pytest.raises(MalformedMessageError, match="ConverseResponse: it holds neither apply nor query"):
        CONVERSE.decode_answer(group_pb2.ConverseResponse(id=4).SerializeToString())


def test_a_request_inside_is_judged_as_one_that_comes_alone() -> None:
    """What the rules of its own message refuse is refused here too, and named."""
    nameless = group_pb2.ConverseRequest(id=4, apply=group_pb2.ApplyRequest(topic=""))
    with pytest.raises(MalformedMessageError, match=r"ConverseRequest: replica\.v1\.ApplyRequest: topic is empty"):
        CONVERSE.decode_call(nameless.SerializeToString())


@given(data=st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    """Whatever arrives, decoding ends with a value or with the one typed error."""
    with contextlib.suppress(MalformedMessageError):
        assert isinstance(CONVERSE.decode_call(data), GroupCall)
    with contextlib.suppress(MalformedMessageError):
        assert isinstance(CONVERSE.decode_answer(data), GroupAnswer)
