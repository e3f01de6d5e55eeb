"""What a transaction is made of: comparisons and operations, each checked before anything is done.

Owns the rules by which an operation is refused, and what each does to the state. An operation that passes its check
cannot fail: so a transaction is checked as a whole, and then done as a whole. That the check looks at the state before
the transaction is right, because no key is written twice in one.

Source: etcd's ``apply`` (``checkTxnRequest``, ``checkIntervals``, ``applyCompares``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, assert_never

from replica.encoding import INT64_MAX, INT64_MIN
from replica.machines.key_value.commands import (
    CompareNumber,
    CompareValue,
    Comparison,
    Delete,
    Get,
    Increment,
    NumberField,
    Operation,
    Operator,
    Put,
    Range,
)
from replica.machines.key_value.results import (
    Compacted,
    DeleteResult,
    Failure,
    GetResult,
    IncrementResult,
    KeyValueError,
    OperationResult,
    PutResult,
    RangeResult,
    Rejected,
)
from replica.machines.key_value.state import KeyValueState
from replica.machines.key_value.store import Store
from replica.machines.key_value.values import (
    ANSWER_BYTES_MAX,
    KEY_BYTES_MAX,
    RANGE_KEYS_MAX,
    VALUE_BYTES_MAX,
    KeyValue,
    LeaseId,
)

V = TypeVar("V", bytes, int)

_NUMBER_BYTES_MAX = len(str(INT64_MIN))


def size_failure(key: bytes, value: bytes = b"") -> Rejected | None:
    """Why a key and a value cannot be in the store."""
    if not key:
        return Rejected(KeyValueError.EMPTY_KEY, "a key has a byte at least")
    if len(key) > KEY_BYTES_MAX:
        return Rejected(KeyValueError.KEY_TOO_LARGE, f"the key has {len(key)} bytes, the most is {KEY_BYTES_MAX}")
    if len(value) > VALUE_BYTES_MAX:
        return Rejected(
            KeyValueError.VALUE_TOO_LARGE, f"the value has {len(value)} bytes, the most is {VALUE_BYTES_MAX}"
        )
    return None


def lease_failure(state: KeyValueState, lease_id: LeaseId | None) -> Rejected | None:
    """Why nothing can be attached to a lease."""
    if lease_id is None or lease_id in state.leases:
        return None
    return Rejected(KeyValueError.LEASE_NOT_FOUND, f"there is no lease {lease_id}, or no longer")


def revision_failure(store: Store, revision: int | None) -> Failure | None:
    """Why a revision cannot be read."""
    if revision is None:
        return None
    if revision < store.compact_revision:
        return Compacted(compact_revision=store.compact_revision)
    if revision > store.revision:
        return Rejected(KeyValueError.FUTURE_REVISION, f"revision {revision} is ahead of {store.revision}")
    return None


def operation_failure(state: KeyValueState, operation: Operation) -> Failure | None:
    """Why an operation cannot be done in this state."""
    match operation:
        case Put(key=key, value=value, lease_id=lease_id):
            return size_failure(key, value) or lease_failure(state, lease_id)
        case Delete():
            return None
        case Increment(key=key, delta=delta):
            return size_failure(key) or _sum_failure(state.store.get(key), delta)
        case Get(key=key, revision=revision):
            return size_failure(key) or revision_failure(state.store, revision)
        case Range(revision=revision):
            return revision_failure(state.store, revision)
        case _:
            assert_never(operation)


def overlap_failure(operations: Sequence[Operation]) -> Rejected | None:
    """Why a list of operations cannot be done at one revision, whatever the state: it may write a key twice."""
    written = [operation.key for operation in operations if isinstance(operation, Put | Increment)]
    deleted = [operation.keys for operation in operations if isinstance(operation, Delete)]
    if len(set(written)) < len(written):
        return Rejected(KeyValueError.DUPLICATE_KEY, "a key is written twice")
    if any(keys.contains(key) for keys in deleted for key in written):
        return Rejected(KeyValueError.DUPLICATE_KEY, "a key is written and deleted")
    return None


def answer_failure(state: KeyValueState, operations: Sequence[Operation]) -> Rejected | None:
    """Why a list of operations cannot be answered: the keys that it gets, as they are or as it puts them, are large."""
    held = 0
    for size_bytes in _got_bytes(state, operations):
        if held >= ANSWER_BYTES_MAX:
            message = f"the keys that are got hold more than {ANSWER_BYTES_MAX} bytes"
            return Rejected(KeyValueError.ANSWER_TOO_LARGE, message)
        held += size_bytes
    return None


def perform_all(state: KeyValueState, operations: Sequence[Operation]) -> tuple[OperationResult, ...]:
    """Do operations that nothing speaks against. What they get and their ranges share the room of one answer."""
    bytes_left = max(0, ANSWER_BYTES_MAX - sum(_got_bytes(state, operations)))
    keys_left = RANGE_KEYS_MAX
    results: list[OperationResult] = []
    for operation in operations:
        result = perform(state, operation, keys_max=keys_left, bytes_max=bytes_left)
        if isinstance(result, RangeResult):
            keys_left -= len(result.found)
            bytes_left -= sum(current.size_bytes for current in result.found)
        results.append(result)
    return tuple(results)


def perform(
    state: KeyValueState, operation: Operation, *, keys_max: int = RANGE_KEYS_MAX, bytes_max: int = ANSWER_BYTES_MAX
) -> OperationResult:
    """Do an operation that ``operation_failure`` has nothing against. A range ends at so many keys or bytes."""
    match operation:
        case Put(key=key, value=value, lease_id=lease_id):
            state.put(key, value, lease_id)
            return PutResult()
        case Delete(keys=keys):
            return DeleteResult(deleted=state.delete(keys))
        case Increment(key=key, delta=delta):
            return _increment(state, key, delta)
        case Get(key=key, revision=revision):
            return GetResult(found=state.store.get(key, revision))
        case Range(keys=keys, limit=limit, revision=revision):
            found, more = state.store.range(
                keys, limit=min(limit or keys_max, keys_max), revision=revision, bytes_max=bytes_max
            )
            return RangeResult(found=found, more=more)
        case _:
            assert_never(operation)


def holds(store: Store, comparison: Comparison) -> bool:
    """Tell whether a comparison holds now."""
    current = store.get(comparison.key)
    match comparison:
        case CompareValue(operator=operator, value=value):
            return current is not None and _compares(operator, current.value, value)
        case CompareNumber(field=field, operator=operator, number=number):
            return _compares(operator, 0 if current is None else _number_of(current, field), number)
        case _:
            assert_never(comparison)


def _got_bytes(state: KeyValueState, operations: Sequence[Operation]) -> list[int]:
    """How many bytes each key that is got may have at most, whatever stands between."""
    put = {operation.key: len(operation.value) for operation in operations if isinstance(operation, Put)}
    sizes = []
    for operation in operations:
        if isinstance(operation, Get):
            current = state.store.get(operation.key, operation.revision)
            there = 0 if current is None else len(current.value)
            sizes.append(len(operation.key) + max(there, put.get(operation.key, 0)))
    return sizes


def _compares(operator: Operator, left: V, right: V) -> bool:
    match operator:
        case Operator.EQUAL:
            return left == right
        case Operator.NOT_EQUAL:
            return left != right
        case Operator.LESS:
            return left < right
        case Operator.GREATER:
            return left > right
        case _:
            assert_never(operator)


def _number_of(current: KeyValue, field: NumberField) -> int:
    match field:
        case NumberField.VERSION:
            return current.version
        case NumberField.CREATE_REVISION:
            return current.create_revision
        case NumberField.MOD_REVISION:
            return current.mod_revision
        case _:
            assert_never(field)


def _increment(state: KeyValueState, key: bytes, delta: int) -> IncrementResult:
    current = state.store.get(key)
    number = _parsed(current)
    assert number is not None, current
    state.put(key, b"%d" % (number + delta), None if current is None else current.lease_id)
    return IncrementResult(number=number + delta)


def _sum_failure(current: KeyValue | None, delta: int) -> Rejected | None:
    number = _parsed(current)
    if number is None:
        return Rejected(KeyValueError.NOT_A_NUMBER, "the value is no number of 64 bits in plain digits")
    if not INT64_MIN <= number + delta <= INT64_MAX:
        return Rejected(KeyValueError.NOT_A_NUMBER, f"{number} and {delta} make no number of 64 bits")
    return None


def _parsed(current: KeyValue | None) -> int | None:
    """The number that a key holds, 0 if it is not there; absent for anything but the plain digits of an int64."""
    if current is None:
        return 0
    digits = current.value[1:] if current.value[:1] == b"-" else current.value
    if not digits.isdigit() or len(current.value) > _NUMBER_BYTES_MAX:
        return None
    number = int(current.value)
    return number if b"%d" % number == current.value and INT64_MIN <= number <= INT64_MAX else None
