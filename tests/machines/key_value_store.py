"""A key-value store that tests speak to in values, and the values that they say and hear most often."""

from __future__ import annotations

from replica.machines.key_value import (
    KeyValue,
    KeyValueMachine,
    LeaseId,
    decode_response,
    encode_command,
    encode_request,
)
from replica.machines.key_value.commands import (
    Command,
    Put,
    Request,
)
from replica.machines.key_value.results import (
    KeyValueError,
    Rejected,
    Response,
)


class Store:
    """A machine that is spoken to in values."""

    def __init__(self) -> None:
        self.machine = KeyValueMachine()

    def apply(self, command: Command, *, at_ms: int = 0) -> Response:
        """Perform a command at a log time."""
        self.machine.advance(at_ms)
        return decode_response(self.machine.apply(encode_command(command), time_ms=at_ms))

    def ask(self, request: Request) -> Response:
        """Ask a question."""
        return decode_response(self.machine.query(encode_request(request)))


def put(key: bytes, value: bytes = b"v", lease: int | None = None) -> Put:
    """Put a key."""
    return Put(key=key, value=value, lease_id=None if lease is None else LeaseId(lease))


def kv(key: bytes, value: bytes, create: int, mod: int, version: int, lease: int | None = None) -> KeyValue:
    """A key as it should stand."""
    return KeyValue(
        key=key,
        value=value,
        create_revision=create,
        mod_revision=mod,
        version=version,
        lease_id=None if lease is None else LeaseId(lease),
    )


def error_of(response: Response) -> KeyValueError | None:
    """Why a command was not done."""
    return response.result.error if isinstance(response.result, Rejected) else None
