"""The client over a scripted transport: retries, deadlines, and what it claims about a write."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any

import pytest

from replica.client import (
    NotWrittenError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    ReadFailedError,
    ReplicaClient,
)
from replica.core.messages import (
    CurrentLeader,
    DescribeReplicaRequest,
    DescribeReplicaResponse,
    DumpLogRequest,
    DumpLogResponse,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
    Request,
)
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEntry, Offset, ReplicaId, TopicPartition
from replica.records import RecordBatch, decode_records, encode_batch, parse_batches
from replica.server.transport import NotAppliedError, TransportError
from tests.client.scripted_transport import Answer, Script, ScriptedTransport

ONE, TWO, THREE = ReplicaId(1), ReplicaId(2), ReplicaId(3)
ADDRESSES = {ONE: "a:1", TWO: "b:1", THREE: "c:1"}
LEADER_IS_THREE = CurrentLeader(leader_id=THREE, leader_epoch=Epoch(5))
WRITTEN = ProduceResponse(error=ErrorCode.NONE, base_offset=Offset(4), leader_epoch=Epoch(5))
NOT_LEADER = ProduceResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=True)
NEVER_SENT = NotAppliedError("refuses connections")


def client_of(script: Script) -> tuple[ReplicaClient, ScriptedTransport]:
    transport = ScriptedTransport(script)
    client = ReplicaClient(ADDRESSES, transport=transport, request_timeout_ms=2000, retry_backoff_ms=1, cluster_id="c")
    return client, transport


def one_after_another(*answers: Answer) -> Script:
    """Give these answers in turn, the last one for ever."""
    script = chain(answers, repeat(answers[-1]))
    return lambda _, __: next(script)


def fetch_answer(**fields: Any) -> FetchResponse:
    """Answer a Fetch of the client's one log."""
    return FetchResponse(partitions=(FetchedPartition(topic_partition=TopicPartition("log", 0), **fields),))


def batch(base_offset: int, *values: bytes, is_control: bool = False) -> RecordBatch:
    return encode_batch(values, base_offset=base_offset, leader_epoch=5, is_control=is_control)


async def test_a_write_follows_the_hint_to_the_leader() -> None:
    """A refusal that names the leader leads to it at once, and the next write begins there."""

    def script(asked: ReplicaId, request: Request) -> Answer:
        if asked == THREE:
            return WRITTEN
        return ProduceResponse(
            error=ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=True, current_leader=LEADER_IS_THREE
        )

    client, transport = client_of(script)
    produced = await client.produce([b"a", b"b"])
    assert (produced.base_offset, produced.leader_epoch, produced.leader_id) == (4, 5, THREE)
    await client.produce([b"c"])
    assert transport.asked == [ONE, THREE, THREE]
    sent = transport.requests[0]
    assert isinstance(sent, ProduceRequest)
    assert (sent.acks, sent.cluster_id) == (-1, "c")
    assert [record.value for record in decode_records(*parse_batches(sent.records))] == [b"a", b"b"]


async def test_a_write_is_repeated_while_every_attempt_certainly_failed() -> None:
    """Attempts that were never sent, or refused before the append, are repeated on the next replica."""
    client, transport = client_of(one_after_another(NEVER_SENT, NOT_LEADER, NEVER_SENT, WRITTEN))
    assert (await client.produce([b"a"])).leader_id == ONE
    assert transport.asked == [ONE, TWO, THREE, ONE]


@pytest.mark.parametrize(
    "doubtful",
    [
        TransportError("DEADLINE_EXCEEDED"),
        ProduceResponse(error=ErrorCode.REQUEST_TIMED_OUT),
        ProduceResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, not_appended=False),
    ],
)
async def test_a_write_in_doubt_is_never_repeated(doubtful: Answer) -> None:
    """The first attempt that may have been applied ends the call as unknown, with its cause."""
    client, transport = client_of(one_after_another(NEVER_SENT, doubtful, WRITTEN))
    with pytest.raises(OutcomeUnknownError) as unknown:
        await client.produce([b"a"])
    assert len(transport.asked) == 2
    assert unknown.value.__cause__ is (doubtful if isinstance(doubtful, TransportError) else None)


async def test_a_write_that_nobody_takes_is_not_written() -> None:
    """When every attempt until the deadline certainly failed, the write is definitely not in the log."""
    client, transport = client_of(one_after_another(NEVER_SENT))
    with pytest.raises(NotWrittenError, match=r"within 50 ms: replica .: refuses connections"):
        await client.produce([b"a"], timeout_ms=50)
    assert set(transport.asked) == set(ADDRESSES)


async def test_a_write_that_can_never_be_taken_is_not_repeated() -> None:
    """A refusal that no other replica and no later moment would lift is final."""
    client, transport = client_of(one_after_another(ProduceResponse(error=ErrorCode.MESSAGE_TOO_LARGE)))
    with pytest.raises(NotWrittenError, match="MESSAGE_TOO_LARGE"):
        await client.produce([b"a"])
    assert len(transport.asked) == 1


async def test_a_fetch_skips_what_is_not_for_consumers() -> None:
    """Records below the asked offset and the protocol's own batches are left out, and next_offset passes them."""
    records = batch(3, b"a", b"b", b"c").data + batch(6, b"x", is_control=True).data
    answer = fetch_answer(error=ErrorCode.NONE, high_watermark=Offset(7), records=records)
    client, _ = client_of(one_after_another(answer))
    fetched = await client.fetch(4, max_wait_ms=0)
    assert [(record.offset, record.value) for record in fetched.records] == [(4, b"b"), (5, b"c")]
    assert (fetched.next_offset, fetched.high_watermark, fetched.leader_id) == (7, 7, ONE)


