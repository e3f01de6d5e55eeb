"""What is written comes back, and what is not exactly that is malformed: for every value that has a format."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from replica.encoding import (
    BYTES,
    COUNT,
    FLAG,
    INT64_MAX,
    PIECE_BYTES,
    POSITIVE,
    SIGNED,
    TEXT,
    Fields,
    Format,
    MalformedError,
    OneOf,
    Optional,
    Reader,
    Row,
    joined,
)
from replica.machines import (
    Answered,
    CloseSession,
    Done,
    Entry,
    KeepSessionAlive,
    MalformedEntry,
    OpenSession,
    Outcome,
    PlainCommand,
    Refusal,
    Refused,
    SessionCommand,
    SessionId,
    SessionOpened,
    Tick,
    decode_entry,
    decode_outcome,
    encode_entry,
    encode_outcome,
)
from replica.machines.key_value import (
    ALL_KEYS,
    KeyRange,
    KeyValue,
    LeaseId,
    Tombstone,
    commands,
    decode_command,
    decode_request,
    decode_response,
    encode_command,
    encode_request,
    encode_response,
    results,
    single,
)
from replica.machines.key_value.encoding import KEY_VALUE
from replica.machines.snapshots import sealed, unsealed
from tests.machines.key_value_commands import KeyValueCommands

numbers = st.integers(0, INT64_MAX)
session_ids = st.builds(SessionId, numbers)
entries: st.SearchStrategy[Entry] = st.one_of(
    st.builds(OpenSession, ttl_ms=st.integers(1, INT64_MAX)),
    st.builds(KeepSessionAlive, session_id=session_ids, acknowledged=numbers),
    st.builds(CloseSession, session_id=session_ids),
    st.tuples(numbers, numbers, session_ids, st.binary()).map(
        lambda made: SessionCommand(
            session_id=made[2], sequence=max(made[:2]), acknowledged=min(made[:2]), command=made[3]
        )
    ),
    st.builds(PlainCommand, command=st.binary()),
    st.just(Tick()),
)

A_KEY = KeyValue(key=b"k", value=b"v", create_revision=2, mod_revision=7, version=3, lease_id=LeaseId(4))
A_RESULT: list[results.Result] = [
    results.PutResult(),
    results.DeleteResult(deleted=3),
    results.IncrementResult(number=-5),
    results.GetResult(found=None),
    results.GetResult(found=A_KEY),
    results.RangeResult(found=(A_KEY, A_KEY), more=True),
    results.CompareAndSetResult(succeeded=False, current=A_KEY),
    results.TransactionResult(succeeded=True, results=(results.PutResult(), results.GetResult(found=A_KEY))),
    results.LeaseResult(lease_id=LeaseId(1), ttl_ms=5),
    results.CompactResult(),
    results.WatchResult(events=(A_KEY, Tombstone(key=b"", mod_revision=9)), next_revision=10),
    results.DescribeLeaseResult(ttl_ms=5, left_ms=0, keys=(b"a", b"")),
    results.DescribeStoreResult(compact_revision=0, keys=1, leases=2),
    results.Compacted(compact_revision=4),
    *(results.Rejected(error=error, message="why: \u00e9") for error in results.KeyValueError),
]
OUTCOMES: list[Outcome] = [
    Answered(reply=b"\0x"),
    SessionOpened(session_id=SessionId(0)),
    Done(),
    *(Refused(refusal=refusal, message="no") for refusal in Refusal),
]


class _Sample(Struct, frozen=True):
    """One value of each kind of codec."""

    signed: int
    flag: bool
    text: str
    maybe: bytes | None
    row: tuple[int, ...]


_SAMPLE = Format(Fields(_Sample, signed=SIGNED, flag=FLAG, text=TEXT, maybe=Optional(BYTES), row=Row(COUNT)), version=3)


def check_strict(data: bytes, decode: Callable[[bytes], Any]) -> None:
    """Every beginning of an encoded value, anything behind it, and another version is malformed."""
    for wrong in (*(data[:length] for length in range(len(data))), data + b"\0", bytes([data[0] + 1]) + data[1:]):
        with pytest.raises(MalformedError):
            decode(wrong)


@given(entries)
def test_entries_round_trip(entry: Entry) -> None:
    """An entry comes back from its bytes."""
    assert decode_entry(encode_entry(entry)) == entry


@given(entries, st.data())
def test_damaged_entries_are_told(entry: Entry, data: st.DataObject) -> None:
    """An entry that ends early, goes on, or is of another version is an error value, never an exception."""
    encoded = encode_entry(entry)
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    for wrong in (cut, encoded + b"\0", b"\1" + encoded[1:]):
        assert isinstance(decode_entry(wrong), MalformedEntry)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "byte 0: 1 bytes are due, 0 are left", id="nothing"),
        pytest.param(b"\1\6", "byte 0: version 1 is unknown; only 0 is known", id="later_version"),
        pytest.param(b"\0\10", "byte 1: unknown tag 8", id="unknown_kind"),
        pytest.param(b"\0\6\0", "byte 2: 1 trailing bytes", id="trailing"),
        pytest.param(b"\0\1" + bytes(8), f"byte 2: 0 is not from 1 to {INT64_MAX}", id="no_time_to_live"),
        pytest.param(
            b"\0\4" + bytes(8) + bytes(8) + bytes(7) + b"\1" + bytes(4),
            "byte 2: sequence 0 is below 1, which it acknowledges",
            id="acknowledges_beyond_itself",
        ),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(data: bytes, reason: str) -> None:
    """The reason names the byte, and what should be there."""
    assert decode_entry(data) == MalformedEntry(reason=reason)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_outcomes_round_trip(outcome: Outcome) -> None:
    """Every outcome comes back from its bytes, and nothing else is one."""
    data = encode_outcome(outcome)
    assert decode_outcome(data) == outcome
    check_strict(data, decode_outcome)


@pytest.mark.parametrize("result", A_RESULT, ids=lambda result: type(result).__name__)
def test_responses_round_trip(result: results.Result) -> None:
    """Every result comes back from its bytes, and nothing else is one."""
    response = results.Response(revision=12, result=result)
    data = encode_response(response)
    assert decode_response(data) == response
    check_strict(data, decode_response)


def test_every_result_was_tried() -> None:
    """No kind of result goes without a sample."""
    assert {type(result) for result in A_RESULT} == set(results.Result.__args__)


@pytest.mark.parametrize("seed", range(3))
def test_commands_and_requests_round_trip(seed: int) -> None:
    """Random commands and questions come back from their bytes, and no beginning of them is one."""
    generated = KeyValueCommands(Random(seed))
    for _ in range(100):
        command, request = generated.command(), generated.request()
        assert decode_command(encode_command(command)) == command
        assert decode_request(encode_request(request)) == request
        check_strict(encode_command(command), decode_command)
        check_strict(encode_request(request), decode_request)


@given(st.binary(), st.binary(), st.lists(st.integers(1, INT64_MAX), min_size=4, max_size=4), st.booleans())
def test_the_fast_way_of_writing_a_key_writes_the_same(
    key: bytes, value: bytes, numbers: list[int], leased: bool
) -> None:
    """A key is written and read as field by field."""
    create, mod, version, lease = numbers
    current = KeyValue(
        key=key,
        value=value,
        create_revision=create,
        mod_revision=mod,
        version=version,
        lease_id=LeaseId(lease) if leased else None,
    )
    fast, plain = bytearray(), bytearray()
    KEY_VALUE.write(fast, current)
    Fields.write(KEY_VALUE, plain, current)
    assert fast == plain
    assert KEY_VALUE.read(Reader(bytes(fast))) == current


@pytest.mark.parametrize(("position", "byte"), [(2, 0x80), (10, 0x80), (18, 0x80), (26, 2)])
def test_a_key_with_wrong_numbers_is_malformed(position: int, byte: int) -> None:
    """Revisions and a version below one, and a flag that is none, are told."""
    out = bytearray()
    KEY_VALUE.write(out, KeyValue(key=b"", value=b"", create_revision=1, mod_revision=1, version=1))
    out[position + 6] = byte
    with pytest.raises(MalformedError, match="byte 8: revisions"):
        KEY_VALUE.read(Reader(bytes(out)))


def test_a_command_is_no_question() -> None:
    """What changes something cannot be asked, and a question about the past is no command."""
    with pytest.raises(MalformedError, match="unknown tag 1"):
        decode_request(encode_command(commands.Put(key=b"k", value=b"v")))
    with pytest.raises(MalformedError, match="unknown tag 13"):
        decode_command(encode_request(commands.Watch(keys=ALL_KEYS, from_revision=1)))


def test_the_bytes_of_a_command_are_these() -> None:
    """The format does not change unnoticed: what stands in logs must be readable for ever."""
    put = commands.Put(key=b"k", value=b"v", lease_id=LeaseId(2))
    assert encode_command(put).hex() == "0001000000016b0000000176010000000000000002"
    entry = SessionCommand(session_id=SessionId(5), sequence=7, acknowledged=6, command=b"c")
    assert encode_entry(entry).hex() == ("00040000000000000005000000000000000700000000000000060000000163")
    assert encode_command(commands.Delete(keys=single(b"k"))).hex() == "0002000000016b01000000026b00"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"\x03" + bytes(8) + b"\2", "2 is neither 0 nor 1", id="flag"),
        pytest.param(b"\x03" + bytes(9) + b"\0\0\0\1\xff", "the text is not UTF-8", id="text"),
        pytest.param(b"\x03" + bytes(9) + b"\0\0\0\2a", "2 bytes are due, 1 are left", id="length"),
        pytest.param(b"\x03" + bytes(14) + b"\xff\xff\xff\xff", "4294967295 values are due, 0 bytes", id="count"),
        pytest.param(b"\x03" + bytes(14) + b"\0\0\0\1" + b"\xff" * 8, "-1 is not from 0", id="below_its_range"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, reason: str) -> None:
    """Each codec says what it cannot read, and a count that cannot be is not begun with."""
    with pytest.raises(MalformedError, match=reason):
        _SAMPLE.decode(data)


def test_a_value_that_does_not_fit_is_our_own_mistake() -> None:
    """Writing a number out of its range fails at once, and so do fields that are out of order or left out."""
    with pytest.raises(AssertionError):
        POSITIVE.write(bytearray(), 0)
    with pytest.raises(AssertionError):
        Fields(KeyRange, end=BYTES, start=BYTES)
    with pytest.raises(AssertionError):
        OneOf({1: Fields(Tick), 2: Fields(Tick)})


@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 7])
def test_what_is_large_is_written_as_what_is_small(size: int) -> None:
    """It is copied in pieces; nothing is missing between two of them, and nothing is there twice."""
    large = Random(size).randbytes(size)
    assert joined(b"a", large, bytearray(large), b"z") == b"a" + large + large + b"z"
    written = encode_response(results.Response(revision=1, result=results.GetResult(found=replace(A_KEY, value=large))))
    assert large in written
    assert decode_response(written).result == results.GetResult(found=replace(A_KEY, value=large))
    assert unsealed(sealed(large)) == large
