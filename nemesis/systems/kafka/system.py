"""A cluster of Apache Kafka in KRaft mode: every broker is a controller as well.

Owns how disks are formatted, how brokers are started, the topics, and the look at who leads. The nodes' logs are read
from their disks: they are of our own format, so that a run has everything that a run of our own replicas has, but the
events that only those report.

Making the topics, by Kafka's own client library, and a first write.

The properties of a broker, and the command that runs Kafka's own programs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from nemesis.cluster.host import Host
from nemesis.cluster.replica_options import ReplicaOptions, Timing, TopicOptions
from nemesis.cluster.system import Dump, LogClient, ReplicaState
from nemesis.errors import NodeFailedError, NotDoneError, UnknownOutcomeError
from nemesis.faults.breakable import ClusterState, PartitionState
from nemesis.systems.foreign import ForeignSystem
from nemesis.systems.kafka import OFFER
from nemesis.systems.kafka.client import KafkaClient
from nemesis.systems.kafka.jars import resolve_jars
from nemesis.systems.kafka.logs import LogEnds, high_watermarks, quorum_word, read_dump
from nemesis.systems.kafka.metadata import MalformedError, Told, ask_metadata
from nemesis.systems.programs import full_path

LOOK_S_MAX = 0.4
FORMATTED_S_MAX = 60.0
PROPERTIES = "server.properties"


class KafkaCluster(ForeignSystem):
    """A ``System`` of Kafka brokers."""

    offer = OFFER
    epochs_name_leaders = True
    started_s_max = 60.0
    opened_s_max = 60.0

    def __init__(self, host: Host, options: ReplicaOptions) -> None:
        super().__init__(host, options)
        self._java = full_path("java")
        self._jars: Path | None = None
        self._ends = LogEnds()

    @property
    def topic_partitions(self) -> tuple[str, ...]:
        """Every partition of every topic."""
        return self.options.topics.names

    async def prepare(self, node: int) -> None:
        """Write the properties and let Kafka format the disk. Raises NodeFailedError."""
        self._jars = await asyncio.to_thread(resolve_jars)
        self._file(node).write_text(
            broker_properties(
                node,
                timing=self.options.timing,
                folder=self.host.inside(node) / "data",
                clients=self.advertised(node, CLIENT_PORT),
                controllers={peer: self.advertised(peer, CONTROLLER_PORT) for peer in self.nodes},
                harness=self.controlled(node, HARNESS_PORT),
            ),
            encoding="utf-8",
        )
        words = ("format", "--cluster-id", CLUSTER_ID, "--config", str(self.host.inside(node) / PROPERTIES))
        log_file = self.host.folder(node) / "format.log"
        command = java_command(self._java, self._jars, "kafka.tools.StorageTool", *words)
        try:
            code = await self.host.run_once(node, command, log_file, at_most_s=FORMATTED_S_MAX)
        except TimeoutError:
            raise NodeFailedError(f"broker {node} was not formatted within {FORMATTED_S_MAX} s") from None
        if code:
            raise NodeFailedError(f"broker {node} cannot be formatted: see {log_file}")

    def command(self, node: int) -> Sequence[str]:
        """A broker that is a controller as well."""
        assert self._jars is not None, "the cluster is not open"
        return java_command(self._java, self._jars, "kafka.Kafka", str(self.host.inside(node) / PROPERTIES))

    def client(self) -> KafkaClient:
        """A client of all brokers."""
        return KafkaClient([self.advertised(node, CLIENT_PORT) for node in self.nodes], self.options.client)

    async def create_logs(self) -> None:
        """Create the topics as soon as every broker is there, and wait until each replica is in sync."""
        try:
            async with asyncio.timeout(self.opened_s_max):
                while not await self._are_all_active():
                    await asyncio.sleep(LOOK_S_MAX / 4)
        except TimeoutError:
            raise NodeFailedError(f"not all brokers are registered after {self.opened_s_max} s") from None
        addresses = [self.controlled(node, HARNESS_PORT) for node in self.nodes]
        await asyncio.to_thread(create_topics, addresses, self.options.topics)
        await super().create_logs()
        client = self.client()
        try:
            async with asyncio.timeout(self.opened_s_max):
                await warm_up(client, self.options.topics.partitions)
        except TimeoutError:
            raise NodeFailedError(f"nothing could be written within {self.opened_s_max} s") from None
        finally:
            await client.close()

    # --- looking ------------------------------------------------------------------------------------------------------

    async def answers(self, node: int) -> bool:
        """Whether a broker tells that it is itself among those that are alive."""
        told = await self._told(node)
        return told is not None and node in told.brokers

    async def look(self) -> ClusterState | None:
        """Of each partition what those tell that know its newest epoch; the controller by what nodes wrote down."""
        nodes = self.asked
        answers = await asyncio.gather(*(self._told(node) for node in nodes))
        told = {node: answer for node, answer in zip(nodes, answers, strict=True) if answer is not None}
        if not told:
            return None
        words = [word for node in self.nodes if (word := quorum_word(self._data(node))) is not None]
        newest = max(words, key=lambda word: word.epoch, default=None)
        named = {name: _newest(name, told) for name in self.topic_partitions}
        return ClusterState(
            controller=None if newest is None else newest.leader,
            active=frozenset.intersection(*(answer.brokers for answer in told.values())) & frozenset(told),
            partitions={name: state for name, state in named.items() if state is not None},
        )

    async def replica_states(self) -> tuple[ReplicaState, ...]:
        """What the running brokers have on their disks, with what is told of who leads."""
        state = await self.cluster_state()
        partitions = {} if state is None else state.partitions
        wanted = [(node, name) for name, of in partitions.items() for node in self.asked if node in of.replicas]
        return tuple([self._replica_state(node, name, partitions[name]) for node, name in wanted])

    async def dumps(self, node: int) -> tuple[Dump, ...]:
        """Every partition of a broker, from its disk."""
        held = [name for name in self.topic_partitions if (self._data(node) / name).is_dir()]
        return tuple([read_dump(self._data(node), node, name) for name in held])

    def _replica_state(self, node: int, name: str, partition: PartitionState) -> ReplicaState:
        return ReplicaState(
            node=node,
            topic_partition=name,
            role="leader" if node == partition.leader else "follower",
            epoch=partition.leader_epoch,
            leader_id=partition.leader,
            high_watermark=high_watermarks(self._data(node)).get(name),
            log_end_offset=self._ends.of(self._data(node), name),
        )

    async def _are_all_active(self) -> bool:
        state = await self.look()
        return state is not None and state.active == frozenset(self.nodes)

    async def _told(self, node: int) -> Told | None:
        with suppress(OSError, EOFError, MalformedError, TimeoutError):
            async with asyncio.timeout(LOOK_S_MAX):
                return await ask_metadata(self.controlled(node, HARNESS_PORT))
        return None

    def _data(self, node: int) -> Path:
        return self.host.folder(node) / "data"

    def _file(self, node: int) -> Path:
        return self.host.folder(node) / PROPERTIES


def _newest(name: str, told: dict[int, Told]) -> PartitionState | None:
    """What is told of a partition in its newest epoch, by its leader if that is among those that tell it.

    A broker that was not heard for long takes itself for the leader of an epoch that is over.
    """
    known = {node: answer.partitions[name] for node, answer in told.items() if name in answer.partitions}
    epoch = max((state.leader_epoch for state in known.values()), default=None)
    newest = {node: state for node, state in known.items() if state.leader_epoch == epoch}
    if not newest:
        return None
    own = [state for node, state in newest.items() if node == state.leader]
    state = own[0] if own else next(iter(newest.values()))
    return replace(state, isr=tuple(sorted(state.isr)))


CREATED_S_MAX = 20.0
WARM_UP = "warm-up"


def create_topics(addresses: Sequence[str], options: TopicOptions) -> None:
    """Create all of them, and the one for the first write; blocks. Raises NodeFailedError."""
    admin = AdminClient({"bootstrap.servers": ",".join(addresses), "log_level": 0})
    topics = [
        NewTopic(
            name,
            num_partitions=options.partitions,
            replication_factor=options.replication_factor,
            config=options.configs,
        )
        for name in (*options.topics, WARM_UP)
    ]
    try:
        for created in admin.create_topics(topics, request_timeout=CREATED_S_MAX).values():
            created.result(CREATED_S_MAX)
    except KafkaException as error:
        raise NodeFailedError(f"the topics cannot be created: {error}") from error


async def warm_up(client: LogClient, partitions: int) -> None:
    """Write to each partition of the topic that nobody judges, and read it, until both have been done."""
    for number in range(partitions):
        name, is_done = f"{WARM_UP}-{number}", False
        while not is_done:
            with suppress(NotDoneError, UnknownOutcomeError):
                await client.append(name, 1)
                await client.poll(name, 0)
                is_done = True


CLIENT_PORT, CONTROLLER_PORT, HARNESS_PORT = 9092, 9093, 9094
CLUSTER_ID = "aGlnaHdhdGVyLXRlc3Q0MQ"
"""Kafka wants 16 bytes in base64."""
HEAP = "256m"
FAST_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
LOG_LINES = ("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn")
HIGH_WATERMARKS_MS = 500
"""How often a broker writes its high watermarks down, from where the harness reads them."""


def java_command(java: str, jars: Path, program: str, *arguments: str) -> Sequence[str]:
    """Run one of Kafka's programs."""
    memory = (f"-Xmx{HEAP}", f"-Xms{HEAP}")
    return (java, *memory, *FAST_START, *LOG_LINES, "-cp", str(jars / "*"), program, *arguments)


