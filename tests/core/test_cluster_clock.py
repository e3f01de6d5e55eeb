"""The cluster's time of day: what clocks agree on, carried on by the clock that nobody sets."""

from __future__ import annotations

import pytest

from replica.core.cluster_clock import ClusterClock, agreed_offset_ms

DAYS_MS = 30 * 86_400_000


@pytest.mark.parametrize(
    ("offsets_ms", "brokers", "expected"),
    [
        pytest.param([7], 1, 7, id="alone"),
        pytest.param([], 0, None, id="nobody"),
        pytest.param([7], 2, None, id="one of two has told"),
        pytest.param([5, 7], 3, 5, id="two of three have told"),
        pytest.param([5, DAYS_MS], 2, 5, id="of two the one behind"),
        pytest.param([5, DAYS_MS, 7], 3, 7, id="one ahead"),
        pytest.param([5, -DAYS_MS, 7], 3, 5, id="one behind"),
        pytest.param([5, 6, DAYS_MS, DAYS_MS], 4, 6, id="half of them ahead"),
        pytest.param([5, DAYS_MS], 5, None, id="two of five have told"),
    ],
)
def test_what_clocks_agree_on(offsets_ms: list[int], brokers: int, expected: int | None) -> None:
    """The lower median, once more than half have told theirs: fewer than half cannot put it wrong."""
    assert agreed_offset_ms(offsets_ms, brokers=brokers) == expected


def test_the_clusters_time_is_carried_on() -> None:
    """Until the controller has told, one's own clock counts; from then on the cluster's, whatever one's own shows."""
    clock = ClusterClock(skew_max_ms=1000)
    assert (clock.unix_ms(0), clock.own_unix_ms(0), clock.is_known) == (None, None, False)
    clock.on_read(50_000, 10)
    assert (clock.unix_ms(30), clock.is_known) == (50_020, False)
    clock.on_told(80_000, 40)
    clock.on_read(50_000 + DAYS_MS, 50)
    assert (clock.unix_ms(60), clock.own_unix_ms(60)) == (80_020, 50_010 + DAYS_MS)


@pytest.mark.parametrize("by_ms", [DAYS_MS, -DAYS_MS, 1001])
def test_a_jump_is_noticed(by_ms: int) -> None:
    """The cluster's time is steady for as long as it has gone on as the monotonic clock does."""
    clock = ClusterClock(skew_max_ms=1000)
    clock.on_told(80_000, 0)
    clock.on_told(82_000, 1_000)
    assert clock.steady_ms(1_000) is None
    clock.on_told(83_000 + by_ms, 2_000)
    assert (clock.steady_ms(2_000), clock.steady_ms(5_000)) == (0, 3_000)
    clock.on_told(93_000 + by_ms, 12_000)
    assert clock.steady_ms(12_000) == 10_000
