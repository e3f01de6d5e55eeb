"""Questions: what a linearizable answer waits for on the leader and on a follower, and what an answer is bounded by."""

from __future__ import annotations

from typing import Any

import pytest

from replica.bounds import INT32_MAX
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import GroupConfig
from replica.errors import ErrorCode
from replica.ids import CallId, Epoch, Offset, ReplicaId
from replica.machines import Answered, Refusal, Refused, decode_outcome
from tests.core.group.bench import (
    STALE,
    GroupBench,
    add,
    answer_of,
    ask,
    hosting,
    leading_bench,
    outcome_of,
    round_of,
)
from tests.core.group.test_proposing import Verbose
from tests.core.harness import CLUSTER, LOG, batches_of, leader, stored
from tests.core.scenarios import (
    answer_fetch,
    commit,
    fetch,
    fetch_answer,
    follow,
    lead,
    pending_fetch,
    records,
    reply_of,
)


def read_index(epoch: int = 6, **others: Any) -> m.ReadIndexRequest:
    """Ask the leader how far to have applied."""
    return m.ReadIndexRequest(
        **{
            "topic_partition": LOG,
            "replica_id": ReplicaId(2),
            "current_leader_epoch": Epoch(epoch),
            "cluster_id": CLUSTER,
            **others,
        }
    )


# --- on the leader --------------------------------------------------------------------------------------------------


def test_a_linearizable_question_waits_for_the_echo_of_its_round() -> None:
    """Only when a majority has echoed the round that the question began is it answered."""
    bench = leading_bench()
    bench.call(add(7))
    bench.commit_all()
    call_id = bench.call(ask())
    assert (call_id in bench.open_calls, round_of(bench)) == (True, 1)
    bench.echo(0)
    assert call_id in bench.open_calls
    bench.echo(1)
    response = reply_of(bench, call_id)
    assert (answer_of(bench, call_id), response.error, response.applied_offset) == (b"7", ErrorCode.NONE, 4)


def test_an_earlier_echo_does_not_count_for_a_later_question(bench: GroupBench) -> None:
    """A fetch that was sent before the second question echoes the first round, and confirms only that."""
    first, second = bench.call(ask()), bench.call(ask())
    bench.echo(1)
    assert first not in bench.open_calls
    assert second in bench.open_calls
    bench.echo(2)
    assert second not in bench.open_calls


def test_a_parked_fetch_of_a_voter_is_completed_by_a_question(bench: GroupBench) -> None:
    """A voter hears of the round at once, not when its fetch runs out; an observer's fetch stays where it is."""
    parked = bench.call(fetch(3, 6, 6, replica=1, wait_ms=400, high_watermark=Offset(3)))
    observer = bench.call(fetch(3, 6, 6, replica=9, wait_ms=400, high_watermark=Offset(3)))
    assert {parked, observer} <= bench.open_calls
    bench.call(ask())
    assert reply_of(bench, parked).read_round == 1
    assert observer in bench.open_calls


def test_questions_of_one_step_share_one_round(bench: GroupBench) -> None:
    """What has come before the group settles is confirmed by one round, and answered by one echo."""
    for number in range(3):
        bench.group.on_request(CallId(1000 + number), ask(), bench.now_ms)
    bench.calls |= {CallId(1000 + number) for number in range(3)}
    last = bench.call(ask())
    assert round_of(bench) == 1
    bench.echo(1)
    assert {answer_of(bench, call_id) for call_id in (CallId(1000), CallId(1001), CallId(1002), last)} == {b"0"}


def test_questions_that_come_while_a_round_is_out_share_the_next(bench: GroupBench) -> None:
    """The round that is out began before them and proves nothing for them; when it is confirmed, theirs begins."""
    first, *later = [bench.call(ask()) for _ in range(5)]
    assert round_of(bench) == 1
    bench.echo(1)
    assert bench.open_calls & {first, *later} == set(later)
    assert round_of(bench) == 2
    bench.echo(2)
    assert not bench.open_calls & set(later)


def test_each_round_has_its_own_read_index(bench: GroupBench) -> None:
    """The earlier question waits for less than the later ones."""
    first = bench.call(read_index())
    bench.call(add(7))
    bench.flush_all()
    commit(bench, 1)
    later = [bench.call(read_index()) for _ in range(2)]
    bench.echo(1)
    bench.echo(2)
    assert [reply_of(bench, call_id).read_index for call_id in (first, *later)] == [3, 4, 4]


def test_a_question_waits_until_its_read_index_is_applied() -> None:
    """Confirmed is not enough: what was committed when the round began is applied first."""
    bench = leading_bench()
    bench.call(add(7))
    bench.flush_all()
    commit(bench, 1)
    call_id = bench.call(ask())
    bench.echo(1)
    assert call_id in bench.open_calls
    bench.apply_all()
    assert answer_of(bench, call_id) == b"7"


