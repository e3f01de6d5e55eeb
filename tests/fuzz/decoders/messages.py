"""The decoders of the RPCs: every request and every answer, read by the codec and by protobuf."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from replica.core.messages import FetchPartition, FetchRequest, ProduceRequest, ProduceRequests
from replica.ids import Offset, TopicPartition
from replica.rpc.codec import FETCH, METHODS, PRODUCE, MalformedMessageError
from replica.rpc.codec_records import PUT_BEHIND_BYTES_MIN
from replica.rpc.codec_shapes import Shape
from tests.fuzz.decoder import Decoder, of_bytes
from tests.rpc.test_bounds import ENTRIES, bounds, encoded
from tests.rpc.test_codec_records import dumped, fetched, produce

FEW = 3
LOG = TopicPartition("log", 0)


def _decode(shape: Shape[Any], content: bytes) -> None:
    """Read a message, write it, and read it again; what is written is to protobuf the message of the value."""
    message_class = GetMessageClass(shape.descriptor)
    try:
        value = shape.decode(content)
    except MalformedMessageError as error:
        _check_count(shape, content, str(error))
        raise
    written = shape.encode(value)
    assert shape.decode(written) == value, "what was read is not what it is written as"
    assert message_class.FromString(written) == message_class(**shape.contents(value)), "protobuf reads another message"


def _check_count(shape: Shape[Any], content: bytes, error: str) -> None:
    """What is refused for too many elements, before they are looked at, has too many by protobuf as well."""
    if "has more than" not in error:
        return
    (field,) = [each for each in shape.fields if each.entries is not None]
    assert field.entries is not None
    try:
        message = GetMessageClass(shape.descriptor).FromString(content)
    except DecodeError:
        return
    assert len(getattr(message, field.name)) > field.entries.count_max, "no more elements than there may be"


def _right(shape: Shape[Any]) -> Iterator[bytes]:
    """An honest message with one of everything, and for each list one with a few elements."""
    yield encoded(shape, (), 0)
    yield from (encoded(shape, path, FEW) for path in bounds(shape.fields) if path[-1][1] == ENTRIES)
    if shape is PRODUCE.request:
        yield shape.encode(produce(10, PUT_BEHIND_BYTES_MIN))
        writes = ProduceRequest(topic_partition=LOG, acks=1, timeout_ms=1, records=b"")
        yield shape.encode(ProduceRequests(requests=(writes,) * 1000))
    elif shape is FETCH.response:
        yield shape.encode(fetched(10, PUT_BEHIND_BYTES_MIN))
    elif shape is FETCH.request:
        yield shape.encode(
            FetchRequest(partitions=(FetchPartition(topic_partition=LOG, fetch_offset=Offset(0)),) * 999)
        )
    elif shape.descriptor.name == "DumpLogResponse":
        yield shape.encode(dumped(PUT_BEHIND_BYTES_MIN))


def _made(shape: Shape[Any]) -> Callable[[], Sequence[bytes]]:
    return lambda: list(_right(shape))


SHAPES: dict[str, Shape[Any]] = {
    shape.descriptor.name: shape for method in METHODS.values() for shape in (method.request, method.response)
}
DECODERS = tuple(
    Decoder(
        name=f"rpc-{name}",
        decode=of_bytes(partial(_decode, shape)),
        right=_made(shape),
        refusals=(MalformedMessageError,),
        memory_per_byte=1_000,
    )
    for name, shape in SHAPES.items()
)
