"""The decoders of what is replicated: metadata records, entries of a group's log, commands, replies and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from replica.core.metadata.encoding import CorruptMetadataRecordError, decode_record, encode_record
from replica.core.metadata.snapshots import decode_image, encode_image
from replica.core.quorum.snapshot_header import encode_header, split_snapshot
from replica.core.quorum.voter_history import VoterHistory
from replica.encoding import MalformedError
from replica.ids import Offset
from replica.machines import (
    AppliedLog,
    CorruptSnapshotError,
    KeepSessionAlive,
    OpenSession,
    PlainCommand,
    SessionCommand,
    SessionId,
    Snapshot,
    StateMachine,
    encode_entry,
)
from replica.machines.counter import Counter
from replica.machines.entries import CloseSession, DescribeMachine, MalformedEntry, Tick, decode_entry
from replica.machines.key_value import (
    KeyValueMachine,
    decode_command,
    decode_request,
    decode_response,
    encode_command,
    encode_request,
    encode_response,
)
from replica.machines.lock import Acquire, DescribeLock, KeepAlive, LockMachine, Release, decode_reply
from replica.machines.lock import encode_command as encode_lock_command
from replica.machines.lock import encode_request as encode_lock_request
from replica.machines.machine import InvalidCommandError
from replica.machines.outcomes import Refusal, decode_outcome, encode_outcome, refused
from replica.machines.snapshots import CHECKSUM_BYTES, sealed
from replica.records.checksum import checksum
from tests.core.metadata.test_metadata_snapshots import AT, IMAGE, RECORDS
from tests.fuzz.decoder import Decoder, SaidNoError, of_bytes
from tests.fuzz.decoders.records import VOTERS
from tests.machines.folding import batch
from tests.machines.key_value_commands import KeyValueCommands

NAME, COMMANDS = "machine", 80
HEAD_BYTES, CRC_AT = 14, 10
"""Of the header of a quorum log's snapshots: how long it is before its body, and where the checksum of that stands."""


def _key_value_commands() -> list[bytes]:
    drawn = KeyValueCommands(Random(7))
    return [encode_command(drawn.command()) for _ in range(COMMANDS)]


