"""Commands to a group: each counts once, whatever is lost, and what is said of it is never a guess."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from replica.client.failures import NotWrittenError, OutcomeUnknownError, WriteError
from replica.client.groups.config import GroupConfig
from replica.client.groups.failures import CommandRefusedError, SessionExpiredError, UnknownGroupError
from replica.core.messages import ApplyRequest, ApplyResponse, DescribeReplicaRequest
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from replica.machines import (
    CloseSession,
    KeepSessionAlive,
    OpenSession,
    Refusal,
    SessionCommand,
    SessionLimits,
)
from tests.client.group_fakes import ADDRESSES, FakeGroup, Fate, refused

LOST = (Fate.ANSWER_LOST, Fate.REQUEST_LOST, Fate.APPLIED_LATE, Fate.NEVER_SENT)


async def settle(group: FakeGroup, milliseconds: int = 50) -> None:
    """Let others run for a while."""
    await group.clock.sleep(milliseconds)


async def test_a_command_is_applied_and_answered(group: FakeGroup) -> None:
    """The first command opens a session; all that follow are numbered in it; the end of the client ends it."""
    async with group.client() as client:
        assert [await client.apply(b"5"), await client.apply(b"-2")] == [b"5", b"3"]
        assert len(group.logs[ReplicaId(1)].sessions) == 1
    assert len(group.entries(OpenSession)) == len(group.entries(CloseSession)) == 1
    assert group.copies() == [1, 1]
    assert len(group.logs[ReplicaId(1)].sessions) == 0
    assert group.is_closed


@pytest.mark.parametrize("first", LOST)
@pytest.mark.parametrize("second", [*LOST, Fate.ANSWERED])
async def test_what_is_lost_is_repeated_and_counts_once(group: FakeGroup, first: Fate, second: Fate) -> None:
    """Whatever becomes of two attempts, and also if a copy is applied late, the sum is that of one application."""
    async with group.client() as client:
        assert await client.apply(b"1") == b"1"
        group.fates.extend([first, second])
        assert await client.apply(b"10") == b"11"
        assert await client.apply(b"100") == b"111"
    assert group.logs[ReplicaId(1)].query(b"") == group.logs[ReplicaId(2)].query(b"")


async def test_the_opening_of_a_session_is_repeated(group: FakeGroup) -> None:
    """A session of which nobody knows expires; the commands are numbered in the one that was told."""
    group.fates.extend([Fate.ANSWER_LOST, Fate.NEVER_SENT])
    async with group.client() as client:
        assert await client.apply(b"1") == b"1"
    assert len(group.entries(OpenSession)) == 3
    assert len(group.logs[ReplicaId(1)].sessions) == 1


async def test_without_an_answer_it_is_unknown(group: FakeGroup) -> None:
    """A command that may have been sent and was not answered in its time is unknown, and later ones go on."""
    async with group.client() as client:
        await client.apply(b"1")
        group.fates.extend([Fate.REQUEST_LOST] * 100)
        with pytest.raises(OutcomeUnknownError, match=r"within 200 ms; last: .*the answer was lost"):
            await client.apply(b"10", timeout_ms=200)
        group.fates.clear()
        assert await client.apply(b"100") == b"101"


async def test_what_is_in_the_air_at_the_end_is_unknown(group: FakeGroup) -> None:
    """Time that runs out during the first attempt leaves a doubt as well: the leader may be applying it."""
    async with group.client() as client:
        await client.apply(b"1")
        group.silent = set(ADDRESSES)
        with pytest.raises(OutcomeUnknownError, match="it was never sent"):
            await client.apply(b"10", timeout_ms=100)


@pytest.mark.parametrize("in_session", [True, False])
async def test_what_was_never_sent_is_certainly_not_applied(group: FakeGroup, in_session: bool) -> None:
    """With nobody to connect to, with or without a session, there is no doubt."""
    async with group.client() as client:
        if in_session:
            await client.apply(b"1")
        group.down = set(ADDRESSES)
        with pytest.raises(NotWrittenError, match="refuses connections"):
            await client.apply(b"10", timeout_ms=200)


@pytest.mark.parametrize(
    ("attempts", "raised"),
    [
        pytest.param([refused(ErrorCode.INVALID_REQUEST)], NotWrittenError, id="refused at the door"),
        pytest.param([refused(ErrorCode.MESSAGE_TOO_LARGE)], NotWrittenError, id="too large"),
        pytest.param(
            [refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=False), refused(ErrorCode.INVALID_REQUEST)],
            OutcomeUnknownError,
            id="refused after a doubt",
        ),
        pytest.param(
            [refused(ErrorCode.MESSAGE_TOO_LARGE, not_appended=False)], OutcomeUnknownError, id="reply too large"
        ),
    ],
)
async def test_a_refusal_that_stays_ends_it_at_once(
    group: FakeGroup, attempts: list[ApplyResponse], raised: type[WriteError]
) -> None:
    """What asking again cannot change is told at once; an attempt before it leaves its doubt."""
    async with group.client() as client:
        await client.apply(b"1")
        group.refusals.extend(attempts)
        with pytest.raises(raised) as told:
            await client.apply(b"10")
    assert told.value.error is attempts[-1].error
    assert not group.refusals


@pytest.mark.parametrize(
    "refusal",
    [
        refused(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=False),
        refused(ErrorCode.REQUEST_TIMED_OUT, not_appended=False),
        refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        refused(ErrorCode.UNKNOWN_SERVER_ERROR, not_appended=False),
    ],
)
async def test_a_refusal_that_passes_is_repeated(group: FakeGroup, refusal: ApplyResponse) -> None:
    """Errors that pass, and all that leave a doubt, are answered by the same command again."""
    async with group.client() as client:
        await client.apply(b"1")
        group.refusals.append(refusal)
        assert await client.apply(b"10") == b"11"
    assert group.copies() == [1, 2]


async def test_a_command_that_is_not_understood_is_refused(group: FakeGroup) -> None:
    """The machine's refusal is definite, whatever was lost before, and says why."""
    async with group.client() as client:
        await client.apply(b"1")
        group.fates.append(Fate.ANSWER_LOST)
        with pytest.raises(CommandRefusedError, match="INVALID_COMMAND: a command is a number") as told:
            await client.apply(b"five")
    assert told.value.refusal is Refusal.INVALID_COMMAND


