"""The way of a write: what is refused before it is appended, what is acknowledged when, and what stays unknown."""

from __future__ import annotations

import pytest

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import QuorumConfig
from replica.errors import ErrorCode, write_definitely_failed
from replica.ids import CallId, Epoch, Offset, ReplicaId, TopicPartition
from replica.records import encode_batch, leader_change_batch
from tests.core.harness import Bench, leader, stored
from tests.core.scenarios import commit, fetch, follow, follower_bench, leader_bench, produce, reply_of, vote, voted

GARBAGE = b"\x00garbage" * 10


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def control_batch() -> bytes:
    return leader_change_batch(
        leader_id=ReplicaId(1),
        voters=(),
        granting_voters=(),
        base_offset=Offset(0),
        leader_epoch=Epoch(0),
    ).data


def assert_refused(request: m.ProduceRequest, error: ErrorCode, *, message_max_bytes: int = 1500) -> None:
    """The leader of epoch 6 refuses a write for certain, and appends nothing."""
    bench = leader_bench(config=QuorumConfig(message_max_bytes=message_max_bytes))
    response = bench.answered(request, m.ProduceResponse)
    assert (response.error, response.not_appended, response.base_offset) == (error, True, None)
    assert write_definitely_failed(response.error, not_appended=False), "the code alone says it"
    assert not bench.made(fx.Append)


TWO_BATCHES = encode_batch([b"a"]).data + encode_batch([b"b"]).data


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        pytest.param(produce(acks=3), ErrorCode.INVALID_REQUIRED_ACKS, id="test_illegal_required_acks"),
        pytest.param(produce(acks=-2), ErrorCode.INVALID_REQUIRED_ACKS, id="negative_acks"),
        pytest.param(produce(cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID, id="another_cluster"),
        pytest.param(produce(records=GARBAGE), ErrorCode.CORRUPT_MESSAGE, id="garbage"),
        pytest.param(produce(records=flipped(produce().records)), ErrorCode.CORRUPT_MESSAGE, id="flipped_bit"),
        pytest.param(produce(records=produce().records[:-1]), ErrorCode.CORRUPT_MESSAGE, id="truncated"),
        pytest.param(produce(records=b""), ErrorCode.INVALID_RECORD, id="no_batch"),
        pytest.param(produce(records=TWO_BATCHES), ErrorCode.INVALID_RECORD, id="two_batches"),
        pytest.param(produce(records=control_batch()), ErrorCode.INVALID_RECORD, id="control_batch"),
    ],
)
def test_append_refused(request_: m.ProduceRequest, error: ErrorCode) -> None:
    """What is wrong with a write is found before anything is appended, and the answer says so."""
    assert_refused(request_, error)


