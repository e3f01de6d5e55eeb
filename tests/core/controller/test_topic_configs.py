"""What a topic can be told, as tables."""

from __future__ import annotations

import pytest

from replica.core.config import ControllerConfig, InvalidConfigError
from replica.core.metadata.configs import (
    DEFAULTS,
    TimestampType,
    TopicConfig,
    canonical_configs,
    cluster_defaults,
    topic_config,
)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param({}, DEFAULTS, id="nothing"),
        pytest.param({"min.insync.replicas": "2"}, TopicConfig(min_insync_replicas=2), id="min_isr"),
        pytest.param(
            {"unclean.leader.election.enable": "true"}, TopicConfig(unclean_leader_election_enable=True), id="unclean"
        ),
        pytest.param({"unclean.leader.election.enable": "False"}, DEFAULTS, id="any_case"),
        pytest.param({"retention.ms": "-1"}, TopicConfig(retention_ms=None), id="no_time_limit"),
        pytest.param({"retention.ms": "0"}, TopicConfig(retention_ms=0), id="time_limit_of_zero"),
        pytest.param({"retention.bytes": "1024"}, TopicConfig(retention_bytes=1024), id="size_limit"),
        pytest.param({"retention.bytes": "-1"}, DEFAULTS, id="no_size_limit"),
        pytest.param({"max.message.bytes": " 99 "}, TopicConfig(max_message_bytes=99), id="with_spaces"),
        pytest.param(
            {"message.timestamp.type": " logappendtime "},
            TopicConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME),
            id="timestamp_type",
        ),
        pytest.param(
            {"message.timestamp.before.max.ms": "7", "message.timestamp.after.max.ms": "0"},
            TopicConfig(message_timestamp_before_max_ms=7, message_timestamp_after_max_ms=0),
            id="timestamp_spans",
        ),
        pytest.param({"retention.ms": str((1 << 63) - 1)}, TopicConfig(retention_ms=(1 << 63) - 1), id="largest_long"),
    ],
)
def test_settings_are_read(overrides: dict[str, str], expected: TopicConfig) -> None:
    """Text becomes values; what is not told is the default."""
    assert topic_config(overrides) == expected


@pytest.mark.parametrize(
    ("name", "value", "bounds"),
    [
        ("min.insync.replicas", "0", "from 1 to 2147483647"),
        ("min.insync.replicas", "2147483648", "from 1 to 2147483647"),
        ("min.insync.replicas", "", "from 1 to"),
        ("min.insync.replicas", "two", "from 1 to"),
        ("min.insync.replicas", "1_0", "from 1 to"),
        ("min.insync.replicas", "+-1", "from 1 to"),
        ("min.insync.replicas", "- 1", "from 1 to"),
        ("min.insync.replicas", "\uff11", "from 1 to"),
        ("min.insync.replicas", "9" * 5000, "from 1 to"),
        ("retention.ms", "-2", "from -1 to 9223372036854775807"),
        ("retention.ms", "1.5", "from -1 to"),
        ("retention.bytes", "-2", "from -1 to 9223372036854775807"),
        ("max.message.bytes", "-1", "from 0 to 2147483647"),
        ("unclean.leader.election.enable", "yes", "true or false"),
        ("message.timestamp.type", "NoTimestampType", "CreateTime or LogAppendTime"),
        ("message.timestamp.before.max.ms", "-1", "from 0 to 9223372036854775807"),
        ("message.timestamp.after.max.ms", "-1", "from 0 to 9223372036854775807"),
    ],
)
def test_wrong_values_are_named(name: str, value: str, bounds: str) -> None:
    """An error names the setting, the value and what it may be."""
    with pytest.raises(InvalidConfigError) as caught:
        topic_config({name: value})
    message = str(caught.value)
    assert name in message
    assert value[:80] in message
    assert bounds in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("name", "value", "canonical"),
    [
        ("min.insync.replicas", " 2", "2"),
        ("min.insync.replicas", "+2", "2"),
        ("min.insync.replicas", "002\n", "2"),
        ("retention.ms", "-01", "-1"),
        ("retention.bytes", "-0", "0"),
        ("max.message.bytes", "\t99 ", "99"),
        ("unclean.leader.election.enable", " TRUE", "true"),
        ("unclean.leader.election.enable", "False", "false"),
    ],
)
def test_each_value_is_written_in_one_way(name: str, value: str, canonical: str) -> None:
    """What Kafka's parser takes for the same value becomes the same text, whose meaning is that of the first one."""
    assert canonical_configs({name: value}) == {name: canonical}
    assert canonical_configs({name: canonical}) == {name: canonical}
    assert topic_config({name: canonical}) == topic_config({name: value})


def test_unknown_settings_are_named() -> None:
    """An error about an unknown setting names it and those that there are."""
    with pytest.raises(InvalidConfigError, match=r"retention.hours .* retention.ms"):
        topic_config({"retention.hours": "1"})


def test_defaults_of_the_cluster() -> None:
    """A topic that is told nothing is like the cluster; what it is told counts more."""
    defaults = cluster_defaults(ControllerConfig(min_insync_replicas=3, unclean_leader_election_enable=True))
    assert topic_config({}, defaults) == TopicConfig(min_insync_replicas=3, unclean_leader_election_enable=True)
    assert topic_config({"min.insync.replicas": "1"}, defaults).min_insync_replicas == 1


@pytest.mark.parametrize(("min_isr", "replicas", "effective"), [(1, 3, 1), (2, 3, 2), (3, 3, 3), (4, 3, 3), (2, 1, 1)])
def test_effective_min_isr(min_isr: int, replicas: int, effective: int) -> None:
    """More than there are cannot be in sync."""
    assert TopicConfig(min_insync_replicas=min_isr).effective_min_isr(replicas) == effective
