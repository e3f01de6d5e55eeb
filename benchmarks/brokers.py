"""Real brokers on this machine for the time of a measurement, formatted and started as a user would.

Owns their processes, ports and data; whoever measures is told the addresses, and nothing is left behind.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

VOTERS = 3
"""The first so many vote on the metadata, too; the others are brokers only."""
STOP_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """Brokers that run: where they listen, and their processes, in the same order."""

    addresses: Sequence[str]
    processes: Sequence[subprocess.Popen[bytes]]


@contextmanager
def running(count: int) -> Iterator[Brokers]:
    """Run so many brokers, of a cluster named ``bench``; stop them in the end and delete what they have written."""
    folder = Path(tempfile.mkdtemp(prefix="highwater-bench-"))
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(1, count + 1):
            processes.append(_started(folder, number, addresses))
        yield Brokers(addresses=addresses, processes=processes)
    finally:
        _stop(processes)
        shutil.rmtree(folder)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _started(folder: Path, number: int, addresses: Sequence[str]) -> subprocess.Popen[bytes]:
    """Format and start one broker, with its log beside its data."""
    replica = str(Path(sys.executable).with_name("replica"))
    data = ["--data-dir", str(folder / str(number))]
    identity = ["--cluster-id", "bench", "--replica-id", str(number)]
    subprocess.run([replica, "format", *data, *identity], check=True, stdout=subprocess.DEVNULL)
    address = addresses[number - 1]
    voters = [word for voter, at in enumerate(addresses[:VOTERS], 1) for word in ("--voter", f"{voter}={at}")]
    roles = [] if number <= VOTERS else ["--roles", "broker", "--advertised-address", address]
    with (folder / f"{number}.log").open("wb") as log:
        command = [replica, "start", *data, "--listen", address, *voters, *roles]
        return subprocess.Popen(command, stdout=log, stderr=log)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Have all stop, and kill who does not in time."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
