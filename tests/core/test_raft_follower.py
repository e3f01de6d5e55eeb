"""A follower's work: fetch, reconcile, append, flush, and only then fetch again."""

from __future__ import annotations

import pytest

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset
from tests.core.harness import Bench, batches_of, epochs_of, leader, records_of, stored
from tests.core.scenarios import (
    answer_fetch,
    begin,
    diverging,
    fetch_answer,
    fetch_error,
    follow,
    follower_bench,
    pending_fetch,
    records,
)


def test_follower_replication() -> None:
    """Batches are appended and flushed as they came, and only then is the end acknowledged by the next fetch."""
    bench = follower_bench(log=[(1, 2)])
    assert (pending_fetch(bench).fetch_offset, pending_fetch(bench).last_fetched_epoch) == (2, 1)
    new = batches_of((1, 1), (5, 2), start=2)
    answer_fetch(bench, records(new, leader_id=1, epoch=5, high_watermark=3))
    assert [type(effect) for effect in bench.effects] == [fx.StoreEpochs, fx.Append, fx.Flush]
    assert bench.disk.batches[2:] == new
    assert bench.high_watermark == 3
    bench.elapse(100)
    assert bench.sends == [], "nothing is acknowledged that a crash could take"
    bench.flush()
    request = pending_fetch(bench)
    assert (request.fetch_offset, request.last_fetched_epoch, request.high_watermark) == (5, 5, 3)


def test_empty_record_set_in_fetch_response() -> None:
    """The high watermark moves with no records, as far as the log reaches; unknown stays unknown."""
    bench = follower_bench(log=[(1, 2)])
    answer_fetch(bench, records([], leader_id=1, epoch=5))
    seen = [bench.high_watermark]
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=1))
    seen.append(bench.high_watermark)
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=9))
    seen.append(bench.high_watermark)
    assert seen == [None, 1, 2]


def test_decrement_high_watermark() -> None:
    """In a quorum log the high watermark never falls: a leader that says so has lost what was committed."""
    bench = follower_bench(log=[(1, 3)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=3))
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=2))
    assert bench.halted is not None
    assert "below 3, which is committed" in bench.halted


def test_follower_log_reconciliation() -> None:
    """A diverging answer cuts log and epochs durably, and the next fetch starts where they were cut."""
    bench = follower_bench(log=[(1, 2), (2, 2)])
    answer_fetch(bench, diverging(1, 2, leader_id=1, leader_epoch=5))
    assert [type(effect) for effect in bench.effects] == [fx.Truncate, fx.StoreEpochs, fx.Send]
    assert (bench.disk.end, bench.disk.epochs) == (2, epochs_of(batches_of((1, 2))))
    assert (pending_fetch(bench).fetch_offset, pending_fetch(bench).last_fetched_epoch) == (2, 1)


def test_truncate_on_fetch_does_not_update_high_watermark() -> None:
    """A diverging answer says nothing of what is committed (KAFKA-14704)."""
    bench = follower_bench(log=[(1, 2), (2, 2)])
    answer = fetch_answer(
        error=ErrorCode.NONE,
        diverging_epoch=EpochEndOffset(Epoch(1), Offset(2)),
        high_watermark=Offset(1),
        current_leader=leader(1, 5),
    )
    answer_fetch(bench, answer)
    assert bench.high_watermark is None


def test_new_follower_keeps_its_log() -> None:
    """Who begins to follow another leader cuts nothing before that one has said where the logs part."""
    bench = follower_bench(log=[(1, 2)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=1))
    follow(bench, 2, 6)
    assert bench.disk.end == 2


def test_truncate_below_high_watermark() -> None:
    """A leader that wants something committed cut away is refused for good: the replica halts, its log untouched."""
    bench = follower_bench(log=[(1, 2), (2, 2)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=3))
    answer_fetch(bench, diverging(1, 2, leader_id=1, leader_epoch=5))
    assert bench.halted is not None
    assert "below the high watermark 3" in bench.halted
    assert (bench.disk.end, bench.made(fx.Truncate)) == (4, [])
    assert bench.step(ev.Ticked()) == ()


