"""Whom to ask: the leader if it is known, else each replica in turn.

Owns the client's guess of who leads. Believes hints only as far as their epoch goes: a replica that was cut off may
name a leader of the past. Knows no network.
"""

from __future__ import annotations

from collections.abc import Iterable

from replica.core.messages import CurrentLeader
from replica.ids import Epoch, ReplicaId


class LeaderGuess:
    """The replica to ask next. ``replica_ids`` are those that can be dialled, at least one."""

    def __init__(self, replica_ids: Iterable[ReplicaId]) -> None:
        self._replica_ids = tuple(sorted(replica_ids))
        if not self._replica_ids:
            raise ValueError("the address table is empty; name at least one replica")
        self._leader: ReplicaId | None = None
        self._epoch: Epoch | None = None
        self._turn = 0

    @property
    def target(self) -> ReplicaId:
        """The replica to ask next."""
        return self._replica_ids[self._turn] if self._leader is None else self._leader

    def on_success(self, asked: ReplicaId) -> None:
        """``asked`` has answered as only a leader can."""
        self._leader = asked

    def on_failure(self, asked: ReplicaId) -> None:
        """``asked`` did not answer, or not as a leader: go on with the one after it."""
        self._leader = None
        self._turn = (self._replica_ids.index(asked) + 1) % len(self._replica_ids)

    def on_hint(self, asked: ReplicaId, hint: CurrentLeader | None) -> bool:
        """``asked`` refused and perhaps named the leader. Returns whether that is news, worth asking without delay."""
        if hint is None or hint.leader_id is None or hint.leader_id == asked or not self._is_credible(hint):
            self.on_failure(asked)
            return False
        is_news = hint.leader_epoch != self._epoch
        self._leader, self._epoch = hint.leader_id, hint.leader_epoch
        return is_news

    def _is_credible(self, hint: CurrentLeader) -> bool:
        return hint.leader_id in self._replica_ids and (self._epoch is None or hint.leader_epoch >= self._epoch)
