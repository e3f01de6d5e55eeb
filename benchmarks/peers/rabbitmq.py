"""RabbitMQ's streams: Debian's server with the plugin that it brings along, by ``rstream``.

Owns the nodes' settings and the port mapper that they find each other by, which is a process of this run. The service
of the machine is neither used nor started.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from benchmarks.brokers import free_ports
from benchmarks.peers.foreign import POLL_S, WHOLE_S_MAX, ForeignPeer
from benchmarks.peers.system import NODES, VALUE, Ability, Answered, Durability
from nemesis.cluster.host import Host
from nemesis.cluster.processes import NodeProcess
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.faults.breakable import ClusterState
from nemesis.systems.foreign import ForeignSystem
from nemesis.systems.loopback import LoopbackHost
from nemesis.systems.offer import Offer
from nemesis.systems.programs import find

if TYPE_CHECKING:
    from rstream import ConfirmationStatus, Producer

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Where Debian has it. What it has in the PATH becomes another user first."""
STREAM_PORT, AMQP_PORT, PEER_PORT = 5552, 5672, 25672
USER = PASSWORD = "guest"
SUB_ENTRY = 100
"""How many records one entry of a publish has in bulk; its outcome is for all of them."""
BATCH = 500
"""How many records one publish has where each has its own outcome."""
CREDIT = 50
"""How many chunks may be on their way to a consumer."""
TRY_S = 2.0


class Nodes(ForeignSystem):
    """Nodes that form a cluster as they start, each with the plugin for streams."""

    offer = Offer(verbs=frozenset())
    started_s_max = 120.0

    def __init__(self, host: Host) -> None:
        super().__init__(host, ReplicaOptions())
        (self._mapper_port,) = free_ports(1)
        self._mapper: NodeProcess | None = None

    @property
    def topic_partitions(self) -> tuple[str, ...]:
        """Streams are looked at by the client."""
        return ()

    async def open(self) -> None:
        """Start the port mapper, then the nodes."""
        epmd = find("epmd")
        assert epmd is not None, "Debian's rabbitmq-server depends on it"
        await self.host.open()
        addresses = ",".join(self._address(node) for node in self.nodes)
        command = (epmd, "-port", str(self._mapper_port), "-address", addresses)
        self._mapper = NodeProcess(command, self.host.folder(1) / "epmd.log")
        await super().open()

    async def close(self) -> None:
        """End all of them."""
        try:
            await super().close()
        finally:
            if self._mapper is not None:
                await self._mapper.kill()

    async def prepare(self, node: int) -> None:
        """Write the settings, the list of plugins, and the word by which nodes know each other."""
        folder, address = self.host.folder(node), self._address(node)
        peers = {f"cluster_formation.classic_config.nodes.{peer}": self._name(peer) for peer in self.nodes}
        lines = {
            "listeners.tcp.1": f"{address}:{AMQP_PORT}",
            "stream.listeners.tcp.1": f"{address}:{STREAM_PORT}",
            "stream.advertised_host": address,
            "stream.advertised_port": STREAM_PORT,
            "cluster_formation.peer_discovery_backend": "classic_config",
            **peers,
            "log.console": "true",
            "log.console.level": "warning",
            "log.file": "false",
        }
        (folder / "rabbitmq.conf").write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))
        (folder / "plugins").write_text("[rabbitmq_stream].\n")
        cookie = folder / ".erlang.cookie"
        cookie.write_text("HIGHWATER")
        cookie.chmod(0o400)

    def command(self, node: int) -> Sequence[str]:
        """The server alone; where its things are is in its environment."""
        del node
        return (str(PROGRAM),)

    def _environment(self, node: int) -> Mapping[str, str]:
        folder = self.host.inside(node)
        only_here = f"-kernel inet_dist_use_interface {{{self._address(node).replace('.', ',')}}}"
        return {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_NODENAME": self._name(node),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_DIST_PORT": str(PEER_PORT + node),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": only_here,
        }

    async def answers(self, node: int) -> bool:
        """Whether it listens for clients of streams."""
        try:
            _, writer = await asyncio.open_connection(self._address(node), STREAM_PORT)
        except OSError:
            return False
        writer.close()
        return True

    async def look(self) -> ClusterState | None:
        """The client looks."""
        return None

    def _address(self, node: int) -> str:
        return self.host.listen_address(node, STREAM_PORT).rpartition(":")[0]

    def _name(self, node: int) -> str:
        return f"n{node}@{self._address(node)}"


