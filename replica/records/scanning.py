"""From bytes to batches: batches that stand back to back, and whether a batch fits at the end of a log.

Owns the rules between neighbours, and so the only check on the two fields outside the CRC: a flip in a base offset or
a leader epoch shows by position or by epoch order, or not at all. Knows nothing of files. Source: Kafka's
``DefaultRecordBatch.ensureValid``, ``UnifiedLog.append``.
"""

from __future__ import annotations

from collections.abc import Iterator

from replica.records.batch import HEADER, HEADER_BYTES, RecordBatch, batch_size_at, check_checksum, parse_batch
from replica.records.errors import CorruptRecordError, InvalidRecordError


def parse_batches(data: bytes) -> tuple[RecordBatch, ...]:
    """Parse whole batches that stand back to back; no bytes, no batches.

    Each is verified with its CRC. From one to the next, the base offset is at or above the previous end and the leader
    epoch does not fall. Anything else, trailing bytes included, raises ``CorruptRecordError``. A leader epoch of -1
    (not stamped yet, as producers send it) is accepted.
    """
    return tuple(scan_batches(data))


def parse_produced(data: bytes) -> RecordBatch:
    """Parse what a client may write: exactly one batch, and none of the protocol's own; its records are not looked at.

    Raises InvalidRecordError, and CorruptRecordError where there is damage: also in a further batch, whose offsets are
    not looked at, since each client counts from 0.
    """
    if not data:
        raise InvalidRecordError("there is no record batch; a Produce carries exactly one")
    batch = _batch_at(data, 0, verify=True)
    if batch.size_bytes < len(data):
        _batch_at(data, batch.size_bytes, verify=True)
        raise InvalidRecordError("there is more than one record batch; a Produce carries exactly one")
    if batch.is_control:
        raise InvalidRecordError("it is a control batch; only leaders write those")
    return batch


def scan_batches(data: bytes | memoryview, *, verify: bool = True) -> Iterator[RecordBatch]:
    """Yield the batches of ``data`` one by one, under the rules of ``parse_batches``.

    Good batches in front of a bad one are yielded before ``CorruptRecordError`` is raised, so the sum of their sizes
    is where the damage begins. Without ``verify``, CRCs are not compared and all other rules hold.
    """
    position = 0
    previous: RecordBatch | None = None
    while position < len(data):
        batch = _batch_at(data, position, verify=verify)
        if previous is not None:
            _check_follows(batch, previous, position)
        yield batch
        previous = batch
        position += batch.size_bytes


def check_crc(batch: RecordBatch) -> None:
    """Raise ``CorruptRecordError`` unless the CRC of a batch that was scanned without ``verify`` is right."""
    crc: int = HEADER.unpack_from(batch.data)[4]
    check_checksum(batch.data, 0, crc)


def check_continues(
    batch: RecordBatch,
    *,
    log_end_offset: int,
    last_epoch: int | None,
    leader_epoch: int | None = None,
) -> None:
    """Raise ``CorruptRecordError`` unless ``batch`` may stand at the end of a log.

    Its base offset is ``log_end_offset``. Its leader epoch is not below ``last_epoch``, the epoch of the batch before
    it (``None`` for an empty log), and not above ``leader_epoch``, the epoch of the leader that sent it, where one is
    given. A batch that no leader has stamped stands in no log.
    """
    if batch.base_offset != log_end_offset:
        raise CorruptRecordError(0, f"base offset {batch.base_offset} is not the log end offset {log_end_offset}")
    if batch.leader_epoch < 0:
        raise CorruptRecordError(12, f"the batch at offset {batch.base_offset} has not been stamped by a leader")
    if last_epoch is not None and batch.leader_epoch < last_epoch:
        raise CorruptRecordError(12, f"leader epoch {batch.leader_epoch} follows {last_epoch}; epochs do not fall")
    if leader_epoch is not None and batch.leader_epoch > leader_epoch:
        raise CorruptRecordError(12, f"leader epoch {batch.leader_epoch} is above its leader's own, {leader_epoch}")


def _batch_at(data: bytes | memoryview, position: int, *, verify: bool) -> RecordBatch:
    size = batch_size_at(data, position)
    available = len(data) - position
    if size is None:
        raise CorruptRecordError(position, f"{available} trailing bytes; a batch has at least {HEADER_BYTES}")
    if size > available:
        raise CorruptRecordError(position + 8, f"the batch is {size} bytes long, but only {available} are there")
    return parse_batch(bytes(data[position : position + size]), position, verify=verify)


def _check_follows(batch: RecordBatch, previous: RecordBatch, position: int) -> None:
    if batch.base_offset < previous.end_offset:
        raise CorruptRecordError(
            position, f"base offset {batch.base_offset} lies below the previous batch's end, {previous.end_offset}"
        )
    if batch.leader_epoch < previous.leader_epoch:
        raise CorruptRecordError(
            position + 12, f"leader epoch {batch.leader_epoch} follows {previous.leader_epoch}; epochs do not fall"
        )
