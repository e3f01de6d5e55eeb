"""A transport that answers as a test's script says, and notes whom it was asked to call."""

from __future__ import annotations

from collections.abc import Callable

from replica.core.messages import Request, Response
from replica.ids import ReplicaId
from replica.server.transport import TransportError

Answer = Response | TransportError
Script = Callable[[ReplicaId, Request], Answer]


class ScriptedTransport:
    """Answers each call by ``script``; a TransportError that it returns is raised."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[ReplicaId] = []
        self.requests: list[Request] = []
        self.is_closed = False

    async def call(self, replica_id: ReplicaId, request: Request, timeout_ms: int) -> Response:
        """Note the call and answer it."""
        assert timeout_ms > 0, timeout_ms
        self.asked.append(replica_id)
        self.requests.append(request)
        answer = self.script(replica_id, request)
        if isinstance(answer, TransportError):
            raise answer
        return answer

    async def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True
