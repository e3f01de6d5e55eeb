"""A follower's log that begins anew: when the producers of what it held below are remembered, and when they are not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.effects import StartLogAt
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.records import encode_batch
from tests.core.partition.followers import FollowerBench, diverging, fetched, offset, refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A log of single records of epoch 1, and the answer after which it begins anew at ``start``."""

    log_start: int = 0
    count: int = 3
    high_watermark: int
    answer: m.FetchedPartition
    start: int
    keeps_producers: bool


def parted(end_offset: int, leader_start: int, *, epoch: int = 1) -> m.FetchedPartition:
    """The logs part at ``end_offset``, and the leader's begins at ``leader_start``."""
    return replace(diverging(epoch, end_offset), log_start_offset=Offset(leader_start))


WIDE_BATCH = fetched([encode_batch([b"a", b"b"], base_offset=2, leader_epoch=4)], high_watermark=4, log_start=3)
"""The leader's log begins inside a batch."""

CASES = {
    "cut_where_the_leader_begins_and_committed": Case(
        high_watermark=2, answer=parted(2, 2), start=2, keeps_producers=True
    ),
    "cut_where_the_leader_begins_and_in_doubt": Case(
        high_watermark=1, answer=parted(2, 2), start=2, keeps_producers=False
    ),
    "cut_below_the_leaders_start_with_records_missing": Case(
        high_watermark=2, answer=parted(1, 2), start=2, keeps_producers=False
    ),
    "cut_at_its_own_start": Case(log_start=4, high_watermark=5, answer=parted(4, 0), start=4, keeps_producers=True),
    "cut_below_its_own_start": Case(
        log_start=4, high_watermark=5, answer=parted(2, 0, epoch=0), start=2, keeps_producers=False
    ),
    "leaders_start_inside_a_batch_at_the_end_of_an_empty_log": Case(
        log_start=3, count=0, high_watermark=3, answer=WIDE_BATCH, start=2, keeps_producers=True
    ),
    "leaders_start_inside_a_batch_at_the_end_of_another_log": Case(
        high_watermark=3, answer=WIDE_BATCH, start=2, keeps_producers=False
    ),
    "end_where_the_leader_begins_in_doubt": Case(
        high_watermark=2, answer=fetched(high_watermark=3, log_start=3), start=3, keeps_producers=False
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_producers_are_remembered_where_all_that_is_dropped_below_is_committed(case: Case) -> None:
    """Below what was committed nothing is in doubt, and nothing is missing; else a memory would refuse or lie."""
    log = [(1, case.count)] if case.count else []
    bench = FollowerBench(log=log, log_start=case.log_start, high_watermark=case.high_watermark)
    bench.take(bench.fetches(), case.answer)
    found = [effect for effect in bench.effects if isinstance(effect, StartLogAt)]
    assert [(effect.start_offset, effect.keeps_producers) for effect in found] == [(case.start, case.keeps_producers)]


def test_producers_are_not_remembered_across_a_gap() -> None:
    """A log that ends below the leader's start lacks what came between: the next batch would seem out of order."""
    bench = FollowerBench(log=[(1, 3)], high_watermark=3)
    bench.take(bench.fetches(), refused(ErrorCode.OFFSET_OUT_OF_RANGE))
    for answer in (9, 7):
        request = bench.ask()
        assert isinstance(request, m.ListOffsetsRequest), request
        bench.take(request, offset(answer))
    (found,) = [effect for effect in bench.effects if isinstance(effect, StartLogAt)]
    assert (found.start_offset, found.keeps_producers) == (7, False)
