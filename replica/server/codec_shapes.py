"""The translation of one value class to and from the protobuf message that mirrors it, field by field.

Owns how each kind of field travels: an absent value is an absent field, a topic-partition is two fields, an error is an
enum value with a prefix, and an epoch, offset or replica id is 0 or more. Plain numbers pass as they are: the core
judges them (``acks``, ``last_offset``) and has an error code to say so. The shape of a message is read off the value
class's annotations once, at import, and compared with the message's descriptor: a field that only one side has stops
the program there, not in production. Knows no particular message, no RPC and no network.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, Generic, NewType, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from replica.errors import ErrorCode
from replica.ids import TopicPartition

ValueT = TypeVar("ValueT")

_ERROR_CODE_PREFIX = "ERROR_CODE_"
_WIRE_SCALARS = frozenset({int, bool, str, bytes})


class MalformedMessageError(ValueError):
    """The bytes are not the message they should be, or break a rule that no honest sender breaks; says which."""


class ContractMismatchError(TypeError):
    """A value class and its protobuf message have drifted apart: a mistake in this program, found at import."""


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
        return _error_code_field(name, _wire_enum(descriptor))
    if isinstance(hint, types.UnionType) or type(None) in get_args(hint):
        (inner,) = (argument for argument in get_args(hint) if argument is not type(None))
        return _optional_field(name, inner, descriptor)
    if get_origin(hint) is tuple:
        return _repeated_field(name, get_args(hint)[0], descriptor)
    if get_origin(hint) is Mapping:
        return _map_field(name, hint)
    return _scalar_field(name, hint, descriptor)


def _topic_partition_field(name: str) -> _Field:
    def put(value: TopicPartition, contents: dict[str, Any]) -> None:
        contents["topic"] = value.topic
        contents["partition"] = value.partition

    def get(message: Any) -> TopicPartition:
        if not message.topic:
            raise MalformedMessageError("topic is empty")
        return TopicPartition(message.topic, message.partition)

    return _Field(name=name, wire_names=("topic", "partition"), put=put, get=get)


def _error_code_field(name: str, enum: EnumDescriptor) -> _Field:
    wire_name = f"{name}_code"
    number_of = {code: enum.values_by_name[_ERROR_CODE_PREFIX + code.name].number for code in ErrorCode}
    code_of = {number: code for code, number in number_of.items()}
    if len(enum.values) != len(code_of) + 1:
        raise ContractMismatchError(f"{enum.full_name} has {len(enum.values) - 1} codes, ErrorCode has {len(code_of)}")

    def put(value: ErrorCode, contents: dict[str, Any]) -> None:
        contents[wire_name] = number_of[value]

    def get(message: Any) -> ErrorCode:
        number = getattr(message, wire_name)
        if number not in code_of:
            raise MalformedMessageError(f"{wire_name} is {number}: {'unspecified' if number == 0 else 'unknown'}")
        return code_of[number]

    return _Field(name=name, wire_names=(wire_name,), put=put, get=get)


def _optional_field(name: str, hint: Any, descriptor: Descriptor) -> _Field:
    _check_presence(name, descriptor, expected=True)
    to_wire, from_wire = _element(name, hint, descriptor)

    def put(value: Any, contents: dict[str, Any]) -> None:
        if value is not None:
            contents[name] = to_wire(value)

    def get(message: Any) -> Any:
        return from_wire(getattr(message, name)) if message.HasField(name) else None

    return _Field(name=name, wire_names=(name,), put=put, get=get)


def _repeated_field(name: str, hint: Any, descriptor: Descriptor) -> _Field:
    to_wire, from_wire = _element(name, hint, descriptor)

    def put(value: tuple[Any, ...], contents: dict[str, Any]) -> None:
        contents[name] = [to_wire(element) for element in value]

    def get(message: Any) -> tuple[Any, ...]:
        return tuple(from_wire(element) for element in getattr(message, name))

    return _Field(name=name, wire_names=(name,), put=put, get=get)


def _map_field(name: str, hint: Any) -> _Field:
    key_hint, value_hint = (_scalar_type(name, argument) for argument in get_args(hint))
    if (key_hint, value_hint) != (int, str):
        raise ContractMismatchError(f"{name}: only maps from numbers to strings travel, not {hint}")

    def put(value: Mapping[int, str], contents: dict[str, Any]) -> None:
        contents[name] = dict(value)

    def get(message: Any) -> dict[int, str]:
        return {_not_negative(name, key): text for key, text in getattr(message, name).items()}

    return _Field(name=name, wire_names=(name,), put=put, get=get)


def _scalar_field(name: str, hint: Any, descriptor: Descriptor) -> _Field:
    _check_presence(name, descriptor, expected=False)
    to_wire, from_wire = _element(name, hint, descriptor)

    def put(value: Any, contents: dict[str, Any]) -> None:
        contents[name] = to_wire(value)

    def get(message: Any) -> Any:
        return from_wire(getattr(message, name))

    return _Field(name=name, wire_names=(name,), put=put, get=get)


def _element(name: str, hint: Any, descriptor: Descriptor) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return how one element of a field is written and read: a nested message, an identifier in bounds, or plain."""
    if is_dataclass(hint) and isinstance(hint, type):
        nested = descriptor.fields_by_name[name].message_type
        assert nested is not None, name
        shape = Shape(hint, nested)
        return shape.to_message, shape.from_message
    if _scalar_type(name, hint) is int and isinstance(hint, NewType):
        return _as_is, lambda number: _not_negative(name, number)
    return _as_is, _as_is


def _scalar_type(name: str, hint: Any) -> type:
    """Return what a NewType stands for, or the plain type itself."""
    plain = hint.__supertype__ if isinstance(hint, NewType) else hint
    if plain not in _WIRE_SCALARS:
        raise ContractMismatchError(f"{name}: a {hint} has no form on the wire")
    assert isinstance(plain, type), plain
    return plain


def _check_presence(name: str, descriptor: Descriptor, *, expected: bool) -> None:
    """Refuse a field that can be absent on one side only: absence would turn into 0, or 0 into absence."""
    field = descriptor.fields_by_name.get(name)
    if field is None or field.has_presence != expected:
        raise ContractMismatchError(f"{descriptor.full_name}.{name} must be {'optional' if expected else 'plain'}")


def _wire_enum(descriptor: Descriptor) -> EnumDescriptor:
    enum = descriptor.fields_by_name["error_code"].enum_type
    assert enum is not None, descriptor.full_name
    return enum


def _not_negative(name: str, number: int) -> int:
    if number < 0:
        raise MalformedMessageError(f"{name} is {number}; it must be 0 or more")
    return number


def _as_is(value: Any) -> Any:
    return value
