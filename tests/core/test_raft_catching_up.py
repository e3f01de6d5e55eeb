"""A follower that is sent to a snapshot: fetched piece by piece, installed whole, and the log goes on from its end.

Kafka's KafkaRaftClientSnapshotTest.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.errors import ErrorCode
from replica.ids import Offset
from tests.core.harness import Bench, batches_of, kept_snapshot_of, leader, snapshot_of, stored
from tests.core.scenarios import (
    answer_fetch,
    diverging,
    fetch_error,
    follow,
    follower_bench,
    pending_fetch,
    records,
    vote,
    voted,
)
from tests.core.snapshot_scenarios import (
    answer_piece,
    asked_for,
    catching_up_bench,
    install,
    installed_bench,
    piece,
    sent_to,
    snapshot_id,
    whole,
)

SIZE = len(kept_snapshot_of(20, 4).data)


@pytest.fixture
def bench() -> Bench:
    """A follower that fetches a snapshot of its leader."""
    return catching_up_bench()


def test_fetch_response_with_snapshot_id(bench: Bench) -> None:
    """A follower that is sent to a snapshot asks for its beginning, and its log stays as it is until all has come."""
    asked = asked_for(bench)
    assert (asked.snapshot_id, asked.position, asked.current_leader_epoch) == (snapshot_id(20, 4), 0, 5)
    assert (asked.max_bytes, asked.replica_id) == (bench.config.quorum.fetch_max_bytes, 0)
    answer_piece(bench, whole(20, 4))
    assert bench.log.received_snapshot == snapshot_of(20, 4)
    assert (bench.disk.end, bench.disk.snapshots, bench.sends) == (2, {}, [])
    install(bench)
    assert [type(effect) for effect in bench.effects] == [fx.InstallSnapshot, fx.StoreEpochs, fx.StoreVoters, fx.Send]
    assert (bench.disk.start, bench.disk.end, bench.disk.epochs) == (20, 20, ())
    assert bench.disk.snapshots == {snapshot_id(20, 4): kept_snapshot_of(20, 4).data}


def test_what_follows_upon_a_snapshot_is_fetched_from_its_end() -> None:
    """After the installation the follower claims the snapshot's epoch and end, and appends what comes next."""
    bench = installed_bench()
    part = pending_fetch(bench)
    assert (part.fetch_offset, part.last_fetched_epoch, part.high_watermark) == (20, 4, 20)
    assert (bench.log.received_snapshot, bench.high_watermark) == (None, 20)
    answer_fetch(bench, records(batches_of((4, 1), (5, 1), start=20), leader_id=1, epoch=5, high_watermark=21))
    bench.flush_all()
    assert (bench.disk.end, bench.high_watermark, pending_fetch(bench).last_fetched_epoch) == (22, 21, 5)


def test_fetch_snapshot_response_partial_data() -> None:
    """Pieces are asked for one after the other, by position, until the whole has come."""
    bench, positions = catching_up_bench(), []
    while bench.log.received_snapshot is None:
        positions.append(asked_for(bench).position)
        answer_piece(bench, piece(20, 4, positions[-1], 10))
    assert positions == list(range(0, SIZE, 10))
    assert bench.log.received_snapshot == snapshot_of(20, 4)


