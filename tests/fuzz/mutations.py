"""Inputs that are nearly right: what can happen to bytes, and what somebody who means harm would write into them.

Owns the changes and the dice: the same seed makes the same input. Knows no decoder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

BYTES_MAX = 1 << 17
"""How long a change may make an input; deeper nesting than so many brackets is no other nesting."""
CHANGES_MAX = 12
EDGES = (0, 1, 2, 0x7F, 0x80, 0x81, 0xC0, 0xFE, 0xFF)
WIDTHS = (1, 2, 4, 8)
VARINTS = (
    b"\xff\xff\xff\xff\x07",  # the largest number of 31 bits
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 11,
    b"\x80" * 9 + b"\x00",
    b"\x80\x80\x80\x10",
)
NUMBERS = (
    *(b"0", b"-0", b"-1", b"00", b"+1", b"1.5", b"1e999", b"-1e999", b"1e-400", b"0x10", b"1_000", b"NaN", b"Infinity"),
    *(str(number).encode() for bits in (31, 32, 53, 63, 64) for number in (2**bits - 1, 2**bits, -(2**bits) - 1)),
    *(b"9" * 400, b"9" * 5000, "٣".encode(), b"1" * 20 + b".5"),
)
PLAIN_WORDS = (
    *(b'"', b"'", b"\\", b"\\u0000", b"\\ud800", b"\n", b"\r", b"\t", b" ", b",", b":", b"=", b"-", b".", b"/", b"#"),
    *(b"[", b"]", b"{", b"}", b"(", b")", b"null", b"true", b"nan", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
    *("é".encode(), "\U0001d4b3".encode(), b"\x00", b"\x1b[2J"),
)
OPENINGS = (b"[", b"{", b"(", b'{"a":', b"[[", b"not ", b"#{", b"{:a ", b"-")
DEPTHS = (3, 60, 70, 400, 1_100, 30_000)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Material:
    """What inputs are made of: right ones, and the words of their format, if it is text."""

    right: Sequence[bytes]
    words: Sequence[bytes]


Change = Callable[[bytearray, Random, Material], None]


def _place(content: bytearray, dice: Random) -> int:
    """A place; every second time in front, where lengths and counts stand."""
    end = len(content) if dice.random() < 0.5 else min(len(content), 64)
    return dice.randrange(end)


def flip_a_bit(content: bytearray, dice: Random, _: Material) -> None:
    """One bit is the other."""
    content[_place(content, dice)] ^= 1 << dice.randrange(8)


def set_a_byte(content: bytearray, dice: Random, _: Material) -> None:
    """A byte is one of those at which something begins or ends."""
    content[_place(content, dice)] = dice.choice(EDGES)


def overwrite_a_number(content: bytearray, dice: Random, _: Material) -> None:
    """A number of one to eight bytes is an extreme, or the size of something."""
    width, at = dice.choice(WIDTHS), _place(content, dice)
    most = (1 << 8 * width) - 1
    left = len(content) - at
    number = dice.choice((0, 1, most, most - 1, most >> 1, (most >> 1) + 1, left, left - width, left + 1, 1 << 20))
    written = (number & most).to_bytes(width, dice.choice(("big", "big", "little")))
    content[at : at + width] = written[: max(0, len(content) - at)]


def add_one(content: bytearray, dice: Random, _: Material) -> None:
    """A number is one too large or too small."""
    at = _place(content, dice)
    content[at] = (content[at] + dice.choice((1, -1))) % 256


def cut(content: bytearray, dice: Random, _: Material) -> None:
    """The end is missing."""
    del content[dice.randrange(len(content)) :]


def lose(content: bytearray, dice: Random, _: Material) -> None:
    """Some bytes are missing."""
    start = dice.randrange(len(content))
    del content[start : start + dice.choice((1, 1, 2, 4, 8, 20))]


def repeat(content: bytearray, dice: Random, _: Material) -> None:
    """A piece is there again, perhaps a thousand times."""
    start = dice.randrange(len(content))
    piece = content[start : start + dice.choice((1, 2, 4, 8, 30, 200))]
    times = min(dice.choice((1, 1, 1, 2, 3, 64, 1500)), max(1, (BYTES_MAX - len(content)) // len(piece)))
    at = dice.choice((start, dice.randrange(len(content))))
    content[at:at] = piece * times


def insert_noise(content: bytearray, dice: Random, _: Material) -> None:
    """Something stands where it does not belong."""
    at = dice.randrange(len(content) + 1)
    content[at:at] = dice.choice((dice.randbytes(dice.randrange(1, 9)), bytes(dice.randrange(1, 70))))


def insert_a_varint(content: bytearray, dice: Random, _: Material) -> None:
    """A number of seven bits a byte is very large, or never ends."""
    at = _place(content, dice)
    content[at : at + dice.choice((0, 1, 1, 2))] = dice.choice(VARINTS)


def swap(content: bytearray, dice: Random, _: Material) -> None:
    """Two pieces have changed places."""
    first, second = sorted((dice.randrange(len(content)), dice.randrange(len(content))))
    size = min(dice.choice((1, 4, 8, 16)), second - first, len(content) - second)
    one, other = content[first : first + size], content[second : second + size]
    content[first : first + size], content[second : second + size] = other, one


def splice(content: bytearray, dice: Random, material: Material) -> None:
    """It goes on as another one does."""
    other = dice.choice(material.right)
    content[dice.randrange(len(content)) :] = other[dice.randrange(len(other) or 1) :]


def insert_a_word(content: bytearray, dice: Random, material: Material) -> None:
    """A word of the format, or one that is special to some, is there too or in place of something."""
    at = dice.randrange(len(content) + 1)
    word = dice.choice(material.words if dice.random() < 0.6 else PLAIN_WORDS)
    content[at : at + dice.choice((0, 0, 1, len(word)))] = word


def rewrite_a_number(content: bytearray, dice: Random, _: Material) -> None:
    """A number in digits is an extreme, or has thousands of digits."""
    found = list(_NUMBER.finditer(content))
    if found:
        chosen = dice.choice(found)
        content[chosen.start() : chosen.end()] = dice.choice(NUMBERS)


def nest(content: bytearray, dice: Random, _: Material) -> None:
    """Something lies deep in brackets, closed or not."""
    at, depth = dice.randrange(len(content) + 1), dice.choice(DEPTHS)
    opening = dice.choice(OPENINGS)
    closing = {b"[": b"]", b"{": b"}", b"(": b")"}.get(opening[:1], b"")
    is_closed = dice.random() < 0.5
    end = at + dice.choice((0, 1))
    content[at:end] = opening * depth + bytes(content[at:end] or b"1") + (closing * depth if is_closed else b"")


def change_lines(content: bytearray, dice: Random, _: Material) -> None:
    """A line is gone, there twice, or has changed its place with another."""
    lines = bytes(content).splitlines(keepends=True)
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    match dice.randrange(3):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    content[:] = b"".join(lines)


ANYWHERE: tuple[Change, ...] = (
    *(flip_a_bit, set_a_byte, add_one, cut, lose, repeat, insert_noise, swap, splice),
    *(overwrite_a_number, overwrite_a_number, insert_a_varint),
)
IN_TEXT: tuple[Change, ...] = (
    *(flip_a_bit, cut, lose, repeat, insert_noise, swap, splice, change_lines, nest),
    *(insert_a_word, insert_a_word, rewrite_a_number, rewrite_a_number),
)


def drawn(material: Material, dice: Random) -> bytearray:
    """One input: a right one with some changes, now and then nothing but noise."""
    if dice.random() < 0.02:
        words = [dice.choice(material.words or PLAIN_WORDS) for _ in range(dice.randrange(1, 30))]
        return bytearray(dice.choice((dice.randbytes(dice.randrange(200)), b" ".join(words))))
    return changed(bytearray(dice.choice(material.right)), material, dice)


def changed(content: bytearray, material: Material, dice: Random) -> bytearray:
    """The same with one to ``CHANGES_MAX`` changes."""
    ways = IN_TEXT if material.words else ANYWHERE
    for _ in range(min(1 + int(dice.expovariate(0.7)), CHANGES_MAX)):
        if not content:
            content += dice.randbytes(dice.randrange(1, 4))
        dice.choice(ways)(content, dice, material)
    del content[2 * BYTES_MAX :]
    return content
