"""Virtual time: the order of what happens, and the clocks that machines read it by."""

from __future__ import annotations

import pytest

from nemesis.simulator.queue import NEVER_US, EventQueue, NodeClock


def test_things_happen_in_the_order_of_time_then_of_being_put_down() -> None:
    """Two things due at once happen in the order in which they were put down, whatever was put down before them."""
    queue, seen = EventQueue(), list[str]()
    queue.at(20, lambda: seen.append("late"))
    queue.at(10, lambda: seen.append("first"))
    queue.at(10, lambda: seen.append("second"))
    queue.run_until(15)
    assert (seen, queue.now_us) == (["first", "second"], 15)
    queue.run_until(30)
    assert (seen, queue.now_us, queue.happened) == (["first", "second", "late"], 30, 3)


def test_what_is_due_in_the_past_happens_next() -> None:
    """Time never goes back, even for what should have happened already."""
    queue, seen = EventQueue(), list[int]()
    queue.run_until(100)
    queue.at(5, lambda: seen.append(queue.now_us))
    queue.run_until(101)
    assert seen == [100]


def test_a_run_ends_early_where_its_condition_holds() -> None:
    """The clock stands at the moment at which the condition came true."""
    queue, seen = EventQueue(), list[int]()
    for due_us in (10, 20, 30):
        queue.at(due_us, lambda: seen.append(queue.now_us))
    assert queue.run_until(100, lambda: len(seen) == 2)
    assert (seen, queue.now_us) == ([10, 20], 20)


@pytest.mark.parametrize("drift_ppm", [-100_000, -7, 0, 13, 100_000])
@pytest.mark.parametrize("offset_ms", [0, 123_457])
def test_a_timer_is_due_when_the_clock_shows_its_time(drift_ppm: int, offset_ms: int) -> None:
    """At the instant named for a local time the clock shows it, and a millisecond before it does not yet."""
    clock = NodeClock(offset_ms=offset_ms, drift_ppm=drift_ppm)
    for local_ms in (offset_ms + 1, offset_ms + 999, offset_ms + 61_234):
        due_us = clock.world_us(local_ms)
        assert clock.now_ms(due_us) >= local_ms
        assert clock.now_ms(due_us - 2_000) < local_ms


def test_a_jump_brings_timers_forward() -> None:
    """After a leap of the clock what it shows has leapt, and never back."""
    clock = NodeClock(offset_ms=0, drift_ppm=0)
    clock.jump(500)
    assert clock.now_ms(1_000_000) == 1500
    assert clock.world_us(1500) <= 1_000_001
    with pytest.raises(AssertionError):
        clock.jump(-1)


@pytest.mark.parametrize("drift_ppm", [-100_000, 0, 13])
def test_a_clock_that_stood_still_counts_on_from_there(drift_ppm: int) -> None:
    """While it stands it shows the same and nothing to come is ever due; then it counts as before, and makes up for
    nothing.
    """
    clock, runs_on = NodeClock(offset_ms=7, drift_ppm=drift_ppm), NodeClock(offset_ms=7, drift_ppm=drift_ppm)
    shown_ms = clock.now_ms(1_000_000)
    clock.stop(0, 1_000_000)
    assert clock.now_ms(4_000_000) == shown_ms
    assert clock.world_us(shown_ms) <= 1_000_000
    assert clock.world_us(shown_ms + 1) == NEVER_US
    clock.go_on(0, 4_000_000)
    assert clock.now_ms(4_000_000) == shown_ms
    assert abs(clock.now_ms(9_000_000) - runs_on.now_ms(6_000_000)) <= 1
    due_us = clock.world_us(shown_ms + 500)
    assert clock.now_ms(due_us) >= shown_ms + 500
    assert clock.now_ms(due_us - 2_000) < shown_ms + 500
