"""Finding where two logs part: the table of cases, Kafka's multi-round scenarios, and any two histories.

A log is written as (epoch, number of records of it); every leader's cache knows its own epoch already, which may be
empty. The answers come from a leader's epoch cache, in the form that partitions use.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core import messages as m
from replica.core.effects import ScanProducers, Truncate
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset
from replica.records import RecordBatch, encode_batch
from tests.core.harness import epochs_of
from tests.core.partition.followers import FollowerBench, LeaderLog, converse, leader_log

Log = Sequence[tuple[int, int]]

# follower's log, leader's log, leader's epoch, the answers about divergence, where the follower cuts
DIVERGENCE = [
    pytest.param([(1, 2)], [(1, 4)], 1, [], [], id="A_prefix_same_epoch"),
    pytest.param([(1, 2)], [(1, 2), (2, 2)], 2, [], [], id="B_prefix_higher_epoch"),
    pytest.param([(1, 4)], [(1, 2)], 2, [(1, 2)], [2], id="C"),
    pytest.param([(1, 2), (2, 2)], [(1, 2)], 3, [(1, 2)], [2], id="D"),
    pytest.param([(1, 2), (2, 2)], [(1, 2), (3, 2)], 4, [(1, 2)], [2], id="E"),
    pytest.param([(1, 1), (2, 2)], [(1, 2)], 3, [(1, 2)], [1], id="F"),
    pytest.param([(2, 1)], [(1, 1), (3, 1)], 4, [(1, 1)], [0], id="G"),
    pytest.param([(0, 1), (2, 4)], [(0, 1), (1, 4), (3, 1)], 3, [(1, 5)], [1], id="H_several_rounds"),
    pytest.param(
        [(0, 1), (2, 1), (4, 1)], [(1, 1), (3, 1), (5, 1)], 5, [(3, 2), (1, 1), (0, 0)], [2, 1, 0], id="test_truncation"
    ),
    pytest.param([(0, 1), (2, 1), (4, 1)], [(0, 1), (2, 1), (5, 1)], 5, [(2, 2)], [2], id="test_diverging_epochs"),
    pytest.param([(1, 3)], [], 2, [(1, 0)], [0], id="leader_has_nothing"),
]


@pytest.mark.parametrize(("own", "leaders", "leader_epoch", "answers", "cuts"), DIVERGENCE)
def test_divergence_table(
    own: Log, leaders: Log, leader_epoch: int, answers: list[tuple[int, int]], cuts: list[int]
) -> None:
    """Fetch by fetch the leader answers and the follower cuts as the table says; then the logs are equal."""
    bench = FollowerBench(log=own, leader_epoch=leader_epoch)
    leader = leader_log(*leaders, leader_epoch=leader_epoch)
    seen, cut = rounds_of(bench, leader)
    assert (seen, cut) == (answers, cuts)
    assert_equal(bench, leader)


def rounds_of(bench: FollowerBench, leader: LeaderLog) -> tuple[list[tuple[int, int]], list[int]]:
    """Let the two converse; return the answers about divergence, and where the log ended after each."""
    seen, ends = [], []
    for _ in range(20):
        asked = bench.fetches()
        answer = leader.answer(asked)
        assert isinstance(answer, m.FetchedPartition), answer
        assert answer.error is ErrorCode.NONE, answer
        bench.take(asked, answer)
        if answer.diverging_epoch is not None:
            seen.append((int(answer.diverging_epoch.epoch), int(answer.diverging_epoch.end_offset)))
            ends.append(bench.end)
        elif not answer.records:
            return seen, ends
    raise AssertionError(("no end", seen, ends))


def assert_equal(bench: FollowerBench, leader: LeaderLog) -> None:
    """The follower has the leader's log and the epochs of its records."""
    assert [each.data for each in bench.batches] == [each.data for each in leader.batches]
    written = tuple(entry for entry in bench.state.log.epochs.entries if entry.start_offset < bench.end)
    assert written == epochs_of(leader.batches)
    assert bench.ends == (leader.log_start, leader.high_watermark, leader.end)


@pytest.mark.parametrize(
    ("follower_epochs", "leaders", "cache_left"),
    [
        pytest.param({1: 0, 2: 2}, [(1, 4)], {1: 0}, id="leader_has_more_of_the_last_epoch"),
        pytest.param({1: 0, 2: 2}, [(1, 2), (3, 2)], {1: 0, 3: 2}, id="leader_went_on_in_a_later_epoch"),
        pytest.param({1: 0, 2: 2}, [(1, 1), (3, 1)], {1: 0, 3: 1}, id="leader_has_less"),
        pytest.param({2: 0}, [(1, 2)], {1: 0}, id="nothing_was_ever_written"),
    ],
)
def test_former_leader_without_a_record_in_its_epoch(
    follower_epochs: dict[int, int], leaders: Log, cache_left: dict[int, int]
) -> None:
    """An epoch that this replica began and never wrote in goes at the first answer, and nothing with it (KAFKA-10706).

    In particular the epoch before it keeps its start, although the new leader has more records of it.
    """
    own = [(1, 2)] if 1 in follower_epochs else []
    bench = FollowerBench(log=own, epochs=follower_epochs, leader_epoch=4)
    leader = leader_log(*leaders, leader_epoch=4)
    seen, _ = rounds_of(bench, leader)
    assert len(seen) == 1
    assert bench.epochs == cache_left
    assert_equal(bench, leader)