def test_what_is_written_after_the_round_began_is_not_waited_for(bench: GroupBench) -> None:
    """The read index is the high watermark of the beginning."""
    call_id = bench.call(ask())
    bench.call(add(7))
    bench.echo(1)
    assert answer_of(bench, call_id) == b"0"


def test_a_quorum_of_one_confirms_at_once() -> None:
    """Who is the majority asks nobody."""
    bench = leading_bench(voters=(0,))
    assert answer_of(bench, bench.call(ask())) == b"0"


def test_a_stale_question_is_answered_at_once(bench: GroupBench) -> None:
    """Whatever has been applied here, in whatever role, is the answer."""
    bench.call(add(7))
    bench.commit_all()
    follow(bench, 1, 9)
    assert answer_of(bench, bench.call(ask(consistency=STALE))) == b"7"
    assert round_of(leading_bench()) == 0


def test_a_lease_is_linearizable(bench: GroupBench) -> None:
    """Without a leader that has one, who asks for a lease waits for a round."""
    call_id = bench.call(ask(consistency=m.Consistency.LEASE))
    assert call_id in bench.open_calls
    bench.echo(1)
    assert answer_of(bench, call_id) == b"0"


def test_an_epoch_change_fails_waiting_questions(bench: GroupBench) -> None:
    """Without a read index a question is refused when the leadership changes; it may be put again."""
    call_id = bench.call(ask())
    follow(bench, 1, 7)
    response = reply_of(bench, call_id)
    assert (response.error, response.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader(1, 7))


def test_rounds_end_with_their_leadership(bench: GroupBench) -> None:
    """Who leads again begins with the first round, and waits for none of those that nobody echoed before."""
    for _ in range(3):
        bench.call(ask())
    bench.step(ev.ResignRequested())
    assert bench.open_calls == set()
    bench.to_role("prospective")
    lead(bench)
    bench.commit_all()
    call_id = bench.call(ask())
    bench.echo(1)
    assert answer_of(bench, call_id) == b"0"


def test_a_question_that_has_its_read_index_outlives_the_epoch(bench: GroupBench) -> None:
    """What is committed stays so: only the applying is waited for, whoever leads."""
    bench.call(add(7))
    bench.flush_all()
    commit(bench, 1)
    call_id = bench.call(ask())
    bench.echo(1)
    follow(bench, 1, 7)
    bench.apply_all()
    assert answer_of(bench, call_id) == b"7"


def test_a_new_leader_lets_questions_wait() -> None:
    """Before its machine leads, a leader does not know what was answered by others; then it begins the round."""
    bench = GroupBench(quorum_state=stored(5), log=[(2, 3)])
    lead(bench)
    call_id = bench.call(ask())
    assert (call_id in bench.open_calls, round_of(bench)) == (True, 0)
    commit(bench, 1)
    bench.apply_all()
    assert round_of(bench) == 1
    bench.echo(1)
    assert call_id not in bench.open_calls


def test_another_replica_learns_the_read_index(bench: GroupBench) -> None:
    """The leader answers it as soon as the round is confirmed, before its own machine is there."""
    bench.call(add(7))
    bench.flush_all()
    commit(bench, 1)
    call_id = bench.call(read_index())
    assert call_id in bench.open_calls
    bench.echo(1)
    response = reply_of(bench, call_id)
    assert (response.error, response.read_index, bench.group.applied_offset) == (ErrorCode.NONE, 4, 3)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (read_index(5), ErrorCode.FENCED_LEADER_EPOCH),
        (read_index(7), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (read_index(cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
    ],
    ids=["older", "newer", "cluster"],
)
def test_a_replica_of_another_epoch_is_refused(
    bench: GroupBench, request_: m.ReadIndexRequest, error: ErrorCode
) -> None:
    """Who asks in an earlier or a later epoch learns that, and begins no round."""
    response: Any = bench.answer(request_)
    assert (response.error, response.current_leader, round_of(bench)) == (error, leader(0, 6), 0)


def test_a_follower_knows_no_read_index(bench: GroupBench) -> None:
    """Only the leader of the epoch says how far to have applied."""
    follow(bench, 1, 7)
    response: Any = bench.answer(read_index(7))
    assert response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_read_index_that_nobody_waits_for_is_given_up(bench: GroupBench) -> None:
    """After the request timeout it is answered that time is up."""
    call_id = bench.call(read_index())
    bench.elapse(bench.config.quorum.request_timeout_ms)
    assert reply_of(bench, call_id).error is ErrorCode.REQUEST_TIMED_OUT


# --- on a follower --------------------------------------------------------------------------------------------------


def following_bench(**others: Any) -> GroupBench:
    """Build a follower of 1 in epoch 5, whose log of three records is flushed; nothing is committed."""
    return GroupBench(quorum_state=stored(5, leader_id=1), log=[(5, 3)], **others)


def advance(bench: GroupBench, high_watermark: int) -> None:
    """Let the leader say how much is committed."""
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=high_watermark))


