"""What a leader that adds voters must not do although no record is lost by it.

Owns that habit: who is added has caught up. Else nothing can be committed once another voter fails, until the newcomer
has the whole log. A newcomer that has caught up has fetched the record with which the leader's epoch begins.

Source: Ongaro's thesis, section 4.2.1; KIP-853.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from nemesis.simulator.node import Node, Step
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.voter_book import VoterBook
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core.quorum.roles import Leader
from replica.ids import Offset, TopicPartition
from replica.records import decode_voters
from replica.voters import ReplicaKey, VoterSet


class VoterHabits(Observer):
    """Watches who is added. It is told of a step after the judges that keep the books."""

    def __init__(self, books: Mapping[TopicPartition, VoterBook]) -> None:
        self._books = books
        self._flushed: defaultdict[tuple[TopicPartition, ReplicaKey], Offset] = defaultdict(lambda: Offset(0))
        """How far a log has ever been on a disk."""

    def on_step(self, node: Node, step: Step) -> None:
        for log in self._books:
            end_offset = node.flushed_end.get(log, Offset(0))
            self._flushed[log, node.key] = max(self._flushed[log, node.key], end_offset)
        for effect in step.effects if fx.Append in step.kinds else ():
            if isinstance(effect, fx.Append):
                for voters in filter(None, map(decode_voters, effect.batches)):
                    self._on_voters(node, effect.topic_partition, voters)

    def _on_voters(self, node: Node, log: TopicPartition, voters: VoterSet) -> None:
        role = None if node.core is None else node.core.logs[log].role
        if not isinstance(role, Leader):
            return
        before = self._books[log].before_last(node.replica_id)
        for voter in voters.voters:
            if not before.has(voter.key) and self._flushed[log, voter.key] <= role.epoch_start_offset:
                detail = (
                    f"replica {node.replica_id} adds {voter.replica_id}, which has flushed up to "
                    f"{self._flushed[log, voter.key]}; its epoch begins at {role.epoch_start_offset}"
                )
                raise BrokenInvariantError("newcomer-has-caught-up", detail)
