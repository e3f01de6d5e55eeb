"""Measure Highwater and its peers, write the figures as JSON, and draw them: ``python -m benchmarks.peers``.

Owns the options. Leaves its figures in ``store/bench-peers.json``, and with ``--table`` a table and a chart in a page.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from benchmarks.peers.chart import chart_of
from benchmarks.peers.rows import ROWS
from benchmarks.peers.system import System
from benchmarks.peers.table import table_of, with_table
from benchmarks.peers.turns import SYSTEMS, Measured, Plan, described, document, measure
from benchmarks.result import write_result

QUICK = {"rounds": 1, "warm_up": 1.0, "seconds": 0.5, "kills": 0}
SYSTEM_NAMES = {kind.__name__.lower(): kind for kind in SYSTEMS}
ROW_NAMES = {row.name: row for row in ROWS}
_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--system", "systems", multiple=True, type=click.Choice(list(SYSTEM_NAMES)), help="Only it.")
@click.option("--row", "rows", multiple=True, type=click.Choice(list(ROW_NAMES)), help="Only it.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--warm-up", type=click.FloatRange(0), default=8.0, show_default=True, help="Seconds after a start.")
@click.option("--seconds", type=click.FloatRange(0.1), default=3.0, show_default=True, help="Of each row.")
@click.option("--kills", type=click.IntRange(0), default=2, show_default=True, help="Of each leader in a round.")
@click.option("--quick", is_flag=True, help="One round of half a second a row, without kills: a minute or two.")
@click.option("--output", type=_file, default=Path("store/bench-peers.json"), show_default=True)
@click.option("--table", type=_file, metavar="FILE", help="Write table and chart into this page of Markdown.")
@click.option(
    "--read", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Take the figures from there."
)
def main(
    systems: Sequence[str],
    rows: Sequence[str],
    output: Path,
    table: Path | None,
    read: Path | None,
    quick: bool,
    **how_long: Any,
) -> None:
    """Measure each system in turn, on this machine. What is not installed is left out, and told."""
    if read is None:
        wanted = [SYSTEM_NAMES[name] for name in systems or SYSTEM_NAMES]
        there = [kind for kind in wanted if not told_missing(kind)]
        taken = [ROW_NAMES[name] for name in rows or ROW_NAMES]
        run(Plan(systems=there, rows=taken, **(QUICK if quick else how_long)), wanted, output)
    if table is not None:
        draw(json.loads((read or output).read_text(encoding="utf-8")), table)


def told_missing(kind: type[System]) -> bool:
    """Whether a system cannot be measured here; what is missing is told."""
    missing = kind.missing()
    if missing:
        click.echo(f"{kind.name} is left out: {missing}")
    return missing is not None


def run(plan: Plan, known: Sequence[type[System]], output: Path) -> None:
    """Measure, and write the figures."""
    load_before = round(os.getloadavg()[0], 2)
    systems = [described(kind) for kind in known]  # Of a checkout, which may be another one when all is measured.
    measured = event_loop()(partial(measure, plan, click.echo))
    write_result(
        output,
        date=datetime.now(UTC).date().isoformat(),
        processor=processor(),
        load_before=load_before,
        event_loop=event_loop_name(),
        **document(plan, measured, systems),
    )


def draw(found: dict[str, Any], table: Path) -> None:
    """Write the table between the page's markers, and the chart beside the page."""
    chart = table.with_suffix(".svg")
    chart.write_text(chart_of(found), encoding="utf-8")
    page = table.read_text(encoding="utf-8")
    table.write_text(with_table(page, table_of(found, Path(chart.name))), encoding="utf-8")
    click.echo(f"table: {table}")
    click.echo(f"chart: {chart}")


def event_loop() -> Callable[[Callable[[], Coroutine[Any, Any, Measured]]], Measured]:
    """What runs the measurement: uvloop where it can be had, for all systems alike."""
    if find_spec("uvloop") is None:
        return lambda work: asyncio.run(work())
    import uvloop

    return lambda work: uvloop.run(work())


def event_loop_name() -> str:
    """What the clients' event loop is."""
    return "asyncio" if find_spec("uvloop") is None else f"uvloop {version('uvloop')}"


def processor() -> str:
    """What the kernel says that it is."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    main()
