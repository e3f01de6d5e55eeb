"""Who is turned away, by which name, and that it leaves no trace: the fencing matrix of every request that reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, ReplicaId, TopicPartition
from tests.core.harness import LOG, Bench, disk_id, leader, stored
from tests.core.scenarios import (
    campaign,
    commit,
    consume,
    fetch,
    fetched,
    follow,
    follower_bench,
    leader_bench,
    produce,
    reply_of,
)

OLDER, EQUAL, NEWER = Epoch(5), Epoch(6), Epoch(7)


def consumer_fetch(epoch: Epoch | None) -> m.Request:
    return consume(0, current_leader_epoch=epoch)


def replica_fetch(epoch: Epoch | None) -> m.Request:
    return fetch(0, 0, 6 if epoch is None else epoch)


def epoch_end(epoch: Epoch | None) -> m.Request:
    return m.OffsetForLeaderEpochRequest(topic_partition=LOG, leader_epoch=Epoch(6), current_leader_epoch=epoch)


def list_offsets(epoch: Epoch | None) -> m.Request:
    return m.ListOffsetsRequest(topic_partition=LOG, latest=True, current_leader_epoch=epoch)


def write(epoch: Epoch | None) -> m.Request:
    return produce(acks=1, current_leader_epoch=epoch)


def role_of_epoch_six(role: str) -> Bench:
    if role == "follower":
        return follower_bench(leader_id=2, epoch=6)
    if role == "resigned":
        return Bench(quorum_state=stored(6, leader_id=0))
    if role == "unattached":
        return Bench(quorum_state=stored(6))
    if role == "candidate":
        bench = Bench(quorum_state=stored(5))
        campaign(bench)
        return bench
    bench = leader_bench()
    commit(bench, 1)
    return bench


@pytest.mark.parametrize("request_of", [consumer_fetch, replica_fetch, epoch_end, list_offsets, write])
@pytest.mark.parametrize("role", ["leader", "follower", "resigned", "unattached", "candidate"])
@pytest.mark.parametrize("epoch", [None, OLDER, EQUAL, NEWER])
def test_current_epoch_validation(request_of: Callable[[Epoch | None], m.Request], role: str, epoch: Epoch) -> None:
    """The epoch is checked before leadership: older is fenced, newer unknown, and only then does leading matter."""
    bench = role_of_epoch_six(role)
    assert (bench.role, bench.epoch) == (role, 6)
    expected = {OLDER: ErrorCode.FENCED_LEADER_EPOCH, NEWER: ErrorCode.UNKNOWN_LEADER_EPOCH}.get(
        epoch, ErrorCode.NONE if role == "leader" else ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    assert reply_of(bench, bench.call(request_of(epoch))).error is expected
    assert (bench.role, bench.epoch) == (role, 6), "who asks in a wrong epoch changes nothing"


def test_fetch_request_cluster_id_validation(bench: Bench) -> None:
    """Another cluster's fetch is refused before its epoch is looked at; of one that names none only a reader's."""
    assert fetched(bench, fetch(0, 0, 5, cluster_id="another")).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert fetched(bench, consume(0, cluster_id="another")).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert fetched(bench, fetch(-1, 0, 6, cluster_id="another")).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert fetched(bench, fetch(0, 0, 6, cluster_id=None)).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert fetched(bench, consume(0, cluster_id=None)).error is ErrorCode.NONE


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(fetch(-1, 0, 6), id="negative_offset"),
        pytest.param(fetch(0, -1, 6), id="negative_last_fetched_epoch"),
        pytest.param(fetch(0, 7, 6), id="last_fetched_epoch_above_current"),
        pytest.param(fetch(0, 0, 6, wait_ms=-1), id="negative_wait"),
        pytest.param(fetch(0, 0, 6, max_bytes=0), id="no_bytes"),
        pytest.param(fetch(0, 0, 6, current_leader_epoch=None), id="replica_without_epoch"),
        pytest.param(fetch(0, 0, 6, last_fetched_epoch=None), id="replica_without_last_fetched_epoch"),
        pytest.param(fetch(0, 0, 6, replica=0), id="in_the_leaders_own_name"),
    ],
)
def test_invalid_fetch_request(bench: Bench, request_: m.Request) -> None:
    """A fetch that cannot be meant is refused and counts for nothing."""
    assert fetched(bench, request_).error is ErrorCode.INVALID_REQUEST
    assert bench.high_watermark is None


def test_quorum_log_is_fetched_alone(bench: Bench) -> None:
    """A fetch of a quorum log and of another with it is refused as a whole, and acknowledges nothing."""
    alone = fetch(2, 6, 6)
    assert isinstance(alone, m.FetchRequest)
    other = replace(alone.partitions[0], topic_partition=TopicPartition("other", 0))
    response = bench.answer(replace(alone, partitions=(*alone.partitions, other)))
    assert response == m.FetchResponse(error=ErrorCode.INVALID_REQUEST)
    assert bench.high_watermark is None


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        pytest.param(
            m.ListOffsetsRequest(topic_partition=LOG, timestamp_ms=0),
            ErrorCode.INVALID_REQUEST,
            id="first_since_a_time",
        ),
        pytest.param(
            m.DeleteRecordsRequest(topic_partition=LOG, offset=Offset(0), timeout_ms=1000),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            id="delete_records",
        ),
    ],
)
def test_what_only_partitions_can_do_is_refused(bench: Bench, request_: m.Request, error: ErrorCode) -> None:
    """A quorum log is not searched by time, and its beginning is nobody's to delete."""
    commit(bench, 1)
    assert reply_of(bench, bench.call(request_)).error is error


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_not_leader_says_who_leads(role: str) -> None:
    """Whoever is asked says who leads and in which epoch, as far as it knows."""
    bench = role_of_epoch_six(role)
    response = fetched(bench, fetch(0, 0, 5))
    assert response.current_leader == leader(0 if role == "leader" else 2, 6)


