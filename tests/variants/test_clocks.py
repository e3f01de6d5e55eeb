"""A replica's clocks that are set while it runs: what they say, and how long a driver waits by them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nemesis.faults.dials import Dials, set_dials
from nemesis.variants.clocks import LOOK_S, DialledClocks
from replica.core.events import Event, Ticked
from replica.ids import ReplicaId
from replica.server.clocks import MACHINE_CLOCKS, Clocks
from replica.server.driver import Driver
from tests.server.driver_fakes import FakeStorage, FakeTransport, FakeWatch, NotingObserver, knowing_nobody

MS = 1_000_000
PATIENCE_S = 10.0


class Bench:
    """Clocks over a machine whose time goes on when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "clocks"
        self.count_ns, self.date_ns = 500 * MS, 9_000 * MS
        self.clocks = self.new_clocks()

    def new_clocks(self) -> DialledClocks:
        """Those of another process on the same machine."""
        return DialledClocks(self.path, lambda: self.count_ns, lambda: self.date_ns)

    def go_on(self, by_ms: int) -> int:
        """Let the machine's time go on; what the timers' clock has counted meanwhile, in milliseconds."""
        before = self.clocks.monotonic_ms()
        self.count_ns += by_ms * MS
        self.date_ns += by_ms * MS
        return self.clocks.monotonic_ms() - before


def test_clocks_that_nobody_sets_are_the_machine_s(tmp_path: Path) -> None:
    """Without settings they count and date as the machine does."""
    bench = Bench(tmp_path)

    assert (bench.clocks.monotonic_ms(), bench.clocks.unix_ms()) == (500, 9_000)
    assert bench.go_on(70) == 70
    assert bench.clocks.unix_ms() == 9_070


@pytest.mark.parametrize(("percent", "counted"), [(0, 0), (10, 10), (100, 100), (250, 250)])
def test_a_rate_counts_from_when_it_is_set(tmp_path: Path, percent: int, counted: int) -> None:
    """Whatever the rate, nothing that was counted is lost; afterwards the clock counts as it should, from there on."""
    bench = Bench(tmp_path)
    begin = bench.clocks.monotonic_ms()

    set_dials(bench.path, Dials(percent=percent))
    assert bench.go_on(100) == counted
    set_dials(bench.path, Dials())
    assert bench.go_on(40) == 40

    assert bench.clocks.monotonic_ms() == begin + counted + 40


def test_a_clock_leaps_once_and_never_back(tmp_path: Path) -> None:
    """Each leap counts once, also when other settings change; one that is less than before moves nothing."""
    bench = Bench(tmp_path)
    begin = bench.clocks.monotonic_ms()

    for dials, leapt in (
        (Dials(leaps_ms=300), 300),
        (Dials(leaps_ms=300, wall_ms=5), 300),
        (Dials(leaps_ms=1000), 1000),
        (Dials(), 1000),
    ):
        set_dials(bench.path, dials)
        assert bench.clocks.monotonic_ms() == begin + leapt


def test_another_process_begins_without_the_leaps_that_were(tmp_path: Path) -> None:
    """A replica that starts counts from the machine's time at the rate that is set: leaps are done with."""
    bench = Bench(tmp_path)
    set_dials(bench.path, Dials(leaps_ms=300, percent=200, wall_ms=7))

    bench.clocks = bench.new_clocks()

    assert bench.clocks.monotonic_ms() == 500
    assert bench.clocks.unix_ms() == 9_007
    assert bench.go_on(10) == 20


@pytest.mark.parametrize("wall_ms", [-8_000, 3_600_000])
def test_a_wall_clock_goes_either_way_and_comes_back(tmp_path: Path, wall_ms: int) -> None:
    """The date is off by what is set and true again without; timers do not notice."""
    bench = Bench(tmp_path)

    set_dials(bench.path, Dials(wall_ms=wall_ms))
    assert (bench.clocks.monotonic_ms(), bench.clocks.unix_ms()) == (500, 9_000 + wall_ms)
    set_dials(bench.path, Dials())

    assert (bench.clocks.monotonic_ms(), bench.clocks.unix_ms()) == (500, 9_000)


@pytest.mark.parametrize(
    ("percent", "left_ms", "seconds"),
    [(100, 20, 0.02), (1000, 100, 0.01), (50, 10, 0.02), (100, 60_000, LOOK_S), (0, 1, LOOK_S), (100, -5, 0)],
)
def test_a_wait_is_as_long_as_the_clock_takes(tmp_path: Path, percent: int, left_ms: int, seconds: float) -> None:
    """So many seconds of the machine as the clock needs for that, and no more than until the next look."""
    bench = Bench(tmp_path)
    set_dials(bench.path, Dials(percent=percent))

    assert bench.clocks.seconds_until(bench.clocks.monotonic_ms() + left_ms) == pytest.approx(seconds)


class WaitingCore:
    """Wants to be called at one time, and notes when it is."""

    def __init__(self, deadline_ms: int) -> None:
        self.came = asyncio.Event()
        self._wanted_ms = deadline_ms
        self.watched_peers: frozenset[ReplicaId] = frozenset()

    @property
    def deadline_ms(self) -> int | None:
        return None if self.came.is_set() else self._wanted_ms

    def step(self, event: Event, now_ms: int) -> tuple[()]:
        if isinstance(event, Ticked) and now_ms >= self._wanted_ms:
            self.came.set()
        return ()


async def came_within(clocks: Clocks, deadline_ms: int, at_most_s: float, meanwhile: Dials, path: Path) -> bool:
    """Let a driver wait by these clocks, and set them while it does; whether its core was called in time."""
    core = WaitingCore(deadline_ms)
    driver = Driver(
        core=core,
        storage=FakeStorage(),
        transport=FakeTransport(),
        observer=NotingObserver(),
        watch=FakeWatch(),
        leaders=knowing_nobody(),
        clocks=clocks,
    )
    driver.start()
    set_dials(path, meanwhile)
    try:
        async with asyncio.timeout(at_most_s):
            await core.came.wait()
    except TimeoutError:
        return False
    finally:
        await driver.stop()
    return True


async def test_a_driver_that_waits_notices_a_leap(tmp_path: Path) -> None:
    """What is due in an hour is due at once when the clock leaps an hour ahead while the driver waits."""
    path = tmp_path / "clocks"
    clocks = DialledClocks(path)
    hour_ms = 3_600_000
    due_ms = clocks.monotonic_ms() + hour_ms

    assert await came_within(clocks, due_ms, PATIENCE_S, Dials(leaps_ms=hour_ms), path)


async def test_a_driver_waits_for_good_by_a_clock_that_stands_still(tmp_path: Path) -> None:
    """What is due in 50 milliseconds is not due after ten times as long when the clock stands still meanwhile."""
    path = tmp_path / "clocks"
    clocks = DialledClocks(path)
    set_dials(path, Dials(percent=0))

    assert not await came_within(clocks, clocks.monotonic_ms() + 50, 0.5, Dials(percent=0, wall_ms=1), path)


async def test_a_driver_goes_by_the_machine_s_clocks_otherwise(tmp_path: Path) -> None:
    """The clocks of a plain replica know of no settings."""
    path = tmp_path / "clocks"

    assert await came_within(MACHINE_CLOCKS, MACHINE_CLOCKS.monotonic_ms() + 20, PATIENCE_S, Dials(percent=0), path)