# --- leaders --------------------------------------------------------------------------------------------------------


async def test_a_new_leader_is_found_by_the_hint_of_the_old_one(group: FakeGroup) -> None:
    """A replica that leads no more names the next one, which is asked at once."""
    async with group.client() as client:
        await client.apply(b"1")
        asked = len(group.asked(DescribeReplicaRequest))
        group.lead(3)
        before_ms = group.clock.now_ms()
        assert await client.apply(b"10") == b"11"
        assert group.clock.now_ms() - before_ms < 10
    assert group.asked(ApplyRequest)[:4] == [1, 1, 1, 3]
    assert len(group.asked(DescribeReplicaRequest)) == asked


async def test_a_new_leader_is_found_by_the_others(group: FakeGroup) -> None:
    """When the leader dies, the others are asked who leads, until one of them does."""
    async with group.client() as client:
        await client.apply(b"1")
        group.down.add(ReplicaId(1))
        waiting = asyncio.create_task(client.apply(b"10"))
        await settle(group)
        assert not waiting.done()
        group.lead(2)
        assert await waiting == b"11"


async def test_an_older_leader_is_not_believed(group: FakeGroup) -> None:
    """A replica that lags behind does not bring the client back to a leader of an earlier epoch."""
    group.lead(3)
    group.believed = {ReplicaId(1): group.leader, ReplicaId(2): group.leader}
    async with group.client() as client:
        await client.apply(b"1")
        group.lead(2)
        group.down.add(ReplicaId(3))
        group.believed = {ReplicaId(1): group.believed[ReplicaId(1)]}
        assert await client.apply(b"10") == b"11"


