"""A follower's part in a partition: fetch, find where the logs part, append, and begin again where it fell behind.

It says what it wants of its leader, one request at a time (``next_request``), and takes the answer; the broker carries
both, and the fetches of many partitions together. Nothing is asked before everything appended is flushed: the next
fetch offset tells the leader what this replica will still have after a crash. The high watermark is the leader's, as
far as this log reaches; it may fall, since a new leader can know of less than the last one. No answer moves it below
the log's start, and none that says that the logs have parted moves it at all.

Source: Kafka ``AbstractFetcherThread``, ``ReplicaFetcherThread``; KIP-101, KIP-279, KIP-320, KIP-595 (divergence in
the Fetch answer).
"""

from __future__ import annotations

from msgspec.structs import replace

from replica.core import messages as m
from replica.core.effects import FindBatch
from replica.core.log.following import check_continuity, followed_high_watermark, may_fetch, shared_end
from replica.core.partition.roles import Follower
from replica.core.partition.state import PartitionState
from replica.core.partition.watermark import acknowledge_committed
from replica.errors import ErrorCode
from replica.ids import EpochEndOffset, Offset, ReplicaId
from replica.records import CorruptRecordError, RecordBatch, parse_batches

Asked = m.FetchPartition | m.ListOffsetsRequest
"""What a follower may want of its leader."""


def begin_following(p: PartitionState, leader_id: ReplicaId | None) -> None:
    """Follow in a new leader epoch, which may have no leader: all that was known of the last one's log is forgotten.

    Also when the leader is the same (KAFKA-7164): in between, others may have led and its log may have been cut.
    """
    kept = p.rules.kept_by_new_follower(high_watermark=p.high_watermark, log_end_offset=p.log.log_end_offset)
    p.role = Follower(
        leader_id=leader_id,
        kept_end_offset=kept if kept < p.log.log_end_offset else None,
    )


# --- what is asked --------------------------------------------------------------------------------------------------


def next_request(p: PartitionState, now_ms: int) -> Asked | None:
    """Say what this replica wants of its leader now, if anything; asked again, it says the same until an answer comes.

    Where the rules have a new follower keep less than its whole log, that is cut before the first request.
    """
    role = p.role
    if not isinstance(role, Follower) or not _may_ask(p, role) or _backs_off(role, now_ms):
        return None
    if role.kept_end_offset is not None:
        if not p.log.is_flushed:
            return None  # Only where the rules let a fetch go before the flush. A log is cut at rest.
        _truncate(p, role.kept_end_offset)
    if (role.kept_end_offset, role.retry_at_ms) != (None, None):
        p.role = role = replace(role, kept_end_offset=None, retry_at_ms=None)
    return _list_offsets(p, latest=not role.leader_end_known) if role.out_of_range else _fetch(p)


def fetch_deadline_ms(p: PartitionState) -> int | None:
    """Name when this replica's back-off ends; absent where it does not wait for time.

    It may have passed already: it stands until the request that was put off is asked for.
    """
    return p.role.retry_at_ms if isinstance(p.role, Follower) and _may_ask(p, p.role) else None


def _backs_off(role: Follower, now_ms: int) -> bool:
    return role.retry_at_ms is not None and now_ms < role.retry_at_ms


def _may_ask(p: PartitionState, role: Follower) -> bool:
    return role.leader_id is not None and not role.is_failed and role.cuts_at is None and may_fetch(p)


def _fetch(p: PartitionState) -> m.FetchPartition:
    """Fetch at the log's end, and name the latest epoch of the cache, although nothing may be written in it.

    That is a former leader's case: it began epoch 5 at its log's end and never wrote in it. If it named the epoch of
    its last record, say 4, it would pass where the new leader has more of epoch 4, and noting that 4 begins where 5 did
    would take the right start of 4 out of the cache. As it names 5, the leader answers that the logs part, for nobody
    else has a 5; the empty entry goes (KAFKA-10706), no record that naming 4 would keep goes with it, and the next
    fetch names 4. That costs one round. An empty log may have no epoch to name: there is nothing in it that can differ.
    """
    latest = p.log.epochs.latest
    assert latest is not None or p.log.log_start_offset == p.log.log_end_offset, (p.topic_partition, p.log.epochs)
    return m.FetchPartition(
        topic_partition=p.topic_partition,
        topic_id=p.topic_id,
        fetch_offset=p.log.log_end_offset,
        current_leader_epoch=p.leader_epoch,
        last_fetched_epoch=None
        if latest is None
        else p.rules.last_fetched_epoch(last_epoch=latest.epoch, leader_epoch=p.leader_epoch),
        log_start_offset=p.log.log_start_offset,
        high_watermark=p.high_watermark,
        max_bytes=p.config.replica_fetch_max_bytes,
    )


