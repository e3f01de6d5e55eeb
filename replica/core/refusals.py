"""The answer of the right kind to a request that never reaches a log."""

from __future__ import annotations

from typing import assert_never

from replica.core import messages as m
from replica.errors import ErrorCode


def refusal(request: m.Request, error: ErrorCode) -> m.Response:
    """Build the response to ``request`` that says ``error`` and nothing else; a Produce was definitely not appended."""
    match request:
        case m.ProduceRequest():
            return m.ProduceResponse(error=error, not_appended=True)
        case m.FetchRequest():
            return m.FetchResponse(error=error)
        case m.OffsetForLeaderEpochRequest():
            return m.OffsetForLeaderEpochResponse(error=error)
        case m.ListOffsetsRequest():
            return m.ListOffsetsResponse(error=error)
        case m.VoteRequest():
            return m.VoteResponse(error=error)
        case m.BeginQuorumEpochRequest():
            return m.BeginQuorumEpochResponse(error=error)
        case m.EndQuorumEpochRequest():
            return m.EndQuorumEpochResponse(error=error)
        case m.DescribeQuorumRequest():
            return m.DescribeQuorumResponse(error=error)
        case m.DescribeReplicaRequest():
            return m.DescribeReplicaResponse(error=error)
        case m.DumpLogRequest():
            return m.DumpLogResponse(error=error)
        case _:
            assert_never(request)
