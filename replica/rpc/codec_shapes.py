"""The translation of one value class to and from the protobuf message that mirrors it, field by field.

Owns how each kind of field travels: an absent value is an absent field (a message that must be there is refused where
it is absent), a topic-partition is two fields, a member of a closed set is an enum value with a prefix, and an epoch,
offset or replica id is 0 or more. What protobuf cannot nest (a list in a list, a list or a map's value that may be
absent) travels in a message with one field. The shape of a message is read off the value class's annotations once, at
import, its bounds among them (``codec_bounds``), and compared with the message's descriptor: a field that only one side
has stops the program there, not in production. From its fields a shape writes two functions, as ``dataclasses`` does: a
call for each field would cost more than all that protobuf does. It writes each when that is first called, for a process
calls few of them. Knows no particular message, no RPC and no network.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from operator import itemgetter
from typing import Annotated, Any, Generic, NewType, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from msgspec import Struct

from replica.bounds import INT32_MAX, MESSAGE_BYTES_MAX, Bound, Data, Entries, Number, Text
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.rpc.codec_bounds import MalformedMessageError, bound_of, checked, passes, written
from replica.rpc.codec_records import records_of

ValueT = TypeVar("ValueT")

_PREFIX_BYTES_MAX = 7
"""What stands before text, data and messages: a tag of at most two bytes, and a length."""

_NUMBER_BYTES_MAX = 12
"""A number of 64 bits, and its tag."""

_WIRE_SCALARS = frozenset({int, bool, str, bytes})


class ContractMismatchError(TypeError):
    """A value class and its protobuf message have drifted apart: a mistake in this program, found at import."""


@dataclass(slots=True)
class Code:
    """What the functions of one shape name: values, by names that are made up, and variables of their own."""

    names: dict[str, Any] = field(default_factory=dict)
    variables: int = 0

    def name(self, value: Any) -> str:
        """Give a value a name."""
        name = f"_{len(self.names)}"
        self.names[name] = value
        return name

    def variable(self) -> str:
        """Make up a variable."""
        self.variables += 1
        return f"v{self.variables}"

    def copy(self) -> Code:
        """The same names, for a function beside which another may be written at the same time."""
        return Code(names=dict(self.names), variables=self.variables)

    def function(self, *lines: str) -> Callable[[Any], Any]:
        """Make the function of one argument that these lines define."""
        made: dict[str, Any] = {}
        exec("\n".join(lines), self.names, made)
        (function,) = made.values()
        return function  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """How one element of a field is written and read: a scalar in its ``bound``, or a message that is ``nested``.

    Flags and members of closed sets have neither. ``to_wire`` and ``from_wire`` make the code for that of the code of a
    value. A message is written as the dictionary of its contents.
    """

    to_wire: Callable[[str], str]
    from_wire: Callable[[str], str]
    bound: Bound | None = None
    nested: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """How one field of a value travels: under which names, what is put into the message, what is read back.

    ``elements`` has one for each of ``wire_names``; of a map those of its ``key`` and ``value``. ``entries`` is how
    many there may be in a list or a map. ``put`` makes, of the code of the field's value, that of what stands under
    each wire name, or nowhere if it ``may_be_absent`` and is; ``get`` makes the code of the value of that of a message.
    """

    name: str
    elements: Mapping[str, Element]
    entries: Entries | None = None
    is_map: bool = False
    put: Callable[[str], Mapping[str, str]]
    get: Callable[[str], str]
    may_be_absent: bool = False

    @property
    def wire_names(self) -> tuple[str, ...]:
        """The fields of the message that hold it."""
        return (self.name,) if self.is_map else tuple(self.elements)


def largest_message(fields: tuple[Field, ...]) -> int:
    """The most bytes that a message with these fields can have, each at its bound."""
    total = 0
    for each in fields:
        size = sum(map(_largest, each.elements.values())) + (_PREFIX_BYTES_MAX if each.is_map else 0)
        total += size * (1 if each.entries is None else each.entries.count_max)
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
    """The two-way translation between ``value_type``, a ``msgspec.Struct``, and the message of ``descriptor``."""

    def __init__(self, value_type: type[ValueT], descriptor: Descriptor) -> None:
        self.value_type = value_type
        self.descriptor = descriptor
        self._message_class: type[Message] = GetMessageClass(descriptor)
        self._records = records_of(descriptor)
        hints = get_type_hints(value_type, include_extras=True)
        self._code = Code()
        self.fields = tuple(_field(name, hint, descriptor, self._code) for name, hint in hints.items())
        self.bytes_max = largest_message(self.fields)
        self._check_names()

    @cached_property
    def contents(self) -> Callable[[Any], dict[str, Any]]:
        """Makes what the message of a value is made of: a dictionary, in which nested messages are dictionaries."""
        return _contents_function(self.fields, self._code.copy(), self.value_type, self.descriptor)

    @cached_property
    def value(self) -> Callable[[Any], ValueT]:
        """Makes the value of a parsed message. Raises MalformedMessageError."""
        return _value_function(self.fields, self._code.copy(), self.value_type, self.descriptor)

    def encode(self, value: ValueT) -> bytes:
        """Translate to the wire. TypeError and ValueError mean that ``value`` breaks its own annotations or bounds."""
        contents = self.contents(value)
        with_records = None if self._records is None else self._records.encode(contents)
        return self._message_class(**contents).SerializeToString() if with_records is None else with_records

    def decode(self, data: bytes) -> ValueT:
        """Translate from the wire. Raises MalformedMessageError, and nothing else whatever the bytes.

        What is larger than a message with every field at its bound is not even parsed: 32 MiB of empty entries take a
        second.
        """
        if len(data) > self.bytes_max:
            raise MalformedMessageError(
                f"{self.descriptor.full_name} has {len(data)} bytes; it may have at most {self.bytes_max}"
            )
        self._check_count(data)
        try:
            message = self._message_class.FromString(data)
        except DecodeError as error:
            raise MalformedMessageError(f"{len(data)} bytes are not a {self.descriptor.full_name}: {error}") from error
        return self.value(message)

    def _check_count(self, data: bytes) -> None:
        """Refuse more elements than there may be, where each may be so large that no size of all would tell."""
        if self._records is None or not self._records.elements or self.bytes_max <= MESSAGE_BYTES_MAX:
            return
        (count_max,) = (each.entries.count_max for each in self.fields if each.entries is not None)
        try:
            has_too_many = self._records.has_more_than(data, count_max)
        except ValueError as error:
            raise MalformedMessageError(f"{self.descriptor.full_name}: {error}") from error
        if has_too_many:
            name = f"{self.descriptor.full_name}: {self._records.elements}"
            raise MalformedMessageError(f"{name} has more than {count_max} entries; it may have at most {count_max}")

    def _check_names(self) -> None:
        ours = {wire_name for field in self.fields for wire_name in field.wire_names}
        theirs = {field.name for field in self.descriptor.fields}
        if ours != theirs:
            difference = ", ".join(sorted(ours ^ theirs))
            raise ContractMismatchError(
                f"{self.value_type.__name__} and {self.descriptor.full_name} differ in {difference}"
            )


def _contents_function(
    fields: tuple[Field, ...], code: Code, value_type: type, descriptor: Descriptor
) -> Callable[[Any], dict[str, Any]]:
    def refuse(value: object) -> NoReturn:
        raise TypeError(f"{descriptor.full_name} carries {value_type.__name__}, not {type(value).__name__}")

    check = [f"    if not isinstance(value, {code.name(value_type)}):", f"        {code.name(refuse)}(value)"]
    return code.function("def contents(value):", *check, *_contents_lines(fields, "value.{}"))


def _contents_lines(fields: tuple[Field, ...], value: str) -> list[str]:
    """Code that returns the contents of a message; ``value`` is that of a field's value, with the name left out."""
    always = {
        name: put
        for each in fields
        if not each.may_be_absent
        for name, put in each.put(value.format(each.name)).items()
    }
    lines = ["    contents = {" + ", ".join(f'"{name}": {put}' for name, put in always.items()) + "}"]
    for each in fields:
        if each.may_be_absent:
            of = value.format(each.name)
            lines.append(f"    if {of} is not None:")
            lines += [f'        contents["{name}"] = {put}' for name, put in each.put(of).items()]
    return [*lines, "    return contents"]