def test_replica_fetch_to_follower() -> None:
    """A follower serves no fetch, neither a replica's nor a consumer's."""
    bench = follower_bench(leader_id=2)
    for request in (fetch(0, 0, 5), consume(0)):
        assert fetched(bench, request).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    "request_", [fetch(3, 6, 5), fetch(3, 6, 7), fetch(3, 5, 6), fetch(9, 6, 6), fetch(3, 6, 6, cluster_id="another")]
)
def test_follower_state_not_updated_if_fetch_is_refused(request_: m.Request) -> None:
    """A fenced, foreign or diverged follower acknowledges nothing: neither its offset nor its life is noted."""
    bench = leader_bench()
    bench.call(produce(acks=1))
    bench.flush_all()
    bench.elapse(10)
    bench.call(request_)
    described = bench.answered(m.DescribeQuorumRequest(topic_partition=LOG), m.DescribeQuorumResponse)
    assert described.current_voters[1] == m.QuorumReplicaState(
        replica_id=ReplicaId(1), directory_id=disk_id(1), address="replica-1:9092", log_end_offset=None
    )
    assert bench.high_watermark is None


def test_diverging_answer_has_the_high_watermark_and_no_records() -> None:
    """A diverged replica is told where the logs part, and like everybody how far the leader has committed."""
    bench = leader_bench(log=[(1, 3), (3, 2)], quorum_state=stored(5))
    commit(bench, 2)
    response = fetched(bench, fetch(4, 2, 6))
    assert response.error is ErrorCode.NONE
    assert response.diverging_epoch == EpochEndOffset(Epoch(1), Offset(3))
    assert (response.records, response.high_watermark) == (b"", 6)


def test_fetch_beyond_the_log_end_is_divergence_for_a_replica_and_out_of_range_for_a_consumer(bench: Bench) -> None:
    """A replica with more than its leader is told where to cut; a consumer's position is merely wrong."""
    assert fetched(bench, fetch(6, 6, 6)).diverging_epoch == EpochEndOffset(Epoch(6), Offset(2))
    assert fetched(bench, consume(6)).error is ErrorCode.OFFSET_OUT_OF_RANGE
    with_epoch = consume(6, last_fetched_epoch=Epoch(6))
    assert fetched(bench, with_epoch).diverging_epoch == EpochEndOffset(Epoch(6), Offset(2))


