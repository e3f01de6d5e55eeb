"""Pictures of the pages that Highwater writes, taken anew of runs that are recorded for them: ``make screenshots``.

Owns which pages there are and in which windows they are looked at. Runs, a history with a planted anomaly and a story
are made by the commands that a user would type. Needs Chromium, and takes about three minutes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import click
from playwright.sync_api import Browser, sync_playwright

from benchmarks.synth.__main__ import synth
from tests.browser import NARROW, WIDE, chromium_path

WINDOWS = {"1400": WIDE, "500": NARROW}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MORE = (
    ("run", "--workload", "register", "--nemesis", "partition,kill", "--time-limit", "10", "--seed", "3"),
    ("run", "--nemesis", "pause", "--time-limit", "10", "--seed", "4"),
    ("run", "--schedule", "isolated-leader", "--seed", "5"),
)
"""Runs that are seen in the list only."""
VALID = ("run", "--nemesis", "partition,kill,pause", "--time-limit", "20", "--seed", "7")
INVALID = ("run", "--variant", "truncate-to-high-watermark", "--seed", "1")
PLANTED = ("--model", "cas-register", "--operations", "400", "--keys", "1", "--anomaly", "stale-read")
PORT = "8497"
LIVE_S = 12.0
"""So long after it was begun a run that goes on has something to show."""


@click.command()
@click.argument("output", type=click.Path(path_type=Path))
def main(output: Path) -> None:
    """Write a picture of each page, in each window and colour scheme, into the folder OUTPUT."""
    path = chromium_path()
    if path is None:
        raise click.UsageError("no Chromium is installed: on Debian it is the package chromium")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        folder = Path(scratch)
        pages = {name: page.as_uri() for name, page in _written(folder).items()}
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, address in pages.items():
            _pictures(browser, name, address, output)
        for arguments in MORE:
            _nemesis(*arguments, "--store", str(folder / "store"))
        with _served(folder / "store") as address:
            _pictures(browser, "runs", address, output)
            with _running(folder / "store") as run:
                _pictures(browser, "live", f"{address}runs/{run.relative_to(folder / 'store')}", output)
        browser.close()


def _written(folder: Path) -> Mapping[str, Path]:
    """The pages that are files."""
    store, history = folder / "store", folder / "planted.edn"
    runs = {}
    for name, arguments, status in (("report-valid", VALID, 0), ("report-invalid", INVALID, 1)):
        before = _runs(store)
        _nemesis(*arguments, "--store", str(store), status=status)
        (run,) = _runs(store) - before
        runs[name] = run / "report.html"
    synth.main([*PLANTED, "--output", str(history)], standalone_mode=False)
    _nemesis("check", str(history), "--model", "cas-register", "--html", str(folder / "conviction.html"), status=1)
    _nemesis("story", "data-loss", "--html", str(folder / "story.html"))
    return {**runs, "conviction": folder / "conviction.html", "story": folder / "story.html"}


def _runs(store: Path) -> set[Path]:
    return {path.parent.resolve() for path in store.glob("*/*/test.json") if not path.parent.is_symlink()}


def _nemesis(*arguments: str, status: int = 0) -> None:
    click.echo(f"nemesis {' '.join(arguments)}")
    command = (sys.executable, "-m", "nemesis.cli", *arguments)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != status:
        raise click.ClickException(f"it ended with {done.returncode}, not {status}:\n{done.stdout}{done.stderr}")


@contextmanager
def _served(store: Path) -> Iterator[str]:
    command = (sys.executable, "-m", "nemesis.cli", "serve", "--store", str(store), "--port", PORT)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        time.sleep(3)
        yield f"http://127.0.0.1:{PORT}/"
        server.terminate()


@contextmanager
def _running(store: Path) -> Iterator[Path]:
    """A run that goes on, when it has something to show."""
    before = _runs(store)
    command = (sys.executable, "-m", "nemesis.cli", *VALID, "--store", str(store))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        time.sleep(LIVE_S)
        (found,) = _runs(store) - before
        yield found
        run.wait()


def _pictures(browser: Browser, name: str, address: str, output: Path) -> None:
    for width, window in WINDOWS.items():
        for scheme in SCHEMES:
            context = browser.new_context(viewport=window, color_scheme=scheme)
            page = context.new_page()
            page.goto(address)
            page.wait_for_timeout(1_000)
            page.screenshot(path=output / f"{name}-{width}-{scheme}.png")
            context.close()
    click.echo(f"{name}: {len(WINDOWS) * len(SCHEMES)} pictures")


if __name__ == "__main__":
    main()