def test_truncate_to_the_high_watermark_is_allowed() -> None:
    """What lies at the high watermark, an exclusive end, is not committed and may go."""
    bench = follower_bench(log=[(1, 2), (2, 2)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=2))
    answer_fetch(bench, diverging(1, 2, leader_id=1, leader_epoch=5))
    assert (bench.halted, bench.disk.end) == (None, 2)


def test_diverging_epochs() -> None:
    """One answer diverges, the rest is fetched, and the logs are equal: last epoch 2, then 5."""
    bench = follower_bench(log=[(0, 1), (2, 1), (4, 1)])
    first = bench.disk.batches[:1]
    answer_fetch(bench, diverging(2, 2, leader_id=1, leader_epoch=5))
    assert pending_fetch(bench).last_fetched_epoch == 2
    answer_fetch(bench, records(batches_of((5, 1), start=2), leader_id=1, epoch=5))
    bench.flush_all()
    assert bench.disk.batches == [*first, *batches_of((2, 1), (5, 1), start=1)]
    assert pending_fetch(bench).last_fetched_epoch == 5


def test_should_truncate_if_leader_replies_with_diverging_epoch_not_known_to_follower() -> None:
    """Round by round the follower falls to its own floor, always by fetching, never by OffsetForLeaderEpoch."""
    log = [(1, 119), (2, 10), (4, 51), (5, 20)]
    bench = follower_bench(log=log)
    ends = []
    for answer in ((4, 140), (3, 130), (2, 120)):
        answer_fetch(bench, diverging(*answer, leader_id=1, leader_epoch=5))
        ends.append((bench.disk.end, pending_fetch(bench).last_fetched_epoch))
    assert ends == [(140, 4), (129, 2), (120, 2)]


def test_an_answer_that_changes_nothing_is_not_asked_for_again_at_full_speed() -> None:
    """A leader that keeps saying "diverged" without a way forward is asked with pauses."""
    bench = follower_bench(log=[(1, 2)])
    answer_fetch(bench, diverging(1, 9, leader_id=1, leader_epoch=5))
    assert (bench.sends, bench.disk.end) == ([], 2)
    bench.elapse(bench.config.quorum.retry_backoff_ms)
    assert pending_fetch(bench).fetch_offset == 2


# --- damage ---------------------------------------------------------------------------------------------------------


def damaged() -> bytes:
    data = bytearray(records_of(batches_of((5, 2))))
    data[-1] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(damaged(), id="flipped_bit"),
        pytest.param(records_of(batches_of((5, 2)))[:-3], id="cut_short"),
        pytest.param(records_of(batches_of((5, 2), start=1)), id="gap"),
        pytest.param(records_of(batches_of((5, 1))) * 2, id="overlap"),
        pytest.param(records_of(batches_of((6, 1))), id="epoch_above_the_leaders"),
        pytest.param(records_of(batches_of((5, 1), (4, 1))), id="epoch_falls"),
        pytest.param(records_of(batches_of((-1, 1))), id="never_stamped"),
    ],
)
def test_corrupt_message(data: bytes) -> None:
    """Nothing of a damaged answer is appended, not even its sound beginning; it is fetched again after a pause."""
    bench = follower_bench()
    answer = fetch_answer(error=ErrorCode.NONE, current_leader=leader(1, 5), records=data, high_watermark=Offset(1))
    answer_fetch(bench, answer)
    assert (bench.disk.batches, bench.sends, bench.high_watermark) == ([], [], None)
    bench.elapse(bench.config.quorum.retry_backoff_ms)
    answer_fetch(bench, records(batches_of((5, 2)), leader_id=1, epoch=5))
    assert bench.disk.batches == batches_of((5, 2))


