"""The bounds of the key-value store, its leases, its snapshots, and what it refuses.

What is random is in ``test_key_value_model``, and what it answers in turn in ``test_key_value_conversations``.
"""

from __future__ import annotations

import pytest

from replica.encoding import INT64_MAX
from replica.machines import CorruptSnapshotError, InvalidCommandError
from replica.machines.key_value import (
    ALL_KEYS,
    KeyRange,
    KeyValueMachine,
    LeaseId,
    Tombstone,
    prefix,
    single,
)
from replica.machines.key_value.commands import (
    Command,
    Compact,
    CompareAndSetRevision,
    CompareAndSetValue,
    CompareNumber,
    CompareValue,
    Delete,
    DescribeLease,
    DescribeStore,
    Get,
    GrantLease,
    Increment,
    KeepLeaseAlive,
    NumberField,
    Operation,
    Operator,
    Put,
    Range,
    RevokeLease,
    Transaction,
    Watch,
)
from replica.machines.key_value.results import (
    KeyValueError,
    LeaseResult,
    PutResult,
    RangeResult,
    TransactionResult,
    WatchResult,
)
from replica.machines.key_value.values import (
    ANSWER_BYTES_MAX,
    KEY_BYTES_MAX,
    LEASE_TTL_MS_MAX,
    OPERATIONS_MAX,
    RANGE_KEYS_MAX,
    VALUE_BYTES_MAX,
)
from tests.machines.key_value_store import Store, error_of, put

BIG = b"x" * (VALUE_BYTES_MAX + 1)
LONG = b"k" * (KEY_BYTES_MAX + 1)
GETS = (Get(key=b"k"),) * (OPERATIONS_MAX + 1)
HOLDS = CompareValue(key=b"k", operator=Operator.EQUAL, value=b"v")

