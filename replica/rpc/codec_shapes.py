"""The translation of one value class to and from the protobuf message that mirrors it, field by field.

Owns how each kind of field travels: an absent value is an absent field (a message that must be there is refused where
it is absent), a topic-partition is two fields, a member of a closed set is an enum value with a prefix, and an epoch,
offset or replica id is 0 or more. What protobuf cannot nest (a list in a list, a list or a map's value that may be
absent) travels in a message with one field. The shape of a message is read off the value class's annotations once, at
import, its bounds among them (``codec_bounds``), and compared with the message's descriptor: a field that only one side
has stops the program there, not in production. Knows no particular message, no RPC and no network.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from enum import Enum
from operator import itemgetter
from typing import Annotated, Any, Generic, NewType, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from replica.bounds import INT32_MAX, Bound, Data, Entries, Number, Text
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.rpc.codec_bounds import MalformedMessageError, as_is, bound_of, checked, written

ValueT = TypeVar("ValueT")

_PREFIX_BYTES_MAX = 7
"""What stands before text, data and messages: a tag of at most two bytes, and a length."""

_NUMBER_BYTES_MAX = 12
"""A number of 64 bits, and its tag."""

_WIRE_SCALARS = frozenset({int, bool, str, bytes})


class ContractMismatchError(TypeError):
    """A value class and its protobuf message have drifted apart: a mistake in this program, found at import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """How one element of a field is written and read: a scalar in its ``bound``, or a message that is ``nested``.

    Flags and members of closed sets have neither.
    """

    to_wire: Callable[[Any], Any]
    from_wire: Callable[[Any], Any]
    bound: Bound | None = None
    nested: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """How one field of a value travels: under which names, what is put into the message, what is read back.

    ``elements`` has one for each of ``wire_names``; of a map those of its ``key`` and ``value``. ``entries`` is how
    many there may be in a list or a map.
    """

    name: str
    elements: Mapping[str, Element]
    entries: Entries | None = None
    is_map: bool = False
    put: Callable[[Any, dict[str, Any]], None]
    get: Callable[[Any], Any]

    @property
    def wire_names(self) -> tuple[str, ...]:
        """The fields of the message that hold it."""
        return (self.name,) if self.is_map else tuple(self.elements)


def largest_message(fields: tuple[Field, ...]) -> int:
    """The most bytes that a message with these fields can have, each at its bound."""
    total = 0
    for field in fields:
        each = sum(map(_largest, field.elements.values())) + (_PREFIX_BYTES_MAX if field.is_map else 0)
        total += each * (1 if field.entries is None else field.entries.count_max)
    return total


def _largest(element: Element) -> int:
    match element.bound:
        case Text(bytes_max=bytes_max) | Data(bytes_max=bytes_max):
            return _PREFIX_BYTES_MAX + bytes_max
        case _ if element.nested:
            return _PREFIX_BYTES_MAX + largest_message(element.nested)
        case _:
            return _NUMBER_BYTES_MAX


class Shape(Generic[ValueT]):
    """The two-way translation between ``value_type``, a frozen dataclass, and the message of ``descriptor``."""

    def __init__(self, value_type: type[ValueT], descriptor: Descriptor) -> None:
        self.value_type = value_type
        self.descriptor = descriptor
        self._message_class: type[Message] = GetMessageClass(descriptor)
        hints = get_type_hints(value_type, include_extras=True)
        self.fields = tuple(_field(name, hint, descriptor) for name, hint in hints.items())
        self.bytes_max = largest_message(self.fields)
        self._check_names()

    def encode(self, value: ValueT) -> bytes:
        """Translate to the wire. TypeError and ValueError mean that ``value`` breaks its own annotations or bounds."""
        return self.to_message(value).SerializeToString()

    def decode(self, data: bytes) -> ValueT:
        """Translate from the wire. Raises MalformedMessageError, and nothing else whatever the bytes.

        What is larger than a message with every field at its bound is not even parsed: 32 MiB of empty entries take a
        second.
        """
        if len(data) > self.bytes_max:
            raise MalformedMessageError(
                f"{self.descriptor.full_name} has {len(data)} bytes; it may have at most {self.bytes_max}"
            )
        try:
            message = self._message_class.FromString(data)
        except DecodeError as error:
            raise MalformedMessageError(f"{len(data)} bytes are not a {self.descriptor.full_name}: {error}") from error
        return self.from_message(message)

    def to_message(self, value: ValueT) -> Message:
        """Make the protobuf message of ``value``."""
        if not isinstance(value, self.value_type):
            raise TypeError(
                f"{self.descriptor.full_name} carries {self.value_type.__name__}, not {type(value).__name__}"
            )
        contents: dict[str, Any] = {}
        for field in self.fields:
            field.put(getattr(value, field.name), contents)
        return self._message_class(**contents)

    def from_message(self, message: Message) -> ValueT:
        """Make the value of a parsed message. Raises MalformedMessageError."""
        try:
            return self.value_type(**{field.name: field.get(message) for field in self.fields})
        except MalformedMessageError as error:
            raise MalformedMessageError(f"{self.descriptor.full_name}: {error}") from error

    def _check_names(self) -> None:
        ours = {wire_name for field in self.fields for wire_name in field.wire_names}
        theirs = {field.name for field in self.descriptor.fields}
        if ours != theirs:
            difference = ", ".join(sorted(ours ^ theirs))
            raise ContractMismatchError(
                f"{self.value_type.__name__} and {self.descriptor.full_name} differ in {difference}"
            )


