"""What is set and what is measured: the settings of topics, and the metrics of a replica."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.metrics_core import Metric

from docs.reference.tables import code, codes, table
from replica.core.config import InvalidConfigError
from replica.core.metadata.configs import (
    DEFAULTS,
    LONG_MAX,
    NO_LIMIT,
    TOPIC_SETTINGS,
    TopicSetting,
    topic_config,
)
from replica.core.metadata.image import MetadataImage
from replica.ids import BrokerEpoch, Offset, ReplicaId, TopicPartition
from replica.server.load_metrics import Held
from replica.server.metrics import Metrics

START = Offset(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nothing:
    """A replica without a log, of which metrics can be asked."""

    replica_id: ReplicaId
    logs: Mapping[Any, Any] = field(default_factory=dict)
    groups: Mapping[Any, Any] = field(default_factory=dict)
    partitions: Mapping[Any, Any] = field(default_factory=dict)
    offline: Mapping[Any, Any] = field(default_factory=dict)
    failed_directories: Mapping[Any, Any] = field(default_factory=dict)
    image: MetadataImage = field(default_factory=MetadataImage)
    metadata_offset: Offset = START
    is_broker: bool = True
    broker_epoch: BrokerEpoch | None = None
    is_active_controller: bool = False
    tellings: int = 0

    def told_since(self, _tellings: int) -> tuple[TopicPartition, ...]:
        """No partition was told anything."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Idle:
    """A replica that has nothing to do."""

    lane_depths: Mapping[str, int] = field(default_factory=dict)
    flushes_pending: int = 0
    calls_waiting: int = 0
    memory: Mapping[str, Held] = field(default_factory=dict)


def metrics() -> str:
    """Every metric of a replica."""
    rows = [
        (code(_served(metric)), metric.type, codes(labels), metric.documentation) for metric, labels in metrics_served()
    ]
    return f"""# Metrics

`replica start --metrics-listen` serves them at `/metrics`, as Prometheus reads them. A histogram `X` is served as
`X_bucket`, `X_sum` and `X_count`.

{table(("name", "type", "labels", "meaning"), rows)}"""


def metrics_served() -> Iterator[tuple[Metric, tuple[str, ...]]]:
    """Each metric with the names of its labels."""
    served = Metrics(_Nothing(replica_id=ReplicaId(1)))
    served.watch(_Idle())
    for metric in served.registry.collect():
        yield metric, tuple(getattr(metric, "_labelnames", ()))


def _served(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def topics() -> str:
    """Every setting of a topic, with its default and what it may be."""
    rows = [
        (code(setting.value), code(_default(setting)), code(_unit(setting)), _may_be(setting), kind.says)
        for setting, kind in TOPIC_SETTINGS.items()
    ]
    return f"""# Settings of topics

Names and meanings are Kafka's; [Replication](../replication.md) says what follows from them.
`replica topic create --config NAME=VALUE` sets one, `replica topic alter` changes it while the cluster runs. A limit of
{code(NO_LIMIT)} does not count. A topic that is created without `min.insync.replicas` gets that of the
[controller](settings.md#the-controller); where it has no `unclean.leader.election.enable`, that of the active
controller holds.

{table(("setting", "default", "unit", "it must be", "what it says"), rows)}"""


def _unit(setting: TopicSetting) -> str:
    """What the end of the name says, as with Kafka's."""
    units = {"ms": "ms", "bytes": "bytes", "replicas": "replicas", "enable": "switch", "type": "word"}
    return units[setting.value.rpartition(".")[2]]


def _may_be(setting: TopicSetting) -> str:
    """What the refusal of a value says that no setting can have."""
    try:
        topic_config({setting.value: "?"})
    except InvalidConfigError as refusal:
        return str(refusal).partition("it must be ")[2].replace(str(LONG_MAX), "2^63 - 1")
    raise AssertionError(setting)


def _default(setting: TopicSetting) -> object:
    value = getattr(DEFAULTS, setting.name.lower())
    match value:
        case None:
            return NO_LIMIT
        case bool():
            return str(value).lower()
        case int() if value == LONG_MAX:
            return "2^63 - 1"
        case _:
            return value
