"""Fetches that wait, each for all the partitions that it names. Kafka's DelayedFetchTest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.partition import Partition
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, CallId, Epoch, EpochEndOffset, Offset, ReplicaId, TopicPartition
from tests.core.broker.bench import (
    CLUSTER,
    CONFIG,
    BrokerBench,
    changed,
    recovered,
    registered,
    registration,
    removed,
    topic,
    topic_partition,
)

A, B, C = (topic_partition("topic", number) for number in range(3))


class LookedAt(Mapping[TopicPartition, Partition]):
    """Partitions, and which of them were looked at."""

    def __init__(self, partitions: Mapping[TopicPartition, Partition]) -> None:
        self.names: list[TopicPartition] = []
        self._partitions = partitions

    def __getitem__(self, name: TopicPartition) -> Partition:
        self.names.append(name)
        return self._partitions[name]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)


@pytest.fixture
def bench() -> BrokerBench:
    """A broker that leads three partitions alone."""
    bench = BrokerBench(config=dataclasses.replace(CONFIG, parked_fetches_max=2))
    alone = registration(1, leader=1)
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, alone, alone, alone))
    return bench


def wants(*names: TopicPartition, offset: int = 0, min_bytes: int = 1, max_wait_ms: int = 500) -> m.FetchRequest:
    """A consumer's fetch."""
    parts = tuple(m.FetchPartition(topic_partition=name, fetch_offset=Offset(offset)) for name in names)
    return m.FetchRequest(partitions=parts, max_wait_ms=max_wait_ms, min_bytes=min_bytes)


def answered(bench: BrokerBench) -> dict[CallId, list[str]]:
    """Which calls were answered since the last word, and with the records of which partitions."""
    with_records = bench.made(fx.ReplyWithRecords)
    without = {reply.call_id: list[str]() for reply in bench.made(fx.Reply)}
    return without | {reply.call_id: [f"{part.topic_partition}" for part in reply.ranges] for reply in with_records}


def append(bench: BrokerBench, name: TopicPartition) -> None:
    """Commit one record."""
    bench.produce(name)
    bench.flush(name)


def errors(bench: BrokerBench) -> list[ErrorCode]:
    """What the one answer says of each partition."""
    (reply,) = bench.made(fx.Reply)
    assert isinstance(reply.response, m.FetchResponse), reply
    return [part.error for part in reply.response.partitions]


def test_parked_fetch_is_woken_by_the_partitions_that_it_names(bench: BrokerBench) -> None:
    """Records in any of them answer it, records elsewhere do not, and an answered one is not answered again."""
    bench.fetch(1, wants(A, B))
    bench.fetch(2, wants(B))
    assert answered(bench) == {}

    append(bench, C)
    assert answered(bench) == {}
    append(bench, A)
    assert answered(bench) == {1: ["topic-0"]}
    append(bench, B)
    assert answered(bench) == {2: ["topic-1"]}
    append(bench, A)
    assert answered(bench) == {}
    bench.elapse(60_000)
    assert answered(bench) == {}


def test_min_bytes_is_a_sum_over_all_partitions(bench: BrokerBench) -> None:
    """A fetch that wants more than one partition has waits until all of them together have it."""
    append(bench, A)
    size = bench.broker.partitions[A].log.count_bytes(Offset(0), Offset(1))
    bench.fetch(1, wants(A, B, min_bytes=size + 1))
    assert answered(bench) == {}
    append(bench, B)
    assert answered(bench) == {1: ["topic-0", "topic-1"]}


def test_a_write_pays_for_its_own_partition_in_a_parked_fetch(bench: BrokerBench) -> None:
    """While a fetch has to wait on, only what has changed is looked at, however many partitions it names."""
    bench.fetch(1, wants(A, B, C, min_bytes=10_000))
    looked = LookedAt(bench.broker.partitions)
    bench.broker.server._partitions = looked
    append(bench, A)
    assert answered(bench) == {}
    assert set(looked.names) == {A}


def test_consumers_that_wait_are_looked_at_when_they_can_see_something_new(bench: BrokerBench) -> None:
    """An append that is not committed concerns none of them; its commit concerns each, once."""
    for call_id in (1, 2):
        bench.fetch(call_id, wants(A, min_bytes=10_000))
    append(bench, A)
    looked = LookedAt(bench.broker.partitions)
    bench.broker.server._partitions = looked
    bench.produce(A)
    assert looked.names == [A], "what consumers can see of it, for all of them"
    looked.names.clear()
    bench.flush(A)
    assert looked.names == [A, A, A], "and then each of the two"