def _list_offsets(p: PartitionState, *, latest: bool) -> m.ListOffsetsRequest:
    return m.ListOffsetsRequest(
        topic_partition=p.topic_partition,
        latest=latest,
        replica_id=p.replica_id,
        cluster_id=p.cluster_id,
        current_leader_epoch=p.leader_epoch,
    )


# --- answers --------------------------------------------------------------------------------------------------------


def on_fetched(p: PartitionState, asked: m.FetchPartition, answer: m.FetchedPartition, now_ms: int) -> None:
    """Take the answer to a fetch; one that this replica no longer waits for came too late to mean anything."""
    role = _still_asking(p, asked)
    if role is None or role.out_of_range or asked.fetch_offset != p.log.log_end_offset:
        return
    if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
        p.role = replace(role, out_of_range=True, leader_end_known=False)
    elif answer.error is not ErrorCode.NONE:
        _on_refused(p, role, answer.error, now_ms)
    elif answer.diverging_epoch is not None:
        _maybe_follow_high_watermark(p, answer)
        _reconcile(p, role, answer.diverging_epoch, answer.log_start_offset, now_ms)
    else:
        _on_records(p, role, answer, now_ms)
    if p.produces:  # By the right rules nothing waits on a follower.
        acknowledge_committed(p)


def on_leader_offset(
    p: PartitionState, asked: m.ListOffsetsRequest, answer: m.ListOffsetsResponse, now_ms: int
) -> None:
    """Take the leader's end, then its start, after a fetch that was out of its range.

    A log that reaches beyond the leader's end is cut there. One that ends before the leader's start has a gap before it
    and begins anew there. Any other was out of range for a moment only.
    """
    role = _still_asking(p, asked)
    if role is None or not role.out_of_range or asked.latest is role.leader_end_known:
        return
    if answer.error is not ErrorCode.NONE:
        _on_refused(p, role, answer.error, now_ms)
    elif answer.offset is None or not p.log.is_flushed:
        _back_off(p, role, now_ms)
    elif asked.latest and answer.offset < p.log.log_end_offset:
        _cut(p, replace(role, out_of_range=False), answer.offset)
    elif asked.latest:
        p.role = replace(role, leader_end_known=True)
    elif answer.offset > p.log.log_end_offset:
        p.role = replace(role, out_of_range=False)
        p.start_log_at(answer.offset)
    else:
        _back_off(p, replace(role, out_of_range=False), now_ms)


def on_ask_failed(p: PartitionState, asked: Asked, now_ms: int) -> None:
    """Ask again after a pause. Whether the leader saw the request does not matter: asking changes nothing there."""
    role = _still_asking(p, asked)
    if role is not None:
        _back_off(p, role, now_ms)


def _still_asking(p: PartitionState, asked: Asked) -> Follower | None:
    """The role, if this replica still follows in the epoch in which it asked."""
    role = p.role
    if not isinstance(role, Follower) or role.is_failed or role.cuts_at is not None:
        return None
    current = p.rules.answer_is_current(asked_leader_epoch=asked.current_leader_epoch, leader_epoch=p.leader_epoch)
    return role if current else None


def _on_refused(p: PartitionState, role: Follower, error: ErrorCode, now_ms: int) -> None:
    """Stop if the leader is in a later epoch, since only new metadata helps then; otherwise ask again after a pause.

    Nothing is cut: a leader that does not know this epoch yet has nothing to say about it.
    """
    if error is ErrorCode.FENCED_LEADER_EPOCH:
        p.role = replace(role, is_failed=True)
    else:
        _back_off(p, role, now_ms)


def _back_off(p: PartitionState, role: Follower, now_ms: int) -> None:
    p.role = replace(role, retry_at_ms=now_ms + p.config.replica_fetch_backoff_ms)


# --- records --------------------------------------------------------------------------------------------------------


def _on_records(p: PartitionState, role: Follower, answer: m.FetchedPartition, now_ms: int) -> None:
    try:
        batches = parse_batches(answer.records)
        restart_at = _check_continuity(p, batches, answer.log_start_offset)
    except CorruptRecordError:
        # Damaged on the way: nothing was appended, so fetching the same offset again is safe.
        _back_off(p, role, now_ms)
        return
    if restart_at is not None:
        p.start_log_at(restart_at, keeps_producers=p.log.log_start_offset == p.log.log_end_offset)
    elif answer.log_start_offset == p.log.log_end_offset and not role.agrees:
        _begin_where_the_leader_does(p)
    p.role = replace(role, agrees=True)
    if batches:
        p.append(*batches)
    _maybe_follow_high_watermark(p, answer)
    if answer.log_start_offset is not None:
        p.maybe_raise_log_start(answer.log_start_offset)


