"""The log of a replicated state machine in the words in which a topic-partition is told.

Owns that translation: faults are aimed, and replicas are waited for, in one way for both. The replicas of a group are
those that vote at first, also while one of them does not. Nobody decides who of them is in sync; here it is whoever
follows the leader and has all that it knows to be committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nemesis.cluster.system import ReplicaState
from nemesis.faults.breakable import PartitionState

LEADER = "leader"


def group_states(
    states: Iterable[ReplicaState], names: Sequence[str], voters: tuple[int, ...]
) -> Mapping[str, PartitionState]:
    """What the replicas of each of these logs say together; a log of which nobody says anything is absent."""
    told = list(states)
    own = {name: [state for state in told if state.topic_partition == name] for name in names}
    return {name: _of_group(found, voters) for name, found in own.items() if found}


def _of_group(states: Sequence[ReplicaState], voters: tuple[int, ...]) -> PartitionState:
    epoch = max(state.epoch for state in states)
    leader = next((state for state in states if state.epoch == epoch and state.role == LEADER), None)
    in_sync = [state.node for state in states if leader is not None and _is_in_sync(state, leader)]
    return PartitionState(
        replicas=voters,
        isr=tuple(sorted(in_sync)),
        leader=None if leader is None else leader.node,
        leader_epoch=epoch,
    )


def _is_in_sync(state: ReplicaState, leader: ReplicaState) -> bool:
    follows = state.epoch == leader.epoch and state.leader_id == leader.node
    return follows and leader.high_watermark is not None and state.log_end_offset >= leader.high_watermark
