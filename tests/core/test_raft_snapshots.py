"""Snapshots of a log: counted on once they are stored, handed out in pieces. Kafka's KafkaRaftClientSnapshotTest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset, TopicPartition
from replica.machines import Snapshot
from tests.core.harness import LOG, Bench, kept_snapshot_of, stored, view_of
from tests.core.scenarios import (
    answer_fetch,
    commit,
    consume,
    fetch,
    fetched,
    follow,
    follower_bench,
    leader_bench,
    produce,
    records,
    reply_of,
)
from tests.core.snapshot_scenarios import fetch_snapshot, leader_with_snapshots, piece_of, snapshot_id

# --- storing --------------------------------------------------------------------------------------------------------


def leader_with_records(count: int = 9, **others: int) -> Bench:
    """Build the leader of epoch 6 with ``count`` committed records of epoch 5 and one of its own."""
    bench = leader_bench(log=[(5, count)], **others)
    commit(bench, 1)
    return bench


def test_create_snapshot_as_leader() -> None:
    """A snapshot is handed to storage, and counted on only when it is stored."""
    bench = leader_with_records()
    bench.store(6, 5)
    (effect,) = bench.made(fx.StoreSnapshot)
    assert (effect.snapshot_id, effect.state.encode()) == (snapshot_id(6, 5), kept_snapshot_of(6, 5).data)
    assert (bench.log.snapshots, bench.log.is_storing_snapshot) == ((), True)
    bench.finish_storing()
    assert [known.id for known in bench.log.snapshots] == [snapshot_id(6, 5)]
    assert not bench.log.is_storing_snapshot


def test_the_first_snapshot_deletes_nothing() -> None:
    """The log begins where the snapshot before the newest ends; before the second it stays whole.

    Of the voters that its records name, those before the snapshot's end are in that.
    """
    bench = leader_with_records()
    bench.store(4, 5)
    bench.finish_storing()
    assert (bench.effects, bench.log.log.log_start_offset) == ((fx.StoreVoters(topic_partition=LOG, entries=()),), 0)


def test_update_log_start_offset_will_remove_older_snapshot() -> None:
    """The log begins where the last but one ends, in this order: log start, epochs, then the snapshots below it."""
    bench = leader_with_records()
    for end_offset in (2, 4, 7):
        bench.store(end_offset, 5)
        bench.finish_storing()
    assert [type(effect) for effect in bench.effects] == [fx.RaiseLogStart, fx.StoreEpochs, fx.DropSnapshots]
    assert (bench.disk.start, bench.log.log.log_start_offset) == (4, 4)
    assert list(bench.disk.snapshots) == [snapshot_id(4, 5), snapshot_id(7, 5)]
    assert bench.disk.epochs == (EpochEntry(stored(5).leader_epoch, Offset(4)), bench.log.log.epochs.entries[-1])


INVALID = [
    pytest.param(31, 6, id="create_snapshot_later_than_high_watermark"),
    pytest.param(25, 5, id="create_snapshot_much_later_epoch"),
    pytest.param(9, 2, id="create_snapshot_before_log_start_offset"),
    pytest.param(25, 2, id="create_snapshot_much_earlier_epoch"),
    pytest.param(12, 3, id="create_snapshot_not_newer_than_the_newest"),
    pytest.param(20, 4, id="create_existing_snapshot"),
]
"""Of records 10 to 29, all committed, with snapshots at 10 and at 20: an end and an epoch that are no snapshot's."""


def assert_no_snapshot_is_stored(bench: Bench, end_offset: int, epoch: int) -> None:
    """It is our mistake to want one, and nothing comes of it; a good one may be taken then."""
    before = bench.log.snapshots
    with pytest.raises(AssertionError):
        bench.store(end_offset, epoch)
    assert (bench.log.snapshots, bench.disk.storing) == (before, [])
    bench.store(25, 4)
    assert len(bench.disk.storing) == 1


@pytest.mark.parametrize(("end_offset", "epoch"), INVALID)
def test_create_snapshot_as_leader_with_invalid_snapshot_id(end_offset: int, epoch: int) -> None:
    """What is not committed, not in this log, of another epoch or not newer than the newest is nobody's snapshot."""
    assert_no_snapshot_is_stored(leader_with_snapshots(), end_offset, epoch)