def test_a_piece_that_does_not_come_is_asked_for_again(bench: Bench) -> None:
    """A failed request for a piece is repeated after a pause; what has come is kept."""
    answer_piece(bench, piece(20, 4, 0, 10))
    bench.fail(bench.send_to(1, m.FetchSnapshotRequest))
    assert bench.sends == []
    bench.elapse(bench.config.quorum.retry_backoff_ms)
    assert asked_for(bench).position == 10


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"error": ErrorCode.SNAPSHOT_NOT_FOUND}, id="fetch_snapshot_response_missing_snapshot"),
        pytest.param({"error": ErrorCode.POSITION_OUT_OF_RANGE}, id="position_out_of_range"),
        pytest.param({"error": ErrorCode.UNKNOWN_SERVER_ERROR}, id="unknown_server_error"),
        pytest.param({"snapshot_id": snapshot_id(21, 4)}, id="fetch_snapshot_response_with_invalid_id"),
        pytest.param({"snapshot_id": snapshot_id(20, 3)}, id="fetch_snapshot_response_of_another_epoch"),
        pytest.param({"snapshot_id": None}, id="fetch_snapshot_response_without_an_id"),
        pytest.param({"position": 0}, id="another_position"),
        pytest.param({"size_bytes": SIZE + 1}, id="another_size"),
        pytest.param({"data": b""}, id="nothing"),
        pytest.param({"data": b"x" * SIZE}, id="more_than_there_is"),
    ],
)
def test_a_piece_that_does_not_fit_ends_it(bench: Bench, wrong: dict[str, Any]) -> None:
    """What has come is forgotten, and after a pause records are asked for again: the leader knows what is next."""
    answer_piece(bench, piece(20, 4, 0, 10))
    answer_piece(bench, replace(piece(20, 4, 10, 10), **wrong))
    assert (bench.sends, bench.log.received_snapshot) == ([], None)
    bench.elapse(bench.config.quorum.retry_backoff_ms)
    assert pending_fetch(bench).fetch_offset == 2
    answer_fetch(bench, sent_to(20, 4))
    assert asked_for(bench).position == 0


def test_a_snapshot_that_is_too_large_halts_its_replica() -> None:
    """A follower does not even begin to gather more than it may hold: the first piece tells it."""
    bench = catching_up_bench(config=QuorumConfig(snapshot_max_bytes=SIZE - 1))
    answer_piece(bench, piece(20, 4, 0, 10))
    assert bench.halted is not None
    assert f"has {SIZE} bytes, more than snapshot_max_bytes ({SIZE - 1})" in bench.halted
    just_fits = catching_up_bench(config=QuorumConfig(snapshot_max_bytes=SIZE))
    answer_piece(just_fits, whole(20, 4))
    assert just_fits.log.received_snapshot is not None


def test_fetch_snapshot_response_from_newer_epoch_leader(bench: Bench) -> None:
    """A follower that learns of a newer leader forgets the snapshot of the old one, and fetches from the new."""
    answer_piece(bench, piece(20, 4, 0, 10, error=ErrorCode.FENCED_LEADER_EPOCH, current_leader=leader(2, 6)))
    assert bench.disk.quorum_state == stored(6, leader_id=2)
    assert pending_fetch(bench).current_leader_epoch == 6


def test_fetch_snapshot_response_from_newer_epoch_not_leader(bench: Bench) -> None:
    """A follower that learns of a newer epoch, and not who leads it, forgets the snapshot and follows nobody."""
    answer_piece(bench, piece(20, 4, 0, 10, error=ErrorCode.FENCED_LEADER_EPOCH, current_leader=leader(None, 6)))
    assert (bench.role, bench.disk.quorum_state, bench.sends) == ("unattached", stored(6), [])
    assert (bench.log.received_snapshot, bench.disk.start, bench.disk.end) == (None, 0, 2)


def test_fetch_snapshot_response_from_older_epoch(bench: Bench) -> None:
    """An answer to a request of an earlier leadership came too late: it changes nothing."""
    late = bench.send_to(1, m.FetchSnapshotRequest)
    follow(bench, 2, 6)
    bench.respond(late, whole(20, 4))
    assert (bench.log.received_snapshot, bench.disk.end, bench.role) == (None, 2, "follower")


def test_fetch_snapshot_response_to_not_follower(bench: Bench) -> None:
    """One that campaigns by then has left that leader: it changes nothing."""
    late = bench.send_to(1, m.FetchSnapshotRequest)
    bench.to_role("prospective")
    bench.respond(late, whole(20, 4))
    assert (bench.role, bench.log.received_snapshot, bench.disk.end) == ("prospective", None, 2)