def broker_properties(
    node: int, *, timing: Timing, folder: Path, clients: str, controllers: Mapping[int, str], harness: str
) -> str:
    """The file of one broker. ``clients`` and ``harness`` are its addresses, ``controllers`` those of all."""
    voters = ",".join(f"{peer}@{address}" for peer, address in controllers.items())
    lines = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://{clients},CONTROLLER://{controllers[node]},HARNESS://{harness}",
        "advertised.listeners": f"PLAINTEXT://{clients},HARNESS://{harness}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,HARNESS:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": folder,
        "auto.create.topics.enable": "false",
        "controller.quorum.election.timeout.ms": timing.election_timeout_ms,
        "controller.quorum.election.backoff.max.ms": timing.election_backoff_max_ms,
        "controller.quorum.fetch.timeout.ms": timing.fetch_timeout_ms,
        "controller.quorum.request.timeout.ms": timing.request_timeout_ms,
        "broker.session.timeout.ms": timing.broker_session_timeout_ms,
        "broker.heartbeat.interval.ms": timing.broker_heartbeat_interval_ms,
        "replica.lag.time.max.ms": timing.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms": timing.replica_fetch_wait_max_ms,
        "replica.fetch.backoff.ms": timing.replica_fetch_backoff_ms,
        "replica.socket.timeout.ms": timing.replica_socket_timeout_ms,
        "replica.high.watermark.checkpoint.interval.ms": HIGH_WATERMARKS_MS,
        "leader.imbalance.check.interval.seconds": timing.leader_imbalance_check_interval_seconds,
        "controlled.shutdown.enable": "true",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())
