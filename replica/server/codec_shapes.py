"""The translation of one value class to and from the protobuf message that mirrors it, field by field.

Owns how each kind of field travels: an absent value is an absent field (a message that must be there is refused where
it is absent), a topic-partition is two fields, a member of a closed set is an enum value with a prefix, and an epoch,
offset or replica id is 0 or more. What protobuf cannot nest (a list in a list, a list or a map's value that may be
absent) travels in a message with one field. Plain numbers pass as they are: the core judges them (``acks``,
``last_offset``) and has an error code to say so. The shape of a message is read off the value class's annotations once,
at import, and compared with the message's descriptor: a field that only one side has stops the program there, not in
production. Knows no particular message, no RPC and no network.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum
from operator import itemgetter
from typing import Any, Generic, NewType, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from replica.errors import ErrorCode
from replica.ids import TopicPartition

ValueT = TypeVar("ValueT")

_WIRE_SCALARS = frozenset({int, bool, str, bytes})


class MalformedMessageError(ValueError):
    """The bytes are not the message they should be, or break a rule that no honest sender breaks; says which."""


class ContractMismatchError(TypeError):
    """A value class and its protobuf message have drifted apart: a mistake in this program, found at import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Element:
    """How one element of a field is written and read: a nested message, an identifier in bounds, or plain."""

    to_wire: Callable[[Any], Any]
    from_wire: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """How one field of a value travels: under which names, what is put into the message, what is read back."""

    name: str
    wire_names: tuple[str, ...]
    put: Callable[[Any, dict[str, Any]], None]
    get: Callable[[Any], Any]


class Shape(Generic[ValueT]):
    """The two-way translation between ``value_type``, a frozen dataclass, and the message of ``descriptor``."""

    def __init__(self, value_type: type[ValueT], descriptor: Descriptor) -> None:
        self.value_type = value_type
        self.descriptor = descriptor
        self._message_class: type[Message] = GetMessageClass(descriptor)
        hints = get_type_hints(value_type)
        self._fields = tuple(_field(name, hint, descriptor) for name, hint in hints.items())
        self._check_names()

    def encode(self, value: ValueT) -> bytes:
        """Translate to the wire. TypeError and ValueError mean that ``value`` breaks its own annotations or bounds."""
        return self.to_message(value).SerializeToString()

    def decode(self, data: bytes) -> ValueT:
        """Translate from the wire. Raises MalformedMessageError, and nothing else whatever the bytes."""
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
        for field in self._fields:
            field.put(getattr(value, field.name), contents)
        return self._message_class(**contents)

    def from_message(self, message: Message) -> ValueT:
        """Make the value of a parsed message. Raises MalformedMessageError."""
        try:
            return self.value_type(**{field.name: field.get(message) for field in self._fields})
        except MalformedMessageError as error:
            raise MalformedMessageError(f"{self.descriptor.full_name}: {error}") from error

    def _check_names(self) -> None:
        ours = {wire_name for field in self._fields for wire_name in field.wire_names}
        theirs = {field.name for field in self.descriptor.fields}
        if ours != theirs:
            difference = ", ".join(sorted(ours ^ theirs))
            raise ContractMismatchError(
                f"{self.value_type.__name__} and {self.descriptor.full_name} differ in {difference}"
            )


def _field(name: str, hint: Any, descriptor: Descriptor) -> _Field:
    """Choose how a field travels by its annotation."""
    if hint is TopicPartition:
        return _topic_partition_field(name)
    if hint is ErrorCode:
        return _plain_field(name, f"{name}_code", hint, descriptor)
    if _may_be_absent(hint):
        return _optional_field(name, _inner(hint), descriptor)
    if get_origin(hint) is tuple:
        return _repeated_field(name, get_args(hint)[0], descriptor)
    if get_origin(hint) is Mapping:
        return _map_field(name, hint, descriptor)
    if isinstance(hint, type) and is_dataclass(hint):
        return _required_field(name, hint, descriptor)
    return _plain_field(name, name, hint, descriptor)


def _topic_partition_field(name: str) -> _Field:
    def put(value: TopicPartition, contents: dict[str, Any]) -> None:
        contents["topic"] = value.topic
        contents["partition"] = value.partition

    def get(message: Any) -> TopicPartition:
        if not message.topic:
            raise MalformedMessageError("topic is empty")
        return TopicPartition(message.topic, message.partition)

    return _Field(name=name, wire_names=("topic", "partition"), put=put, get=get)


def _optional_field(name: str, hint: Any, descriptor: Descriptor) -> _Field:
    element = _element(hint, _wire_field(name, descriptor, presence=True))

    def put(value: Any, contents: dict[str, Any]) -> None:
        if value is not None:
            contents[name] = element.to_wire(value)

    def get(message: Any) -> Any:
        return element.from_wire(getattr(message, name)) if message.HasField(name) else None

    return _Field(name=name, wire_names=(name,), put=put, get=get)