def test_a_leader_that_leads_no_more_hands_out_nothing(bench: Bench) -> None:
    """NOT_LEADER_OR_FOLLOWER in the same epoch means that the leader has resigned, here too."""
    answer_piece(bench, piece(20, 4, 0, 0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader(None, 5)))
    assert (bench.role, bench.log.leader_id) == ("unattached", None)


def test_every_piece_proves_that_the_leader_lives() -> None:
    """While pieces come a follower does not campaign; when they stop it does, and what has come is forgotten."""
    bench, timeout_ms = catching_up_bench(), CONFIG_TIMEOUT_MS
    for position in (0, 1, 2):
        bench.elapse(timeout_ms - 1)
        answer_piece(bench, piece(20, 4, position, 1))
    bench.elapse(timeout_ms - 1)
    assert bench.role == "follower"
    bench.elapse(1)
    assert bench.role == "prospective"


CONFIG_TIMEOUT_MS = QuorumConfig().fetch_timeout_ms


def test_nothing_is_fetched_while_a_snapshot_waits_to_be_loaded(bench: Bench) -> None:
    """What was received stays until it is taken or its leader is given up; meanwhile nothing is asked for."""
    answer_piece(bench, whole(20, 4))
    bench.elapse(CONFIG_TIMEOUT_MS - 1)
    assert (bench.sends, bench.log.received_snapshot) == ([], snapshot_of(20, 4))
    bench.elapse(1)
    assert (bench.role, bench.log.received_snapshot) == ("prospective", None)


def test_a_rejected_snapshot_is_forgotten(bench: Bench) -> None:
    """One that cannot be loaded changes nothing; after a pause the leader is asked again."""
    answer_piece(bench, whole(20, 4))
    bench.act(bench.log.reject_snapshot(bench.now_ms))
    assert (bench.effects, bench.log.received_snapshot, bench.disk.end) == ((), None, 2)
    bench.elapse(bench.config.quorum.retry_backoff_ms)
    assert pending_fetch(bench).fetch_offset == 2


def test_pauses_after_rejected_snapshots_grow(bench: Bench) -> None:
    """Each is twice the last, up to a maximum; one that is installed begins anew with the shortest."""
    pauses_ms = [pause_after_rejection(bench) for _ in range(9)]
    shortest_ms, longest_ms = bench.config.quorum.retry_backoff_ms, bench.config.quorum.snapshot_backoff_max_ms
    assert pauses_ms[:3] == [shortest_ms, 2 * shortest_ms, 4 * shortest_ms]
    assert pauses_ms[-2:] == [longest_ms, longest_ms]
    answer_piece(bench, whole(20, 4))
    install(bench)
    answer_fetch(bench, sent_to(40, 4))
    answer_piece(bench, whole(40, 4))
    bench.act(bench.log.reject_snapshot(bench.now_ms))
    bench.elapse(shortest_ms)
    assert pending_fetch(bench).fetch_offset == 20


def pause_after_rejection(bench: Bench) -> int:
    """Let what comes be rejected; return how long it takes until the follower is sent to a snapshot again."""
    answer_piece(bench, whole(20, 4))
    bench.act(bench.log.reject_snapshot(bench.now_ms))
    rejected_ms = bench.now_ms
    while not bench.sends:
        bench.elapse(10)
    answer_fetch(bench, sent_to(20, 4))
    return bench.now_ms - rejected_ms


@pytest.mark.parametrize("act", ["install_snapshot", "reject_snapshot"])
def test_without_a_snapshot_there_is_nothing_to_load(bench: Bench, act: str) -> None:
    """To install or reject what has not come is our mistake."""
    with pytest.raises(AssertionError):
        getattr(bench.log, act)(bench.now_ms)


