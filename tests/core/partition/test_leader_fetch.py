"""Serving fetches: who is turned away, what counts as an acknowledgement, and what a reader may see."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.log.serving import Read
from replica.core.partition.roles import Leader, RemoteReplica
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, EpochEntry, Offset, ReplicaId, TopicId
from tests.core.harness import records_of
from tests.core.partition.bench import LOG, TOPIC_ID, PartitionBench, broker, registration


def leading(
    *log: tuple[int, int], log_start: int = 0, high_watermark: int = 0, rules: Rules | None = None
) -> PartitionBench:
    """Let broker 1 lead epoch 5 with this log."""
    bench = PartitionBench(log=log, log_start=log_start, high_watermark=high_watermark, rules=rules)
    bench.metadata(registration(1, 5))
    return bench


def following(*log: tuple[int, int], high_watermark: int = 0) -> PartitionBench:
    """Let broker 1 follow broker 2 in epoch 5 with this log."""
    bench = PartitionBench(log=log, high_watermark=high_watermark)
    bench.metadata(registration(2, 5))
    return bench


def known(bench: PartitionBench, replica_id: int = 2) -> RemoteReplica:
    """What the leader knows of another replica."""
    role = bench.partition.role
    assert isinstance(role, Leader)
    return role.remotes[ReplicaId(replica_id)]


def consumer(offset: int, *, epoch: int | None = None) -> m.FetchPartition:
    """Write what a consumer asks for."""
    known_epoch = None if epoch is None else Epoch(epoch)
    return m.FetchPartition(topic_partition=LOG, fetch_offset=Offset(offset), current_leader_epoch=known_epoch)


def at(epoch: int | None) -> Epoch | None:
    return None if epoch is None else Epoch(epoch)


# --- who is turned away -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "on_leader", "on_follower"),
    [
        (None, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (4, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_leader_epoch_validation(epoch: int | None, on_leader: ErrorCode, on_follower: ErrorCode) -> None:
    """All four requests check the epoch before the leadership, in the same way on every replica."""
    requests: list[m.LogRequest] = [
        m.OffsetForLeaderEpochRequest(topic_partition=LOG, leader_epoch=Epoch(4), current_leader_epoch=at(epoch)),
        m.ListOffsetsRequest(topic_partition=LOG, current_leader_epoch=at(epoch)),
        m.ListOffsetsRequest(topic_partition=LOG, latest=True, replica_id=ReplicaId(2), current_leader_epoch=at(epoch)),
    ]
    for bench, expected in ((leading((4, 2)), on_leader), (following((4, 2)), on_follower)):
        for request in requests:
            response = bench.answer(request)
            assert isinstance(response, m.OffsetForLeaderEpochResponse | m.ListOffsetsResponse)
            assert response.error is expected, request


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (None, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_consumer_fetch_epoch_validation(epoch: int | None, expected: ErrorCode) -> None:
    """A consumer may ask any replica, in its epoch or without one."""
    for bench in (leading((4, 2)), following((4, 2))):
        assert bench.fetch(None, consumer(0, epoch=epoch)).answer.error is expected


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_replica_fetch_to_follower(epoch: int, expected: ErrorCode) -> None:
    """Only a leader serves replicas; one that asks in another epoch learns of that first."""
    bench = following((4, 2))
    read = bench.fetch(3, bench.ask(2, epoch=epoch))
    assert (read.answer.error, read.is_final, read.range) == (expected, True, None)
    assert read.answer.current_leader == m.CurrentLeader(leader_id=ReplicaId(2), leader_epoch=Epoch(5))


def test_nobody_reads_before_metadata() -> None:
    """A replica that knows nothing of any leadership serves nobody."""
    bench = PartitionBench(log=[(4, 2)])
    assert bench.fetch(None, consumer(0)).answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fetch_from_unrecognized_follower() -> None:
    """A replica that is not assigned may know more than the leader, if it knows an epoch; assigned, it is served."""
    bench = leading((4, 2))
    asked = bench.ask(2)
    assert bench.fetch(4, asked).answer.error is ErrorCode.UNKNOWN_LEADER_EPOCH
    unsaid = replace(asked, current_leader_epoch=None)
    assert bench.fetch(4, unsaid).answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.metadata(registration(1, 5, partition_epoch=501, replicas=(1, 2, 3, 4), isr=(1, 2, 3)))
    assert bench.fetch(4, asked).answer.error is ErrorCode.NONE


@pytest.mark.parametrize("missing", ["current_leader_epoch", "last_fetched_epoch"])
def test_epochs_are_mandatory_for_replicas(missing: str) -> None:
    """Without its epochs a replica's fetch could be neither fenced nor compared."""
    bench = leading((4, 2))
    asked = bench.ask(2)
    asked = (
        replace(asked, last_fetched_epoch=None)
        if missing == "last_fetched_epoch"
        else replace(asked, current_leader_epoch=None)
    )
    assert bench.fetch(2, asked).answer.error is ErrorCode.INVALID_REQUEST
    assert known(bench).log_end_offset is None