def test_fetch_at_the_exact_end_of_its_epoch_has_not_diverged() -> None:
    """A replica that stands where its epoch ends here is a prefix: it gets the next epoch's records."""
    bench = leader_bench(log=[(1, 3), (3, 2)])
    response = fetched(bench, fetch(3, 1, 6))
    assert response.diverging_epoch is None
    assert response.records == b"".join(batch.data for batch in bench.disk.batches[3:])


def test_diverged_fetch_is_answered_at_once(bench: Bench) -> None:
    """Divergence is not waited for: the follower has work to do."""
    assert fetched(bench, fetch(6, 6, 6, wait_ms=500)).diverging_epoch is not None


# --- OffsetForLeaderEpoch -------------------------------------------------------------------------------------------


def epoch_ends(bench: Bench, *epochs: int) -> list[tuple[int, int] | None]:
    answers: list[tuple[int, int] | None] = []
    for epoch in epochs:
        response = bench.answered(
            m.OffsetForLeaderEpochRequest(topic_partition=LOG, leader_epoch=Epoch(epoch)),
            m.OffsetForLeaderEpochResponse,
        )
        assert response.error is ErrorCode.NONE
        answers.append(None if response.answer is None else (response.answer.epoch, response.answer.end_offset))
    return answers


def test_should_send_leader_epoch_request_and_get_a_response() -> None:
    """The leader answers for every epoch of its log; an epoch above them all is undefined, without an error."""
    bench = leader_bench(log=[(1, 3), (3, 2)])
    assert epoch_ends(bench, 0, 1, 2, 3, 6, 7) == [(0, 0), (1, 3), (1, 3), (3, 5), (6, 6), None]


def test_offset_for_leader_epoch_at_a_follower() -> None:
    """A follower answers no such question, it refers to its leader."""
    bench = follower_bench(leader_id=2, log=[(1, 3)])
    response = bench.answered(
        m.OffsetForLeaderEpochRequest(topic_partition=LOG, leader_epoch=Epoch(1)), m.OffsetForLeaderEpochResponse
    )
    assert (response.error, response.answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    assert response.current_leader == leader(2, 5)


# --- parked, then fenced --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [fetch(2, 6, 6, wait_ms=500), consume(2, max_wait_ms=500)])
def test_parked_fetch_and_epoch_bump(bench: Bench, request_: m.Request) -> None:
    """A fetch that waits when the epoch moves on is answered at once with who leads now, and only once."""
    call_id = bench.call(request_)
    follow(bench, 2, 7)
    response = reply_of(bench, call_id)
    assert (response.error, response.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader(2, 7))
    bench.elapse(1000)


def test_fenced_error_caused_by_become_leader() -> None:
    """After a bump, whoever still fetches in the old epoch is fenced, leader or not."""
    bench = leader_bench()
    follow(bench, 2, 7)
    assert fetched(bench, fetch(2, 6, 6)).error is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("offset", "error"), [(0, ErrorCode.NONE), (3, ErrorCode.NONE), (4, ErrorCode.OFFSET_OUT_OF_RANGE)]
)
def test_dump_log_is_answered_by_anyone(offset: int, error: ErrorCode) -> None:
    """Any replica hands out its own records to its log's end, whoever leads."""
    bench = follower_bench(leader_id=2, log=[(1, 3)])
    response = bench.answered(
        m.DumpLogRequest(topic_partition=LOG, offset=Offset(offset), max_bytes=1 << 20), m.DumpLogResponse
    )
    assert response.error is error
    assert (response.records != b"") == (offset == 0)


def test_dump_log_of_no_bytes_is_refused() -> None:
    """A dump that asks for nothing would never end."""
    response = follower_bench().answered(
        m.DumpLogRequest(topic_partition=LOG, offset=Offset(0), max_bytes=0), m.DumpLogResponse
    )
    assert response.error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("role", ["leader", "follower", "resigned", "unattached", "candidate"])
def test_describe_replica_is_answered_in_every_role(role: str) -> None:
    """Any replica describes itself, leading or not."""
    bench = role_of_epoch_six(role)
    response = bench.answered(m.DescribeReplicaRequest(topic_partition=LOG), m.DescribeReplicaResponse)
    assert (response.role, response.replica_id, response.log_end_offset) == (role, 0, bench.disk.end)
    assert response.leader == leader({"leader": 0, "follower": 2}.get(role), 6)