def indexed(index: int | None, error: ErrorCode = ErrorCode.NONE) -> m.ReadIndexResponse:
    """Answer a ReadIndex."""
    return m.ReadIndexResponse(
        error=error, read_index=None if index is None else Offset(index), current_leader=leader(1, 5)
    )


def test_a_follower_asks_the_leader_and_waits_until_it_has_applied() -> None:
    """A linearizable question on a follower is answered when it has applied what the leader says."""
    bench = following_bench()
    call_id = bench.call(ask())
    assert bench.requests(m.ReadIndexRequest) == {1: read_index(5, replica_id=ReplicaId(0))}
    bench.respond(bench.send_to(1, m.ReadIndexRequest), indexed(2))
    assert call_id in bench.open_calls
    advance(bench, 1)
    bench.apply_all()
    assert call_id in bench.open_calls
    advance(bench, 3)
    bench.apply_all()
    assert reply_of(bench, call_id).applied_offset == 3


def test_one_read_index_is_out_at_a_time() -> None:
    """Questions that come while the leader is asked share the next one."""
    bench = following_bench()
    advance(bench, 3)
    bench.apply_all()
    first = bench.call(ask())
    later = [bench.call(ask()) for _ in range(3)]
    asked = [send for send in bench.sends if isinstance(send.request, m.ReadIndexRequest)]
    assert len(asked) == 1
    bench.respond(asked[0], indexed(3))
    assert first not in bench.open_calls
    assert set(later) <= bench.open_calls
    bench.respond(bench.send_to(1, m.ReadIndexRequest), indexed(3))
    assert not bench.open_calls
    assert not bench.requests(m.ReadIndexRequest)


def test_without_a_leader_nobody_answers() -> None:
    """Who knows of no leader refuses, and says what it knows."""
    bench = GroupBench(quorum_state=stored(5))
    response: Any = bench.answer(ask())
    assert (response.error, response.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader(None, 5))


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_leader_that_refuses_fails_the_questions(error: ErrorCode) -> None:
    """The askers may try elsewhere, or here again."""
    bench = following_bench()
    call_id = bench.call(ask())
    bench.respond(bench.send_to(1, m.ReadIndexRequest), indexed(None, error))
    assert reply_of(bench, call_id).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_is_not_reached_fails_the_questions() -> None:
    """So it is when no answer comes."""
    bench = following_bench()
    call_id = bench.call(ask())
    bench.fail(bench.send_to(1, m.ReadIndexRequest))
    assert reply_of(bench, call_id).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    later = bench.call(ask())
    bench.respond(bench.send_to(1, m.ReadIndexRequest), indexed(0))
    assert later not in bench.open_calls


def test_an_answer_of_an_earlier_leadership_is_late() -> None:
    """A follower of a new leader has failed its questions, and takes no read index for the next from the old one."""
    bench = following_bench()
    first = bench.call(ask())
    old = bench.send_to(1, m.ReadIndexRequest)
    follow(bench, 2, 7)
    assert reply_of(bench, first).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    second = bench.call(ask())
    assert 2 in bench.requests(m.ReadIndexRequest)
    bench.respond(old, indexed(0))
    assert second in bench.open_calls


# --- waiting for something new, and limits --------------------------------------------------------------------------


def test_a_question_waits_for_something_new(bench: GroupBench) -> None:
    """With ``after_offset`` it is answered when that offset is applied, and not before."""
    call_id = bench.call(ask(consistency=STALE, after_offset=Offset(3)))
    assert call_id in bench.open_calls
    bench.call(add(7))
    bench.commit_all()
    assert (answer_of(bench, call_id), reply_of(bench, call_id).applied_offset) == (b"7", 4)


def test_a_question_that_waits_in_vain_is_answered_with_what_there_is(bench: GroupBench) -> None:
    """When its time is up, nothing new is an answer too."""
    call_id = bench.call(ask(consistency=STALE, after_offset=Offset(3), timeout_ms=300))
    bench.elapse(299)
    assert call_id in bench.open_calls
    bench.elapse(1)
    assert (answer_of(bench, call_id), reply_of(bench, call_id).applied_offset) == (b"0", 3)


def test_a_linearizable_question_that_is_not_confirmed_in_time_is_not_answered(bench: GroupBench) -> None:
    """Waiting for something new does not make old state an answer."""
    call_id = bench.call(ask(after_offset=Offset(3), timeout_ms=300))
    bench.elapse(300)
    assert reply_of(bench, call_id).error is ErrorCode.REQUEST_TIMED_OUT


