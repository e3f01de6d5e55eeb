"""Exactly once: tables of entries at their log times, and what becomes of each."""

from __future__ import annotations

import pytest

from replica.ids import Offset
from replica.machines import (
    Answered,
    AppliedLog,
    CloseSession,
    Done,
    Entry,
    KeepSessionAlive,
    OpenSession,
    Outcome,
    Refusal,
    Refused,
    SessionCommand,
    SessionId,
    SessionLimits,
    SessionOpened,
    Tick,
    definitely_not_applied,
    encode_entry,
)
from replica.machines.counter import Counter
from tests.machines.folding import apply_one

LIMITS = SessionLimits(sessions_max=2, window=4, kept_bytes_max=6, ttl_ms_min=10, ttl_ms_max=100)


def opened(ttl_ms: int = 100) -> Entry:
    """Open a session."""
    return OpenSession(ttl_ms=ttl_ms)


def add(sequence: int, acknowledged: int = 0, *, session: int = 0, amount: int = 1) -> Entry:
    """Add to the counter, as a session's command."""
    return SessionCommand(
        session_id=SessionId(session), sequence=sequence, acknowledged=acknowledged, command=b"%d" % amount
    )


def alive(acknowledged: int = 0, *, session: int = 0) -> Entry:
    """Say that the client is there."""
    return KeepSessionAlive(session_id=SessionId(session), acknowledged=acknowledged)


def told(outcome: Outcome) -> str:
    """An outcome in short."""
    match outcome:
        case Answered(reply=reply):
            return reply.decode()
        case SessionOpened(session_id=session_id):
            return f"session {session_id}"
        case Done():
            return "done"
        case Refused(refusal=refusal):
            return refusal.value


def counter_log() -> AppliedLog:
    """A counter of which nothing has been applied."""
    return AppliedLog(Counter(), name="counter", limits=LIMITS)


