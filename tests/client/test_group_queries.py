"""Questions to a group: whom they are put to, how recent answers are, and what is told when none comes."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from replica.client.failures import ClusterUnreachableError, ReadFailedError
from replica.client.groups.client import GroupClient
from replica.client.groups.failures import QueryRefusedError, TransferFailedError, UnknownGroupError
from replica.client.groups.queries import Node
from replica.client.groups.quorum import describe_quorum, transfer_leadership
from replica.core import messages as m
from replica.core.messages import Consistency
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId
from replica.machines import Refusal
from tests.client.group_fakes import ADDRESSES, GROUP, VIEW, FakeGroup

ONE, TWO, THREE = ADDRESSES


def asker(group: FakeGroup, seed: int = 0) -> GroupClient:
    """A client whose choices can be repeated."""
    return GroupClient("r1:1", GROUP.topic, view_config=VIEW, connections=group, clock=group.clock, random=Random(seed))


async def test_the_leader_is_asked(group: FakeGroup) -> None:
    """A question opens no session, and its answer says of which state it is."""
    group.lead(2)
    async with asker(group) as client:
        answer = await client.query(b"")
        assert (answer.reply, answer.applied_offset) == (b"0", 0)
    assert group.asked(m.QueryRequest) == [2]
    assert group.applies() == []


async def test_any_replica_is_asked_as_long_as_it_answers(group: FakeGroup) -> None:
    """The same replica is asked until it fails; then another one is, at once and from then on."""
    async with asker(group) as client:
        for _ in range(3):
            await client.query(b"", node=Node.ANY)
        (chosen,) = set(group.asked(m.QueryRequest))
        group.down.add(ReplicaId(chosen))
        for _ in range(3):
            await client.query(b"", node=Node.ANY)
    *_, failed, second, third, fourth = group.asked(m.QueryRequest)
    assert failed == chosen
    assert second == third == fourth != chosen


async def test_all_replicas_are_chosen_by_some() -> None:
    """Different clients ask different replicas."""
    chosen = set()
    for seed in range(20):
        group = FakeGroup()
        async with asker(group, seed) as client:
            await client.query(b"", node=Node.ANY)
        chosen.update(group.asked(m.QueryRequest))
    assert chosen == set(ADDRESSES)


@pytest.mark.parametrize("seed", range(5))
async def test_a_replica_without_the_group_is_passed_over(group: FakeGroup, seed: int) -> None:
    """Any replica means any that has the group."""
    group.has_group = {THREE}
    async with asker(group, seed) as client:
        for _ in range(3):
            await client.query(b"", node=Node.ANY)
        assert group.asked(m.QueryRequest)[-2:] == [3, 3]
        group.has_group = set()
        with pytest.raises(UnknownGroupError):
            await client.query(b"", node=Node.ANY)


async def test_a_stale_answer_is_as_old_as_the_replica(group: FakeGroup) -> None:
    """A replica that is behind answers a stale question, and not a linearizable one."""
    group.held_back.add(THREE)
    async with asker(group) as client:
        await client.apply(b"1")
        stale = await client.query(b"", consistency=Consistency.STALE, node=THREE)
        assert stale.reply == b"0"
        with pytest.raises(ReadFailedError, match="REQUEST_TIMED_OUT"):
            await client.query(b"", node=THREE, timeout_ms=100)
        assert (await client.query(b"", node=TWO)).reply == b"1"


async def test_an_answer_waits_for_what_is_applied(group: FakeGroup) -> None:
    """With after_offset the answer comes with the next application, or when it has waited long enough."""
    async with asker(group) as client:
        await client.apply(b"1")
        now = await client.query(b"")
        waiting = asyncio.create_task(client.query(b"", after_offset=now.applied_offset, wait_ms=10_000))
        await group.clock.sleep(300)
        assert not waiting.done()
        await client.apply(b"10")
        assert (await waiting).reply == b"11"
        later = Offset(now.applied_offset + 1)
        assert (await client.query(b"", after_offset=later, wait_ms=50)).reply == b"11"


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.OFFSET_NOT_AVAILABLE],
)
async def test_a_question_is_put_again(group: FakeGroup, error: ErrorCode) -> None:
    """What passes is waited out: nothing changes by a question."""
    group.refusals.append(m.QueryResponse(error=error))
    async with asker(group) as client:
        assert (await client.query(b"")).reply == b"0"
    assert len(group.asked(m.QueryRequest)) == 2


async def test_what_asking_again_cannot_cure_is_told_at_once(group: FakeGroup) -> None:
    """A refusal of the question itself, by the replica or by the machine, is not asked for twice."""
    group.refusals.append(m.QueryResponse(error=ErrorCode.INVALID_REQUEST))
    async with asker(group) as client:
        with pytest.raises(ReadFailedError, match="broker 1 at r1:1 answered INVALID_REQUEST"):
            await client.query(b"")
        with pytest.raises(QueryRefusedError, match="the only question is the empty one") as told:
            await client.query(b"?")
    assert told.value.refusal is Refusal.INVALID_COMMAND
    assert len(group.asked(m.QueryRequest)) == 2


async def test_nobody_there_is_told_in_time(group: FakeGroup) -> None:
    """Who reaches nobody is told so; who reaches some, what they said."""
    async with asker(group) as client:
        group.down = set(ADDRESSES)
        with pytest.raises(ClusterUnreachableError, match=r"g-0: no answer within 100 ms; last: .*refuses connections"):
            await client.query(b"", timeout_ms=100)
        group.down.clear()
        group.lead(None)
        with pytest.raises(ReadFailedError, match="knows no leader that answers") as told:
            await client.query(b"", timeout_ms=100)
    assert not isinstance(told.value, ClusterUnreachableError)


async def test_a_replica_that_is_not_there_is_named(group: FakeGroup) -> None:
    """A replica that nobody has an address of cannot be asked."""
    async with asker(group) as client:
        with pytest.raises(ReadFailedError, match="no address is known for replica 9"):
            await client.query(b"", node=ReplicaId(9), timeout_ms=100)


# --- the quorum -----------------------------------------------------------------------------------------------------


async def test_the_leader_describes_its_quorum(group: FakeGroup) -> None:
    """The leader is looked for behind replicas that lead no more."""
    group.lead(3)
    group.believed = {ONE: group.leader}
    group.lead(2)
    described = await describe_quorum("r1:1", "g", view_config=VIEW, connections=group, clock=group.clock)
    assert described.current_leader == group.leader
    assert [voter.replica_id for voter in described.current_voters] == [1, 2, 3]
    assert group.is_closed


async def test_a_quorum_without_a_leader_is_told(group: FakeGroup) -> None:
    """While nobody leads, nobody can say how the voters stand."""
    group.lead(None)
    with pytest.raises(ReadFailedError, match="no leader has answered within 2000 ms"):
        await describe_quorum("r1:1", "g", view_config=VIEW, connections=group, clock=group.clock)


async def test_a_leadership_is_transferred(group: FakeGroup) -> None:
    """The leader is asked to hand over, by whatever way it is found; then the new one says that it leads."""
    group.believed = {ONE: group.leader}
    group.lead(2)
    described = await transfer_leadership("r1:1", "g", THREE, view_config=VIEW, connections=group, clock=group.clock)
    assert described.current_leader == group.leader == m.CurrentLeader(leader_id=THREE, leader_epoch=Epoch(3))
    (request,) = {request for _, request in group.calls if isinstance(request, m.TransferLeadershipRequest)}
    assert (request.target_id, request.timeout_ms) == (THREE, VIEW.api_timeout_ms // 2)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.INVALID_REQUEST, "only a voter can lead"),
        (ErrorCode.REQUEST_TIMED_OUT, "the leader goes on"),
        (ErrorCode.NONE, "replica 2 was elected, not 3"),
    ],
)
async def test_a_transfer_that_fails_says_who_leads(group: FakeGroup, error: ErrorCode, told: str) -> None:
    """No voter, not there in time, or not elected."""
    group.transfer_error, group.elected = error, 2
    with pytest.raises(TransferFailedError, match=told):
        await transfer_leadership("r1:1", "g", THREE, view_config=VIEW, connections=group, clock=group.clock)
    assert group.is_closed
