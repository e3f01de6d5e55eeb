"""Commands: what is refused before the append, what is answered when applied, and what stays open."""

from __future__ import annotations

from typing import Any

import pytest

from replica.bounds import INT32_MAX
from replica.core import messages as m
from replica.core.config import GroupConfig, QuorumConfig
from replica.errors import ErrorCode
from replica.machines import (
    OpenSession,
    PlainCommand,
    SessionCommand,
    SessionId,
    SessionOpened,
)
from replica.machines.counter import Counter
from tests.core.group.bench import (
    GROUP,
    GroupBench,
    add,
    apply,
    hosting,
    leading_bench,
    outcome_of,
    replies_of,
)
from tests.core.harness import CLUSTER, LOG
from tests.core.scenarios import commit, produce, reply_of


def test_entries_are_one_batch_and_are_answered_in_order(bench: GroupBench) -> None:
    """Entries of one request stand together, and their outcomes come in their order, with where the first stands."""
    call_id = bench.call(add(1, 2, 3))
    bench.commit_all()
    response = reply_of(bench, call_id)
    assert (response.error, response.base_offset, response.leader_epoch) == (ErrorCode.NONE, 3, 6)
    assert replies_of(response) == [b"1", b"3", b"6"]
    assert (len(bench.disk.batches), bench.disk.end) == (4, 6)


def test_an_answer_waits_until_its_entries_are_applied(bench: GroupBench) -> None:
    """Neither the append, nor the flush, nor the commit answers: only the machine knows the outcome."""
    call_id = bench.call(add(1))
    assert call_id in bench.open_calls
    bench.flush_all()
    assert call_id in bench.open_calls
    commit(bench, 1)
    assert call_id in bench.open_calls
    bench.apply_all()
    assert replies_of(reply_of(bench, call_id)) == [b"1"]


def test_each_request_gets_its_own_outcomes(bench: GroupBench) -> None:
    """Requests that are committed together are answered each for itself."""
    calls = [bench.call(add(10**n)) for n in range(4)]
    bench.commit_all()
    assert [replies_of(reply_of(bench, call_id)) for call_id in calls] == [[b"1"], [b"11"], [b"111"], [b"1111"]]


def test_an_entry_that_the_machine_refuses_is_answered_with_that(bench: GroupBench) -> None:
    """A command that is not understood is an outcome like any other: appended, and applied by nobody."""
    call_id = bench.call(apply(PlainCommand(command=b"two")))
    bench.commit_all()
    assert "INVALID_COMMAND" in str(outcome_of(reply_of(bench, call_id)))


SMALL = GroupConfig(entries_max=2, pending_applies_max=1, tick_interval_ms=INT32_MAX)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (add(1, 2, 3), ErrorCode.MESSAGE_TOO_LARGE),
        (m.ApplyRequest(topic_partition=LOG, entries=(bytes(1000),), timeout_ms=1), ErrorCode.MESSAGE_TOO_LARGE),
        (m.ApplyRequest(topic_partition=LOG, entries=(bytes(480),) * 2, timeout_ms=1), ErrorCode.MESSAGE_TOO_LARGE),
        (m.ApplyRequest(topic_partition=LOG, entries=(), timeout_ms=1), ErrorCode.INVALID_REQUEST),
        (apply(OpenSession(ttl_ms=5000), cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
    ],
    ids=["entries", "bytes", "bytes-of-the-batch", "nothing", "cluster"],
)
def test_what_is_refused_is_not_appended(request_: m.ApplyRequest, error: ErrorCode) -> None:
    """Each refusal comes before the append, and says so."""
    bench = leading_bench(group=SMALL, config=QuorumConfig(message_max_bytes=1000))
    response = bench.answer(request_)
    assert isinstance(response, m.ApplyResponse), response
    assert (response.error, response.not_appended, bench.disk.end) == (error, True, 3)


def test_pending_applies_are_bounded() -> None:
    """One more than may wait is refused, and not appended; when one is answered there is room."""
    bench = leading_bench(group=SMALL)
    bench.call(add(1))
    response = bench.answer(add(1))
    assert isinstance(response, m.ApplyResponse), response
    assert (response.error, response.not_appended) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)
    assert bench.disk.end == 4
    bench.commit_all()
    assert bench.call(add(1)) in bench.open_calls


