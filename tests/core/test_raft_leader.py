"""A leader's arithmetic: when something is committed, who is told, and who may read it."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId
from replica.records import decode_leader_change
from tests.core.harness import LOG, Bench, disk_id, leader, stored
from tests.core.scenarios import (
    commit,
    consume,
    fetch,
    fetched,
    follow,
    lead,
    leader_bench,
    produce,
    reply_of,
)


def latest(bench: Bench, **others: Any) -> m.ListOffsetsResponse:
    response = bench.answered(m.ListOffsetsRequest(topic_partition=LOG, latest=True, **others), m.ListOffsetsResponse)
    return response


def test_leader_opens_its_epoch_with_a_leader_change_record(bench: Bench) -> None:
    """The first record of an epoch names its leader, the voters and those who voted for it."""
    change = decode_leader_change(bench.disk.batches[0])
    assert change is not None
    assert (change.leader_id, change.voters, change.granting_voters) == (0, (0, 1, 2), (0, 1))


def test_make_leader_updates_epoch_cache() -> None:
    """The new epoch begins at the log's end at once, before any client writes."""
    bench = leader_bench(log=[(0, 2), (5, 2)], quorum_state=stored(7))
    request = m.OffsetForLeaderEpochRequest(topic_partition=LOG, leader_epoch=Epoch(7))
    response = bench.answered(request, m.OffsetForLeaderEpochResponse)
    assert response.answer is not None
    assert (response.answer.epoch, response.answer.end_offset) == (5, 4)
    assert bench.log.log.epochs.latest is not None
    assert (bench.log.log.epochs.latest.epoch, bench.log.log.epochs.latest.start_offset) == (8, 4)


def test_high_watermark_is_unknown_until_a_record_of_the_own_epoch_commits() -> None:
    """Raft figure 8, step by step: a majority that holds an older epoch's record does not commit it.

    1. Record 0 was written in epoch 2 by a leader that replicated it nowhere. 2. That replica leads epoch 6 now and
    voter 1 fetches record 0: a majority holds it. 3. Were it called committed now, a replica with a record of epoch 3
    at offset 0 could still be elected and replace it. 4. Only when the leader's own record is on a majority is it safe.
    """
    bench = leader_bench(log=[(2, 1)])
    assert fetched(bench, fetch(0, 0, 6)).high_watermark is None
    assert fetched(bench, fetch(1, 2, 6)).high_watermark is None
    assert (bench.high_watermark, latest(bench).error) == (None, ErrorCode.OFFSET_NOT_AVAILABLE)
    assert fetched(bench, consume(0)).records == b""
    assert fetched(bench, fetch(2, 6, 6)).high_watermark == 2
    assert (latest(bench).offset, latest(bench).leader_epoch) == (2, 6)
    assert fetched(bench, consume(0)).records != b""


def test_leader_counts_itself_only_once_flushed() -> None:
    """The leader's own unflushed records are on no disk and count for nothing."""
    bench = leader_bench()
    commit(bench, 1)
    bench.call(produce(acks=1))
    bench.call(fetch(3, 6, 6))
    assert bench.high_watermark == 2
    bench.flush_all()
    assert bench.high_watermark == 3


def test_majority_of_others_commits_what_the_leader_has_not_flushed(bench: Bench) -> None:
    """A majority without the leader is a majority: durable there is durable."""
    commit(bench, 1)
    call_id = bench.call(produce())
    commit(bench, 1, 2)
    assert (bench.high_watermark, reply_of(bench, call_id).base_offset) == (3, 2)
    assert bench.disk.owed, "the leader's own flush is still out"


def test_observers_fetches_do_not_commit(bench: Bench) -> None:
    """However many observers hold a record, only voters commit it."""
    for observer in (7, 8, 9):
        assert fetched(bench, fetch(2, 6, 6, replica=observer)).high_watermark is None


def test_describe_quorum_non_monotonic_follower_fetch(bench: Bench) -> None:
    """A voter that comes back with less is described as it is, and takes nothing of the high watermark back."""
    bench.call(produce(acks=1))
    bench.flush_all()
    commit(bench, 1)
    assert bench.high_watermark == 3
    assert fetched(bench, fetch(2, 6, 6)).high_watermark == 3
    described = bench.answered(m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse)
    assert [(voter.replica_id, voter.log_end_offset) for voter in described.current_voters] == [
        (0, 3),
        (1, 2),
        (2, None),
    ]


