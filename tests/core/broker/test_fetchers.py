"""One fetch to each leader for all that is followed there. Kafka's ReplicaFetcherManager and fetcher threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, TopicPartition
from replica.records import encode_batch
from tests.core.broker.bench import CONFIG, BrokerBench, changed, registered, registration, topic, topic_partition

A, B = topic_partition("topic", 0), topic_partition("topic", 1)


def a_follower() -> BrokerBench:
    """A broker that follows broker 2 in two partitions and broker 3 in one."""
    bench = BrokerBench()
    bench.decide(
        *registered(1),
        *registered(2),
        *registered(3),
        *topic(
            "topic",
            7,
            registration(2, 1, leader=2),
            registration(2, 1, leader=2),
            registration(3, 1, leader=3),
        ),
    )
    return bench


def fetched(
    *names: TopicPartition, records: bytes = b"", errors: dict[TopicPartition, ErrorCode] | None = None
) -> m.FetchResponse:
    """Answer a fetch of these partitions with the same records."""
    return m.FetchResponse(
        partitions=tuple(
            m.FetchedPartition(
                topic_partition=name,
                error=(errors or {}).get(name, ErrorCode.NONE),
                high_watermark=Offset(0),
                log_start_offset=Offset(0),
                records=records if name not in (errors or {}) else b"",
            )
            for name in names
        )
    )


RECORD = encode_batch([b"v"], base_offset=0, leader_epoch=0).data


def test_one_fetch_to_each_leader() -> None:
    """All that is followed under one leader is asked for together, as the registered incarnation."""
    bench = a_follower()

    assert [(to, len(request.partitions)) for to, request in bench.out(m.FetchRequest)] == [(2, 2), (3, 1)]
    assert {request.broker_epoch for _, request in bench.out(m.FetchRequest)} == {10}
    bench.elapse(60_000)
    assert len(bench.out(m.FetchRequest)) == 2


def test_fetch_waits_for_the_flush_of_all_its_partitions() -> None:
    """A fetch acknowledges, and leaves nobody out whose acknowledgement would then have to wait for it."""
    bench = a_follower()
    bench.answer(m.FetchRequest, fetched(A, B, records=RECORD))
    assert [flush.topic_partition for flush in bench.made(fx.Flush)] == [A, B]
    assert [to for to, _ in bench.out(m.FetchRequest)] == [3]

    bench.flush(B)
    assert [to for to, _ in bench.out(m.FetchRequest)] == [3]
    bench.flush(A)

    assert [to for to, _ in bench.out(m.FetchRequest)] == [3, 2]
    assert [part.fetch_offset for part in bench.out(m.FetchRequest)[1][1].partitions] == [1, 1]


def test_partitions_take_turns_in_being_first() -> None:
    """An answer is filled from the front: who was first goes last the next time, so that nobody starves."""
    bench = a_follower()
    assert bench.asked_in_turn(2) == ["topic-0", "topic-1"]
    for expected in (["topic-1", "topic-0"], ["topic-0", "topic-1"]):
        bench.answer(m.FetchRequest, fetched(*(A, B)))
        while next(to for to, _ in bench.out(m.FetchRequest)) != 2:
            bench.answer(m.FetchRequest, fetched(topic_partition("topic", 2)))
        assert bench.asked_in_turn(2) == expected


def test_a_fetch_names_no_more_partitions_than_its_leader_takes() -> None:
    """With more to follow than one request may name, they come in turns."""
    bench = BrokerBench(config=dataclasses.replace(CONFIG, fetch_partitions_max=2))
    names = [topic_partition("topic", number) for number in range(3)]
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, *(registration(2, 1, leader=2) for _ in names)))
    asked = []
    for _ in range(3):
        asked.append(bench.asked_in_turn(2))
        bench.answer(m.FetchRequest, fetched(*names))
    assert asked == [["topic-0", "topic-1"], ["topic-1", "topic-2"], ["topic-2", "topic-0"]]


def test_partition_that_backs_off_is_left_out() -> None:
    """One partition in trouble pauses; the others are asked for at once, and it comes along with them later."""
    bench = a_follower()
    bench.answer(m.FetchRequest, fetched(A, B, errors={A: ErrorCode.NOT_LEADER_OR_FOLLOWER}))
    assert bench.asked(2) == ["topic-1"]
    bench.elapse(CONFIG.replica_fetch_backoff_ms)
    assert bench.asked(2) == ["topic-1"]

    bench.answer(m.FetchRequest, fetched(topic_partition("topic", 2)))
    bench.answer(m.FetchRequest, fetched(B))

    assert bench.asked(2) == ["topic-0", "topic-1"]


def test_back_off_that_cannot_end_yet_asks_for_no_attention() -> None:
    """While an answer is out that the next fetch must wait for, a pause that has ended is no deadline."""
    bench = a_follower()
    bench.answer(m.FetchRequest, fetched(A, B, errors={A: ErrorCode.NOT_LEADER_OR_FOLLOWER}))
    bench.elapse(CONFIG.replica_fetch_backoff_ms + 1)

    assert bench.broker.deadline_ms is not None
    assert bench.broker.deadline_ms > bench.now_ms


def test_back_off_ends_by_itself() -> None:
    """If nothing else is out, the end of the pause is the deadline, and the fetch goes then."""
    bench = a_follower()
    bench.answer(m.FetchRequest, None)
    assert bench.broker.deadline_ms == bench.now_ms + CONFIG.replica_fetch_backoff_ms
    bench.elapse(CONFIG.replica_fetch_backoff_ms - 1)
    assert [to for to, _ in bench.out(m.FetchRequest)] == [3]

    bench.elapse(1)

    assert bench.asked(2) == ["topic-0", "topic-1"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="no_answer"),
        pytest.param(m.FetchResponse(error=ErrorCode.INVALID_REQUEST), id="refused_as_a_whole"),
    ],
)
def test_unanswered_partitions_ask_again(answer: m.FetchResponse | None) -> None:
    """Whatever is not answered is asked for again after a pause, no sooner."""
    bench = a_follower()
    bench.answer(m.FetchRequest, answer)
    assert [to for to, _ in bench.out(m.FetchRequest)] == [3]
    bench.elapse(CONFIG.replica_fetch_backoff_ms)
    assert bench.asked(2) == ["topic-0", "topic-1"]


def _to_3(bench: BrokerBench) -> None:
    bench.decide(changed(7, 0, registration(2, 1, leader=3, epoch=1, partition_epoch=1)))


def _to_nobody(bench: BrokerBench) -> None:
    bench.decide(changed(7, 0, registration(2, 1, leader=None, epoch=1, partition_epoch=1)))


def _to_itself(bench: BrokerBench) -> None:
    bench.decide(changed(7, 0, registration(2, 1, leader=1, epoch=1, partition_epoch=1)))


@pytest.mark.parametrize(
    ("moves", "asked_at_3"), [(_to_3, ["topic-0", "topic-2"]), (_to_nobody, ["topic-2"]), (_to_itself, ["topic-2"])]
)
def test_new_leader_is_asked(moves: Callable[[BrokerBench], None], asked_at_3: list[str]) -> None:
    """A partition with another leader is fetched there with the next fetch; what the old one says is not taken."""
    bench = a_follower()
    moves(bench)
    bench.answer(m.FetchRequest, fetched(A, B, records=RECORD))
    bench.flush(B)
    bench.answer(m.FetchRequest, fetched(topic_partition("topic", 2)))

    assert bench.broker.partitions[A].log.log_end_offset == 0
    assert (bench.asked(2), bench.asked(3)) == (["topic-1"], asked_at_3)


@pytest.mark.parametrize("moves", [_to_3, _to_nobody, _to_itself])
def test_leader_that_a_flushing_partition_leaves_is_asked_on(moves: Callable[[BrokerBench], None]) -> None:
    """A fetch that waits for a flush goes out when the partition leaves: its flush will wake another leader only."""
    bench = a_follower()
    bench.answer(m.FetchRequest, fetched(A, B, records=RECORD))
    bench.flush(B)
    assert [to for to, _ in bench.out(m.FetchRequest)] == [3]

    moves(bench)

    assert bench.asked(2) == ["topic-1"]


def test_fetcher_are_not_restarted_if_leader_epoch_is_not_bumped_with_kraft_path() -> None:
    """A change of the ISR alone disturbs no fetch: the answer that is on its way is taken."""
    bench = a_follower()
    bench.decide(changed(7, 0, registration(2, 1, leader=2, isr=(2,), partition_epoch=1)))
    bench.answer(m.FetchRequest, fetched(A, B, records=RECORD))
    assert bench.broker.partitions[A].log.log_end_offset == 1


def test_truncate_to_epoch_end_offsets_during_remove_partitions() -> None:
    """An answer that says where logs part cuts the logs that are still here, and misses none that is gone."""
    bench = a_follower()
    bench.answer(m.FetchRequest, fetched(A, B, records=RECORD))
    bench.flush(A)
    bench.flush(B)
    bench.decide(changed(7, 0, registration(2, leader=2, epoch=1, partition_epoch=1)))
    parted = m.FetchedPartition(
        topic_partition=A, error=ErrorCode.NONE, diverging_epoch=EpochEndOffset(Epoch(0), Offset(0))
    )
    bench.answer(m.FetchRequest, None)
    assert A not in bench.broker.partitions

    bench.answer(m.FetchRequest, m.FetchResponse(partitions=(parted, replace(parted, topic_partition=B))))

    assert bench.broker.partitions[B].log.log_end_offset == 0
    assert [cut.topic_partition for cut in bench.made(fx.Truncate) + bench.made(fx.StartLogAt)] == [B]
