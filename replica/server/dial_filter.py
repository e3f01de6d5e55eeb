"""Has the kernel drop what some addresses dial a listener with, so that their connections are not even accepted.

Owns the filter. An address that is kept out hears nothing: its kernel dials again, after a second at first, and is let
in if it may by then. Connections that there are go on. Source: ``Documentation/networking/filter.rst`` of Linux.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

KEPT_OUT_MAX = 64
"""How many addresses a filter holds: each connection that is accepted meanwhile has a copy."""

_SO_ATTACH_FILTER = 26
_LOAD_WORD, _LOAD_BYTE, _AND, _JUMP, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x30, 0x54, 0x05, 0x15, 0x06
_HEADER = 0xFFF00000
"""Where the packet's IP header is (``SKF_NET_OFF``): the version first, the sender further on."""
_SENDERS = {4: _HEADER + 12, 6: _HEADER + 8}

_Instruction = tuple[int, int, int, int]
"""What to do, how many instructions to pass over if that is so, and if it is not, and an operand."""
_DROP: _Instruction = (_RETURN, 0, 0, 0)
_TAKE: _Instruction = (_RETURN, 0, 0, 0xFFFFFFFF)


def keep_out(listener: socket.socket, addresses: Sequence[str]) -> None:
    """Drop what these addresses dial with, and nobody else's any more. Raises OSError where the kernel does not."""
    program = _program([ip_address(each) for each in addresses])
    code = ctypes.create_string_buffer(b"".join(struct.pack("@HBBI", *each) for each in program))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))


def _program(addresses: Sequence[IPv4Address | IPv6Address]) -> list[_Instruction]:
    of_ipv4, of_ipv6 = (
        [step for each in addresses if each.version == version for step in _dropped(each)] for version in _SENDERS
    )
    begin = [(_LOAD_BYTE, 0, 0, _HEADER), (_AND, 0, 0, 0xF0), (_JUMP_IF_EQUAL, 1, 0, 0x40)]
    return [*begin, (_JUMP, 0, 0, len(of_ipv4) + 1), *of_ipv4, _TAKE, *of_ipv6, _TAKE]


def _dropped(address: IPv4Address | IPv6Address) -> Iterator[_Instruction]:
    """Compare the sender word by word; where one differs, go on behind."""
    words = struct.unpack(f"!{len(address.packed) // 4}I", address.packed)
    for number, word in enumerate(words):
        yield (_LOAD_WORD, 0, 0, _SENDERS[address.version] + 4 * number)
        yield (_JUMP_IF_EQUAL, 0, 2 * (len(words) - number) - 1, word)
    yield _DROP
