"""Sessions of fetches: what is wanted is said once, and only news is answered. KIP-227, Kafka's FetchSessionTest."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from replica.core import effects as fx
from replica.core import messages as m
from replica.core.partition.roles import Leader
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, ReplicaId, TopicPartition
from replica.records import encode_batch
from tests.core.broker.bench import CLUSTER, CONFIG, BrokerBench, changed, registered, registration, removed, topic
from tests.core.broker.test_fetchers import RECORD, A, B, a_follower, fetched
from tests.core.broker.test_serving import LookedAt


def a_leader(partitions: int = 2) -> BrokerBench:
    """A broker that leads partitions of which broker 2 has the other replica."""
    bench = BrokerBench()
    bench.decide(
        *registered(1),
        *registered(2),
        *topic("topic", 7, *(registration(1, 2, leader=1) for _ in range(partitions))),
    )
    return bench


def wants(name: TopicPartition, offset: int, *, high_watermark: int = 0, may_wait: bool = True) -> m.FetchPartition:
    """What follower 2 wants of a partition."""
    return m.FetchPartition(
        topic_partition=name,
        fetch_offset=Offset(offset),
        current_leader_epoch=Epoch(0),
        last_fetched_epoch=Epoch(0) if offset else None,
        log_start_offset=Offset(0),
        high_watermark=Offset(high_watermark),
        high_watermark_may_wait=may_wait,
    )


def fetch(bench: BrokerBench, number: int, *parts: m.FetchPartition, session: int = 1, **other: Any) -> None:
    """Let follower 2 send this fetch of its session, as the call of the same number."""
    request = m.FetchRequest(
        partitions=parts,
        cluster_id=CLUSTER,
        replica_id=ReplicaId(2),
        replica_directory_id=bench.metadata.image.brokers[ReplicaId(2)].directory_id,
        broker_epoch=BrokerEpoch(20),
        max_wait_ms=500,
        session_id=session,
        session_epoch=number,
    )
    bench.fetch(number, replace(request, **other))


def append(bench: BrokerBench, name: TopicPartition) -> None:
    """Append a record at the leader, and flush it; the answers to both are looked at together."""
    bench.produce(name)
    made = list(bench.effects)
    bench.flush(name)
    bench.effects[:0] = made


def told(bench: BrokerBench) -> dict[int, list[str]]:
    """Of which partitions each call was told something."""
    return {
        reply.call_id: [f"{part.topic_partition}" for part in reply.response.partitions]
        for reply in bench.effects
        if isinstance(reply, fx.Reply | fx.ReplyWithRecords) and isinstance(reply.response, m.FetchResponse)
    }


def caught_up_ms(bench: BrokerBench) -> int | None:
    """When follower 2 had all there was in partition A, as the leader knows."""
    role = bench.broker.partitions[A].role
    assert isinstance(role, Leader), role
    return role.remotes[ReplicaId(2)].last_caught_up_ms


def error(bench: BrokerBench) -> ErrorCode:
    """What the one answer says of the request as a whole."""
    (reply,) = bench.made(fx.Reply)
    assert isinstance(reply.response, m.FetchResponse)
    return reply.response.error


# --- the leader -----------------------------------------------------------------------------------------------------


def test_what_was_wanted_stands_until_it_is_answered() -> None:
    """A fetch that names nothing waits for all that stands, and is told of what has news, and of nothing else."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0), wants(B, 0))
    assert told(bench) == {}
    append(bench, A)
    assert told(bench) == {0: ["topic-0"]}
    fetch(bench, 1)
    append(bench, A)
    assert told(bench) == {}, "what A's follower wanted was answered, and it has not said what it wants now"
    append(bench, B)
    assert told(bench) == {1: ["topic-1"]}


def test_what_came_between_two_fetches_is_told_at_the_second() -> None:
    """A partition that changed while no fetch waited is not forgotten, and a new high watermark goes with it."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0), wants(B, 0))
    append(bench, A)
    append(bench, B)
    assert told(bench) == {}
    fetch(bench, 1, wants(A, 1))
    assert told(bench) == {1: ["topic-0", "topic-1"]}


def test_a_session_waits_for_min_bytes_over_all_partitions() -> None:
    """The fetch of a session is answered when exactly as many bytes as it wants have come together."""
    size = len(encode_batch([b"v"]).data)
    bench = a_leader()
    fetch(bench, 0, wants(A, 0), wants(B, 0), min_bytes=2 * size)
    append(bench, A)
    assert told(bench) == {}
    append(bench, B)
    assert told(bench) == {0: ["topic-0", "topic-1"]}


def test_a_named_offset_acknowledges_and_what_stands_does_not() -> None:
    """The high watermark moves by the offsets that are named, in their fetch, and by no fetch that names nothing."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0))
    append(bench, A)
    fetch(bench, 1)
    assert bench.broker.partitions[A].high_watermark == 0
    fetch(bench, 2, wants(A, 1))
    assert bench.broker.partitions[A].high_watermark == 1


