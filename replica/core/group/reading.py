"""The way of a question: how recent must its answer be, is the machine there, and what does it say.

A question that must not be answered from old state first learns its read index (``read_index``). Then it waits here
until the machine has applied so much, and, if its asker wants to hear of something new, until that has happened.

Source: Ongaro's thesis, section 6.4.
"""

from __future__ import annotations

from replica.core.group.leasing import is_served_by_lease, maybe_renew_lease
from replica.core.group.state import GroupState, ParkedQuery, ParkedRead, size_of
from replica.core.log.fencing import cluster_error
from replica.core.messages import QueryRequest, QueryResponse
from replica.errors import ErrorCode
from replica.ids import CallId, Offset
from replica.machines import encode_outcome


def on_query(g: GroupState, call_id: CallId, request: QueryRequest, now_ms: int) -> None:
    """Take a question: it is answered as soon as it can be, in this step if that is now."""
    needs_read_index = g.rules.needs_read_index(consistency=request.consistency)
    refused = _refused(g, request, needs_read_index)
    if refused is not None:
        refuse_query(g, call_id, refused)
        return
    deadline_ms = now_ms + min(max(request.timeout_ms, 0), g.config.query_timeout_max_ms)
    if is_served_by_lease(g, request, now_ms):
        read_index = g.log.log.high_watermark or Offset(0)
        park_query(g, ParkedQuery(call_id=call_id, deadline_ms=deadline_ms, request=request, read_index=read_index))
        maybe_renew_lease(g, now_ms)
    elif needs_read_index:
        g.batch_wanted = g.batches_begun + 1
        g.reads.add(ParkedRead(call_id=call_id, deadline_ms=deadline_ms, request=request, batch=g.batch_wanted))
    else:
        park_query(g, ParkedQuery(call_id=call_id, deadline_ms=deadline_ms, request=request, read_index=Offset(0)))


def _refused(g: GroupState, request: QueryRequest, needs_read_index: bool) -> ErrorCode | None:
    if (refused := cluster_error(g.log, request.cluster_id)) is not None:
        return refused
    if not request.requests or (request.after_offset is not None and request.after_offset < 0):
        return ErrorCode.INVALID_REQUEST
    size_bytes = size_of(request)
    if size_bytes > g.config.query_max_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    waits = not _has_news(g, request)
    if not g.has_place_for_query(size_bytes) or (waits and not g.has_place_for_watch(size_bytes)):
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if needs_read_index and g.log.leader_id is None else None


def refuse_query(g: GroupState, call_id: CallId, error: ErrorCode) -> None:
    """Answer that there is no answer. A question changes nothing: it may always be put again."""
    g.reply(call_id, QueryResponse(error=error, current_leader=g.log.current_leader))


def park_query(g: GroupState, query: ParkedQuery) -> None:
    """Let a question wait whose read index is known; for something new, if there still is a place for that."""
    if _has_news(g, query.request):
        g.queries.add(query)
    elif g.has_place_for_watch(size_of(query.request)):
        g.watches.add(query)
    else:
        refuse_query(g, query.call_id, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    g.queries_seen_at = None


def answer_queries(g: GroupState) -> None:
    """Answer the questions for which enough is applied now."""
    if g.queries_seen_at == g.machine.applied_offset or g.machine.failure is not None:
        return
    g.queries_seen_at = g.machine.applied_offset
    for place in (g.queries, g.watches):
        for query in place.take_if(lambda query: _is_served(g, query) and _has_news(g, query.request)):
            _answer(g, query)


def expire_queries(g: GroupState, now_ms: int) -> None:
    """Answer whose time is up: with what there is, if its asker only waited for something new."""
    for query in (*g.queries.take_expired(now_ms), *g.watches.take_expired(now_ms)):
        if g.machine.failure is None and _is_served(g, query):
            _answer(g, query)
        else:
            refuse_query(g, query.call_id, ErrorCode.REQUEST_TIMED_OUT)


def _is_served(g: GroupState, query: ParkedQuery) -> bool:
    return g.rules.read_is_served(applied_offset=g.machine.applied_offset, read_index=query.read_index)


def _has_news(g: GroupState, request: QueryRequest) -> bool:
    return request.after_offset is None or g.machine.applied_offset > request.after_offset


def _answer(g: GroupState, query: ParkedQuery) -> None:
    outcomes: list[bytes] = []
    left_bytes = g.config.answer_bytes_max
    for request in query.request.requests:
        outcomes.append(encode_outcome(g.machine.query(request)))
        left_bytes -= len(outcomes[-1])
        if left_bytes < 0:
            refuse_query(g, query.call_id, ErrorCode.MESSAGE_TOO_LARGE)
            return
    response = QueryResponse(
        error=ErrorCode.NONE,
        outcomes=tuple(outcomes),
        applied_offset=g.machine.applied_offset,
        current_leader=g.log.current_leader,
    )
    g.reply(query.call_id, response)