def test_describe_quorum_non_leader() -> None:
    """Who does not lead describes nothing and says who leads."""
    response = Bench(quorum_state=stored(5, leader_id=2)).answered(
        m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse
    )
    assert (response.error, response.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader(2, 5))


def test_describe_quorum_with_followers() -> None:
    """Voters are described by what they have fetched, when, and when that was all; the leader has no such times."""
    bench = leader_bench(log=[(2, 3)])
    bench.call(fetch(4, 6, 6, replica=1))
    bench.elapse(40)
    bench.call(fetch(2, 2, 6, replica=2))
    bench.elapse(10)
    described = bench.answered(m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse)
    assert (described.error, described.high_watermark, described.observers) == (ErrorCode.NONE, 4, ())
    assert [
        (voter.replica_id, voter.log_end_offset, voter.last_fetch_ms_ago, voter.last_caught_up_ms_ago)
        for voter in described.current_voters
    ] == [(0, 4, None, None), (1, 4, 50, 50), (2, 2, 10, None)]


def test_describe_quorum_with_observer(bench: Bench) -> None:
    """Observers are described apart from voters; times are since their last fetch, and since they were caught up."""
    bench.call(fetch(2, 6, 6, replica=9))
    bench.call(produce(acks=1))
    bench.elapse(30)
    bench.call(fetch(2, 6, 6, replica=9))
    bench.elapse(12)
    described = bench.answered(m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse)
    (observer,) = described.observers
    assert observer == m.QuorumReplicaState(
        replica_id=ReplicaId(9),
        directory_id=disk_id(9),
        log_end_offset=Offset(2),
        last_fetch_ms_ago=12,
        last_caught_up_ms_ago=42,
    )


def test_observers_are_bounded() -> None:
    """One observer too many takes the place of the one that has been silent longest."""
    bench = leader_bench(config=QuorumConfig(observers_max=2))
    for observer in (7, 8, 7, 9):
        bench.elapse(1)
        bench.call(fetch(2, 6, 6, replica=observer))
    described = bench.answered(m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse)
    assert [observer.replica_id for observer in described.observers] == [7, 9]


def test_high_watermark_retained(bench: Bench) -> None:
    """A deposed leader that leads again knows no high watermark in its new epoch, and never reports a lower one."""
    commit(bench, 1)
    seen = [(bench.epoch, bench.high_watermark)]
    follow(bench, 2, 7)
    seen.append((bench.epoch, bench.high_watermark))
    lead(bench)
    seen.append((bench.epoch, bench.high_watermark))
    commit(bench, 1)
    seen.append((bench.epoch, bench.high_watermark))
    assert seen == [(6, 2), (7, 2), (8, None), (8, 3)]


def test_fetch_beyond_high_watermark() -> None:
    """A replica reads to the log's end; a consumer gets what is committed, and beyond it nothing and no error."""
    bench = leader_bench()
    commit(bench, 1)
    for _ in range(4):
        bench.call(produce(acks=1))
    assert len(fetched(bench, fetch(2, 6, 6)).records) > 0
    read = bench.call(consume(0))
    (effect,) = bench.made(fx.ReplyWithRecords)
    (wanted,) = effect.ranges
    assert (effect.call_id, wanted.start_offset, wanted.end_offset) == (read, 0, 2)
    beyond = fetched(bench, consume(4))
    assert (beyond.error, beyond.records, beyond.high_watermark) == (ErrorCode.NONE, b"", 2)
    assert fetched(bench, consume(7)).error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_replica_lists_the_log_end_and_consumer_the_high_watermark() -> None:
    """What is latest depends on who asks; earliest does not."""
    bench = leader_bench(log=[(2, 3)])
    commit(bench, 1)
    bench.call(produce(acks=1))
    assert [(each.offset, each.leader_epoch) for each in (latest(bench), latest(bench, replica_id=ReplicaId(1)))] == [
        (4, 6),
        (5, 6),
    ]
    earliest = bench.answered(m.ListOffsetsRequest(topic_partition=LOG, latest=False), m.ListOffsetsResponse)
    assert (earliest.offset, earliest.leader_epoch) == (0, 2)


# --- purgatory ------------------------------------------------------------------------------------------------------


