"""The key-value store: commands and questions, one after the other, and their answers."""

from __future__ import annotations

import pytest

from replica.machines.key_value import (
    ALL_KEYS,
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
    Delete,
    DescribeLease,
    DescribeStore,
    Get,
    GrantLease,
    Increment,
    NumberField,
    Operator,
    Range,
    Request,
    RevokeLease,
    Transaction,
    Watch,
)
from replica.machines.key_value.results import (
    Compacted,
    CompactResult,
    CompareAndSetResult,
    DeleteResult,
    DescribeLeaseResult,
    DescribeStoreResult,
    GetResult,
    IncrementResult,
    LeaseResult,
    PutResult,
    RangeResult,
    Response,
    Result,
    TransactionResult,
    WatchResult,
)
from tests.machines.key_value_store import Store, kv, put

CONVERSATIONS: dict[str, list[tuple[Command | Request, int, Result]]] = {
    "put_and_get": [
        (Get(key=b"k"), 1, GetResult(found=None)),
        (put(b"k", b"1"), 2, PutResult()),
        (put(b"k", b"2"), 3, PutResult()),
        (Get(key=b"k"), 3, GetResult(found=kv(b"k", b"2", 2, 3, 2))),
        (Get(key=b"k", revision=2), 3, GetResult(found=kv(b"k", b"1", 2, 2, 1))),
        (Get(key=b"k", revision=1), 3, GetResult(found=None)),
    ],
    "a_key_that_comes_again_is_new": [
        (put(b"k", b"1"), 2, PutResult()),
        (Delete(keys=single(b"k")), 3, DeleteResult(deleted=1)),
        (Delete(keys=single(b"k")), 3, DeleteResult(deleted=0)),
        (put(b"k", b"2"), 4, PutResult()),
        (Get(key=b"k"), 4, GetResult(found=kv(b"k", b"2", 4, 4, 1))),
        (Get(key=b"k", revision=3), 4, GetResult(found=None)),
    ],
    "compare_and_set_by_value": [
        (
            CompareAndSetValue(key=b"k", expected=b"1", value=b"2"),
            1,
            CompareAndSetResult(succeeded=False, current=None),
        ),
        (
            CompareAndSetValue(key=b"k", expected=None, value=b"1"),
            2,
            CompareAndSetResult(succeeded=True, current=kv(b"k", b"1", 2, 2, 1)),
        ),
        (
            CompareAndSetValue(key=b"k", expected=None, value=b"5"),
            2,
            CompareAndSetResult(succeeded=False, current=kv(b"k", b"1", 2, 2, 1)),
        ),
        (
            CompareAndSetValue(key=b"k", expected=b"1", value=b"2"),
            3,
            CompareAndSetResult(succeeded=True, current=kv(b"k", b"2", 2, 3, 2)),
        ),
    ],
    "compare_and_set_by_revision": [
        (
            CompareAndSetRevision(key=b"k", mod_revision=0, value=b"1"),
            2,
            CompareAndSetResult(succeeded=True, current=kv(b"k", b"1", 2, 2, 1)),
        ),
        (
            CompareAndSetRevision(key=b"k", mod_revision=0, value=b"2"),
            2,
            CompareAndSetResult(succeeded=False, current=kv(b"k", b"1", 2, 2, 1)),
        ),
        (
            CompareAndSetRevision(key=b"k", mod_revision=2, value=b"1"),
            3,
            CompareAndSetResult(succeeded=True, current=kv(b"k", b"1", 2, 3, 2)),
        ),
    ],
    "increment": [
        (Increment(key=b"n"), 2, IncrementResult(number=1)),
        (Increment(key=b"n", delta=-11), 3, IncrementResult(number=-10)),
        (Get(key=b"n"), 3, GetResult(found=kv(b"n", b"-10", 2, 3, 2))),
    ],
    "ranges_are_in_the_order_of_bytes": [
        (put(b"b"), 2, PutResult()),
        (put(b"a/2"), 3, PutResult()),
        (put(b"a/1"), 4, PutResult()),
        (put(b"a"), 5, PutResult()),
        (
            Range(keys=prefix(b"a/")),
            5,
            RangeResult(found=(kv(b"a/1", b"v", 4, 4, 1), kv(b"a/2", b"v", 3, 3, 1)), more=False),
        ),
        (Range(keys=prefix(b"a/"), limit=1), 5, RangeResult(found=(kv(b"a/1", b"v", 4, 4, 1),), more=True)),
        (Range(keys=ALL_KEYS, revision=2), 5, RangeResult(found=(kv(b"b", b"v", 2, 2, 1),), more=False)),
        (Delete(keys=prefix(b"a")), 6, DeleteResult(deleted=3)),
        (Range(keys=ALL_KEYS), 6, RangeResult(found=(kv(b"b", b"v", 2, 2, 1),), more=False)),
    ],
    "a_transaction_is_one_revision": [
        (
            Transaction(
                comparisons=(CompareNumber(key=b"a", field=NumberField.VERSION, operator=Operator.EQUAL, number=0),),
                then=(put(b"a", b"1"), put(b"b", b"2"), Increment(key=b"n"), Get(key=b"a")),
                otherwise=(Get(key=b"a"),),
            ),
            2,
            TransactionResult(
                succeeded=True,
                results=(PutResult(), PutResult(), IncrementResult(number=1), GetResult(found=kv(b"a", b"1", 2, 2, 1))),
            ),
        ),
        (
            Transaction(
                comparisons=(CompareNumber(key=b"a", field=NumberField.VERSION, operator=Operator.EQUAL, number=0),),
                then=(put(b"a", b"9"),),
                otherwise=(Get(key=b"b"), Delete(keys=single(b"b")), Range(keys=ALL_KEYS, limit=1)),
            ),
            3,
            TransactionResult(
                succeeded=False,
                results=(
                    GetResult(found=kv(b"b", b"2", 2, 2, 1)),
                    DeleteResult(deleted=1),
                    RangeResult(found=(kv(b"a", b"1", 2, 2, 1),), more=True),
                ),
            ),
        ),
        (
            Transaction(comparisons=(), then=(Get(key=b"a"),), otherwise=()),
            3,
            TransactionResult(succeeded=True, results=(GetResult(found=kv(b"a", b"1", 2, 2, 1)),)),
        ),
    ],
    "what_happens_at_one_revision_is_watched_together": [
        (put(b"a"), 2, PutResult()),
        (
            Transaction(comparisons=(), then=(put(b"b"), Delete(keys=single(b"a")), put(b"c")), otherwise=()),
            3,
            TransactionResult(succeeded=True, results=(PutResult(), DeleteResult(deleted=1), PutResult())),
        ),
        (put(b"b", b"2"), 4, PutResult()),
        (
            Watch(keys=ALL_KEYS, from_revision=2, limit=2),
            4,
            WatchResult(
                events=(
                    kv(b"a", b"v", 2, 2, 1),
                    Tombstone(key=b"a", mod_revision=3),
                    kv(b"b", b"v", 3, 3, 1),
                    kv(b"c", b"v", 3, 3, 1),
                ),
                next_revision=4,
            ),
        ),
        (
            Watch(keys=ALL_KEYS, from_revision=4, limit=2),
            4,
            WatchResult(events=(kv(b"b", b"2", 3, 4, 2),), next_revision=5),
        ),
        (Watch(keys=ALL_KEYS, from_revision=5), 4, WatchResult(events=(), next_revision=5)),
        (Watch(keys=ALL_KEYS, from_revision=9), 4, WatchResult(events=(), next_revision=9)),
        (
            Watch(keys=single(b"c"), from_revision=1),
            4,
            WatchResult(events=(kv(b"c", b"v", 3, 3, 1),), next_revision=5),
        ),
    ],
    "compaction_forgets_what_was_before": [
        (put(b"a", b"1"), 2, PutResult()),
        (put(b"a", b"2"), 3, PutResult()),
        (put(b"b", b"1"), 4, PutResult()),
        (Delete(keys=single(b"b")), 5, DeleteResult(deleted=1)),
        (put(b"a", b"3"), 6, PutResult()),
        (Compact(revision=5), 6, CompactResult()),
        (Compact(revision=5), 6, Compacted(compact_revision=5)),
        (Get(key=b"a", revision=4), 6, Compacted(compact_revision=5)),
        (Range(keys=ALL_KEYS, revision=4), 6, Compacted(compact_revision=5)),
        (Watch(keys=ALL_KEYS, from_revision=4), 6, Compacted(compact_revision=5)),
        (Get(key=b"a", revision=5), 6, GetResult(found=kv(b"a", b"2", 2, 3, 2))),
        (
            Watch(keys=ALL_KEYS, from_revision=5),
            6,
            WatchResult(events=(Tombstone(key=b"b", mod_revision=5), kv(b"a", b"3", 2, 6, 3)), next_revision=7),
        ),
        (Compact(revision=6), 6, CompactResult()),
        (Get(key=b"a"), 6, GetResult(found=kv(b"a", b"3", 2, 6, 3))),
        (DescribeStore(), 6, DescribeStoreResult(compact_revision=6, keys=1, leases=0)),
    ],
    "leases_take_their_keys_along": [
        (GrantLease(ttl_ms=100), 1, LeaseResult(lease_id=LeaseId(1), ttl_ms=100)),
        (GrantLease(ttl_ms=100), 1, LeaseResult(lease_id=LeaseId(2), ttl_ms=100)),
        (put(b"b", lease=1), 2, PutResult()),
        (put(b"a", lease=1), 3, PutResult()),
        (put(b"c", lease=1), 4, PutResult()),
        (put(b"c", lease=2), 5, PutResult()),
        (DescribeLease(lease_id=LeaseId(1)), 5, DescribeLeaseResult(ttl_ms=100, left_ms=100, keys=(b"a", b"b"))),
        (RevokeLease(lease_id=LeaseId(1)), 6, DeleteResult(deleted=2)),
        (
            Watch(keys=ALL_KEYS, from_revision=6),
            6,
            WatchResult(
                events=(Tombstone(key=b"a", mod_revision=6), Tombstone(key=b"b", mod_revision=6)), next_revision=7
            ),
        ),
        (put(b"c"), 7, PutResult()),
        (RevokeLease(lease_id=LeaseId(2)), 7, DeleteResult(deleted=0)),
        (Get(key=b"c"), 7, GetResult(found=kv(b"c", b"v", 4, 7, 3))),
        (GrantLease(ttl_ms=100), 7, LeaseResult(lease_id=LeaseId(3), ttl_ms=100)),
    ],
    "an_increment_keeps_the_lease": [
        (GrantLease(ttl_ms=100), 1, LeaseResult(lease_id=LeaseId(1), ttl_ms=100)),
        (put(b"n", b"7", lease=1), 2, PutResult()),
        (Increment(key=b"n"), 3, IncrementResult(number=8)),
        (Get(key=b"n"), 3, GetResult(found=kv(b"n", b"8", 2, 3, 2, lease=1))),
    ],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_goes_as_told(store: Store, name: str) -> None:
    """Each command and question has the revision and the result of the table; a command that can be asked has both."""
    for number, (said, revision, result) in enumerate(CONVERSATIONS[name]):
        answers = []
        if not isinstance(said, Watch | DescribeLease | DescribeStore):
            answers.append(store.apply(said))
        if isinstance(said, Get | Range | Watch | DescribeLease | DescribeStore):
            answers.append(store.ask(said))
        assert all(answer == Response(revision=revision, result=result) for answer in answers), (number, answers)