def test_consumer_that_waits_hears_of_another_leader_at_once(bench: BrokerBench) -> None:
    """Who leads is a part of what it sees, though the records are the same."""
    part = replace(wants(A, min_bytes=10_000).partitions[0], current_leader_epoch=Epoch(0))
    bench.fetch(1, replace(wants(A, min_bytes=10_000), partitions=(part,)))
    append(bench, A)
    assert answered(bench) == {}
    bench.decide(changed(7, 0, registration(1, leader=1, epoch=1, partition_epoch=1)))
    assert errors(bench) == [ErrorCode.FENCED_LEADER_EPOCH]


def test_expired_fetch_is_answered_with_what_there_is(bench: BrokerBench) -> None:
    """When the time is up, too few records are an answer, and so is none."""
    append(bench, A)
    bench.fetch(1, wants(A, B, min_bytes=10_000, max_wait_ms=500))
    bench.fetch(2, wants(C, max_wait_ms=600))
    assert bench.broker.deadline_ms == bench.now_ms + 500
    bench.elapse(499)
    assert answered(bench) == {}
    bench.elapse(1)
    assert answered(bench) == {1: ["topic-0"]}
    bench.elapse(100)
    assert answered(bench) == {2: []}


def test_fetch_that_does_not_want_to_wait_is_answered_at_once(bench: BrokerBench) -> None:
    """Without a time to wait there is nothing to wait for, however much is wanted."""
    append(bench, A)
    bench.fetch(1, wants(A, min_bytes=10_000, max_wait_ms=0))
    assert answered(bench) == {1: ["topic-0"]}
    bench.fetch(2, wants(B, max_wait_ms=0))
    assert answered(bench) == {2: []}


def test_wait_is_bounded(bench: BrokerBench) -> None:
    """Nobody waits longer than the broker allows, whatever it asks for."""
    bench.fetch(1, wants(A, max_wait_ms=1 << 30))
    bench.elapse(CONFIG.fetch_wait_max_ms)
    assert answered(bench) == {1: []}


