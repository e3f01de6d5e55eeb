"""Records on their way into a message: put behind what else it says, with one copy of them.

Owns the bytes of one field, ``records``, in the wire format of protobuf: of a message, or of those in its one list.
protobuf itself would copy records four times to write them. What a reader finds is the same message: fields may come in
any order. Source: protobuf's "Encoding" (tags, lengths, and that the parts of a message may be put together).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

PUT_BEHIND_BYTES_MIN = 16 << 10
"""Fewer bytes of records are copied sooner than put behind."""

_LENGTH_DELIMITED = 2
_VARINT_BITS_MAX = 70


def varint(value: int) -> bytes:
    """A number from 0 on, seven bits a byte, the lowest first."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A number, and where it ends. Raises IndexError where it does not, and ValueError where it is too long."""
    value = 0
    for shift in range(0, _VARINT_BITS_MAX, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return value, position
    raise ValueError("a number has more than 64 bits")


def _tag(field: FieldDescriptor) -> int:
    return field.number << 3 | _LENGTH_DELIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsOf:
    """Where the records of one kind of message are: in it, or in each element of the list ``elements``."""

    message_class: type[Message]
    records_tag: int
    elements: str = ""
    element_class: type[Message] | None = None
    element_tag: int = 0

    def encode(self, contents: dict[str, Any]) -> bytes | None:
        """Write a message of these contents, which are used up; None, and nothing is, where protobuf is quicker."""
        if self.element_class is None:
            if len(contents["records"]) < PUT_BEHIND_BYTES_MIN:
                return None
            return b"".join(self._with_records(self.message_class, contents))
        elements = contents[self.elements]
        if sum(len(element["records"]) for element in elements) < PUT_BEHIND_BYTES_MIN:
            return None
        del contents[self.elements]
        pieces = [self.message_class(**contents).SerializeToString()]
        for element in elements:
            of_element = self._with_records(self.element_class, element)
            pieces += (varint(self.element_tag), varint(sum(map(len, of_element))), *of_element)
        return b"".join(pieces)

    def has_more_than(self, data: bytes, count_max: int) -> bool:
        """Whether the list has more elements than that, without looking into any. What is no message is not known to.

        Raises ValueError for what nobody writes any more: elements could be hidden behind it.
        """
        count, position = 0, 0
        try:
            while position < len(data) and count <= count_max:
                tag, position = _read_varint(data, position)
                match tag & 7:
                    case 0:  # a number
                        _, position = _read_varint(data, position)
                    case 1 | 5 as kind:  # one of 64 or 32 bits
                        position += 8 if kind == 1 else 4
                    case 2:  # with a length
                        size, position = _read_varint(data, position)
                        position += size
                        count += tag == self.element_tag
                    case kind:
                        raise ValueError(f"a field is of kind {kind}")
        except IndexError:  # It is cut off, which protobuf refuses.
            return False
        return count > count_max

    def _with_records(self, message_class: type[Message], contents: dict[str, Any]) -> Iterable[bytes]:
        """The pieces of a message: all but the records, and they."""
        records = contents.pop("records")
        return message_class(**contents).SerializeToString(), varint(self.records_tag), varint(len(records)), records


def records_of(descriptor: Descriptor) -> RecordsOf | None:
    """Find the records of a kind of message; absent where there are none."""
    message_class, own = GetMessageClass(descriptor), descriptor.fields_by_name.get("records")
    if own is not None:
        return RecordsOf(message_class=message_class, records_tag=_tag(own))
    for field in descriptor.fields:
        element = field.message_type
        inner = None if element is None else element.fields_by_name.get("records")
        if element is not None and inner is not None:
            return RecordsOf(
                message_class=message_class,
                records_tag=_tag(inner),
                elements=field.name,
                element_class=GetMessageClass(element),
                element_tag=_tag(field),
            )
    return None