def _value_function(
    fields: tuple[Field, ...], code: Code, value_type: type[ValueT], descriptor: Descriptor
) -> Callable[[Any], ValueT]:
    def refuse(error: MalformedMessageError) -> NoReturn:
        raise MalformedMessageError(f"{descriptor.full_name}: {error}") from error

    arguments = ", ".join(f"{each.name}={each.get('message')}" for each in fields)
    return code.function(
        "def value(message):",
        "    try:",
        f"        return {code.name(value_type)}({arguments})",
        f"    except {code.name(MalformedMessageError)} as error:",
        f"        {code.name(refuse)}(error)",
    )


def _field(name: str, hint: Any, descriptor: Descriptor, code: Code, bounds: tuple[Bound, ...] = ()) -> Field:
    """Choose how a field travels by its annotation; ``bounds`` are those that were named around it."""
    hint, bounds = _plain(hint, bounds)
    if hint is TopicPartition:
        return _topic_partition_field(name, code)
    if hint is ErrorCode:
        return _plain_field(name, f"{name}_code", hint, descriptor, code, bounds)
    if _may_be_absent(hint):
        return _optional_field(name, _inner(hint), descriptor, code, bounds)
    if get_origin(hint) is tuple:
        return _repeated_field(name, get_args(hint)[0], descriptor, code, bounds)
    if get_origin(hint) is Mapping:
        return _map_field(name, hint, descriptor, code, bounds)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _required_field(name, hint, descriptor, code)
    return _plain_field(name, name, hint, descriptor, code, bounds)


