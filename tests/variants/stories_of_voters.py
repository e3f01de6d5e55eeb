"""A story in which two leaders change the voters without each other, as single-server changes once could.

Owns the stage: four voters of a log with a state machine on it, who is cut off from whom, and when. Nobody leaves but
by what is asked for here.

Source: Ongaro, "bug in single-server membership changes", raft-dev, July 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import permutations

from nemesis.simulator.climate import CALM
from nemesis.simulator.group_climate import STORE, GroupClimate
from nemesis.simulator.judges import judges_of
from nemesis.simulator.node import Node
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.recovery import GroupRecovery
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.core.quorum import QuorumLog
from replica.core.quorum.roles import Leader
from replica.core.rules import Rules
from replica.ids import ReplicaId

WAIT_MS_MAX = 60_000
SETTLE_MS = 3_000
"""Longer than it takes to elect somebody, and to commit what can be."""
VOTERS = 4
_CUT = 1


class Quorum:
    """Four voters that are up, one of which leads; every promise is judged after every step."""

    def __init__(self, rules: Callable[[], Rules]) -> None:
        group = GroupClimate(keys=1, changing_voters=True, initial_voters=VOTERS)
        self.world = World(seed=1, climate=replace(CALM, voters=VOTERS, group=group), rules=rules)
        self.world.observers += judges_of(self.world)
        self.world.start_all()
        self.wait(lambda: bool(self.leaders()), "somebody leads")
        self.pass_ms(SETTLE_MS)

    def pass_ms(self, milliseconds: int) -> None:
        """Let time pass, whatever happens."""
        self.world.queue.run_until(self.world.now_us + milliseconds * US_PER_MS)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Let time pass until ``condition`` holds; fail where it does not come to."""
        end_us = self.world.now_us + WAIT_MS_MAX * US_PER_MS
        assert self.world.queue.run_until(end_us, condition), f"in vain: {what}"

    def log(self, node: Node) -> QuorumLog:
        """What a replica has of the log."""
        assert node.core is not None, node.replica_id
        return node.core.logs[STORE]

    def leaders(self) -> list[Node]:
        """All that believe to lead, the newest last."""
        leading = [node for node in self.world.nodes.values() if isinstance(self.log(node).role, Leader)]
        return sorted(leading, key=lambda node: self.log(node).leader_epoch)

    def only_hear(self, *pairs: Collection[Node]) -> None:
        """Let each of these pairs hear each other, and nobody else anybody; clients reach everyone."""
        together = [{node.replica_id for node in pair} for pair in pairs]
        links = permutations(self.world.nodes, 2)
        self.world.network.heal(_CUT)
        self.world.network.cut(_CUT, frozenset(link for link in links if set(link) not in together))

    def heal(self) -> None:
        """Let everyone hear everyone."""
        self.world.network.heal(_CUT)

    def remove(self, leader: Node, voter: Node) -> list[m.Response | None]:
        """Ask a leader to remove a voter; what it answers is put into the list, if it ever does."""
        answers: list[m.Response | None] = []
        request = m.RemoveVoterRequest(topic_partition=STORE, voter=voter.key, timeout_ms=500)
        self.world.ask(leader.replica_id, request, answers.append)
        return answers

    def votes_with(self, node: Node) -> set[ReplicaId]:
        """Who has a vote by the log of this replica."""
        return set(self.log(node).voters.ids)


def two_leaders_remove_one_each(rules: Callable[[], Rules]) -> None:
    """What the second leader has committed with its half of the voters, the first may not overwrite with the other.

    1. A leads epoch 1, and is cut off; its clock stands still, so that it does not notice. 2. C is elected by X and Y,
    and from then on only Y hears of C. Nothing of its epoch is committed: two of four is no majority. 3. C is told to
    remove X. By the wrong rule it does, and with Y has two of three: that is committed. 4. A is told to remove Y, of
    which nobody hears. A goes on, and with X has two of three: A leads epoch 3, and lacks what C has committed.
    """
    quorum = Quorum(rules)
    (first,) = quorum.leaders()
    others = [node for node in quorum.world.nodes.values() if node is not first]
    first.clock.stop(0, quorum.world.now_us)
    quorum.only_hear(*([one, other] for one in others for other in others if one is not other))
    quorum.wait(lambda: quorum.leaders()[-1] is not first, "another is elected")
    second = quorum.leaders()[-1]
    removed_by_second, removed_by_first = (node for node in others if node is not second)
    quorum.only_hear([second, removed_by_first])
    quorum.remove(second, removed_by_second)
    quorum.remove(first, removed_by_first)
    quorum.pass_ms(SETTLE_MS)
    assert removed_by_first.replica_id not in quorum.votes_with(first)
    first.clock.go_on(0, quorum.world.now_us)
    first.jump_clock(0)
    quorum.only_hear([second, removed_by_first], [first, removed_by_second])
    quorum.pass_ms(4 * SETTLE_MS)
    quorum.heal()
    recovery = GroupRecovery(quorum.world)
    quorum.wait(lambda: recovery.missing() is None, "all follow one leader and have its log")
