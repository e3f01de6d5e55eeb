"""What follows from an attempt, from an outcome, and from what is heard of leaders: the tables of a group's client."""

from __future__ import annotations

import pytest

from replica.client.failures import OutcomeUnknownError
from replica.client.groups.failures import CommandRefusedError, SessionExpiredError
from replica.client.groups.verdicts import Again, Applied, Step, fate_of, verdict_of
from replica.client.groups.view import GroupView
from replica.core.messages import ApplyResponse, CurrentLeader
from replica.errors import ErrorCode
from replica.machines import Answered, Done, Outcome, Refusal, Refused, SessionOpened, encode_outcome
from replica.machines.entries import SessionId
from replica.rpc.transport import DeniedError, TransportError
from tests.client.group_fakes import ADDRESSES, GROUP, VIEW, FakeGroup
from tests.client.views import leads

REPLY = encode_outcome(Answered(reply=b"1"))


def refused(refusal: Refusal) -> Refused:
    """A refusal."""
    return Refused(refusal=refusal, message="because")


@pytest.mark.parametrize(
    ("outcome", "at_first", "in_doubt"),
    [
        (refused(Refusal.INVALID_ENTRY), CommandRefusedError, CommandRefusedError),
        (refused(Refusal.INVALID_COMMAND), CommandRefusedError, CommandRefusedError),
        (refused(Refusal.UNKNOWN_SESSION), Again.IN_NEW_SESSION, SessionExpiredError),
        (refused(Refusal.SEQUENCE_FORGOTTEN), CommandRefusedError, OutcomeUnknownError),
        (refused(Refusal.SEQUENCE_BEYOND_WINDOW), Again.LATER, Again.LATER),
        (refused(Refusal.REPLIES_FULL), Again.LATER, Again.LATER),
        (Answered(reply=b"1"), Applied(reply=b"1"), Applied(reply=b"1")),
        (Done(), OutcomeUnknownError, OutcomeUnknownError),
        (SessionOpened(session_id=SessionId(1)), OutcomeUnknownError, OutcomeUnknownError),
    ],
)
def test_what_an_outcome_says_of_a_command(outcome: Outcome, at_first: object, in_doubt: object) -> None:
    """A refusal speaks of one copy: where another one may have been applied before, only some refusals are definite."""
    for expected, doubt in ((at_first, False), (in_doubt, True)):
        fate = fate_of(outcome, in_doubt=doubt)
        assert (type(fate) if isinstance(expected, type) else fate) == expected


@pytest.mark.parametrize(
    ("attempt", "step", "may_be_applied"),
    [
        (ApplyResponse(error=ErrorCode.NONE, outcomes=(REPLY, REPLY)), Step.SETTLE, False),
        (ApplyResponse(error=ErrorCode.NONE, outcomes=(REPLY,)), Step.REPEAT, True),
        (ApplyResponse(error=ErrorCode.NONE, outcomes=(REPLY, b"nonsense")), Step.REPEAT, True),
        (ApplyResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), Step.REPEAT, True),
        (ApplyResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=True), Step.REPEAT, False),
        (ApplyResponse(error=ErrorCode.INVALID_REQUEST), Step.REPEAT, True),
        (ApplyResponse(error=ErrorCode.INVALID_REQUEST, not_appended=True), Step.GIVE_UP, False),
        (ApplyResponse(error=ErrorCode.GROUP_AUTHORIZATION_FAILED, not_appended=True), Step.GIVE_UP, False),
        (DeniedError("the token has expired"), Step.GIVE_UP, False),
        (ApplyResponse(error=ErrorCode.MESSAGE_TOO_LARGE), Step.SEPARATE, True),
        (ApplyResponse(error=ErrorCode.MESSAGE_TOO_LARGE, not_appended=True), Step.SEPARATE, False),
    ],
)
def test_what_follows_from_an_attempt(
    attempt: ApplyResponse | TransportError, step: Step, may_be_applied: bool
) -> None:
    """Only what says so was not appended; what cannot be read leaves a doubt like no answer."""
    verdict = verdict_of(attempt, entries=2, who="r1")
    assert (verdict.step, verdict.may_be_applied) == (step, may_be_applied)


@pytest.mark.parametrize(
    ("heard", "is_news", "asked"),
    [
        pytest.param([(3, 5)], True, 3, id="newer"),
        pytest.param([(None, 5)], False, None, id="newer, without a leader"),
        pytest.param([(None, 5), (2, 5)], True, 2, id="a leader becomes known"),
        pytest.param([(2, 5), (None, 5)], False, 2, id="no leader is known of a known one"),
        pytest.param([(2, 5), (3, 4)], False, 2, id="older"),
        pytest.param([(2, 5), (2, 5)], False, 2, id="the same"),
        pytest.param([(9, 5)], False, None, id="unknown address"),
    ],
)
async def test_whose_word_on_leaders_counts(
    group: FakeGroup, heard: list[tuple[int | None, int]], is_news: bool, asked: int | None
) -> None:
    """Epochs only grow; within one the leader becomes known once, and is dialled where it is known to be."""
    group.leader = CurrentLeader(leader_id=None, leader_epoch=leads(1, 0).leader_epoch)
    view = GroupView("r1:1", GROUP, VIEW, connections=group, clock=group.clock)
    await view.find_leader(view.deadline())
    group.down = set(ADDRESSES)
    told = [view.on_hint(leads(leader_id, epoch)) for leader_id, epoch in heard]
    assert told[-1] is is_news
    found = await view.find_leader(view.deadline())
    assert getattr(found, "broker_id", None) == asked
