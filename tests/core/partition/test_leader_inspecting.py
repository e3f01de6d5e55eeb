"""Questions to a leader: where epochs end, how far its log may be read, and what it holds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.partition.invariants import check_call, check_state, observe
from replica.core.partition.roles import CommittedIsr, Leader
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, ReplicaId
from tests.core.harness import records_of
from tests.core.partition.bench import BROKER, CLUSTER, LOG, PartitionBench, registration


def leading(*log: tuple[int, int], log_start: int = 0, high_watermark: int = 0) -> PartitionBench:
    """Let broker 1 lead epoch 5 with this log, together with broker 2."""
    bench = PartitionBench(log=log, log_start=log_start, high_watermark=high_watermark)
    bench.metadata(registration(1, 5, isr=(1, 2)))
    return bench


def offsets(bench: PartitionBench, request: m.ListOffsetsRequest) -> m.ListOffsetsResponse:
    """Ask for an offset."""
    response = bench.answered(request, m.ListOffsetsResponse)
    return response


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(0, (0, 0)), (1, (1, 2)), (2, (1, 2)), (4, (4, 5)), (5, (5, 5)), (6, None)],
    ids=["below_all", "known", "in_between", "last_written", "own", "above_all"],
)
def test_offset_for_leader_epoch(epoch: int, expected: tuple[int, int] | None) -> None:
    """The largest epoch not above the one asked for, and its end; above all there is no answer, and no error."""
    response = leading((1, 2), (4, 3)).answered(
        m.OffsetForLeaderEpochRequest(topic_partition=LOG, leader_epoch=Epoch(epoch)), m.OffsetForLeaderEpochResponse
    )
    answer = None if expected is None else EpochEndOffset(Epoch(expected[0]), Offset(expected[1]))
    assert (response.error, response.answer) == (ErrorCode.NONE, answer)


def test_fetch_latest_offset_includes_leader_epoch() -> None:
    """The latest offset is a client's high watermark, a replica's log end, with the epoch of the record just below."""
    bench = leading((4, 3))
    bench.fetch(2, 3)
    bench.fill(2)
    latest = m.ListOffsetsRequest(topic_partition=LOG, latest=True)
    client, replica = offsets(bench, latest), offsets(bench, replace(latest, replica_id=ReplicaId(2)))
    assert [(each.offset, each.leader_epoch) for each in (client, replica)] == [(3, 4), (5, 5)]


@pytest.mark.parametrize("latest", [True, False])
@pytest.mark.parametrize("log_start", [0, 7], ids=["never_written", "all_deleted"])
def test_no_record_has_no_epoch(log_start: int, latest: bool) -> None:
    """Where the log holds no record that an offset could be told by, none is named."""
    bench = leading(log_start=log_start, high_watermark=log_start)
    bench.fetch(2, log_start)
    response = offsets(bench, m.ListOffsetsRequest(topic_partition=LOG, latest=latest))
    assert (response.error, response.offset, response.leader_epoch) == (ErrorCode.NONE, log_start, None)


@pytest.mark.parametrize("timestamp_ms", [None, 1000])
def test_latest_is_not_available_until_the_leader_knows(timestamp_ms: int | None) -> None:
    """A new leader whose high watermark is behind the start of its epoch does not tell clients to go back (KIP-207)."""
    bench = leading((4, 3), high_watermark=1)
    latest = m.ListOffsetsRequest(topic_partition=LOG, latest=True, timestamp_ms=timestamp_ms)
    assert offsets(bench, latest).error is ErrorCode.OFFSET_NOT_AVAILABLE
    asked = replace(latest, replica_id=ReplicaId(2))
    assert offsets(bench, asked).error is ErrorCode.NONE, "a replica wants the log's end, which is known"
    bench.fetch(2, 3)
    assert offsets(bench, latest).error is ErrorCode.NONE


def test_earliest_offset() -> None:
    """The log's start is always known, with the epoch of what stands there."""
    bench = leading((3, 1), (4, 2), log_start=7, high_watermark=7)
    response = offsets(bench, m.ListOffsetsRequest(topic_partition=LOG))
    assert (response.error, response.offset, response.leader_epoch) == (ErrorCode.NONE, 7, 3)


def test_offset_of_a_time_is_looked_up_below_the_high_watermark() -> None:
    """A client finds the first record of a time among those that it may read."""
    bench = leading((4, 3))
    bench.fetch(2, 3)
    bench.fill(2)
    call_id = bench.call(m.ListOffsetsRequest(topic_partition=LOG, timestamp_ms=77))
    assert bench.made(fx.ReplyWithOffset) == [
        fx.ReplyWithOffset(
            call_id=call_id,
            response=m.ListOffsetsResponse(error=ErrorCode.NONE, current_leader=bench.partition.current_leader),
            topic_partition=LOG,
            timestamp_ms=77,
            end_offset=Offset(3),
        )
    ]


