"""What a topic can be told: its settings with Kafka's names, their defaults, and how they are read from text.

Owns names, defaults and bounds. Every setting is text: on the way in as an operator writes it, in the metadata log as
``canonical_configs`` writes it; ``topic_config`` reads a topic's settings into one value. Knows nothing of topics or of
who may change them.

Source: Kafka's ``TopicConfig``, ``LogConfig``, ``ConfigDef.parseType``; KIP-966 for the effective minimum of the ISR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from replica.core.config import ControllerConfig

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
NO_LIMIT = -1
"""How text says that there is no limit; as a value that is an absent one."""


class InvalidTopicConfigError(ValueError):
    """A setting that no topic can have; the message names the setting, the value and what it may be."""


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


def topic_config(overrides: Mapping[str, str], defaults: TopicConfig = DEFAULTS) -> TopicConfig:
    """Read the settings in which a topic differs from ``defaults``. Raises InvalidTopicConfigError."""
    check_names(overrides)
    return TopicConfig(
        min_insync_replicas=_integer(
            overrides, TopicSetting.MIN_INSYNC_REPLICAS, defaults.min_insync_replicas, minimum=1, maximum=INT_MAX
        ),
        unclean_leader_election_enable=_flag(
            overrides, TopicSetting.UNCLEAN_LEADER_ELECTION_ENABLE, defaults.unclean_leader_election_enable
        ),
        retention_ms=_limit(overrides, TopicSetting.RETENTION_MS, defaults.retention_ms),
        retention_bytes=_limit(overrides, TopicSetting.RETENTION_BYTES, defaults.retention_bytes),
        max_message_bytes=_integer(
            overrides, TopicSetting.MAX_MESSAGE_BYTES, defaults.max_message_bytes, minimum=0, maximum=INT_MAX
        ),
        message_timestamp_type=_timestamp_type(overrides, defaults.message_timestamp_type),
        message_timestamp_before_max_ms=_span(
            overrides, TopicSetting.MESSAGE_TIMESTAMP_BEFORE_MAX_MS, defaults.message_timestamp_before_max_ms
        ),
        message_timestamp_after_max_ms=_span(
            overrides, TopicSetting.MESSAGE_TIMESTAMP_AFTER_MAX_MS, defaults.message_timestamp_after_max_ms
        ),
    )


def canonical_configs(overrides: Mapping[str, str]) -> dict[str, str]:
    """The same settings, each value as it is to be kept: plain digits, true or false. Raises InvalidTopicConfigError.

    Spaces, a plus sign, leading zeros and capitals, which a parser may take, are not left to those who read it later.
    """
    read = topic_config(overrides)
    values: Mapping[str, str | int | bool | None] = {
        TopicSetting.MIN_INSYNC_REPLICAS: read.min_insync_replicas,
        TopicSetting.UNCLEAN_LEADER_ELECTION_ENABLE: read.unclean_leader_election_enable,
        TopicSetting.RETENTION_MS: read.retention_ms,
        TopicSetting.RETENTION_BYTES: read.retention_bytes,
        TopicSetting.MAX_MESSAGE_BYTES: read.max_message_bytes,
        TopicSetting.MESSAGE_TIMESTAMP_TYPE: read.message_timestamp_type,
        TopicSetting.MESSAGE_TIMESTAMP_BEFORE_MAX_MS: read.message_timestamp_before_max_ms,
        TopicSetting.MESSAGE_TIMESTAMP_AFTER_MAX_MS: read.message_timestamp_after_max_ms,
    }
    return {name: _written(values[name]) for name in overrides}


def _written(value: str | int | bool | None) -> str:
    return value if isinstance(value, str) else str(NO_LIMIT if value is None else value).lower()


def check_names(names: Iterable[str]) -> None:
    """Raise InvalidTopicConfigError unless all are names of settings."""
    known = tuple(setting.value for setting in TopicSetting)
    for name in names:
        if name not in known:
            raise InvalidTopicConfigError(f"{name} is not a setting of a topic; there are {', '.join(known)}")


def _limit(overrides: Mapping[str, str], setting: TopicSetting, default: int | None) -> int | None:
    value = _integer(overrides, setting, NO_LIMIT if default is None else default, minimum=NO_LIMIT, maximum=LONG_MAX)
    return None if value == NO_LIMIT else value


def _span(overrides: Mapping[str, str], setting: TopicSetting, default: int) -> int:
    return _integer(overrides, setting, default, minimum=0, maximum=LONG_MAX)


def _timestamp_type(overrides: Mapping[str, str], default: TimestampType) -> TimestampType:
    text = overrides.get(TopicSetting.MESSAGE_TIMESTAMP_TYPE)
    if text is None:
        return default
    for known in TimestampType:
        if text.strip().lower() == known.lower():
            return known
    names = " or ".join(TimestampType)
    raise InvalidTopicConfigError(f"{TopicSetting.MESSAGE_TIMESTAMP_TYPE} is {_shown(text)}; it must be {names}")


def _integer(overrides: Mapping[str, str], setting: TopicSetting, default: int, *, minimum: int, maximum: int) -> int:
    text = overrides.get(setting)
    if text is None:
        return default
    number = text.strip()
    digits = number[1:] if number[:1] in ("+", "-") else number
    # The length first: there is no need to work out the value of a megabyte of digits.
    if digits.isascii() and digits.isdigit() and len(digits) <= len(str(LONG_MAX)):
        value = int(number)
        if minimum <= value <= maximum:
            return value
    raise InvalidTopicConfigError(f"{setting} is {_shown(text)}; it must be a number from {minimum} to {maximum}")


def _flag(overrides: Mapping[str, str], setting: TopicSetting, default: bool) -> bool:
    match overrides.get(setting):
        case None:
            return default
        case text if text.strip().lower() in ("true", "false"):
            return text.strip().lower() == "true"
        case text:
            raise InvalidTopicConfigError(f"{setting} is {_shown(text)}; it must be true or false")


def _shown(text: str) -> str:
    """As much of a value as an error message repeats."""
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
