"""Commands, requests and responses of the key-value store as bytes.

Owns their tags. Nothing that is in a log is ever given another meaning: tags are added, and fields are not.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from replica.encoding import (
    BYTES,
    COUNT,
    FLAG,
    POSITIVE,
    SIGNED,
    TEXT,
    Enumeration,
    Fields,
    Format,
    MalformedError,
    OneOf,
    Optional,
    Reader,
    Row,
)
from replica.machines.key_value import commands, results
from replica.machines.key_value.values import KeyRange, KeyValue, LeaseId, Tombstone

_LEASE_ID = Optional(POSITIVE)
_REVISION = Optional(POSITIVE)
_LIMIT = Optional(POSITIVE)
_KEYS = Fields(KeyRange, start=BYTES, end=Optional(BYTES))


class _KeyValueFields(Fields[KeyValue]):
    """The same bytes, faster: snapshots and ranges are made of these."""

    _NUMBERS = Struct(">qqqB")

    def write(self, out: bytearray, value: KeyValue) -> None:
        BYTES.write(out, value.key)
        BYTES.write(out, value.value)
        leased = value.lease_id is not None
        out += self._NUMBERS.pack(value.create_revision, value.mod_revision, value.version, leased)
        if value.lease_id is not None:
            POSITIVE.write(out, value.lease_id)

    def read(self, reader: Reader) -> KeyValue:
        key = BYTES.read(reader)
        value = BYTES.read(reader)
        position = reader.position
        create, mod, version, leased = self._NUMBERS.unpack(reader.take(self._NUMBERS.size))
        if create < 1 or mod < 1 or version < 1 or leased > 1:
            raise MalformedError(position, f"revisions {create} and {mod}, version {version}, lease flag {leased}")
        lease_id = LeaseId(POSITIVE.read(reader)) if leased else None
        return KeyValue(
            key=key, value=value, create_revision=create, mod_revision=mod, version=version, lease_id=lease_id
        )


KEY_VALUE = _KeyValueFields(
    KeyValue,
    key=BYTES,
    value=BYTES,
    create_revision=POSITIVE,
    mod_revision=POSITIVE,
    version=POSITIVE,
    lease_id=_LEASE_ID,
)
TOMBSTONE = Fields(Tombstone, key=BYTES, mod_revision=POSITIVE)
EVENT: OneOf[results.Event] = OneOf({1: KEY_VALUE, 2: TOMBSTONE})

_OPERATIONS: dict[int, Fields[Any]] = {
    1: Fields(commands.Put, key=BYTES, value=BYTES, lease_id=_LEASE_ID),
    2: Fields(commands.Delete, keys=_KEYS),
    3: Fields(commands.Increment, key=BYTES, delta=SIGNED),
    4: Fields(commands.Get, key=BYTES, revision=_REVISION),
    5: Fields(commands.Range, keys=_KEYS, limit=_LIMIT, revision=_REVISION),
}
_OPERATION: OneOf[commands.Operation] = OneOf(_OPERATIONS)
_OPERATOR = Enumeration(commands.Operator)
_COMPARISON: OneOf[commands.Comparison] = OneOf(
    {
        1: Fields(commands.CompareValue, key=BYTES, operator=_OPERATOR, value=BYTES),
        2: Fields(
            commands.CompareNumber,
            key=BYTES,
            field=Enumeration(commands.NumberField),
            operator=_OPERATOR,
            number=COUNT,
        ),
    }
)
_COMMAND: Format[commands.Command] = Format(
    OneOf(
        {
            **_OPERATIONS,
            6: Fields(
                commands.CompareAndSetValue, key=BYTES, expected=Optional(BYTES), value=BYTES, lease_id=_LEASE_ID
            ),
            7: Fields(commands.CompareAndSetRevision, key=BYTES, mod_revision=COUNT, value=BYTES, lease_id=_LEASE_ID),
            8: Fields(
                commands.Transaction, comparisons=Row(_COMPARISON), then=Row(_OPERATION), otherwise=Row(_OPERATION)
            ),
            9: Fields(commands.GrantLease, ttl_ms=COUNT),
            10: Fields(commands.KeepLeaseAlive, lease_id=POSITIVE),
            11: Fields(commands.RevokeLease, lease_id=POSITIVE),
            12: Fields(commands.Compact, revision=POSITIVE),
        }
    )
)
_REQUEST: Format[commands.Request] = Format(
    OneOf(
        {
            4: _OPERATIONS[4],
            5: _OPERATIONS[5],
            13: Fields(commands.Watch, keys=_KEYS, from_revision=POSITIVE, limit=_LIMIT),
            14: Fields(commands.DescribeLease, lease_id=POSITIVE),
            15: Fields(commands.DescribeStore),
        }
    )
)

_FOUND = Optional(KEY_VALUE)
_OPERATION_RESULTS: dict[int, Fields[Any]] = {
    1: Fields(results.PutResult),
    2: Fields(results.DeleteResult, deleted=COUNT),
    3: Fields(results.IncrementResult, number=SIGNED),
    4: Fields(results.GetResult, found=_FOUND),
    5: Fields(results.RangeResult, found=Row(KEY_VALUE), more=FLAG),
}
_OPERATION_RESULT: OneOf[results.OperationResult] = OneOf(_OPERATION_RESULTS)
_RESULT: OneOf[results.Result] = OneOf(
    {
        **_OPERATION_RESULTS,
        6: Fields(results.CompareAndSetResult, succeeded=FLAG, current=_FOUND),
        7: Fields(results.TransactionResult, succeeded=FLAG, results=Row(_OPERATION_RESULT)),
        8: Fields(results.LeaseResult, lease_id=POSITIVE, ttl_ms=POSITIVE),
        9: Fields(results.CompactResult),
        10: Fields(results.WatchResult, events=Row(EVENT), next_revision=POSITIVE),
        11: Fields(results.DescribeLeaseResult, ttl_ms=POSITIVE, left_ms=COUNT, keys=Row(BYTES)),
        12: Fields(results.DescribeStoreResult, compact_revision=COUNT, keys=COUNT, leases=COUNT),
        13: Fields(results.Compacted, compact_revision=POSITIVE),
        14: Fields(results.Rejected, error=Enumeration(results.KeyValueError), message=TEXT),
    }
)
_RESPONSE = Format(Fields(results.Response, revision=POSITIVE, result=_RESULT))


encode_command, decode_command = _COMMAND.encode, _COMMAND.decode
"""Of a command, which stands in the log. What cannot be read raises MalformedError, here as below."""

encode_request, decode_request = _REQUEST.encode, _REQUEST.decode
encode_response, decode_response = _RESPONSE.encode, _RESPONSE.decode