@pytest.mark.parametrize(
    ("end_offset", "epoch"),
    [
        pytest.param(6, 1, id="below_what_is_committed"),
        pytest.param(7, 1, id="at_the_end_of_what_is_committed"),
        pytest.param(20, 0, id="of_an_epoch_below_what_is_committed"),
        pytest.param(20, 6, id="of_an_epoch_above_the_leaders"),
    ],
)
def test_fetch_response_with_invalid_snapshot_id(end_offset: int, epoch: int) -> None:
    """A snapshot that is not ahead of what is committed here, or that cannot be, is never asked for."""
    bench = follower_bench(log=[(1, 9)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=7))
    answer_fetch(bench, sent_to(end_offset, epoch))
    assert (bench.sends, bench.halted) == ([], None)
    bench.elapse(bench.config.quorum.retry_backoff_ms)
    assert pending_fetch(bench).fetch_offset == 9


@pytest.mark.parametrize(("end_offset", "epoch"), [(6, 1), (7, 1), (8, 0)])
def test_doesnt_truncate_fully(end_offset: int, epoch: int) -> None:
    """A log is not emptied for a snapshot of what is committed in it already, however often it is sent to one."""
    bench = follower_bench(log=[(1, 9)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=7))
    for _ in range(3):
        answer_fetch(bench, sent_to(end_offset, epoch))
        bench.elapse(bench.config.quorum.retry_backoff_ms)
    log = bench.log.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.last_epoch) == (0, 7, 9, 1)
    assert (bench.disk.end, bench.disk.snapshots, pending_fetch(bench).fetch_offset) == (9, {}, 9)


def test_an_uncommitted_tail_gives_way_to_a_snapshot() -> None:
    """Records beyond the snapshot's end that are not committed go too: they are of another history."""
    bench = follower_bench(log=[(1, 30)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=7))
    answer_fetch(bench, sent_to(20, 4))
    answer_piece(bench, whole(20, 4))
    install(bench)
    assert (bench.disk.start, bench.disk.end) == (20, 20)


def test_truncate_will_remove_older_snapshot() -> None:
    """A follower that has snapshots of its own keeps only the one that it installs."""
    bench = installed_bench(log=[(2, 3)], start=10, snapshots=[(10, 2)])
    assert list(bench.disk.snapshots) == [snapshot_id(20, 4)]
    assert [known.id for known in bench.log.snapshots] == [snapshot_id(20, 4)]


def test_a_snapshot_that_is_stored_too_late_does_no_harm() -> None:
    """1. A follower stores a snapshot. 2. It installs a later one. 3. The first is stored now: it is removed."""
    bench = follower_bench(log=[(1, 9)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=7))
    bench.store(6, 1)
    answer_fetch(bench, sent_to(20, 4))
    answer_piece(bench, whole(20, 4))
    install(bench)
    assert not bench.log.is_storing_snapshot
    bench.finish_storing()
    assert list(bench.disk.snapshots) == [snapshot_id(20, 4)]
    assert [known.id for known in bench.log.snapshots] == [snapshot_id(20, 4)]
    assert bench.log.log.log_start_offset == 20
    answer_fetch(bench, records(batches_of((5, 5), start=20), leader_id=1, epoch=5, high_watermark=25))
    bench.flush_all()
    bench.store(23, 5)
    bench.finish_storing()
    assert (bench.disk.start, len(bench.disk.snapshots)) == (20, 2)


def test_a_store_that_ends_while_a_snapshot_waits_is_counted_on() -> None:
    """A follower's own snapshot may be stored while a later one waits, which is installed all the same."""
    bench = follower_bench(log=[(1, 9)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=7))
    bench.store(6, 1)
    answer_fetch(bench, sent_to(20, 4))
    answer_piece(bench, whole(20, 4))
    bench.finish_storing()
    assert [known.id for known in bench.log.snapshots] == [snapshot_id(6, 1)]
    install(bench)
    assert [known.id for known in bench.log.snapshots] == [snapshot_id(20, 4)]


