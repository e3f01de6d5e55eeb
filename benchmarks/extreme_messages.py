"""Random messages to a replica: every field at its extremes, or with what is real in a running cluster.

Owns what is drawn, from the shapes that the codec reads off the messages, so that a new field is drawn as soon as it is
there. The same number and the same knowledge give the same message. Sends nothing.

A message is more or less wild: of a tame one nearly all fields are real, so that it gets far; of a wild one each field
is absent, 0, -1, at its bound, one above it, at the end of its width, or in no UTF-8, which the door refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from replica.bounds import INT32_MAX, INT64_MAX, Number, Text
from replica.core.metadata.configs import TopicSetting
from replica.machines import encode_entry
from replica.machines.entries import (
    CloseSession,
    KeepSessionAlive,
    OpenSession,
    PlainCommand,
    SessionCommand,
    SessionId,
)
from replica.machines.key_value.commands import Get, GrantLease, Increment, Put, Range
from replica.machines.key_value.encoding import encode_command, encode_request
from replica.machines.key_value.values import ALL_KEYS
from replica.records import Compression, encode_batch
from replica.rpc.codec import METHODS
from replica.rpc.codec_shapes import Element, Field, Shape

WILDNESS = (0.0, 0.0, 0.02, 0.1, 0.3, 1.0)
"""One of these is the share of a message's fields that are extremes."""

COHERENCE = 0.8
"""How often what a message says of one thing belongs together."""

LONG_LISTS = 0.01
"""How often a message that has lists has one that is as long as its bound allows, or one longer."""

NOBODY = 99
"""A broker that there is not: who may create a topic of ten thousand partitions may do so, and waits for it."""

TORN = 0.03
"""How often the bytes are cut, flipped or made longer."""

SHAPES: Mapping[str, Shape[Any]] = {name: method.request for name, method in METHODS.items()}
"""Of what every RPC carries to a replica, by its full name."""

NEW_TOPICS = tuple(f"new-{number}" for number in range(5))
"""Topics that are created and deleted again and again."""

_OF_OWNERS = ("DeleteTopic", "AlterTopic", "DeleteRecords", "AlterPartitionReassignments")
"""What whoever owns a topic may rightly ask, and which is therefore not asked of topics that are ``spared``."""

_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (-INT32_MAX - 1, INT32_MAX),
    FieldDescriptor.TYPE_INT64: (-INT64_MAX - 1, INT64_MAX),
}


@dataclass(slots=True, kw_only=True)
class Knowledge:
    """What is real in the cluster, by the name of the field that says it.

    ``together`` are groups of facts, such as all that names one replica; most messages keep to one fact of each group.
    Nothing is asked of topics that are ``spared`` that only their owner may ask, and no voter is removed that is one.
    Without ``secrets`` forgers know all of a replica but the id of its incarnation, and that of its disk in a Fetch:
    who says these speaks for that replica, word for word, until connections say who speaks.
    """

    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    together: Sequence[Sequence[Mapping[str, Sequence[Any]]]] = ()
    spared: Sequence[str] = ()
    secrets: bool = False

    def narrowed(self, random: Random) -> Knowledge:
        """What one message is drawn from."""
        values = dict(self.values)
        for facts in self.together:
            if facts and random.random() < COHERENCE:
                values |= random.choice(facts)
        return Knowledge(values=values, spared=self.spared, secrets=self.secrets)

    def of(self, rpc: str, name: str) -> Sequence[Any]:
        """What may stand in this field of this RPC; nothing if nothing is known of it."""
        if name == "name" or (rpc in _OF_OWNERS and name == "topic"):
            return [*NEW_TOPICS, *(topic for topic in self.values[name] if topic not in self.spared)]
        if name == "replica_directory_id":
            return self.values["directory_id"] if self.secrets else ["forged"]
        if name == "incarnation_id" and not self.secrets:
            return ["forged"]
        if (rpc, name) == ("RemoveVoter", "replica_id"):
            return [NOBODY]
        return self.values.get(name, ())


def message(number: int, full_name: str, known: Knowledge) -> bytes:
    """Message ``number`` of this RPC, encoded."""
    random = Random(number)
    shape = SHAPES[full_name]
    rpc = full_name.rpartition("/")[2]
    draw = _Draw(random=random, rpc=rpc, known=known.narrowed(random), wild=random.choice(WILDNESS))
    drawn = GetMessageClass(shape.descriptor)()
    draw.fill(drawn, shape.fields, shape.descriptor)
    encoded: bytes = drawn.SerializeToString()
    lists = list(_lists(shape.fields))
    if lists and random.random() < LONG_LISTS:
        encoded += _long_list(full_name, random.choice(lists), longer=random.random() < 0.5)
    return _torn(encoded, random) if random.random() < TORN else encoded