@pytest.mark.parametrize(("end_offset", "epoch"), INVALID)
def test_create_snapshot_as_follower_with_invalid_snapshot_id(end_offset: int, epoch: int) -> None:
    """For a follower the same holds, by the high watermark that it knows."""
    bench = leader_with_snapshots()
    follow(bench, 1, 7)
    assert bench.role == "follower"
    assert_no_snapshot_is_stored(bench, end_offset, epoch)


def test_create_snapshot_with_missing_epoch() -> None:
    """An epoch that no record of the log has is nobody's snapshot."""
    bench = leader_bench(log=[(1, 3), (3, 3)])
    commit(bench, 1)
    with pytest.raises(AssertionError):
        bench.store(4, 2)
    bench.store(4, 3)


def test_one_snapshot_is_stored_at_a_time() -> None:
    """A second one while the first is on its way, one without content, and one above the limit are our mistakes."""
    bench = leader_with_records()
    bench.store(4, 5)
    with pytest.raises(AssertionError):
        bench.store(6, 5)
    bench.finish_storing()
    bench.log.store_snapshot(view_of(Snapshot(id=snapshot_id(6, 5), data=b"")), bench.now_ms)
    with pytest.raises(AssertionError):
        bench.log.step(_stored_report(6, 5, size_bytes=0), bench.now_ms)
    small = leader_bench(log=[(5, 9)], config=QuorumConfig(snapshot_max_bytes=10))
    commit(small, 1)
    small.store(6, 5)
    with pytest.raises(AssertionError):
        small.log.step(_stored_report(6, 5, size_bytes=11), small.now_ms)


def test_a_snapshot_that_turns_out_too_large_leaves_the_log_whole() -> None:
    """How large it is shows when it is encoded; nothing is counted on then, and the next may be tried."""
    bench = leader_bench(log=[(5, 9)], config=QuorumConfig(snapshot_max_bytes=10))
    commit(bench, 1)
    for end_offset in (4, 6, 8):
        bench.store(end_offset, 5)
        bench.finish_storing()
        assert (bench.effects, bench.log.is_storing_snapshot) == ((), False)
        assert (bench.log.snapshots, bench.log.log.log_start_offset, bench.disk.snapshots) == ((), 0, {})
        assert bench.log.snapshot_bytes == len(kept_snapshot_of(end_offset, 5).data)


def test_a_snapshot_that_nobody_waits_for_is_removed() -> None:
    """A report of another snapshot than the one on its way is of what is gone: not counted on, and removed."""
    bench = leader_with_snapshots()
    bench.store(25, 4)
    bench.act(bench.log.step(_stored_report(8, 2), bench.now_ms))
    assert bench.made(fx.DropSnapshots) == [fx.DropSnapshots(topic_partition=LOG, end_offset=Offset(10))]
    assert bench.log.is_storing_snapshot
    assert len(bench.log.snapshots) == 2


def _stored_report(end_offset: int, epoch: int, *, size_bytes: int = 7) -> ev.SnapshotStored:
    return ev.SnapshotStored(topic_partition=LOG, snapshot_id=snapshot_id(end_offset, epoch), size_bytes=size_bytes)


def test_snapshots_are_found_again_after_a_restart() -> None:
    """A restarted replica knows its snapshots, begins where its log does, and what they hold is committed."""
    bench = leader_with_snapshots()
    bench.restart(power_loss=True)
    assert [known.id for known in bench.log.snapshots] == [snapshot_id(10, 2), snapshot_id(20, 4)]
    assert (bench.log.log.log_start_offset, bench.high_watermark) == (10, 20)


def test_a_follower_stores_its_own() -> None:
    """Every replica shortens its own log by its own snapshots."""
    bench = follower_bench(log=[(1, 8)])
    answer_fetch(bench, records([], leader_id=1, epoch=5, high_watermark=8))
    for end_offset in (3, 6):
        bench.store(end_offset, 1)
        bench.finish_storing()
    assert (bench.disk.start, bench.log.log.log_start_offset, bench.disk.end) == (3, 3, 8)


def test_latest_snapshot_id() -> None:
    """The newest of the snapshots is the last one, whatever else is kept."""
    bench = leader_with_snapshots()
    assert bench.log.snapshots[-1].id == snapshot_id(20, 4)
    bench.store(25, 4)
    assert bench.log.snapshots[-1].id == snapshot_id(20, 4), "it is not stored yet"
    bench.finish_storing()
    assert bench.log.snapshots[-1].id == snapshot_id(25, 4)


