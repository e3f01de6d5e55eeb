"""How the logs of one answer share its bytes, and how each answer takes its records."""

from __future__ import annotations

import pytest

from replica.core.effects import LogRange, ReplyWithRecords
from replica.core.messages import DumpLogResponse, FetchedPartition, FetchResponse
from replica.core.reading import read_ranges
from replica.errors import ErrorCode
from replica.ids import CallId, Offset, TopicPartition

BATCHES = {"a": (b"aaaa", b"aaaa"), "b": (b"bbbbbbbb",), "c": (b"cc", b"cc")}
"""Each log from offset 0 to 9, batch by batch."""


def log(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


def read(topic_partition: TopicPartition, start_offset: Offset, end_offset: Offset, max_bytes: int) -> bytes:
    """Read as storage does: at least one batch, more within the limit."""
    assert (start_offset, end_offset) == (0, 9)
    first, *others = BATCHES[topic_partition.topic]
    for batch in others:
        if len(first) + len(batch) <= max_bytes:
            first += batch
    return first


def reply(ranges: tuple[tuple[str, int], ...], max_bytes: int) -> ReplyWithRecords:
    """Answer with these logs, each with the limit of its own share."""
    wanted = tuple(
        LogRange(topic_partition=log(topic), start_offset=Offset(0), end_offset=Offset(9), max_bytes=share)
        for topic, share in ranges
    )
    return ReplyWithRecords(call_id=CallId(1), response=FetchResponse(), ranges=wanted, max_bytes=max_bytes)


@pytest.mark.parametrize(
    ("ranges", "max_bytes", "expected"),
    [
        pytest.param((("a", 99), ("b", 99), ("c", 99)), 99, {"a": 8, "b": 8, "c": 4}, id="room_for_all"),
        pytest.param((("a", 5), ("c", 3)), 99, {"a": 4, "c": 2}, id="each_within_its_share"),
        pytest.param((("a", 99), ("c", 99)), 10, {"a": 8, "c": 2}, id="all_within_the_sum"),
        pytest.param((("b", 99), ("a", 99)), 8, {"b": 8}, id="nothing_left_for_the_second"),
        pytest.param((("b", 1), ("a", 1)), 1, {"b": 8}, id="first_batch_whatever_its_size"),
        pytest.param((("a", 99), ("b", 99), ("c", 99)), 12, {"a": 8, "c": 4}, id="one_that_does_not_fit_is_left_out"),
        pytest.param((), 99, {}, id="nothing_asked"),
    ],
)
def test_logs_share_the_bytes_of_an_answer(
    ranges: tuple[tuple[str, int], ...], max_bytes: int, expected: dict[str, int]
) -> None:
    """The sum is kept by all logs but the first, whose first batch is always read (KIP-74)."""
    records = read_ranges(reply(ranges, max_bytes), read)
    assert {part.topic: len(data) for part, data in records.items() if data is not None} == expected


def test_each_log_gets_its_records() -> None:
    """Records go to the log that they are of; a log that nothing was read for keeps its empty answer."""
    parts = tuple(FetchedPartition(topic_partition=log(topic), error=ErrorCode.NONE) for topic in "abc")
    answered = FetchResponse(partitions=parts).with_records({log("c"): b"cc", log("a"): b"aa"})
    assert [part.records for part in answered.partitions] == [b"aa", b"", b"cc"]
    assert DumpLogResponse(error=ErrorCode.NONE).with_records({log("a"): b"aa"}).records == b"aa"


def test_an_error_of_the_request_is_one_of_each_log() -> None:
    """Whoever asked for one log reads its outcome in one place; a log that the answer leaves out has no outcome."""
    refused = FetchResponse(error=ErrorCode.INCONSISTENT_CLUSTER_ID)
    part = FetchedPartition(topic_partition=log("a"), error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answered = FetchResponse(partitions=(part,))
    assert refused.answer_for(log("a")).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert answered.answer_for(log("a")) is part
    assert answered.answer_for(log("b")).error is ErrorCode.UNKNOWN_SERVER_ERROR