async def test_the_group_is_looked_for_behind_replicas_that_lack_it(group: FakeGroup) -> None:
    """A bootstrap address need not have the group: it knows where the others are."""
    group.has_group = {ReplicaId(3)}
    group.lead(3)
    async with group.client() as client:
        assert await client.apply(b"1") == b"1"


async def test_a_group_that_nobody_has_is_told_at_once(group: FakeGroup) -> None:
    """When all have answered, there is nothing to wait for."""
    group.has_group = set()
    async with group.client() as client:
        with pytest.raises(UnknownGroupError, match="no replica that was asked has a group 'g'"):
            await client.apply(b"1")
        with pytest.raises(UnknownGroupError):
            await client.query(b"")
    assert group.clock.now_ms() < 100


async def test_a_group_that_may_be_where_nobody_answers_is_waited_for(group: FakeGroup) -> None:
    """One that cannot be asked may have the group."""
    group.has_group = {ReplicaId(3)}
    group.lead(3)
    group.down.add(ReplicaId(3))
    async with group.client() as client:
        waiting = asyncio.create_task(client.apply(b"1"))
        await settle(group)
        assert not waiting.done()
        group.down.clear()
        assert await waiting == b"1"


# --- sessions -------------------------------------------------------------------------------------------------------


async def test_an_idle_session_is_kept_alive(group: FakeGroup) -> None:
    """A client that does nothing for many times to live goes on in its session."""
    async with group.client(GroupConfig(session_ttl_ms=1_000)) as client:
        await client.apply(b"1")
        await settle(group, 5_000)
        assert await client.apply(b"10") == b"11"
    assert len(group.entries(OpenSession)) == 1
    assert 10 <= len(group.entries(KeepSessionAlive)) <= 16


async def test_a_keep_alive_that_is_lost_is_repeated(group: FakeGroup) -> None:
    """Two attempts that are lost do not cost the session."""
    async with group.client(GroupConfig(session_ttl_ms=1_000)) as client:
        await client.apply(b"1")
        group.fates.extend([Fate.REQUEST_LOST, Fate.NEVER_SENT])
        await settle(group, 1_500)
        assert await client.apply(b"10") == b"11"
    assert len(group.entries(OpenSession)) == 1


async def test_a_session_that_has_expired_is_replaced(group: FakeGroup) -> None:
    """A command of which certainly no copy was applied goes on in a new session."""
    async with group.client(GroupConfig(session_ttl_ms=1_000)) as client:
        await client.apply(b"1")
        group.pass_ms(1_000)
        assert await client.apply(b"10") == b"11"
    assert len(group.entries(OpenSession)) == 2


@pytest.mark.parametrize("fate", [Fate.ANSWER_LOST, Fate.REQUEST_LOST])
async def test_what_was_in_doubt_when_the_session_expired_stays_unknown(group: FakeGroup, fate: Fate) -> None:
    """A command whose answer was lost, in a session that is gone, is neither repeated elsewhere nor called undone."""
    async with group.client(GroupConfig(session_ttl_ms=1_000)) as client:
        await client.apply(b"1")
        group.fates.append(fate)
        waiting = asyncio.create_task(client.apply(b"10"))
        while len(group.applies()) < 3 or group.fates:
            await asyncio.sleep(0)
        group.pass_ms(1_000)
        with pytest.raises(SessionExpiredError, match="unknown whether an earlier copy"):
            await waiting
        assert await client.apply(b"100") == (b"111" if fate is Fate.ANSWER_LOST else b"101")


