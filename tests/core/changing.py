"""A simulated quorum whose voters change at random: added, removed, replaced, and with disks that are lost.

Five replicas, of which some vote at first; the others, and whoever comes back with an empty disk, join. A disk of a
voter is lost only while no other voter's is: more than that no quorum survives. The snapshots are those of ``folded``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.core.quorum.roles import Leader
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from replica.voters import Voter, VoterSet
from tests.core.folded import FoldedCluster
from tests.core.harness import LOG, disk_id, voter, voters_of
from tests.core.simulated import Promises
from tests.core.virtual import CONFIG, Climate, Disk, Node

REPLICAS = 5
CHANGE_INTERVAL_MS = 300


class ChangingPromises(Promises):
    """What must hold across replicas while the voters change."""

    def __init__(self, is_there: Callable[[Voter], bool]) -> None:
        super().__init__()
        self._is_there = is_there
        self._led_to: dict[tuple[ReplicaId, int, int], int] = {}

    def check(self, node: Node, nodes: dict[ReplicaId, Node]) -> None:
        super().check(node, nodes)
        role = node.log.role
        if not isinstance(role, Leader) or node.log.leader_epoch < max(self._leaders) or role.high_watermark is None:
            return
        leadership = (node.replica_id, node.incarnation, node.log.leader_epoch)
        if role.high_watermark > self._led_to.get(leadership, 0):  # Without a voter the rest may hold less than before.
            self._led_to[leadership] = role.high_watermark
            self._voters_hold(node.log.voters, role.high_watermark, nodes)

    def _majority_holds_the_high_watermark(self, nodes: dict[ReplicaId, Node]) -> None:
        """Of whom that has to be a majority only the leader can say."""

    def _voters_hold(self, voters: VoterSet, high_watermark: int, nodes: dict[ReplicaId, Node]) -> None:
        """A majority of the set in force holds what is committed; a lost disk was lost after it had that."""
        holding = [not self._is_there(v) or nodes[v.replica_id].disk.end >= high_watermark for v in voters.voters]
        if sum(holding) < voters.majority:
            self._fail("a majority of the voters holds the high watermark", (high_watermark, voters))


class ChangingCluster(FoldedCluster):
    """A simulated quorum that somebody changes every now and then."""

    def __init__(
        self,
        seed: int,
        *,
        first_voters: Sequence[int] = (0, 1, 2),
        losses: bool = True,
        snapshots: float = 0.01,
        rules: Callable[[], Rules] = Rules,
        climate: Climate | None = None,
        config: QuorumConfig = CONFIG,
    ) -> None:
        self.first_voters = first_voters
        self.losses = losses
        self.disks = dict.fromkeys(map(ReplicaId, range(REPLICAS)), 0)
        self.lost: set[tuple[ReplicaId, str | None]] = set()
        """Voters whose disks are gone, until they are known to be voters no more."""
        self.changes_go_on = True
        super().__init__(seed, voters=REPLICAS, snapshots=snapshots, rules=rules, climate=climate, config=config)
        self.at(CHANGE_INTERVAL_MS, self._change)

    def _new_promises(self) -> Promises:
        return ChangingPromises(self._is_there)

    def _is_there(self, voter: Voter) -> bool:
        return voter.directory_id == disk_id(voter.replica_id, self.disks[voter.replica_id])

    def _directory_id(self, node: Node) -> str:
        return disk_id(node.replica_id, self.disks[node.replica_id])

    def _initial_voters(self, node: Node) -> VoterSet:
        is_first = self.disks[node.replica_id] == 0 and node.replica_id in self.first_voters
        return voters_of(*self.first_voters) if is_first else VoterSet(())

    # --- who changes them -------------------------------------------------------------------------------------------

    def _change(self) -> None:
        self.at(self.random.randrange(1, 2 * CHANGE_INTERVAL_MS), self._change)
        leaders = [node for node in self.running() if isinstance(node.log.role, Leader)]
        if not self.changes_go_on or not leaders:
            return
        leader = self.random.choice(leaders)
        if self.losses and self.random.random() < 0.1:
            self._lose_disk(ReplicaId(self.random.randrange(REPLICAS)))
        elif leader.core is not None:
            self.ask(leader, self._some_change(leader.log.voters))

    def _some_change(self, voters: VoterSet) -> m.AddVoterRequest | m.RemoveVoterRequest:
        gone = [v for v in voters.voters if not self._is_there(v)]
        others = [replica_id for replica_id in self.disks if voters.find(replica_id) is None]
        if gone or not others or (len(voters.voters) > 1 and self.random.random() < 0.5):
            removed = gone[0] if gone else self.random.choice(voters.voters)
            return m.RemoveVoterRequest(topic_partition=LOG, voter=removed.key, timeout_ms=1000)
        added = self.random.choice(others)
        return m.AddVoterRequest(topic_partition=LOG, voter=voter(added, self.disks[added]), timeout_ms=1000)

    def ask(self, leader: Node, request: m.AddVoterRequest | m.RemoveVoterRequest) -> None:
        """Ask a replica that leads, or believes that it does, for a change, and note what comes of it."""

        def on_reply(response: m.Response) -> None:
            assert isinstance(response, m.ChangeVotersResponse), response
            kind = "added" if isinstance(request, m.AddVoterRequest) else "removed"
            self.seen[kind if response.error is ErrorCode.NONE else f"{kind}: {response.error}"] += 1
            if isinstance(request, m.RemoveVoterRequest) and response.error is ErrorCode.NONE:
                self.lost.discard((request.voter.replica_id, request.voter.directory_id))
                self.seen["leader removed itself"] += request.voter.replica_id == leader.replica_id

        self._call(leader, request, on_reply)

    def _lose_disk(self, replica_id: ReplicaId) -> None:
        """Let a replica come back with an empty disk, if that is no more than a quorum bears."""
        sets = [node.log.voters for node in self.running()]
        is_alone = any(len(voters.voters) < 3 and voters.find(replica_id) for voters in sets)
        if self.lost or is_alone or len(sets) < REPLICAS:
            return
        self.seen["lost"] += 1
        self.lost.add((replica_id, disk_id(replica_id, self.disks[replica_id])))
        self.nodes[replica_id].core = None
        self.disks[replica_id] += 1
        self.nodes[replica_id].disks[LOG] = Disk()
        self.start(replica_id)

    def end_changes(self) -> None:
        """Let the voters be who they are, and the weather be fine."""
        self.changes_go_on, self.snapshots, self.climate = False, 0.0, replace(Climate())
        self.heal()
