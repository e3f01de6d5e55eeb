"""What holds of what a replica is told while it runs: a table of what contradicts what, here or by itself."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from replica.core.config import BrokerConfig
from replica.core.dynamic_settings import numbers_of, settings_in_force, with_values
from replica.core.metadata.resources import ALL_BROKERS, broker_resource, told_to
from replica.core.setting_kinds import Value
from replica.ids import ReplicaId
from tests.core.test_raft_voter_sets import CONFIG

SAME: Mapping[str, Value] = {}


@pytest.mark.parametrize(
    ("told", "values", "left_out"),
    [
        pytest.param({}, SAME, {}, id="nothing"),
        pytest.param({"log_level": "debug", "num_partitions": "3"}, {"log_level": "debug", "num_partitions": 3}, {}),
        pytest.param({"later_release": "1"}, SAME, {"later_release": "no setting"}, id="unknown"),
        pytest.param({"elr_enable": "true"}, SAME, {"elr_enable": "needs a restart"}, id="read_only"),
        pytest.param({"num_partitions": "x"}, SAME, {"num_partitions": "must be a number"}, id="unreadable"),
        pytest.param(
            {"replica_fetch_wait_max_ms": "40000"},
            SAME,
            {"replica_fetch_wait_max_ms": "must be below replica_socket_timeout_ms (30000)"},
            id="contradicts_the_start",
        ),
        pytest.param(
            {"replica_fetch_wait_max_ms": "40000", "replica_socket_timeout_ms": "50000", "log_level": "info"},
            {"log_level": "info", "replica_socket_timeout_ms": 50_000},
            {"replica_fetch_wait_max_ms": "must be at most replica_lag_time_max_ms (30000)"},
            id="a_pair_that_fits_and_another_rule",
        ),
        pytest.param(
            {
                "replica_fetch_wait_max_ms": "50000",
                "replica_lag_time_max_ms": "60000",
                "replica_socket_timeout_ms": "9",
            },
            {"replica_lag_time_max_ms": 60_000},
            {"replica_fetch_wait_max_ms": "must be below", "replica_socket_timeout_ms": "must be below"},
            id="both_that_contradict",
        ),
    ],
)
def test_what_holds_of_what_is_told(
    told: Mapping[str, str], values: Mapping[str, Value], left_out: Mapping[str, str]
) -> None:
    """What contradicts is left out, with the reason, and the rest holds; the core takes all that holds."""
    found = settings_in_force(numbers_of(CONFIG), told)
    assert dict(found.values) == dict(values)
    assert found.left_out.keys() == left_out.keys()
    for name, words in left_out.items():
        assert words in found.left_out[name]
    assert with_values(BrokerConfig(), found.values) is not None


def test_one_broker_counts_for_more_than_all() -> None:
    """Setting by setting."""
    configs = {ALL_BROKERS: {"a": "1", "b": "2"}, broker_resource(ReplicaId(1)): {"b": "3"}}
    assert told_to(configs, ReplicaId(1)) == {"a": "1", "b": "3"}
    assert told_to(configs, ReplicaId(2)) == {"a": "1", "b": "2"}
