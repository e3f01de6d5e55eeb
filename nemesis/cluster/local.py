"""A cluster of real replica processes on this machine, every link between them through a proxy.

Owns the processes, their data directories and their log files (``nodes/<id>/``). No port is ever guessed: proxies bind
port 0 and keep what they get, a replica takes port 0 and says in its log which it got, and the proxies follow. So a
replica may come back on another port, and nobody can take one meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nemesis.cluster.links import Links
from nemesis.cluster.log_client import ReplicaLogClient, decode_value
from nemesis.cluster.log_lines import log_lines, read_reports
from nemesis.cluster.processes import NodeProcess
from nemesis.cluster.system import Dump, DumpedBatch, NodeFailedError, NodeState, Report
from nemesis.faults.links import CLIENTS, CONTROL
from replica.client import ClientError, ReplicaClient
from replica.core.messages import DescribeReplicaResponse
from replica.ids import ReplicaId
from replica.records import CorruptRecordError, RecordBatch, decode_records

CLUSTER_ID = "nemesis"
STARTED_S_MAX = 20.0
STOPPED_S_MAX = 5.0
STATE_TIMEOUT_MS = 400
DUMP_TIMEOUT_MS = 5000
CRC_AT = 17
"""Where the checksum stands in a record batch, format v2: behind base offset, length, leader epoch and magic."""
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """How many nodes, with which timing (milliseconds), and how they are started.

    ``server`` is the command that the options of ``replica start`` are appended to; ``client_timeout_ms`` bounds one
    operation of the workload.
    """

    nodes: int = 3
    election_timeout_ms: int = 500
    fetch_timeout_ms: int = 1000
    fetch_max_wait_ms: int = 200
    client_timeout_ms: int = 2500
    server: tuple[str, ...] = (sys.executable, "-m", "replica.cli", "start")

    @property
    def timing(self) -> tuple[str, ...]:
        """The options of a replica that say how patient it is."""
        return (
            *("--election-timeout-ms", str(self.election_timeout_ms)),
            *("--election-backoff-max-ms", str(self.election_timeout_ms)),
            *("--fetch-timeout-ms", str(self.fetch_timeout_ms)),
            *("--fetch-max-wait-ms", str(self.fetch_max_wait_ms)),
            *("--request-timeout-ms", str(self.fetch_timeout_ms)),
            *("--handover-wait-ms", "500"),
        )


class LocalCluster:
    """A ``System`` of replica processes in ``folder``. ``open`` it before use and ``close`` it whatever happens."""

    def __init__(self, folder: Path, options: LocalOptions) -> None:
        self._folder = folder
        self._options = options
        self._nodes = tuple(range(1, options.nodes + 1))
        self._links = Links(self._nodes)
        self._processes: dict[int, NodeProcess] = {}
        self._control: ReplicaClient | None = None
        self._deaths: list[Report] = []

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the replicas, from 1."""
        return self._nodes

    @property
    def topic_partition(self) -> str:
        """The one log that every replica hosts."""
        return "log-0"

    @property
    def links(self) -> Links:
        """The proxied links."""
        return self._links

    async def open(self) -> None:
        """Take the ports, format the data directories, start every replica. Raises NodeFailedError."""
        await self._links.start()
        addresses = {ReplicaId(node): address for node, address in self._links.addresses(CONTROL).items()}
        self._control = ReplicaClient(addresses, cluster_id=CLUSTER_ID, request_timeout_ms=STATE_TIMEOUT_MS)
        await asyncio.gather(*(self._format(node) for node in self._nodes))
        await asyncio.gather(*(self.start(node) for node in self._nodes))

    async def close(self) -> None:
        """Stop every replica and give every port back. Nothing of the cluster runs afterwards."""
        try:
            await asyncio.gather(*(self.stop(node) for node in self._nodes))
            if self._control is not None:
                await self._control.close()
            await self._links.close()
        finally:
            for process in self._processes.values():
                process.kill_now()

    # --- processes ----------------------------------------------------------------------------------------------------

    async def start(self, node: int) -> None:
        """Start a replica and wait until it serves; nothing if it runs. Raises NodeFailedError."""
        if self.is_running(node):
            return
        self._note_death(node)
        log_file = self._log_file(node)
        seen = log_file.stat().st_size if log_file.exists() else 0
        process = self._processes[node] = NodeProcess(self._start_command(node), log_file)
        try:
            async with asyncio.timeout(STARTED_S_MAX):
                port = await self._wait_port(node, process, seen)
                self._links.set_upstream(node, port)
                await self._wait_answer(node, process)
        except TimeoutError:
            await process.kill()
            raise NodeFailedError(f"replica {node} does not serve after {STARTED_S_MAX} s: see {log_file}") from None

    async def stop(self, node: int) -> None:
        """Ask a replica to stop; kill it when it does not."""
        process = self._processes.get(node)
        if process is not None:
            self._note_death(node)
            await process.stop(STOPPED_S_MAX)
            self._links.set_upstream(node, None)

    async def kill(self, node: int) -> bool:
        """SIGKILL a replica, paused or not."""
        self._links.set_upstream(node, None)
        return self.is_running(node) and await self._processes[node].kill()

    def pause(self, node: int) -> bool:
        """SIGSTOP a replica."""
        return node in self._processes and self._processes[node].pause()

    def resume(self, node: int) -> bool:
        """SIGCONT a replica."""
        return node in self._processes and self._processes[node].resume()

    def is_running(self, node: int) -> bool:
        """Whether the replica's process is there."""
        return node in self._processes and self._processes[node].exit_code is None

    def _note_death(self, node: int) -> None:
        """Remember that a replica's process was found ended and nobody here had done it."""
        process = self._processes.get(node)
        if process is not None and process.died:
            detail = f"exit code {process.exit_code}"
            self._deaths.append(Report(node=node, wall_ns=time.time_ns(), event="died", detail=detail))

    @property
    def pids(self) -> dict[int, int]:
        """The process ids of the replicas that were ever started."""
        return {node: process.pid for node, process in self._processes.items()}

    def _node_folder(self, node: int) -> Path:
        return self._folder / "nodes" / str(node)

    def _log_file(self, node: int) -> Path:
        return self._node_folder(node) / "replica.log"

    async def _format(self, node: int) -> None:
        self._node_folder(node).mkdir(parents=True, exist_ok=True)
        arguments = ("--data-dir", str(self._data_dir(node)), "--cluster-id", CLUSTER_ID, "--replica-id", str(node))
        format_log = self._node_folder(node) / "format.log"
        process = NodeProcess((sys.executable, "-m", "replica.cli", "format", *arguments), format_log)
        async with asyncio.timeout(STARTED_S_MAX):
            while process.exit_code is None:
                await asyncio.sleep(_POLL_S)
        if process.exit_code:
            raise NodeFailedError(f"replica {node} cannot be formatted: {format_log.read_text().strip()}")

    def _data_dir(self, node: int) -> Path:
        return self._node_folder(node) / "data"

    def _start_command(self, node: int) -> tuple[str, ...]:
        voters = _table("--voter", self._links.addresses(CLIENTS))
        dial = _table("--dial", self._links.addresses(node))
        where = ("--data-dir", str(self._data_dir(node)), "--listen", "127.0.0.1:0", "--replica-id", str(node))
        return (*self._options.server, *where, *voters, *dial, *self._options.timing)

    async def _wait_port(self, node: int, process: NodeProcess, seen: int) -> int:
        """Wait for the line by which a replica says where it listens; ``seen`` is the size of its log before."""
        while True:
            started = [line for line in self._lines_after(node, seen) if line.get("event") == "started"]
            if started:
                return int(str(started[-1]["address"]).rpartition(":")[2])
            self._check_alive(node, process)
            await asyncio.sleep(_POLL_S)

    async def _wait_answer(self, node: int, process: NodeProcess) -> None:
        while await self._state(node) is None:
            self._check_alive(node, process)
            await asyncio.sleep(_POLL_S)

    def _check_alive(self, node: int, process: NodeProcess) -> None:
        if process.exit_code is not None:
            raise NodeFailedError(f"replica {node} ended with {process.exit_code}: see {self._log_file(node)}")

    def _lines_after(self, node: int, seen: int) -> Iterator[dict[str, object]]:
        return log_lines(self._log_file(node), skip_bytes=seen)

    # --- looking ------------------------------------------------------------------------------------------------------

    def client(self) -> ReplicaLogClient:
        """A client of its own, through the clients' links."""
        addresses = self._links.addresses(CLIENTS)
        return ReplicaLogClient(addresses, cluster_id=CLUSTER_ID, timeout_ms=self._options.client_timeout_ms)

    async def states(self) -> tuple[NodeState, ...]:
        """How the replicas that answer see themselves."""
        asked = [node for node in self._nodes if self.is_running(node) and not self._processes[node].is_paused]
        states = await asyncio.gather(*(self._state(node) for node in asked))
        return tuple(state for state in states if state is not None)

    async def _state(self, node: int) -> NodeState | None:
        assert self._control is not None, "the cluster is not open"
        with suppress(ClientError):
            return _node_state(node, await self._control.describe_replica(ReplicaId(node)))
        return None

    async def dump(self, node: int) -> Dump:
        """A replica's whole log, by a client of its own that is patient."""
        addresses = {ReplicaId(node): self._links.addresses(CONTROL)[node]}
        async with ReplicaClient(addresses, cluster_id=CLUSTER_ID, request_timeout_ms=DUMP_TIMEOUT_MS) as client:
            try:
                dumped = await client.dump_log(ReplicaId(node))
            except ClientError as error:
                raise NodeFailedError(f"the log of replica {node} cannot be read: {error}") from error
        return Dump(
            node=node,
            batches=tuple(_dumped_batch(batch) for batch in dumped.batches),
            high_watermark=dumped.high_watermark,
            log_start_offset=dumped.log_start_offset,
            log_end_offset=dumped.log_end_offset,
            complete=dumped.complete,
        )

    def reports(self) -> Sequence[Report]:
        """What the replicas have written to their logs so far, and which of them died by themselves."""
        found = [report for node in self._nodes for report in read_reports(self._log_file(node), node)]
        return sorted([*found, *self._deaths], key=lambda report: (report.wall_ns, report.node))


def _table(option: str, addresses: Mapping[int, str]) -> list[str]:
    return [word for node, address in addresses.items() for word in (option, f"{node}={address}")]


def _node_state(node: int, response: DescribeReplicaResponse) -> NodeState:
    leader = response.leader
    return NodeState(
        node=node,
        role=response.role,
        epoch=-1 if leader is None else leader.leader_epoch,
        leader_id=None if leader is None else leader.leader_id,
        high_watermark=response.high_watermark,
        log_end_offset=response.log_end_offset or 0,
    )


def _dumped_batch(batch: RecordBatch) -> DumpedBatch:
    return DumpedBatch(
        base_offset=batch.base_offset,
        last_offset=batch.end_offset - 1,
        leader_epoch=batch.leader_epoch,
        crc=int.from_bytes(batch.data[CRC_AT : CRC_AT + 4]),
        is_control=batch.is_control,
        values=None if batch.is_control else _values(batch),
    )


def _values(batch: RecordBatch) -> tuple[int, ...] | None:
    try:
        return tuple(decode_value(record.value) for record in decode_records(batch))
    except CorruptRecordError:
        return None
