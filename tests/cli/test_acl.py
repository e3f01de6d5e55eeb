"""``replica acl``: the words for an entry."""

from __future__ import annotations

from typing import Any

import click
import pytest

from replica.cli.acl import OPERATIONS, _entries, add, told
from replica.core.metadata.acls import Operation
from tests.core.metadata.test_acls import entry


def entries(*arguments: str) -> list[Any]:
    """What ``replica acl add`` would add."""
    values = add.make_context("add", [*arguments, "--bootstrap", "h:1"]).params
    return _entries({name: value for name, value in values.items() if name not in ("bootstrap", "timeout_ms")})


def test_each_operation_for_each_principal_on_each_resource() -> None:
    """Names are literal, and prefixes are prefixes."""
    who = ("--principal", "User:a", "--principal", "User:*")
    what = ("--operation", "read", "--operation", "write")
    on = ("--topic", "orders", "--topic-prefix", "bills-", "--group", "kv", "--group-prefix", "g", "--cluster")
    found = entries(*who, *what, *on)
    assert found == [
        entry(f"allow {principal} {operation} {resource}")
        for principal in ("User:a", "User:*")
        for operation in ("read", "write")
        for resource in ("topic orders", "topic bills-*", "group kv", "group g*", "cluster cluster")
    ]
    assert told(found[0]) == "allow User:a read topic orders"
    assert told(found[1]) == "allow User:a read topic bills-*"
    assert told(found[4]) == "allow User:a read cluster"


def test_what_is_denied_is_denied() -> None:
    """By one flag, for all that the command names."""
    (found,) = entries("--principal", "User:a", "--operation", "all", "--topic", "*", "--deny")
    assert found == entry("deny User:a all topic *")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--principal", "User:a", "--operation", "read"), "an entry is about something"),
        (("--principal", "a", "--operation", "read", "--topic", "t"), "a principal is User:NAME"),
        (("--principal", "User:a", "--operation", "read", "--topic", ""), "names what it is about"),
    ],
)
def test_what_is_no_entry_is_refused(arguments: tuple[str, ...], complaint: str) -> None:
    """Before anybody is asked."""
    with pytest.raises(click.UsageError, match=complaint):
        entries(*arguments)


def test_every_operation_has_a_word() -> None:
    """The command's choices are the model's."""
    assert tuple(Operation) == OPERATIONS