def _plain(hint: Any, bounds: tuple[Bound, ...]) -> tuple[Any, tuple[Bound, ...]]:
    """Part an annotation from the bounds that it names; those that are nearer to the type count for more."""
    if get_origin(hint) is not Annotated:
        return hint, bounds
    return hint.__origin__, (*bounds, *hint.__metadata__)


def _entries(bounds: tuple[Bound, ...]) -> tuple[Entries, tuple[Bound, ...]]:
    """Part how many elements there may be from what is said of each."""
    counts = [bound for bound in bounds if isinstance(bound, Entries)]
    return (counts[-1] if counts else Entries()), tuple(bound for bound in bounds if not isinstance(bound, Entries))


def _topic_partition_field(name: str, code: Code) -> Field:
    topic, partition = _scalar("topic", Text(), code), _scalar("partition", Number(), code)

    def refuse() -> NoReturn:
        raise MalformedMessageError("topic is empty")

    made, refused = code.name(TopicPartition), code.name(refuse)

    def get(message: str) -> str:
        wanted = f"{made}({topic.from_wire(f'{message}.topic')}, {partition.from_wire(f'{message}.partition')})"
        return f"({wanted} if {message}.topic else {refused}())"

    return Field(
        name=name,
        elements={"topic": topic, "partition": partition},
        put=lambda value: {"topic": f"{value}.topic", "partition": f"{value}.partition"},
        get=get,
    )


def _optional_field(name: str, hint: Any, descriptor: Descriptor, code: Code, bounds: tuple[Bound, ...]) -> Field:
    element = _element(hint, _wire_field(name, descriptor, presence=True), code, bounds)
    return Field(
        name=name,
        elements={name: element},
        put=lambda value: {name: element.to_wire(value)},
        get=lambda message: f'({element.from_wire(f"{message}.{name}")} if {message}.HasField("{name}") else None)',
        may_be_absent=True,
    )


def _required_field(name: str, hint: Any, descriptor: Descriptor, code: Code) -> Field:
    """A message, which protobuf lets every sender leave out."""
    element = _element(hint, _wire_field(name, descriptor, presence=True), code)

    def refuse() -> NoReturn:
        raise MalformedMessageError(f"{name} is missing")

    refused = code.name(refuse)
    return Field(
        name=name,
        elements={name: element},
        put=lambda value: {name: element.to_wire(value)},
        get=lambda message: (
            f'({element.from_wire(f"{message}.{name}")} if {message}.HasField("{name}") else {refused}())'
        ),
    )


def _repeated_field(name: str, hint: Any, descriptor: Descriptor, code: Code, bounds: tuple[Bound, ...]) -> Field:
    entries, bounds = _entries(bounds)
    element = _element(hint, _wire_field(name, descriptor, presence=False), code, bounds)
    counted, item = code.name(checked(name, entries)), code.variable()
    return Field(
        name=name,
        elements={name: element},
        entries=entries,
        put=lambda value: {name: f"[{element.to_wire(item)} for {item} in {value}]"},
        get=lambda message: f"tuple([{element.from_wire(item)} for {item} in {counted}({message}.{name})])",
    )


def _map_field(name: str, hint: Any, descriptor: Descriptor, code: Code, bounds: tuple[Bound, ...]) -> Field:
    """A map, which has no order on the wire: it is read in the order of its keys."""
    entries, bounds = _entries(bounds)
    entry = _nested(_wire_field(name, descriptor, presence=False))
    key_hint, value_hint = get_args(hint)
    keys = _element(key_hint, entry.fields_by_name["key"], code, bounds)
    values = _element(value_hint, entry.fields_by_name["value"], code, bounds)
    counted, key, item = code.name(checked(name, entries)), code.variable(), code.variable()
    # Of all fields a map alone takes no dictionary for a message.
    held = code.name(GetMessageClass(_nested(entry.fields_by_name["value"]))) if values.nested else None

    def put(value: str) -> Mapping[str, str]:
        written = values.to_wire(item) if held is None else f"{held}(**{values.to_wire(item)})"
        return {name: f"{{{keys.to_wire(key)}: {written} for {key}, {item} in {value}.items()}}"}

    def get(message: str) -> str:
        of_all = f"for {key}, {item} in sorted({counted}({message}.{name}).items(), key={first})"
        return f"{{{keys.from_wire(key)}: {values.from_wire(item)} {of_all}}}"

    first = code.name(itemgetter(0))
    return Field(name=name, elements={"key": keys, "value": values}, entries=entries, is_map=True, put=put, get=get)