def test_a_question_whose_read_index_is_not_applied_in_time_is_not_answered() -> None:
    """Nor does its read index alone."""
    bench = following_bench()
    call_id = bench.call(ask(after_offset=Offset(0), timeout_ms=300))
    bench.respond(bench.send_to(1, m.ReadIndexRequest), indexed(2))
    bench.elapse(300)
    assert reply_of(bench, call_id).error is ErrorCode.REQUEST_TIMED_OUT


def test_how_long_a_question_waits_is_bounded() -> None:
    """Whatever timeout is asked for, there is a longest."""
    bench = leading_bench(group=GroupConfig(query_timeout_max_ms=200, tick_interval_ms=INT32_MAX))
    call_id = bench.call(ask(timeout_ms=10**9))
    bench.elapse(200)
    assert reply_of(bench, call_id).error is ErrorCode.REQUEST_TIMED_OUT


def test_an_answer_is_bounded() -> None:
    """A reply that is too large is refused."""
    bench = leading_bench(machine=hosting(Verbose), group=GroupConfig(answer_bytes_max=50, tick_interval_ms=INT32_MAX))
    response: Any = bench.answer(ask(consistency=STALE))
    assert (response.error, response.outcomes) == (ErrorCode.MESSAGE_TOO_LARGE, ())


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (ask(after_offset=Offset(-1)), ErrorCode.INVALID_REQUEST),
        (ask(cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
    ],
    ids=["offset", "cluster"],
)
def test_a_question_that_makes_no_sense_is_refused(
    bench: GroupBench, request_: m.QueryRequest, error: ErrorCode
) -> None:
    """It begins nothing."""
    response: Any = bench.answer(request_)
    assert (response.error, round_of(bench)) == (error, 0)


def test_a_question_that_the_machine_does_not_understand_is_refused_by_it(bench: GroupBench) -> None:
    """That is an outcome, and no error of the group."""
    outcome = outcome_of(bench.answer(ask(consistency=STALE, requests=(b"?",))))
    assert isinstance(outcome, Refused)
    assert outcome.refusal is Refusal.INVALID_COMMAND


def test_records_that_are_fetched_are_applied_when_committed() -> None:
    """A follower applies what its leader says is committed, and no more."""
    bench = following_bench()
    answer_fetch(bench, records(batches_of((5, 2), start=3), leader_id=1, epoch=5, high_watermark=4))
    bench.flush_all()
    bench.apply_all()
    assert (bench.group.applied_offset, pending_fetch(bench).fetch_offset) == (4, 5)


def test_a_follower_echoes_the_last_round_of_its_leader() -> None:
    """Each fetch names the round that this leader's last answer named; under the next leader there is none."""
    bench = following_bench()
    assert pending_fetch(bench).read_round == 0
    answer_fetch(bench, fetch_answer(error=ErrorCode.NONE, current_leader=leader(1, 5), read_round=3))
    assert pending_fetch(bench).read_round == 3
    answer_fetch(bench, fetch_answer(error=ErrorCode.NONE, current_leader=leader(2, 7)))
    assert pending_fetch(bench).read_round == 0


def test_a_restarted_follower_echoes_none() -> None:
    """What it was told before it has forgotten, and does not claim."""
    bench = following_bench()
    answer_fetch(bench, fetch_answer(error=ErrorCode.NONE, current_leader=leader(1, 5), read_round=3))
    bench.restart()
    assert pending_fetch(bench).read_round == 0


def test_questions_of_one_request_are_answered_of_one_state(bench: GroupBench) -> None:
    """Each has an outcome of its own, in their order."""
    call_id = bench.call(ask(requests=(b"", b"?")))
    bench.echo(1)
    total, refused = map(decode_outcome, reply_of(bench, call_id).outcomes)
    assert isinstance(total, Answered)
    assert isinstance(refused, Refused)


def test_answers_of_one_request_are_bounded_together() -> None:
    """What does not fit into one answer is refused."""
    bench = leading_bench(machine=hosting(Verbose), group=GroupConfig(answer_bytes_max=150, tick_interval_ms=INT32_MAX))
    for count, error in ((1, ErrorCode.NONE), (2, ErrorCode.MESSAGE_TOO_LARGE)):
        response: Any = bench.answer(ask(consistency=STALE, requests=(b"",) * count))
        assert (response.error, len(response.outcomes)) == (error, 1 if error is ErrorCode.NONE else 0)


def test_a_request_without_a_question_is_none() -> None:
    """Nothing can be said to it."""
    response: Any = leading_bench().answer(ask(consistency=STALE, requests=()))
    assert response.error is ErrorCode.INVALID_REQUEST