async def test_a_session_that_is_refused_fails_the_command() -> None:
    """When there may be no more sessions, nothing is applied, and the reason is told at once."""
    group = FakeGroup(limits=SessionLimits(sessions_max=1))
    async with group.client() as first, group.client() as second:
        await first.apply(b"1")
        with pytest.raises(NotWrittenError, match="no session was opened: TOO_MANY_SESSIONS"):
            await second.apply(b"10")


@pytest.mark.parametrize("limits", [SessionLimits(window=1), SessionLimits(kept_bytes_max=1)])
async def test_commands_that_the_session_has_no_room_for_come_again(limits: SessionLimits) -> None:
    """A group that remembers less than the client asks for refuses for now; every command counts once all the same."""
    group = FakeGroup(limits=limits)
    async with group.client() as client:
        replies = await asyncio.gather(*(client.apply(b"1") for _ in range(20)))
    assert sorted(map(int, replies)) == list(range(1, 21))


async def test_the_end_of_the_client_ends_what_is_open(group: FakeGroup) -> None:
    """Calls that are open when the client is closed are told what is known of them, and nothing can be applied then."""
    client = group.client()
    await client.apply(b"1")
    group.silent.add(ReplicaId(1))
    sent = asyncio.create_task(client.apply(b"10"))
    await settle(group)
    await client.close()
    with pytest.raises(OutcomeUnknownError, match="the client was closed"):
        await sent
    with pytest.raises(NotWrittenError, match="the client is closed"):
        await client.apply(b"100")


async def test_a_call_that_is_cancelled_does_not_stop_the_others(group: FakeGroup) -> None:
    """The sequence of a command that nobody waits for is acknowledged, and the window moves on."""
    async with group.client(GroupConfig(session_window=4, commands_in_flight_max=4)) as client:
        await client.apply(b"1")
        group.silent.add(ReplicaId(1))
        for _ in range(10):
            call = asyncio.create_task(client.apply(b"10"))
            await settle(group)
            call.cancel()
        group.silent.clear()
        assert int(await client.apply(b"100")) % 10 == 1


async def test_what_nobody_waits_for_is_not_sent_again(group: FakeGroup) -> None:
    """A command that was cancelled, or whose time was up, is left to what became of its copies."""
    async with group.client() as client:
        await client.apply(b"1")
        group.fates.extend([Fate.REQUEST_LOST] * 1_000)
        call = asyncio.create_task(client.apply(b"10"))
        await settle(group)
        call.cancel()
        with pytest.raises(OutcomeUnknownError):
            await client.apply(b"100", timeout_ms=50)
        await settle(group, 100)
        sent = len(group.entries(SessionCommand))
        await settle(group, 500)
        assert len(group.entries(SessionCommand)) == sent
        group.fates.clear()


# --- batches --------------------------------------------------------------------------------------------------------


def sizes(requests: Iterable[ApplyRequest]) -> list[int]:
    """How many entries each request has."""
    return [len(request.entries) for request in requests]


async def test_commands_of_one_moment_travel_together(group: FakeGroup) -> None:
    """Those who call before the client gets to run share a request."""
    async with group.client() as client:
        await client.apply(b"0")
        await asyncio.gather(*(client.apply(b"1") for _ in range(50)))
    assert sizes(group.applies()) == [1, 1, 50, 1]


async def test_commands_that_wait_for_requests_travel_together(group: FakeGroup) -> None:
    """With as many requests under way as there may be, what comes waits, and goes in one when one returns."""
    group.latency_ms = 250
    async with group.client(GroupConfig(requests_in_flight_max=2)) as client:
        await client.apply(b"0")
        calls = []
        for _ in range(10):
            calls.append(asyncio.create_task(client.apply(b"1")))
            await settle(group, 1)
        await asyncio.gather(*calls)
        assert group.in_flight_most == 2
    assert sizes(group.applies()) == [1, 1, 1, 1, 8, 1]


