"""How a transaction is written on the command line: comparisons, operations if they hold, operations if not.

Owns the words of ``replica kv txn`` and what they mean. Knows nothing of where they come from or go. Source: etcdctl's
``txn``, whose form this is.

    value("color") = "red"          a comparison: value, version, mod_revision or create_revision of a key,
    mod_revision("size") < 7        then = != < > and what it is compared with

    put color "light blue"          done if all comparisons hold
    increment count 2

    get color                       done if not
    range a f
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from os import fsencode

from replica.client.groups.key_value_bounds import check_numbers
from replica.machines.key_value.commands import (
    CompareNumber,
    CompareValue,
    Comparison,
    Delete,
    Get,
    Increment,
    NumberField,
    Operation,
    Operator,
    Put,
    Range,
    Transaction,
)
from replica.machines.key_value.values import KeyRange, LeaseId, prefix, single

_COMPARISON = re.compile(r"(?P<field>\w+)\((?P<key>.+)\)\s*(?P<operator>!=|=|<|>)\s*(?P<operand>.+)")
_NUMBER_FIELDS = {
    "version": NumberField.VERSION,
    "ver": NumberField.VERSION,
    "mod_revision": NumberField.MOD_REVISION,
    "mod": NumberField.MOD_REVISION,
    "create_revision": NumberField.CREATE_REVISION,
    "create": NumberField.CREATE_REVISION,
}
_SECTIONS_MAX = 3
_DIGITS_MAX = 100
"""More than any number here has. Python refuses to read thousands of digits, by an error of its own."""


class TransactionSyntaxError(ValueError):
    """A line that means nothing; the message names it and says what would."""


def parse_sections(lines: Iterable[str]) -> Transaction:
    """Read three sections with an empty line behind each; those at the end may be left out.

    Raises TransactionSyntaxError.
    """
    sections: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            sections[-1].append(line.strip())
        else:
            sections.append([])
    while len(sections) > 1 and not sections[-1]:
        sections.pop()
    if len(sections) > _SECTIONS_MAX:
        raise TransactionSyntaxError(
            f"{len(sections)} sections, the most is {_SECTIONS_MAX}: comparisons, operations if they hold, if not"
        )
    comparisons, then, otherwise = [*sections, [], []][:_SECTIONS_MAX]
    return parse_transaction(comparisons, then, otherwise)


def parse_transaction(comparisons: Iterable[str], then: Iterable[str], otherwise: Iterable[str]) -> Transaction:
    """Read a transaction, one comparison or operation a line. Raises TransactionSyntaxError."""
    transaction = Transaction(
        comparisons=tuple(map(_comparison, comparisons)),
        then=tuple(map(_operation, then)),
        otherwise=tuple(map(_operation, otherwise)),
    )
    try:
        check_numbers(transaction)
    except ValueError as error:
        raise TransactionSyntaxError(str(error)) from error
    return transaction


def _comparison(line: str) -> Comparison:
    match = _COMPARISON.fullmatch(line)
    if match is None:
        raise TransactionSyntaxError(f'{line!r} is no comparison (for example value("a") = "1", or version("a") = 0)')
    key, operator = _word(match["key"], line), Operator(match["operator"])
    operand = _word(match["operand"], line)
    if match["field"] in ("value", "val"):
        return CompareValue(key=fsencode(key), operator=operator, value=fsencode(operand))
    field = _NUMBER_FIELDS.get(match["field"])
    if field is None:
        raise TransactionSyntaxError(f"{line!r}: compare value, version, mod_revision or create_revision")
    if not _is_number(operand):
        raise TransactionSyntaxError(f"{line!r}: {operand!r} is not a number of 0 or more")
    return CompareNumber(key=fsencode(key), field=field, operator=operator, number=int(operand))


def _operation(line: str) -> Operation:
    name, *arguments = _words(line)
    form, read = _OPERATIONS.get(name, (None, None))
    if form is None or read is None:
        raise TransactionSyntaxError(f"{line!r} is no operation; there are: {', '.join(_FORMS)}")
    operation = read(arguments)
    if operation is None:
        raise TransactionSyntaxError(f"{line!r} is not {form}")
    return operation


def _put(arguments: Sequence[str]) -> Operation | None:
    match arguments:
        case [key, value]:
            return Put(key=fsencode(key), value=fsencode(value))
        case [key, value, "--lease", lease] if _is_number(lease):
            return Put(key=fsencode(key), value=fsencode(value), lease_id=LeaseId(int(lease)))
        case _:
            return None


def _delete(arguments: Sequence[str]) -> Operation | None:
    keys = key_range(arguments)
    return None if keys is None else Delete(keys=keys)


def _get(arguments: Sequence[str]) -> Operation | None:
    return Get(key=fsencode(arguments[0])) if len(arguments) == 1 else None


def _range(arguments: Sequence[str]) -> Operation | None:
    keys = key_range(arguments)
    return None if keys is None else Range(keys=keys)


def _increment(arguments: Sequence[str]) -> Operation | None:
    match arguments:
        case [key]:
            return Increment(key=fsencode(key))
        case [key, delta] if _is_number(delta.removeprefix("-")):
            return Increment(key=fsencode(key), delta=int(delta))
        case _:
            return None


def key_range(arguments: Sequence[str]) -> KeyRange | None:
    """Which keys ``KEY``, ``START END`` or ``--prefix START`` means; None for anything else."""
    match arguments:
        case ["--prefix", start] | [start, "--prefix"]:
            return prefix(fsencode(start))
        case [key]:
            return single(fsencode(key))
        case [start, end]:
            return KeyRange(start=fsencode(start), end=fsencode(end))
        case _:
            return None


_OPERATIONS: dict[str, tuple[str, Callable[[Sequence[str]], Operation | None]]] = {
    "put": ("put KEY VALUE [--lease ID]", _put),
    "get": ("get KEY", _get),
    "delete": ("delete KEY | START END | --prefix START", _delete),
    "del": ("del KEY | START END | --prefix START", _delete),
    "range": ("range KEY | START END | --prefix START", _range),
    "increment": ("increment KEY [DELTA]", _increment),
    "incr": ("incr KEY [DELTA]", _increment),
}
_FORMS = [form for name, (form, _) in _OPERATIONS.items() if name not in ("del", "incr")]


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _DIGITS_MAX


def _word(text: str, line: str) -> str:
    words = _words(text)
    if len(words) != 1:
        raise TransactionSyntaxError(f"{line!r}: {text!r} is not one word; put quotes around it")
    return words[0]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise TransactionSyntaxError(f"{text!r} cannot be read: {error}") from error
