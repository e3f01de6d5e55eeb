"""A follower and a real leader, each as one replica runs it, talking through values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.partition import following
from replica.core.partition.producer_state import scan
from replica.ids import Offset
from tests.core.partition.bench import PartitionBench, registration
from tests.core.partition.followers import LOG, OWN_ID, Answer, FollowerBench, converse

Log = Sequence[tuple[int, int]]


@dataclass
class RealLeader:
    """Broker 1, which leads in epoch 11, with brokers 2 and 3 in sync as far as the controller knows."""

    bench: PartitionBench

    def answer(self, asked: following.Asked) -> Answer:
        """Let the leader answer its follower, broker 2."""
        if isinstance(asked, m.FetchPartition):
            read = self.bench.fetch(OWN_ID, asked)
            return replace(read.answer, records=self.bench.records(read))
        answer = self.bench.answer(asked)
        assert isinstance(answer, m.ListOffsetsResponse), answer
        return answer


def leader_of(*log: tuple[int, int], high_watermark: int = 0) -> RealLeader:
    bench = PartitionBench(log=log, high_watermark=high_watermark)
    bench.metadata(registration(1, 11, isr=(1, 2)))
    return RealLeader(bench)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Log, Log]:
    """Draw a follower's log and its leader's: one common beginning, then epochs that only one of them saw."""
    counts = st.integers(1, 3)
    common = [(epoch, draw(counts)) for epoch in range(draw(st.integers(0, 2)))]
    later = draw(st.dictionaries(st.integers(4, 9), st.booleans(), max_size=5))
    own = [*common, *((epoch, draw(counts)) for epoch in sorted(later) if later[epoch])]
    return own, [*common, *((epoch, draw(counts)) for epoch in sorted(later) if not later[epoch])]


@given(drawn=histories())
def test_follower_ends_with_its_leaders_log(drawn: tuple[Log, Log]) -> None:
    """Whatever the two have, the follower ends with its leader's log, and what both have is committed at both."""
    own, leaders = drawn
    follower = FollowerBench(log=own, leader_epoch=11)
    leader = leader_of(*leaders)
    for _ in range(2):  # The high watermark that a fetch brings about comes with the next answer.
        converse(follower, leader)
    assert [each.data for each in follower.batches] == [each.data for each in leader.bench.disk.batches]
    assert follower.end == leader.bench.end == leader.bench.high_watermark == follower.high_watermark


def test_follower_overtaken_by_retention_begins_anew() -> None:
    """Records that were deleted before the follower had them are passed over, and the rest is replicated."""
    leader = leader_of((1, 6), high_watermark=6)
    leader.bench.call(m.DeleteRecordsRequest(topic_partition=LOG, offset=Offset(4), timeout_ms=1000))
    assert leader.bench.partition.log.log_start_offset == 4
    follower = FollowerBench(log=[(1, 2)], leader_epoch=11)
    converse(follower, leader)
    assert (follower.ends, follower.epochs) == ((4, 6, 6), {1: 4})


@pytest.mark.parametrize("resent", [0, 1])
def test_producers_are_known_to_leader_and_follower(resent: int) -> None:
    """What the leader knows of its producers the follower knows as well, and so does a scan of the follower's disk."""
    leader, follower = leader_of(), FollowerBench(leader_epoch=11)
    for sequence in (0, 1, resent):
        leader.bench.produce(b"v", acks=1, sequence=sequence)
    leader.bench.flush_all()
    converse(follower, leader)
    assert follower.end == 2
    assert follower.state.producers.entries == leader.bench.partition.producers.entries == scan(follower.batches)
