"""The fold: a log's committed entries, one after the other, into sessions and a machine.

Owns how far the log has been applied, log time, the sessions and the machine. Reads what is committed only, hence never
takes anything back. Knows nothing of how a log is read, kept or replicated, and asks no clock.

Whatever stands in the log, every replica makes the same of it: an entry that cannot be read and a command that the
machine does not understand are refused, and count. A bug in the machine stops the fold, at a named offset; a lack of
memory is no bug, and stops it under its own name.

Source: KIP-630 for snapshots and their ids; Kafka's ``RaftClient.Listener``; Ongaro's thesis, chapters 5 and 6.3.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import assert_never

from msgspec import Struct

from replica.ids import Epoch, Offset, SnapshotId
from replica.machines.batches import CommittedBatch
from replica.machines.description import MachineDescription, MachineMismatchError, described
from replica.machines.entries import (
    CloseSession,
    DescribeMachine,
    KeepSessionAlive,
    MalformedEntry,
    OpenSession,
    PlainCommand,
    SessionCommand,
    SessionId,
    Tick,
    decode_entry,
)
from replica.machines.log_time import LOG_TIME_MS_MAX
from replica.machines.machine import CorruptSnapshotError, InvalidCommandError, StateMachine, StateView
from replica.machines.outcomes import Answered, Done, Outcome, Refusal, refused
from replica.machines.sessions import SessionLimits, SessionTable
from replica.machines.snapshots import (
    AppliedState,
    AppliedView,
    check_fits,
    checked_bytes,
    decode_state,
    encode_state,
    sealed,
    unsealed,
)


class MachineFailedError(Exception):
    """The machine has raised what it must not, at ``offset``; the replica halts, and applies nothing more.

    The same will happen on every replica, and again after a restart, until the machine is repaired. The cause has the
    traceback.
    """

    def __init__(self, machine: str, offset: Offset, cause: BaseException) -> None:
        super().__init__(machine, offset, cause)
        self.machine = machine
        self.offset = offset

    def __str__(self) -> str:
        machine, offset, cause = self.args
        return f"state machine {machine} failed at offset {offset}: {type(cause).__name__}: {cause}"


class AppliedEntry(Struct, frozen=True, kw_only=True):
    """One entry that was applied, for whoever waits for it. ``offset`` is its own."""

    offset: Offset
    outcome: Outcome


class Snapshot(Struct, frozen=True, kw_only=True):
    """A whole state as bytes."""

    id: SnapshotId
    data: bytes


class SnapshotView(Struct, frozen=True, kw_only=True):
    """A whole state as it stood, to be written down later: ``state`` encodes the bytes of the snapshot."""

    id: SnapshotId
    state: StateView

    def encoded(self) -> Snapshot:
        """Write it down."""
        return Snapshot(id=self.id, data=self.state.encode())


def _drop(applied: AppliedEntry) -> None:
    """Nobody waits: so it is on a follower, and while a log is replayed."""


class AppliedLog:
    """The state of a log below ``applied_offset``.

    ``applied_epoch`` is that of the last record that was applied, absent before the first. ``log_time_ms`` is 0 before
    the first stamp. ``description`` is of the machine that this was made with: its ``name``, its traits, the ``limits``
    of the sessions. ``said`` is the same by the log, absent where that does not say it yet; once it does, the two are
    equal. A snapshot of another machine is refused.
    """

    def __init__(self, machine: StateMachine, *, name: str, limits: SessionLimits | None = None) -> None:
        self.name = name
        self.applied_offset = Offset(0)
        self.applied_epoch: Epoch | None = None
        self.log_time_ms = 0
        self.sessions = SessionTable(limits or SessionLimits())
        self.description = described(name, machine.traits(), self.sessions.limits.traits())
        self.said: MachineDescription | None = None
        self._machine = machine
        self._failure: Exception | None = None
        self._digest: str | None = None

    @property
    def failure(self) -> Exception | None:
        """Why nothing more can be applied or asked, if so; after a refused snapshot, until the next restore."""
        return self._failure

    def apply(self, batch: CommittedBatch, tell: Callable[[AppliedEntry], None] = _drop) -> None:
        """Apply the next batch: all of it, in order, at its log time. Each entry is told as soon as it is applied.

        No outcome is held here once it is told, but the replies that sessions keep. ``tell`` may not raise, nor touch
        the log. Raises MachineFailedError if the machine fails, MachineMismatchError if the log is of another, and from
        then on; entries before were told. Anything else that comes out of a batch half-way, such as MemoryError, comes
        out as it is, and also from then on. A gap, or an offset that was applied before, is our own mistake:
        AssertionError.
        """
        self._check_runs()
        assert batch.base_offset == self.applied_offset, (batch.base_offset, self.applied_offset)
        assert self.applied_epoch is None or batch.epoch >= self.applied_epoch, (batch.epoch, self.applied_epoch)
        self._digest = None
        try:
            self._fold(batch, tell)
        except Exception as error:  # what was half done cannot be gone on from, whatever it was
            self._failure = error
            raise

    def query(self, request: bytes) -> Outcome:
        """Ask the machine, as it stands at ``applied_offset``: Answered, or Refused.

        Raises MachineFailedError and MemoryError. Whether that is recent enough for a linearizable read, the
        caller knows. A question on which the machine fails is refused: nothing of the log hangs on it.
        """
        self._check_runs()
        try:
            return Answered(reply=checked_bytes(self._machine.query(request)))
        except InvalidCommandError as error:
            return refused(Refusal.INVALID_COMMAND, str(error))
        except MemoryError:
            raise
        except Exception as error:
            return refused(Refusal.QUERY_FAILED, f"{type(error).__name__}: {error}")

    def snapshot(self) -> Snapshot:
        """The state as bytes, with its id. There is none of a log of which nothing has been applied."""
        self._check_runs()
        assert self.applied_epoch is not None, "nothing has been applied"
        snapshot_id = SnapshotId(self.applied_offset, self.applied_epoch)
        return Snapshot(id=snapshot_id, data=sealed(encode_state(self._encoded())))

    def view(self) -> AppliedView:
        """The state as it stands, which later batches do not change; its bytes are those of a snapshot."""
        self._check_runs()
        return AppliedView(
            applied_offset=self.applied_offset,
            applied_epoch=self.applied_epoch,
            log_time_ms=self.log_time_ms,
            limits=self.sessions.limits,
            sessions=self.sessions.view(),
            name=self.name,
            said=self.said,
            machine=self._machine_view(),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Let the state be that of a snapshot, which is ahead of it.

        Raises CorruptSnapshotError for bytes that are damaged, not of this id, of another machine or of other limits,
        or that hold what no log leads to. If the machine says so, or does not write down what it was given, its state
        is void and nothing but another restore is possible; in all other cases nothing has changed. To load one that is
        behind is our own mistake: AssertionError.
        """
        assert snapshot.id.end_offset > self.applied_offset, (snapshot.id, self.applied_offset)
        state = decode_state(unsealed(snapshot.data))
        check_fits(state, snapshot.id, limits=self.sessions.limits, own=self.description)
        self._restore_machine(state.machine, state.log_time_ms)
        self.sessions.restore(state.sessions)
        self.applied_offset = snapshot.id.end_offset
        self.applied_epoch = snapshot.id.epoch
        self.log_time_ms = state.log_time_ms
        self.said = state.said
        self._failure = None
        self._digest = None

    def digest(self) -> str:
        """A hash of the whole state: equal on all replicas that have applied equally much. Costs a snapshot."""
        self._check_runs()
        if self._digest is None:
            self._digest = sha256(encode_state(self._encoded())).hexdigest()
        return self._digest

    def _fold(self, batch: CommittedBatch, tell: Callable[[AppliedEntry], None]) -> None:
        self._advance(batch.timestamp_ms)
        for entry in batch.entries:
            offset = self.applied_offset
            outcome = self._perform(entry, offset)
            self.applied_offset = Offset(offset + 1)
            tell(AppliedEntry(offset=offset, outcome=outcome))
        self.applied_offset = batch.end_offset
        self.applied_epoch = batch.epoch

    def _advance(self, timestamp_ms: int) -> None:
        """Let log time be that of a batch, unless that lies back: then it stands still."""
        self.log_time_ms = max(self.log_time_ms, min(timestamp_ms, LOG_TIME_MS_MAX))
        self.sessions.expire(self.log_time_ms)
        try:
            self._machine.advance(self.log_time_ms)
        except MemoryError:
            raise
        except Exception as error:
            raise self._halted(self.applied_offset, error) from error

    def _perform(self, data: bytes, offset: Offset) -> Outcome:
        entry = decode_entry(data)
        match entry:
            case SessionCommand():
                return self._once(entry, offset)
            case PlainCommand(command=command):
                return self._command(command, offset)
            case OpenSession(ttl_ms=ttl_ms):
                return self.sessions.open(SessionId(offset), ttl_ms=ttl_ms, time_ms=self.log_time_ms)
            case KeepSessionAlive(session_id=session_id, acknowledged=acknowledged):
                return self.sessions.keep_alive(session_id, acknowledged=acknowledged, time_ms=self.log_time_ms)
            case CloseSession(session_id=session_id):
                return self.sessions.close(session_id)
            case Tick():
                return Done()
            case DescribeMachine(machine=machine):
                return self._described(machine)
            case MalformedEntry(reason=reason):
                return refused(Refusal.INVALID_ENTRY, reason)
            case _:
                assert_never(entry)

    def _described(self, machine: MachineDescription) -> Outcome:
        """Hold the log to what it says first; whatever comes later changes nothing."""
        if self.said is None:
            if machine != self.description:
                raise MachineMismatchError(said=machine, own=self.description)
            self.said = machine
        if machine != self.said:
            return refused(Refusal.INVALID_ENTRY, "the log is of another machine")
        return Done()

    def _once(self, entry: SessionCommand, offset: Offset) -> Outcome:
        outcome = self.sessions.outcome_of(entry, time_ms=self.log_time_ms)
        if outcome is None:
            outcome = self._command(entry.command, offset)
            self.sessions.keep(entry, outcome)
        return outcome

    def _command(self, command: bytes, offset: Offset) -> Outcome:
        try:
            return Answered(reply=checked_bytes(self._machine.apply(command, time_ms=self.log_time_ms)))
        except InvalidCommandError as error:
            return refused(Refusal.INVALID_COMMAND, str(error))
        except MemoryError:
            raise
        except Exception as error:
            raise self._halted(offset, error) from error

    def _restore_machine(self, data: bytes, time_ms: int) -> None:
        """Restore it, and see that it is as a machine is that was taken down at this log time."""
        try:
            self._machine.restore(data)
            self._machine.advance(time_ms)
            if self._machine.view().encode() != data:
                raise CorruptSnapshotError("restored, the machine writes down another snapshot than it was given")
        except CorruptSnapshotError as error:
            self._halted(self.applied_offset, error)
            raise
        except MemoryError as error:
            self._failure = error
            raise
        except Exception as error:
            raise self._halted(self.applied_offset, error) from error

    def _encoded(self) -> AppliedState:
        """The state as it stands, its machine written down. Raises MachineFailedError and MemoryError."""
        view = self.view()
        try:
            return view.state()
        except MemoryError:
            raise
        except Exception as error:
            raise self._halted(self.applied_offset, error) from error

    def _machine_view(self) -> StateView:
        try:
            return self._machine.view()
        except MemoryError:
            raise
        except Exception as error:
            raise self._halted(self.applied_offset, error) from error

    def _halted(self, offset: Offset, cause: Exception) -> MachineFailedError:
        self._failure = MachineFailedError(self.name, offset, cause)
        return self._failure

    def _check_runs(self) -> None:
        if self._failure is not None:
            raise self._failure