CONVERSATIONS: dict[str, list[tuple[int, Entry, str]]] = {
    "a_repeat_has_the_first_reply": [
        (0, opened(), "session 0"),
        (0, add(0), "1"),
        (0, add(1), "2"),
        (0, add(0), "1"),
        (0, add(1, amount=50), "2"),
        (0, add(2), "3"),
    ],
    "commands_come_in_any_order": [
        (0, opened(), "session 0"),
        (0, add(2), "1"),
        (0, add(0), "2"),
        (0, add(3), "3"),
        (0, add(2), "1"),
        (0, add(1), "4"),
        (0, add(0), "2"),
    ],
    "what_is_acknowledged_is_forgotten_for_good": [
        (0, opened(), "session 0"),
        (0, add(0), "1"),
        (0, add(1), "2"),
        (0, add(2, 2), "3"),
        (0, add(0), "SEQUENCE_FORGOTTEN"),
        (0, add(1, 1), "SEQUENCE_FORGOTTEN"),
        (0, add(2, 2), "3"),
    ],
    "one_that_never_came_and_is_given_up_comes_too_late": [
        (0, opened(), "session 0"),
        (0, add(1), "1"),
        (0, alive(2), "done"),
        (0, add(0), "SEQUENCE_FORGOTTEN"),
        (0, add(2, 2), "2"),
    ],
    "a_lower_acknowledgement_comes_late_and_changes_nothing": [
        (0, opened(), "session 0"),
        (0, add(3, 3), "1"),
        (0, add(6, 0), "2"),
        (0, add(7, 0), "SEQUENCE_BEYOND_WINDOW"),
    ],
    "beyond_the_window_is_refused_and_may_come_again": [
        (0, opened(), "session 0"),
        (0, add(4), "SEQUENCE_BEYOND_WINDOW"),
        (0, add(3), "1"),
        (0, add(4, 1), "2"),
        (0, add(1 << 62, 1 << 62), "3"),
        (0, add(4, 1), "SEQUENCE_FORGOTTEN"),
    ],
    "replies_take_room_until_they_are_acknowledged": [
        (0, opened(), "session 0"),
        (0, add(0, amount=1000), "1000"),
        (0, add(1, amount=-900), "100"),
        (0, add(2), "REPLIES_FULL"),
        (0, add(1), "100"),
        (0, add(2, 1), "101"),
    ],
    "the_lowest_that_is_waited_for_always_has_room": [
        (0, opened(), "session 0"),
        (0, add(1, amount=1000), "1000"),
        (0, add(2, amount=1000), "2000"),
        (0, add(3), "REPLIES_FULL"),
        (0, add(0), "2001"),
        (0, add(0), "2001"),
        (0, add(3, 1), "REPLIES_FULL"),
        (0, add(3, 3), "2002"),
    ],
    "sessions_do_not_mix": [
        (0, opened(), "session 0"),
        (0, opened(), "session 1"),
        (0, add(0, session=0), "1"),
        (0, add(0, session=1), "2"),
        (0, add(0, session=0), "1"),
    ],
    "there_are_only_so_many_sessions": [
        (0, opened(), "session 0"),
        (0, opened(50), "session 1"),
        (49, opened(), "TOO_MANY_SESSIONS"),
        (50, opened(), "session 3"),
    ],
    "a_session_lives_within_bounds": [
        (0, opened(9), "INVALID_TTL"),
        (0, opened(10), "session 1"),
        (0, opened(101), "INVALID_TTL"),
        (0, opened(100), "session 3"),
    ],
    "a_session_expires_by_log_time": [
        (0, opened(100), "session 0"),
        (99, add(0), "1"),
        (198, add(1), "2"),
        (297, alive(), "done"),
        (396, add(0), "1"),
        (496, add(0), "UNKNOWN_SESSION"),
        (496, add(2), "UNKNOWN_SESSION"),
        (496, alive(), "UNKNOWN_SESSION"),
    ],
    "a_tick_lets_time_pass": [
        (0, opened(100), "session 0"),
        (100, Tick(), "done"),
        (0, add(0), "UNKNOWN_SESSION"),
    ],
    "a_stamp_that_lies_back_does_not_bring_time_back": [
        (500, opened(100), "session 0"),
        (40, add(0), "1"),
        (599, add(1), "2"),
        (0, add(2), "3"),
        (699, add(3), "UNKNOWN_SESSION"),
    ],
    "a_refusal_lets_the_session_live_on": [
        (0, opened(100), "session 0"),
        (99, add(9), "SEQUENCE_BEYOND_WINDOW"),
        (198, add(0), "1"),
    ],
    "a_session_that_was_closed_is_gone": [
        (0, opened(), "session 0"),
        (0, add(0), "1"),
        (0, CloseSession(session_id=SessionId(0)), "done"),
        (0, add(0), "UNKNOWN_SESSION"),
        (0, CloseSession(session_id=SessionId(0)), "done"),
        (0, opened(), "session 5"),
        (0, add(0, session=5), "2"),
    ],
    "there_never_was_such_a_session": [
        (0, add(0, session=7), "UNKNOWN_SESSION"),
        (0, opened(), "session 1"),
        (0, add(0, session=1), "1"),
    ],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_goes_as_told(name: str) -> None:
    """Each entry, at the stamp of its batch, has the outcome of the table."""
    log = counter_log()
    outcomes = [
        told(apply_one(log, encode_entry(entry), stamp_ms=stamp_ms)) for stamp_ms, entry, _ in CONVERSATIONS[name]
    ]
    assert outcomes == [expected for *_, expected in CONVERSATIONS[name]]


def test_a_command_that_is_not_understood_is_refused_once_and_for_all() -> None:
    """What the machine does not understand has an outcome like any other command: a repeat has the same."""
    log = counter_log()
    apply_one(log, encode_entry(opened()))
    nonsense = SessionCommand(session_id=SessionId(0), sequence=0, acknowledged=0, command=b"nonsense")
    first = apply_one(log, encode_entry(nonsense))
    assert isinstance(first, Refused)
    assert first.refusal is Refusal.INVALID_COMMAND
    assert apply_one(log, encode_entry(add(0))) == first
    assert log.query(b"") == Answered(reply=b"0")


def test_a_long_leap_of_acknowledgements_costs_what_is_kept() -> None:
    """A client that acknowledges far ahead is not followed number by number."""
    log = counter_log()
    apply_one(log, encode_entry(opened()))
    for sequence in range(3):
        apply_one(log, encode_entry(add(sequence)))
    apply_one(log, encode_entry(alive((1 << 63) - 1)))
    (state,) = log.sessions.view().states()
    assert (state.acknowledged, state.replies) == ((1 << 63) - 1, ())


def test_what_is_kept_is_bounded() -> None:
    """However many commands a client sends, no more replies are kept than its window has sequences."""
    log = AppliedLog(Counter(), name="counter", limits=SessionLimits(window=8))
    apply_one(log, encode_entry(OpenSession(ttl_ms=1_000)))
    for sequence in range(100):
        apply_one(log, encode_entry(add(sequence, max(0, sequence - 7))))
    (state,) = log.sessions.view().states()
    assert [kept.sequence for kept in state.replies] == list(range(92, 100))
    assert log.applied_offset == Offset(101)


def test_replies_of_all_sessions_share_room() -> None:
    """Where all sessions together keep too much, each is let in with its lowest sequence only, until there is room."""
    log = AppliedLog(Counter(), name="counter", limits=SessionLimits(kept_bytes_total_max=6))
    for session in range(3):
        apply_one(log, encode_entry(OpenSession(ttl_ms=1_000 + session)))
    apply_one(log, encode_entry(add(0, session=0, amount=123_456)))
    again = AppliedLog(Counter(), name="counter", limits=SessionLimits(kept_bytes_total_max=6))
    again.restore(log.snapshot())
    for one in (log, again):
        said = [add(1, session=1), add(0, session=1), add(0, session=2), alive(1, session=1), add(1, 1, session=1)]
        said += [add(2, 1, session=1), CloseSession(session_id=SessionId(0)), add(2, 2, session=1)]
        outcomes = [told(apply_one(one, encode_entry(entry))) for entry in said]
        assert outcomes == ["REPLIES_FULL", "123457", "123458", "done", "123459", "REPLIES_FULL", "done", "123460"]
        assert told(apply_one(one, encode_entry(add(3, 2, session=1)))) == "REPLIES_FULL"
        apply_one(one, encode_entry(alive(session=1)), stamp_ms=900)
        apply_one(one, encode_entry(alive(3, session=1)), stamp_ms=1_003)
        assert told(apply_one(one, encode_entry(add(4, 3, session=1)))) == "123461"


@pytest.mark.parametrize("refusal", Refusal)
def test_a_refusal_says_whether_the_command_may_have_been_applied(refusal: Refusal) -> None:
    """One copy that is refused is not applied; with others on their way, that is sure only where all are refused."""
    unknown = {"UNKNOWN_SESSION", "SEQUENCE_FORGOTTEN", "SEQUENCE_BEYOND_WINDOW", "REPLIES_FULL"}
    assert definitely_not_applied(refusal, sent_once=True)
    assert definitely_not_applied(refusal, sent_once=False) == (refusal.value not in unknown)


def test_limits_are_checked() -> None:
    """Limits that allow nothing are refused."""
    with pytest.raises(ValueError, match="limits are 1 or more"):
        SessionLimits(window=0)
    with pytest.raises(ValueError, match="the shortest time to live is above the longest"):
        SessionLimits(ttl_ms_min=20, ttl_ms_max=10)
