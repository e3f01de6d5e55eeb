"""A scenario of lanes that right rules pass and wrong ones do not."""

from __future__ import annotations

from replica.core import messages as m
from replica.core.effects import QuorumState, Reply, StoreQuorumState
from replica.core.lanes import Lanes
from replica.core.rules.log import LogRules
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, ReplicaId
from replica.storage import LogTable, open_directory
from tests.storage.disks import DATA, LOG, formatted

CALL = CallId(1)
ASKED = m.VoteRequest(
    topic_partition=LOG,
    candidate_id=ReplicaId(2),
    candidate_epoch=Epoch(2),
    last_offset_epoch=0,
    last_offset=0,
    pre_vote=False,
)


def a_vote_waits_for_what_its_log_does(rules: LogRules) -> None:
    """Raft 5.2: a vote that is being written down is not told yet."""
    table = LogTable.open(open_directory(DATA, files=formatted()), (LOG,), rules=rules)
    state = QuorumState(leader_epoch=Epoch(2), voted_id=ReplicaId(2))
    answer = m.VoteResponse(error=ErrorCode.NONE, vote_granted=True)
    lanes = Lanes()
    store, reply = (
        lanes.enter(effect, table.place_of(effect, {CALL: ASKED}))
        for effect in (StoreQuorumState(topic_partition=LOG, state=state), Reply(call_id=CALL, response=answer))
    )
    table.abandon()

    assert (store.may_begin, reply.may_begin) == (True, False)
