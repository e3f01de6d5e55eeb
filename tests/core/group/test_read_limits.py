"""What bounds the questions that wait, and what is kept for them; and what one kind of them leaves to the others."""

from __future__ import annotations

from typing import Any

import pytest

from replica.bounds import INT32_MAX
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import GroupConfig
from replica.errors import ErrorCode
from replica.ids import Offset
from tests.core.group.bench import STALE, GroupBench, add, answer_of, ask, leading_bench
from tests.core.group.test_reading import following_bench, indexed, read_index
from tests.core.harness import LOG
from tests.core.scenarios import commit, reply_of

FAR = Offset(1 << 40)
"""Nothing will be applied there while a scenario lasts."""


def bounded(**limits: Any) -> GroupConfig:
    """Only these limits, and no ticks."""
    return GroupConfig(tick_interval_ms=INT32_MAX, **limits)


def watch(**others: Any) -> m.QueryRequest:
    """Ask to hear of something that will not happen."""
    return ask(**{"consistency": STALE, "after_offset": FAR, **others})


def error_of(bench: GroupBench, request: m.QueryRequest | m.ReadIndexRequest) -> ErrorCode:
    """With what a request is answered at once."""
    response: Any = bench.answer(request)
    return ErrorCode(response.error)


def test_one_round_is_out_however_many_time_out(bench: GroupBench) -> None:
    """Questions that time out without an echo begin no round beside the one that is out; one that waits has it."""
    patient = bench.call(ask(timeout_ms=1500))
    bench.call(add(7))
    bench.flush_all()
    commit(bench, 1)
    bench.apply_all()
    for _ in range(20):
        bench.call(ask(timeout_ms=1))
        bench.elapse(2)
    assert bench.group.batches_begun == 1
    bench.echo(1)
    assert answer_of(bench, patient) == b"7"


def test_pending_questions_are_bounded() -> None:
    """One more than may wait is refused; when one is answered there is room."""
    bench = leading_bench(group=bounded(pending_queries_max=2))
    bench.call(ask())
    bench.call(ask())
    for request in (ask(), ask(consistency=STALE)):
        assert error_of(bench, request) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    bench.echo(1)
    assert bench.call(ask()) in bench.open_calls


def test_a_question_is_bounded() -> None:
    """One byte more than the maximum is refused, for good, whatever it waits for."""
    bench = leading_bench(group=bounded(query_max_bytes=10))
    too_much = (bytes(6), bytes(5))
    for request in (ask(requests=too_much), watch(requests=too_much), ask(requests=too_much, consistency=STALE)):
        assert error_of(bench, request) is ErrorCode.MESSAGE_TOO_LARGE
    assert bench.call(ask(requests=(bytes(10),))) in bench.open_calls


@pytest.mark.parametrize("consistency", [m.Consistency.LINEARIZABLE, STALE], ids=["questions", "watches"])
def test_the_bytes_of_what_waits_are_bounded(consistency: m.Consistency) -> None:
    """What waits holds so many bytes in all; when one is answered there is room for another."""
    bench = leading_bench(group=bounded(pending_query_bytes_max=25, pending_watch_bytes_max=25))
    request = ask(requests=(bytes(10),), consistency=consistency, after_offset=Offset(3), timeout_ms=500)
    if consistency is not STALE:
        request = ask(requests=(bytes(10),), timeout_ms=500)
    waiting = {bench.call(request) for _ in range(2)}
    assert waiting <= bench.open_calls
    assert error_of(bench, request) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    bench.elapse(500)
    assert not waiting & bench.open_calls
    assert bench.call(request) in bench.open_calls


def test_who_watches_takes_no_place_of_who_asks() -> None:
    """Long polls have places of their own: another is refused, while questions and other replicas are heard."""
    bench = leading_bench(group=bounded(pending_queries_max=2, pending_watches_max=3))
    watches = {bench.call(watch()) for _ in range(3)}
    assert watches <= bench.open_calls
    assert error_of(bench, watch()) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    asked, told = bench.call(ask()), bench.call(read_index())
    bench.echo(1)
    bench.echo(2)
    assert (answer_of(bench, asked), reply_of(bench, told).read_index) == (b"0", 3)


def test_a_watch_that_is_not_confirmed_yet_finds_no_place() -> None:
    """A linearizable one is refused when it would begin to wait, if others have taken the places meanwhile."""
    bench = leading_bench(group=bounded(pending_watches_max=1))
    late = bench.call(watch(consistency=m.Consistency.LINEARIZABLE))
    bench.call(watch())
    bench.echo(1)
    assert reply_of(bench, late).error is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_watch_that_has_news_needs_no_place() -> None:
    """What can be answered now does not wait, however many do."""
    bench = leading_bench(group=bounded(pending_watches_max=1))
    waiting = bench.call(watch())
    late = bench.call(ask(after_offset=Offset(0)))
    bench.echo(1)
    assert answer_of(bench, late) == b"0"
    assert waiting in bench.open_calls


def test_questions_leave_places_for_other_replicas() -> None:
    """A leader that takes no more questions of its own tells read indexes, as many as there are places for."""
    bench = leading_bench(group=bounded(pending_queries_max=1, pending_read_indexes_max=2))
    bench.call(ask())
    assert error_of(bench, ask()) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    told = [bench.call(read_index()) for _ in range(2)]
    assert error_of(bench, read_index()) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    bench.echo(1)
    bench.echo(2)
    assert [reply_of(bench, call_id).read_index for call_id in told] == [3, 3]


def test_a_follower_passes_on_that_its_leader_has_no_place() -> None:
    """Its clients wait and ask again, instead of looking for another leader."""
    bench = following_bench()
    call_id = bench.call(ask())
    bench.respond(bench.send_to(1, m.ReadIndexRequest), indexed(None, ErrorCode.THROTTLING_QUOTA_EXCEEDED))
    assert reply_of(bench, call_id).error is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_part_of_a_batch_that_is_committed_halts_the_replica(bench: GroupBench) -> None:
    """Nothing whole can be read there, and asking again would never end."""
    bench.call(add(1, 2, 3))
    bench.flush_all()
    commit(bench, 1)
    (read,) = bench.reads
    bench.step(ev.LogRead(topic_partition=LOG, start_offset=read.start_offset, records=b""))
    assert bench.halted is not None
    assert "no whole batch lies in [3, 6)" in bench.halted