REFUSED: dict[str, tuple[Command, KeyValueError]] = {
    "empty_key": (put(b""), KeyValueError.EMPTY_KEY),
    "long_key": (put(LONG), KeyValueError.KEY_TOO_LARGE),
    "large_value": (put(b"k", BIG), KeyValueError.VALUE_TOO_LARGE),
    "large_value_in_a_comparison_that_fails": (
        CompareAndSetValue(key=b"k", expected=None, value=BIG),
        KeyValueError.VALUE_TOO_LARGE,
    ),
    "empty_key_to_set": (CompareAndSetRevision(key=b"", mod_revision=0, value=b""), KeyValueError.EMPTY_KEY),
    "empty_key_to_increment": (Increment(key=b""), KeyValueError.EMPTY_KEY),
    "empty_key_to_compare": (
        Transaction(comparisons=(CompareValue(key=b"", operator=Operator.EQUAL, value=b""),), then=(), otherwise=()),
        KeyValueError.EMPTY_KEY,
    ),
    "future": (Get(key=b"k", revision=4), KeyValueError.FUTURE_REVISION),
    "future_compaction": (Compact(revision=4), KeyValueError.FUTURE_REVISION),
    "no_lease": (put(b"k", lease=9), KeyValueError.LEASE_NOT_FOUND),
    "no_lease_to_keep": (KeepLeaseAlive(lease_id=LeaseId(9)), KeyValueError.LEASE_NOT_FOUND),
    "no_lease_to_revoke": (RevokeLease(lease_id=LeaseId(9)), KeyValueError.LEASE_NOT_FOUND),
    "short_lease": (GrantLease(ttl_ms=0), KeyValueError.INVALID_TTL),
    "long_lease": (GrantLease(ttl_ms=LEASE_TTL_MS_MAX + 1), KeyValueError.INVALID_TTL),
    "text": (Increment(key=b"k"), KeyValueError.NOT_A_NUMBER),
    "overflow": (Increment(key=b"n", delta=INT64_MAX), KeyValueError.NOT_A_NUMBER),
    "comparisons": (
        Transaction(comparisons=(HOLDS,) * (OPERATIONS_MAX + 1), then=(), otherwise=()),
        KeyValueError.TOO_MANY_OPERATIONS,
    ),
    "operations": (Transaction(comparisons=(), then=GETS, otherwise=()), KeyValueError.TOO_MANY_OPERATIONS),
    "operations_not_chosen": (Transaction(comparisons=(), then=(), otherwise=GETS), KeyValueError.TOO_MANY_OPERATIONS),
    "twice": (Transaction(comparisons=(), then=(put(b"k"), put(b"k")), otherwise=()), KeyValueError.DUPLICATE_KEY),
    "twice_in_what_is_not_chosen": (
        Transaction(comparisons=(), then=(), otherwise=(put(b"k"), Increment(key=b"k"))),
        KeyValueError.DUPLICATE_KEY,
    ),
    "put_and_deleted": (
        Transaction(comparisons=(), then=(Delete(keys=prefix(b"k")), put(b"k")), otherwise=()),
        KeyValueError.DUPLICATE_KEY,
    ),
    "half_of_a_transaction": (
        Transaction(comparisons=(), then=(put(b"a"), Increment(key=b"k")), otherwise=()),
        KeyValueError.NOT_A_NUMBER,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_changes_nothing(store: Store, name: str) -> None:
    """A command that cannot be done is answered with why, and leaves every byte of the state as it was."""
    store.apply(put(b"k", b"text"))
    store.apply(put(b"n", b"1"))
    before = store.machine.view().encode()
    command, error = REFUSED[name]
    assert error_of(store.apply(command)) is error
    assert store.machine.view().encode() == before


def test_the_largest_of_everything_is_taken(store: Store) -> None:
    """A key, a value and a transaction of exactly the most are not refused."""
    assert store.apply(put(LONG[1:], BIG[1:])).result == PutResult()
    many = tuple(put(b"%d" % number) for number in range(OPERATIONS_MAX))
    assert isinstance(store.apply(Transaction(comparisons=(HOLDS,), then=(), otherwise=many)).result, TransactionResult)


@pytest.mark.parametrize(
    "value", [b"", b" 1", b"+1", b"01", b"1_0", b"-0", b"--1", b"9223372036854775808", b"1" * 5_000]
)
def test_only_plain_numbers_are_incremented(store: Store, value: bytes) -> None:
    """What Python would take for a number, and another reader not, is none."""
    store.apply(put(b"n", value))
    assert error_of(store.apply(Increment(key=b"n"))) is KeyValueError.NOT_A_NUMBER


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (CompareValue(key=b"k", operator=Operator.EQUAL, value=b"m"), True),
        (CompareValue(key=b"k", operator=Operator.NOT_EQUAL, value=b"m"), False),
        (CompareValue(key=b"k", operator=Operator.LESS, value=b"n"), True),
        (CompareValue(key=b"k", operator=Operator.LESS, value=b"m"), False),
        (CompareValue(key=b"k", operator=Operator.GREATER, value=b"l\xff"), True),
        (CompareValue(key=b"absent", operator=Operator.NOT_EQUAL, value=b"m"), False),
        (CompareValue(key=b"absent", operator=Operator.EQUAL, value=b""), False),
        (CompareNumber(key=b"k", field=NumberField.VERSION, operator=Operator.EQUAL, number=2), True),
        (CompareNumber(key=b"k", field=NumberField.CREATE_REVISION, operator=Operator.EQUAL, number=2), True),
        (CompareNumber(key=b"k", field=NumberField.MOD_REVISION, operator=Operator.GREATER, number=2), True),
        (CompareNumber(key=b"k", field=NumberField.MOD_REVISION, operator=Operator.GREATER, number=3), False),
        (CompareNumber(key=b"absent", field=NumberField.CREATE_REVISION, operator=Operator.EQUAL, number=0), True),
        (CompareNumber(key=b"absent", field=NumberField.MOD_REVISION, operator=Operator.LESS, number=1), True),
    ],
)
def test_comparisons_hold_as_in_etcd(store: Store, comparison: CompareValue | CompareNumber, expected: bool) -> None:
    """Values compare as bytes, numbers as numbers; a key that is not there has zeros, and no value."""
    store.apply(put(b"k", b"l"))
    store.apply(put(b"k", b"m"))
    response = store.apply(Transaction(comparisons=(comparison,), then=(), otherwise=()))
    assert response.result == TransactionResult(succeeded=expected, results=())


def test_leases_expire_by_log_time_one_revision_each(store: Store) -> None:
    """Each lease that has expired deletes its keys at a revision of its own: first the one that ended first."""
    for ttl_ms, key in ((300, b"late"), (200, b"b"), (200, b"a")):
        lease = store.apply(GrantLease(ttl_ms=ttl_ms)).result
        assert isinstance(lease, LeaseResult)
        store.apply(Put(key=key, value=b"", lease_id=lease.lease_id))
    store.apply(KeepLeaseAlive(lease_id=LeaseId(2)), at_ms=50)
    store.machine.advance(249)
    assert store.ask(Watch(keys=ALL_KEYS, from_revision=5)).result == WatchResult(
        events=(Tombstone(key=b"a", mod_revision=5),), next_revision=6
    )
    assert error_of(store.ask(DescribeLease(lease_id=LeaseId(3)))) is KeyValueError.LEASE_NOT_FOUND
    store.machine.advance(1_000)
    assert store.ask(Watch(keys=ALL_KEYS, from_revision=6)).result == WatchResult(
        events=(Tombstone(key=b"b", mod_revision=6), Tombstone(key=b"late", mod_revision=7)), next_revision=8
    )