@dataclass(slots=True, kw_only=True)
class _Draw:
    """Draws the fields of one message."""

    random: Random
    rpc: str
    known: Knowledge
    wild: float

    def fill(self, into: Any, fields: Sequence[Field], descriptor: Descriptor) -> None:
        for each in fields:
            for name in each.wire_names:
                wire = descriptor.fields_by_name[name]
                if each.is_map:
                    self._fill_map(getattr(into, name), each, name)
                elif each.entries is not None:
                    self._fill_list(getattr(into, name), each.elements[name], wire)
                elif not (wire.has_presence and self.random.random() < 0.25):
                    self._fill_one(into, each.elements[name], wire)

    def _fill_one(self, into: Any, element: Element, wire: FieldDescriptor) -> None:
        if element.nested:
            assert wire.message_type is not None, wire.full_name
            getattr(into, wire.name).SetInParent()
            self.fill(getattr(into, wire.name), element.nested, wire.message_type)
        else:
            setattr(into, wire.name, self._scalar(element, wire, wire.name))

    def _fill_list(self, into: Any, element: Element, wire: FieldDescriptor) -> None:
        for _ in range(self.random.choice((0, 0, 1, 1, 1, 2, 17))):
            if element.nested:
                assert wire.message_type is not None, wire.full_name
                self.fill(into.add(), element.nested, wire.message_type)
            else:
                into.append(self._scalar(element, wire, wire.name))

    def _fill_map(self, into: Any, each: Field, name: str) -> None:
        for _ in range(self.random.choice((0, 1, 2))):
            key = self._known(f"{name}.key", "")
            value = each.elements["value"]
            if value.nested:
                into[key].SetInParent()
                if self.random.random() < 0.8:
                    setattr(into[key], value.nested[0].name, self._known(f"{name}.value", "1"))
            else:
                into[key] = self._known(f"{name}.value", "1")

    def _known(self, name: str, otherwise: Any) -> Any:
        values = self.known.of(self.rpc, name)
        return self.random.choice(values) if values and self.random.random() >= self.wild else otherwise

    def _scalar(self, element: Element, wire: FieldDescriptor, name: str) -> Any:
        if wire.type == FieldDescriptor.TYPE_BOOL:
            return self.random.random() < 0.5
        if wire.enum_type is not None:
            numbers = [value.number for value in wire.enum_type.values if value.number]
            return self.random.choice(numbers if self.random.random() >= self.wild else (0, -1, 99, INT32_MAX))
        values = self.known.of(self.rpc, name)
        if values and self.random.random() >= self.wild:
            return self.random.choice(values)
        if wire.type in _INTEGERS:
            return self.random.choice(_numbers(wire.type, element.bound))
        if wire.type == FieldDescriptor.TYPE_STRING:
            return self.random.choice(_texts(element.bound))
        assert wire.type == FieldDescriptor.TYPE_BYTES, wire.full_name
        return self.random.choice(_blobs())


@cache
def _numbers(kind: int, bound: object) -> list[int]:
    least, most = _INTEGERS[kind]
    found = {0, -1, least, most, most - 1}
    if isinstance(bound, Number):
        found |= {bound.least, bound.most, max(least, bound.least - 1), min(most, bound.most + 1)}
    return sorted(found)


