"""How far a replica must have applied to answer a question that was put just now.

On the leader: the high watermark of that moment, once a majority has said since that it still leads. The leader numbers
read rounds, and each fetch of a voter echoes the last that it was told of: a fetch that was sent before the question
echoes an earlier one, however late it arrives. On any other replica: what the leader says. One round, or request, is
out at a time, and the questions that come meanwhile share the next.

A leader whose machine does not lead yet lets questions wait: its high watermark may be behind what was answered by the
leader before. A change of the leadership fails those that do not have their read index; who has it may go on, since
what is committed stays so.

Source: Ongaro's thesis, section 6.4; etcd ``ReadOnlySafe``.
"""

from __future__ import annotations

from typing import assert_never

from replica.core.group.reading import park_query, refuse_query
from replica.core.group.state import AskedLeader, GroupState, ParkedQuery, ParkedRead, ReadRound
from replica.core.log.fencing import leader_request_error
from replica.core.messages import (
    PeerResponse,
    QueryRequest,
    ReadIndexRequest,
    ReadIndexResponse,
)
from replica.core.quorum.roles import Follower, Leader
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, Offset


def on_read_index(g: GroupState, call_id: CallId, request: ReadIndexRequest, now_ms: int) -> None:
    """Take another replica's question, which shares a round with this one's own."""
    refused = leader_request_error(
        g.log, cluster_id=request.cluster_id, current_leader_epoch=request.current_leader_epoch
    )
    if refused is None and g.reads.is_full:
        refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if refused is not None:
        g.reply(call_id, ReadIndexResponse(error=refused, current_leader=g.log.current_leader))
        return
    g.batch_wanted = g.batches_begun + 1
    deadline_ms = now_ms + g.log.quorum.request_timeout_ms  # Nobody waits longer than that for it.
    g.reads.add(ParkedRead(call_id=call_id, deadline_ms=deadline_ms, request=request, batch=g.batch_wanted))


def begin_reads(g: GroupState, now_ms: int) -> None:
    """Begin to find out the read index of the questions that have come since the last time, of all at once."""
    if g.batch_wanted <= g.batches_begun:
        return
    role = g.log.role
    if isinstance(role, Leader) and g.leadership is not None and g.round is None:
        _begin_round(g, now_ms)
    elif isinstance(role, Follower) and g.asked is None:
        g.batches_begun = g.batch_wanted
        request = ReadIndexRequest(
            topic_partition=g.topic_partition,
            replica_id=g.log.replica_id,
            current_leader_epoch=g.log.leader_epoch,
            cluster_id=g.log.config.cluster_id,
        )
        correlation_id = g.send(role.leader_id, request, g.log.quorum.request_timeout_ms)
        g.asked = AskedLeader(batch=g.batches_begun, correlation_id=correlation_id)


def _begin_round(g: GroupState, now_ms: int) -> None:
    g.batches_begun = g.batch_wanted
    read_index = g.log.log.high_watermark or Offset(0)
    g.emit_all(g.log.begin_read_round(now_ms))
    role = g.log.role
    if isinstance(role, Leader):
        g.round = ReadRound(batch=g.batches_begun, read_round=role.read_round, read_index=read_index)


def confirm_round(g: GroupState, now_ms: int) -> None:
    """Give the questions their read index whose round a majority has echoed, and begin that of those that wait."""
    if g.round is not None and isinstance(g.log.role, Leader) and g.round.read_round <= g.log.confirmed_read_round:
        confirmed, g.round = g.round, None
        _tell_read_indexes(g, confirmed.batch, confirmed.read_index)
        begin_reads(g, now_ms)


def _tell_read_indexes(g: GroupState, batch: int, read_index: Offset) -> None:
    for read in g.reads.take_while(lambda read: read.batch <= batch):
        _tell_read_index(g, read, read_index)


def _tell_read_index(g: GroupState, read: ParkedRead, read_index: Offset) -> None:
    match read.request:
        case QueryRequest():
            query = ParkedQuery(
                call_id=read.call_id, deadline_ms=read.deadline_ms, request=read.request, read_index=read_index
            )
            park_query(g, query)
        case ReadIndexRequest():
            response = ReadIndexResponse(
                error=ErrorCode.NONE, read_index=read_index, current_leader=g.log.current_leader
            )
            g.reply(read.call_id, response)
        case _:
            assert_never(read.request)


def on_response(g: GroupState, correlation_id: CorrelationId, response: PeerResponse) -> None:
    """Take the leader's answer; one to a request of an earlier leadership came too late."""
    assert isinstance(response, ReadIndexResponse), response
    if g.asked is None or g.asked.correlation_id != correlation_id:
        return
    asked, g.asked = g.asked, None
    if response.error is ErrorCode.NONE and response.read_index is not None:
        _tell_read_indexes(g, asked.batch, response.read_index)
    else:
        _fail_asked(g, asked.batch, response.error)


def on_send_failed(g: GroupState, correlation_id: CorrelationId) -> None:
    """Let the askers try elsewhere, or here again."""
    if g.asked is not None and g.asked.correlation_id == correlation_id:
        asked, g.asked = g.asked, None
        _fail_asked(g, asked.batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _fail_asked(g: GroupState, batch: int, refused: ErrorCode) -> None:
    """Pass on that the leader has no place; whatever else it says, the askers may try elsewhere."""
    is_throttled = refused is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    for read in g.reads.take_while(lambda read: read.batch <= batch):
        _refuse(g, read, refused if is_throttled else ErrorCode.NOT_LEADER_OR_FOLLOWER)


def fail_reads(g: GroupState, error: ErrorCode) -> None:
    """Answer that nobody knows their read index, to all that have none."""
    g.round = None
    g.asked = None
    g.batches_begun = g.batch_wanted
    for read in g.reads.take_all():
        _refuse(g, read, error)


def expire_reads(g: GroupState, now_ms: int) -> None:
    """Answer whose time is up."""
    for read in g.reads.take_expired(now_ms):
        _refuse(g, read, ErrorCode.REQUEST_TIMED_OUT)


def _refuse(g: GroupState, read: ParkedRead, error: ErrorCode) -> None:
    if isinstance(read.request, QueryRequest):
        refuse_query(g, read.call_id, error)
    else:
        g.reply(read.call_id, ReadIndexResponse(error=error, current_leader=g.log.current_leader))