class RabbitMq(ForeignPeer):
    """Three nodes, and streams with a replica on each."""

    name = "RabbitMQ streams"
    abilities = frozenset({Ability.RECORDS, Ability.WRITES, Ability.RECORDS_FAIL_OVER})
    durabilities = (Durability.PAGE_CACHE,)
    settings = MappingProxyType(
        {
            "bulk": f"sub-entries of {SUB_ENTRY} records, not compressed",
            "an outcome each": f"send_batch of {BATCH} records",
            "256 in flight": "send_batch of as many as were confirmed",
            "consume": f"a credit of {CREDIT} chunks",
            "failover": f"each try with a connection of its own, which is given {TRY_S:g} s",
        }
    )
    nodes: Nodes

    def __init__(self, folder: Path, durability: Durability) -> None:
        super().__init__(folder, durability)
        self._turns = cycle(self.nodes.nodes)

    @classmethod
    def missing(cls) -> str | None:
        """The server, or the client."""
        if not PROGRAM.exists():
            return "rabbitmq-server is not installed: apt-get install rabbitmq-server"
        return None if find_spec("rstream") else "rstream is not installed: pip install '.[peers]'"

    @classmethod
    def version(cls) -> str:
        """By the name of the folder that the package brings."""
        (folder,) = PROGRAM.parent.parent.glob("lib/rabbitmq_server-*")
        return f"{folder.name.rpartition('-')[2]}, rstream {version('rstream')}"

    def cluster(self, host: LoopbackHost) -> Nodes:
        """Only here."""
        return Nodes(host)

    async def close_clients(self) -> None:
        """None is kept."""

    async def start(self) -> None:
        """Start all nodes. What the library says of a stream without a leader is no news where leaders are killed."""
        logging.getLogger("rstream").setLevel(logging.CRITICAL)
        await super().start()

    async def create(self, topic: str) -> None:
        """Create a stream, as soon as all nodes are in the cluster, and wait until all replicas are there."""
        async with self._producer(1) as producer:
            await producer.create_stream(topic)
        await self._wait_replicas(topic)

    # --- records ------------------------------------------------------------------------------------------------------

    async def produce(self, topic: str, value: bytes, count: int) -> None:
        """In sub-entries, each with one outcome."""
        entry = [value] * SUB_ENTRY
        outcomes = Outcomes()
        async with self._producer(1) as producer:
            entries = range(0, count, SUB_ENTRY)
            for first in entries:
                await producer.send_sub_entry(topic, entry[: count - first], on_publish_confirm=outcomes)
            # The library does so each half a second, which would be a part of what is measured.
            await producer._publish_buffered_messages(topic)
            await outcomes.wait(len(entries))

    async def produce_each(self, topic: str, value: bytes, count: int) -> None:
        """In batches, with an outcome for each record."""
        batch = [value] * BATCH
        outcomes = Outcomes()
        async with self._producer(1) as producer:
            for first in range(0, count, BATCH):
                await producer.send_batch(topic, batch[: count - first], on_publish_confirm=outcomes)
            await outcomes.wait(count)

    async def consume(self, topic: str, count: int) -> None:
        """A call for each record."""
        from rstream import Consumer, ConsumerOffsetSpecification, OffsetType

        seen, is_done = 0, asyncio.Event()

        def on_message(message: object, context: object) -> None:
            nonlocal seen
            del message, context
            seen += 1
            if seen == count:
                is_done.set()

        consumer = Consumer(host=self._host(1), port=STREAM_PORT, username=USER, password=PASSWORD)
        try:
            first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
            await consumer.subscribe(topic, on_message, offset_specification=first, initial_credit=CREDIT)
            await is_done.wait()
        finally:
            await consumer.close()

    async def write(self, topic: str, in_flight: int, seconds: float) -> Answered:
        """As many as are in flight are handed over; what was confirmed is replaced, all at once."""
        outcomes = Outcomes()
        took_s: list[float] = []
        begun: list[float] = []
        async with self._producer(1) as producer:
            begun_s = time.perf_counter()
            while (now_s := time.perf_counter()) < begun_s + seconds or outcomes.count < len(begun):
                free = in_flight - (len(begun) - outcomes.count)
                if now_s < begun_s + seconds and free:
                    begun += [now_s] * free
                    await producer.send_batch(topic, [VALUE] * free, on_publish_confirm=outcomes)
                await outcomes.wait(len(took_s) + 1)
                took_s += [
                    at_s - sent_s
                    for at_s, sent_s in zip(outcomes.at_s[len(took_s) :], begun[len(took_s) :], strict=False)
                ]
        return Answered(took_s=took_s, elapsed_s=time.perf_counter() - begun_s)

    # --- the leader is killed -----------------------------------------------------------------------------------------

    async def attempt(self, topic: str | None) -> None:
        """One record, by way of the next node each time: the library's own recovery draws its waits from dice."""
        assert topic is not None, "there are streams only"
        async with asyncio.timeout(TRY_S), self._producer(next(self._turns)) as producer:
            await producer.send_wait(topic, VALUE)

    async def kill_leader(self, topic: str | None) -> float:
        """As the client is told of it."""
        assert topic is not None, "there are streams only"
        leader, _ = await self._replicas(topic, 1)
        return await self.kill(leader)

    async def recover(self, topic: str | None) -> None:
        """Until all replicas of the stream are there."""
        assert topic is not None, "there are streams only"
        await self.start_killed()
        await self._wait_replicas(topic)

    async def _wait_replicas(self, topic: str) -> None:
        end_s = time.monotonic() + WHOLE_S_MAX
        while time.monotonic() < end_s:
            _, replicas = await self._replicas(topic, 1)
            if replicas == NODES:
                return
            await asyncio.sleep(POLL_S)
        raise click.ClickException(f"{topic} does not have {NODES} replicas after {WHOLE_S_MAX} s")

    async def _replicas(self, topic: str, node: int) -> tuple[int, int]:
        """Which node leads, and how many replicas there are."""
        async with self._producer(node) as producer:
            leader, others = await (await producer.default_client).query_leader_and_replicas(topic)
        nodes = {self._host(node): node for node in self.nodes.nodes}
        return nodes[leader.host], 1 + len(others)

    def _producer(self, node: int) -> Producer:
        from rstream import Producer

        return Producer(host=self._host(node), port=STREAM_PORT, username=USER, password=PASSWORD)

    def _host(self, node: int) -> str:
        return self.nodes.advertised(node, STREAM_PORT).rpartition(":")[0]


class Outcomes:
    """What the library is told to call when something was confirmed: how often it was, and when."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self._failed: Any = None
        self._told = asyncio.Event()

    @property
    def count(self) -> int:
        """How often."""
        return len(self.at_s)

    def __call__(self, status: ConfirmationStatus) -> None:
        """Note one."""
        if not status.is_confirmed:
            self._failed = status
        self.at_s.append(time.perf_counter())
        self._told.set()

    async def wait(self, count: int) -> None:
        """Wait until so many were told of. Raises ClickException where one was not confirmed."""
        while len(self.at_s) < count and self._failed is None:
            self._told.clear()
            await self._told.wait()
        if self._failed is not None:
            raise click.ClickException(f"a record was not confirmed: {self._failed}")
