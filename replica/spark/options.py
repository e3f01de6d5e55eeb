"""The options of reading and writing, with the names of Spark's Kafka source and of Kafka's clients.

Owns what they mean and what is refused: an option that is unknown here is an error, since it would be passed over in
silence otherwise. Names are compared without regard to case, as Spark does. Source: Spark's ``KafkaSourceProvider``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from replica.ids import OFFSET_MAX, Offset, TopicPartition
from replica.records import Compression
from replica.rpc.addresses import InvalidAddressError, check_address
from replica.spark.errors import OptionError
from replica.spark.values import Bound

EARLIEST_OFFSET, LATEST_OFFSET = -2, -1
"""How JSON offsets name the bounds of a log (Kafka's ``ListOffsetsRequest``)."""
INT_MAX = (1 << 31) - 1
MIN_PARTITIONS_MAX = 100_000
"""More tasks than that are a mistake."""
LINGER_MS_MAX = 30_000
_PARTITION = re.compile(r"[0-9]{1,10}")

CONNECTION_OPTIONS = ("bootstrap.servers", "cluster.id", "default.api.timeout.ms")
READ_OPTIONS = (
    *CONNECTION_OPTIONS,
    *("subscribe", "assign", "startingOffsets", "failOnDataLoss", "minPartitions"),
    *("client.rack", "max.partition.fetch.bytes"),
)
BATCH_OPTIONS = (*READ_OPTIONS, "endingOffsets")
STREAM_OPTIONS = (*READ_OPTIONS, "maxOffsetsPerTrigger")
WRITE_OPTIONS = (
    *CONNECTION_OPTIONS,
    *("topic", "query", "batch", "compression.type", "batch.size", "linger.ms", "delivery.timeout.ms"),
)
SPARKS_OWN = ("checkpointLocation", "queryName")
"""What Spark hands to a stream's sink along with its options."""

OffsetSpec = Bound | Mapping[TopicPartition, Bound | Offset]
"""Where to begin or end: at the same bound everywhere, or by partition."""
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How the cluster is reached. ``servers`` is ``HOST:PORT``, more of them with commas between."""

    servers: str
    cluster_id: str | None
    api_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What is read. ``partitions`` names them where a topic is not read as a whole."""

    connection: ConnectionOptions
    topics: tuple[str, ...]
    partitions: frozenset[TopicPartition] | None
    starting: OffsetSpec
    ending: OffsetSpec
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_partitions: int | None
    client_rack: str | None
    max_partition_fetch_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where rows are written. Without ``topic`` each row names its own; without ``query`` each job makes an id."""

    connection: ConnectionOptions
    topic: str | None
    query: str | None
    batch: int | None
    compression: Compression
    batch_bytes: int
    linger_ms: int
    delivery_timeout_ms: int


def batch_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Read the options of ``spark.read``. Raises OptionError."""
    options = _Options(given, BATCH_OPTIONS)
    starting = options.offsets("startingOffsets", Bound.EARLIEST)
    if starting is Bound.LATEST:
        raise OptionError("startingOffsets", "latest", "a batch that begins there is empty; earliest or JSON")
    ending = options.offsets("endingOffsets", Bound.LATEST)
    named = [] if isinstance(ending, Bound) else list(ending.values())
    if ending is Bound.EARLIEST or Bound.EARLIEST in named:
        raise OptionError("endingOffsets", options.text("endingOffsets"), "allowed are latest, or JSON without -2")
    return _read_options(options, starting, ending, None)


def stream_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Read the options of ``spark.readStream``. Raises OptionError."""
    options = _Options(given, STREAM_OPTIONS)
    starting = options.offsets("startingOffsets", Bound.LATEST)
    return _read_options(options, starting, Bound.LATEST, options.whole("maxOffsetsPerTrigger", at_least=1))


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Read the options of ``write`` and ``writeStream``. Raises OptionError."""
    options = _Options(given, (*WRITE_OPTIONS, *SPARKS_OWN))
    linger_ms = options.whole("linger.ms", at_least=0, at_most=LINGER_MS_MAX)
    return WriteOptions(
        connection=_connection(options),
        topic=options.text("topic"),
        query=options.text("query"),
        batch=options.whole("batch", at_least=0, at_most=OFFSET_MAX),
        compression=options.read("compression.type", Compression, "none, lz4 or zstd") or Compression.NONE,
        batch_bytes=options.whole("batch.size", at_least=1, at_most=1 << 20) or 128 << 10,
        linger_ms=5 if linger_ms is None else linger_ms,
        delivery_timeout_ms=options.whole("delivery.timeout.ms", at_least=60_000) or 120_000,
    )


def _read_options(
    options: _Options, starting: OffsetSpec, ending: OffsetSpec, max_offsets_per_trigger: int | None
) -> ReadOptions:
    subscribed, assigned = options.text("subscribe"), options.text("assign")
    if (subscribed is None) == (assigned is None):
        raise OptionError("subscribe", subscribed, "give either subscribe (orders,payments) or assign (JSON), not both")
    partitions = None if assigned is None else _assigned(assigned)
    topics = _topics(subscribed) if partitions is None else sorted({name.topic for name in partitions})
    fail_on_data_loss = options.read("failOnDataLoss", _truth, "true or false")
    return ReadOptions(
        connection=_connection(options),
        topics=tuple(topics),
        partitions=partitions,
        starting=starting,
        ending=ending,
        fail_on_data_loss=True if fail_on_data_loss is None else fail_on_data_loss,
        max_offsets_per_trigger=max_offsets_per_trigger,
        min_partitions=options.whole("minPartitions", at_least=1, at_most=MIN_PARTITIONS_MAX),
        client_rack=options.text("client.rack"),
        max_partition_fetch_bytes=options.whole("max.partition.fetch.bytes", at_least=1) or 4 << 20,
    )


def _connection(options: _Options) -> ConnectionOptions:
    servers = options.text("bootstrap.servers")
    allowed = "HOST:PORT of one or more brokers, with commas between (127.0.0.1:9092)"
    if servers is None:
        raise OptionError("bootstrap.servers", None, allowed)
    try:
        for server in servers.split(","):
            check_address(server.strip())
    except InvalidAddressError as error:
        raise OptionError("bootstrap.servers", servers, f"{error}; allowed are {allowed}") from error
    return ConnectionOptions(
        servers=servers,
        cluster_id=options.text("cluster.id"),
        api_timeout_ms=options.whole("default.api.timeout.ms", at_least=1) or 60_000,
    )


class _Options:
    """The options that were given, each of which must be one of ``known``."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}
        names = {name.lower(): name for name in known}
        for name, value in self._values.items():
            if name not in names:
                shown = sorted(name for name in known if name not in SPARKS_OWN)
                raise OptionError(name, value, f"there is none of that name here; allowed are {', '.join(shown)}")

    def text(self, name: str) -> str | None:
        """A value as it was written, if it was given; an empty one is refused."""
        value = self._values.get(name.lower())
        if value is not None and not value.strip():
            raise OptionError(name, value, "give a value, or leave the option away")
        return value

    def read(self, name: str, reader: Callable[[str], ValueT], allowed: str) -> ValueT | None:
        """A value as ``reader`` reads it, lower case."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return reader(value.strip().lower())
        except ValueError as error:
            raise OptionError(name, value, f"allowed are {allowed}") from error

    def whole(self, name: str, *, at_least: int, at_most: int = INT_MAX) -> int | None:
        """A whole number between two bounds, both allowed."""
        allowed = f"whole numbers from {at_least} to {at_most}"
        number = self.read(name, int, allowed)
        if number is not None and not at_least <= number <= at_most:
            raise OptionError(name, self.text(name), f"allowed are {allowed}")
        return number

    def offsets(self, name: str, default: Bound) -> OffsetSpec:
        """Bounds by name, or offsets by topic and partition."""
        value = self.text(name)
        if value is None:
            return default
        if not value.strip().startswith("{"):
            bound = self.read(name, Bound, 'earliest, latest, or JSON like {"orders": {"0": 23, "1": -2}}')
            assert bound is not None, name
            return bound
        return _offsets(name, value)


def _topics(subscribed: str | None) -> list[str]:
    names = [name.strip() for name in (subscribed or "").split(",")]
    if not all(names):
        raise OptionError("subscribe", subscribed, "allowed are topics with commas between (orders,payments)")
    return sorted(set(names))


def _truth(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError(value)
    return value == "true"


def _assigned(value: str) -> frozenset[TopicPartition]:
    allowed = 'allowed is JSON like {"orders": [0, 1]}, with at least one partition'
    parsed = _json_object("assign", value, allowed)
    names: set[TopicPartition] = set()
    for topic, numbers in parsed.items():
        if not isinstance(numbers, list) or not all(_is_partition(number) for number in numbers):
            raise OptionError("assign", value, allowed)
        names.update(TopicPartition(topic, number) for number in numbers)
    if not names:
        raise OptionError("assign", value, allowed)
    return frozenset(names)


def _offsets(name: str, value: str) -> Mapping[TopicPartition, Bound | Offset]:
    allowed = 'allowed is JSON like {"orders": {"0": 23, "1": -2}}, where -2 is earliest and -1 latest'
    offsets: dict[TopicPartition, Bound | Offset] = {}
    for topic, by_partition in _json_object(name, value, allowed).items():
        if not isinstance(by_partition, dict):
            raise OptionError(name, value, allowed)
        for number, offset in by_partition.items():
            is_offset = type(offset) is int and EARLIEST_OFFSET <= offset <= OFFSET_MAX
            if not _PARTITION.fullmatch(number) or not _is_partition(int(number)) or not is_offset:
                raise OptionError(name, value, allowed)
            offsets[TopicPartition(topic, int(number))] = _bound_or_offset(offset)
    return offsets


def _bound_or_offset(offset: int) -> Bound | Offset:
    named = {EARLIEST_OFFSET: Bound.EARLIEST, LATEST_OFFSET: Bound.LATEST}
    return named.get(offset) or Offset(offset)


def _is_partition(number: object) -> bool:
    return type(number) is int and 0 <= number <= INT_MAX


def _json_object(name: str, value: str, allowed: str) -> dict[str, object]:
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise OptionError(name, value, allowed) from error
    if not isinstance(parsed, dict):
        raise OptionError(name, value, allowed)
    return parsed