def test_describe_replica() -> None:
    """Any replica tells its own state, whatever its role."""
    bench = leading((4, 2), high_watermark=1)
    bench.produce(acks=1)
    response = bench.answer(m.DescribeReplicaRequest(topic_partition=LOG))
    assert response == m.DescribeReplicaResponse(
        error=ErrorCode.NONE,
        replica_id=BROKER,
        cluster_id=CLUSTER,
        role="leader",
        leader=m.CurrentLeader(leader_id=BROKER, leader_epoch=Epoch(5)),
        log_start_offset=Offset(0),
        high_watermark=Offset(1),
        flushed_end_offset=Offset(2),
        log_end_offset=Offset(3),
        epochs=bench.disk.epochs,
        addresses={number: each.address for number, each in bench.brokers.items()},
    )


@pytest.mark.parametrize(
    ("offset", "max_bytes", "error"),
    [
        (1, 0, ErrorCode.INVALID_REQUEST),
        (-1, 10, ErrorCode.OFFSET_OUT_OF_RANGE),
        (4, 10, ErrorCode.OFFSET_OUT_OF_RANGE),
        (3, 10, ErrorCode.NONE),
    ],
)
def test_dump_log_of_nothing(offset: int, max_bytes: int, error: ErrorCode) -> None:
    """At the log's end there is nothing more, and outside the log there is nothing at all."""
    bench = leading((4, 3))
    response = bench.answered(
        m.DumpLogRequest(topic_partition=LOG, offset=Offset(offset), max_bytes=max_bytes), m.DumpLogResponse
    )
    assert (response.error, response.records) == (error, b"")


def test_dump_log() -> None:
    """A replica hands out what it holds, committed or not."""
    bench = leading((4, 3), high_watermark=1)
    response = bench.answered(
        m.DumpLogRequest(topic_partition=LOG, offset=Offset(1), max_bytes=1 << 20), m.DumpLogResponse
    )
    assert response.records == records_of(bench.disk.batches[1:])
    assert (response.high_watermark, response.log_end_offset) == (1, 3)


def test_quorum_requests_are_refused() -> None:
    """Nobody votes about a partition."""
    response = leading().answered(m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse)
    assert response.error is ErrorCode.INVALID_REQUEST


# --- invariants -------------------------------------------------------------------------------------------------------


def test_invariant_of_offsets_is_checked() -> None:
    """A high watermark beyond the log's end is our own mistake."""
    bench = leading((4, 3))
    bench.partition.log.high_watermark = Offset(4)
    with pytest.raises(AssertionError, match=r"\(0, 4, 3\)"):
        check_state(bench.partition)


def test_invariant_of_the_isr_is_checked() -> None:
    """A leader that counts another ISR than the committed one is our own mistake."""
    bench = leading((4, 3))
    role = bench.partition.role
    assert isinstance(role, Leader)
    bench.partition.role = replace(role, isr_state=CommittedIsr(isr=frozenset({BROKER})))
    with pytest.raises(AssertionError, match="CommittedIsr"):
        check_state(bench.partition)


def test_invariant_of_the_role_is_checked() -> None:
    """Nobody leads whom the controller has not appointed."""
    bench = leading((4, 3))
    role = bench.partition.role
    bench.metadata(registration(2, 6))
    bench.partition.role = role
    with pytest.raises(AssertionError, match="leader_id=2"):
        check_state(bench.partition)


def test_invariant_of_a_falling_high_watermark_is_checked() -> None:
    """Within a leadership the high watermark does not fall."""
    bench = leading((4, 3), high_watermark=2)
    before = observe(bench.partition)
    bench.partition.log.set_high_watermark(Offset(1))
    with pytest.raises(AssertionError, match=r"\(2, 1\)"):
        check_call(before, bench.partition)


@pytest.mark.parametrize("end", [1, None], ids=["behind", "unknown"])
def test_invariant_of_what_is_committed_is_checked(end: int | None) -> None:
    """What a leader commits, everybody has who may be in sync."""
    bench = leading((4, 3))
    if end is not None:
        bench.fetch(2, end)
    before = observe(bench.partition)
    bench.partition.log.set_high_watermark(Offset(2))
    with pytest.raises(AssertionError, match="2"):
        check_call(before, bench.partition)