async def test_batches_are_bounded_in_entries(group: FakeGroup) -> None:
    """No request has more entries than configured."""
    async with group.client(GroupConfig(batch_entries_max=4)) as client:
        await client.apply(b"0")
        await asyncio.gather(*(client.apply(b"0") for _ in range(10)))
    assert sizes(group.applies())[2:-1] == [4, 4, 2]


async def test_batches_are_bounded_in_bytes(group: FakeGroup) -> None:
    """No request has more bytes than configured, but for a command that is larger by itself."""
    async with group.client(GroupConfig(batch_bytes_max=100, requests_in_flight_max=1)) as client:
        await client.apply(b"0")
        await asyncio.gather(*(client.apply(b"0") for _ in range(5)), *(client.apply(b"0" * 18) for _ in range(3)))
        with pytest.raises(CommandRefusedError):
            await client.apply(b"x" * 1_000)
    assert max(sizes(group.applies())) == 3
    assert len([request for request in group.applies() if sum(map(len, request.entries)) > 100]) == 1


async def test_calls_beyond_the_bound_wait_for_room(group: FakeGroup) -> None:
    """No more commands are open than configured; one that finds no room in its time certainly is not applied."""
    config = GroupConfig(commands_in_flight_max=2)
    async with group.client(config) as client:
        assert sorted(await asyncio.gather(*(client.apply(b"1") for _ in range(6)))) == [b"%d" % n for n in range(1, 7)]
        assert max(sizes(group.applies())) == 2
        group.silent.add(ReplicaId(1))
        blocked = [asyncio.create_task(client.apply(b"10")) for _ in range(2)]
        await settle(group)
        with pytest.raises(NotWrittenError, match="2 commands are open, and none was settled within 50 ms"):
            await client.apply(b"100", timeout_ms=50)
        group.silent.clear()
        await asyncio.gather(*blocked)


async def test_no_command_is_sent_beyond_the_window() -> None:
    """While the oldest command has no answer, the newest one that is sent stays within the window."""
    group = FakeGroup(limits=SessionLimits(window=8))
    config = GroupConfig(session_window=8, commands_in_flight_max=8, batch_entries_max=1, requests_in_flight_max=4)
    group.latency_ms = 3
    async with group.client(config) as client:
        await client.apply(b"0")
        group.fates.extend([Fate.REQUEST_LOST, *[Fate.ANSWERED] * 3] * 10)
        await asyncio.gather(*(client.apply(b"1") for _ in range(40)))
        assert await client.apply(b"0") == b"40"
    commands = [entry for entry in group.entries(SessionCommand) if isinstance(entry, SessionCommand)]
    assert max(entry.sequence - entry.acknowledged for entry in commands) < 8


@pytest.mark.parametrize("not_appended", [True, False])
async def test_what_does_not_fit_together_is_sent_alone(group: FakeGroup, not_appended: bool) -> None:
    """A batch that is too large, or whose outcomes are for an answer, is taken apart; each command counts once."""
    async with group.client() as client:
        await client.apply(b"0")
        if not_appended:
            group.refusals.append(refused(ErrorCode.MESSAGE_TOO_LARGE))
        else:
            group.answer_bytes_max = 30
        replies = await asyncio.gather(*(client.apply(b"1") for _ in range(5)))
    assert sorted(replies) == [b"1", b"2", b"3", b"4", b"5"]
    assert sizes(group.applies())[2:8] == [5, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"session_ttl_ms": 0}, "session_ttl_ms is 0; it must be above 0"),
        ({"batch_entries_max": -1}, "batch_entries_max is -1"),
        ({"batch_entries_max": 2001}, "batch_entries_max is 2001; a group takes 2000 at most"),
        ({"session_window": 10}, r"commands_in_flight_max \(1024\) must be at most session_window \(10\)"),
    ],
)
def test_settings_are_checked(settings: dict[str, int], complaint: str) -> None:
    """A bound below 1 is named, and more entries than a request carries, or open commands than a session can number."""
    with pytest.raises(ValueError, match=complaint):
        GroupConfig(**settings)
