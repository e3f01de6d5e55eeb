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


def varint(value: int) -> bytes:
    """A number from 0 on, seven bits a byte, the lowest first."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _tag(field: FieldDescriptor) -> bytes:
    return varint(field.number << 3 | _LENGTH_DELIMITED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsOf:
    """Where the records of one kind of message are: in it, or in each element of the list ``elements``."""

    message_class: type[Message]
    records_tag: bytes
    elements: str | None = None
    element_class: type[Message] | None = None
    element_tag: bytes = b""

    def encode(self, contents: dict[str, Any]) -> bytes | None:
        """Write a message of these contents, which are used up; None, and nothing is, where protobuf is quicker."""
        if self.element_class is None:
            if len(contents["records"]) < PUT_BEHIND_BYTES_MIN:
                return None
            return b"".join(self._with_records(self.message_class, contents))
        elements = contents[self.elements or ""]
        if sum(len(element["records"]) for element in elements) < PUT_BEHIND_BYTES_MIN:
            return None
        del contents[self.elements or ""]
        pieces = [self.message_class(**contents).SerializeToString()]
        for element in elements:
            of_element = self._with_records(self.element_class, element)
            pieces += (self.element_tag, varint(sum(map(len, of_element))), *of_element)
        return b"".join(pieces)

    def _with_records(self, message_class: type[Message], contents: dict[str, Any]) -> Iterable[bytes]:
        """The pieces of a message: all but the records, and they."""
        records = contents.pop("records")
        return message_class(**contents).SerializeToString(), self.records_tag, varint(len(records)), records


def records_of(descriptor: Descriptor) -> RecordsOf | None:
    """Find the records of a kind of message; absent where there are none."""
    message_class, own = GetMessageClass(descriptor), descriptor.fields_by_name.get("records")
    if own is not None:
        return RecordsOf(message_class=message_class, records_tag=_tag(own))
    for field in descriptor.fields:
        inner = None if field.message_type is None else field.message_type.fields_by_name.get("records")
        if inner is not None:
            return RecordsOf(
                message_class=message_class,
                records_tag=_tag(inner),
                elements=field.name,
                element_class=GetMessageClass(field.message_type),
                element_tag=_tag(field),
            )
    return None