def test_a_lease_that_has_expired_cannot_be_kept(store: Store) -> None:
    """A lease is gone from the moment at which its time has passed, also for the command of that moment."""
    store.apply(GrantLease(ttl_ms=100))
    assert store.apply(KeepLeaseAlive(lease_id=LeaseId(1)), at_ms=99).result == LeaseResult(
        lease_id=LeaseId(1), ttl_ms=100
    )
    assert error_of(store.apply(KeepLeaseAlive(lease_id=LeaseId(1)), at_ms=199)) is KeyValueError.LEASE_NOT_FOUND


def test_an_answer_is_bounded_in_keys_and_bytes(store: Store) -> None:
    """A range and a watch end early, and say so, where they would hold too much."""
    for number in range(6):
        store.apply(put(b"large/%d" % number, bytes(ANSWER_BYTES_MAX // 4)))
    large = store.ask(Range(keys=prefix(b"large/"))).result
    watched = store.ask(Watch(keys=ALL_KEYS, from_revision=1)).result
    assert isinstance(large, RangeResult)
    assert isinstance(watched, WatchResult)
    assert (len(large.found), large.more) == (4, True)
    assert (len(watched.events), watched.next_revision) == (4, 6)
    for number in range(RANGE_KEYS_MAX + 1):
        store.apply(put(b"many/%d" % number, b""))
    many = store.ask(Range(keys=prefix(b"many/"), limit=10 * RANGE_KEYS_MAX)).result
    assert isinstance(many, RangeResult)
    assert (len(many.found), many.more) == (RANGE_KEYS_MAX, True)


def test_the_gets_of_a_transaction_hold_no_more_than_an_answer(store: Store) -> None:
    """Values that are too large together, there before or put by the transaction itself, are refused before a write."""
    store.apply(put(b"k", bytes(ANSWER_BYTES_MAX)))
    before = store.machine.view().encode()
    get = Get(key=b"k")
    own = (put(b"own", bytes(ANSWER_BYTES_MAX)), Get(key=b"own"), Get(key=b"own"))
    for then in ((put(b"n"), get, get), own):
        command = Transaction(comparisons=(), then=then, otherwise=())
        assert error_of(store.apply(command)) is KeyValueError.ANSWER_TOO_LARGE
    assert store.machine.view().encode() == before
    assert isinstance(store.apply(Transaction(comparisons=(), then=(get,), otherwise=own)).result, TransactionResult)


def test_the_ranges_of_a_transaction_share_one_answer(store: Store) -> None:
    """Ranges and gets of one transaction hold together what one range may, in bytes and in keys."""
    for number in range(6):
        store.apply(put(b"large/%d" % number, bytes(ANSWER_BYTES_MAX // 4)))
    every = Range(keys=prefix(b"large/"))
    for then, counts in (((every, every), [4, 0]), ((Range(keys=prefix(b"large/"), limit=3), every), [3, 1])):
        assert found_by(store, *then) == [(count, True) for count in counts]
    assert found_by(store, Get(key=b"large/0"), every) == [(3, True)]
    for number in range(RANGE_KEYS_MAX // 2 + 1):
        store.apply(put(b"many/%d" % number, b""))
    many = Range(keys=prefix(b"many/"))
    assert found_by(store, many, many) == [(RANGE_KEYS_MAX // 2 + 1, False), (RANGE_KEYS_MAX // 2 - 1, True)]


def found_by(store: Store, *then: Operation) -> list[tuple[int, bool]]:
    """How many keys each range of a transaction finds, and whether there are more."""
    done = store.apply(Transaction(comparisons=(), then=then, otherwise=())).result
    assert isinstance(done, TransactionResult)
    return [(len(result.found), result.more) for result in done.results if isinstance(result, RangeResult)]


@pytest.mark.parametrize(
    ("start", "end"), [(b"a", b"b"), (b"a\xff", b"b"), (b"a/", b"a0"), (b"\xff\xff", None), (b"", None)]
)
def test_a_prefix_is_a_range(start: bytes, end: bytes | None) -> None:
    """The range of a prefix ends where the next one of its length begins, or never."""
    assert prefix(start) == KeyRange(start=start, end=end)


def test_questions_change_nothing(store: Store) -> None:
    """After any question every byte of the state is as it was."""
    for number in range(20):
        store.apply(put(b"%d" % (number % 7)))
    store.apply(GrantLease(ttl_ms=50))
    store.apply(Compact(revision=9))
    before = store.machine.view().encode()
    for request in (
        Get(key=b"3", revision=12),
        Range(keys=ALL_KEYS),
        Watch(keys=ALL_KEYS, from_revision=9),
        DescribeLease(lease_id=LeaseId(1)),
        DescribeStore(),
        Get(key=b"3", revision=2),
    ):
        store.ask(request)
    assert store.machine.view().encode() == before


def test_a_restored_store_answers_alike(store: Store) -> None:
    """Behind a compaction and a restore every revision is read, watched and compacted as in the store itself."""
    for number in range(12):
        store.apply(put(b"%d" % (number % 5)))
        store.apply(Delete(keys=single(b"%d" % (number % 3))))
    store.apply(Compact(revision=9))
    store.apply(GrantLease(ttl_ms=50))
    store.apply(RevokeLease(lease_id=LeaseId(1)))
    restored = Store()
    restored.machine.restore(store.machine.view().encode())
    for revision in range(9, 26):
        for request in (Watch(keys=ALL_KEYS, from_revision=revision), Range(keys=ALL_KEYS, revision=revision)):
            assert restored.ask(request) == store.ask(request)
    assert restored.apply(GrantLease(ttl_ms=50)) == store.apply(GrantLease(ttl_ms=50))
    for revision in (10, 15, 20):
        assert restored.apply(Compact(revision=revision)) == store.apply(Compact(revision=revision))
        assert restored.machine.view().encode() == store.machine.view().encode()


def test_a_version_goes_with_the_compaction_at_which_it_was_replaced(store: Store) -> None:
    """What was replaced exactly at the compact revision is forgotten then, and not only at the next compaction."""
    store.apply(put(b"k", b"1"))
    store.apply(put(b"other"))
    store.apply(Compact(revision=3))
    before = len(store.machine.view().encode())
    store.apply(put(b"k", b"2"))
    store.apply(Compact(revision=4))
    assert len(store.machine.view().encode()) == before


def test_what_is_no_command_is_said_so(store: Store) -> None:
    """Bytes that are no command, or no question, are invalid."""
    with pytest.raises(InvalidCommandError, match="byte 1: unknown tag 99"):
        store.machine.apply(b"\0\x63", time_ms=0)
    with pytest.raises(InvalidCommandError, match="byte 0"):
        store.machine.query(b"")


def test_compaction_frees_what_it_forgets(store: Store) -> None:
    """A snapshot behind a compaction is no larger than one of a store that never had the old versions."""
    for number in range(100):
        store.apply(put(b"k", b"%03d" % number))
        store.apply(put(b"gone", b""))
    store.apply(Delete(keys=single(b"gone")))
    store.apply(put(b"k", b"end"))
    before = len(store.machine.view().encode())
    store.apply(Compact(revision=203))
    single_put = Store()
    single_put.apply(put(b"k", b"end"))
    assert before > 200 * 20
    assert len(store.machine.view().encode()) == len(single_put.machine.view().encode())


@pytest.mark.parametrize(
    ("found", "put_there", "reason"),
    [
        pytest.param(b"\0" * 8, b"\1" + b"\0" * 7, "version 1", id="version"),
        pytest.param(b"\x03" + bytes(8), b"\x09" + bytes(8), "2 versions from revision 1 to 9", id="revision"),
        pytest.param(b"\x03" + bytes(8), b"\x02" + bytes(8), "at 3, ahead of 2", id="ahead"),
        pytest.param(b"\0\0\0\1a", b"\0\0\0\1c", "out of order", id="order"),
        pytest.param(b"\1\0\0\0\1a", b"\7\0\0\0\1a", "unknown tag 7", id="tag"),
    ],
)
def test_a_snapshot_that_cannot_be_is_refused(store: Store, found: bytes, put_there: bytes, reason: str) -> None:
    """A snapshot of another version, and one that contradicts itself, are corrupt."""
    store.apply(put(b"a"))
    store.apply(put(b"b"))
    snapshot = store.machine.view().encode()
    assert found in snapshot
    with pytest.raises(CorruptSnapshotError, match=reason):
        KeyValueMachine().restore(snapshot.replace(found, put_there, 1))


def test_a_snapshot_with_a_key_of_no_lease_is_refused(store: Store) -> None:
    """A key cannot be attached to a lease that is not there."""
    store.apply(GrantLease(ttl_ms=100))
    store.apply(put(b"a", lease=1))
    data = bytearray(store.machine.view().encode())
    data[-1] = 5
    with pytest.raises(CorruptSnapshotError, match="has lease 5, which is not there"):
        KeyValueMachine().restore(bytes(data))
