"""Clients of a simulated group: one that counts in a session, and one that asks how far it has come.

They know nothing of the cluster but which replica they ask, and whom it names as leader; they put a request again until
it is answered. What they have seen has to fit together: each command is applied once, and no question is answered with
less than was known when it was put.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.machines import OpenSession, SessionCommand, SessionId, SessionOpened, decode_outcome
from tests.core.group.bench import apply, ask, outcome_of, replies_of
from tests.core.group.cluster import Call, GroupCluster

PATIENCE_MS = 4000
"""How long a client waits for an answer before it takes the request for lost."""


@dataclass
class Counting:
    """Adds 1 again and again, one command at a time; ``known`` is the largest total that any client was told."""

    cluster: GroupCluster
    known: int = 0
    answered: int = 0
    retries: int = 0
    sequence: int = 0
    session_id: SessionId | None = None
    call: Call | None = None

    def go(self) -> None:
        """Take an answer if there is one, and send the next command, or the same again."""
        if self.call is not None and self.call.response is None and not self._has_given_up(self.call):
            return
        if self.call is not None and isinstance(self.call.response, m.ApplyResponse):
            self._take(self.call.response)
        elif self.call is not None:
            self.retries += 1
        node = self.cluster.random.choice(list(self.cluster.nodes.values()))
        if self.cluster.random.random() < 0.9:
            node = self.cluster.leader() or node
        if node.core is not None:
            self.call = self.cluster.ask(node, self._request())

    def _has_given_up(self, call: Call) -> bool:
        return call.is_lost or self.cluster.now_ms - call.asked_ms > PATIENCE_MS

    def _request(self) -> m.ApplyRequest:
        if self.session_id is None:
            return apply(OpenSession(ttl_ms=86_400_000))
        command = SessionCommand(
            session_id=self.session_id, sequence=self.sequence, acknowledged=self.sequence, command=b"1"
        )
        return apply(command)

    def _take(self, response: m.ApplyResponse) -> None:
        self.call = None
        if response.error is not ErrorCode.NONE:
            self.retries += not response.not_appended
            return
        if self.session_id is None:
            opened = outcome_of(response)
            assert isinstance(opened, SessionOpened), opened
            self.session_id = opened.session_id
            return
        (reply,) = replies_of(response)
        self.sequence += 1
        self.answered += 1
        assert int(reply) == self.sequence, ("applied twice, or not at all", reply, self.sequence)
        self.known = max(self.known, int(reply))


@dataclass
class Asking:
    """Puts linearizable questions to whatever replica, any number at a time."""

    counting: Counting
    answers: int = 0
    from_followers: int = 0
    _open: list[tuple[Call, int]] = field(default_factory=list)

    def go(self) -> None:
        """Look at the answers, and put another question."""
        cluster = self.counting.cluster
        for call, known in [(call, known) for call, known in self._open if call.response is not None]:
            self._take(call, known)
        self._open = [(call, known) for call, known in self._open if call.response is None and not call.is_lost]
        node = cluster.random.choice(list(cluster.nodes.values()))
        if node.core is not None and len(self._open) < 20:
            self._open.append((cluster.ask(node, ask(timeout_ms=3000)), self.counting.known))

    def _take(self, call: Call, known: int) -> None:
        assert isinstance(call.response, m.QueryResponse), call.response
        if call.response.error is not ErrorCode.NONE:
            return
        total = int(getattr(decode_outcome(call.response.outcomes[0]), "reply"))  # noqa: B009 - whatever the outcome is
        assert known <= total, ("an old answer", total, known, call)
        assert total <= self.counting.sequence + 1, ("an answer from the future", total)
        self.counting.known = max(self.counting.known, total)
        self.answers += 1
        self.from_followers += self.counting.cluster.leader() is not self.counting.cluster.nodes[call.replica_id]