def test_empty_log_has_no_last_epoch() -> None:
    """A follower with nothing in its log has no epoch to name, and nothing that could differ."""
    bench = leading((4, 2))
    read = bench.fetch(2, replace(bench.ask(0), last_fetched_epoch=None))
    assert (read.answer.error, known(bench).log_end_offset) == (ErrorCode.NONE, 0)


def test_fetch_messages_with_inconsistent_topic_id() -> None:
    """A topic of the same name is another topic; without an id the name is enough."""
    bench = leading((4, 2))
    asked = bench.ask(2)
    other = bench.fetch(2, replace(asked, topic_id=TopicId(TOPIC_ID + 1)))
    assert other.answer.error is ErrorCode.INCONSISTENT_TOPIC_ID
    assert bench.fetch(2, replace(asked, topic_id=TOPIC_ID)).answer.error is ErrorCode.NONE


@pytest.mark.parametrize("told_by", ["metadata", "fetch"])
def test_fence_follower_fetch_with_stale_broker_epoch(told_by: str) -> None:
    """A fetch that an earlier incarnation sent acknowledges nothing, once a later one has been heard of."""
    bench = leading((4, 4))
    if told_by == "fetch":
        bench.fetch(2, 1, broker_epoch=21)
    else:
        bench.fetch(2, 1)
        bench.metadata(registration(1, 5), changed=[broker(2, epoch=21)])
    before = known(bench)
    read = bench.fetch(2, 4, broker_epoch=20)
    assert (read.answer.error, known(bench)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, before)


def test_fenced_error_caused_by_become_leader() -> None:
    """A fetch that waits when a new epoch begins is answered with that, and does not count in it."""
    bench = leading((4, 4))
    asked = bench.ask(4)
    assert bench.fetch(2, asked).answer.error is ErrorCode.NONE
    bench.metadata(registration(1, 6))
    assert (
        bench.partition.look(asked, replica_id=ReplicaId(2), rack_id=None).answer.error is ErrorCode.FENCED_LEADER_EPOCH
    )
    assert bench.fetch(2, asked).answer.error is ErrorCode.FENCED_LEADER_EPOCH


# --- what is an acknowledgement ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "epoch", "last"),
    [
        pytest.param(6, 4, 4, id="fenced"),
        pytest.param(6, 6, 4, id="unknown_epoch"),
        pytest.param(1, 5, 4, id="below_log_start"),
        pytest.param(6, 5, 9, id="undefined_epoch"),
        pytest.param(6, 5, 3, id="diverged"),
    ],
)
def test_follower_state_not_updated_if_log_read_fails(offset: int, epoch: int, last: int) -> None:
    """Only a fetch that is served counts as an acknowledgement."""
    bench = leading((4, 4), log_start=2, high_watermark=2)
    before = known(bench)
    bench.fetch(2, bench.ask(offset, epoch=epoch, last=last))
    assert known(bench) == before
    bench.fetch(2, 6)
    assert known(bench).log_end_offset == 6


def test_diverging_epoch() -> None:
    """A replica whose log has left this one is told where, gets no records and acknowledges nothing."""
    bench = leading((1, 2), (4, 3))
    read = bench.fetch(2, bench.ask(4, last=2))
    assert read.answer.diverging_epoch == EpochEndOffset(Epoch(1), Offset(2))
    assert (read.is_final, read.range, known(bench).log_end_offset) == (True, None, None)


@pytest.mark.parametrize(
    ("offset", "last", "expected"),
    [
        pytest.param(2, 1, None, id="ends_where_its_epoch_ends"),
        pytest.param(3, 1, (1, 2), id="one_too_long"),
        pytest.param(5, 4, None, id="at_the_end"),
        pytest.param(6, 4, (4, 5), id="beyond_the_end"),
        pytest.param(2, 3, (1, 2), id="an_epoch_in_between"),
        pytest.param(2, 0, (0, 0), id="an_epoch_below_all"),
    ],
)
def test_divergence_check(offset: int, last: int, expected: tuple[int, int] | None) -> None:
    """A log is a prefix of the leader's iff its last epoch is the leader's and does not end later than there."""
    bench = leading((1, 2), (4, 3))
    read = bench.fetch(None, replace(bench.ask(offset), last_fetched_epoch=Epoch(last)))
    found = read.answer.diverging_epoch
    assert (None if found is None else (found.epoch, found.end_offset)) == expected


@pytest.mark.parametrize(
    ("last", "log_start", "acknowledged"),
    [
        pytest.param(3, 5, None, id="others_than_were_there_perhaps"),
        pytest.param(3, 7, 7, id="none"),
        pytest.param(4, 5, 7, id="those_of_an_epoch_that_is_known"),
    ],
)
def test_records_below_the_log_start_acknowledge_nothing(last: int, log_start: int, acknowledged: int | None) -> None:
    """Nobody can tell whether they are those that were committed, so whoever has them is told where the log begins."""
    bench = leading((4, 2), log_start=7, high_watermark=9)
    read = bench.fetch(2, replace(bench.ask(7, last=last), log_start_offset=Offset(log_start)))
    assert (read.answer.error, read.answer.diverging_epoch) == (ErrorCode.NONE, None)
    assert (read.answer.log_start_offset, known(bench).log_end_offset) == (7, acknowledged)


