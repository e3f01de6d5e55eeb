"""A leader dies in the step that changes who votes: by which voters the judge holds it to what it called committed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemesis.simulator.climate import CALM
from nemesis.simulator.disk import directory_id_for
from nemesis.simulator.group_climate import STORE, GroupClimate
from nemesis.simulator.judges import judges_of
from nemesis.simulator.node import Node
from nemesis.simulator.queue import US_PER_S
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.world import World, voter_of
from replica.core import events as ev
from replica.core import messages as m
from replica.core.quorum import QuorumLog
from replica.core.quorum.roles import Leader
from replica.ids import Offset, ReplicaId
from replica.machines import PlainCommand, encode_entry

TWO_OF_THREE = replace(CALM, voters=3, group=GroupClimate(changing_voters=True, initial_voters=2))
NEWCOMER = voter_of(ReplicaId(3), directory_id_for(ReplicaId(3)))
WRITE = m.ApplyRequest(topic_partition=STORE, entries=(encode_entry(PlainCommand(command=b"any")),), timeout_ms=20_000)
ADDED, REMOVED = "added", "removed"
# The first effects of a change are StoreVoters and Append.
DEATHS = pytest.mark.parametrize("effects", [0, 1, 2], ids=["unwritten", "voters_stored", "appended"])
CHANGES = pytest.mark.parametrize("change", [ADDED, REMOVED])


class Changing(World):
    """Replicas 1 and 2 vote, 3 follows them. A leader that goes by other voters dies after ``effects`` of that step."""

    def __init__(self, effects: int, *, lies: bool = False) -> None:
        super().__init__(seed=1, climate=TWO_OF_THREE)
        self.high_watermark: Offset | None = None
        """That of the leader when it died."""
        self._effects, self._lies = effects, lies
        self.observers = judges_of(self)
        self.start_all()
        self.run(3)

    def crash_point(self, node: Node, event: ev.Event, effects: int) -> int | None:
        """See ``Surroundings``. With ``lies`` the leader calls committed, at the last moment, what nobody has flushed.

        The core has taken the step already.
        """
        del event
        log = log_of(node)
        if self.high_watermark is not None or not isinstance(log.role, Leader) or log.voters.ids == (1, 2):
            return None
        assert effects > self._effects, effects
        if self._lies:
            log.log.advance_high_watermark(log.log.log_end_offset)
        self.high_watermark = log.log.high_watermark
        return self._effects

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.queue.run_until(self.now_us + int(seconds * US_PER_S))

    def change_while_one_stands_still(self, change: str) -> Offset:
        """Let the leader die with a last record that its fellow voter lacks; tell where that record ends."""
        leader, other = self._voters()
        other.pause(0)
        leader.call(WRITE, lambda _: None)
        self.run(0.2)
        log = log_of(leader).log
        end = log.log_end_offset
        assert (log.high_watermark, log.flushed_end_offset) == (end - 1, end)
        wanted: m.AddVoterRequest | m.RemoveVoterRequest
        if change == ADDED:
            wanted = m.AddVoterRequest(topic_partition=STORE, voter=NEWCOMER, timeout_ms=20_000)
        else:
            wanted = m.RemoveVoterRequest(topic_partition=STORE, voter=other.key, timeout_ms=20_000)
        leader.call(wanted, lambda _: None)
        self.run(0.02)
        leader.lose_power()
        other.resume(0)
        return end

    def _voters(self) -> tuple[Node, Node]:
        """The one that leads and the other."""
        one, two = (self.nodes[ReplicaId(number)] for number in (1, 2))
        return (one, two) if isinstance(log_of(one).role, Leader) else (two, one)


def log_of(node: Node) -> QuorumLog:
    """The log of a process."""
    assert node.core is not None, node.replica_id
    return node.core.logs[STORE]


@CHANGES
@DEATHS
def test_voters_of_whom_no_log_says_anything_may_have_counted(change: str, effects: int) -> None:
    """What they commit in a leader's last step is on the platters of a majority of theirs, and is never lost."""
    world = Changing(effects)
    end = world.change_while_one_stands_still(change)
    assert world.high_watermark == end

    world.run(10)
    assert all(log_of(node).voters.ids == (1, 2) for node in world.nodes.values()), "the record is gone"
    assert all((log_of(node).log.high_watermark or 0) > end for node in world.nodes.values())


@CHANGES
@DEATHS
def test_what_no_majority_has_flushed_is_convicted_though_the_step_was_cut_short(change: str, effects: int) -> None:
    """Neither the voters before the step nor those that it was to write down have it."""
    world = Changing(effects, lies=True)
    with pytest.raises(BrokenInvariantError, match="which only replicas"):
        world.change_while_one_stands_still(change)