def test_a_high_watermark_that_may_wait_is_told_with_what_goes_next() -> None:
    """A follower without a reader hears of what is committed when its wait is over at the latest."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0))
    append(bench, A)
    fetch(bench, 1, wants(A, 1))
    assert told(bench) == {}
    bench.elapse(499)
    assert told(bench) == {}
    bench.elapse(1)
    assert told(bench) == {1: ["topic-0"]}
    (reply,) = bench.made(fx.Reply)
    assert isinstance(reply.response, m.FetchResponse)
    assert reply.response.partitions[0].high_watermark == 1


def test_a_high_watermark_that_may_not_wait_is_told_at_once() -> None:
    """A follower at which a consumer waits hears of what is committed by the fetch that commits it (KIP-1166)."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0))
    append(bench, A)
    fetch(bench, 1, wants(A, 1, may_wait=False))
    assert told(bench) == {1: ["topic-0"]}


@pytest.mark.parametrize(
    ("number", "changes", "expected"),
    [
        pytest.param(2, {}, ErrorCode.INVALID_FETCH_SESSION_EPOCH, id="a_fetch_is_missing"),
        pytest.param(1, {"session_id": 2}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, id="another_session"),
        pytest.param(1, {"broker_epoch": BrokerEpoch(21)}, ErrorCode.INVALID_FETCH_SESSION_EPOCH, id="another_process"),
        pytest.param(
            1, {"replica_id": None, "broker_epoch": None}, ErrorCode.INVALID_REQUEST, id="a_consumer_has_no_session"
        ),
    ],
)
def test_a_fetch_that_does_not_go_on_with_the_session_is_refused(
    number: int, changes: dict[str, Any], expected: ErrorCode
) -> None:
    """What the leader remembers may not be what its sender means: it has to begin anew."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0))
    fetch(bench, number, **changes)
    assert error(bench) is expected


def test_a_leader_that_knows_no_session_says_so() -> None:
    """After its restart everything has to be named once more."""
    bench = a_leader()
    fetch(bench, 3, wants(A, 0))
    assert error(bench) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_new_session_ends_the_one_before() -> None:
    """A fetch that waits in a session that was given up is answered with nothing, and wants nothing more."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0))
    fetch(bench, 0, wants(B, 0), session=2)
    assert told(bench) == {0: []}
    append(bench, A)
    assert told(bench) == {}
    append(bench, B)
    assert told(bench) == {0: ["topic-1"]}


def test_a_late_copy_of_a_first_fetch_is_refused() -> None:
    """It would be told what its sender never hears, and the next fetch would go on as if it had."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0), wants(B, 0))
    fetch(bench, 0, wants(A, 0))
    assert error(bench) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    append(bench, B)
    assert told(bench) == {0: ["topic-1"]}


def test_a_late_first_fetch_of_an_earlier_session_ends_the_later_one() -> None:
    """Its sender finds that out with its next fetch, and begins anew."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0), session=2)
    fetch(bench, 0, wants(A, 0), session=1)
    fetch(bench, 1, session=2)
    assert error(bench) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_partition_that_is_gone_or_led_by_another_is_told_once() -> None:
    """An error is an answer too, after which nothing of that partition stands."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0), wants(B, 0))
    bench.decide(changed(7, 0, registration(1, 2, leader=2, epoch=1, partition_epoch=1)))
    assert told(bench) == {0: ["topic-0"]}
    fetch(bench, 1)
    bench.decide(removed(7))
    assert told(bench) == {1: ["topic-1"]}
    fetch(bench, 2)
    assert told(bench) == {}


def test_a_session_that_is_alive_keeps_its_idle_partitions_in_sync() -> None:
    """A follower that had everything until the record came has not lagged, although no fetch has named it since."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0), wants(B, 0))
    for number in range(1, 5):
        bench.elapse(CONFIG.replica_lag_time_max_ms // 2)
        fetch(bench, number)
    append(bench, A)
    partition = bench.broker.partitions[A]
    assert caught_up_ms(bench) == bench.now_ms
    bench.elapse(CONFIG.replica_lag_time_max_ms // 2)
    assert partition.maximal_isr == {1, 2}


def test_a_session_that_has_ended_keeps_nobody_in_sync() -> None:
    """A follower whose session was last heard of long ago has lagged since then, not since the record that it lacks."""
    bench = a_leader()
    fetch(bench, 0, wants(A, 0))
    heard_ms = bench.now_ms
    bench.elapse(CONFIG.replica_lag_time_max_ms + 1)
    append(bench, A)
    assert caught_up_ms(bench) == heard_ms


def test_idle_partitions_cost_the_leader_nothing() -> None:
    """However many partitions stand in a session, a record is looked for where it was written."""
    bench = a_leader(partitions=50)
    names = sorted(bench.broker.partitions)
    fetch(bench, 0, *(wants(name, 0) for name in names))
    looked = LookedAt(bench.broker.partitions)
    bench.broker.server._partitions = looked
    append(bench, names[7])
    fetch(bench, 1, wants(names[7], 1))
    assert set(looked.names) == {names[7]}


# --- the follower ---------------------------------------------------------------------------------------------------


def asked(bench: BrokerBench, leader: int = 2) -> tuple[int | None, int, list[str]]:
    """The session, its fetch, and the partitions that are named, of what is out to a leader."""
    (request,) = (request for to, request in bench.out(m.FetchRequest) if to == leader)
    return request.session_id, request.session_epoch, [f"{part.topic_partition}" for part in request.partitions]


def answer(bench: BrokerBench, response: m.FetchResponse | None) -> None:
    """Answer the fetch that is out to broker 2, or let it fail."""
    bench.sent.sort(key=lambda sent: sent.to)
    bench.answer(m.FetchRequest, response)


def test_a_follower_names_what_has_changed() -> None:
    """After the first fetch only those are named that were answered; without an answer, nothing."""
    bench = a_follower()
    session, *first = asked(bench)
    assert first == [0, ["topic-0", "topic-1"]]
    answer(bench, fetched(A, records=RECORD))
    bench.flush(A)
    assert asked(bench) == (session, 1, ["topic-0"])
    answer(bench, fetched())
    assert asked(bench)[:2] == (session, 2)


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH], ids=str)
def test_a_session_that_its_leader_does_not_know_is_begun_anew_at_once(code: ErrorCode) -> None:
    """A leader that has restarted is told everything again, without a pause."""
    bench = a_follower()
    session, *_ = asked(bench)
    answer(bench, m.FetchResponse(error=code))
    again, number, names = asked(bench)
    assert again != session
    assert (number, sorted(names)) == (0, ["topic-0", "topic-1"])


