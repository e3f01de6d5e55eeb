"""Apache Kafka in KRaft mode, by ``confluent-kafka``: librdkafka, which does its work in C.

Owns the brokers' properties and Java's options, which are those of Kafka's own start script, and the client's settings.
Jars come from Maven, by ``kafka-pom.xml``. The client's calls block: nothing else is to be done meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from benchmarks.peers.foreign import ForeignPeer
from benchmarks.peers.system import MIN_IN_SYNC, NODES, VALUE, Ability, Answered, Durability
from nemesis.cluster.host import Host
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.errors import UnsupportedError
from nemesis.systems.kafka.jars import check_resolvable, resolve_jars
from nemesis.systems.kafka.system import (
    CLIENT_PORT,
    CLUSTER_ID,
    CONTROLLER_PORT,
    HARNESS_PORT,
    LOG_LINES,
    KafkaCluster,
    java_command,
)
from nemesis.systems.loopback import LoopbackHost
from nemesis.systems.programs import full_path

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer
    from confluent_kafka.admin import AdminClient

POM = Path(__file__).with_name("kafka-pom.xml")
JAVA_OPTIONS = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
IN_BULK = {
    **{"linger.ms": 50, "batch.size": 1_000_000, "batch.num.messages": 100_000},
    "queue.buffering.max.messages": 1_000_000,
}
AT_ONCE = {"linger.ms": 0, "socket.nagle.disable": True}
MANY_AT_ONCE = {"linger.ms": 1, "socket.nagle.disable": True}
"""With many in flight it is faster to wait for a moment than to send each alone."""
READ = {"fetch.message.max.bytes": 10 << 20, "queued.min.messages": 1_000_000, "enable.auto.commit": False}
AT_A_TIME = 10_000
"""How many records are handed to the library, or taken from it, in one call."""
CREATED_S_MAX = 30.0


def _told(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


class Brokers(KafkaCluster):
    """The brokers of the harness with the settings of a server: only addresses and durability are not defaults."""

    def __init__(self, host: Host, durability: Durability) -> None:
        super().__init__(host, ReplicaOptions())
        self._durability = durability
        self.created: list[str] = []

    @property
    def topic_partitions(self) -> tuple[str, ...]:
        """What was created so far."""
        return tuple(self.created)

    async def prepare(self, node: int) -> None:
        """Write the properties and let Kafka format the disk."""
        self._properties(node).write_text(self._lines(node), encoding="utf-8")
        words = ("format", "--cluster-id", CLUSTER_ID, "--config", str(self._properties(node)))
        log_file = self.host.folder(node) / "format.log"
        command = java_command(full_path("java"), resolve_jars(POM), "kafka.tools.StorageTool", *words)
        if await self.host.run_once(node, command, log_file, at_most_s=self.started_s_max):
            raise click.ClickException(f"broker {node} cannot be formatted: {log_file.read_text(encoding='utf-8')}")

    def command(self, node: int) -> Sequence[str]:
        """A broker that is a controller as well."""
        where = ("-cp", str(resolve_jars(POM) / "*"))
        return (full_path("java"), *JAVA_OPTIONS, *LOG_LINES, *where, "kafka.Kafka", str(self._properties(node)))

    def _properties(self, node: int) -> Path:
        return self.host.folder(node) / "server.properties"

    def _lines(self, node: int) -> str:
        clients, controllers, harness = (
            self.advertised(node, port) for port in (CLIENT_PORT, CONTROLLER_PORT, HARNESS_PORT)
        )
        voters = ",".join(f"{peer}@{self.advertised(peer, CONTROLLER_PORT)}" for peer in self.nodes)
        lines = {
            "process.roles": "broker,controller",
            "node.id": node,
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{clients},CONTROLLER://{controllers},HARNESS://{harness}",
            "advertised.listeners": f"PLAINTEXT://{clients},HARNESS://{harness}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,HARNESS:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.host.folder(node) / "data",
        }
        if self._durability is Durability.FSYNC:
            lines["log.flush.interval.messages"] = 1
        return "".join(f"{name}={value}\n" for name, value in lines.items())


class Kafka(ForeignPeer):
    """Three brokers, and topics of one partition."""

    name = "Kafka"
    abilities = frozenset({Ability.RECORDS, Ability.WRITES, Ability.RECORDS_FAIL_OVER})
    durabilities = (Durability.PAGE_CACHE, Durability.FSYNC)
    settings = MappingProxyType(
        {
            "fsync": "log.flush.interval.messages=1",
            "topics": "min.insync.replicas=2",
            "producers": "acks=all",
            "bulk": _told(IN_BULK),
            "one in flight": _told(AT_ONCE),
            "256 in flight": _told(MANY_AT_ONCE),
            "consume": _told(READ),
        }
    )
    nodes: Brokers

    def __init__(self, folder: Path, durability: Durability) -> None:
        super().__init__(folder, durability)
        self._producers: dict[str, Producer] = {}
        self._kept_admin: AdminClient | None = None

    @classmethod
    def missing(cls) -> str | None:
        """Java, the jars, or the client."""
        if find_spec("confluent_kafka") is None:
            return "confluent-kafka is not installed: pip install '.[peers]'"
        try:
            full_path("java")
            check_resolvable(POM)
        except UnsupportedError as error:
            return str(error)
        return None

    @classmethod
    def version(cls) -> str:
        """By the names of the jars."""
        (clients,) = resolve_jars(POM).glob("kafka-clients-*.jar")
        return f"{clients.stem.rpartition('-')[2]}, confluent-kafka {version('confluent-kafka')}"

    def cluster(self, host: LoopbackHost) -> Brokers:
        """Not those under test, which are less patient."""
        return Brokers(host, self.durability)

    async def close_clients(self) -> None:
        """Give up what is still under way."""
        for producer in self._producers.values():
            producer.purge()
            producer.flush(1)

    async def create(self, topic: str) -> None:
        """Create a topic, and wait until all replicas are in sync."""
        from confluent_kafka.admin import NewTopic

        admin = self._admin()
        configs = {"min.insync.replicas": str(MIN_IN_SYNC)}
        new = NewTopic(topic, num_partitions=1, replication_factor=NODES, config=configs)
        end_s = time.monotonic() + CREATED_S_MAX
        while len(admin.list_topics(timeout=CREATED_S_MAX).brokers) < NODES:
            if time.monotonic() > end_s:
                raise click.ClickException(f"not all brokers are registered after {CREATED_S_MAX} s")
            await asyncio.sleep(0.1)
        for created in admin.create_topics([new], request_timeout=CREATED_S_MAX).values():
            created.result(CREATED_S_MAX)
        self.nodes.created.append(f"{topic}-0")
        await self.wait_whole(f"{topic}-0")
        while not self._is_known(topic):
            if time.monotonic() > end_s:
                raise click.ClickException(f"not all brokers know {topic} after {CREATED_S_MAX} s")
            await asyncio.sleep(0.1)

    # --- records ------------------------------------------------------------------------------------------------------

    async def produce(self, topic: str, value: bytes, count: int) -> None:
        """In batches, with a callback for what fails only: how much has arrived is seen by where the log ends."""
        before = self._log_end(topic)
        producer = self._producer(IN_BULK)
        batch = [{"value": value} for _ in range(AT_A_TIME)]
        left = count
        while left:
            taken = producer.produce_batch(topic, batch[:left], partition=0)
            left -= taken
            if taken < AT_A_TIME:
                producer.poll(0.01)
        producer.flush()
        self._check(self._log_end(topic) - before, count)

    async def produce_each(self, topic: str, value: bytes, count: int) -> None:
        """A callback for each."""
        producer = self._producer(IN_BULK)
        delivered = 0

        def on_delivery(error: KafkaError | None, message: object) -> None:
            nonlocal delivered
            del message
            delivered += error is None

        for number in range(count):
            while not _taken(partial(producer.produce, topic, value, partition=0, on_delivery=on_delivery)):
                producer.poll(0.01)
            if number % 1000 == 0:
                producer.poll(0)
        producer.flush()
        self._check(delivered, count)

    async def consume(self, topic: str, count: int) -> None:
        """A message object for each, many at a time."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({**self._config(), "group.id": "bench", **READ})
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            seen = 0
            while seen < count:
                for message in consumer.consume(AT_A_TIME, timeout=1):
                    if message.error() is not None:
                        raise click.ClickException(str(message.error()))
                    message.value()
                    seen += 1
        finally:
            consumer.close()

    async def write(self, topic: str, in_flight: int, seconds: float) -> Answered:
        """As many as are in flight are handed over; the library says when each is there."""
        producer = self._producer(AT_ONCE if in_flight == 1 else MANY_AT_ONCE)
        took_s: list[float] = []
        handed_over = 0

        def on_delivery(begun_s: float, error: KafkaError | None, message: object) -> None:
            del message
            if error is not None:
                raise click.ClickException(str(error))
            took_s.append(time.perf_counter() - begun_s)

        begun_s = time.perf_counter()
        while (now_s := time.perf_counter()) < begun_s + seconds:
            while handed_over - len(took_s) < in_flight:
                producer.produce(topic, VALUE, partition=0, on_delivery=partial(on_delivery, now_s))
                handed_over += 1
            producer.poll(1)
        producer.flush()
        return Answered(took_s=took_s, elapsed_s=time.perf_counter() - begun_s)

    # --- the leader is killed -----------------------------------------------------------------------------------------

    async def attempt(self, topic: str | None) -> None:
        """One record; the library tries again by itself."""
        assert topic is not None, "there are topics only"
        producer = self._producer(AT_ONCE)
        outcomes: list[Any] = []
        producer.produce(topic, VALUE, partition=0, on_delivery=lambda error, _: outcomes.append(error))
        while not outcomes:
            producer.poll(0)
            await asyncio.sleep(0.002)
        if outcomes[0] is not None:
            raise click.ClickException(str(outcomes[0]))

    async def kill_leader(self, topic: str | None) -> float:
        """Of the topic's only partition."""
        return await self.kill(await self.wait_whole(f"{topic}-0"))

    async def recover(self, topic: str | None) -> None:
        """Until all replicas of the partition are in sync."""
        await self.start_killed()
        await self.wait_whole(f"{topic}-0")

    # --- clients ------------------------------------------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        addresses = ",".join(self.nodes.advertised(node, CLIENT_PORT) for node in self.nodes.nodes)
        return {"bootstrap.servers": addresses, "log_level": 0}

    def _producer(self, settings: dict[str, Any]) -> Producer:
        """The producer with these settings, which is kept."""
        from confluent_kafka import Producer

        what = _told(settings)
        if what not in self._producers:
            self._producers[what] = Producer({**self._config(), "acks": "all", **settings})
        return self._producers[what]

    def _log_end(self, topic: str) -> int:
        """Where a log ends."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        partition = TopicPartition(topic, 0)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # it has no annotations there
        asked = self._admin().list_offsets({partition: latest}, request_timeout=CREATED_S_MAX)
        return int(asked[partition].result(CREATED_S_MAX).offset)

    def _is_known(self, topic: str) -> bool:
        from confluent_kafka import KafkaException

        try:
            self._log_end(topic)
        except KafkaException:
            return False
        return True

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        if self._kept_admin is None:
            self._kept_admin = AdminClient(self._config())
        return self._kept_admin

    def _check(self, arrived: int, expected: int) -> None:
        if arrived != expected:
            raise click.ClickException(f"{expected} records were written, {arrived} arrived")


def _taken(produce: Callable[[], None]) -> bool:
    """Whether the library had room."""
    try:
        produce()
    except BufferError:
        return False
    return True
