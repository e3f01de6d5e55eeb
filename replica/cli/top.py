"""``replica top``: the brokers of a cluster at a glance, from their pages of metrics, anew every few seconds.

Owns the command and its output; what the numbers are is ``top_rows``'s. A page costs a replica what a scrape of
Prometheus does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from replica.cli.client import EXIT_INTERRUPTED, as_table
from replica.cli.help import example

if TYPE_CHECKING:
    from replica.cli.top_rows import Page


@click.command(
    epilog=example(
        "replica top --metrics 127.0.0.1:9301,127.0.0.1:9302,127.0.0.1:9303",
        "replica top --metrics 127.0.0.1:9301 --once",
    )
)
@click.option(
    "--metrics",
    required=True,
    multiple=True,
    metavar="HOST:PORT",
    envvar="REPLICA_METRICS",
    show_envvar=True,
    help="Where a replica serves its metrics (--metrics-listen); once per replica, or with commas.",
)
@click.option("--interval-ms", type=click.IntRange(min=100), default=2000, show_default=True, help="Between readings.")
@click.option("--once", is_flag=True, help="Print one table and end: rates are those of one interval.")
def top(metrics: tuple[str, ...], interval_ms: int, once: bool) -> None:
    """Show each broker's role, what it leads, what lags, and its rates, until Ctrl-C.

    Of a broker, LEADS and HOSTS count partitions, and UNDER-REPL those that it leads with too few in-sync replicas; LAG
    is the most that it has not fetched of any log, as the leaders see it. RECORDS/S are written to what it leads,
    CALLS/S and ERRORS/S are those of clients and replicas. In milliseconds, 99 in 100 of its flushes, and of the delays
    of its event loop (LOOP), were no longer. MIB is its resident memory. Exits with 1 if no page can be read.
    """
    from replica.cli.top_rows import read_page
    from replica.rpc.addresses import InvalidAddressError, check_address

    addresses = [address for entry in metrics for address in entry.replace(",", " ").split()]
    try:
        for address in addresses:
            check_address(address)
    except InvalidAddressError as error:
        raise click.UsageError(str(error)) from error

    def read() -> list[Page]:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(max_workers=len(addresses)) as readers:
            return list(readers.map(read_page, addresses))

    try:
        seen = watch(read, once=once, sleep=lambda: time.sleep(interval_ms / 1000))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(0 if any(page.failure is None for page in seen) else 1)


def watch(read: Callable[[], Sequence[Page]], *, once: bool, sleep: Callable[[], None]) -> Sequence[Page]:
    """Print a table after each reading but the first, in the place of the last one if this is a terminal."""
    from replica.cli.top_rows import failures_of, rows_of, summary_of

    before = read()
    while True:
        sleep()
        now = read()
        shown = "\n".join([summary_of(before, now), "", as_table(rows_of(before, now)), *failures_of(now)])
        if not once and sys.stdout.isatty():
            click.clear()
        click.echo(shown if once else f"{shown}\n")
        if once:
            return now
        before = now
