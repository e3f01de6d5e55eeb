"""Whom a leader sends a consumer to that stands in another rack (KIP-392)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.ids import Epoch, Offset, ReplicaId
from tests.core.partition.bench import LOG, PartitionBench, broker, registration

ALL = frozenset({1, 2, 3, 4})
RACKS = {1: "a", 2: "b", 3: "b", 4: "c"}


def leading(
    *, isr: Collection[int] = ALL, fenced: Collection[int] = (), leaving: Collection[int] = ()
) -> PartitionBench:
    """Let broker 1 lead epoch 5 with 2 and 3 in the next rack and 4 in a third one, and a log from 2 to 6."""
    bench = PartitionBench(log=[(4, 4)], log_start=2, high_watermark=4)
    racks = [
        replace(broker(each, fenced=each in fenced, leaving=each in leaving), rack=rack) for each, rack in RACKS.items()
    ]
    bench.metadata(registration(1, 5, replicas=tuple(RACKS), isr=tuple(sorted(isr))), changed=racks)
    return bench


def asked(offset: int, last: int | None = None) -> m.FetchPartition:
    """What a consumer asks for."""
    last_epoch = None if last is None else Epoch(last)
    return m.FetchPartition(topic_partition=LOG, fetch_offset=Offset(offset), last_fetched_epoch=last_epoch)


def heard_of(bench: PartitionBench, ends: Mapping[int, int], start: int = 2) -> PartitionBench:
    """Let replicas fetch from these offsets, one after the other."""
    for replica_id, end in ends.items():
        bench.fetch(replica_id, replace(bench.ask(end), log_start_offset=Offset(start)))
        bench.elapse(1)
    return bench


@pytest.mark.parametrize(
    ("bench", "rack", "offset", "named"),
    [
        pytest.param(heard_of(leading(), {2: 5, 3: 6}), "b", 4, 3, id="the most caught up"),
        pytest.param(heard_of(leading(), {2: 6, 3: 5}), "b", 4, 2, id="by its end"),
        pytest.param(heard_of(leading(), {3: 6, 2: 6}), "b", 4, 2, id="of equals who caught up last"),
        pytest.param(heard_of(leading(), {2: 5, 3: 6}), "b", 6, 3, id="who holds the offset"),
        pytest.param(heard_of(leading(), {2: 5, 3: 5}), "b", 6, None, id="nobody holds the offset"),
        pytest.param(heard_of(leading(), {2: 6}, start=5), "b", 4, None, id="it begins too late"),
        pytest.param(heard_of(leading(), {2: 6, 3: 6}), None, 4, None, id="a consumer without a rack"),
        pytest.param(heard_of(leading(), {2: 6, 3: 6}), "a", 4, None, id="the leader's rack"),
        pytest.param(heard_of(leading(), {2: 6, 3: 6}), "d", 4, None, id="nobody's rack"),
        pytest.param(heard_of(leading(), {2: 6, 3: 6}), "c", 4, None, id="nothing heard of it yet"),
        pytest.param(heard_of(leading(isr={1, 2, 4}), {2: 5, 3: 6}), "b", 4, 2, id="who is in sync"),
        pytest.param(heard_of(leading(fenced=[2]), {2: 6, 3: 5}), "b", 4, 3, id="who is alive"),
        pytest.param(heard_of(leading(leaving=[2]), {2: 6, 3: 5}), "b", 4, 3, id="who stays"),
    ],
)
def test_the_leader_names_who_is_near(bench: PartitionBench, rack: str | None, offset: int, named: int | None) -> None:
    """A live in-sync follower in the consumer's rack that holds the offset, the most caught up of those."""
    read = bench.fetch(None, asked(offset), rack_id=rack)
    assert read.answer.preferred_read_replica == named


def test_who_is_named_gets_no_records_and_does_not_wait() -> None:
    """The answer goes out at once, without records, also to a consumer that waited at the leader meanwhile."""
    bench = heard_of(leading(), {2: 5, 3: 5})
    waiting = bench.fetch(None, asked(6), rack_id="b")
    assert (waiting.answer.preferred_read_replica, waiting.is_final) == (None, False)
    heard_of(bench, {3: 6})
    for read in (
        bench.fetch(None, asked(3), rack_id="b"),
        bench.partition.look(asked(6), replica_id=None, rack_id="b"),
    ):
        assert (read.answer.preferred_read_replica, read.range, read.is_final) == (3, None, True)


def test_a_truncation_is_told_first() -> None:
    """Whoever has read what is not in the leader's log is told that, and sent nowhere."""
    bench = heard_of(leading(), {2: 6, 3: 6})
    read = bench.fetch(None, asked(4, last=3), rack_id="b")
    assert read.answer.preferred_read_replica is None
    assert read.answer.diverging_epoch is not None


def test_only_a_leader_names_anybody() -> None:
    """A follower serves whoever asks it, and a replica's fetch is the leader's to serve."""
    bench = heard_of(leading(), {2: 6, 3: 6})
    assert bench.fetch(2, bench.ask(6), rack_id="b").answer.preferred_read_replica is None
    bench.metadata(registration(4, 6, replicas=tuple(RACKS)))
    assert bench.fetch(None, asked(3), rack_id="b").answer.preferred_read_replica is None
    assert bench.partition.leader_id == ReplicaId(4)
