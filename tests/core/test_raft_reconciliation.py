"""Finding where two logs part across changes of leader, late answers, and by asking before the first fetch."""

from __future__ import annotations

import pytest

from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset
from tests.core.harness import batches_of, epochs_of, leader
from tests.core.scenarios import (
    answer_fetch,
    diverging,
    follow,
    follower_bench,
    lead,
    leader_bench,
    pending_fetch,
    produce,
    records,
)

ASK_FIRST = QuorumConfig(truncate_on_fetch=False)


def epoch_end(epoch: int, end_offset: int, *, leader_epoch: int = 5) -> m.OffsetForLeaderEpochResponse:
    return m.OffsetForLeaderEpochResponse(
        error=ErrorCode.NONE,
        answer=EpochEndOffset(Epoch(epoch), Offset(end_offset)),
        current_leader=leader(1, leader_epoch),
    )


# --- late answers ---------------------------------------------------------------------------------------------------


def test_fetch_response_ignored_after_becoming_candidate() -> None:
    """An answer that comes when the follower has given its leader up is not appended."""
    bench = follower_bench()
    late = bench.send_to(1, m.FetchRequest)
    bench.to_role("prospective")
    bench.respond(late, records(batches_of((5, 1)), leader_id=1, epoch=5, high_watermark=1))
    assert (bench.disk.batches, bench.high_watermark, bench.role) == ([], None, "prospective")


def test_fetch_response_ignored_after_becoming_follower_of_different_leader() -> None:
    """An answer of the former leader is not appended under the new one."""
    bench = follower_bench()
    late = bench.send_to(1, m.FetchRequest)
    follow(bench, 2, 6)
    bench.respond(late, records(batches_of((5, 1)), leader_id=1, epoch=5, high_watermark=1))
    assert (bench.disk.batches, bench.log.leader_id) == ([], 2)


@pytest.mark.parametrize("answer", [diverging(1, 1, leader_id=1, leader_epoch=5), epoch_end(1, 1)])
def test_late_truncation_is_ignored(answer: m.PeerResponse) -> None:
    """Where the former leader's log parts from this one is nothing to the new leader."""
    bench = follower_bench(log=[(1, 2), (2, 2)])
    late = bench.send_to(1, m.FetchRequest)
    follow(bench, 2, 6)
    bench.respond(late, answer)
    assert bench.disk.end == 4


def test_become_follower_when_leader_is_unchanged_but_missed_leader_update() -> None:
    """The same leader in a newer epoch may have another log: the logs are compared anew (KAFKA-7164)."""
    bench = follower_bench(config=ASK_FIRST, log=[(1, 2)])
    bench.respond(bench.send_to(1, m.OffsetForLeaderEpochRequest), epoch_end(1, 2))
    assert pending_fetch(bench).current_leader_epoch == 5
    bench.sends = []
    follow(bench, 1, 6)
    assert set(bench.requests(m.OffsetForLeaderEpochRequest)) == {1}


def test_new_follower_fetches_only_after_its_flush() -> None:
    """A deposed leader with a flush out neither fetches nor truncates before that flush has been reported."""
    bench = leader_bench()
    bench.call(produce(acks=1))
    bench.sends = []
    follow(bench, 2, 7)
    assert bench.sends == []
    bench.elapse(bench.config.quorum.fetch_timeout_ms - 1)
    assert bench.sends == []
    bench.flush()
    assert (pending_fetch(bench).fetch_offset, pending_fetch(bench).last_fetched_epoch) == (2, 6)
    answer_fetch(bench, diverging(6, 1, leader_id=2, leader_epoch=7))
    assert (bench.disk.end, bench.disk.owed) == (1, [])