def test_fetch_that_finds_no_room_to_wait_is_answered_at_once(bench: BrokerBench) -> None:
    """Only so many fetches wait; one more gets what there is."""
    bench.fetch(1, wants(A))
    bench.fetch(2, wants(A))
    bench.fetch(3, wants(A))
    assert answered(bench) == {3: []}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        pytest.param(replace(wants(A), cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID, id="another_cluster"),
        pytest.param(wants(A, A), ErrorCode.INVALID_REQUEST, id="a_partition_twice"),
        pytest.param(wants(A, max_wait_ms=-1), ErrorCode.INVALID_REQUEST, id="negative_wait"),
        pytest.param(replace(wants(A), max_bytes=0), ErrorCode.INVALID_REQUEST, id="no_bytes"),
        pytest.param(
            replace(wants(A), cluster_id=CLUSTER, replica_id=ReplicaId(2)),
            ErrorCode.INVALID_REQUEST,
            id="no_incarnation",
        ),
        pytest.param(replace(wants(A), broker_epoch=BrokerEpoch(2)), ErrorCode.INVALID_REQUEST, id="no_replica"),
        pytest.param(wants(), ErrorCode.NONE, id="nothing_to_wait_for"),
    ],
)
def test_fetch_is_refused_as_a_whole(bench: BrokerBench, request_: m.FetchRequest, error: ErrorCode) -> None:
    """What nobody sends who follows the protocol is refused at once, and about no partition."""
    bench.fetch(1, request_)
    (reply,) = bench.made(fx.Reply)
    assert reply.response == m.FetchResponse(error=error)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (topic_partition("other"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic_partition("topic", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic_partition("elsewhere"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_error_of_one_partition_answers_at_once(bench: BrokerBench, name: TopicPartition, error: ErrorCode) -> None:
    """A partition that is not here keeps the others from waiting; who has it is for the asker to find out."""
    bench.decide(*topic("elsewhere", 8, registration(2, leader=2)))
    bench.fetch(1, wants(A, name))
    assert errors(bench) == [ErrorCode.NONE, error]


def test_parked_fetch_is_answered_when_a_partition_is_lost(bench: BrokerBench) -> None:
    """A partition that is deleted while a fetch waits for it is an answer."""
    bench.fetch(1, wants(A, B))
    bench.decide(removed(7))
    assert errors(bench) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_parked_fetch_of_a_replica_is_answered_when_its_epoch_is_over(bench: BrokerBench) -> None:
    """A follower that waits learns of a new epoch at once (Kafka's testFetchWithFencedEpoch)."""
    bench.decide(*topic("led", 8, registration(1, 2, leader=1)))
    part = m.FetchPartition(
        topic_partition=topic_partition("led"),
        fetch_offset=Offset(0),
        current_leader_epoch=Epoch(0),
        log_start_offset=Offset(0),
    )
    request = m.FetchRequest(
        partitions=(part,),
        cluster_id=CLUSTER,
        replica_id=ReplicaId(2),
        replica_directory_id=bench.metadata.image.brokers[ReplicaId(2)].directory_id,
        broker_epoch=BrokerEpoch(20),
        max_wait_ms=10_000,
    )
    bench.fetch(1, request)
    assert answered(bench) == {}
    bench.decide(changed(8, 0, registration(1, 2, leader=2, epoch=1, partition_epoch=1)))
    assert errors(bench) == [ErrorCode.FENCED_LEADER_EPOCH]


def test_new_high_watermark_answers_who_knows_a_lower_one(bench: BrokerBench) -> None:
    """A reader that tells what it knows is answered as soon as more is committed, records or not (KIP-1166)."""
    bench.produce(A)
    part = m.FetchPartition(topic_partition=A, fetch_offset=Offset(1), high_watermark=Offset(0))
    bench.fetch(1, m.FetchRequest(partitions=(part,), max_wait_ms=10_000))
    bench.fetch(2, m.FetchRequest(partitions=(replace(part, high_watermark=None),), max_wait_ms=10_000))
    assert answered(bench) == {}

    bench.flush(A)

    assert answered(bench) == {1: []}


@pytest.mark.parametrize(
    ("last_fetched_epoch", "error", "diverging"),
    [
        pytest.param(Epoch(0), ErrorCode.NONE, EpochEndOffset(Epoch(0), Offset(1)), id="divergence"),
        pytest.param(None, ErrorCode.OFFSET_OUT_OF_RANGE, None, id="truncated_below_the_fetch_offset"),
    ],
)
def test_parked_fetch_is_answered_when_the_log_is_cut(
    last_fetched_epoch: Epoch | None, error: ErrorCode, diverging: EpochEndOffset | None
) -> None:
    """A reader at a follower learns at once that what it stands on is gone."""
    name = topic_partition("followed")
    bench = BrokerBench(logs={name: recovered(8, (0, 3))})
    bench.decide(*registered(1), *registered(2), *topic("followed", 8, registration(2, 1, leader=2)))
    part = m.FetchPartition(topic_partition=name, fetch_offset=Offset(3), last_fetched_epoch=last_fetched_epoch)
    bench.fetch(1, m.FetchRequest(partitions=(part,), max_wait_ms=10_000))
    assert answered(bench) == {}

    parted = m.FetchedPartition(
        topic_partition=name, error=ErrorCode.NONE, diverging_epoch=EpochEndOffset(Epoch(0), Offset(1))
    )
    bench.answer(m.FetchRequest, m.FetchResponse(partitions=(parted,)))
    partition = bench.broker.touch(name)
    assert partition is not None
    partition.on_batch_found(Offset(1), Offset(1))
    bench.settle()

    (reply,) = bench.made(fx.Reply)
    assert isinstance(reply.response, m.FetchResponse)
    (told,) = reply.response.partitions
    assert (told.error, told.diverging_epoch) == (error, diverging)


@pytest.mark.parametrize(
    ("forged", "error"),
    [
        ({"replica_directory_id": "another disk"}, ErrorCode.STALE_BROKER_EPOCH),
        ({"replica_directory_id": None}, ErrorCode.STALE_BROKER_EPOCH),
        ({"replica_id": ReplicaId(9)}, ErrorCode.STALE_BROKER_EPOCH),
        ({"cluster_id": None}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"broker_epoch": None}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_fetch_in_the_name_of_another_acknowledges_nothing(
    bench: BrokerBench, forged: dict[str, Any], error: ErrorCode
) -> None:
    """Who names a follower, and not its cluster, its disk and its registration, is refused: no write is committed."""
    bench.decide(*topic("led", 8, registration(1, 2, leader=1)))
    name = topic_partition("led")
    bench.produce(name)
    bench.flush(name)
    part = m.FetchPartition(
        topic_partition=name, fetch_offset=Offset(1), current_leader_epoch=Epoch(0), last_fetched_epoch=Epoch(0)
    )
    honest: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "replica_id": ReplicaId(2),
        "replica_directory_id": bench.metadata.image.brokers[ReplicaId(2)].directory_id,
        "broker_epoch": BrokerEpoch(20),
    }
    bench.fetch(1, m.FetchRequest(partitions=(part,), **(honest | forged)))
    (reply,) = [effect for effect in bench.effects if isinstance(effect, fx.Reply)]
    assert reply.response == m.FetchResponse(error=error)
    assert bench.broker.partitions[name].high_watermark == 0
    bench.fetch(2, m.FetchRequest(partitions=(part,), **honest))
    assert bench.broker.partitions[name].high_watermark == 1
