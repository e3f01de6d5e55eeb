"""The typed client of the key-value store: every command and question, what is raised, and watches without gaps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from replica.client.failures import NotWrittenError, OutcomeUnknownError, ReadFailedError
from replica.client.groups.key_value import STALE, KeyValueClient, ReadFrom
from replica.client.groups.key_value_failures import KeyValueRejectedError, RevisionCompactedError
from replica.client.groups.queries import Node
from replica.client.groups.watch import WatchConfig
from replica.core import messages as m
from replica.core.messages import Consistency
from replica.ids import ReplicaId
from replica.machines import EncodedState, StateMachine
from replica.machines.key_value import KeyRange, KeyValue, KeyValueMachine, encode_response, prefix, results
from replica.machines.key_value.commands import (
    CompareNumber,
    CompareValue,
    Comparison,
    Get,
    Increment,
    NumberField,
    Operation,
    Operator,
    Put,
    Range,
)
from tests.client.group_fakes import ADDRESSES, VIEW, FakeGroup, Fate

WATCH = WatchConfig(poll_ms=100, timeout_ms=500, events_max=2)


@pytest.fixture
def group() -> FakeGroup:
    """Three replicas of a store, the first of which leads."""
    return FakeGroup(KeyValueMachine)


def store(group: FakeGroup) -> KeyValueClient:
    return KeyValueClient("r1:1", "g", view_config=VIEW, connections=group, clock=group.clock, random=Random(0))


def key(name: bytes, value: bytes, *, at: int, made: int | None = None, version: int = 1) -> KeyValue:
    return KeyValue(key=name, value=value, create_revision=made or at, mod_revision=at, version=version)


async def test_keys_are_put_got_and_deleted(group: FakeGroup) -> None:
    """Each change makes a revision; what was can be read at its revision."""
    async with store(group) as client:
        assert (await client.put(b"a", b"1")).revision == 2
        assert (await client.get_revised(b"a")).result.found == key(b"a", b"1", at=2)
        assert await client.get(b"a") == b"1"
        assert (await client.put(b"a", b"2")).revision == 3
        deleted = await client.delete(b"a")
        assert (deleted.revision, deleted.result.deleted) == (4, 1)
        assert (await client.get_revised(b"a")).result.found is None
        assert await client.get(b"a") is None
        assert await client.get(b"a", revision=3) == b"2"
        assert (await client.get_revised(b"a", revision=3)).result.found == key(b"a", b"2", at=3, made=2, version=2)
        assert (await client.delete(prefix(b""))).result.deleted == 0


async def test_a_value_is_compared_and_set(group: FakeGroup) -> None:
    """By value and by revision; in either case it is told what stands there then."""
    async with store(group) as client:
        made = await client.compare_and_set(b"a", None, b"1")
        assert made.result == results.CompareAndSetResult(succeeded=True, current=key(b"a", b"1", at=2))
        failed = await client.compare_and_set(b"a", b"0", b"2")
        assert failed.result == results.CompareAndSetResult(succeeded=False, current=key(b"a", b"1", at=2))
        assert (await client.compare_and_set_revision(b"a", 2, b"3")).result.succeeded
        assert not (await client.compare_and_set_revision(b"a", 0, b"4")).result.succeeded


async def test_a_transaction_is_done_at_one_revision(group: FakeGroup) -> None:
    """The list that the comparisons choose is done, and its results come in its order."""
    async with store(group) as client:
        assert (await client.increment(b"n", 5)).result.number == 5
        compared: list[Comparison] = [
            CompareValue(key=b"n", operator=Operator.EQUAL, value=b"5"),
            CompareNumber(key=b"x", field=NumberField.VERSION, operator=Operator.EQUAL, number=0),
        ]
        operations: list[Operation] = [Put(key=b"x", value=b""), Increment(key=b"n"), Get(key=b"n")]
        done = await client.transact(compared, operations)
        assert done.result == results.TransactionResult(
            succeeded=True,
            results=(
                results.PutResult(),
                results.IncrementResult(number=6),
                results.GetResult(found=key(b"n", b"6", at=3, made=2, version=2)),
            ),
        )
        other = await client.transact(compared, operations, [Get(key=b"y")])
        assert other.result == results.TransactionResult(succeeded=False, results=(results.GetResult(found=None),))


async def test_ranges_are_read_in_pieces(group: FakeGroup) -> None:
    """A limit ends a range, which tells that it goes on; a stale one may come from any replica."""
    async with store(group) as client:
        for name in (b"a1", b"a2", b"b"):
            await client.put(name, b"")
        first = await client.range(prefix(b"a"), limit=1)
        assert ([found.key for found in first.result.found], first.result.more) == ([b"a1"], True)
        rest = KeyRange(start=b"a1\0", end=None)
        assert [found.key for found in (await client.range(rest, read_from=STALE)).result.found] == [b"a2", b"b"]
        group.held_back.add(ReplicaId(3))
        await client.put(b"c", b"")
        behind = ReadFrom(consistency=Consistency.STALE, node=ReplicaId(3))
        assert (await client.get_revised(b"c", read_from=behind)).result.found is None


async def test_leases_take_their_keys_along(group: FakeGroup) -> None:
    """A lease is granted, kept alive and revoked; its keys go with it."""
    async with store(group) as client:
        lease_id = (await client.grant_lease(10_000)).result.lease_id
        await client.put(b"a", b"1", lease_id=lease_id)
        assert (await client.describe_lease(lease_id)).result.keys == (b"a",)
        assert (await client.keep_lease_alive(lease_id)).result.ttl_ms == 10_000
        assert (await client.revoke_lease(lease_id)).result.deleted == 1
        with pytest.raises(KeyValueRejectedError, match="LEASE_NOT_FOUND") as told:
            await client.keep_lease_alive(lease_id)
        assert told.value.rejection is results.KeyValueError.LEASE_NOT_FOUND
        assert (await client.describe()).result.keys == 0


async def test_what_the_store_rejects_is_certainly_not_done(group: FakeGroup) -> None:
    """A rejected command and a rejected question are errors of their kinds; a forgotten revision is told."""
    async with store(group) as client:
        with pytest.raises(NotWrittenError, match="EMPTY_KEY"):
            await client.put(b"", b"1")
        with pytest.raises(ReadFailedError, match="FUTURE_REVISION"):
            await client.get_revised(b"a", revision=9)
        for value in (b"1", b"2", b"3"):
            await client.put(b"a", value)
        await client.compact(3)
        with pytest.raises(RevisionCompactedError) as told:
            await client.get_revised(b"a", revision=2)
        assert told.value.compact_revision == 3


async def test_an_increment_whose_answers_are_lost_counts_once(group: FakeGroup) -> None:
    """Repetition changes nothing, neither the number nor the revision."""
    async with store(group) as client:
        await client.increment(b"n")
        group.fates.extend([Fate.ANSWER_LOST, Fate.APPLIED_LATE, Fate.ANSWER_LOST])
        counted = await client.increment(b"n")
        assert (counted.revision, counted.result.number) == (3, 2)


class Parrot(StateMachine):
    """A machine that has one answer to everything."""

    def __init__(self, reply: bytes) -> None:
        self._reply = reply

    def apply(self, command: bytes, *, time_ms: int) -> bytes:
        """The answer."""
        return self._reply

    def query(self, request: bytes) -> bytes:
        """The answer."""
        return self._reply

    def view(self) -> EncodedState:
        """There is no state."""
        return EncodedState(b"")

    def restore(self, snapshot: bytes) -> None:
        """There is no state."""


@pytest.mark.parametrize(
    ("machine", "complaint"),
    [
        (Parrot(b"5"), "the answer is none of a key-value store"),
        (
            Parrot(encode_response(results.Response(revision=1, result=results.CompactResult()))),
            "the store answered with CompactResult, not",
        ),
    ],
)
async def test_another_machine_is_noticed(machine: StateMachine, complaint: str) -> None:
    """What is no answer to the question is no answer: of a command it leaves a doubt."""
    group = FakeGroup(lambda: machine)
    async with store(group) as client:
        with pytest.raises(OutcomeUnknownError, match=complaint):
            await client.put(b"a", b"1")
        with pytest.raises(ReadFailedError, match=complaint):
            await client.get_revised(b"a")


# --- watching -------------------------------------------------------------------------------------------------------


async def told(watching: AsyncIterator[results.WatchResult], count: int) -> list[tuple[bytes, int]]:
    """The keys and revisions of the next events."""
    events: list[tuple[bytes, int]] = []
    while len(events) < count:
        events += [(event.key, event.mod_revision) for event in (await anext(watching)).events]
    return events


async def test_a_watch_tells_what_was_and_what_comes(group: FakeGroup) -> None:
    """From a revision on, every change of the range is told once, in order, and nothing else."""
    async with store(group) as client:
        for name in (b"a1", b"b", b"a2", b"a3"):
            await client.put(name, b"")
        watching = client.watch(prefix(b"a"), from_revision=2, config=WATCH)
        assert await told(watching, 3) == [(b"a1", 2), (b"a2", 4), (b"a3", 5)]
        waiting = asyncio.create_task(anext(watching))
        await group.clock.sleep(350)
        assert not waiting.done()
        assert len(group.asked(m.QueryRequest)) < 12
        await client.delete(b"a1")
        result = await waiting
        assert result.next_revision == 7
        assert [type(event).__name__ for event in result.events] == ["Tombstone"]
        await watching.aclose()


async def test_a_watch_begins_now(group: FakeGroup) -> None:
    """Without a revision, what was before is not told."""
    async with store(group) as client:
        await client.put(b"a", b"1")
        watching = client.watch(b"a", config=WATCH)
        waiting = asyncio.create_task(anext(watching))
        await group.clock.sleep(50)
        await client.put(b"ab", b"1")
        await client.put(b"a", b"2")
        assert [event.mod_revision for event in (await waiting).events] == [4]
        await watching.aclose()


async def test_a_watch_goes_on_at_other_replicas(group: FakeGroup) -> None:
    """Replicas that are behind, fail and come back leave no gap and repeat nothing."""
    async with store(group) as client:
        stale = ReadFrom(consistency=Consistency.STALE, node=Node.ANY)
        watching = client.watch(prefix(b""), from_revision=2, read_from=stale, config=WATCH)
        seen: list[tuple[bytes, int]] = []
        for number in range(1, 31):
            group.down = {ReplicaId(number % 3 + 1)} - {ReplicaId(1)}
            group.held_back = {ReplicaId((number + 1) % 3 + 1)} - {ReplicaId(1)}
            name = b"%d" % number
            await client.put(name, b"")
            if number % 4 == 0:
                group.held_back = set()
                await client.put(name, b"again")
                seen += await told(watching, 5)
        revisions = [revision for _, revision in seen]
        assert revisions == list(range(2, 2 + len(revisions)))
        assert len(set(group.asked(m.QueryRequest))) > 1
        await watching.aclose()


async def test_a_watch_ends_where_revisions_are_forgotten(group: FakeGroup) -> None:
    """What was compacted away before it was told is an error, not a gap."""
    async with store(group) as client:
        for value in (b"1", b"2", b"3"):
            await client.put(b"a", value)
        await client.compact(4)
        with pytest.raises(RevisionCompactedError) as error:
            await anext(client.watch(b"a", from_revision=3, config=WATCH))
        assert error.value.compact_revision == 4


async def test_a_watch_that_reaches_nobody_ends_in_time(group: FakeGroup) -> None:
    """A short outage is waited out; a long one is told."""
    async with store(group) as client:
        await client.put(b"a", b"1")
        watching = client.watch(b"a", from_revision=2, config=WATCH)
        group.down = set(ADDRESSES)
        waiting = asyncio.create_task(anext(watching))
        await group.clock.sleep(100)
        group.down = set()
        assert len((await waiting).events) == 1
        group.down = set(ADDRESSES)
        with pytest.raises(ReadFailedError):
            await anext(watching)


async def test_numbers_that_no_command_can_hold_are_named(group: FakeGroup) -> None:
    """A mistake of the caller is told before anybody is asked."""
    async with store(group) as client:
        with pytest.raises(ValueError, match="delta is 9223372036854775808"):
            await client.increment(b"n", 1 << 63)
        with pytest.raises(ValueError, match="limit is 0; it must be 1 to"):
            await client.transact([], [Range(keys=prefix(b""), limit=0)])
        with pytest.raises(ValueError, match="revision is 0"):
            await client.get_revised(b"n", revision=0)
        with pytest.raises(ValueError, match="from_revision is -1"):
            await anext(client.watch(b"n", from_revision=-1))
    assert group.calls == []


@pytest.mark.parametrize("name", ["poll_ms", "timeout_ms", "events_max"])
def test_settings_of_a_watch_are_checked(name: str) -> None:
    """A bound below 1 is named."""
    with pytest.raises(ValueError, match=f"{name} is 0"):
        WatchConfig(**{name: 0})
