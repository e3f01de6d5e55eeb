"""A leader that no majority fetches from does not go on: looked at after every step, since time alone breaks it.

Owns that promise for one log, and until when each leader that goes on as it is keeps it. Source: KAFKA-15489.
"""

from __future__ import annotations

from nemesis.simulator.node import Node
from nemesis.simulator.violations import BrokenInvariantError
from replica.core.quorum import QuorumLog
from replica.core.quorum.roles import Leader
from replica.ids import ReplicaId
from replica.voters import VoterSet


class CheckQuorum:
    """The promise of the leaders of one log."""

    def __init__(self) -> None:
        self._kept: dict[ReplicaId, tuple[Leader, VoterSet, int]] = {}
        """Until when, inclusive, those count that were with a leader in this role, under these voters."""

    def forget(self, replica_id: ReplicaId) -> None:
        """Take nothing for known of a process that begins."""
        self._kept.pop(replica_id, None)

    def check(self, node: Node, log: QuorumLog, role: Leader, voters: VoterSet) -> None:
        """Convict a leader with which no majority is. Roles and sets of voters are values: the very same have not
        changed, so that of them only the time is compared."""
        kept, now_ms = self._kept.get(node.replica_id), node.now_ms
        if kept is not None and kept[0] is role and kept[1] is voters and now_ms <= kept[2]:
            return
        silent_ms = log.quorum.check_quorum_timeout_ms
        fetched = {
            voter: role.voters[voter].last_fetch_ms
            for voter in voters.ids
            if voter in role.voters and now_ms - role.voters[voter].last_fetch_ms <= silent_ms
        }
        present = len(fetched) + voters.has(node.key)
        if present < voters.majority:
            detail = f"replica {node.replica_id} leads epoch {log.leader_epoch} on, {present} are with it"
            raise BrokenInvariantError("check-quorum", detail)
        self._kept[node.replica_id] = (role, voters, min(fetched.values(), default=now_ms) + silent_ms)