def _begin_where_the_leader_does(p: PartitionState) -> None:
    """Let a log that ends where the leader's begins forget what it holds: the leader cannot tell if it agrees with it.

    1. A former leader has records of its own below the end at which it fetches. 2. The leader's log begins just there.
    3. Hence nothing below may be read here either; and what the former leader knows of producers, from batches that
    nobody else has, may not be taken for written, unless all of it lies below its high watermark.
    """
    if p.high_watermark < p.log.log_end_offset:
        p.start_log_at(p.log.log_end_offset)
    else:
        p.maybe_raise_log_start(p.log.log_end_offset)


def _check_continuity(
    p: PartitionState, batches: tuple[RecordBatch, ...], leader_log_start: Offset | None
) -> Offset | None:
    """Check that these batches may stand at the end of the log; name where the log has to begin anew for that, if so.

    A leader's log may begin inside a batch, which it sends whole. A log that ends there, and so has nothing that the
    leader's has, could never take it and would be stuck for ever; it begins anew where the batch does.
    """
    latest = p.log.epochs.latest
    end_offset, last_epoch = p.log.log_end_offset, None if latest is None else latest.epoch
    shares_nothing = p.log.is_flushed and end_offset in {p.log.log_start_offset, leader_log_start}
    restart_at = None
    if shares_nothing and batches and batches[0].base_offset < end_offset < batches[0].end_offset:
        end_offset = restart_at = batches[0].base_offset
    check_continuity(p, batches, end_offset=end_offset, last_epoch=last_epoch)
    return restart_at


def _maybe_follow_high_watermark(p: PartitionState, answer: m.FetchedPartition) -> None:
    high_watermark = followed_high_watermark(p, answer)
    if high_watermark is not None:
        p.log.set_high_watermark(max(high_watermark, p.log.log_start_offset))


# --- divergence -----------------------------------------------------------------------------------------------------


def _reconcile(
    p: PartitionState, role: Follower, leader_end: EpochEndOffset, leader_log_start: Offset | None, now_ms: int
) -> None:
    """Cut the log back to where it can agree with the leader's; without progress, ask again only after a pause.

    If nothing would be left that the leader has too, the log begins anew where the leader's does. It could not always
    be cut there: what the leader gives as the end of an epoch older than its log is its log's start, and a batch of
    this log, which is another one, may lie across that offset.
    """
    if not p.log.is_flushed:
        _back_off(p, role, now_ms)  # Only where the rules let a fetch go before the flush. A log is cut at rest.
        return
    end_offset = shared_end(p, leader_end)
    before = (p.log.log_end_offset, p.log.epochs.entries)
    if leader_log_start is not None and end_offset <= leader_log_start and end_offset < before[0]:
        p.start_log_at(leader_log_start, keeps_producers=end_offset == leader_log_start <= p.high_watermark)
    elif not _cut(p, role, end_offset):
        return
    if (p.log.log_end_offset, p.log.epochs.entries) == before:
        _back_off(p, role, now_ms)


def _cut(p: PartitionState, role: Follower, end_offset: Offset) -> bool:
    """Cut the log at ``end_offset``, and tell whether that is done: perhaps storage has to look for the batch there.

    No honest leader names an offset inside a batch of this log, and no log can be cut there.
    """
    if p.log.log_start_offset < end_offset and not p.log.is_batch_end(end_offset):
        p.role = replace(role, cuts_at=end_offset)
        p.emit(FindBatch(topic_partition=p.topic_partition, offset=end_offset))
        return False
    p.role = role
    _truncate(p, end_offset)
    return True


def on_batch_found(p: PartitionState, offset: Offset, base_offset: Offset) -> None:
    """Cut the log where the batch begins that holds the offset at which the logs part: all of it goes (Kafka).

    What goes with it, and the leader has too, is fetched again; until then the next fetch says that it is not here.
    """
    role = p.role
    if isinstance(role, Follower) and role.cuts_at == offset:
        p.role = replace(role, cuts_at=None)
        _truncate(p, max(base_offset, p.log.log_start_offset))


def _truncate(p: PartitionState, end_offset: Offset) -> None:
    """Cut the log at ``end_offset``. Where nothing is left it begins anew there, even below where it began.

    (Only an unclean election leads below a log's start: what lies below it was committed once. The start may lie inside
    a batch, so that the log could not be cut exactly there.)
    """
    if end_offset < p.log.log_start_offset or end_offset == p.log.log_start_offset < p.log.log_end_offset:
        p.start_log_at(end_offset, keeps_producers=end_offset == p.log.log_start_offset)
    else:
        p.truncate(end_offset)