def _key_value_requests() -> list[bytes]:
    drawn = KeyValueCommands(Random(8))
    return [encode_request(drawn.request()) for _ in range(COMMANDS // 4)]


LOCK_COMMANDS = [
    encode_lock_command(command)
    for command in (
        Acquire(name="a", owner="me", ttl_ms=500),
        Acquire(name="b", owner="é", ttl_ms=5_000),
        KeepAlive(name="b", token=2),
        Release(name="a", token=1),
    )
]
COUNTS = [b"7", b"-12", b"999999999999999999"]
MACHINES: dict[str, tuple[Callable[[], StateMachine], Callable[[], list[bytes]]]] = {
    "key-value": (KeyValueMachine, _key_value_commands),
    "lock": (LockMachine, lambda: LOCK_COMMANDS),
    "counter": (Counter, lambda: COUNTS),
}


def _applied(name: str) -> AppliedLog:
    """A log of this machine's commands, in sessions and without, with replies that are kept."""
    made, commands = MACHINES[name]
    log = AppliedLog(made(), name=NAME)
    entries = [encode_entry(OpenSession(ttl_ms=60_000)), encode_entry(DescribeMachine(machine=log.description))]
    for sequence, command in enumerate(commands()[:40]):
        entries.append(encode_entry(PlainCommand(command=command)))
        entries.append(
            encode_entry(
                SessionCommand(session_id=SessionId(0), sequence=sequence, acknowledged=sequence // 2, command=command)
            )
        )
    log.apply(batch(0, *entries, epoch=1, stamp_ms=1_000))
    return log


@cache
def _snapshot(name: str) -> Snapshot:
    return _applied(name).snapshot()


def _restore(name: str) -> Callable[[bytes], object]:
    """Load a snapshot, and go on from it: with a command, by time, and with a snapshot of one's own."""
    made, commands = MACHINES[name]

    def restore(content: bytes) -> None:
        log = AppliedLog(made(), name=NAME)
        at = _snapshot(name).id
        log.restore(Snapshot(id=at, data=content))
        entry = encode_entry(PlainCommand(command=commands()[0] if name != "key-value" else b"\x00\x0f"))
        log.apply(batch(at.end_offset, entry, epoch=at.epoch, stamp_ms=log.log_time_ms + 10_000))
        log.snapshot()

    return restore


def _apply(name: str) -> Callable[[bytes], object]:
    """Hand a command to a machine that is in use, and write down what it has become."""
    made, commands = MACHINES[name]

    @cache
    def state() -> bytes:
        machine = made()
        for time_ms, command in enumerate(commands()):
            machine.apply(command, time_ms=time_ms)
        return machine.view().encode()

    def apply(content: bytes) -> None:
        machine = made()
        machine.restore(state())
        reply = machine.apply(content, time_ms=1_000)
        if name != "counter":
            (decode_response if name == "key-value" else decode_reply)(reply)
        machine.restore(machine.view().encode())

    return apply


def _ask(name: str) -> Callable[[bytes], object]:
    made, commands = MACHINES[name]

    @cache
    def machine() -> StateMachine:
        used = made()
        for command in commands():
            used.apply(command, time_ms=0)
        return used

    return lambda content: machine().query(content)


def _entry(content: bytes) -> None:
    """What is an entry has no other bytes."""
    entry = decode_entry(content)
    if isinstance(entry, MalformedEntry):
        raise SaidNoError
    assert encode_entry(entry) == content, "what was read is not what it is written as"


def _alike(decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]) -> Callable[[bytes, Path], object]:
    """A decoder of values that have no other bytes than those that they are written as."""

    def read(content: bytes) -> None:
        assert encode(decode(content)) == content, "what was read is not what it is written as"

    return of_bytes(read)


def _right_entries() -> Sequence[bytes]:
    entries = (
        OpenSession(ttl_ms=5_000),
        KeepSessionAlive(session_id=SessionId(3), acknowledged=4),
        CloseSession(session_id=SessionId(3)),
        SessionCommand(session_id=SessionId(3), sequence=9, acknowledged=4, command=b"abc"),
        PlainCommand(command=b"x" * 40),
        Tick(),
        DescribeMachine(machine=_applied("lock").description),
    )
    return [encode_entry(entry) for entry in entries]


def _seal(content: bytearray, _: Random) -> None:
    """Let the checksum at the end fit."""
    if len(content) >= CHECKSUM_BYTES:
        content[:] = sealed(bytes(content[:-CHECKSUM_BYTES]))


def _seal_header(content: bytearray, _: Random) -> None:
    """Let the checksum of the voters fit that stand before a snapshot."""
    size = int.from_bytes(content[HEAD_BYTES - 8 : CRC_AT], "big")
    body = bytes(content[HEAD_BYTES : HEAD_BYTES + size])
    if len(content) >= HEAD_BYTES:
        content[CRC_AT:HEAD_BYTES] = checksum(body).to_bytes(4, "big")


def _headed() -> Sequence[bytes]:
    histories = (VoterHistory(base=VOTERS, base_offset=None), VoterHistory(base=VOTERS, base_offset=Offset(7)))
    return [encode_header(voters) + b"state" for voters in histories]


def _responses() -> Sequence[bytes]:
    """What a store has answered to commands and requests of every kind."""
    machine = KeyValueMachine()
    replies = [machine.apply(command, time_ms=0) for command in _key_value_commands()]
    return [*dict.fromkeys(replies + [machine.query(request) for request in _key_value_requests()])]


def _of_machine(name: str) -> tuple[Decoder, Decoder]:
    """The commands and the snapshots of one machine."""
    return (
        Decoder(
            name=f"{name}-command",
            decode=of_bytes(_apply(name)),
            right=MACHINES[name][1],
            refusals=(InvalidCommandError,),
            memory_per_byte=400,
            cost=20 if name == "key-value" else 3,
        ),
        Decoder(
            name=f"{name}-snapshot",
            decode=of_bytes(_restore(name)),
            right=lambda: [_snapshot(name).data],
            refusals=(CorruptSnapshotError,),
            reseal=_seal,
            memory_per_byte=400,
            cost=15 if name == "key-value" else 4,
        ),
    )


DECODERS = (
    *(decoder for name in MACHINES for decoder in _of_machine(name)),
    Decoder(
        name="metadata-record",
        decode=_alike(decode_record, encode_record),
        right=lambda: [encode_record(record) for record in RECORDS],
        refusals=(CorruptMetadataRecordError,),
        memory_per_byte=400,
    ),
    Decoder(
        name="metadata-snapshot",
        decode=of_bytes(lambda content: decode_image(Snapshot(id=AT, data=content))),
        right=lambda: [encode_image(IMAGE, AT).data],
        refusals=(CorruptSnapshotError,),
        reseal=_seal,
        memory_per_byte=400,
        cost=2,
    ),
    Decoder(
        name="quorum-snapshot",
        decode=of_bytes(split_snapshot),
        right=_headed,
        refusals=(CorruptSnapshotError,),
        reseal=_seal_header,
    ),
    Decoder(name="log-entry", decode=of_bytes(_entry), right=_right_entries, refusals=(SaidNoError,)),
    Decoder(
        name="outcome",
        decode=_alike(decode_outcome, encode_outcome),
        right=lambda: [encode_outcome(refused(Refusal.REPLIES_FULL, "no room"))],
        refusals=(MalformedError,),
    ),
    Decoder(
        name="key-value-decoded",
        decode=_alike(decode_command, encode_command),
        right=_key_value_commands,
        refusals=(MalformedError,),
        memory_per_byte=400,
    ),
    Decoder(
        name="key-value-request",
        decode=of_bytes(_ask("key-value")),
        right=_key_value_requests,
        refusals=(InvalidCommandError,),
    ),
    Decoder(
        name="key-value-request-decoded",
        decode=_alike(decode_request, encode_request),
        right=_key_value_requests,
        refusals=(MalformedError,),
    ),
    Decoder(
        name="key-value-response",
        decode=_alike(decode_response, encode_response),
        right=_responses,
        refusals=(MalformedError,),
        memory_per_byte=400,
    ),
    Decoder(
        name="lock-request",
        decode=of_bytes(_ask("lock")),
        right=lambda: [encode_lock_request(DescribeLock(name="b"))],
        refusals=(InvalidCommandError,),
    ),
)
