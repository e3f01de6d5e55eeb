"""The ways in which scenarios bring a replica into a role, and the requests they put to it.

Everything here goes through events, as in a cluster; nothing reaches into the replica.
"""

from __future__ import annotations

from typing import Any, cast

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, EpochEndOffset, Offset, ReplicaId
from replica.records import RecordBatch, encode_batch
from tests.core.harness import CLUSTER, LOG, Bench, disk_id, leader, records_of, stored

NONE = ErrorCode.NONE


# --- requests -------------------------------------------------------------------------------------------------------


def vote(
    epoch: int,
    *,
    candidate: int = 1,
    to: int = 0,
    disk: int = 0,
    last: tuple[int, int] = (0, 0),
    pre_vote: bool = False,
    **others: Any,
) -> m.VoteRequest:
    """Ask a replica on a disk for its vote; ``last`` is the candidate's (last epoch, log end offset)."""
    return m.VoteRequest(
        **{
            "topic_partition": LOG,
            "cluster_id": CLUSTER,
            "candidate_id": ReplicaId(candidate),
            "candidate_directory_id": disk_id(candidate),
            "candidate_epoch": Epoch(epoch),
            "last_offset_epoch": last[0],
            "last_offset": last[1],
            "pre_vote": pre_vote,
            "voter_id": ReplicaId(to),
            "voter_directory_id": disk_id(to, disk),
            **others,
        }
    )


def begin(leader_id: int, epoch: int, *, to: int = 0, **others: Any) -> m.BeginQuorumEpochRequest:
    """Make a leader known to a voter."""
    return m.BeginQuorumEpochRequest(
        **{
            "topic_partition": LOG,
            "cluster_id": CLUSTER,
            "leader_id": ReplicaId(leader_id),
            "leader_epoch": Epoch(epoch),
            "voter_id": ReplicaId(to),
            "voter_directory_id": disk_id(to),
            **others,
        }
    )


def begin_to(bench: Bench, leader_id: int, epoch: int) -> m.BeginQuorumEpochRequest:
    """Make a leader known to this very voter."""
    return begin(leader_id, epoch, to=bench.config.replica_id, voter_directory_id=bench.config.directory_id)


def end(leader_id: int, epoch: int, *preferred: int, cluster_id: str | None = CLUSTER) -> m.EndQuorumEpochRequest:
    """Let a leader resign and name its successors."""
    return m.EndQuorumEpochRequest(
        topic_partition=LOG,
        cluster_id=cluster_id,
        leader_id=ReplicaId(leader_id),
        leader_epoch=Epoch(epoch),
        preferred_candidates=tuple(ReplicaId(candidate) for candidate in preferred),
    )


def fetch(offset: int, last_epoch: int, epoch: int, *, replica: int = 1, wait_ms: int = 0, **others: Any) -> m.Request:
    """Fetch as a replica does."""
    return fetch_of_log(
        **{
            "cluster_id": CLUSTER,
            "replica_id": ReplicaId(replica),
            "replica_directory_id": disk_id(replica),
            "current_leader_epoch": Epoch(epoch),
            "fetch_offset": Offset(offset),
            "last_fetched_epoch": Epoch(last_epoch),
            "max_wait_ms": wait_ms,
            **others,
        }
    )


def consume(offset: int, **others: Any) -> m.FetchRequest:
    """Fetch as a consumer does."""
    return fetch_of_log(fetch_offset=Offset(offset), **others)


def fetch_of_log(**given: Any) -> m.FetchRequest:
    """Fetch the one log: what is a field of a partition goes to it, the rest to the request; ``max_bytes`` to both."""
    of_partition = set(m.FetchPartition.__struct_fields__)
    part = m.FetchPartition(topic_partition=LOG, **{name: given[name] for name in given if name in of_partition})
    of_request = {name: given[name] for name in given if name not in of_partition or name == "max_bytes"}
    return m.FetchRequest(partitions=(part,), **of_request)


def produce(value: bytes = b"value", *, acks: int = -1, timeout_ms: int = 1000, **others: Any) -> m.ProduceRequest:
    """Append one record."""
    return m.ProduceRequest(
        **{
            "topic_partition": LOG,
            "acks": acks,
            "timeout_ms": timeout_ms,
            "records": encode_batch([value]).data,
            **others,
        }
    )


def fetched(bench: Bench, request: m.Request) -> m.FetchedPartition:
    """Put a Fetch that is answered at once; return what the answer says of the log."""
    response = bench.answer(request)
    assert isinstance(response, m.FetchResponse), response
    return response.answer_for(LOG)


def voted(bench: Bench, request: m.VoteRequest) -> m.VoteResponse:
    """Put a Vote."""
    response = bench.answer(request)
    assert isinstance(response, m.VoteResponse), response
    return response


