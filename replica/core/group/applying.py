"""The way of what is committed: read from the log, folded into the machine, its outcomes told to who waits.

One read of the log is out at a time; it is performed by the driver and comes back as an event. Only what is committed
is read, hence nothing is ever taken back. Batches are committed whole: where nothing comes of a read, the high
watermark lies inside a batch, which no voter acknowledges that keeps to the rules.

Source: Kafka ``RaftClient.Listener.handleCommit``.
"""

from __future__ import annotations

from replica.core.effects import Halt, LogRange, ReadLog
from replica.core.events import LogRead
from replica.core.group.state import GroupState, ParkedApply
from replica.core.messages import ApplyResponse
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.machines import AppliedEntry, committed_batch, encode_outcome
from replica.records import RecordBatch, parse_batches


class _Outcomes:
    """What one batch came to, as bytes, up to a maximum: what goes beyond it is not kept."""

    def __init__(self, bytes_max: int) -> None:
        self.outcomes: list[bytes] = []
        self.size_bytes = 0
        self._bytes_max = bytes_max

    @property
    def fit(self) -> bool:
        """Whether all of them can be answered."""
        return self.size_bytes <= self._bytes_max

    def take(self, applied: AppliedEntry) -> None:
        """Keep an outcome."""
        outcome = encode_outcome(applied.outcome)
        self.size_bytes += len(outcome)
        if self.fit:
            self.outcomes.append(outcome)


def read_committed(g: GroupState) -> None:
    """Ask for what is committed and not applied yet, unless a read is out already."""
    high_watermark = g.log.log.high_watermark
    applied_offset = g.machine.applied_offset
    if g.reading_from is not None or high_watermark is None or high_watermark <= applied_offset:
        return
    g.reading_from = applied_offset
    wanted = LogRange(
        topic_partition=g.topic_partition,
        start_offset=applied_offset,
        end_offset=high_watermark,
        max_bytes=g.config.read_max_bytes,
    )
    g.emit(ReadLog(range=wanted))


def on_read(g: GroupState, read: LogRead) -> None:
    """Apply what was read. What was asked for before a snapshot was loaded is applied already.

    Raises MachineFailedError, and CorruptRecordError for records that no group has written.
    """
    if read.start_offset != g.reading_from:
        return
    g.reading_from = None
    batches = parse_batches(read.records)
    if not batches:
        _halt_inside_batch(g, read.start_offset)
        return
    waiting = {parked.base_offset: parked for parked in g.applies}
    for batch in batches:
        _apply(g, batch, waiting.get(batch.base_offset))
        g.snapshots.note_applied(batch.size_bytes)


def _halt_inside_batch(g: GroupState, start_offset: Offset) -> None:
    """Stop rather than ask again, at full speed and for ever, for a batch whose end is not committed."""
    reason = (
        f"{g.topic_partition}: no whole batch lies in [{start_offset}, {g.log.log.high_watermark}), "
        "which is committed: a voter has acknowledged a part of one; look for the voter whose log is damaged"
    )
    g.emit(Halt(reason=reason))


def _apply(g: GroupState, batch: RecordBatch, parked: ParkedApply | None) -> None:
    if parked is None:
        g.machine.apply(committed_batch(batch))
        return
    came = (batch.base_offset, batch.end_offset, batch.leader_epoch)
    assert came == (parked.base_offset, parked.end_offset, parked.epoch), (came, parked)
    outcomes = _Outcomes(g.config.answer_bytes_max)
    g.machine.apply(committed_batch(batch), outcomes.take)
    g.reply(g.applies.take(parked.call_id).call_id, _answer(parked, outcomes))


def _answer(parked: ParkedApply, outcomes: _Outcomes) -> ApplyResponse:
    if not outcomes.fit:
        return ApplyResponse(error=ErrorCode.MESSAGE_TOO_LARGE, leader_epoch=parked.epoch)
    return ApplyResponse(
        error=ErrorCode.NONE,
        base_offset=parked.base_offset,
        outcomes=tuple(outcomes.outcomes),
        leader_epoch=parked.epoch,
    )
