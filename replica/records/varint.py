"""Variable-length integers as Protocol Buffers and Kafka write them: seven bits a byte, lowest first.

Owns the zigzag form used inside records and the unsigned form used by Kafka's compact arrays and tagged fields.
Knows nothing of what the numbers mean. Source: Kafka's ``ByteUtils``, KIP-98, KIP-482.

Readers take the bytes, a position and an exclusive end, and return the number and the position behind it. They raise
``CorruptRecordError`` where the bytes end inside a number or the number does not fit its width.
"""

from __future__ import annotations

from replica.records.errors import CorruptRecordError


def read_unsigned(data: bytes, position: int, end: int, *, bits: int = 32) -> tuple[int, int]:
    """Read an unsigned number of at most ``bits`` bits."""
    value = shift = 0
    cursor = position
    while cursor < end:
        byte = data[cursor]
        cursor += 1
        value |= (byte & 0x7F) << shift
        if value >> bits:
            break
        if byte < 0x80:
            return value, cursor
        shift += 7
        if shift >= bits:
            break
    else:
        raise CorruptRecordError(position, "the bytes end inside a varint")
    raise CorruptRecordError(position, f"varint overflow: it does not fit in {bits} bits")


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zigzag number in -2**31..2**31-1."""
    if position < end and data[position] < 0x80:  # nearly every length and delta is this short
        byte = data[position]
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = read_unsigned(data, position, end, bits=32)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zigzag number in -2**63..2**63-1."""
    value, position = read_unsigned(data, position, end, bits=64)
    return (value >> 1) ^ -(value & 1), position


def write_unsigned(out: bytearray, value: int) -> None:
    """Append ``value``, 0 or more."""
    assert value >= 0, f"unsigned varint of {value}"
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_zigzag(out: bytearray, value: int) -> None:
    """Append ``value``, negative or not; the caller has checked that it fits the width its reader expects."""
    write_unsigned(out, value << 1 if value >= 0 else ((-value) << 1) - 1)