def test_latest_snapshot_id_missing() -> None:
    """A log may be without a snapshot; it begins at 0 then, and nobody is sent to one."""
    bench = leader_with_records()
    assert (bench.log.snapshots, bench.log.log.log_start_offset) == ((), 0)
    answer = fetched(bench, fetch(0, 0, 6, replica=2))
    assert (answer.snapshot_id, answer.records != b"") == (None, True)


# --- fetching -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "epoch", "sent"),
    [
        pytest.param(9, 2, True, id="fetch_request_offset_less_than_log_start"),
        pytest.param(0, 0, True, id="fetch_request_offset_at_zero"),
        pytest.param(10, 2, False, id="fetch_request_at_log_start_offset_with_valid_epoch"),
        pytest.param(10, 1, True, id="fetch_request_at_log_start_offset_with_invalid_epoch"),
        pytest.param(12, 1, True, id="fetch_request_with_last_fetched_epoch_less_than_oldest_snapshot"),
        pytest.param(12, 3, False, id="fetch_request_within_the_log"),
    ],
)
def test_fetch_request_is_sent_to_the_newest_snapshot(offset: int, epoch: int, sent: bool) -> None:
    """A follower that cannot go on from the records is told the newest snapshot, without records or divergence."""
    answer = fetched(leader_with_snapshots(), fetch(offset, epoch, 6, replica=2))
    assert answer.error is ErrorCode.NONE
    assert answer.snapshot_id == (snapshot_id(20, 4) if sent else None)
    assert (answer.records == b"", answer.diverging_epoch) == (sent, None)


def test_leader_immediately_sends_snapshot_id() -> None:
    """Who needs a snapshot is told at once, however long it would wait for records."""
    bench = leader_with_snapshots()
    call_id = bench.call(fetch(9, 2, 6, replica=2, wait_ms=500, min_bytes=1 << 20, high_watermark=Offset(30)))
    answer = reply_of(bench, call_id)
    assert (answer.error, answer.snapshot_id) == (ErrorCode.NONE, snapshot_id(20, 4))
    assert answer.current_leader == bench.log.current_leader


def test_fetch_request_with_larger_last_fetched_epoch() -> None:
    """Who claims a record of a later epoch than the leader's is refused, and not sent to a snapshot."""
    answer = fetched(leader_with_snapshots(), fetch(21, 7, 6, replica=2))
    assert (answer.error, answer.snapshot_id) == (ErrorCode.INVALID_REQUEST, None)


def test_fetch_request_truncate_to_log_start() -> None:
    """A follower beyond the log's start, of an epoch that ends there, is cut back to the snapshot's end."""
    answer = fetched(leader_with_snapshots(), fetch(12, 2, 6, replica=2))
    assert answer.diverging_epoch == EpochEndOffset(stored(2).leader_epoch, Offset(10))


def test_a_fetch_that_is_sent_to_a_snapshot_acknowledges_nothing() -> None:
    """What a follower has that may be another history commits nothing, however far it reaches."""
    bench = leader_bench(log=[(3, 5), (4, 14)], start=10, snapshots=[(10, 2), (20, 4)])
    assert fetched(bench, fetch(30, 1, 6)).snapshot_id is not None
    assert bench.log.high_watermark is None
    commit(bench, 1)
    assert bench.high_watermark == 30


def test_where_an_epoch_ends_that_a_snapshot_has_swallowed_nobody_knows() -> None:
    """A log that begins inside an epoch does not know where the one before ended: whoever is of that is not cut there.

    Record 10 is of epoch 3, and so was record 9, which is in the snapshot. Told that epoch 2 ends at 10, a follower
    with [8, 12) of epoch 2 in one batch could not cut its log there. It fetches, and is sent to the snapshot.
    """
    bench = leader_bench(log=[(3, 5), (4, 14)], start=10, snapshots=[(10, 3)])
    asked = m.OffsetForLeaderEpochRequest(topic_partition=LOG, leader_epoch=Epoch(2))
    answer = bench.answered(asked, m.OffsetForLeaderEpochResponse)
    assert (answer.error, answer.answer) == (ErrorCode.NONE, None)
    assert fetched(bench, fetch(12, 2, 6)).snapshot_id == snapshot_id(10, 3)


