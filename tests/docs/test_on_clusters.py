"""The commands that need a cluster, as they stand on the quick start's page and on that of the clients."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.client.test_docs import wait_active
from tests.depth import is_night
from tests.docs.commands import OURS, shown_on
from tests.server.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
ELSEWHERE = ("nemesis sim ", "nemesis story ")
"""What needs no cluster is done by ``test_commands``."""
MAY_BE_REFUSED = ("--cancel", "--type unclean")
"""What is there to be done only sometimes; else it is refused with a sentence."""
FEWER = "" if is_night() else " --rate 50"
"""What is added to a run: with the load of the page two cores have nothing left for others."""


def lines_of(page: str, *, after: str) -> list[str]:
    """The lines of a shell below a heading."""
    path = ROOT / "docs" / page
    first = path.read_text(encoding="utf-8").splitlines().index(after)
    return [shown.text for shown in shown_on(path, ROOT) if shown.line > first]


def told_by(lines: list[str], folder: Path, more: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Each line, how it ended and what it said, when one shell does them all in an empty folder."""
    binaries = folder / "bin"
    binaries.mkdir()
    for program in OURS:
        (binaries / program).write_text(f'#!/bin/sh\nexec {sys.executable} -m {program}.cli "$@"\n', encoding="utf-8")
        (binaries / program).chmod(0o755)
    path = {"PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    script = "".join(f"{line}\nprintf '\\1%d\\2' $?\n" for line in lines)
    done = subprocess.run(
        ["bash", "-m", "-c", script],
        cwd=folder,
        env={**os.environ, **path, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    said = [piece.rpartition("\1") for piece in done.stdout.split("\2")[:-1]]
    return [(line, int(code), text) for line, (text, _, code) in zip(lines, said, strict=True)]


def test_the_quick_start_is_quick_and_true(tmp_path: Path) -> None:
    """Each of its commands ends as the page says: one run is valid, one is convicted, and what is written is read."""
    lines = lines_of("quick-start.md", after="## Break a cluster")
    runs = [line + FEWER * line.startswith("nemesis run ") for line in lines if not line.startswith(ELSEWHERE)]
    told = told_by(runs, tmp_path, {})
    codes = {line: code for line, code, _ in told}
    convicted = next(line for line in codes if "--variant" in line)
    assert {line: code for line, code in codes.items() if code != 0} == {convicted: 1}, told
    assert "apple" in told[-2][2]
    assert "pear" in told[-2][2]


def test_the_commands_of_clients_are_done(tmp_path: Path) -> None:
    """Each of them is done by three brokers in that order, but for those that need what is not there."""
    with LocalCluster(tmp_path / "cluster", size=3) as cluster:
        cluster.format()
        cluster.start(options=("--group", "kv=key-value"))
        asyncio.run(wait_active(next(iter(cluster.addresses.values())), 3))
        addresses = ",".join(cluster.addresses.values())
        lines = lines_of("clients.md", after="## On the command line")
        told = told_by(lines, tmp_path, {"REPLICA_BOOTSTRAP": addresses})
    failed = [each for each in told if each[1] != 0 and not any(word in each[0] for word in MAY_BE_REFUSED)]
    assert failed == []
    assert len(told) > 30
