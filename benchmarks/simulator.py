"""How fast the simulator is: seeds a minute and simulated seconds a second, with one process and with two.

Owns the measurement and its figures in ``store/bench.json``. The same seeds every time, of the right protocol under the
default hostility; processes are warm before the clock starts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from benchmarks.result import write_result
from nemesis.simulator.corpus import SeedResult, run_seed
from nemesis.simulator.run import SimOptions
from nemesis.simulator.sweep import Lost, Workers
from nemesis.simulator.tally import speed

JOBS = (1, 2)


def measure(jobs: int, seeds: int) -> Mapping[str, float]:
    """The speed of a sweep over the seeds from 1."""
    work = partial(run_seed, SimOptions(seed=0), False)
    with Workers(jobs) as workers:
        list(results(workers.in_order(work, range(1, 2 * jobs + 1))))
        begun_s = time.perf_counter()
        simulated_ms = sum(result.row.simulated_ms for result in results(workers.in_order(work, range(1, seeds + 1))))
        return speed(seeds, simulated_ms, time.perf_counter() - begun_s)


def results(pairs: Iterator[tuple[int, SeedResult | Lost]]) -> Iterator[SeedResult]:
    """The results of a sweep in which nothing may go wrong."""
    for seed, result in pairs:
        if isinstance(result, Lost):
            raise click.ClickException(f"seed {seed}: {result.error}")
        yield result


def compared(seeds: int, speeds: Sequence[Mapping[str, float]]) -> dict[str, object]:
    """The figures by the number of processes, and how many times as fast the most are."""
    by_jobs = {f"jobs_{jobs}": dict(found) for jobs, found in zip(JOBS, speeds, strict=True)}
    ratio = speeds[-1]["seeds_per_minute"] / speeds[0]["seeds_per_minute"]
    return {"seeds": seeds, "time_limit_s": SimOptions(seed=0).time_limit_s, **by_jobs, "ratio": round(ratio, 2)}


@click.command()
@click.option("--seeds", type=click.IntRange(10), default=300, show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench.json"))
def main(seeds: int, output: Path) -> None:
    """Measure the simulator, print the figures and write them as JSON."""
    speeds = [measure(jobs, seeds) for jobs in JOBS]
    for jobs, found in zip(JOBS, speeds, strict=True):
        click.echo(
            f"{jobs} processes: {found['seeds_per_minute']:.0f} seeds a minute, "
            f"{found['simulated_s_per_wall_s']:.0f} simulated seconds a second"
        )
    write_result(output, simulator=compared(seeds, speeds))


if __name__ == "__main__":
    main()