def _plain_field(
    name: str, wire_name: str, hint: Any, descriptor: Descriptor, code: Code, bounds: tuple[Bound, ...]
) -> Field:
    element = _element(hint, _wire_field(wire_name, descriptor, presence=False), code, bounds)
    return Field(
        name=name,
        elements={wire_name: element},
        put=lambda value: {wire_name: element.to_wire(value)},
        get=lambda message: element.from_wire(f"{message}.{wire_name}"),
    )


def _wire_field(name: str, descriptor: Descriptor, *, presence: bool) -> FieldDescriptor:
    """Refuse a field that can be absent on one side only: absence would turn into 0, or 0 into absence."""
    field = descriptor.fields_by_name.get(name)
    if field is None or field.has_presence != presence:
        raise ContractMismatchError(f"{descriptor.full_name}.{name} must be {'optional' if presence else 'plain'}")
    return field


# --- elements -------------------------------------------------------------------------------------------------------


def _element(hint: Any, field: FieldDescriptor, code: Code, bounds: tuple[Bound, ...] = ()) -> Element:
    """Choose how one element travels, which ``field`` holds once, repeated, or as the key or value of a map."""
    hint, bounds = _plain(hint, bounds)
    if isinstance(hint, type) and issubclass(hint, Struct):
        shape = _shape(hint, _nested(field))
        of_shape = code.name(shape)  # Whose functions are written when they are first called.
        return Element(
            to_wire=lambda of: f"{of_shape}.contents({of})",
            from_wire=lambda of: f"{of_shape}.value({of})",
            nested=shape.fields,
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_element(hint, field, code)
    if get_origin(hint) is tuple or _may_be_absent(hint):
        return _wrapped_element(hint, field, code, bounds)
    _check_scalar(hint, field)
    bound = bound_of(hint, bounds)
    _check_width(bound, field)
    return _scalar(field.name, bound, code)


def _scalar(name: str, bound: Bound | None, code: Code) -> Element:
    """A number, text, data or a flag: what is plainly within its bound passes without a call."""
    check, variable, cut = code.name(checked(name, bound)), code.variable(), written(bound)
    to_wire = "{}" if cut is None else f"{code.name(cut)}({{}})"
    from_wire = (
        "{}" if bound is None else f"({variable} if {passes(bound, f'({variable} := {{}})')} else {check}({variable}))"
    )
    return Element(to_wire=to_wire.format, from_wire=from_wire.format, bound=bound)


def _wrapped_element(hint: Any, field: FieldDescriptor, code: Code, bounds: tuple[Bound, ...]) -> Element:
    """A list, or what may be absent, in a message that has nothing else."""
    nested = _nested(field)
    if len(nested.fields) != 1:
        raise ContractMismatchError(f"{nested.full_name} must have one field, for a {hint}")
    inner = _field(nested.fields[0].name, hint, nested, code, bounds)
    contents = code.name(code.function("def contents(value):", *_contents_lines((inner,), "value")))
    value = code.name(code.function("def value(message):", f"    return {inner.get('message')}"))
    return Element(to_wire=lambda of: f"{contents}({of})", from_wire=lambda of: f"{value}({of})", nested=(inner,))


@cache
def _shape(value_type: type[ValueT], descriptor: Descriptor) -> Shape[ValueT]:
    """A message that stands in many others is read off once: each process waits for all of them as it starts."""
    return Shape(value_type, descriptor)


@cache
def _numbers(hint: type[Enum], enum: EnumDescriptor) -> Mapping[Enum, int]:
    """What each member of a closed set is on the wire; the same set stands in many messages."""
    prefix = _enum_prefix(enum)
    number_of = {value.name.removeprefix(prefix): value.number for value in enum.values if value.number != 0}
    names = {member.name for member in hint}
    if names != set(number_of):
        difference = ", ".join(sorted(names ^ set(number_of)))
        raise ContractMismatchError(f"{hint.__name__} and {enum.full_name} differ in {difference}")
    return {member: number_of[member.name] for member in hint}


def _enum_element(hint: type[Enum], field: FieldDescriptor, code: Code) -> Element:
    enum = field.enum_type
    assert enum is not None, field.full_name
    number_of = _numbers(hint, enum)

    def refuse(number: int) -> NoReturn:
        raise MalformedMessageError(f"{field.name} is {number}: {'unspecified' if number == 0 else 'unknown'}")

    numbers, members = code.name(number_of), code.name({number: member for member, number in number_of.items()})
    refused, number = code.name(refuse), code.variable()
    return Element(
        to_wire=lambda of: f"{numbers}[{of}]",
        from_wire=lambda of: f"({members}[{number}] if ({number} := {of}) in {members} else {refused}({number}))",
    )


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
