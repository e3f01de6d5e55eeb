"""Answering a Fetch that has passed all checks: what its sender may read, and whether it is worth answering yet.

A fetch that would come back empty is parked until there is something to send or the sender's high watermark is behind
(KIP-1166). Source: Kafka ``DelayedFetch``, ``KafkaRaftClient.tryCompleteFetchRequest``.
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.log import serving
from replica.core.log.serving import Read, answer_fetch, read, refused, told
from replica.core.messages import FetchRequest
from replica.core.quorum.roles import Joining, Leader
from replica.core.quorum.state import ParkedFetch, QuorumLogState
from replica.errors import ErrorCode
from replica.ids import CallId, EpochEndOffset, SnapshotId
from replica.voters import ReplicaKey


def look(q: QuorumLogState, fetch: ParkedFetch) -> Read:
    """Tell what a fetch would get now. It is final also where its sender is to hear of a read round."""
    answer = told(q, read_round=q.role.read_round if isinstance(q.role, Leader) else 0)
    found = read(q, fetch.part, fetch.request.replica_id, answer)
    return replace(found, is_final=True) if awaits_echo(q, fetch) else found


def is_answerable(q: QuorumLogState, fetch: ParkedFetch) -> bool:
    """Tell whether there are records for this fetch, or a high watermark or read round that its sender lacks."""
    return serving.is_answerable(fetch.request, (look(q, fetch),))


def awaits_echo(q: QuorumLogState, fetch: ParkedFetch) -> bool:
    """Tell whether somebody waits for this sender to hear of a round, and to fetch again.

    Linearizable reads wait for a majority to do so, a transfer for its target, a change of the voters for who is new.
    """
    role, request = q.role, fetch.request
    if not isinstance(role, Leader) or request.replica_id is None or fetch.part.read_round >= role.read_round:
        return False
    sender = ReplicaKey(request.replica_id, request.replica_directory_id)
    if not is_other_voter(q, role, sender):
        return isinstance(role.change, Joining) and role.change.voter.key == sender
    is_target = role.transfer is not None and role.transfer.target_id == sender.replica_id
    return is_target or confirmed_read_round(q) < role.read_round


def is_other_voter(q: QuorumLogState, role: Leader, key: ReplicaKey) -> bool:
    """Tell whether the leader counts what this replica fetches."""
    return key.replica_id in role.voters and q.rules.has_vote(voters=role.voter_set, key=key)


def confirmed_read_round(q: QuorumLogState) -> int:
    """Name the newest read round that a majority of the voters, a leader that is one included, has echoed.

    A voter that echoes a round has fetched, in this epoch, after the round began: it had not left this leader then.
    """
    role = q.role
    assert isinstance(role, Leader), role
    echoes = [progress.read_round for progress in role.voters.values()]
    if q.counts_itself:
        echoes.append(role.read_round)
    return sorted(echoes, reverse=True)[q.majority - 1]


def reply_to_fetch(q: QuorumLogState, fetch: ParkedFetch) -> None:
    """Answer with the records that the sender may read now, possibly none."""
    _reply(q, fetch.call_id, fetch.request, look(q, fetch))


def _reply(q: QuorumLogState, call_id: CallId, request: FetchRequest, found: Read) -> None:
    q.emit(answer_fetch(call_id, request, (found,), max_bytes=q.quorum.fetch_max_bytes))


def reply_with_snapshot_id(q: QuorumLogState, call_id: CallId, request: FetchRequest, snapshot_id: SnapshotId) -> None:
    """Send a follower to a snapshot: what it lacks is gone from the log."""
    _reply(q, call_id, request, Read(answer=replace(told(q), snapshot_id=snapshot_id)))


def reply_with_divergence(
    q: QuorumLogState, call_id: CallId, request: FetchRequest, diverging_epoch: EpochEndOffset
) -> None:
    """Tell the sender where the logs part."""
    _reply(q, call_id, request, Read(answer=told(q, diverging_epoch=diverging_epoch)))


def refuse_fetch(q: QuorumLogState, call_id: CallId, request: FetchRequest, error: ErrorCode) -> None:
    """Answer that this log has nothing for the sender, and who leads it."""
    _reply(q, call_id, request, refused(q, error))


def complete_fetches(q: QuorumLogState) -> None:
    """Answer the parked fetches that have something to wait for no more: after an append or a new high watermark.

    Their senders' progress was noted when they came; it is not noted again.
    """
    for parked in q.fetches.take_if(lambda parked: is_answerable(q, parked)):
        reply_to_fetch(q, parked)


def expire_fetches(q: QuorumLogState, now_ms: int) -> None:
    """Answer the parked fetches whose time is up, with what there is."""
    for parked in q.fetches.take_expired(now_ms):
        reply_to_fetch(q, parked)


def refuse_fetches_below_start(q: QuorumLogState) -> None:
    """Answer the parked fetches of what is gone from the log: it begins later now.

    A fetch waits there that wants more bytes than there are, or whose sender is not told yet what is committed.
    """
    for parked in q.fetches.take_if(lambda parked: parked.part.fetch_offset < q.log.log_start_offset):
        if parked.request.replica_id is None:
            refuse_fetch(q, parked.call_id, parked.request, ErrorCode.OFFSET_OUT_OF_RANGE)
        else:
            reply_with_snapshot_id(q, parked.call_id, parked.request, q.log.snapshots[-1].id)
