"""A cluster of our replicas, on any host.

Owns what makes processes a cluster: how a disk is formatted, how a replica is started and when it serves, its topics,
what it holds and reports. Where the processes run, and what can be done to them, is the host's business.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nemesis.cluster.certificates import OPERATOR, WORKLOAD, ReplicaCertificates, needed_acls
from nemesis.cluster.closing import closed_by
from nemesis.cluster.control import Control, group_states
from nemesis.cluster.hindered_disks import ReplicaDisks
from nemesis.cluster.host import Host, ShowsProcesses, death_of
from nemesis.cluster.key_value_client import KeyValueStore, open_store
from nemesis.cluster.log_lines import ReportLog, check_clock, log_lines
from nemesis.cluster.memory import KILLED_BY_MEMORY, ReplicaMemory
from nemesis.cluster.operators import QuorumVoters, ReplicaMoves
from nemesis.cluster.replica_options import OS, ReplicaOptions
from nemesis.cluster.resources import Resources, resources_of
from nemesis.cluster.system import Dump, ReplicaState, Report
from nemesis.cluster.topic_client import TopicClient
from nemesis.disks.place import DATA_NAME, LOG_NAME, place_in
from nemesis.errors import NodeFailedError
from nemesis.faults.breakable import ClusterState, SystemLinks
from nemesis.faults.crash_points import ORDER_NAME, Order, give_order, reached, take_back
from nemesis.faults.dials import DIALS_NAME, Dials, set_dials
from nemesis.faults.links import CLIENTS, CONTROL
from nemesis.faults.needs import Need
from nemesis.history import METADATA_LOG
from replica.client.admin import Admin
from replica.client.cluster_view import ViewConfig
from replica.client.failures import AdminError, ClientError
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from replica.storage.meta_properties import random_directory_id

CLUSTER_ID = "nemesis"
STARTED_S_MAX = 20.0
STOPPED_S_MAX = 5.0
CLOSED_S_MAX = 0.5
"""How long replicas have when all of them are stopped: nobody is left to whom one of them could hand over."""
CREATED_S_MAX = 30.0
_POLL_S = 0.02
_LOOK_S = 0.1


class ReplicaCluster:
    """A ``System`` of replicas on a ``host``. ``open`` it before use and ``close`` it whatever happens."""

    def __init__(self, host: Host, options: ReplicaOptions) -> None:
        self._host = host
        self._options = options
        self.nodes = host.nodes
        self._control: Control | None = None
        self._deaths: list[Report] = []
        self._wiping = {node: asyncio.Lock() for node in self.nodes}
        self._starting = {node: asyncio.Lock() for node in self.nodes}
        self.disks = ReplicaDisks(host, host.kill, self._wiping)
        self.memory = ReplicaMemory(host)
        self.certificates = ReplicaCertificates(host, wanted=options.tls)
        self._logs = [ReportLog(self._log_file(node), node) for node in self.nodes]

    @property
    def topic_partitions(self) -> tuple[str, ...]:
        """Every partition of every topic, and the logs of the state machines."""
        return self._options.log_names

    @property
    def links(self) -> SystemLinks:
        """The host's links."""
        return self._host.links

    @property
    def shows_logs(self) -> bool:
        return True

    @property
    def voters(self) -> QuorumVoters:
        """The voters of the metadata log and of the state machines."""
        return QuorumVoters(
            self._looking,
            cluster_id=CLUSTER_ID,
            logs=(METADATA_LOG, *self._options.group_logs),
            dial=self._host.addresses(CONTROL),
            advertised=self._host.addresses(CLIENTS),
            tls=self.certificates.client(OPERATOR),
        )

    @property
    def moves(self) -> ReplicaMoves:
        """Who has the partitions of the topics."""
        return ReplicaMoves(
            cluster_id=CLUSTER_ID,
            dial=self._host.addresses(CONTROL),
            logs=self._options.topics.names,
            replication_factor=self._options.topics.replication_factor,
            tls=self.certificates.client(OPERATOR),
        )

    def lacks(self, need: Need) -> str | None:
        """Why this cluster cannot do faults that need this; absent if it can."""
        return next(self._missing_for(need), None) or self._host.lacks(need)

    def _missing_for(self, need: Need) -> Iterator[str]:
        """What is missing of the replicas themselves."""
        options = self._options
        if need is Need.OTHER_DISKS and options.topics.min_insync_replicas < 2:
            yield "what one replica alone has acknowledged is gone with its disk: give --min-insync-replicas 2"
        if need is Need.OTHER_DISKS and options.log_flush == OS:
            yield "whoever is killed before it has flushed is not known to hold everything: give --log-flush fsync"
        if need is Need.MOVES and not options.topics.names:
            yield "there are no topics here whose partitions could be moved"
        if need is Need.MOVES and len(self.nodes) == 1:
            yield "there is one node only: its partitions cannot be anywhere else"
        if need is Need.STANDING_STILL and not options.can_stand_still:
            yield "the replicas of this cluster cannot be told to stand still"
        if need in (Need.TIMERS, Need.WALL_CLOCKS) and not options.clocks_in_hand:
            yield "the clocks of these replicas cannot be set"
        if need is Need.CERTIFICATES and not options.tls:
            yield "nobody has a certificate here: give --tls"
        if need is Need.CONVERSATIONS and options.tls:
            yield "who carries bytes cannot read them: they are encrypted"
        if need is Need.DISKS and not options.can_break_disks:
            yield "the replicas of this cluster were not started on files that can be broken"

    def addresses(self, source: int) -> Mapping[int, str]:
        """Where ``source`` (a replica, CLIENTS, CONTROL) dials each replica."""
        return self._host.addresses(source)

    async def open(self) -> None:
        """Make the network, format the data directories, start every replica. Raises NodeFailedError."""
        await self._host.open()
        self.certificates.issue()
        self._control = Control(self._host.addresses(CONTROL), tls=self.certificates.client(OPERATOR))
        initial_voters = self._initial_voters()
        await asyncio.gather(*(self._format(node, *initial_voters) for node in self.nodes))
        await asyncio.gather(*(self.start(node) for node in self.nodes))

    async def close(self) -> None:
        """Heal the links, stop every replica, and take the network down. Nothing of the cluster runs afterwards."""
        looking = () if self._control is None else (self._control.close,)
        async with closed_by(self._stop_all, *looking, self._host.close):
            await self.links.heal_all()

    async def _stop_all(self) -> None:
        await asyncio.gather(*(self.stop(node, CLOSED_S_MAX) for node in self.nodes))

    # --- processes ----------------------------------------------------------------------------------------------------

    async def start(self, node: int) -> None:
        """Start a replica and wait until it serves; nothing if it runs. Raises NodeFailedError.

        Who comes while another is at it waits for what comes of that: a process that is there need not serve.
        """
        async with self._starting[node]:
            await self._start(node)

    async def _start(self, node: int) -> None:
        async with self._wiping[node]:
            pass
        if self.is_running(node):
            return
        await self._note_death(node)
        self.memory.forget(node)
        log_file = self._log_file(node)
        seen = log_file.stat().st_size if log_file.exists() else 0
        began_ns = time.monotonic_ns()
        await self._host.run(node, self._start_command(node), log_file, self.certificates.environment(node))
        try:
            async with asyncio.timeout(STARTED_S_MAX):
                started = await self._wait_started(node, seen)
                check_clock(node, started, since_ns=began_ns, now_ns=time.monotonic_ns())
                self._host.listens(node, int(str(started["address"]).rpartition(":")[2]))
                await self._wait_answer(node)
        except TimeoutError:
            await self._host.kill(node)
            raise NodeFailedError(f"replica {node} does not serve after {STARTED_S_MAX} s: see {log_file}") from None

    async def stop(self, node: int, grace_s: float = STOPPED_S_MAX) -> bool:
        """Ask a replica to stop; kill it when it does not. It is reached to its end: others take over what it leads."""
        await self._note_death(node)
        return await self._host.stop(node, grace_s)

    async def kill(self, node: int) -> bool:
        """SIGKILL a replica, paused or not."""
        return await self._host.kill(node)

    async def pause(self, node: int) -> bool:
        """SIGSTOP a replica."""
        return await self._host.pause(node)

    async def resume(self, node: int) -> bool:
        """SIGCONT a replica."""
        return await self._host.resume(node)

    async def wipe(self, node: int) -> None:
        """Give a replica that does not run an empty disk in the place of its own: one that has no vote.

        A start meanwhile waits. NodeFailedError if it runs, or its disk cannot be formatted.
        """
        async with self._wiping[node]:
            if self.is_running(node):
                raise NodeFailedError(f"replica {node} runs: its disk cannot be wiped")
            disk = place_in(self._host.folder(node))
            disk.account.unlink(missing_ok=True)
            self.disks.replaced(node)
            await asyncio.to_thread(shutil.rmtree, disk.data)
            await self._format(node, "--no-initial-voters")

    def is_running(self, node: int) -> bool:
        """Whether the replica's process is there."""
        return self._host.is_running(node)

    # --- standing still -----------------------------------------------------------------------------------------------

    def order(self, node: int, order: Order) -> None:
        """Put the order where the replica looks."""
        give_order(self._host.folder(node) / ORDER_NAME, order)

    def take_back(self, node: int) -> None:
        """Take the order away."""
        take_back(self._host.folder(node) / ORDER_NAME)

    def stands_still(self, node: int) -> bool:
        """Whether the replica has said so."""
        return reached(self._host.folder(node) / ORDER_NAME).exists()

    # --- clocks -------------------------------------------------------------------------------------------------------

    def set_clocks(self, node: int, dials: Dials) -> None:
        """Put the settings where the replica looks."""
        set_dials(self._host.folder(node) / DIALS_NAME, dials)

    async def _note_death(self, node: int) -> None:
        """Remember that a replica's process was found ended and nobody here had done it."""
        death = death_of(self._host, node)
        if death is not None:
            by_memory = await self.memory.killed(node)
            self._deaths.append(replace(death, event=KILLED_BY_MEMORY) if by_memory else death)

    def _log_file(self, node: int) -> Path:
        return self._host.folder(node) / LOG_NAME

    def _initial_voters(self) -> tuple[str, ...]:
        """The option of ``replica format`` that makes all nodes voters."""
        where = self._host.addresses(CLIENTS)
        entries = (f"{node}={where[node]}={random_directory_id()}" for node in self.nodes)
        return "--initial-voters", ",".join(entries)

    async def _format(self, node: int, *voters: str) -> None:
        where = ("--data-dir", str(self._host.inside(node) / DATA_NAME))
        who = ("--cluster-id", CLUSTER_ID, "--replica-id", str(node))
        command = (self._host.python, "-m", "replica.cli", "format", *where, *who, *voters)
        format_log = self._host.folder(node) / "format.log"
        if await self._host.run_once(node, command, format_log, at_most_s=STARTED_S_MAX):
            raise NodeFailedError(f"replica {node} cannot be formatted: {format_log.read_text().strip()}")

    def _start_command(self, node: int) -> tuple[str, ...]:
        addresses = self._host.addresses(CLIENTS)
        voters = (*_table("--voter", addresses), "--advertised-address", addresses[node])
        dial = _table("--dial", self._host.addresses(node))
        listen = ("--listen", self._host.listen_address(node))
        where = ("--data-dir", str(self._host.inside(node) / DATA_NAME), *listen, "--replica-id", str(node))
        how = (
            *self.certificates.arguments,
            *self._options.group_arguments,
            *self._options.log_arguments,
            *self._options.timing.arguments,
        )
        if self._options.can_stand_still:
            how = ("--stand-still", str(self._host.inside(node) / ORDER_NAME), *how)
        if self._options.clocks_in_hand:
            how = ("--clocks", str(self._host.inside(node) / DIALS_NAME), *how)
        if self._options.can_break_disks:
            how = ("--disk", str(self._host.inside(node)), *how)
        return (self._host.python, *self._options.server, *where, *voters, *dial, *how)

    async def _wait_started(self, node: int, seen: int) -> dict[str, Any]:
        """Wait for the line by which a replica says where it listens; ``seen`` is the size of its log before."""
        while True:
            started = [line for line in self._lines_after(node, seen) if line.get("event") == "started"]
            if started:
                return started[-1]
            self._check_alive(node)
            await asyncio.sleep(_POLL_S)

    async def _wait_answer(self, node: int) -> None:
        while not await self._looking.answers(node):
            self._check_alive(node)
            await asyncio.sleep(_POLL_S)

    def _check_alive(self, node: int) -> None:
        exit_code = self._host.exit_code(node)
        if exit_code is not None:
            raise NodeFailedError(f"replica {node} ended with {exit_code}: see {self._log_file(node)}")

    def _lines_after(self, node: int, seen: int) -> Iterator[dict[str, Any]]:
        return log_lines(self._log_file(node), skip_bytes=seen)

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def _looking(self) -> Control:
        assert self._control is not None, "the cluster is not open"
        return self._control

    @property
    def _answering(self) -> list[int]:
        """Those that can be asked: asking a paused one would only take time."""
        return [node for node in self.nodes if self.is_running(node) and not self._host.is_paused(node)]

    def client(self) -> TopicClient:
        """A client of its own, through the clients' links."""
        addresses = self._host.addresses(CLIENTS)
        tls = self.certificates.client(WORKLOAD)
        return TopicClient(addresses, cluster_id=CLUSTER_ID, options=self._options.client, tls=tls)

    def store(self) -> KeyValueStore:
        """A client of the key-value store of its own, through the clients' links."""
        assert self._options.store is not None, "no replica hosts a store"
        addresses = self._host.addresses(CLIENTS)
        tls = self.certificates.client(WORKLOAD)
        return open_store(addresses, cluster_id=CLUSTER_ID, options=self._options.store, tls=tls)

    async def create_logs(self) -> None:
        """Create the topics as soon as every broker is there, and wait until each replica is in sync."""
        dial = {ReplicaId(node): address for node, address in self._host.addresses(CONTROL).items()}
        tls = self.certificates.client(OPERATOR)
        config = ViewConfig(cluster_id=CLUSTER_ID, dial=dial, tls=tls, request_timeout_ms=2000, api_timeout_ms=10_000)
        missing = "no broker describes the cluster"
        try:
            async with asyncio.timeout(CREATED_S_MAX), Admin(dial.values(), config) as admin:
                while missing := self._missing_brokers(await self.cluster_state()):
                    await asyncio.sleep(_LOOK_S)
                if tls is not None:
                    missing = "the access control list is not written"
                    await admin.create_acls(needed_acls(self._options.topics.topics, self._options.group_logs))
                for topic in self._options.topics.topics:
                    missing = f"topic {topic} is not created"
                    await self._create_topic(admin, topic)
                while missing := self._missing_replicas(await self.cluster_state()):
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise NodeFailedError(f"no topics after {CREATED_S_MAX} s: {missing}") from None
        except ClientError as error:
            raise NodeFailedError(f"the topics cannot be created: {error}") from error

    async def _create_topic(self, admin: Admin, topic: str) -> None:
        options = self._options.topics
        try:
            await admin.create_topic(
                topic,
                partition_count=options.partitions,
                replication_factor=options.replication_factor,
                configs=options.configs,
            )
        except AdminError as error:
            if not (error.may_be_done and error.error is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise

    def _missing_brokers(self, state: ClusterState | None) -> str:
        absent = set(self.nodes) - (set() if state is None else state.active)
        return f"brokers {sorted(absent)} are not registered" if absent else ""

    def _missing_replicas(self, state: ClusterState | None) -> str:
        partitions = {} if state is None else state.partitions
        for name in self.topic_partitions:
            partition = partitions.get(name)
            if partition is None or partition.leader is None or set(partition.isr) != set(partition.replicas):
                return f"{name} has not all its replicas in sync: {partition}"
        return ""

    async def cluster_state(self) -> ClusterState | None:
        """What the replica says that has read most of the metadata; and of each state machine what its replicas say."""
        state = await self._looking.cluster_state(self._answering)
        if state is None or not self._options.group_logs:
            return state
        wanted = [(node, name) for name in self._options.group_logs for node in self._answering]
        groups = group_states(await self._looking.replica_states(wanted), self._options.group_logs, self.nodes)
        return replace(state, partitions={**state.partitions, **groups})

    async def replica_states(self) -> tuple[ReplicaState, ...]:
        """How the replicas that answer see themselves: in the metadata log, and in each partition that they have."""
        nodes, state = self._answering, await self.cluster_state()
        partitions = {} if state is None else state.partitions
        wanted = [(node, METADATA_LOG) for node in nodes]
        wanted += [(node, name) for name, of in partitions.items() for node in nodes if node in of.replicas]
        return await self._looking.replica_states(wanted)

    async def dumps(self, node: int) -> tuple[Dump, ...]:
        """The metadata log and every partition of a replica."""
        state = await self.cluster_state()
        if state is None:
            raise NodeFailedError(f"replica {node} cannot be read: nobody says which partitions it has")
        names = [name for name in self.topic_partitions if name in state.partitions]
        hosted = [METADATA_LOG, *(name for name in names if node in state.partitions[name].replicas)]
        without_values = {METADATA_LOG, *self._options.group_logs}
        return tuple([await self._looking.dump(node, name, has_values=name not in without_values) for name in hosted])

    def resources(self) -> Sequence[Resources]:
        """What each replica takes whose process this machine sees."""
        pids = self._host.pids if isinstance(self._host, ShowsProcesses) else {}
        seen = (resources_of(node, pid, self._host.folder(node) / DATA_NAME) for node, pid in pids.items())
        return tuple(one for one in seen if one is not None)

    def reports(self) -> Sequence[Report]:
        """What the replicas have written to their logs so far, and which of them died by themselves.

        Of the logs that are judged, and of no log at all.
        """
        judged = {None, METADATA_LOG, *self.topic_partitions}
        told = (report for log in self._logs for report in log.reports())
        found = [*(report for report in told if report.topic_partition in judged), *self._deaths]
        return tuple(self.disks.judged(sorted(found, key=lambda report: (report.monotonic_ns, report.node))))


def _table(option: str, addresses: Mapping[int, str]) -> list[str]:
    return [word for node, address in addresses.items() for word in (option, f"{node}={address}")]