def test_only_what_is_cut_is_scanned_again() -> None:
    """A truncation of records has the producers read again; one that drops an empty epoch has not."""
    bench = FollowerBench(log=[(1, 2)], epochs={1: 0, 2: 2}, leader_epoch=4)
    bench.take(bench.fetches(), leader_log((1, 2), leader_epoch=4).answer(bench.fetches()))
    assert not [each for each in bench.effects if isinstance(each, Truncate | ScanProducers)]
    bench.take(asked := bench.fetches(), leader_log((1, 1), leader_epoch=4).answer(asked))
    assert [type(each) for each in bench.effects if isinstance(each, Truncate | ScanProducers)] == [
        Truncate,
        ScanProducers,
    ]


def test_batch_across_the_leaders_log_start() -> None:
    """Where the leader's log begins inside a batch of a log that has nothing in common with it, that begins anew.

    1. The follower has one batch of three records that nobody else has, 0 to 2.
    2. The leader had other records there, and has forgotten those below 2: that is all it can say of older epochs.
    3. There is no cutting at 2: the batch would go as a whole, and the log would end at 0.
    """
    bench = FollowerBench(batches=[encode_batch([b"v"] * 3, leader_epoch=2)], leader_epoch=5)
    leader = leader_log((5, 2), start=2)
    assert rounds_of(bench, leader) == ([(2, 2)], [2])
    assert (bench.ends, bench.epochs) == ((2, 4, 4), {5: 2})


# --- any two logs ---------------------------------------------------------------------------------------------------


Sizes = tuple[int, ...]
"""How many records each batch of one epoch has."""

History = Sequence[tuple[int, Sizes]]


@st.composite
def histories(draw: st.DrawFn) -> tuple[History, History, int | None]:
    """Draw two logs as leaders can have left them, and the epoch that the follower led without writing, if any.

    They have one common beginning, then epochs in which only one of the two was there. Of one epoch, one of them may
    have more batches than the other.
    """
    sizes = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
    common = [(epoch, draw(sizes)) for epoch in sorted(draw(st.sets(st.integers(0, 3), max_size=3)))]
    later = draw(st.dictionaries(st.integers(4, 9), st.booleans(), max_size=6))
    own = [*common, *((epoch, draw(sizes)) for epoch in sorted(later) if later[epoch])]
    leaders = [*common, *((epoch, draw(sizes)) for epoch in sorted(later) if not later[epoch])]
    if common and own == common:
        epoch, shared = own[-1]
        own[-1] = (epoch, draw(st.just(shared[:1]) | sizes.map(lambda more: shared + more)))
    free = [epoch for epoch in range(own[-1][0] + 1 if own else 0, 11) if epoch not in dict(leaders)]
    return own, leaders, draw(st.none() | st.sampled_from(free))


def encoded(history: History) -> list[RecordBatch]:
    batches: list[RecordBatch] = []
    for epoch, sizes in history:
        for size in sizes:
            end = batches[-1].end_offset if batches else 0
            batches.append(encode_batch([b"v"] * size, base_offset=end, leader_epoch=epoch))
    return batches


def common_end(own: Sequence[RecordBatch], leaders: Sequence[RecordBatch]) -> int:
    pairs = zip(own, leaders, strict=False)
    return max((mine.end_offset for mine, _ in takewhile(lambda pair: pair[0].data == pair[1].data, pairs)), default=0)


@given(drawn=histories(), data=st.data())
def test_any_two_logs_converge(drawn: tuple[History, History, int | None], data: st.DataObject) -> None:
    """Whatever the logs are and wherever they begin, the follower ends with the leader's and keeps what both had."""
    own, leaders, empty_epoch = encoded(drawn[0]), encoded(drawn[1]), drawn[2]
    common = common_end(own, leaders)
    leader_end = leaders[-1].end_offset if leaders else 0
    own_start = data.draw(st.integers(0, common))
    leader_start = data.draw(st.integers(0, leader_end))
    bench = follower_from(own_start, own, empty_epoch, data.draw(st.integers(own_start, common)))
    leader = leader_from(leader_start, leaders, data.draw(st.integers(leader_start, leader_end)))
    talk = converse(bench, leader)
    start = max(own_start, leader_start)
    assert bench.ends == (start, max(start, leader.high_watermark), leader.end)
    assert [each.data for each in bench.batches if each.end_offset > start] == [
        each.data for each in leaders if each.end_offset > start
    ]
    if leader_start <= common:
        assert min(asked.fetch_offset for asked, _ in talk if isinstance(asked, m.FetchPartition)) == common
    for offset in range(start, leader.end):
        assert bench.state.log.epochs.epoch_for_offset(Offset(offset)) == leader.cache.epoch_for_offset(Offset(offset))


def follower_from(
    start: int, batches: Sequence[RecordBatch], empty_epoch: int | None, high_watermark: int
) -> FollowerBench:
    cache = LeaderEpochCache(epochs_of(batches))
    if empty_epoch is not None:
        cache.assign(Epoch(empty_epoch), batches[-1].end_offset if batches else Offset(0))
    cache.truncate_from_start(Offset(start))
    return FollowerBench(
        batches=[each for each in batches if each.end_offset > start],
        log_start=start,
        epochs={entry.epoch: entry.start_offset for entry in cache.entries},
        high_watermark=high_watermark,
        leader_epoch=11,
    )


def leader_from(start: int, batches: Sequence[RecordBatch], high_watermark: int) -> LeaderLog:
    kept = [each for each in batches if each.end_offset > start]
    leader = LeaderLog(kept, leader_epoch=11, log_start=start, high_watermark=high_watermark)
    leader.cache = LeaderEpochCache(epochs_of(batches))
    leader.cache.assign(Epoch(11), Offset(leader.end))
    leader.cache.truncate_from_start(Offset(start))
    return leader
