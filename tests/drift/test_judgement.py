"""Drift is found where there is some, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from nemesis.drift.judgement import Drift, judge, verdict_of
from nemesis.drift.series import Life, Series

WINDOW_S = 30.0
WHOLE = (60,)
MIB = float(1 << 20)


class At(NamedTuple):
    """When, in minutes: since the process began, and since the run did."""

    age: float
    time: float


Value = Callable[[At], float]


def series_of(windows: Sequence[int], value: Value, *, noise: float = 1.0, seed: int = 1) -> Series:
    """Resident memory of processes that lived so many windows one after the other: MiB by the time."""
    random, lives, begin = Random(seed), [], 0
    for count in windows:
        age_s = np.arange(0.5, count, dtype=np.float64) * WINDOW_S
        time_s = age_s + begin * WINDOW_S
        values = [
            MIB * (value(At(age / 60, time / 60)) + random.gauss(0, noise))
            for age, time in zip(age_s, time_s, strict=True)
        ]
        lives.append(Life(time_s=time_s, age_s=age_s, value=np.array(values)))
        begin += count
    return Series(quantity="resident_bytes", node=1, lives=tuple(lives))


@pytest.mark.parametrize(
    ("windows", "value", "expected"),
    [
        pytest.param(WHOLE, lambda _: 80, Drift.NONE, id="noise"),
        pytest.param(WHOLE, lambda at: 80 + at.age, Drift.FOUND, id="a leak of 1 MiB a minute"),
        pytest.param((20, 20, 20), lambda at: 80 + 2 * at.age, Drift.FOUND, id="a leak that restarts end"),
        pytest.param([6] * 10, lambda at: 80 + at.time, Drift.FOUND, id="each process takes more than the last"),
        pytest.param(WHOLE, lambda at: 120 - at.age, Drift.NONE, id="less and less"),
        pytest.param(WHOLE, lambda at: 80 + 30 * (1 - 2**-at.age), Drift.NONE, id="a warm-up"),
        pytest.param(WHOLE, lambda at: 80 + min(3 * at.age, 30), Drift.NONE, id="a long warm-up, and then no more"),
        pytest.param(WHOLE, lambda at: 80 + 30 * (at.time > 20), Drift.NONE, id="one step"),
        pytest.param(WHOLE, lambda at: 80 + 30 * (at.time % 5 < 1), Drift.NONE, id="up and down"),
        pytest.param(WHOLE, lambda at: 80 + at.time / 30, Drift.NONE, id="1 MiB in all, less than noise"),
        pytest.param([6] * 4, lambda _: 80, Drift.UNKNOWN, id="no process lived long enough"),
    ],
)
def test_a_rise_that_goes_on_is_drift_and_nothing_else_is(
    windows: Sequence[int], value: Value, expected: Drift
) -> None:
    """What rises within lives, or from life to life, to the end and by more than noise is drift; nothing else is."""
    for seed in range(20):
        judged = judge([series_of(windows, value, noise=0.3, seed=seed)], WINDOW_S)
        assert verdict_of(judged) is expected, [one.told for one in judged]


def test_a_quantity_that_nobody_could_judge_makes_a_steady_run_unknown() -> None:
    """A run has no drift only if every quantity of every replica was judged."""
    steady, short = series_of(WHOLE, lambda _: 80), series_of([6], lambda _: 80)
    assert verdict_of(judge([steady], WINDOW_S)) is Drift.NONE
    assert verdict_of(judge([steady, short], WINDOW_S)) is Drift.UNKNOWN
    assert verdict_of(judge([], WINDOW_S)) is Drift.UNKNOWN


def test_what_drifts_is_told_with_replica_and_figure() -> None:
    """A line names the quantity, the replica, how much it rose and in what time."""
    judged = judge([series_of(WHOLE, lambda at: 80 + at.age, noise=0.0)], WINDOW_S)
    assert judged[0].told.startswith("resident memory of replica 1, within a process: drift: median ")
    assert "+27.5 MiB in 27.5 min" in judged[0].told
