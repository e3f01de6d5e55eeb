"""The key-value store as a state machine: each command and each question, and what it does.

Owns the way of a command: decoded, checked, done, committed, answered. Every failure is an answer, given before
anything has changed.

Source: the semantics are those of etcd's v3 API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from replica.encoding import MalformedError
from replica.machines.key_value.commands import (
    Command,
    Compact,
    CompareAndSetRevision,
    CompareAndSetValue,
    Delete,
    DescribeLease,
    DescribeStore,
    Get,
    GrantLease,
    Increment,
    KeepLeaseAlive,
    Put,
    Range,
    Request,
    RevokeLease,
    Transaction,
    Watch,
)
from replica.machines.key_value.encoding import decode_command, decode_request, encode_response
from replica.machines.key_value.operations import (
    answer_failure,
    holds,
    lease_failure,
    operation_failure,
    overlap_failure,
    perform,
    perform_all,
    revision_failure,
    size_failure,
)
from replica.machines.key_value.results import (
    Compacted,
    CompactResult,
    CompareAndSetResult,
    DeleteResult,
    DescribeLeaseResult,
    DescribeStoreResult,
    Failure,
    KeyValueError,
    LeaseResult,
    Rejected,
    Response,
    Result,
    TransactionResult,
)
from replica.machines.key_value.state import KeyValueState, KeyValueView
from replica.machines.key_value.values import (
    ANSWER_BYTES_MAX,
    KEY_BYTES_MAX,
    LEASE_TTL_MS_MAX,
    LEASES_MAX,
    OPERATIONS_MAX,
    RANGE_KEYS_MAX,
    VALUE_BYTES_MAX,
    KeyValue,
    LeaseId,
)
from replica.machines.key_value.watching import watch
from replica.machines.machine import CorruptSnapshotError, InvalidCommandError, StateMachine


class KeyValueMachine(StateMachine):
    """The store. Commands, requests and replies are bytes of ``key_value.encoding``."""

    def __init__(self) -> None:
        self._state = KeyValueState()

    def traits(self) -> Mapping[str, int]:
        """The bounds that a command is rejected by, or its answer is cut at."""
        return {
            "version": 1,
            "answer_bytes_max": ANSWER_BYTES_MAX,
            "key_bytes_max": KEY_BYTES_MAX,
            "lease_ttl_ms_max": LEASE_TTL_MS_MAX,
            "leases_max": LEASES_MAX,
            "operations_max": OPERATIONS_MAX,
            "range_keys_max": RANGE_KEYS_MAX,
            "value_bytes_max": VALUE_BYTES_MAX,
        }

    def advance(self, time_ms: int) -> None:
        """End the leases that have expired. Raises CorruptSnapshotError for a state that was restored from later."""
        if time_ms < self._state.time_ms:
            raise CorruptSnapshotError(f"the store is of {self._state.time_ms} ms, log time is {time_ms} ms")
        self._state.advance(time_ms)

    def apply(self, command: bytes, *, time_ms: int) -> bytes:
        """Perform one command, and answer with a Response."""
        try:
            decoded = decode_command(command)
        except MalformedError as error:
            raise InvalidCommandError(str(error)) from error
        self._state.advance(time_ms)
        result = self._perform(decoded)
        self._state.store.commit()
        return encode_response(Response(revision=self._state.store.revision, result=result))

    def query(self, request: bytes) -> bytes:
        """Answer a question with a Response."""
        try:
            decoded = decode_request(request)
        except MalformedError as error:
            raise InvalidCommandError(str(error)) from error
        return encode_response(Response(revision=self._state.store.revision, result=self._answer(decoded)))

    def view(self) -> KeyValueView:
        """All keys, versions and leases as they stand."""
        return self._state.view()

    def restore(self, snapshot: bytes) -> None:
        """Read them back."""
        self._state.restore(snapshot)

    def _perform(self, command: Command) -> Result:
        match command:
            case Put() | Delete() | Increment() | Get() | Range():
                return operation_failure(self._state, command) or perform(self._state, command)
            case CompareAndSetValue(key=key, expected=expected):
                current = self._state.store.get(key)
                return self._set_if(command, current, (None if current is None else current.value) == expected)
            case CompareAndSetRevision(key=key, mod_revision=mod_revision):
                current = self._state.store.get(key)
                return self._set_if(command, current, (0 if current is None else current.mod_revision) == mod_revision)
            case Transaction():
                return self._transaction(command)
            case GrantLease(ttl_ms=ttl_ms):
                return self._grant(ttl_ms)
            case KeepLeaseAlive(lease_id=lease_id):
                return lease_failure(self._state, lease_id) or self._keep_alive(lease_id)
            case RevokeLease(lease_id=lease_id):
                return lease_failure(self._state, lease_id) or DeleteResult(deleted=self._state.end_lease(lease_id))
            case Compact(revision=revision):
                return self._compact(revision)
            case _:
                assert_never(command)

    def _answer(self, request: Request) -> Result:
        match request:
            case Get() | Range():
                return operation_failure(self._state, request) or perform(self._state, request)
            case Watch():
                return watch(self._state.store, request)
            case DescribeLease(lease_id=lease_id):
                return lease_failure(self._state, lease_id) or self._describe_lease(lease_id)
            case DescribeStore():
                return DescribeStoreResult(
                    compact_revision=self._state.store.compact_revision,
                    keys=self._state.store.live_keys,
                    leases=len(self._state.leases),
                )
            case _:
                assert_never(request)

    def _set_if(
        self, command: CompareAndSetValue | CompareAndSetRevision, current: KeyValue | None, expected: bool
    ) -> Result:
        failure = size_failure(command.key, command.value) or lease_failure(self._state, command.lease_id)
        if failure is not None:
            return failure
        if not expected:
            return CompareAndSetResult(succeeded=False, current=current)
        return CompareAndSetResult(
            succeeded=True, current=self._state.put(command.key, command.value, command.lease_id)
        )

    def _transaction(self, transaction: Transaction) -> Result:
        failure = _shape_failure(transaction)
        if failure is not None:
            return failure
        succeeded = all(holds(self._state.store, comparison) for comparison in transaction.comparisons)
        chosen = transaction.then if succeeded else transaction.otherwise
        for operation in chosen:
            failure = operation_failure(self._state, operation)
            if failure is not None:
                return failure
        failure = answer_failure(self._state, chosen)
        if failure is not None:
            return failure
        return TransactionResult(succeeded=succeeded, results=perform_all(self._state, chosen))

    def _grant(self, ttl_ms: int) -> Result:
        if not 1 <= ttl_ms <= LEASE_TTL_MS_MAX:
            return Rejected(KeyValueError.INVALID_TTL, f"a lease lives from 1 to {LEASE_TTL_MS_MAX} ms, not {ttl_ms}")
        leases = self._state.leases
        if len(leases) >= LEASES_MAX:
            return Rejected(KeyValueError.TOO_MANY_LEASES, f"there are {len(leases)} leases, and may be no more")
        return LeaseResult(lease_id=leases.grant(ttl_ms=ttl_ms, time_ms=self._state.time_ms), ttl_ms=ttl_ms)

    def _keep_alive(self, lease_id: LeaseId) -> Result:
        ttl_ms = self._state.leases.keep_alive(lease_id, time_ms=self._state.time_ms)
        return LeaseResult(lease_id=lease_id, ttl_ms=ttl_ms)

    def _compact(self, revision: int) -> Result:
        store = self._state.store
        if revision <= store.compact_revision:
            return Compacted(compact_revision=store.compact_revision)
        failure = revision_failure(store, revision)
        if failure is None:
            store.compact(revision)
        return failure or CompactResult()

    def _describe_lease(self, lease_id: LeaseId) -> Result:
        leases = self._state.leases
        return DescribeLeaseResult(
            ttl_ms=leases.ttl_ms(lease_id),
            left_ms=leases.expires_at_ms(lease_id) - self._state.time_ms,
            keys=leases.keys(lease_id),
        )


def _shape_failure(transaction: Transaction) -> Failure | None:
    """Why a transaction cannot be done, whatever the state."""
    largest = max(len(transaction.comparisons), len(transaction.then), len(transaction.otherwise))
    if largest > OPERATIONS_MAX:
        return Rejected(KeyValueError.TOO_MANY_OPERATIONS, f"{largest} in one list, the most is {OPERATIONS_MAX}")
    for comparison in transaction.comparisons:
        failure = size_failure(comparison.key)
        if failure is not None:
            return failure
    return overlap_failure(transaction.then) or overlap_failure(transaction.otherwise)
