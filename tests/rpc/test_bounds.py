"""Every field of every message has a bound: at it a value passes, above it the message is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from replica.bounds import INT32_MAX, INT64_MAX, TEXT_BYTES_MAX, Data, Number, Text
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Offset, TopicPartition
from replica.rpc import codec
from replica.rpc.codec import METHODS, MalformedMessageError
from replica.rpc.codec_shapes import Element, Field, Shape
from replica.v1 import cluster_pb2, data_pb2

LOG = TopicPartition("log", 0)
ENTRIES = "entries"
"""The step to how many elements a list has, beside those to what an element may be."""
Path = tuple[tuple[Field, str], ...]
"""The way from a message to a bound: fields, and what of each."""

SHAPES: dict[str, Shape[Any]] = {
    shape.descriptor.name: shape for method in METHODS.values() for shape in (method.request, method.response)
}


def bounds(fields: tuple[Field, ...], so_far: Path = ()) -> Iterator[Path]:
    """Name every bound of a message, and of the messages in it."""
    for field in fields:
        if field.entries is not None:
            yield (*so_far, (field, ENTRIES))
        for name, element in field.elements.items():
            path = (*so_far, (field, name))
            if element.nested:
                yield from bounds(element.nested, path)
            elif element.bound is not None:
                yield path


def size_of(path: Path) -> int:
    """How much the bound at the end of a path allows."""
    field, name = path[-1]
    bound = field.entries if name == ENTRIES else field.elements[name].bound
    match bound:
        case Number():
            return bound.most
        case Text() | Data():
            return bound.bytes_max
        case _:
            assert bound is not None, path
            return bound.count_max


def value(element: Element, size: int | None) -> Any:
    """Make a scalar of this size; of a small one where none is given."""
    match element.bound:
        case Number(least=least):
            return max(least, 0) if size is None else size
        case Text():
            return "x" * (1 if size is None else size)
        case Data():
            return bytes(1 if size is None else size)
        case _:
            return 1  # A flag, or a member of a closed set.


def fill(message: Any, fields: tuple[Field, ...], path: Path, size: int) -> None:
    """Set every field to what is honest, but what stands at the end of ``path`` to something of this size."""
    for field in fields:
        here = bool(path) and path[0][0] is field
        rest, last = (path[1:] if here else ()), here and len(path) == 1
        if field.is_map:
            fill_map(message, field, path if here else (), size)
            continue
        for name, element in field.elements.items():
            given = size if last and path[0][1] == name else None
            if field.entries is None:
                fill_one(message, name, element, rest, size, given)
            else:
                count = size if last and path[0][1] == ENTRIES else 1
                container = getattr(message, name)
                if element.nested:
                    fill(container.add(), element.nested, rest, size)
                    container.extend([container[0]] * (count - 1))
                else:
                    container.extend([value(element, given)] * count)


def fill_one(message: Any, name: str, element: Element, path: Path, size: int, given: int | None) -> None:
    if element.nested:
        getattr(message, name).SetInParent()
        fill(getattr(message, name), element.nested, path, size)
    else:
        setattr(message, name, value(element, given))


def fill_map(message: Any, field: Field, path: Path, size: int) -> None:
    """Set a map to one entry, or to ``size`` of them."""
    what = path[0][1] if len(path) == 1 else ""
    keys, values = field.elements["key"], field.elements["value"]
    count = size if what == ENTRIES else 1
    for number in range(count):
        key = value(keys, size if what == "key" else None)
        if count > 1:
            key = number if isinstance(keys.bound, Number) else str(number)
        container = getattr(message, field.name)
        if values.nested:
            fill(container[key], values.nested, path[1:], size)
        else:
            container[key] = value(values, size if what == "value" else None)


def encoded(shape: Shape[Any], path: Path, size: int) -> bytes:
    message = GetMessageClass(shape.descriptor)()
    fill(message, shape.fields, path, size)
    return message.SerializeToString()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_field_passes_at_its_bound_and_is_refused_above_it(shape: Shape[Any]) -> None:
    """One more byte, one more entry, a number one larger or smaller: the message is malformed, and says by what."""
    for path in bounds(shape.fields):
        most, name = size_of(path), path[-1][1]
        shape.decode(encoded(shape, path, most))
        for above in outside(path, most):
            named = path[-1][0].name if name == ENTRIES else name
            with pytest.raises(MalformedMessageError, match=rf"{named} (is|has) .*(must be from|may have at most)"):
                shape.decode(encoded(shape, path, above))


def outside(path: Path, most: int) -> list[int]:
    """The nearest sizes that are out of bounds, as far as a field can hold them."""
    field, name = path[-1]
    bound = None if name == ENTRIES else field.elements[name].bound
    if not isinstance(bound, Number):
        return [most + 1]
    width = INT64_MAX if bound.most > INT32_MAX else INT32_MAX
    return [number for number in (bound.least - 1, bound.most + 1) if -width - 1 <= number <= width]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_scalar_has_a_bound(shape: Shape[Any]) -> None:
    """What has none is a flag or a member of a closed set; every list and map is counted."""

    def check(message: Any, fields: tuple[Field, ...]) -> None:
        for field in fields:
            for name, element in field.elements.items():
                described = message.fields_by_name[field.name if field.is_map else name]
                assert described.is_repeated == (field.entries is not None), described.full_name
                if field.is_map:
                    described = described.message_type.fields_by_name[name]
                if element.nested:
                    check(described.message_type, element.nested)
                else:
                    unbounded = (described.TYPE_BOOL, described.TYPE_ENUM)
                    assert (element.bound is None) == (described.type in unbounded), described.full_name

    check(shape.descriptor, shape.fields)


def refusal(decode: Callable[[bytes], Any], data: bytes) -> str:
    with pytest.raises(MalformedMessageError) as refused:
        decode(data)
    return str(refused.value)


def test_a_refusal_names_field_size_and_bound() -> None:
    """The sentence says what to change, without the value itself, which may be large."""
    request = m.DescribeClusterRequest(cluster_id="c" * 300)
    data = codec.DESCRIBE_CLUSTER.request.encode(request)

    assert refusal(codec.DESCRIBE_CLUSTER.request.decode, data) == (
        "replica.v1.DescribeClusterRequest: cluster_id has 300 bytes; it may have at most 249"
    )


def test_text_is_counted_in_bytes() -> None:
    """A character that takes four bytes counts as four."""
    request = m.DescribeClusterRequest(cluster_id="\U0001f600" * (TEXT_BYTES_MAX // 4))
    decode, encode = codec.DESCRIBE_CLUSTER.request.decode, codec.DESCRIBE_CLUSTER.request.encode

    assert decode(encode(request)) == request
    assert "cluster_id has 252 bytes" in refusal(decode, encode(m.DescribeClusterRequest(cluster_id="\U0001f600" * 63)))


def test_too_many_entries_are_refused_before_any_is_looked_at() -> None:
    """A list that is too long is refused by its length, even if its first entry is wrong as well."""
    part = data_pb2.FetchPartition(topic="", fetch_offset=-1)
    data = data_pb2.FetchRequest(partitions=[part] * 3001).SerializeToString()

    assert "partitions has 3001 entries; it may have at most 3000" in refusal(codec.FETCH.request.decode, data)


@pytest.mark.slow
def test_what_no_honest_message_can_weigh_is_not_parsed() -> None:
    """Larger than with every field at its bound, a message is refused by its size: 32 MiB of entries cost nothing."""
    entry = b"\x0a\x00"
    data = entry * ((32 << 20) // len(entry))
    with pytest.raises(DecodeError):
        data_pb2.FetchRequest.FromString(data + b"\xff")
    said = refusal(codec.FETCH.request.decode, data + b"\xff")
    assert re.fullmatch(r"replica\.v1\.FetchRequest has 33554433 bytes; it may have at most \d+", said)


def test_hidden_entries_are_counted_before_they_are_parsed() -> None:
    """Where each entry may be large no size of all tells that they are too many: they are counted, however written."""
    for entry in (b"\x0a\x00", b"\x8a\x00\x00", b"\x0a\x80\x00", b"\x15\x01\x02\x03\x04\x0a\x00", b"\x20\x05\x0a\x00"):
        said = refusal(codec.PRODUCE.request.decode, entry * 1001 + b"\xff")
        assert said.endswith("requests has more than 1000 entries; it may have at most 1000")
    assert "a field is of kind 3" in refusal(codec.PRODUCE.request.decode, b"\x13\x14" + b"\x0a\x00" * 1001)
    assert "more than 64 bits" in refusal(codec.PRODUCE.request.decode, b"\xff" * (4 << 20))


def test_no_clock_leaves_an_answer_that_cannot_be_written() -> None:
    """A clock at the end of its width is refused: a moment later the time by it would fit into no message."""
    told = cluster_pb2.BrokerHeartbeatRequest(unix_ms=INT64_MAX).SerializeToString()
    assert "unix_ms is 9223372036854775807; it must be from 0" in refusal(codec.BROKER_HEARTBEAT.request.decode, told)


def test_what_is_said_to_people_is_cut_by_who_says_it() -> None:
    """A message that would be too long arrives without its end, and never half a character."""
    for length in (999, 1000, 1001):
        said = codec.CREATE_TOPIC.response.encode(
            m.CreateTopicResponse(error=ErrorCode.INVALID_CONFIG, message="é" * length)
        )
        assert codec.CREATE_TOPIC.response.decode(said).message == "é" * 500


def test_what_is_honest_passes() -> None:
    """A write of a batch as large as any configuration allows, and a fetch of many logs, are in bounds."""
    write = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=30_000, records=bytes(8 << 20))
    parts = tuple(m.FetchPartition(topic_partition=TopicPartition("t", n), fetch_offset=Offset(0)) for n in range(3000))

    writes = m.ProduceRequests(requests=(write,))
    assert codec.PRODUCE.request.decode(codec.PRODUCE.request.encode(writes)) == writes
    assert codec.FETCH.request.decode(codec.FETCH.request.encode(m.FetchRequest(partitions=parts))).partitions == parts