def _required_field(name: str, hint: Any, descriptor: Descriptor) -> _Field:
    """A message, which protobuf lets every sender leave out."""
    field = _optional_field(name, hint, descriptor)

    def get(message: Any) -> Any:
        if not message.HasField(name):
            raise MalformedMessageError(f"{name} is missing")
        return field.get(message)

    return _Field(name=name, wire_names=(name,), put=field.put, get=get)


def _repeated_field(name: str, hint: Any, descriptor: Descriptor) -> _Field:
    element = _element(hint, _wire_field(name, descriptor, presence=False))

    def put(value: tuple[Any, ...], contents: dict[str, Any]) -> None:
        contents[name] = [element.to_wire(item) for item in value]

    def get(message: Any) -> tuple[Any, ...]:
        return tuple(element.from_wire(item) for item in getattr(message, name))

    return _Field(name=name, wire_names=(name,), put=put, get=get)


def _map_field(name: str, hint: Any, descriptor: Descriptor) -> _Field:
    """A map, which has no order on the wire: it is read in the order of its keys."""
    entry = _nested(_wire_field(name, descriptor, presence=False))
    key_hint, value_hint = get_args(hint)
    keys = _element(key_hint, entry.fields_by_name["key"])
    values = _element(value_hint, entry.fields_by_name["value"])

    def put(value: Mapping[Any, Any], contents: dict[str, Any]) -> None:
        contents[name] = {keys.to_wire(key): values.to_wire(item) for key, item in value.items()}

    def get(message: Any) -> dict[Any, Any]:
        return {
            keys.from_wire(key): values.from_wire(item)
            for key, item in sorted(getattr(message, name).items(), key=itemgetter(0))
        }

    return _Field(name=name, wire_names=(name,), put=put, get=get)


def _plain_field(name: str, wire_name: str, hint: Any, descriptor: Descriptor) -> _Field:
    element = _element(hint, _wire_field(wire_name, descriptor, presence=False))

    def put(value: Any, contents: dict[str, Any]) -> None:
        contents[wire_name] = element.to_wire(value)

    def get(message: Any) -> Any:
        return element.from_wire(getattr(message, wire_name))

    return _Field(name=name, wire_names=(wire_name,), put=put, get=get)


def _wire_field(name: str, descriptor: Descriptor, *, presence: bool) -> FieldDescriptor:
    """Refuse a field that can be absent on one side only: absence would turn into 0, or 0 into absence."""
    field = descriptor.fields_by_name.get(name)
    if field is None or field.has_presence != presence:
        raise ContractMismatchError(f"{descriptor.full_name}.{name} must be {'optional' if presence else 'plain'}")
    return field


# --- elements -------------------------------------------------------------------------------------------------------


def _element(hint: Any, field: FieldDescriptor) -> _Element:
    """Choose how one element travels, which ``field`` holds once, repeated, or as the key or value of a map."""
    if isinstance(hint, type) and is_dataclass(hint):
        shape = Shape(hint, _nested(field))
        return _Element(to_wire=shape.to_message, from_wire=shape.from_message)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_element(hint, field)
    if get_origin(hint) is tuple or _may_be_absent(hint):
        return _wrapped_element(hint, field)
    if _scalar_type(hint, field) is int and isinstance(hint, NewType):
        return _Element(to_wire=_as_is, from_wire=lambda number: _not_negative(field.name, number))
    return _Element(to_wire=_as_is, from_wire=_as_is)


def _wrapped_element(hint: Any, field: FieldDescriptor) -> _Element:
    """A list, or what may be absent, in a message that has nothing else."""
    nested = _nested(field)
    if len(nested.fields) != 1:
        raise ContractMismatchError(f"{nested.full_name} must have one field, for a {hint}")
    inner, message_class = _field(nested.fields[0].name, hint, nested), GetMessageClass(nested)

    def to_wire(value: Any) -> Message:
        contents: dict[str, Any] = {}
        inner.put(value, contents)
        return message_class(**contents)

    return _Element(to_wire=to_wire, from_wire=inner.get)


def _enum_element(hint: type[Enum], field: FieldDescriptor) -> _Element:
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

    return _Element(to_wire=lambda member: number_of[member.name], from_wire=from_wire)


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


def _scalar_type(hint: Any, field: FieldDescriptor) -> type:
    """Return what a NewType stands for, or the plain type itself."""
    plain = hint.__supertype__ if isinstance(hint, NewType) else hint
    if plain not in _WIRE_SCALARS:
        raise ContractMismatchError(f"{field.full_name}: a {hint} has no form on the wire")
    assert isinstance(plain, type), plain
    return plain


def _not_negative(name: str, number: int) -> int:
    if number < 0:
        raise MalformedMessageError(f"{name} is {number}; it must be 0 or more")
    return number


def _as_is(value: Any) -> Any:
    return value