def reply_of(bench: Bench, call_id: CallId) -> Any:
    """Return the answer that a call got, to a Fetch what it says of the log; fail if it has none."""
    assert call_id in bench.replies, (call_id, bench.role)
    response = bench.replies[call_id]
    return response.answer_for(LOG) if isinstance(response, m.FetchResponse) else response


# --- responses ------------------------------------------------------------------------------------------------------


def granted(epoch: int) -> m.VoteResponse:
    """Say yes."""
    return m.VoteResponse(error=NONE, vote_granted=True, current_leader=leader(None, epoch))


def rejected(epoch: int, leader_id: int | None = None) -> m.VoteResponse:
    """Say no."""
    return m.VoteResponse(error=NONE, vote_granted=False, current_leader=leader(leader_id, epoch))


def records(
    batches: list[RecordBatch], *, leader_id: int, epoch: int, high_watermark: int | None = None
) -> m.FetchResponse:
    """Answer a Fetch with batches."""
    return fetch_answer(
        error=NONE,
        high_watermark=None if high_watermark is None else Offset(high_watermark),
        log_start_offset=Offset(0),
        current_leader=leader(leader_id, epoch),
        records=records_of(batches),
    )


def diverging(
    epoch: int, end_offset: int, *, leader_id: int, leader_epoch: int, high_watermark: int | None = None
) -> m.FetchResponse:
    """Answer a Fetch with where the logs part."""
    return fetch_answer(
        error=NONE,
        high_watermark=None if high_watermark is None else Offset(high_watermark),
        diverging_epoch=EpochEndOffset(Epoch(epoch), Offset(end_offset)),
        current_leader=leader(leader_id, leader_epoch),
    )


def fetch_error(error: ErrorCode, leader_id: int | None, epoch: int) -> m.FetchResponse:
    """Answer a Fetch with an error."""
    return fetch_answer(error=error, current_leader=leader(leader_id, epoch))


def fetch_answer(**others: Any) -> m.FetchResponse:
    """Answer a Fetch of the one log."""
    return m.FetchResponse(partitions=(m.FetchedPartition(topic_partition=LOG, **others),))


# --- roles ----------------------------------------------------------------------------------------------------------


def follow(bench: Bench, leader_id: int, epoch: int) -> None:
    """Let the leader of a newer epoch make itself known."""
    response = bench.answer(begin_to(bench, leader_id, epoch))
    assert isinstance(response, m.BeginQuorumEpochResponse), response
    assert response.error is NONE, response


def campaign(bench: Bench) -> None:
    """Let a voter become a candidate by the pre-votes of all others."""
    bench.to_role("prospective")
    for voter in bench.log.other_voters:
        if bench.role == "prospective":
            bench.respond(bench.send_to(voter, m.VoteRequest), granted(bench.epoch))
    assert bench.role == "candidate", bench.role


def lead(bench: Bench) -> None:
    """Let a voter become the leader of a new epoch; its first records are flushed, but nobody has fetched."""
    if len(bench.config.voters) == 1:
        bench.to_role("leader")
    else:
        campaign(bench)
        for voter in bench.log.other_voters:
            if bench.role == "candidate":
                bench.respond(bench.send_to(voter, m.VoteRequest), granted(bench.epoch))
    assert bench.role == "leader", bench.role
    bench.flush_all()


def leader_bench(**others: Any) -> Bench:
    """Build the leader of epoch 6 (of 5 + 1), whose log ends with its LeaderChange record.

    A log that had nothing has two records by then: LeaderChange at 0, and the voters at 1.
    """
    bench = Bench(**{"quorum_state": stored(5), **others})
    lead(bench)
    return bench


def follower_bench(*, leader_id: int = 1, epoch: int = 5, **others: Any) -> Bench:
    """Build a follower of ``leader_id`` in ``epoch`` with a Fetch out."""
    return Bench(**{"quorum_state": stored(epoch, leader_id=leader_id), **others})


def pending_fetch(bench: Bench) -> m.FetchPartition:
    """Return what the Fetch that a follower has out asks of the log."""
    fetches = [send.request for send in bench.sends if isinstance(send.request, m.FetchRequest)]
    assert len(fetches) == 1, bench.sends
    (part,) = fetches[0].partitions
    return part


def answer_fetch(bench: Bench, response: m.PeerResponse) -> None:
    """Answer the one Fetch that a follower has out."""
    (send,) = [send for send in bench.sends if isinstance(send.request, m.FetchRequest)]
    bench.respond(send, response)


def commit(bench: Bench, *voters: int) -> None:
    """Let these voters fetch from the leader's log end, which acknowledges everything."""
    log_end, last_epoch = bench.log.log.log_end_offset, cast(int, bench.log.log.last_epoch)
    for voter in voters:
        assert fetched(bench, fetch(log_end, last_epoch, bench.epoch, replica=voter)).error is NONE
