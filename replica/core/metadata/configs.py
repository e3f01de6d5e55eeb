"""What a topic can be told: its settings with Kafka's names, their defaults, and how they are read from text.

Owns names, defaults and bounds. Every setting is text: on the way in as an operator writes it, in the metadata log as
``canonical_configs`` writes it; ``topic_config`` reads a topic's settings into one value. Knows nothing of topics or of
who may change them.

Source: Kafka's ``TopicConfig``, ``LogConfig``; KIP-966 for the effective minimum of the ISR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replica.bounds import INT64_MAX
from replica.core.config import ControllerConfig, InvalidConfigError
from replica.core.setting_kinds import Kind, Number, Switch, Word, written

LONG_MAX = INT64_MAX
NO_LIMIT = -1
"""How text says that there is no limit; as a value that is an absent one."""


class TimestampType(StrEnum):
    """Whose time a topic's records bear: their producers', or the leader's when it appended them (KIP-32)."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class TopicSetting(StrEnum):
    """The name of a setting."""

    MIN_INSYNC_REPLICAS = "min.insync.replicas"
    UNCLEAN_LEADER_ELECTION_ENABLE = "unclean.leader.election.enable"
    RETENTION_MS = "retention.ms"
    RETENTION_BYTES = "retention.bytes"
    MAX_MESSAGE_BYTES = "max.message.bytes"
    MESSAGE_TIMESTAMP_TYPE = "message.timestamp.type"
    MESSAGE_TIMESTAMP_BEFORE_MAX_MS = "message.timestamp.before.max.ms"
    MESSAGE_TIMESTAMP_AFTER_MAX_MS = "message.timestamp.after.max.ms"


class TopicConfig(Struct, frozen=True, kw_only=True):
    """The settings of one topic. An absent limit does not count."""

    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    retention_ms: int | None = 604_800_000
    retention_bytes: int | None = None
    max_message_bytes: int = 1_048_588
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000

    def effective_min_isr(self, replication_factor: int) -> int:
        """How many replicas must be in sync for anything to be committed: never more than there are (KIP-966)."""
        assert replication_factor > 0, replication_factor
        return min(self.min_insync_replicas, replication_factor)


DEFAULTS = TopicConfig()
"""What holds for a topic that was told nothing."""


def cluster_defaults(config: ControllerConfig) -> TopicConfig:
    """What a controller takes where a new topic was told nothing."""
    return TopicConfig(
        min_insync_replicas=config.min_insync_replicas,
        unclean_leader_election_enable=config.unclean_leader_election_enable,
    )


TOPIC_SETTINGS: Mapping[TopicSetting, Kind] = MappingProxyType(
    {
        TopicSetting.MIN_INSYNC_REPLICAS: Number("replicas", "How many replicas must be in sync for acks=all."),
        TopicSetting.UNCLEAN_LEADER_ELECTION_ENABLE: Switch("Let a replica lead that is not in sync, if no other can."),
        TopicSetting.RETENTION_MS: Number("ms", "How long records are kept.", NO_LIMIT, INT64_MAX),
        TopicSetting.RETENTION_BYTES: Number("bytes", "How much of a partition is kept.", NO_LIMIT, INT64_MAX),
        TopicSetting.MAX_MESSAGE_BYTES: Number("bytes", "The largest batch of records.", 0),
        TopicSetting.MESSAGE_TIMESTAMP_TYPE: Word("Whose time records bear.", tuple(TimestampType)),
        TopicSetting.MESSAGE_TIMESTAMP_BEFORE_MAX_MS: Number("ms", "How old records may be.", 0, INT64_MAX),
        TopicSetting.MESSAGE_TIMESTAMP_AFTER_MAX_MS: Number("ms", "How far records may be ahead.", 0, INT64_MAX),
    }
)
"""What each may be."""

_LIMITS = frozenset({TopicSetting.RETENTION_MS, TopicSetting.RETENTION_BYTES})
"""Those of which NO_LIMIT says that there is none."""


def topic_config(overrides: Mapping[str, str], defaults: TopicConfig = DEFAULTS) -> TopicConfig:
    """Read the settings in which a topic differs from ``defaults``. Raises InvalidConfigError."""
    check_names(overrides)
    return replace(defaults, **{TopicSetting(name).name.lower(): _read(name, text) for name, text in overrides.items()})


def canonical_configs(overrides: Mapping[str, str]) -> dict[str, str]:
    """The same settings, each value as it is to be kept: plain digits, true or false. Raises InvalidConfigError.

    Spaces, a plus sign, leading zeros and capitals, which a parser may take, are not left to those who read it later.
    """
    check_names(overrides)
    return {name: written(TOPIC_SETTINGS[TopicSetting(name)].read(name, text)) for name, text in overrides.items()}


def check_names(names: Iterable[str]) -> None:
    """Raise InvalidConfigError unless all are names of settings."""
    known = tuple(setting.value for setting in TopicSetting)
    for name in names:
        if name not in known:
            raise InvalidConfigError(f"{name} is not a setting of a topic; there are {', '.join(known)}")


def _read(name: str, text: str) -> Any:
    """A value as ``TopicConfig`` has it."""
    setting = TopicSetting(name)
    value = TOPIC_SETTINGS[setting].read(name, text)
    if setting in _LIMITS and value == NO_LIMIT:
        return None
    return TimestampType(str(value)) if setting is TopicSetting.MESSAGE_TIMESTAMP_TYPE else value
