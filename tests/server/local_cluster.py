"""Real replica processes on loopback, for tests: format, start, kill, stop, and look into their log lines."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from replica.cli.__main__ import main
from replica.ids import ReplicaId, TopicPartition
from replica.storage import OS_FILES
from replica.storage.meta_properties import FILE_NAME, random_directory_id, read_meta_properties
from tests.server.forked import ForkedReplica

PATIENCE_SECONDS = 30.0
FAST_TIMING = (
    *("--election-timeout-ms", "300"),
    *("--election-backoff-max-ms", "200"),
    *("--fetch-timeout-ms", "800"),
    *("--fetch-max-wait-ms", "200"),
    *("--request-timeout-ms", "800"),
    *("--broker-heartbeat-interval-ms", "200"),
    *("--broker-session-timeout-ms", "2000"),
    *("--replica-fetch-wait-max-ms", "200"),
    *("--replica-fetch-backoff-ms", "100"),
    *("--replica-lag-time-max-ms", "2000"),
)


class LocalCluster:
    """A cluster of ``size`` replicas, numbered from 1, in folders below ``folder``; in the end none runs.

    The first ``voters`` of them are voters; all, if no number is given. ``with_peer_listeners`` they talk to each other
    at addresses of their own.
    """

    def __init__(
        self, folder: Path, size: int = 3, *, voters: int | None = None, with_peer_listeners: bool = False
    ) -> None:
        self.folder = folder
        self.ids = [ReplicaId(number) for number in range(1, size + 1)]
        self.voters = self.ids[:voters]
        self._held = ExitStack()
        self.addresses = {replica_id: self._held.enter_context(held_address()) for replica_id in self.ids}
        self.peer_addresses = self.addresses
        if with_peer_listeners:
            self.peer_addresses = {replica_id: self._held.enter_context(held_address()) for replica_id in self.ids}
        self.processes: dict[ReplicaId, ForkedReplica | subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def data_dir(self, replica_id: ReplicaId) -> Path:
        """Return where the replica keeps its data."""
        return self.folder / f"data-{replica_id}"

    def segment(self, replica_id: ReplicaId, log: TopicPartition) -> Path:
        """Return the first segment file of a replica's log."""
        return self.data_dir(replica_id) / str(log) / f"{0:020d}.log"

    def format(self, *, cluster_id: str = "test") -> None:
        """Format every replica's data directory; the voters are the initial ones."""
        voters = ",".join(f"{voter}={self.peer_addresses[voter]}={random_directory_id()}" for voter in self.voters)
        for replica_id in self.ids:
            who = ("--initial-voters", voters) if replica_id in self.voters else ("--no-initial-voters",)
            self.format_one(replica_id, *who, cluster_id=cluster_id)

    def format_one(self, replica_id: ReplicaId, *who_votes: object, cluster_id: str = "test") -> None:
        """Format one replica's data directory, as one that joins unless ``who_votes`` says otherwise."""
        whose = ("--data-dir", self.data_dir(replica_id), "--cluster-id", cluster_id, "--replica-id", replica_id)
        words = map(str, ("format", *whose, *(who_votes or ("--no-initial-voters",))))
        main(list(words), standalone_mode=False)  # In this process: one of its own would only start and end.

    def directory_id(self, replica_id: ReplicaId) -> str:
        """Return the id of the replica's disk."""
        return read_meta_properties(OS_FILES, self.data_dir(replica_id) / FILE_NAME).directory_id

    def start(self, *replica_ids: ReplicaId, options: Iterable[object] = (), descriptors: int | None = None) -> None:
        """Start these replicas; their log lines are appended to one file each. They have so many ``descriptors``."""
        for replica_id in replica_ids or self.ids:
            arguments = [str(word) for word in (*self.start_arguments(replica_id), *options)]
            log_file = self._log_file(replica_id)
            self.processes[replica_id] = ForkedReplica("replica.cli", arguments, log_file, descriptors=descriptors)

    def start_arguments(self, replica_id: ReplicaId) -> tuple[object, ...]:
        """Return the arguments of ``replica start`` for one replica."""
        entries = [f"{voter}={self.peer_addresses[voter]}" for voter in self.voters]
        voters = [argument for entry in entries for argument in ("--voter", entry)]
        address, peer_address = self.addresses[replica_id], self.peer_addresses[replica_id]
        where = ("--data-dir", self.data_dir(replica_id), "--listen", address, "--advertised-address", address)
        peers = ("--peer-listen", peer_address) if peer_address != address else ()
        return ("start", *where, *peers, *voters, "--replica-id", replica_id, *FAST_TIMING)

    def kill(self, replica_id: ReplicaId) -> None:
        """End a replica as a power cut of its process would."""
        self.processes[replica_id].kill()
        self.processes[replica_id].wait(PATIENCE_SECONDS)

    def stop(self, replica_id: ReplicaId) -> int:
        """Ask a replica to stop, and return its exit code."""
        self.processes[replica_id].send_signal(signal.SIGTERM)
        return self.processes[replica_id].wait(PATIENCE_SECONDS)

    def is_alive(self, replica_id: ReplicaId) -> bool:
        """Tell whether the replica's process runs."""
        return self.processes[replica_id].poll() is None

    def close(self) -> None:
        """Kill what still runs, and give the addresses back."""
        for process in self.processes.values():
            process.kill()
            process.wait(PATIENCE_SECONDS)
        self._held.close()

    def lines(self, replica_id: ReplicaId) -> list[dict[str, Any]]:
        """Return the replica's log lines so far; every line must be JSON, but for the last word of a refusal."""
        text = self._log_file(replica_id).read_text()
        return [json.loads(line) for line in text.splitlines() if not line.startswith("replica: ")]

    def _log_file(self, replica_id: ReplicaId) -> Path:
        return self.folder / f"replica-{replica_id}.log"


@contextmanager
def held_address() -> Iterator[str]:
    """A loopback address on which a replica may listen, and that nobody else is given meanwhile, alive or not."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        # After the bind: who asks for any free port is not given this one, and who asks for this very one gets it.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield f"127.0.0.1:{holder.getsockname()[1]}"


def command(*arguments: object) -> list[str]:
    """Return the command line of ``replica`` with these arguments."""
    return [sys.executable, "-m", "replica.cli", *map(str, arguments)]


def run_replica(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the ``replica`` command to its end."""
    return subprocess.run(
        command(*arguments), check=check, capture_output=True, text=True, timeout=PATIENCE_SECONDS, input=""
    )