def test_deposed_leader_truncates_what_it_never_committed() -> None:
    """Records that only the old leader held give way to the new leader's, and it can lead again on top of them."""
    bench = leader_bench()
    bench.call(produce(b"lost", acks=1))
    bench.flush_all()
    bench.sends = []
    follow(bench, 2, 7)
    answer_fetch(bench, diverging(6, 1, leader_id=2, leader_epoch=7))
    answer_fetch(bench, records(batches_of((7, 1), start=1), leader_id=2, epoch=7, high_watermark=2))
    bench.flush_all()
    lead(bench)
    assert [batch.leader_epoch for batch in bench.disk.batches] == [6, 7, 8]
    assert bench.disk.epochs == epochs_of(bench.disk.batches)


# --- asking OffsetForLeaderEpoch before the first fetch -------------------------------------------------------------


def test_should_not_fetch_leader_epoch_on_first_fetch_with_truncate_on_fetch() -> None:
    """With truncation on fetch the first thing a follower sends is a Fetch."""
    assert pending_fetch(follower_bench(log=[(1, 2)])).last_fetched_epoch == 1


def test_empty_log_needs_no_reconciliation() -> None:
    """A follower without records has nothing to compare and fetches at once."""
    assert pending_fetch(follower_bench(config=ASK_FIRST)).fetch_offset == 0


@pytest.mark.parametrize(("answered", "kept"), [(156, 156), (172, 172), (202, 200)])
def test_should_truncate_to_offset_specified_in_epoch_offset_response(answered: int, kept: int) -> None:
    """The leader's end of the follower's last epoch bounds the log, and never lengthens it; then it fetches."""
    bench = follower_bench(config=ASK_FIRST, log=[(5, 200)])
    asked = bench.send_to(1, m.OffsetForLeaderEpochRequest)
    assert isinstance(asked.request, m.OffsetForLeaderEpochRequest)
    assert (asked.request.leader_epoch, asked.request.current_leader_epoch) == (5, 5)
    bench.respond(asked, epoch_end(5, answered))
    assert (bench.disk.end, pending_fetch(bench).fetch_offset) == (kept, kept)


def test_should_fetch_leader_epoch_second_time_if_leader_replies_with_epoch_not_known_to_follower() -> None:
    """With an epoch that it does not know the follower cuts to its own floor and asks again, then fetches."""
    bench = follower_bench(config=ASK_FIRST, log=[(3, 120), (5, 80)])
    bench.respond(bench.send_to(1, m.OffsetForLeaderEpochRequest), epoch_end(4, 155))
    assert bench.disk.end == 120
    again = bench.send_to(1, m.OffsetForLeaderEpochRequest)
    assert isinstance(again.request, m.OffsetForLeaderEpochRequest)
    assert again.request.leader_epoch == 3
    bench.respond(again, epoch_end(3, 101))
    assert (bench.disk.end, pending_fetch(bench).fetch_offset) == (101, 101)
    assert bench.requests(m.OffsetForLeaderEpochRequest) == {}


def test_should_never_truncate_if_leader_returns_undefined_offset() -> None:
    """An answer that knows nothing of the epoch cuts nothing: the follower fetches, by which it is compared as well."""
    bench = follower_bench(config=ASK_FIRST, log=[(5, 3)])
    undefined = m.OffsetForLeaderEpochResponse(error=ErrorCode.NONE, answer=None, current_leader=leader(1, 5))
    bench.respond(bench.send_to(1, m.OffsetForLeaderEpochRequest), undefined)
    assert (bench.disk.end, pending_fetch(bench).fetch_offset, pending_fetch(bench).last_fetched_epoch) == (3, 3, 5)


def test_unknown_leader_epoch_in_truncation() -> None:
    """A leader that does not know the epoch yet is asked again; meanwhile nothing is cut."""
    bench = follower_bench(config=ASK_FIRST, log=[(5, 3)])
    behind = m.OffsetForLeaderEpochResponse(error=ErrorCode.UNKNOWN_LEADER_EPOCH, current_leader=leader(None, 4))
    bench.respond(bench.send_to(1, m.OffsetForLeaderEpochRequest), behind)
    assert (bench.disk.end, bench.role, bench.epoch) == (3, "follower", 5)
    bench.elapse(bench.config.quorum.retry_backoff_ms)
    assert set(bench.requests(m.OffsetForLeaderEpochRequest)) == {1}