async def test_an_empty_fetch_stays_where_it_is() -> None:
    """Nothing new leaves next_offset at the asked offset."""
    client, _ = client_of(one_after_another(fetch_answer(error=ErrorCode.NONE)))
    assert (await client.fetch(4, max_wait_ms=0)).next_offset == 4


async def test_a_read_is_repeated_after_any_passing_failure() -> None:
    """Reading twice does no harm: even a call that may have been carried out is repeated."""
    client, transport = client_of(
        one_after_another(
            TransportError("DEADLINE_EXCEEDED"),
            ListOffsetsResponse(error=ErrorCode.OFFSET_NOT_AVAILABLE),
            ListOffsetsResponse(error=ErrorCode.NONE, offset=Offset(9)),
        )
    )
    assert (await client.list_offsets(latest=True)).offset == 9
    assert len(transport.asked) == 3


async def test_a_read_that_never_succeeds_says_why() -> None:
    """At its deadline a read fails with the last error that it met."""
    client, _ = client_of(one_after_another(fetch_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    with pytest.raises(ReadFailedError, match="NOT_LEADER_OR_FOLLOWER") as failed:
        await client.fetch(0, max_wait_ms=0, timeout_ms=30)
    assert failed.value.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_fetch_that_is_refused_as_a_whole_is_a_failed_read() -> None:
    """An error of the whole request is one of the log: it is named, and not taken for an answer without records."""
    client, transport = client_of(one_after_another(FetchResponse(error=ErrorCode.INCONSISTENT_CLUSTER_ID)))
    with pytest.raises(ReadFailedError, match="INCONSISTENT_CLUSTER_ID"):
        await client.fetch(0)
    assert len(transport.asked) == 1


async def test_a_fetch_follows_the_hint_to_the_leader() -> None:
    """The leader that a refused fetch names for the log is asked next, at once."""
    refused = fetch_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LEADER_IS_THREE)
    client, transport = client_of(one_after_another(refused, fetch_answer(error=ErrorCode.NONE)))
    assert (await client.fetch(0, max_wait_ms=0)).leader_id == THREE
    assert transport.asked == [ONE, THREE]


async def test_an_offset_out_of_range_is_an_error_of_its_own() -> None:
    """A fetch outside the log fails at once with the log's bounds."""
    answer = fetch_answer(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=Offset(0), high_watermark=Offset(3))
    client, transport = client_of(one_after_another(answer))
    with pytest.raises(OffsetOutOfRangeError, match="offset 99"):
        await client.fetch(99)
    assert len(transport.asked) == 1


async def test_damaged_batches_are_a_failed_read() -> None:
    """Batches whose CRC is wrong are refused with the sender's id, never handed on."""
    good = batch(0, b"a").data
    answer = fetch_answer(error=ErrorCode.NONE, records=good[:-1] + bytes([good[-1] ^ 1]))
    client, _ = client_of(one_after_another(answer))
    with pytest.raises(ReadFailedError, match="replica 1 sent damaged batches"):
        await client.fetch(0, max_wait_ms=0)


def dumping(batches: list[RecordBatch], end: int) -> Script:
    """A replica whose log holds these batches and claims to end at ``end``."""

    def script(_: ReplicaId, request: Request) -> Answer:
        if isinstance(request, DescribeReplicaRequest):
            epochs = (EpochEntry(Epoch(5), Offset(0)),)
            return DescribeReplicaResponse(error=ErrorCode.NONE, log_start_offset=Offset(0), epochs=epochs)
        assert isinstance(request, DumpLogRequest)
        found = next((held for held in batches if held.base_offset == request.offset), None)
        return DumpLogResponse(
            error=ErrorCode.NONE,
            records=b"" if found is None else found.data,
            log_end_offset=Offset(end),
            high_watermark=Offset(2),
        )

    return script


async def test_a_dump_reads_to_the_end() -> None:
    """A dump holds every batch, control batches included, with epochs and high watermark, and asks only its replica."""
    batches = [batch(0, b"x", is_control=True), batch(1, b"a", b"b")]
    client, transport = client_of(dumping(batches, 3))
    dump = await client.dump_log(TWO)
    assert dump.batches == tuple(batches)
    assert (dump.log_end_offset, dump.high_watermark, dump.epochs) == (3, 2, (EpochEntry(Epoch(5), Offset(0)),))
    assert dump.complete
    assert set(transport.asked) == {TWO}


async def test_a_dump_that_misses_the_end_says_so() -> None:
    """A dump that stops short of the log's end is not complete."""
    client, _ = client_of(dumping([batch(0, b"a")], 3))
    assert not (await client.dump_log(TWO)).complete


async def test_one_replicas_error_is_a_failed_read() -> None:
    """A question to one replica is not repeated elsewhere; its error is named."""
    answer = DescribeReplicaResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    client, transport = client_of(one_after_another(answer))
    with pytest.raises(ReadFailedError, match="replica 2 answered UNKNOWN_TOPIC_OR_PARTITION"):
        await client.describe_replica(TWO)
    assert transport.asked == [TWO]


async def test_closing_gives_the_connections_back() -> None:
    """Leaving the client's context closes its transport."""
    client, transport = client_of(one_after_another(fetch_answer(error=ErrorCode.NONE)))
    async with client:
        sent = await client.fetch(0, max_wait_ms=0)
        assert sent.records == ()
    assert transport.is_closed
    assert isinstance(transport.requests[0], FetchRequest)