# --- refusals and silence -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_refused_fetch_is_repeated_after_a_pause(error: ErrorCode) -> None:
    """A follower that is refused truncates nothing and asks again, but refusals do not keep its leader alive."""
    bench = follower_bench(log=[(1, 2)])
    give_up_ms = bench.config.quorum.fetch_timeout_ms
    while bench.role == "follower" and give_up_ms > 0:
        answer_fetch(bench, fetch_error(error, None, 5))
        assert bench.sends == []
        bench.elapse(bench.config.quorum.retry_backoff_ms)
        give_up_ms -= bench.config.quorum.retry_backoff_ms
    assert (bench.role, bench.disk.end) == ("prospective", 2)


def test_fenced_fetch() -> None:
    """A follower of an older epoch follows the leader that it is told of, durably."""
    bench = follower_bench()
    answer_fetch(bench, fetch_error(ErrorCode.FENCED_LEADER_EPOCH, 2, 8))
    assert bench.disk.quorum_state == stored(8, leader_id=2)
    assert bench.send_to(2, m.FetchRequest) in bench.sends
    assert pending_fetch(bench).current_leader_epoch == 8


def test_leader_that_leads_no_more_is_followed_no_more() -> None:
    """NOT_LEADER_OR_FOLLOWER in the same epoch means that the leader has resigned."""
    bench = follower_bench()
    answer_fetch(bench, fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, 5))
    assert (bench.role, bench.log.leader_id) == ("unattached", None)
    assert bench.disk.quorum_state == stored(5, leader_id=1), "that it led is not forgotten"


def test_failed_fetch_is_repeated_after_a_pause() -> None:
    """A fetch that came to nothing is sent again, one at a time."""
    bench = follower_bench()
    bench.fail(bench.send_to(1, m.FetchRequest))
    assert bench.sends == []
    bench.elapse(bench.config.quorum.retry_backoff_ms)
    assert pending_fetch(bench).fetch_offset == 0


def test_voter_become_candidate_after_fetch_timeout() -> None:
    """A voter whose leader is silent for a fetch timeout campaigns, and each answer starts that time anew."""
    bench = follower_bench()
    timeout_ms = bench.config.quorum.fetch_timeout_ms
    bench.elapse(timeout_ms - 1)
    answer_fetch(bench, records([], leader_id=1, epoch=5))
    bench.elapse(timeout_ms - 1)
    assert bench.role == "follower"
    bench.elapse(1)
    assert bench.role == "prospective"


def test_follower_as_observer_does_not_become_candidate_after_fetch_timeout() -> None:
    """An observer whose leader is silent looks for another and campaigns for nothing."""
    bench = follower_bench(replica_id=9)
    bench.answer(begin(1, 5, to=9))
    assert bench.role == "follower"
    bench.elapse(bench.config.quorum.fetch_timeout_ms)
    assert (bench.role, bench.epoch) == ("unattached", 5)


def test_unattached_as_observer_does_not_become_candidate_after_election_timeout() -> None:
    """An observer asks one voter after another who leads, for as long as it takes."""
    bench = Bench(replica_id=9, quorum_state=stored(5))
    asked = []
    for _ in range(4):
        (send,) = bench.sends
        asked.append(send.replica_id)
        bench.fail(send)
        bench.elapse(bench.config.quorum.retry_backoff_ms)
    assert (asked, bench.role) == ([0, 1, 2, 0], "unattached")
    answer_fetch(bench, fetch_error(ErrorCode.FENCED_LEADER_EPOCH, 2, 8))
    assert (bench.role, bench.log.leader_id) == ("follower", 2)


def test_storage_failure_halts() -> None:
    """After a failed write or flush nothing on the disk is trusted: the replica stops, with the reason, for good."""
    bench = follower_bench()
    bench.step(ev.StorageFailed(reason="fsync of the log failed"))
    assert bench.effects == (fx.Halt(reason="fsync of the log failed"),)
    assert bench.answer(begin(2, 9)) is None
    assert bench.replica.halted == "fsync of the log failed"