def test_whoever_has_records_below_the_log_start_is_told_at_once() -> None:
    """It need not wait for records until it hears that it is to forget its own."""
    bench = leading(log_start=7, high_watermark=7)
    reads = [bench.fetch(2, replace(bench.ask(7, last=3), log_start_offset=Offset(start))) for start in (5, 7)]
    assert [read.is_final for read in reads] == [True, False]


def test_empty_epoch_is_compared() -> None:
    """A new leader's epoch is in its cache before anything is written, so that an older one ends before it."""
    bench = leading((1, 2), (4, 3))
    assert bench.partition.log.epochs.latest == EpochEntry(Epoch(5), Offset(5))
    read = bench.fetch(2, bench.ask(7, last=4))
    assert read.answer.diverging_epoch == EpochEndOffset(Epoch(4), Offset(5))


def test_out_of_range_before_divergence() -> None:
    """A follower behind the log's start has to begin anew; where the logs part does not help it (KAFKA-12996)."""
    bench = leading((2, 2), (4, 2), log_start=10, high_watermark=10)
    assert bench.fetch(2, bench.ask(13, last=3)).answer.diverging_epoch == EpochEndOffset(Epoch(2), Offset(12))
    read = bench.fetch(2, bench.ask(7, last=3))
    assert (read.answer.error, read.answer.diverging_epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


def test_undefined_epoch_is_out_of_range() -> None:
    """An epoch above all that the leader knows ends nowhere."""
    bench = leading((4, 4))
    assert bench.fetch(2, bench.ask(4, last=9)).answer.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_answer_carries_the_high_watermark_that_the_fetch_moved() -> None:
    """The fetch counts before it is answered, and an asker that knows less is answered at once (KIP-1166)."""
    bench = leading((4, 4))
    bench.fetch(3, 4)
    told = bench.fetch(2, replace(bench.ask(4), high_watermark=Offset(0)))
    assert (told.answer.high_watermark, told.is_final) == (4, True)
    known_already = bench.fetch(2, replace(bench.ask(4), high_watermark=Offset(4)))
    assert (known_already.is_final, known_already.bytes) == (False, 0)
    assert not bench.fetch(2, bench.ask(4)).is_final, "whoever does not say what it knows waits for records"
    may_wait = bench.fetch(2, replace(bench.ask(4), high_watermark=Offset(0), high_watermark_may_wait=True))
    assert (may_wait.answer.high_watermark, may_wait.is_final) == (4, False), "who lets it wait is not woken for it"


def test_looking_again_changes_nothing() -> None:
    """A fetch that waits does not count twice: neither offset nor time of its sender move."""
    bench = leading((4, 4))
    asked = bench.ask(4)
    bench.fetch(2, asked)
    before = bench.partition.role
    bench.elapse(100)
    bench.fill(1)
    read = bench.partition.look(asked, replica_id=ReplicaId(2), rack_id=None)
    assert (read.bytes > 0, bench.partition.role) == (True, before)


# --- what may be read -------------------------------------------------------------------------------------------------


def span(read: Read) -> tuple[int, int] | None:
    """What an answer says is to be read."""
    return None if read.range is None else (read.range.start_offset, read.range.end_offset)


def test_fetch_beyond_high_watermark() -> None:
    """A replica reads to the log's end; a consumer to the high watermark, and above it nothing, without an error."""
    bench = leading((4, 10), high_watermark=5)
    assert span(bench.fetch(2, 0)) == (0, 10)
    assert span(bench.fetch(None, consumer(0))) == (0, 5)
    for offset in (5, 7, 10):
        read = bench.fetch(None, consumer(offset))
        assert (read.answer.error, span(read), read.bytes, read.is_final) == (ErrorCode.NONE, None, 0, False)


def test_consumer_reads_from_follower() -> None:
    """A follower serves consumers up to its own high watermark (KIP-392)."""
    bench = following((4, 10), high_watermark=5)
    read = bench.fetch(None, consumer(3, epoch=5))
    assert (span(read), read.answer.high_watermark) == ((3, 5), 5)
    assert bench.records(read) == records_of(bench.disk.batches[3:5])


@pytest.mark.parametrize("offset", [-1, 1, 7])
def test_offset_out_of_range(offset: int) -> None:
    """Below the log's start and above its end there is nothing to wait for."""
    bench = leading((4, 4), log_start=2, high_watermark=2)
    read = bench.fetch(None, consumer(offset))
    assert (read.answer.error, read.is_final) == (ErrorCode.OFFSET_OUT_OF_RANGE, True)


def test_bytes_are_those_of_the_range() -> None:
    """How much there is to read is counted to the bound of the reader."""
    bench = leading()
    bench.fill(3)
    sizes = [batch.size_bytes for batch in bench.disk.batches]
    assert bench.fetch(2, 1).bytes == sum(sizes[1:])
    bench.fetch(3, 2)
    bench.fetch(2, 2)
    assert bench.fetch(None, consumer(1)).bytes == sizes[1]
