"""The stage of a scenario about one quorum log, whose replicas elect their leader themselves.

Owns what only such a log has: campaigns that are hurried, and leaders that resign. Knows no command and no file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nemesis.scenarios.messages import Deliveries
from nemesis.scenarios.stage import CALM, Stage
from nemesis.scenarios.views import ReplicaView, WorldView, look, look_at
from nemesis.simulator.climate import Climate
from nemesis.simulator.invariants import Invariants
from nemesis.simulator.node import Node
from nemesis.simulator.world import LOG, World
from replica.core import events as ev
from replica.core.quorum import QuorumLog
from replica.core.quorum.roles import Follower, Leader
from replica.core.rules import Rules
from replica.ids import ReplicaId

HURRY_MS = 10
"""How long the questions of one that was hurried may take before the next is."""
TICK_MS = 0.01
"""How long a timer that is due may take to go off: far less than any message."""


class QuorumStage(Stage):
    """A world of one quorum log."""

    def __init__(self, *, seed: int = 1, climate: Climate = CALM, rules: Callable[[], Rules] = Rules) -> None:
        world = World(seed=seed, climate=climate, rules=rules)
        super().__init__(world, LOG, Deliveries())
        voters = world.base_voters
        self._judges = (Invariants(world.logs, world.nodes, lying_disks=False, initial_voters=voters),)

    # --- looking ----------------------------------------------------------------------------------------------------

    def look(self) -> WorldView:
        return look(self.world, self.cuts, self.last_views)

    def look_at(self, node: Node) -> ReplicaView:
        return look_at(node)

    def leader(self) -> Node | None:
        leading = [(log.leader_epoch, node) for node in self.world.up() if (log := self._log(node)).is_leader]
        return max(leading, key=lambda pair: pair[0])[1] if leading else None

    def knows(self, replica_id: int) -> int | None:
        leader = self.leader()
        role = None if leader is None else self._log(leader).role
        known = role.voters.get(ReplicaId(replica_id)) if isinstance(role, Leader) else None
        return None if known is None else known.log_end_offset

    def has_agreed(self) -> bool:
        """Whether all that run follow one leader and know the same log, all of it to be committed."""
        logs = [self._log(node) for node in self.world.up()]
        facts = {(log.leader_id, log.leader_epoch, log.log.log_end_offset) for log in logs}
        return (
            len(facts) == 1
            and all(log.leader_id is not None and log.high_watermark == log.log.flushed_end_offset for log in logs)
            and all(log.log.is_flushed for log in logs)
            and not self.waiting
        )

    def _log(self, node: Node) -> QuorumLog:
        assert node.core is not None, node.replica_id
        return node.core.logs[LOG]

    # --- elections --------------------------------------------------------------------------------------------------

    def resign(self, node: Node) -> None:
        """Let a leader hand over, as a graceful stop does first."""
        node.submit(ev.ResignRequested())

    def hurry(self, node: Node) -> bool:
        """Let its clock leap to the moment at which it gives up on its leader or campaigns; tell whether it can."""
        role = self._log(node).role
        if isinstance(role, Leader):
            return False
        due_ms = role.fetch_deadline_ms if isinstance(role, Follower) else role.election_deadline_ms
        node.jump_clock(max(0, due_ms - node.now_ms))
        self.run(TICK_MS)
        return True


def calm(**changes: Any) -> Climate:
    """The calm climate with other constants."""
    return replace(CALM, **changes)
