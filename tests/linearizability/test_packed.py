"""Operations in columns: equal to those that were put in, of each object and in order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from nemesis.formats.values import Keyword, Truth
from nemesis.linearizability.models.register import CasRegister
from nemesis.linearizability.operations import Operation, Outcome
from nemesis.linearizability.packed import Column, PackedOperations, Room, TooLargeError, size_of

VALUES: tuple[Any, ...] = (
    *(None, 0, -1, 2**63 - 1, -(2**63), 2**63, 10**40, True, False, 1.5),
    *("", "read", "read", Truth.TRUE, Truth.FALSE, Keyword("read"), frozenset({1})),
    *((), (1,), (1, 2), (None, None), (None, "a"), ("a", (1, (2, None))), (1, 2, 3), (True, 1), ((1, 2), (3, 4))),
)


@pytest.mark.parametrize("absent", [0, 1, 5])
def test_what_is_put_in_comes_back(absent: int) -> None:
    """In order, equal, and of the same type: True is not 1, and a keyword no text."""
    values = [None] * absent + list(VALUES) * 3
    column = Column()
    for value in values:
        column.append(value)

    found = [column[place] for place in range(len(column))]
    assert found == values
    assert list(map(repr, found)) == list(map(repr, values))


def test_what_is_no_number_takes_room() -> None:
    """Each text counts once, be it in pairs; numbers and None do not."""
    room = Room(3 * size_of("x" * 1000))
    column = Column(room)
    for number in range(100):
        column.append("x" * 1000)
        column.append(number)
        column.append((number, None))
    assert room.bytes == size_of("x" * 1000)

    with pytest.raises(TooLargeError):
        for number in range(3):
            column.append((number, "y" * 1000 + str(number)))
    nested = (Keyword("z" * 1000), frozenset({("z" * 1000, 1)}))
    assert size_of(nested) > 2 * size_of("z" * 1000)


def test_operations_are_parted_by_their_keys() -> None:
    """Packed or not, a model parts operations alike, and each part can be indexed, sliced and gone over again."""
    random = Random(5)
    operations = [
        Operation(
            process=random.choice([0, 1, "w"]),
            f=random.choice(["read", "write", "cas"]),
            key=random.choice([None, "a", 7, (1, 2)]),
            argument=random.choice(VALUES),
            result=random.choice(VALUES),
            outcome=random.choice(list(Outcome)),
            invoked=2 * number,
            returned=random.choice([None, 2 * number + 1]),
            line=number,
        )
        for number in range(200)
    ]
    packed = PackedOperations(operations)
    assert list(packed) == operations
    assert (packed[-1], packed[3:9]) == (operations[-1], operations[3:9])
    parts, expected = CasRegister().partition(packed), CasRegister().partition(operations)
    assert list(parts) == list(expected)
    for key, part in parts.items():
        assert list(part) == list(part) == expected[key]
        assert (len(part), part[0], part[1:3]) == (len(expected[key]), expected[key][0], expected[key][1:3])
