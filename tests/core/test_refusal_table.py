"""Every request of a client or a replica can be refused by an answer of its own type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from replica.core.messages import Request
from replica.core.refusals import RESPONSES
from replica.errors import ErrorCode


def types_of(union: Any) -> Iterator[type]:
    """The types of a union, and of the unions in it."""
    for member in get_args(union):
        yield from types_of(member) if get_args(member) else (member,)


def test_every_request_can_be_refused() -> None:
    """A new request is in the table of refusals, with an answer that needs nothing but an error, or this is red."""
    for request in types_of(Request):
        assert request in RESPONSES, request
        assert RESPONSES[request](error=ErrorCode.UNKNOWN_SERVER_ERROR).error is ErrorCode.UNKNOWN_SERVER_ERROR