def _field(name: str, hint: Any, descriptor: Descriptor, bounds: tuple[Bound, ...] = ()) -> Field:
    """Choose how a field travels by its annotation; ``bounds`` are those that were named around it."""
    hint, bounds = _plain(hint, bounds)
    if hint is TopicPartition:
        return _topic_partition_field(name)
    if hint is ErrorCode:
        return _plain_field(name, f"{name}_code", hint, descriptor, bounds)
    if _may_be_absent(hint):
        return _optional_field(name, _inner(hint), descriptor, bounds)
    if get_origin(hint) is tuple:
        return _repeated_field(name, get_args(hint)[0], descriptor, bounds)
    if get_origin(hint) is Mapping:
        return _map_field(name, hint, descriptor, bounds)
    if isinstance(hint, type) and is_dataclass(hint):
        return _required_field(name, hint, descriptor)
    return _plain_field(name, name, hint, descriptor, bounds)


def _plain(hint: Any, bounds: tuple[Bound, ...]) -> tuple[Any, tuple[Bound, ...]]:
    """Part an annotation from the bounds that it names; those that are nearer to the type count for more."""
    if get_origin(hint) is not Annotated:
        return hint, bounds
    return hint.__origin__, (*bounds, *hint.__metadata__)


def _entries(bounds: tuple[Bound, ...]) -> tuple[Entries, tuple[Bound, ...]]:
    """Part how many elements there may be from what is said of each."""
    counts = [bound for bound in bounds if isinstance(bound, Entries)]
    return (counts[-1] if counts else Entries()), tuple(bound for bound in bounds if not isinstance(bound, Entries))


def _topic_partition_field(name: str) -> Field:
    topic, partition = checked("topic", Text()), checked("partition", Number())

    def put(value: TopicPartition, contents: dict[str, Any]) -> None:
        contents["topic"] = value.topic
        contents["partition"] = value.partition

    def get(message: Any) -> TopicPartition:
        if not message.topic:
            raise MalformedMessageError("topic is empty")
        return TopicPartition(topic(message.topic), partition(message.partition))

    elements = {
        "topic": Element(to_wire=as_is, from_wire=topic, bound=Text()),
        "partition": Element(to_wire=as_is, from_wire=partition, bound=Number()),
    }
    return Field(name=name, elements=elements, put=put, get=get)


def _optional_field(name: str, hint: Any, descriptor: Descriptor, bounds: tuple[Bound, ...]) -> Field:
    element = _element(hint, _wire_field(name, descriptor, presence=True), bounds)
    from_wire, to_wire = element.from_wire, element.to_wire

    def put(value: Any, contents: dict[str, Any]) -> None:
        if value is not None:
            contents[name] = to_wire(value)

    def get(message: Any) -> Any:
        return from_wire(getattr(message, name)) if message.HasField(name) else None

    return Field(name=name, elements={name: element}, put=put, get=get)


def _required_field(name: str, hint: Any, descriptor: Descriptor) -> Field:
    """A message, which protobuf lets every sender leave out."""
    field = _optional_field(name, hint, descriptor, ())

    def get(message: Any) -> Any:
        if not message.HasField(name):
            raise MalformedMessageError(f"{name} is missing")
        return field.get(message)

    return replace(field, get=get)


def _repeated_field(name: str, hint: Any, descriptor: Descriptor, bounds: tuple[Bound, ...]) -> Field:
    entries, bounds = _entries(bounds)
    element = _element(hint, _wire_field(name, descriptor, presence=False), bounds)
    counted, from_wire, to_wire = checked(name, entries), element.from_wire, element.to_wire

    def put(value: tuple[Any, ...], contents: dict[str, Any]) -> None:
        contents[name] = [to_wire(item) for item in value]

    def get(message: Any) -> tuple[Any, ...]:
        return tuple([from_wire(item) for item in counted(getattr(message, name))])

    return Field(name=name, elements={name: element}, entries=entries, put=put, get=get)


def _map_field(name: str, hint: Any, descriptor: Descriptor, bounds: tuple[Bound, ...]) -> Field:
    """A map, which has no order on the wire: it is read in the order of its keys."""
    entries, bounds = _entries(bounds)
    entry = _nested(_wire_field(name, descriptor, presence=False))
    key_hint, value_hint = get_args(hint)
    keys = _element(key_hint, entry.fields_by_name["key"], bounds)
    values = _element(value_hint, entry.fields_by_name["value"], bounds)
    counted = checked(name, entries)

    def put(value: Mapping[Any, Any], contents: dict[str, Any]) -> None:
        contents[name] = {keys.to_wire(key): values.to_wire(item) for key, item in value.items()}

    def get(message: Any) -> dict[Any, Any]:
        return {
            keys.from_wire(key): values.from_wire(item)
            for key, item in sorted(counted(getattr(message, name)).items(), key=itemgetter(0))
        }

    return Field(name=name, elements={"key": keys, "value": values}, entries=entries, is_map=True, put=put, get=get)


