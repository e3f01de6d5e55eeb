"""Deleting the oldest records: what may go, and who must have forgotten it before the leader says that it is gone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.config import BrokerConfig
from replica.errors import ErrorCode
from replica.ids import CallId, Offset
from tests.core.partition.bench import LOG, PartitionBench, broker, registration


def leading(*, log_start: int = 0, config: BrokerConfig | None = None) -> PartitionBench:
    """Let broker 1 lead epoch 5 with brokers 2 and 3, and a log of which everything below offset 3 is committed."""
    bench = PartitionBench(log=[(4, 4)], log_start=log_start, high_watermark=3, config=config or BrokerConfig())
    bench.metadata(registration(1, 5))
    return bench


def delete(bench: PartitionBench, offset: int, timeout_ms: int = 1000) -> CallId:
    """Ask to delete what lies below an offset."""
    return bench.call(m.DeleteRecordsRequest(topic_partition=LOG, offset=offset, timeout_ms=timeout_ms))


def begins_at(bench: PartitionBench, starts: Mapping[int, int]) -> None:
    """Let replicas fetch, and so say where their logs begin."""
    for replica_id, start in starts.items():
        bench.fetch(replica_id, replace(bench.ask(3), log_start_offset=Offset(start)))


def answer(bench: PartitionBench, call_id: CallId) -> tuple[ErrorCode, int | None] | None:
    """What a deletion was answered, if it was."""
    response = bench.replies.get(call_id)
    assert isinstance(response, m.DeleteRecordsResponse | None), response
    return None if response is None else (response.error, response.low_watermark)


@pytest.mark.parametrize(
    ("offset", "error", "start"),
    [
        (2, ErrorCode.NONE, 2),
        (3, ErrorCode.NONE, 3),
        (0, ErrorCode.NONE, 1),
        (4, ErrorCode.OFFSET_OUT_OF_RANGE, None),
        (m.HIGH_WATERMARK, ErrorCode.NONE, 3),
        (-2, ErrorCode.OFFSET_OUT_OF_RANGE, None),
    ],
)
def test_delete_records(offset: int, error: ErrorCode, start: int | None) -> None:
    """Up to the high watermark, by its offset or its name, and not beyond; what is gone already is gone."""
    bench = leading(log_start=1)
    begins_at(bench, {2: start or 1, 3: start or 1})
    assert answer(bench, delete(bench, offset)) == (error, start)
    assert bench.disk.start == (start or 1)
    assert bench.fetch(2, bench.ask(3)).answer.log_start_offset == bench.disk.start


def test_delete_records_needs_the_leader() -> None:
    """A follower forgets what its leader has forgotten, not what a client says."""
    bench = leading()
    bench.metadata(registration(2, 6))
    assert answer(bench, delete(bench, 2)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


@pytest.mark.parametrize(
    ("before", "after", "low_watermark"),
    [
        pytest.param({}, {2: 2, 3: 2}, 2, id="both say so afterwards"),
        pytest.param({2: 0, 3: 0}, {2: 2, 3: 2}, 2, id="both begin later"),
        pytest.param({2: 2, 3: 0}, {3: 3}, 2, id="one was further"),
        pytest.param({2: 0, 3: 0}, {2: 2}, None, id="one is behind"),
        pytest.param({2: 0, 3: 0}, {2: 1, 3: 1}, None, id="both are behind"),
        pytest.param({}, {2: 2}, None, id="one has not been heard of"),
    ],
)
def test_a_deletion_is_answered_when_every_live_replica_has_done_it(
    before: Mapping[int, int], after: Mapping[int, int], low_watermark: int | None
) -> None:
    """The leader forgets at once, and says so when the logs of all live replicas begin at the offset or later."""
    bench = leading()
    begins_at(bench, before)
    call_id = delete(bench, 2)
    assert (bench.disk.start, answer(bench, call_id)) == (2, None)
    begins_at(bench, after)
    assert answer(bench, call_id) == (None if low_watermark is None else (ErrorCode.NONE, low_watermark))


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_fenced_replica_does_not_hold_a_deletion_back(when: str) -> None:
    """Who is fenced cannot do it, and does not count, whether it is fenced already or while the deletion waits."""
    bench = leading()
    begins_at(bench, {2: 2, 3: 0})
    if when == "before":
        bench.metadata(registration(1, 5), changed=[broker(3, fenced=True)])
    call_id = delete(bench, 2)
    bench.metadata(registration(1, 5), changed=[broker(3, fenced=True)])
    assert answer(bench, call_id) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize(("timeout_ms", "waits_ms"), [(300, 300), (-1, 0), (10_000, 500)])
def test_a_deletion_waits_no_longer_than_it_may(timeout_ms: int, waits_ms: int) -> None:
    """When its time or the broker's limit is up it is REQUEST_TIMED_OUT: done here, and not known of all others."""
    bench = leading(config=BrokerConfig(delete_records_timeout_max_ms=500))
    call_id = delete(bench, 2, timeout_ms)
    if waits_ms:
        bench.elapse(waits_ms - 1)
        assert answer(bench, call_id) is None
    bench.elapse(1)
    assert (answer(bench, call_id), bench.disk.start) == ((ErrorCode.REQUEST_TIMED_OUT, None), 2)


@pytest.mark.parametrize("ends_by", ["another leader", "no leader", "close"])
def test_a_deletion_does_not_outlive_the_leadership(ends_by: str) -> None:
    """A leader that is one no more will not hear where the others begin: what it has done stays in doubt."""
    bench = leading()
    call_id = delete(bench, 2)
    if ends_by == "close":
        bench.partition.close()
    else:
        bench.metadata(registration(2 if ends_by == "another leader" else None, 6))
    assert answer(bench, call_id) == (ErrorCode.REQUEST_TIMED_OUT, None)


def test_a_leader_that_is_appointed_again_goes_on() -> None:
    """A new leader epoch of the same leader ends no deletion; it ends when the others have been heard of again."""
    bench = leading()
    call_id = delete(bench, 2)
    bench.metadata(registration(1, 7))
    assert answer(bench, call_id) is None
    begins_at(bench, {2: 2, 3: 2})
    assert answer(bench, call_id) == (ErrorCode.NONE, 2)


def test_one_deletion_too_many_is_refused_before_anything_is_done() -> None:
    """Beyond the limit nothing is forgotten, and a later attempt may succeed."""
    bench = leading(config=BrokerConfig(parked_deletions_max=1))
    delete(bench, 1)
    assert answer(bench, delete(bench, 2)) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
    assert bench.disk.start == 1
