"""What a batch says of its idempotent producer: who wrote it, and which sequence numbers it takes."""

from __future__ import annotations

import pytest

from replica.records import NO_SEQUENCE, encode_batch, increment_sequence
from replica.records.batch import HEADER, parse_batch

MAX = 2**31 - 1


@pytest.mark.parametrize(
    ("sequence", "count", "result"),
    [(0, 0, 0), (0, 5, 5), (MAX - 1, 1, MAX), (MAX, 0, MAX), (MAX, 1, 0), (MAX - 2, 5, 2), (MAX, MAX, MAX - 1)],
)
def test_sequence_numbers_go_on_at_zero(sequence: int, count: int, result: int) -> None:
    """Behind 2**31-1 comes 0."""
    assert increment_sequence(sequence, count) == result


@pytest.mark.parametrize(
    ("base_sequence", "records", "last_sequence"),
    [(0, 1, 0), (0, 3, 2), (40, 2, 41), (MAX, 1, MAX), (MAX, 2, 0), (MAX - 1, 4, 1)],
)
def test_the_last_sequence_counts_the_records(base_sequence: int, records: int, last_sequence: int) -> None:
    """The last sequence number is inclusive, as Kafka has it, and wraps with the records."""
    batch = encode_batch([b""] * records, producer_id=0, producer_epoch=0, base_sequence=base_sequence)
    assert batch.is_idempotent
    assert (batch.base_sequence, batch.last_sequence) == (base_sequence, last_sequence)


def test_a_batch_without_a_producer_has_no_sequence() -> None:
    """Nobody's batch is not idempotent, however many records it has."""
    batch = encode_batch([b"a", b"b"])
    assert not batch.is_idempotent
    assert batch.last_sequence == NO_SEQUENCE == -1


def test_a_senseless_sequence_from_outside_is_no_sequence() -> None:
    """A header with a negative sequence number parses, and asking for the last one does no harm."""
    fields = list(HEADER.unpack_from(encode_batch([b"a", b"b"]).data))
    fields[11] = -7
    batch = parse_batch(HEADER.pack(*fields) + encode_batch([b"a", b"b"]).data[61:], 0, verify=False)
    assert (batch.base_sequence, batch.last_sequence) == (-7, NO_SEQUENCE)


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "base_sequence", "message"),
    [
        (1, -1, -1, "gives all three"),
        (-1, 0, -1, "gives all three"),
        (-1, -1, 0, "gives all three"),
        (1, 0, -1, "gives all three"),
        (1, -1, 0, "gives all three"),
        (-1, 0, 0, "gives all three"),
        (-2, -1, -1, "gives all three"),
        (-2, -2, -2, "gives all three"),
        (2**63, 0, 0, "does not fit"),
        (0, 2**15, 0, "does not fit"),
        (0, 0, 2**31, "does not fit"),
    ],
)
def test_a_producer_is_given_whole_or_not_at_all(
    producer_id: int, producer_epoch: int, base_sequence: int, message: str
) -> None:
    """An id without an epoch or a sequence number, or one too large, is a mistake of the caller and named so."""
    with pytest.raises(ValueError, match=message):
        encode_batch([b""], producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