@cache
def _texts(bound: object) -> list[str]:
    size = bound.bytes_max if isinstance(bound, Text) else 249
    odd = ["", "x", "forged", "..", "../../etc", "a/b", "\x00", "\x01" * size, "line\nend", "\u202e", "é" * (size // 2)]
    return [*odd, "n" * size, "n" * (size + 1), "n" * 10_000, "127.0.0.1:1", "[::1]:65536", "forged-0"]


@cache
def _blobs() -> list[bytes]:
    random = Random(0)
    return [b"", b"\x00", b"\xff" * 61, random.randbytes(61), random.randbytes(1000), bytes(1 << 16)]


@cache
def records() -> tuple[bytes, ...]:
    """Batches that are right, torn or odd. No producer id is one that a cluster gives before its thousandth."""
    random = Random(1)
    values = [[b""], [b"forged"], [b"a", b"b", b"c"], [random.randbytes(5000)], [b"x" * 500_000]]
    right = [encode_batch(each, timestamp_ms=at).data for each in values for at in (-1, 0, 1 << 40, INT64_MAX)]
    right += [encode_batch([b"z" * 1000] * 5, compression=each).data for each in Compression]
    right += [
        encode_batch([b"forged"], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence).data
        for producer_id in (10**6, 10**6 + 1, 10**9, INT64_MAX)
        for epoch in (0, 1, (1 << 15) - 1)
        for sequence in (0, 1, INT32_MAX)
    ]
    odd = [encode_batch([b"forged"], is_control=True).data, right[1] * 2]
    for batch in right[:12]:
        at = random.randrange(len(batch))
        odd += [batch[:at], batch[: at + 1] + b"\x55" + batch[at + 2 :], batch + b"\x00"]
    # A header that is right but for one of its numbers; the CRC does not cover the first ones.
    for at, size in ((0, 8), (8, 4), (12, 4), (16, 1), (17, 4), (21, 2), (23, 4), (43, 8), (51, 2), (53, 4), (57, 4)):
        odd += [right[1][:at] + fill * size + right[1][at + size :] for fill in (b"\x00", b"\x7f", b"\xff")]
    return (*right, *right, *odd)


@cache
def entries() -> tuple[bytes, ...]:
    """Entries for a group's log that are right, and some that are not."""
    put, lease = encode_command(Put(key=b"k", value=b"v")), encode_command(GrantLease(ttl_ms=1000))
    increment = encode_command(Increment(key=b"n", delta=INT64_MAX))
    sessions = [SessionId(0), SessionId(5), SessionId(INT64_MAX)]
    right = [encode_entry(PlainCommand(command=each)) for each in (put, lease, increment, b"", b"\xff" * 100)]
    right += [encode_entry(OpenSession(ttl_ms=ttl_ms)) for ttl_ms in (1, 60_000, INT64_MAX)]
    for session_id in sessions:
        right += [
            encode_entry(CloseSession(session_id=session_id)),
            encode_entry(KeepSessionAlive(session_id=session_id, acknowledged=INT64_MAX)),
            encode_entry(SessionCommand(session_id=session_id, sequence=7, acknowledged=7, command=put)),
        ]
    return (*right, *[each[:-1] for each in right], b"", b"\xff" * 20, bytes(100_000))


@cache
def questions() -> tuple[bytes, ...]:
    """Questions to a key-value store that are right, and some that are not."""
    right = [encode_request(each) for each in (Get(key=b"k"), Get(key=b""), Range(keys=ALL_KEYS))]
    return (*right, *[each[:-1] for each in right], b"", b"\xff" * 20, bytes(100_000))


TOPIC_SETTINGS = {
    "configs.key": [*[setting.value for setting in TopicSetting], "no.such.setting", ""],
    "configs.value": ["1", "0", "-1", "2", "1000000", "true", "LogAppendTime", str(INT64_MAX), str(1 << 70), "nan", ""],
}


def _lists(fields: Sequence[Field], way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a message has lists and maps that are not within others."""
    for each in fields:
        if each.entries is not None:
            yield (*way, each.name)
        else:
            for name, element in each.elements.items():
                yield from _lists(element.nested, (*way, name))


@cache
def _long_list(full_name: str, way: tuple[str, ...], *, longer: bool) -> bytes:
    """As many different elements of a list as it may have, or one more, encoded: to be put behind a message."""
    shape = SHAPES[full_name]
    holder = into = GetMessageClass(shape.descriptor)()
    fields = shape.fields
    for name in way[:-1]:
        into = getattr(into, name)
        fields = next(each.elements[name].nested for each in fields if name in each.elements)
    each = next(each for each in fields if each.name == way[-1])
    assert each.entries is not None, way
    for number in range(each.entries.count_max + longer):
        _put_small(getattr(into, each.name), each, each.name, number)
    encoded: bytes = holder.SerializeToString()
    return encoded


def _put_small(into: Any, each: Field, name: str, number: int) -> None:
    """One more element that is small, and differs from the others."""
    if each.is_map:
        if each.elements["value"].nested:
            into[str(number)].SetInParent()
        else:
            into[str(number)] = "1"
        return
    element = each.elements[name]
    if element.nested:
        added = into.add()
        for wire_name in (wire_name for nested in element.nested for wire_name in nested.wire_names):
            if wire_name == "topic":
                added.topic = "long"
            elif wire_name in ("partition", "topic_id"):
                setattr(added, wire_name, number)
            elif wire_name == "replicas" and name == "assignment":
                added.replicas.append(NOBODY)
        return
    match element.bound:
        case Text():
            into.append(str(number))
        case Number():
            into.append(number)
        case _:
            into.append(b"x")


def _torn(encoded: bytes, random: Random) -> bytes:
    at = random.randrange(len(encoded) + 1)
    match random.randrange(4):
        case 0:
            return encoded[:at]
        case 1:
            return encoded[:at] + random.randbytes(3) + encoded[at + 3 :]
        case 2:
            return encoded + encoded
        case _:
            return random.randbytes(at % 1000)


def field_names() -> Iterator[str]:
    """The names of all scalar fields, for whoever collects knowledge."""
    for shape in SHAPES.values():
        yield from _names(shape.fields)


def _names(fields: Sequence[Field]) -> Iterator[str]:
    for each in fields:
        for name, element in each.elements.items():
            if element.nested and not each.is_map:
                yield from _names(element.nested)
            else:
                yield f"{each.name}.{name}" if each.is_map else name
