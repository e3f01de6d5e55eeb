"""Messages with many bytes of records: put together by hand, and the same to whoever reads them with protobuf."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, TopicPartition
from replica.rpc.codec import DUMP_LOG, FETCH, PRODUCE
from replica.rpc.codec_records import PUT_BEHIND_BYTES_MIN, varint
from replica.rpc.codec_shapes import Shape

SIZES = [0, 1, PUT_BEHIND_BYTES_MIN - 1, PUT_BEHIND_BYTES_MIN, (1 << 21) - 1, 1 << 21, (8 << 20) - 1]
"""Around where another way is taken, and where a length takes another byte."""
LOG = TopicPartition("orders", 7)


def produce(*sizes: int) -> m.ProduceRequests:
    """Writes, each with so many bytes of records."""
    return m.ProduceRequests(
        requests=tuple(
            m.ProduceRequest(
                topic_partition=LOG, acks=-1, timeout_ms=5, records=bytes(size), current_leader_epoch=Epoch(3)
            )
            for size in sizes
        )
    )


def fetched(*sizes: int) -> m.FetchResponse:
    """An answer for so many logs, each with its bytes of records."""
    parts = [
        m.FetchedPartition(
            topic_partition=TopicPartition("orders", number),
            error=ErrorCode.NONE,
            high_watermark=Offset(number),
            records=bytes([number]) * size,
        )
        for number, size in enumerate(sizes)
    ]
    return m.FetchResponse(partitions=tuple(parts))


def dumped(size: int) -> m.DumpLogResponse:
    """An answer with so many bytes of records."""
    return m.DumpLogResponse(error=ErrorCode.NONE, records=bytes(size))


CASES: list[tuple[Shape[Any], Any]] = [
    *((PRODUCE.request, produce(size)) for size in SIZES),
    *((DUMP_LOG.response, dumped(size)) for size in SIZES),
    *((FETCH.response, fetched(size)) for size in SIZES),
    (FETCH.response, fetched()),
    (PRODUCE.request, produce(*SIZES)),
    (FETCH.response, fetched(0, PUT_BEHIND_BYTES_MIN, 0, 5)),
    (FETCH.response, fetched(*[PUT_BEHIND_BYTES_MIN // 2] * 2)),
]


@pytest.mark.parametrize(("shape", "value"), CASES)
def test_generated_code_reads_the_same_message(shape: Shape[Any], value: Any) -> None:
    """What is put together by hand is to protobuf the message that it would have written, field by field, in order."""
    message_class: type[Message] = GetMessageClass(shape.descriptor)
    whole = message_class(**shape.contents(value))

    assert message_class.FromString(shape.encode(value)) == whole
    assert shape.decode(shape.encode(value)) == value


def test_few_records_are_written_by_protobuf() -> None:
    """Below the limit the bytes are protobuf's own."""
    shape, value = PRODUCE.request, produce(PUT_BEHIND_BYTES_MIN - 1)

    assert shape.encode(value) == GetMessageClass(shape.descriptor)(**shape.contents(value)).SerializeToString()


def test_records_are_held_by_their_bound_all_the_same() -> None:
    """A message that is refused above its bound is refused however it was written."""
    with pytest.raises(ValueError, match="records has 8388609 bytes; it may have at most 8388608"):
        PRODUCE.request.decode(PRODUCE.request.encode(produce((8 << 20) + 1)))


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (1 << 21, b"\x80\x80\x80\x01")],
)
def test_numbers_are_written_seven_bits_a_byte(value: int, written: bytes) -> None:
    """The lowest seven bits come first, and all bytes but the last bear the highest bit."""
    assert varint(value) == written
