"""The client of one group: commands that are applied once, and questions.

Owns the calls. What becomes of a command is one of three things, and never a guess: its reply, NotWrittenError (it is
certainly not applied, and never will be), or OutcomeUnknownError (nobody can say).
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from replica.client.clock import Clock
from replica.client.cluster_view import ViewConfig
from replica.client.connections import Closing, Connections
from replica.client.groups.config import GroupConfig
from replica.client.groups.queries import Node, QueryReply, Question, ask
from replica.client.groups.sender import CommandSender
from replica.client.groups.together import QuestionSender
from replica.client.groups.view import GroupView
from replica.core.messages import Consistency
from replica.ids import Offset, ReplicaId, TopicPartition


class GroupClient(Closing):
    """An async client of one group of a state machine. ``bootstrap`` is one or more ``HOST:PORT`` of any replicas.

    Use it within one event loop, and close it. Calls may be made at the same time; those have no order. Who needs one
    awaits each before the next. ``random`` chooses among replicas where any will do.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        group: str,
        config: GroupConfig | None = None,
        *,
        view_config: ViewConfig | None = None,
        connections: Connections | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self._view = GroupView(
            bootstrap,
            TopicPartition(group, 0),
            view_config,
            connections=connections,
            clock=clock,
            random=random,
        )
        self._sender = CommandSender(self._view, config or GroupConfig())
        self._together = QuestionSender(self._view, config or GroupConfig())

    async def close(self) -> None:
        """Give up the calls that are open, end the session, and close the connections."""
        await self._sender.close()
        await self._together.close()
        await self._view.close()

    async def apply(self, command: bytes, *, timeout_ms: int | None = None) -> bytes:
        """Have the group's machine apply a command, once, whatever is lost on the way; return the machine's reply.

        It is linearizable: it takes effect between this call and its return. Raises NotWrittenError, of which
        CommandRefusedError and UnknownGroupError are two, if it certainly is not applied and will not be; raises
        OutcomeUnknownError, of which SessionExpiredError is one, if that is unknown. A call that is cancelled may have
        been applied.
        """
        return await self._sender.apply(command, self._view.deadline(timeout_ms))

    async def query(
        self,
        request: bytes,
        *,
        consistency: Consistency = Consistency.LINEARIZABLE,
        node: Node | ReplicaId = Node.LEADER,
        after_offset: Offset | None = None,
        wait_ms: int = 0,
        timeout_ms: int | None = None,
    ) -> QueryReply:
        """Ask the group's machine; nothing changes by it. Any replica answers, ``node`` says which.

        A LINEARIZABLE answer is not older than this call, whoever answers; a STALE one may be as old as the replica is
        behind. With ``after_offset`` the answer waits until something at or beyond it is applied, ``wait_ms`` at most.

        Raises QueryRefusedError, UnknownGroupError; ClusterUnreachableError and ReadFailedError when the time is up.
        """
        question = Question(
            request=request, consistency=consistency, node=node, after_offset=after_offset, wait_ms=wait_ms
        )
        return await ask(self._view, self._together, question, self._view.deadline(timeout_ms))