def test_purgatory_fetch_timeout(bench: Bench) -> None:
    """A fetch with nothing to bring home is answered empty when its time is up, and not before."""
    call_id = bench.call(fetch(2, 6, 6, wait_ms=300))
    bench.elapse(299)
    assert bench.open_calls == {call_id}
    bench.elapse(1)
    assert (reply_of(bench, call_id).error, reply_of(bench, call_id).records) == (ErrorCode.NONE, b"")


def test_purgatory_fetch_satisfied_by_write(bench: Bench) -> None:
    """A parked replica's fetch is answered by the next append."""
    call_id = bench.call(fetch(2, 6, 6, wait_ms=300, high_watermark=Offset(2)))
    bench.call(produce(acks=1))
    assert reply_of(bench, call_id).records == bench.disk.batches[2].data


def test_purgatory_fetch_completed_by_follower_transition(bench: Bench) -> None:
    """A parked fetch is turned away when another leader appears, after the new epoch is stored."""
    call_id = bench.call(fetch(2, 6, 6, wait_ms=300))
    follow(bench, 2, 7)
    kinds = [type(effect) for effect in bench.effects]
    assert kinds[:2] == [fx.StoreQuorumState, fx.Reply]
    assert reply_of(bench, call_id).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_parked_fetch_is_answered_by_a_new_high_watermark(bench: Bench) -> None:
    """A sender that knows less is told at once (KIP-1166); one that named no high watermark waits its time out."""
    commit(bench, 1)
    bench.call(produce(acks=1))
    bench.flush_all()
    told = bench.call(fetch(3, 6, 6, replica=7, wait_ms=300, high_watermark=Offset(2)))
    untold = bench.call(fetch(3, 6, 6, replica=8, wait_ms=300))
    commit(bench, 1)
    assert reply_of(bench, told).high_watermark == 3
    assert bench.open_calls == {untold}


def test_parked_consumer_waits_for_commit_not_for_append(bench: Bench) -> None:
    """A consumer is woken when a record may be read, which is later than when it is written."""
    commit(bench, 1)
    call_id = bench.call(consume(2, max_wait_ms=300))
    bench.call(produce(acks=1))
    assert call_id in bench.open_calls
    commit(bench, 1, 2)
    assert reply_of(bench, call_id).records == bench.disk.batches[2].data


def test_fetch_waits_for_min_bytes(bench: Bench) -> None:
    """A reader that wants more bytes than there are waits for them, or for its time to be up."""
    bench.call(produce(acks=1))
    size = bench.disk.batches[2].size_bytes
    call_id = bench.call(fetch(2, 6, 6, wait_ms=300, min_bytes=2 * size))
    assert call_id in bench.open_calls
    bench.call(produce(acks=1))
    assert len(reply_of(bench, call_id).records) == 2 * size


def test_full_purgatory_answers_fetches_at_once() -> None:
    """One fetch more than can wait is answered with what there is."""
    bench = leader_bench(config=QuorumConfig(parked_fetches_max=1))
    parked = bench.call(fetch(2, 6, 6, replica=1, wait_ms=300))
    assert fetched(bench, fetch(2, 6, 6, replica=7, wait_ms=300)).records == b""
    assert bench.open_calls == {parked}


def test_fetch_wait_is_capped() -> None:
    """Nobody waits longer than the configured maximum."""
    bench = leader_bench(voters=(0,), config=QuorumConfig(fetch_wait_max_ms=700))
    call_id = bench.call(fetch(2, 6, 6, replica=9, wait_ms=1 << 31))
    bench.elapse(700)
    assert reply_of(bench, call_id).error is ErrorCode.NONE


@pytest.mark.parametrize("max_bytes", [1, 1 << 30])
def test_reads_are_capped_and_carry_at_least_one_batch(max_bytes: int) -> None:
    """A small limit still gets one whole batch, a large one is cut to the leader's own."""
    bench = leader_bench(config=QuorumConfig(fetch_max_bytes=1000))
    bench.call(produce(b"x" * 2000, acks=1))
    bench.call(fetch(2, 6, 6, max_bytes=max_bytes))
    (effect,) = bench.made(fx.ReplyWithRecords)
    assert effect.max_bytes == effect.ranges[0].max_bytes == min(max_bytes, 1000)