def test_a_request_of_this_cluster_is_taken(bench: GroupBench) -> None:
    """Who names the right cluster is not refused."""
    assert bench.call(apply(OpenSession(ttl_ms=5000), cluster_id=CLUSTER)) in bench.open_calls


@pytest.mark.parametrize(("asked_ms", "waits_ms"), [(300, 300), (10**9, 700), (-1, 0)])
def test_a_timeout_leaves_the_outcome_open(asked_ms: int, waits_ms: int) -> None:
    """When time is up the entries may still be applied; how long a call waits is bounded."""
    bench = leading_bench(group=GroupConfig(apply_timeout_max_ms=700, tick_interval_ms=INT32_MAX))
    call_id = bench.call(add(1, timeout_ms=asked_ms))
    if waits_ms:
        bench.elapse(waits_ms - 1)
        assert call_id in bench.open_calls
        bench.elapse(1)
    response = reply_of(bench, call_id)
    assert (response.error, response.not_appended) == (ErrorCode.REQUEST_TIMED_OUT, False)
    bench.commit_all()
    assert bench.total() == 1


class Verbose(Counter):
    """A counter whose replies are long."""

    def apply(self, command: bytes, *, time_ms: int) -> bytes:
        """Add, and reply with many bytes."""
        return super().apply(command, time_ms=time_ms) + bytes(100)

    def query(self, request: bytes) -> bytes:
        """The sum, and many bytes."""
        return super().query(request) + bytes(100)


def test_an_answer_that_is_too_large_says_that_all_were_applied() -> None:
    """Outcomes that do not fit are told as such: not as a failure, for they are applied."""
    bench = leading_bench(machine=hosting(Verbose), group=GroupConfig(answer_bytes_max=250, tick_interval_ms=INT32_MAX))
    two, three = bench.call(add(1, 1)), bench.call(add(1, 1, 1))
    bench.commit_all()
    assert reply_of(bench, two).error is ErrorCode.NONE
    response = reply_of(bench, three)
    assert (response.error, response.not_appended, response.outcomes) == (ErrorCode.MESSAGE_TOO_LARGE, False, ())
    assert bench.group.applied_offset == 8


def test_a_retried_session_command_is_applied_once(bench: GroupBench) -> None:
    """The second copy, in a request of its own, is answered with the first reply."""
    call_id = bench.call(apply(OpenSession(ttl_ms=60_000)))
    bench.commit_all()
    opened = outcome_of(reply_of(bench, call_id))
    assert opened == SessionOpened(session_id=SessionId(3))
    command = SessionCommand(session_id=SessionId(3), sequence=0, acknowledged=0, command=b"5")
    calls = [bench.call(apply(command)), bench.call(apply(command))]
    bench.commit_all()
    assert [replies_of(reply_of(bench, call_id)) for call_id in calls] == [[b"5"], [b"5"]]
    assert bench.total() == 5


class Broken(Counter):
    """A counter with a bug."""

    def apply(self, command: bytes, *, time_ms: int) -> bytes:
        """Fail."""
        raise ArithmeticError("a bug")


def test_a_machine_that_fails_halts_its_replica() -> None:
    """The sentence names log, machine and offset; nothing is answered or asked after it."""
    bench = leading_bench(machine=hosting(Broken))
    call_id = bench.call(add(13))
    bench.commit_all()
    assert bench.halted == "log-0: state machine machine failed at offset 3: ArithmeticError: a bug"
    assert call_id in bench.open_calls
    assert bench.replica.halted == bench.halted


def test_only_the_group_writes_into_its_log(bench: GroupBench) -> None:
    """A Produce to the log of a group is refused, and not appended."""
    response: Any = bench.answer(produce())
    assert (response.error, response.not_appended, bench.disk.end) == (ErrorCode.INVALID_REQUEST, True, 3)


def test_limits_are_checked_at_start() -> None:
    """A maximum of nothing is refused, by its name."""
    with pytest.raises(ValueError, match="entries_max is 0"):
        GroupConfig(entries_max=0)
    assert GROUP.read_max_bytes == 256 << 10
