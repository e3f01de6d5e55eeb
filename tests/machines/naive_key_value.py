"""A key-value store that is slow and plain: the whole store once for every revision, and nothing clever.

Written from what ``docs/machines.md`` promises, without a look at how the store does it. Commands, requests and results
are the same values; all that decides is here again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never, cast

from msgspec.structs import replace

from replica.machines.key_value import commands, results
from replica.machines.key_value.results import KeyValueError
from replica.machines.key_value.values import KeyRange, KeyValue, LeaseId, Tombstone

State = dict[bytes, KeyValue]


class _ImpossibleError(Exception):
    """A command that cannot be done: everything is as it was."""

    def __init__(self, failure: results.Failure) -> None:
        self.failure = failure


@dataclass
class NaiveKeyValue:
    """``states[revision]`` is the whole store at it; ``now`` the one that a command is changing."""

    states: list[State] = field(default_factory=lambda: [{}, {}])
    now: State = field(default_factory=dict)
    compacted: int = 0
    time_ms: int = 0
    leases: dict[LeaseId, tuple[int, int]] = field(default_factory=dict)
    granted: int = 0

    @property
    def revision(self) -> int:
        """The revision of the store."""
        return len(self.states) - 1

    def advance(self, time_ms: int) -> None:
        """One lease after the other: the one that expired first."""
        self.time_ms = max(self.time_ms, time_ms)
        while True:
            expired = sorted((end, lease) for lease, (_, end) in self.leases.items() if end <= self.time_ms)
            if not expired:
                return
            self._end(expired[0][1])
            self._commit()

    def apply(self, command: commands.Command) -> results.Response:
        """Do a command, or nothing at all."""
        self.now = dict(self.states[-1])
        leases, granted, compacted = dict(self.leases), self.granted, self.compacted
        try:
            result = self._do(command)
        except _ImpossibleError as no:
            self.now, self.leases, self.granted, self.compacted = dict(self.states[-1]), leases, granted, compacted
            result = no.failure
        self._commit()
        return results.Response(revision=self.revision, result=result)

    def query(self, request: commands.Request) -> results.Response:
        """Answer."""
        self.now = dict(self.states[-1])
        try:
            result = self._look(request)
        except _ImpossibleError as no:
            result = no.failure
        return results.Response(revision=self.revision, result=result)

    def _commit(self) -> None:
        if self.now != self.states[-1]:
            self.states.append(self.now)
            self.now = dict(self.now)

    def _do(self, command: commands.Command) -> results.Result:
        match command:
            case commands.Get() | commands.Range():
                return self._look(command)
            case commands.Put(key=key, value=value, lease_id=lease):
                self._put(key, value, lease)
                return results.PutResult()
            case commands.Delete(keys=keys):
                doomed = [key for key in self.now if _within(key, keys)]
                for key in doomed:
                    del self.now[key]
                return results.DeleteResult(deleted=len(doomed))
            case commands.Increment(key=key, delta=delta):
                return self._increment(key, delta)
            case commands.CompareAndSetValue(key=key, value=value, lease_id=lease, expected=expected):
                there = self.now.get(key)
                return self._set_if((there.value if there else None) == expected, key, value, lease)
            case commands.CompareAndSetRevision(key=key, value=value, lease_id=lease, mod_revision=mod_revision):
                there = self.now.get(key)
                return self._set_if((there.mod_revision if there else 0) == mod_revision, key, value, lease)
            case commands.Transaction():
                return self._transaction(command)
            case commands.GrantLease(ttl_ms=ttl_ms):
                if ttl_ms == 0:
                    raise _ImpossibleError(_why(KeyValueError.INVALID_TTL))
                self.granted += 1
                self.leases[LeaseId(self.granted)] = (ttl_ms, self.time_ms + ttl_ms)
                return results.LeaseResult(lease_id=LeaseId(self.granted), ttl_ms=ttl_ms)
            case commands.KeepLeaseAlive(lease_id=lease):
                ttl_ms = self._lease(lease)[0]
                self.leases[lease] = (ttl_ms, self.time_ms + ttl_ms)
                return results.LeaseResult(lease_id=lease, ttl_ms=ttl_ms)
            case commands.RevokeLease(lease_id=lease):
                self._lease(lease)
                return results.DeleteResult(deleted=self._end(lease))
            case commands.Compact(revision=revision):
                if revision <= self.compacted:
                    raise _ImpossibleError(results.Compacted(compact_revision=self.compacted))
                self._readable(revision)
                self.compacted = revision
                return results.CompactResult()
            case _:
                assert_never(command)

    def _look(self, request: commands.Request) -> results.Result:
        match request:
            case commands.Get(key=key, revision=revision):
                return results.GetResult(found=self._readable(revision).get(key))
            case commands.Range(keys=keys, limit=limit, revision=revision):
                state = self._readable(revision)
                found = tuple(state[key] for key in sorted(state) if _within(key, keys))
                shown = found if limit is None else found[:limit]
                return results.RangeResult(found=shown, more=len(shown) < len(found))
            case commands.Watch():
                return self._watch(request)
            case commands.DescribeLease(lease_id=lease):
                ttl_ms, end = self._lease(lease)
                attached = tuple(sorted(key for key, there in self.now.items() if there.lease_id == lease))
                return results.DescribeLeaseResult(ttl_ms=ttl_ms, left_ms=end - self.time_ms, keys=attached)
            case commands.DescribeStore():
                return results.DescribeStoreResult(
                    compact_revision=self.compacted, keys=len(self.now), leases=len(self.leases)
                )
            case _:
                assert_never(request)

    def _watch(self, request: commands.Watch) -> results.Result:
        """What differs between a revision's store and the one before is what happened at it."""
        if request.from_revision < self.compacted:
            return results.Compacted(compact_revision=self.compacted)
        events: list[results.Event] = []
        revision = request.from_revision
        while revision <= self.revision and (request.limit is None or len(events) < request.limit):
            before, after = self.states[revision - 1], self.states[revision]
            for key in sorted({*before, *after}):
                if _within(key, request.keys) and before.get(key) != after.get(key):
                    events.append(after.get(key) or Tombstone(key=key, mod_revision=revision))
            revision += 1
        return results.WatchResult(events=tuple(events), next_revision=revision)

    def _transaction(self, command: commands.Transaction) -> results.Result:
        for operations in (command.then, command.otherwise):
            _check_once(operations)
        succeeded = all(self._holds(comparison) for comparison in command.comparisons)
        done = [self._do(operation) for operation in (command.then if succeeded else command.otherwise)]
        answers = cast("tuple[results.OperationResult, ...]", tuple(done))  # what is no operation is not in a list
        return results.TransactionResult(succeeded=succeeded, results=answers)

    def _holds(self, comparison: commands.Comparison) -> bool:
        there = self.now.get(comparison.key)
        left: bytes | int
        right: bytes | int
        if isinstance(comparison, commands.CompareValue):
            if there is None:
                return False
            left, right = there.value, comparison.value
        else:
            left, right = (getattr(there, comparison.field.value) if there else 0), comparison.number
        return {
            "=": left == right,
            "!=": left != right,
            "<": left < right,  # type: ignore[operator]
            ">": left > right,  # type: ignore[operator]
        }[comparison.operator.value]

    def _increment(self, key: bytes, delta: int) -> results.IncrementResult:
        there = self.now.get(key)
        text = there.value.decode("latin-1") if there else "0"
        if not any(text == str(number) for number in _numbers(text)):
            raise _ImpossibleError(_why(KeyValueError.NOT_A_NUMBER))
        if not -(2**63) <= int(text) + delta < 2**63:
            raise _ImpossibleError(_why(KeyValueError.NOT_A_NUMBER))
        self._put(key, str(int(text) + delta).encode(), there.lease_id if there else None)
        return results.IncrementResult(number=int(text) + delta)

    def _set_if(self, expected: bool, key: bytes, value: bytes, lease: LeaseId | None) -> results.CompareAndSetResult:
        if lease is not None:
            self._lease(lease)
        if expected:
            self._put(key, value, lease)
        return results.CompareAndSetResult(succeeded=expected, current=self.now.get(key))

    def _put(self, key: bytes, value: bytes, lease: LeaseId | None) -> None:
        if lease is not None:
            self._lease(lease)
        there, revision = self.now.get(key), self.revision + 1
        first = KeyValue(
            key=key, value=value, create_revision=revision, mod_revision=revision, version=1, lease_id=lease
        )
        self.now[key] = first
        if there is not None:
            self.now[key] = replace(first, create_revision=there.create_revision, version=there.version + 1)

    def _end(self, lease: LeaseId) -> int:
        del self.leases[lease]
        self.now = {key: there for key, there in self.states[-1].items() if there.lease_id != lease}
        return len(self.states[-1]) - len(self.now)

    def _lease(self, lease: LeaseId) -> tuple[int, int]:
        if lease not in self.leases:
            raise _ImpossibleError(_why(KeyValueError.LEASE_NOT_FOUND))
        return self.leases[lease]

    def _readable(self, revision: int | None) -> State:
        if revision is None:
            return self.now
        if revision < self.compacted:
            raise _ImpossibleError(results.Compacted(compact_revision=self.compacted))
        if revision > self.revision:
            raise _ImpossibleError(_why(KeyValueError.FUTURE_REVISION))
        return self.states[revision]


def _within(key: bytes, keys: KeyRange) -> bool:
    return key >= keys.start and (keys.end is None or key < keys.end)


def _numbers(text: str) -> Sequence[int]:
    try:
        return [int(text)]
    except ValueError:
        return []


def _check_once(operations: Sequence[commands.Operation]) -> None:
    written = [item.key for item in operations if isinstance(item, commands.Put | commands.Increment)]
    ranges = [item.keys for item in operations if isinstance(item, commands.Delete)]
    if len(written) != len({*written}) or any(_within(key, keys) for key in written for keys in ranges):
        raise _ImpossibleError(_why(KeyValueError.DUPLICATE_KEY))


def _why(error: KeyValueError) -> results.Rejected:
    """Only the error is compared, not what is said about it."""
    return results.Rejected(error=error, message="")
