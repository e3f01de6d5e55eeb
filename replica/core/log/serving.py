"""What a fetch of one log gets: its answer, and where the records are that come with it.

A replica reads to the log's end, a consumer as far as the rules say. Who asks, and whether that is an acknowledgement,
each kind of log decides before; what waits, and for what, who serves the fetches.

Source: Kafka ``Partition.readRecords``, ``DelayedFetch``; KIP-1166.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replica.core.effects import LogRange, Reply, ReplyWithRecords
from replica.core.log.replicated_log import ReplicatedLog
from replica.core.messages import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from replica.errors import ErrorCode
from replica.ids import CallId, EpochEndOffset, Offset, ReplicaId


class Read(Struct, frozen=True, kw_only=True):
    """What a fetch of one log would get now: the answer without its records, and where those are.

    ``range`` is absent where there is nothing to read, and ``bytes`` is then 0; of old batches, whose sizes are not
    remembered, it is a guess. ``is_final`` where waiting for records would be wrong: there is an error, or something to
    say that the asker does not know.
    """

    answer: FetchedPartition
    range: LogRange | None = None
    is_final: bool = True
    bytes: int = 0


def refused(log: ReplicatedLog, error: ErrorCode) -> Read:
    """Say that this log has nothing for the asker, and who leads it."""
    return Read(
        answer=FetchedPartition(topic_partition=log.topic_partition, error=error, current_leader=log.current_leader)
    )


def told(log: ReplicatedLog, *, diverging_epoch: EpochEndOffset | None = None, read_round: int = 0) -> FetchedPartition:
    """Say how this log stands, and where the asker's has left it, if it has."""
    return FetchedPartition(
        topic_partition=log.topic_partition,
        error=ErrorCode.NONE,
        high_watermark=log.high_watermark,
        log_start_offset=log.log.log_start_offset,
        diverging_epoch=diverging_epoch,
        current_leader=log.current_leader,
        read_round=read_round,
    )


def read(log: ReplicatedLog, part: FetchPartition, replica_id: ReplicaId | None, answer: FetchedPartition) -> Read:
    """Find what is between the fetch offset and what this reader may read."""
    bound = read_bound(log, replica_id)
    is_final = tells_high_watermark(log, part)
    if bound is None or part.fetch_offset >= bound:
        return Read(answer=answer, is_final=is_final)
    wanted = LogRange(
        topic_partition=log.topic_partition,
        start_offset=part.fetch_offset,
        end_offset=bound,
        max_bytes=min(part.max_bytes, log.limits.fetch_max_bytes),
    )
    return Read(answer=answer, range=wanted, is_final=is_final, bytes=log.log.count_bytes(part.fetch_offset, bound))


def read_bound(log: ReplicatedLog, replica_id: ReplicaId | None) -> Offset | None:
    """Name the offset up to which this reader may read: a replica to the log's end, a consumer as the rules say."""
    if replica_id is not None:
        return log.log.log_end_offset
    return log.rules.consumer_read_bound(high_watermark=log.high_watermark, log_end_offset=log.log.log_end_offset)


def tells_high_watermark(log: ReplicatedLog, part: FetchPartition) -> bool:
    """Decide whether the asker is behind in what is committed and wants to know at once (KIP-1166)."""
    if part.high_watermark is None or part.high_watermark_may_wait or log.high_watermark is None:
        return False
    return log.high_watermark > part.high_watermark


def is_answerable(request: FetchRequest, reads: Sequence[Read]) -> bool:
    """Whether a log must be answered now, there is nothing to wait for, or enough has come together."""
    return not reads or any(each.is_final for each in reads) or sum(each.bytes for each in reads) >= request.min_bytes


def answer_fetch(
    call_id: CallId, request: FetchRequest, reads: Sequence[Read], *, max_bytes: int
) -> Reply | ReplyWithRecords:
    """Put together what all logs of a fetch have for it, with ``max_bytes`` of records at most."""
    response = FetchResponse(partitions=tuple(each.answer for each in reads))
    ranges = tuple(each.range for each in reads if each.range is not None)
    if not ranges:
        return Reply(call_id=call_id, response=response)
    max_bytes = min(request.max_bytes, max_bytes)
    return ReplyWithRecords(call_id=call_id, response=response, ranges=ranges, max_bytes=max_bytes)
