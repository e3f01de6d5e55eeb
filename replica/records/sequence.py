"""Sequence numbers of idempotent producers, and what a batch carries that has none.

Owns their arithmetic: they count the records of one producer in one partition, and start again at 0 behind 2**31-1.
Source: KIP-98; Kafka's ``RecordBatch``, ``DefaultRecordBatch.incrementSequence``.
"""

from __future__ import annotations

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

PRODUCER_ID_MAX = (1 << 63) - 1
PRODUCER_EPOCH_MAX = (1 << 15) - 1
SEQUENCE_MAX = (1 << 31) - 1


def increment_sequence(sequence: int, count: int) -> int:
    """Return the sequence number ``count`` records behind ``sequence``."""
    assert 0 <= sequence <= SEQUENCE_MAX, f"sequence {sequence}"
    assert 0 <= count <= SEQUENCE_MAX, f"{count} records"
    return (sequence + count) % (SEQUENCE_MAX + 1)


def check_producer(producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Raise ``ValueError`` unless all three are there and within their widths, or none is."""
    given = (producer_id, producer_epoch, base_sequence)
    if given == (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE):
        return
    named = f"producer id {producer_id}, producer epoch {producer_epoch}, base sequence {base_sequence}"
    if min(given) < 0:
        raise ValueError(f"{named}: an idempotent producer gives all three, any other none of them")
    if producer_id > PRODUCER_ID_MAX or producer_epoch > PRODUCER_EPOCH_MAX or base_sequence > SEQUENCE_MAX:
        raise ValueError(f"{named}: one of them does not fit its field")
