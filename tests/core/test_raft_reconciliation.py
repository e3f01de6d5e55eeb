"""Finding where two logs part across changes of leader and late answers."""

from __future__ import annotations

from replica.core import messages as m
from tests.core.harness import Bench, batches_of, epochs_of
from tests.core.scenarios import (
    answer_fetch,
    diverging,
    follow,
    follower_bench,
    lead,
    pending_fetch,
    produce,
    records,
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


def test_late_truncation_is_ignored() -> None:
    """Where the former leader's log parts from this one is nothing to the new leader."""
    bench = follower_bench(log=[(1, 2), (2, 2)])
    late = bench.send_to(1, m.FetchRequest)
    follow(bench, 2, 6)
    bench.respond(late, diverging(1, 1, leader_id=1, leader_epoch=5))
    assert bench.disk.end == 4


def test_become_follower_when_leader_is_unchanged_but_missed_leader_update() -> None:
    """The same leader in a newer epoch may have another log: the logs are compared anew (KAFKA-7164)."""
    bench = follower_bench(log=[(1, 2)])
    late = bench.send_to(1, m.FetchRequest)
    bench.sends = []
    follow(bench, 1, 6)
    bench.respond(late, records(batches_of((5, 1), start=2), leader_id=1, epoch=5))
    asked = pending_fetch(bench)
    assert (bench.disk.end, asked.current_leader_epoch, asked.last_fetched_epoch) == (2, 6, 1)
    answer_fetch(bench, diverging(1, 1, leader_id=1, leader_epoch=6))
    assert bench.disk.end == 1


def test_new_follower_fetches_only_after_its_flush(bench: Bench) -> None:
    """A deposed leader with a flush out neither fetches nor truncates before that flush has been reported."""
    bench.call(produce(acks=1))
    bench.sends = []
    follow(bench, 2, 7)
    assert bench.sends == []
    bench.elapse(bench.config.quorum.fetch_timeout_ms - 1)
    assert bench.sends == []
    bench.flush()
    assert (pending_fetch(bench).fetch_offset, pending_fetch(bench).last_fetched_epoch) == (3, 6)
    answer_fetch(bench, diverging(6, 2, leader_id=2, leader_epoch=7))
    assert (bench.disk.end, bench.disk.owed) == (2, [])


def test_deposed_leader_truncates_what_it_never_committed(bench: Bench) -> None:
    """Records that only the old leader held give way to the new leader's, and it can lead again on top of them."""
    bench.call(produce(b"lost", acks=1))
    bench.flush_all()
    bench.sends = []
    follow(bench, 2, 7)
    answer_fetch(bench, diverging(6, 2, leader_id=2, leader_epoch=7))
    answer_fetch(bench, records(batches_of((7, 1), start=2), leader_id=2, epoch=7, high_watermark=3))
    bench.flush_all()
    lead(bench)
    assert [batch.leader_epoch for batch in bench.disk.batches] == [6, 6, 7, 8]
    assert bench.disk.epochs == epochs_of(bench.disk.batches)


# --- the first fetch ------------------------------------------------------------------------------------------------


def test_should_not_fetch_leader_epoch_on_first_fetch_with_truncate_on_fetch() -> None:
    """The first thing that a follower sends is a Fetch, in which it names its last epoch."""
    assert pending_fetch(follower_bench(log=[(1, 2)])).last_fetched_epoch == 1