@pytest.mark.parametrize("offset", [0, 9])
def test_a_consumer_below_the_log_start_is_out_of_range(offset: int) -> None:
    """A consumer is never sent to a snapshot."""
    assert fetched(leader_with_snapshots(), consume(offset)).error is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("offset", [10, 12])
def test_a_consumer_of_another_history_is_told_where_it_left(offset: int) -> None:
    """A consumer that has read what a later leader took back cannot load a snapshot: it is told where the logs part."""
    answer = fetched(leader_with_snapshots(), consume(offset, last_fetched_epoch=stored(1).leader_epoch))
    assert (answer.snapshot_id, answer.diverging_epoch) == (None, EpochEndOffset(stored(2).leader_epoch, Offset(10)))


def test_a_consumer_at_the_log_start_goes_on() -> None:
    """A consumer that has read all that is gone, and says so, reads on."""
    answer = fetched(leader_with_snapshots(), consume(10, last_fetched_epoch=stored(2).leader_epoch))
    assert (answer.error, answer.diverging_epoch, answer.snapshot_id) == (ErrorCode.NONE, None, None)
    assert answer.records


def test_parked_fetches_below_a_new_log_start_are_answered(bench: Bench) -> None:
    """Who waits for more of what is gone then is told: a follower of the snapshot, a consumer that it is too low."""
    for _ in range(9):
        bench.call(produce(acks=1))
    bench.flush_all()
    commit(bench, 1)
    bench.store(4, 6)
    bench.finish_storing()
    waiting = [
        bench.call(fetch(2, 6, 6, replica=2, wait_ms=400, min_bytes=1 << 20, high_watermark=Offset(11))),
        bench.call(consume(2, max_wait_ms=400, min_bytes=1 << 20)),
        bench.call(consume(5, max_wait_ms=400, min_bytes=1 << 20)),
    ]
    assert set(waiting) <= bench.open_calls
    bench.store(8, 6)
    bench.finish_storing()
    assert reply_of(bench, waiting[0]).snapshot_id == snapshot_id(8, 6)
    assert reply_of(bench, waiting[1]).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert waiting[2] in bench.open_calls


# --- pieces ---------------------------------------------------------------------------------------------------------


def test_fetch_snapshot_request_as_leader() -> None:
    """Any snapshot that is kept is handed out, with its id, its size and where the piece stands."""
    bench = leader_with_snapshots()
    for end_offset, epoch in ((10, 2), (20, 4)):
        answer, data = piece_of(bench, fetch_snapshot(end_offset, epoch)), kept_snapshot_of(end_offset, epoch).data
        assert (answer.error, answer.snapshot_id) == (ErrorCode.NONE, snapshot_id(end_offset, epoch))
        assert (answer.size_bytes, answer.position, answer.data) == (len(data), 0, data)


def test_partial_fetch_snapshot_request_as_leader() -> None:
    """By position the pieces are the whole, none larger than asked for."""
    bench, data = leader_with_snapshots(), b""
    while len(data) < len(kept_snapshot_of(20, 4).data):
        answer = piece_of(bench, fetch_snapshot(20, 4, len(data), max_bytes=7))
        assert 0 < len(answer.data) <= 7
        data += answer.data
    assert data == kept_snapshot_of(20, 4).data