def _plain_field(name: str, wire_name: str, hint: Any, descriptor: Descriptor, bounds: tuple[Bound, ...]) -> Field:
    element = _element(hint, _wire_field(wire_name, descriptor, presence=False), bounds)
    from_wire, to_wire = element.from_wire, element.to_wire

    def put(value: Any, contents: dict[str, Any]) -> None:
        contents[wire_name] = to_wire(value)

    def get(message: Any) -> Any:
        return from_wire(getattr(message, wire_name))

    return Field(name=name, elements={wire_name: element}, put=put, get=get)


def _wire_field(name: str, descriptor: Descriptor, *, presence: bool) -> FieldDescriptor:
    """Refuse a field that can be absent on one side only: absence would turn into 0, or 0 into absence."""
    field = descriptor.fields_by_name.get(name)
    if field is None or field.has_presence != presence:
        raise ContractMismatchError(f"{descriptor.full_name}.{name} must be {'optional' if presence else 'plain'}")
    return field


# --- elements -------------------------------------------------------------------------------------------------------


def _element(hint: Any, field: FieldDescriptor, bounds: tuple[Bound, ...] = ()) -> Element:
    """Choose how one element travels, which ``field`` holds once, repeated, or as the key or value of a map."""
    hint, bounds = _plain(hint, bounds)
    if isinstance(hint, type) and is_dataclass(hint):
        shape = Shape(hint, _nested(field))
        return Element(to_wire=shape.to_message, from_wire=shape.from_message, nested=shape.fields)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_element(hint, field)
    if get_origin(hint) is tuple or _may_be_absent(hint):
        return _wrapped_element(hint, field, bounds)
    _check_scalar(hint, field)
    bound = bound_of(hint, bounds)
    _check_width(bound, field)
    return Element(to_wire=written(bound), from_wire=checked(field.name, bound), bound=bound)


def _wrapped_element(hint: Any, field: FieldDescriptor, bounds: tuple[Bound, ...]) -> Element:
    """A list, or what may be absent, in a message that has nothing else."""
    nested = _nested(field)
    if len(nested.fields) != 1:
        raise ContractMismatchError(f"{nested.full_name} must have one field, for a {hint}")
    inner, message_class = _field(nested.fields[0].name, hint, nested, bounds), GetMessageClass(nested)

    def to_wire(value: Any) -> Message:
        contents: dict[str, Any] = {}
        inner.put(value, contents)
        return message_class(**contents)

    return Element(to_wire=to_wire, from_wire=inner.get, nested=(inner,))


def _enum_element(hint: type[Enum], field: FieldDescriptor) -> Element:
    enum = field.enum_type
    assert enum is not None, field.full_name
    prefix = _enum_prefix(enum)
    number_of = {value.name.removeprefix(prefix): value.number for value in enum.values if value.number != 0}
    names = {member.name for member in hint}
    if names != set(number_of):
        difference = ", ".join(sorted(names ^ set(number_of)))
        raise ContractMismatchError(f"{hint.__name__} and {enum.full_name} differ in {difference}")
    member_of = {number_of[member.name]: member for member in hint}

    def from_wire(number: int) -> Enum:
        if number not in member_of:
            raise MalformedMessageError(f"{field.name} is {number}: {'unspecified' if number == 0 else 'unknown'}")
        return member_of[number]

    return Element(to_wire=lambda member: number_of[member.name], from_wire=from_wire)


def _enum_prefix(enum: EnumDescriptor) -> str:
    """What every value's name begins with on the wire: ``ERROR_CODE_`` for ``ErrorCode``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper() + "_"


def _nested(field: FieldDescriptor) -> Descriptor:
    if field.message_type is None:
        raise ContractMismatchError(f"{field.full_name} must be a message")
    return field.message_type


def _may_be_absent(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) or type(None) in get_args(hint)


def _inner(hint: Any) -> Any:
    """What a value is that may be absent, when it is there."""
    (inner,) = (argument for argument in get_args(hint) if argument is not type(None))
    return inner


def _check_scalar(hint: Any, field: FieldDescriptor) -> None:
    plain = hint.__supertype__ if isinstance(hint, NewType) else hint
    if plain not in _WIRE_SCALARS:
        raise ContractMismatchError(f"{field.full_name}: a {hint} has no form on the wire")


def _check_width(bound: Bound | None, field: FieldDescriptor) -> None:
    """Refuse a bound that is not one of a number of this width: it would cut honest numbers off, or never act."""
    if isinstance(bound, Number) and (field.type == FieldDescriptor.TYPE_INT64) != (bound.most > INT32_MAX):
        raise ContractMismatchError(f"{field.full_name} is of another width than its bound, {bound.most}")
