"""Logs of entries that are made up, cut into batches in any way, and folded.

A log is a list of rows: which leader's epoch, its stamp, and the entry. Sessions are opened, used with repeats and in
any order, closed and left to expire; stamps go back now and then; some rows are no entries at all, and some are the
log's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from replica.ids import Epoch, Offset
from replica.machines import (
    AppliedEntry,
    AppliedLog,
    CloseSession,
    CommittedBatch,
    KeepSessionAlive,
    OpenSession,
    Outcome,
    PlainCommand,
    SessionCommand,
    SessionId,
    SessionLimits,
    StateMachine,
    Tick,
    encode_entry,
)
from replica.machines.key_value import KeyValueMachine, encode_command
from tests.machines.key_value_commands import KeyValueCommands

LIMITS = SessionLimits(sessions_max=4, window=6, kept_bytes_max=80, ttl_ms_min=100, ttl_ms_max=1_000)
"""Small enough for random logs to meet them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One offset of a log; ``entry`` is absent where the record is the log's own."""

    epoch: int
    stamp_ms: int
    entry: bytes | None


def batch(offset: int, *entries: bytes, epoch: int = 0, stamp_ms: int = 0) -> CommittedBatch:
    """A committed batch of entries."""
    return CommittedBatch(
        base_offset=Offset(offset),
        end_offset=Offset(offset + len(entries)),
        epoch=Epoch(epoch),
        timestamp_ms=stamp_ms,
        entries=entries,
    )


def control(offset: int, *, epoch: int, stamp_ms: int = -1) -> CommittedBatch:
    """A record of the log's own."""
    return CommittedBatch(
        base_offset=Offset(offset),
        end_offset=Offset(offset + 1),
        epoch=Epoch(epoch),
        timestamp_ms=stamp_ms,
        entries=(),
    )


class _Client:
    """A session's client: it numbers its commands, and acknowledges what it is done with."""

    def __init__(self, session_id: int) -> None:
        self.session_id = SessionId(session_id)
        self.sent: list[SessionCommand] = []
        self.acknowledged = 0

    def next(self, random: Random, command: bytes) -> SessionCommand:
        """A new command: sometimes one number is left out, and comes later or never."""
        sequence = len(self.sent)
        if random.randrange(3) == 0:
            self.acknowledged = random.randint(self.acknowledged, sequence)
        made = SessionCommand(
            session_id=self.session_id, sequence=sequence, acknowledged=self.acknowledged, command=command
        )
        self.sent.append(made)
        return made


def rows(seed: int, count: int) -> list[Row]:
    """A log of so many rows."""
    random = Random(seed)
    generated = KeyValueCommands(random)
    clients: list[_Client] = []
    late: list[SessionCommand] = []
    made: list[Row] = []
    epoch = stamp_ms = 0
    while len(made) < count:
        if len(clients) > 2 and random.randrange(15) == 0:
            clients.pop(random.randrange(2))
        offset = len(made)
        generated.revision = 1 + offset // 4
        stamp_ms += random.choice([0, 0, 0, 0, 5, 30])
        shown_ms = stamp_ms - random.choice([0] * 9 + [400])
        if random.randrange(50) == 0:
            epoch += random.randint(1, 3)
            made.append(Row(epoch=epoch, stamp_ms=-1, entry=None))
            continue
        entry = _entry(random, generated, clients, late, offset)
        made.append(Row(epoch=epoch, stamp_ms=shown_ms, entry=entry))
    return made


def _entry(
    random: Random, generated: KeyValueCommands, clients: list[_Client], late: list[SessionCommand], offset: int
) -> bytes:
    command = encode_command(generated.command()) if random.randrange(12) else random.randbytes(4)
    kind = random.choice("oocccccccccccccccccccrrrrrrrrrllllppptkkxbz") if clients else "o"
    client = random.choice(clients) if clients else _Client(0)
    match kind:
        case "o":
            ttl_ms = random.choice([200, 400, 1_000, 1_000, 1_000, 5_000])
            if random.randrange(5) == 0 or (ttl_ms <= LIMITS.ttl_ms_max and len(clients) < LIMITS.sessions_max):
                clients.append(_Client(offset))
            return encode_entry(OpenSession(ttl_ms=ttl_ms))
        case "c" | "r" if kind == "c" or not client.sent:
            made = client.next(random, command)
            if random.randrange(6) == 0:
                late.append(made)
                made = client.next(random, command)
            return encode_entry(made)
        case "r":
            return encode_entry(random.choice(client.sent[-8:]))
        case "l" if late:
            return encode_entry(late.pop(random.randrange(len(late))))
        case "k":
            return encode_entry(KeepSessionAlive(session_id=client.session_id, acknowledged=client.acknowledged))
        case "x":
            if random.randrange(4):
                clients.remove(client)
            return encode_entry(CloseSession(session_id=client.session_id))
        case "b":
            return random.randbytes(random.randrange(6))
        case "z":
            return encode_entry(PlainCommand(command=random.randbytes(3)))
        case "p":
            return encode_entry(PlainCommand(command=command))
        case _:
            return encode_entry(Tick())


def batches(log: Sequence[Row], random: Random | None, *, start: int = 0) -> list[CommittedBatch]:
    """Cut a log into batches from ``start`` on: one a row without a random, else longer ones where rows agree."""
    made: list[CommittedBatch] = []
    run: list[bytes] = []
    for offset in range(start, len(log)):
        row = log[offset]
        if row.entry is None:
            made.append(control(offset, epoch=row.epoch, stamp_ms=row.stamp_ms))
            continue
        run.append(row.entry)
        following = log[offset + 1] if offset + 1 < len(log) else None
        goes_on = (
            following is not None
            and following.entry is not None
            and (following.epoch, following.stamp_ms) == (row.epoch, row.stamp_ms)
        )
        if not goes_on or random is None or random.randrange(3) == 0:
            base_offset = offset + 1 - len(run)
            made.append(batch(base_offset, *run, epoch=row.epoch, stamp_ms=row.stamp_ms))
            run = []
    return made


def key_value_log(limits: SessionLimits = LIMITS) -> AppliedLog:
    """A fold of the key-value store of which nothing has been applied."""
    return AppliedLog(KeyValueMachine(), name="key-value", limits=limits)


def machine_log(make: Callable[[], StateMachine], *, name: str = "tested") -> AppliedLog:
    """A fold of a machine, with the limits of production."""
    return AppliedLog(make(), name=name)


def apply_all(log: AppliedLog, made: Iterable[CommittedBatch]) -> list[AppliedEntry]:
    """Fold batches, and return what became of each entry."""
    applied: list[AppliedEntry] = []
    for one in made:
        log.apply(one, applied.append)
    return applied


def apply_one(log: AppliedLog, entry: bytes, *, stamp_ms: int = 0) -> Outcome:
    """Fold one more entry, and return what became of it."""
    (applied,) = apply_all(log, [batch(log.applied_offset, entry, epoch=log.applied_epoch or 0, stamp_ms=stamp_ms)])
    return applied.outcome