def test_a_piece_is_bounded_by_the_leader_too() -> None:
    """However many bytes are asked for, an answer is not larger than one to a fetch."""
    bench = leader_with_snapshots(config=QuorumConfig(fetch_max_bytes=5))
    assert len(piece_of(bench, fetch_snapshot(20, 4)).data) == 5


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        pytest.param(fetch_snapshot(15, 3), ErrorCode.SNAPSHOT_NOT_FOUND, id="fetch_snapshot_request_missing_snapshot"),
        pytest.param(fetch_snapshot(20, 3), ErrorCode.SNAPSHOT_NOT_FOUND, id="of_another_epoch"),
        pytest.param(
            fetch_snapshot(20, 4, -1),
            ErrorCode.POSITION_OUT_OF_RANGE,
            id="fetch_snapshot_request_with_invalid_position",
        ),
        pytest.param(
            fetch_snapshot(20, 4, len(kept_snapshot_of(20, 4).data)),
            ErrorCode.POSITION_OUT_OF_RANGE,
            id="fetch_snapshot_request_with_invalid_position_at_the_end",
        ),
        pytest.param(
            fetch_snapshot(20, 4, current_leader_epoch=5),
            ErrorCode.FENCED_LEADER_EPOCH,
            id="fetch_snapshot_request_with_older_epoch",
        ),
        pytest.param(
            fetch_snapshot(20, 4, current_leader_epoch=7),
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            id="fetch_snapshot_request_with_newer_epoch",
        ),
        pytest.param(
            fetch_snapshot(15, 3, -1, current_leader_epoch=5), ErrorCode.FENCED_LEADER_EPOCH, id="epoch_comes_first"
        ),
        pytest.param(
            fetch_snapshot(20, 4, cluster_id="another"),
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            id="fetch_snapshot_request_cluster_id_validation",
        ),
        pytest.param(
            fetch_snapshot(20, 4, topic_partition=TopicPartition("unknown", 0)),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            id="fetch_snapshot_request_unknown_partition",
        ),
        pytest.param(fetch_snapshot(20, 4, max_bytes=0), ErrorCode.INVALID_REQUEST, id="of_no_bytes"),
        pytest.param(fetch_snapshot(20, 4, replica=0), ErrorCode.INVALID_REQUEST, id="of_the_leader_itself"),
    ],
)
def test_fetch_snapshot_request_refused(request_: m.FetchSnapshotRequest, error: ErrorCode) -> None:
    """Each mistake has its error, in the order of a Fetch: cluster, form, epoch, leadership, snapshot, position."""
    answer = piece_of(leader_with_snapshots(), request_)
    assert (answer.error, answer.data, answer.snapshot_id) == (error, b"", None)


def test_fetch_snapshot_request_as_follower() -> None:
    """Only the leader hands out snapshots; who does not lead says who does."""
    bench = leader_with_snapshots()
    follow(bench, 1, 7)
    answer = piece_of(bench, fetch_snapshot(20, 4, current_leader_epoch=7))
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader == bench.log.current_leader


# --- what a request for a piece means -------------------------------------------------------------------------------


def keep_asking(bench: Bench, ms: int, *requests: Callable[[], m.Request]) -> None:
    """Let time pass while these requests come every 100 ms."""
    for _ in range(ms // 100):
        bench.elapse(100)
        for request in requests:
            if bench.role == "leader":
                bench.call(request())


def test_leader_should_resign_leadership_if_not_get_fetch_snapshot_request_from_majority_voters() -> None:
    """Voters that fetch a snapshot still follow; an observer's requests, and those that are refused, keep no leader."""
    bench = leader_with_snapshots()
    timeout_ms = bench.config.quorum.check_quorum_timeout_ms
    keep_asking(bench, 3 * timeout_ms, lambda: fetch_snapshot(20, 4, replica=1))
    assert bench.role == "leader"
    keep_asking(
        bench,
        timeout_ms,
        lambda: fetch_snapshot(20, 4, replica=9),
        lambda: fetch_snapshot(20, 4, replica=2, current_leader_epoch=5),
        lambda: fetch_snapshot(15, 3, replica=2),
    )
    assert bench.role == "resigned"


def test_a_request_for_a_snapshot_acknowledges_nothing() -> None:
    """A voter that asks for a snapshot does not have it: the leader goes on counting what it had before."""
    bench = leader_bench(log=[(3, 5), (4, 14)], start=10, snapshots=[(10, 2), (20, 4)])
    piece_of(bench, fetch_snapshot(20, 4, replica=1))
    commit(bench, 2)
    piece_of(bench, fetch_snapshot(20, 4, replica=2))
    described = bench.answered(m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse)
    assert [voter.log_end_offset for voter in described.current_voters] == [30, None, 30]


def test_a_voter_that_fetches_a_snapshot_is_not_called_again() -> None:
    """Like a fetch, a request for a piece stops the repetition of BeginQuorumEpoch to this voter."""
    bench = leader_bench(log=[(3, 5), (4, 14)], start=10, snapshots=[(10, 2), (20, 4)])
    bench.sends = []
    piece_of(bench, fetch_snapshot(20, 4, replica=1))
    bench.elapse(bench.config.quorum.begin_quorum_epoch_interval_ms)
    assert set(bench.requests(m.BeginQuorumEpochRequest)) == {2}
