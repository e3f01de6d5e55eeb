"""What a refused call leaves in memory: nothing of its request, however long gRPC keeps the call."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
import structlog

from replica.core.messages import ProduceRequest, ProduceRequests, Request, Response
from replica.records import encode_batch
from replica.rpc.codec import PRODUCE
from replica.server.driver import ReplicaStoppedError
from replica.server.service import ReplicaService, ServiceLimits
from tests.server.driver_fakes import LOG

WRITE = ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=1, records=encode_batch([b"v"]).data)
GOOD = PRODUCE.request.encode(ProduceRequests(requests=(WRITE,)))


class AbortedError(Exception):
    """What ``abort`` raises."""


class KeptContext:
    """The context of a call that is kept with the exception that ended it, as gRPC keeps it."""

    def __init__(self, encoded: bytes) -> None:
        self.aborted: AbortedError | None = None
        self._unread = [encoded]

    async def read(self) -> bytes:
        return self._unread.pop()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def abort(self, *_: object) -> None:
        self.aborted = AbortedError()
        raise self.aborted


async def stopped(_: Request) -> Response:
    raise ReplicaStoppedError("the replica is stopping", not_applied=True)


@pytest.mark.parametrize(
    ("encoded", "calls_max"), [(b"\xff" * 1000, 1), (GOOD, 0), (GOOD, 1)], ids=["malformed", "too many", "too late"]
)
async def test_a_refused_call_keeps_nothing_of_its_request(encoded: bytes, calls_max: int) -> None:
    """Malformed, one too many, or too late: once the call has ended, nobody holds its bytes any more."""
    service = ReplicaService(
        call=stopped,
        addresses={},
        logger=structlog.get_logger(),
        limits=ServiceLimits(client_calls_max=calls_max),
    )
    handle: Any = service._handle
    gc.collect()  # What other tests have left may hold it too, for a while.
    held_before = sys.getrefcount(encoded)
    context = KeptContext(encoded)
    with pytest.raises(AbortedError):
        await handle(PRODUCE, None, context)
    assert context.aborted is not None
    assert sys.getrefcount(encoded) == held_before
