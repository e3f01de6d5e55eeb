"""The workloads' client of the key-value store, over the machine itself: what it tells, and how honest it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from nemesis.cluster.key_value_client import KeyValueStore, Reads
from nemesis.cluster.store import Answer, Found
from nemesis.errors import NotDoneError, UnknownOutcomeError
from replica.client.groups.key_value import KeyValueClient
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.machines.key_value import KeyValueMachine
from tests.client.group_fakes import ADDRESSES, VIEW, FakeGroup, Fate, refused

COMMANDS: list[Callable[[KeyValueStore], Awaitable[Answer]]] = [
    lambda store: store.put("a", 7),
    lambda store: store.compare_and_set("a", 1, 7),
    lambda store: store.delete_if("a", 1),
    lambda store: store.increment("a", 1),
    lambda store: store.put_all_if("a", {}, {"a": 7}),
]


@asynccontextmanager
async def opened(group: FakeGroup, reads: Reads = Reads.LINEARIZABLE) -> AsyncIterator[KeyValueStore]:
    """A store of this group, which holds 1 under the key ``a`` since revision 2."""
    client = KeyValueClient("r1:1", "g", view_config=VIEW, connections=group, clock=group.clock, random=Random(0))
    store = KeyValueStore(client, reads)
    try:
        assert await store.put("a", 1) == Answer(revision=2)
        yield store
    finally:
        await store.close()
    assert group.is_closed


async def test_what_changes_tells_its_revision() -> None:
    """Each command that is done tells the revision at which it was, and each question that which it has seen."""
    async with opened(FakeGroup(KeyValueMachine)) as store:
        assert await store.get("a") == Answer(revision=2, found={"a": Found(value=1, changed_at=2)})
        assert await store.get("b") == Answer(revision=2)
        assert await store.increment("b", -5) == Answer(revision=3, found={"b": Found(value=-5, changed_at=3)})
        assert await store.get("b") == Answer(revision=3, found={"b": Found(value=-5, changed_at=3)})
        done = await store.compare_and_set("a", 1, 8)
        assert done == Answer(revision=4, found={"a": Found(value=8, changed_at=4)})
        assert await store.delete_if("a", 8) == Answer(revision=5)
        assert await store.get("a") == Answer(revision=5)


async def test_what_is_refused_tells_what_is_there() -> None:
    """A condition that does not hold changes nothing, and the answer has what it met."""
    there = {"a": Found(value=1, changed_at=2)}
    async with opened(FakeGroup(KeyValueMachine)) as store:
        refused = Answer(revision=2, done=False, found=there)
        assert await store.compare_and_set("a", None, 8) == refused
        assert await store.compare_and_set("a", 5, 8) == refused
        assert await store.compare_and_set("b", 5, 8) == Answer(revision=2, done=False)
        assert await store.delete_if("a", 5) == refused
        assert await store.delete_if("b", 5) == Answer(revision=2, done=False)
        assert await store.put_all_if("a", {"a": 1}, {"a": 9}) == refused


async def test_several_keys_change_together() -> None:
    """All are written at one revision, if those that were seen are as they were; 0 is a key that is not there."""
    async with opened(FakeGroup(KeyValueMachine)) as store:
        assert await store.put_all_if("k/", {"k/1": 0, "a": 2}, {"k/1": 10, "k/2": 20}) == Answer(revision=3)
        both = {"k/1": Found(value=10, changed_at=3), "k/2": Found(value=20, changed_at=3)}
        assert await store.get_all("k/") == Answer(revision=3, found=both)
        assert await store.put_all_if("k/", {"k/1": 0}, {"k/1": 11}) == Answer(revision=3, done=False, found=both)


async def test_what_is_lent_goes_away() -> None:
    """A key with a time to live is gone when that is over, and not before."""
    group = FakeGroup(KeyValueMachine)
    async with opened(group) as store:
        assert (await store.compare_and_set("l", None, 5, ttl_ms=1000)).done
        group.pass_ms(900)
        assert not (await store.compare_and_set("l", None, 6, ttl_ms=1000)).done
        group.pass_ms(200)
        assert (await store.compare_and_set("l", None, 7, ttl_ms=1000)).done


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_command_without_an_answer_is_unknown(command: Callable[[KeyValueStore], Awaitable[Answer]]) -> None:
    """What may have been sent and was never answered is neither done nor not done."""
    group = FakeGroup(KeyValueMachine)
    async with opened(group) as store:
        group.fates.extend([Fate.ANSWER_LOST, *[Fate.REQUEST_LOST] * 1000])
        with pytest.raises(UnknownOutcomeError):
            await command(store)


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_command_that_was_refused_was_not_done(command: Callable[[KeyValueStore], Awaitable[Answer]]) -> None:
    """What the leader refuses before it appends it has not happened."""
    group = FakeGroup(KeyValueMachine)
    async with opened(group) as store:
        group.refusals.append(refused(ErrorCode.INVALID_REQUEST))
        with pytest.raises(NotDoneError):
            await command(store)


@pytest.mark.parametrize("question", [lambda store: store.get("a"), lambda store: store.get_all("a")])
async def test_a_question_without_an_answer_has_done_nothing(
    question: Callable[[KeyValueStore], Awaitable[Answer]],
) -> None:
    """Reads are never unknown, whatever becomes of them."""
    group = FakeGroup(KeyValueMachine)
    async with opened(group) as store:
        group.silent = set(ADDRESSES)
        with pytest.raises(NotDoneError):
            await question(store)


async def test_an_answer_that_was_lost_counts_once() -> None:
    """A command that is sent again is answered as it was the first time."""
    group = FakeGroup(KeyValueMachine)
    async with opened(group) as store:
        group.fates.append(Fate.ANSWER_LOST)
        assert (await store.increment("a", 1)).found["a"].value == 2
        assert (await store.get("a")).found["a"].value == 2


@pytest.mark.parametrize(("reads", "consistency"), [(Reads.LINEARIZABLE, "LINEARIZABLE"), (Reads.STALE, "STALE")])
async def test_reads_ask_for_what_the_options_say(reads: Reads, consistency: str) -> None:
    """Linearizable ones and stale ones, of one key and of many."""
    group = FakeGroup(KeyValueMachine)
    async with opened(group, reads) as store:
        await store.get("a")
        await store.get_all("a")
    asked = [request.consistency.name for _, request in group.calls if isinstance(request, m.QueryRequest)]
    assert asked == [consistency] * 2