@pytest.mark.parametrize(("epoch", "error"), [(5, ErrorCode.FENCED_LEADER_EPOCH), (7, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_append_failed_with_fenced_epoch(epoch: int, error: ErrorCode) -> None:
    """A write that was meant for another epoch than the leader's is not appended in this one."""
    assert_refused(produce(current_leader_epoch=Epoch(epoch)), error)


def test_append_failed_with_record_batch_too_large_exception() -> None:
    """A batch above the limit is not appended, one at the limit is."""
    size = len(produce(b"x" * 2000).records)
    assert_refused(produce(b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE, message_max_bytes=size - 1)
    bench = leader_bench(config=QuorumConfig(message_max_bytes=size))
    assert reply_of(bench, bench.call(produce(b"x" * 2000, acks=1))).error is ErrorCode.NONE


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_append_failed_with_not_leader_exception(acks: int) -> None:
    """A write to a follower is refused at the door, definitely not appended."""
    response = follower_bench(leader_id=2).answered(produce(acks=acks), m.ProduceResponse)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)
    assert response.current_leader is not None
    assert response.current_leader.leader_id == 2


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (produce(acks=3, records=GARBAGE, cluster_id="another"), ErrorCode.INVALID_REQUIRED_ACKS),
        (produce(records=GARBAGE, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (produce(records=GARBAGE, current_leader_epoch=Epoch(4)), ErrorCode.FENCED_LEADER_EPOCH),
        (produce(records=GARBAGE, current_leader_epoch=Epoch(5)), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (produce(records=GARBAGE), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_order_of_checks(request_: m.ProduceRequest, error: ErrorCode) -> None:
    """Acks, cluster, epoch, leadership, and only then the bytes."""
    response = follower_bench(leader_id=2).answered(request_, m.ProduceResponse)
    assert response.error is error


def test_acks_leader_is_answered_after_the_append(bench: Bench) -> None:
    """acks=1 waits for the leader's log only, not for its disk and not for others."""
    response = bench.answered(produce(acks=1), m.ProduceResponse)
    assert (response.error, response.base_offset, response.leader_epoch) == (ErrorCode.NONE, 2, 6)
    assert [type(effect) for effect in bench.effects] == [fx.Append, fx.Flush, fx.Reply]


def test_acks_none_promises_nothing(bench: Bench) -> None:
    """acks=0 is answered without an offset; the record is appended all the same."""
    response = bench.answered(produce(acks=0), m.ProduceResponse)
    assert (response.error, response.base_offset, bench.disk.end) == (ErrorCode.NONE, None, 3)


def test_acks_all_is_answered_when_committed() -> None:
    """acks=-1 waits until a majority has flushed the record: neither append nor one flush is enough."""
    bench = leader_bench()
    commit(bench, 1)
    call_id = bench.call(produce())
    bench.flush_all()
    assert call_id in bench.open_calls
    commit(bench, 2)
    response = reply_of(bench, call_id)
    assert (response.error, response.base_offset, response.leader_epoch) == (ErrorCode.NONE, 2, 6)


def test_acks_all_alone_waits_for_its_disk() -> None:
    """A quorum of one commits with its own flush, not before."""
    bench = leader_bench(voters=(0,))
    call_id = bench.call(produce())
    assert call_id in bench.open_calls
    bench.flush()
    assert reply_of(bench, call_id).base_offset == 2


def test_acks_all_are_answered_in_order(bench: Bench) -> None:
    """One high watermark answers all writes below it, oldest first, and none above."""
    calls = [bench.call(produce()) for _ in range(4)]
    bench.flush_all()
    bench.call(fetch(4, 6, 6))
    answered = [effect.call_id for effect in bench.made(fx.Reply) if effect.call_id in calls]
    assert answered == calls[:2]
    assert bench.open_calls == set(calls[2:])


def test_produce_timeout_is_unknown(bench: Bench) -> None:
    """A write that is not committed in time may be committed later: timed out, and not known to have failed."""
    call_id = bench.call(produce(timeout_ms=250))
    bench.elapse(249)
    assert call_id in bench.open_calls
    bench.elapse(1)
    response = reply_of(bench, call_id)
    assert (response.error, response.not_appended) == (ErrorCode.REQUEST_TIMED_OUT, False)
    assert not write_definitely_failed(response.error, not_appended=response.not_appended)
    commit(bench, 1, 2)
    assert bench.high_watermark == 3, "and it is committed later, without another answer"


@pytest.mark.parametrize(("timeout_ms", "wait_ms"), [(0, 0), (-5, 0), (1 << 40, 500)])
def test_produce_timeout_is_bounded(timeout_ms: int, wait_ms: int) -> None:
    """No write waits longer than the configured maximum, and one that would not wait is answered at once."""
    bench = leader_bench(config=QuorumConfig(produce_timeout_max_ms=500))
    call_id = bench.call(produce(timeout_ms=timeout_ms))
    bench.elapse(wait_ms)
    assert reply_of(bench, call_id).error is ErrorCode.REQUEST_TIMED_OUT


def test_leadership_lost_while_a_write_waits_is_unknown() -> None:
    """The same code as at the door, but not the same meaning: the record is in a log and may yet be committed."""
    bench = leader_bench()
    call_id = bench.call(produce())
    follow(bench, 2, 7)
    response = reply_of(bench, call_id)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)
    assert not write_definitely_failed(response.error, not_appended=response.not_appended)


def assert_unknown_and_nothing_more_is_appended(bench: Bench, call_id: CallId) -> None:
    """The fate of what waited is unknown, its record stays where it is, and the new role appends none."""
    response = reply_of(bench, call_id)
    assert (response.error, response.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, False)
    assert bench.disk.end == 3, "LeaderChange, the voters and that record"
    later = bench.answered(produce(), m.ProduceResponse)
    assert (later.error, later.not_appended) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)
    assert bench.disk.end == 3


def test_accumulator_cleared_after_becoming_follower(bench: Bench) -> None:
    """A leader that follows another appends nothing more, and answers its waiting writes: their fate is unknown."""
    call_id = bench.call(produce())
    follow(bench, 2, 7)
    assert bench.role == "follower"
    assert_unknown_and_nothing_more_is_appended(bench, call_id)


def test_accumulator_cleared_after_becoming_voted(bench: Bench) -> None:
    """So does one that has resigned, and votes in a newer epoch."""
    call_id = bench.call(produce())
    bench.step(ev.ResignRequested())
    assert voted(bench, vote(7, last=(6, 10))).vote_granted
    assert (bench.role, bench.disk.quorum_state) == ("unattached", stored(7, voted_id=1))
    assert_unknown_and_nothing_more_is_appended(bench, call_id)


def test_accumulator_cleared_after_becoming_unattached(bench: Bench) -> None:
    """So does one that hears of a newer epoch, and votes for nobody in it."""
    call_id = bench.call(produce())
    bench.respond(
        bench.send_to(1, m.BeginQuorumEpochRequest),
        m.BeginQuorumEpochResponse(error=ErrorCode.FENCED_LEADER_EPOCH, current_leader=leader(None, 7)),
    )
    assert (bench.role, bench.disk.quorum_state) == ("unattached", stored(7))
    assert_unknown_and_nothing_more_is_appended(bench, call_id)


def test_full_purgatory_refuses_writes() -> None:
    """One write more than can wait is refused before it is appended."""
    bench = leader_bench(config=QuorumConfig(parked_produces_max=1))
    bench.call(produce())
    response = bench.answered(produce(), m.ProduceResponse)
    assert (response.error, response.not_appended) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)
    assert bench.disk.end == 3
    bench.elapse(1000)
    accepted = bench.call(produce())
    assert accepted in bench.open_calls, "there is room again"


def test_leader_stamps_offset_and_epoch(bench: Bench) -> None:
    """Whatever a producer wrote into the stamp, the leader's own stands there; records and CRC are not touched."""
    sent = encode_batch([b"a", b"b"], base_offset=77, leader_epoch=3)
    bench.call(produce(acks=1, records=sent.data))
    batch = bench.disk.batches[-1]
    assert (batch.base_offset, batch.end_offset, batch.leader_epoch) == (2, 4, 6)
    assert batch.data[16:] == sent.data[16:]


def test_unknown_topic_or_partition(bench: Bench) -> None:
    """A log that is not hosted here is refused by name, the write definitely not appended."""
    request = m.ProduceRequest(topic_partition=TopicPartition("other", 0), acks=-1, timeout_ms=1, records=b"")
    response = bench.answered(request, m.ProduceResponse)
    assert (response.error, response.not_appended) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