def test_a_lost_answer_ends_the_session() -> None:
    """Nobody knows what the leader believes to be wanted, so that everything is said again."""
    bench = a_follower()
    session, *_ = asked(bench)
    answer(bench, None)
    bench.elapse(CONFIG.replica_fetch_backoff_ms)
    again, number, names = asked(bench)
    assert again != session
    assert (number, sorted(names)) == (0, ["topic-0", "topic-1"])


def test_a_partition_that_is_no_longer_wanted_ends_the_session() -> None:
    """A leader that went on to count a follower as one would keep it in sync for ever."""
    bench = a_follower()
    session, *_ = asked(bench)
    answer(bench, fetched())
    bench.damage(A)
    answer(bench, fetched())
    again, number, names = asked(bench)
    assert again != session
    assert (number, names) == (0, ["topic-1"])


def test_an_answer_about_what_does_not_stand_is_not_believed() -> None:
    """Records of a partition of which nothing was asked are nobody's."""
    bench = a_follower()
    answer(bench, fetched(A, B))
    answer(bench, fetched(TopicPartition("topic", 2), records=RECORD))
    assert bench.made(fx.Append) == []


def test_a_partition_out_of_sync_is_named_by_every_fetch() -> None:
    """It is let in by a fetch, at a time that the leader finds right."""
    bench = BrokerBench()
    bench.decide(
        *registered(1), *registered(2), *topic("topic", 7, replace(registration(2, 1, leader=2), isr=(ReplicaId(2),)))
    )
    for number in range(3):
        assert asked(bench)[1:] == (number, ["topic-0"])
        answer(bench, fetched())


def test_more_partitions_out_of_sync_than_a_fetch_names_wait_all_the_same() -> None:
    """Those that are left out are known to the leader: only what it does not know yet is in a hurry."""
    bench = BrokerBench(config=dataclasses.replace(CONFIG, fetch_partitions_max=2))
    outside = replace(registration(2, 1, leader=2), isr=(ReplicaId(2),))
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, outside, outside, outside))
    waits = []
    for _ in range(6):
        ((_, request),) = bench.out(m.FetchRequest)
        waits.append(request.max_wait_ms)
        answer(bench, fetched())
    assert waits == [0, *[CONFIG.replica_fetch_wait_max_ms] * 5]


def test_a_high_watermark_may_wait_unless_a_consumer_does() -> None:
    """Where a consumer waits at a follower, the next fetch asks to be told at once of what is committed."""
    bench = a_follower()
    (_, request), *_ = bench.out(m.FetchRequest)
    assert [part.high_watermark_may_wait for part in request.partitions] == [True, True]
    consumer = m.FetchPartition(topic_partition=A, fetch_offset=Offset(0))
    bench.fetch(5, m.FetchRequest(partitions=(consumer,), max_wait_ms=500))
    answer(bench, fetched())
    (request,) = (request for to, request in bench.out(m.FetchRequest) if to == 2)
    assert [(part.topic_partition, part.high_watermark_may_wait) for part in request.partitions] == [(A, False)]


def test_idle_partitions_cost_the_follower_nothing() -> None:
    """However many partitions are followed, a fetch asks those that have changed what they want."""
    bench = BrokerBench()
    bench.decide(*registered(1), *registered(2), *topic("topic", 7, *(registration(2, 1, leader=2) for _ in range(30))))
    names = sorted(bench.broker.partitions)
    looked = LookedAt(bench.broker.partitions)
    bench.broker.fetchers._partitions = looked
    answer(bench, fetched(names[7], records=RECORD))
    bench.flush(names[7])
    assert asked(bench)[1:] == (1, ["topic-7"])
    assert set(looked.names) == {names[7]}
