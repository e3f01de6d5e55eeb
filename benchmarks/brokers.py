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
from dataclasses import dataclass, replace
from pathlib import Path

from replica.cli.certs import make_certificates
from replica.rpc.tls import TlsFiles
from replica.storage.meta_properties import random_directory_id

VOTERS = 3
"""The first so many vote on the metadata, too; the others are brokers only."""
STOP_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """Brokers that run: where they listen, their processes, in the same order, and the folder of their data.

    ``peer_addresses`` are where replicas reach them; the same, unless they have listeners of their own for that.
    ``program`` is what runs in the place of ``replica``. ``certificates`` are in a folder, if there are any.
    """

    addresses: Sequence[str]
    peer_addresses: Sequence[str]
    processes: list[subprocess.Popen[bytes]]
    folder: Path
    options: Sequence[str]
    program: Sequence[str]
    certificates: Path | None = None

    def files_of(self, name: str) -> TlsFiles | None:
        """By which somebody of this name is known; absent without certificates."""
        folder = self.certificates
        if folder is None:
            return None
        return TlsFiles(
            ca_file=folder / "ca.pem", cert_file=folder / f"{name}.pem", key_file=folder / f"{name}-key.pem"
        )

    def start_all(self) -> None:
        """Start them all; none may be running."""
        self.processes[:] = [self._started(number) for number in range(1, len(self.addresses) + 1)]

    def kill(self, number: int) -> None:
        """End one, counted from 1, as it stands."""
        self.processes[number - 1].kill()
        self.processes[number - 1].wait()

    def start(self, number: int) -> None:
        """Start one, counted from 1, again."""
        self.processes[number - 1] = self._started(number)

    def kill_all(self) -> None:
        """End them all at once, as they stand."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        """Start one, with its log beside its data."""
        address, peer_address = self.addresses[number - 1], self.peer_addresses[number - 1]
        ask = [] if number <= VOTERS else ["--voter", f"1={self.peer_addresses[0]}", "--roles", "broker"]
        where = ["--data-dir", str(self.folder / str(number)), "--listen", address, "--advertised-address", address]
        peers = ["--peer-listen", peer_address] if peer_address != address else []
        files = self.files_of(f"replica-{number}")
        tls = () if files is None else ("--tls-ca-file", files.ca_file, "--tls-cert-file", files.cert_file)
        tls = () if files is None else (*tls, "--tls-key-file", files.key_file)
        command = [*self.program, *map(str, tls), "start", *where, *peers, *ask, *self.options]
        with self.log_file(number).open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def log_file(self, number: int) -> Path:
        """What the broker of this number writes about itself."""
        return self.folder / f"{number}.log"


@contextmanager
def running(
    count: int,
    *options: str,
    with_peer_listeners: bool = False,
    program: Sequence[str] = (),
    certificates: Sequence[str] = (),
) -> Iterator[Brokers]:
    """Run so many brokers, of a cluster named ``bench``, each started with ``options``, by ``program`` if there is one.

    With ``certificates``, names of clients of which the first may do everything, they talk by mutual TLS, and who is
    not allowed to do something may not.

    They are stopped in the end, and what they have written is deleted.
    """
    folder = Path(tempfile.mkdtemp(prefix="highwater-bench-"))
    ports = free_ports(2 * count if with_peer_listeners else count)
    addresses = [f"127.0.0.1:{port}" for port in ports[:count]]
    peers = [f"127.0.0.1:{port}" for port in ports[-count:]]
    brokers = Brokers(
        addresses=addresses,
        peer_addresses=peers,
        processes=[],
        folder=folder,
        options=options,
        program=program or (_replica(),),
        certificates=folder / "tls" if certificates else None,
    )
    if brokers.certificates is not None:
        names = [*(f"replica-{number}" for number in range(1, count + 1)), *certificates]
        list(make_certificates(brokers.certificates, names, ["127.0.0.1"], 1))
        brokers = replace(brokers, options=(*options, "--authorizer", "acl", "--super-user", f"User:{certificates[0]}"))
    try:
        voters = [f"{number}={at}={random_directory_id()}" for number, at in enumerate(peers[:VOTERS], 1)]
        for number in range(1, count + 1):
            identity = ["--cluster-id", "bench", "--replica-id", str(number)]
            votes = ["--initial-voters", ",".join(voters)] if number <= VOTERS else ["--no-initial-voters"]
            format_it = [_replica(), "format", "--data-dir", str(folder / str(number)), *identity, *votes]
            subprocess.run(format_it, check=True, stdout=subprocess.DEVNULL)
        brokers.start_all()
        yield brokers
    finally:
        _stop(brokers.processes)
        shutil.rmtree(folder)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _replica() -> str:
    return str(Path(sys.executable).with_name("replica"))


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