# --- votes, restarts and truncation of one that has installed -------------------------------------------------------


def test_a_log_that_is_empty_after_a_snapshot_votes_by_it() -> None:
    """Who has just installed a snapshot votes for nobody that may lack what it holds, before and after a restart."""
    bench = installed_bench()
    for restarts in (False, True):
        if restarts:
            bench.restart()
        assert not voted(bench, vote(bench.epoch + 1, last=(3, 99))).vote_granted
        assert not voted(bench, vote(bench.epoch + 1, last=(4, 19))).vote_granted
    assert voted(bench, vote(bench.epoch + 1, last=(4, 20))).vote_granted


def test_a_log_that_is_empty_after_a_snapshot_campaigns_by_it() -> None:
    """Its candidacy claims the snapshot's epoch and end."""
    bench = installed_bench()
    bench.to_role("prospective")
    asked = bench.requests(m.VoteRequest)[1]
    assert (asked.last_offset, asked.last_offset_epoch) == (20, 4)


def test_the_epoch_of_a_snapshot_survives_a_lost_quorum_state() -> None:
    """Where nothing but the log tells the epoch, its snapshot does."""
    bench = Bench(start=20, snapshots=[(20, 4)])
    assert (bench.epoch, bench.log.log.last_epoch, bench.high_watermark) == (4, 4, 20)


def test_a_restarted_follower_goes_on_from_its_snapshot() -> None:
    """After a power loss right after the installation the next fetch claims exactly the snapshot."""
    bench = installed_bench()
    bench.restart(power_loss=True)
    part = pending_fetch(bench)
    assert (part.fetch_offset, part.last_fetched_epoch) == (20, 4)


def test_nothing_in_a_snapshot_is_cut() -> None:
    """A leader that asks to cut below a snapshot, and be it after a restart, is refused for good: it is committed."""
    bench = follower_bench(log=[(1, 9)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=8))
    bench.store(6, 1)
    bench.finish_storing()
    bench.restart()
    answer_fetch(bench, diverging(1, 5, leader_id=1, leader_epoch=5))
    assert bench.halted is not None
    assert bench.disk.end == 9
    kept = follower_bench(log=[(1, 9)], snapshots=[(6, 1)])
    answer_fetch(kept, diverging(1, 6, leader_id=1, leader_epoch=5))
    assert (kept.halted, kept.disk.end) == (None, 6)


def test_a_log_that_begins_at_a_snapshot_is_not_cut_below_it() -> None:
    """Neither is one whose beginning is gone: an epoch that it does not know ends at its start at the lowest."""
    bench = follower_bench(log=[(2, 3)], start=10, snapshots=[(10, 1)])
    answer_fetch(bench, diverging(1, 7, leader_id=1, leader_epoch=5))
    assert bench.halted is not None
    back = follower_bench(log=[(2, 3)], start=10, snapshots=[(10, 1)])
    answer_fetch(back, diverging(1, 12, leader_id=1, leader_epoch=5))
    assert (back.halted, back.disk.end, pending_fetch(back).last_fetched_epoch) == (None, 10, 1)


def test_an_observer_installs_snapshots_as_well() -> None:
    """A replica without a vote catches up in the same way."""
    bench = Bench(replica_id=9, quorum_state=stored(5))
    answer_fetch(bench, fetch_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, 5))
    assert bench.role == "follower"
    answer_fetch(bench, sent_to(20, 4))
    answer_piece(bench, whole(20, 4))
    install(bench)
    assert (bench.disk.end, pending_fetch(bench).fetch_offset) == (20, Offset(20))


def test_a_halted_replica_loads_nothing(bench: Bench) -> None:
    """After a failure of the disk nothing is begun any more."""
    answer_piece(bench, whole(20, 4))
    bench.step(ev.StorageFailed(reason="fsync failed"))
    with pytest.raises(AssertionError):
        install(bench)
