"""What only a cluster of partitions can do wrong: hand-made runs that show it, and runs that only look like it."""

from __future__ import annotations

import pytest

from tests.checks.histories import Row, append, final_isr, judge, names, poll, replica_log, told

Numbers = tuple[int, int, int] | None
Cut = tuple[list[Row], list[str]]


def numbered(replica_id: int, *batches: tuple[list[int], Numbers], **fields: object) -> list[Row]:
    """A replica's log of epoch 1, each batch with its producer id, producer epoch and first number."""
    rows = replica_log(replica_id, [(1, values) for values, _ in batches], **fields)
    for row, (_, numbers) in zip(rows, batches, strict=True):
        if numbers is not None:
            row |= dict(zip(("producer_id", "producer_epoch", "base_sequence"), numbers, strict=True))
    return rows


def appends(*values: int) -> list[Row]:
    """Appends of unknown outcome, one for each value."""
    return [append((2 * at, None), value, type="info", process=at) for at, value in enumerate(values)]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([([10], (7, 0, 0)), ([11], (7, 0, 1)), ([12], None)], []),
        ([([10], (7, 0, 0)), ([11], (8, 0, 0)), ([12], (7, 0, 1))], []),
        ([([10], (7, 0, 0)), ([11], (7, 1, 0))], []),
        ([([10], (7, 0, 40)), ([11], (7, 0, 41))], []),
        ([([10, 11], (7, 0, 2**31 - 2)), ([12], (7, 0, 0))], []),
        ([([10], (7, 0, 0)), ([11], (7, 0, 0))], ["duplicate-sequence"]),
        ([([10, 11], (7, 0, 0)), ([12], (7, 0, 1))], ["duplicate-sequence"]),
        ([([10], (7, 0, 0)), ([11], (8, 0, 3)), ([12], (7, 0, 0))], ["duplicate-sequence"]),
        ([([10], (7, 0, 0)), ([11], (7, 0, 2))], ["out-of-order-sequence"]),
        ([([10, 11], (7, 0, 2**31 - 2)), ([12], (7, 0, 5))], ["out-of-order-sequence"]),
        ([([10], (7, 0, 3)), ([11], (7, 1, 4))], ["out-of-order-sequence"]),
        ([([10], (7, 1, 0)), ([11], (7, 0, 0))], ["out-of-order-sequence"]),
    ],
)
def test_a_producers_batches_stand_once_and_in_order(
    batches: list[tuple[list[int], Numbers]], expected: list[str]
) -> None:
    """Each number of a producer epoch stands once and behind the one before; a producer may begin anywhere."""
    values = [value for group, _ in batches for value in group]
    assert names(judge(appends(*values), numbered(1, *batches))) == expected


def test_what_is_not_committed_may_be_a_duplicate() -> None:
    """Above its high watermark a replica vouches for nothing: a tail may hold what was sent again elsewhere."""
    log = numbered(1, ([10], (7, 0, 0)), ([11], (7, 0, 0)), high_watermark=1)
    assert names(judge(appends(10, 11), log)) == []


def said(time_ns: int, offset: int, replica_id: int = 1, epoch: int = 3, role: str = "leader") -> Row:
    """A replica said that this was its high watermark."""
    return told(replica_id, "high-watermark", time_ns, epoch=epoch, offset=offset, detail=role)


def cut(time_ns: int, offset: int, replica_id: int = 1) -> Row:
    """A replica cut its log."""
    return told(replica_id, "truncated", time_ns, offset=offset)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([said(1, 4), said(2, 4), said(3, 9)], []),
        ([said(1, 9), said(2, 4, epoch=4)], []),
        ([said(1, 9), said(2, 4, replica_id=2)], []),
        ([said(1, 9, role="follower"), said(2, 4, role="follower")], []),
        ([said(1, 9), said(2, 4)], ["high-watermark-regression"]),
        ([said(2, 4), said(1, 9)], ["high-watermark-regression"]),
        ([said(1, 4), cut(2, 4)], []),
        ([said(2, 9), cut(1, 4)], []),
        ([said(1, 9), cut(2, 4, replica_id=2)], []),
        ([said(1, 9), cut(2, 4)], ["committed-truncated"]),
        ([said(1, 9, role="follower"), said(2, 5, role="follower"), cut(3, 7)], ["committed-truncated"]),
    ],
)
def test_what_was_said_to_be_committed_stays(events: list[Row], expected: list[str]) -> None:
    """A leader's high watermark does not fall in its epoch, and nobody cuts below what it has told before."""
    assert names(judge([], events=events)) == expected


def claimed(*isr: int, offset: int | None = None, restored: bool = True) -> Row:
    """What the metadata said in the end of a log that replicas 1, 2 and 3 have."""
    return final_isr(1, isr, offset, replicas=[1, 2, 3], restored=restored, after_s=45.0)


TWO = [append((0, 1), 10, 0), append((2, 3), 11, 1), poll((4, 5), 0, (0, 10), (1, 11))]
WHOLE, SHORT = [(1, [10]), (1, [11])], [(1, [10])]


@pytest.mark.parametrize(
    ("claim", "third", "expected"),
    [
        (claimed(1, 2, 3, offset=2), replica_log(3, WHOLE), []),
        (claimed(1, 2, offset=2, restored=False), replica_log(3, SHORT), ["isr-not-restored?"]),
        (claimed(1, 2, 3, offset=2), replica_log(3, SHORT), ["incomplete-isr", "lost-write"]),
        (claimed(1, 2, 3, offset=2), replica_log(3, SHORT, complete=False), []),
        (claimed(1, 2, 3), replica_log(3, SHORT), ["incomplete-isr", "lost-write"]),
        (claimed(1, 2, 3, offset=3), replica_log(3, WHOLE), ["incomplete-isr"]),
        (
            claimed(1, 2, 3, offset=2, restored=False),
            replica_log(3, SHORT),
            ["incomplete-isr?", "isr-not-restored?", "lost-write?"],
        ),
    ],
)
def test_whoever_is_in_sync_has_all_that_is_committed(claim: Row, third: list[Row], expected: list[str]) -> None:
    """A member of the final ISR holds what was acknowledged or read, and what its leader said to be committed."""
    logs = replica_log(1, WHOLE) + replica_log(2, WHOLE) + third
    assert names(judge(TWO, logs, [claim])) == expected


def test_without_an_isr_a_minority_may_lack_a_record() -> None:
    """A log without an ISR is a quorum's: a replica of three that is behind proves nothing."""
    logs = replica_log(1, WHOLE) + replica_log(2, WHOLE) + replica_log(3, SHORT)
    assert names(judge(TWO, logs)) == []
    in_sync = judge(TWO, logs, [claimed(1, 2, restored=False)])
    assert names(in_sync) == ["isr-not-restored?"]


def test_a_majority_without_a_record_is_no_loss_where_the_isr_has_it() -> None:
    """With a small ISR most replicas may be behind: those in sync keep what was acknowledged."""
    logs = replica_log(1, WHOLE) + replica_log(2, SHORT) + replica_log(3, SHORT)
    assert names(judge(TWO, logs, [claimed(1, restored=False)])) == ["isr-not-restored?"]
    assert names(judge(TWO, logs)) == ["lost-write"]
