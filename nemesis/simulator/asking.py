"""How a client of a simulated world asks: one replica at a time, by its own opinion of whom to ask.

Owns the opinion and the patience. Knows nothing of what is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.ids import ReplicaId

CLIENT_TIMEOUT_MS = 2_000


class Caller:
    """Somebody who asks, and has at most one question out."""

    def __init__(self, world: World, dice: Random) -> None:
        self.target = dice.choice(tuple(world.nodes))
        """Who is asked next."""
        self._world = world
        self._dice = dice
        self._questions = 0

    def ask(
        self,
        request: m.Request,
        on_reply: Callable[[m.Response | None], None],
        on_silence: Callable[[], None],
        *,
        only_in_time: bool = False,
    ) -> None:
        """Ask the target; exactly one of the two is called. The reply is None where nobody listens.

        With ``only_in_time`` the request arrives only while an answer is waited for.
        """
        self._questions += 1
        question = self._questions

        def reply(response: m.Response | None) -> None:
            if self._questions == question:
                self._questions += 1
                on_reply(response)

        def silence() -> None:
            if self._questions == question:
                self._questions += 1
                on_silence()

        def is_wanted() -> bool:
            return not only_in_time or self._questions == question

        self._world.ask(self.target, request, reply, is_wanted=is_wanted)
        self._world.queue.after(CLIENT_TIMEOUT_MS * US_PER_MS, silence)

    def follow(self, leader: m.CurrentLeader | None) -> None:
        """Ask the named leader next, or anyone."""
        if not self.heed(leader):
            self.turn()

    def heed(self, leader: m.CurrentLeader | None) -> bool:
        """Ask the named leader next, if one is named that is not the target; whether that was so."""
        if leader is None or leader.leader_id is None or leader.leader_id == self.target:
            return False
        self.target = leader.leader_id
        return True

    def turn(self) -> None:
        """Ask anyone else next."""
        others = [node for node in self._world.nodes if node != self.target]
        self.target = ReplicaId(self._dice.choice(others or [self.target]))
