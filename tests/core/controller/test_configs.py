"""Settings of brokers and quotas of users: changed by decisions that are checked first, and gone by at once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from replica.bounds import CONFIG_RESOURCES_MAX
from replica.core import messages as m
from replica.core.controller.controller import Controller
from replica.core.metadata.records import ResourceConfigRecord
from replica.core.metadata.resources import ALL_BROKERS, ConfigResource, ConfigResourceType, broker_resource
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from tests.core.controller.bench import CLUSTER, CONFIG, SESSION_MS, Bench

ONE = broker_resource(ReplicaId(1))
SHOP = ConfigResource(resource_type=ConfigResourceType.USER, name="shop")
ALL_USERS = ConfigResource(resource_type=ConfigResourceType.USER)
LONGEST = "9" * 5000


def alter(bench: Bench, resource: ConfigResource, **configs: str | None) -> m.AlterConfigsResponse:
    return bench.ask(m.AlterConfigsRequest(resource=resource, configs=configs), m.AlterConfigsResponse)


def described(bench: Bench, kind: ConfigResourceType) -> dict[ConfigResource, Mapping[str, str]]:
    answer = bench.ask(m.DescribeConfigsRequest(resource_type=kind), m.DescribeConfigsResponse)
    return {each.resource: each.configs for each in answer.resources}


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.start(1, 2, 3)
    return bench


def test_settings_come_and_go(bench: Bench) -> None:
    """Each is a record, in one form; another controller, with the log or with a snapshot, has the same."""
    assert alter(bench, ONE, log_level=" DEBUG", handover_wait_ms="+007").error is ErrorCode.NONE
    assert bench.records == (
        ResourceConfigRecord(resource=ONE, name="handover_wait_ms", value="7"),
        ResourceConfigRecord(resource=ONE, name="log_level", value="debug"),
    )
    assert alter(bench, ALL_BROKERS, log_level="error").error is ErrorCode.NONE
    assert alter(bench, SHOP, request_rate="7").error is ErrorCode.NONE
    told = {ALL_BROKERS: {"log_level": "error"}, ONE: {"handover_wait_ms": "7", "log_level": "debug"}}
    for is_from_snapshot in (False, True):
        if is_from_snapshot:
            bench.restart_from_snapshot()
        else:
            bench.restart()
        assert described(bench, ConfigResourceType.BROKER) == told
        assert described(bench, ConfigResourceType.USER) == {SHOP: {"request_rate": "7"}}
    assert alter(bench, ONE, log_level=None, handover_wait_ms=None).error is ErrorCode.NONE
    assert described(bench, ConfigResourceType.BROKER) == {ALL_BROKERS: {"log_level": "error"}}


def test_what_is_so_already_is_not_decided_again(bench: Bench) -> None:
    """A change whose answer was lost may be asked for again."""
    alter(bench, ONE, log_level="debug")
    assert alter(bench, ONE, log_level="debug", stop_grace_ms=None).error is ErrorCode.NONE
    assert bench.records == ()


@pytest.mark.parametrize(
    ("resource", "name", "value", "message"),
    [
        (ONE, "no_such", "1", "no_such is no setting that a running replica can be told"),
        (ONE, "data_dir", "d", "data_dir is no setting that a running replica can be told"),
        (ONE, "election_timeout_ms", "1", "election_timeout_ms needs a restart"),
        (ALL_BROKERS, "elr_enable", "true", "elr_enable needs a restart"),
        (ONE, "num_partitions", "2", "num_partitions is of the whole cluster: set it for all brokers"),
        (ONE, "log_level", "loud", "log_level is 'loud'; it must be debug or info or warning or error"),
        (ONE, "client_calls_max", "0", "client_calls_max is '0'; it must be a number from 1 to 1000000"),
        (ONE, "client_calls_max", LONGEST, "it must be a number from 1 to 1000000"),
        (ALL_BROKERS, "auto_leader_rebalance_enable", "yes", "it must be true or false"),
        (broker_resource(ReplicaId(9)), "log_level", "info", "no broker has the id 9"),
        (broker_resource(ReplicaId(4)), "log_level", None, "no broker has the id 4"),
        (SHOP, "log_level", "info", "log_level is no quota; there are producer_byte_rate, consumer_byte_rate"),
        (ALL_USERS, "request_rate", "0", "request_rate is '0'; it must be a number from 1 to"),
        (
            ALL_BROKERS,
            "broker_session_timeout_ms",
            "2000",
            "broker_heartbeat_interval_ms (2000) must be below broker_session_timeout_ms (2000)",
        ),
        (
            ONE,
            "broker_heartbeat_interval_ms",
            "9000",
            "broker_heartbeat_interval_ms (9000) must be below broker_session_timeout_ms (9000)",
        ),
        (
            ALL_BROKERS,
            "connection_answer_bytes_max",
            "1073741825",
            "connection_answer_bytes_max (1073741825) must be at most answer_bytes_max (1073741824)",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    bench: Bench, resource: ConfigResource, name: str, value: str | None, message: str
) -> None:
    """In one sentence; what was right in the same request is not written either."""
    numbers = {
        "broker_heartbeat_interval_ms": (2000,),
        "broker_session_timeout_ms": (9000,),
        "answer_bytes_max": (1 << 30,),
    }
    bench.controller.deactivate()
    bench.controller = Controller(cluster_id=CLUSTER, config=CONFIG, rules=Rules(), numbers=numbers)
    bench.controller.activate(bench.committed, bench.now_ms)
    right = {"consumer_byte_rate": "1"} if resource.resource_type is ConfigResourceType.USER else {"stop_grace_ms": "1"}
    answer = alter(bench, resource, **{**right, name: value})
    assert answer.error is ErrorCode.INVALID_CONFIG
    assert message in answer.message
    assert len(answer.message) < 300
    assert bench.records == ()
    assert bench.committed.configs == {}


def test_a_broker_with_settings_of_its_own_is_thought_of(bench: Bench) -> None:
    """What is set of all may contradict what one broker has: then it is refused, and names that broker."""
    assert alter(bench, ALL_BROKERS, broker_session_timeout_ms="20000").error is ErrorCode.NONE
    assert alter(bench, ONE, broker_heartbeat_interval_ms="10000").error is ErrorCode.NONE
    answer = alter(bench, ALL_BROKERS, broker_session_timeout_ms="10000")
    assert (answer.error, "(broker 1)" in answer.message) == (ErrorCode.INVALID_CONFIG, True)
    answer = alter(bench, ALL_BROKERS, broker_session_timeout_ms=None, broker_heartbeat_interval_ms="1")
    assert answer.error is ErrorCode.NONE


def test_there_are_not_too_many() -> None:
    """One answer tells all who have settings: one more is refused, and who has some may have others."""
    bench = Bench()
    users = [ConfigResource(resource_type=ConfigResourceType.USER, name=f"{n:04}") for n in range(CONFIG_RESOURCES_MAX)]
    bench.committed = replace(bench.committed, configs={user: {"request_rate": "1"} for user in users})
    bench.restart()
    assert "the most there may be" in alter(bench, SHOP, request_rate="1").message
    assert alter(bench, users[0], request_rate="2").error is ErrorCode.NONE


def test_a_new_topic_goes_by_the_defaults_of_the_moment(bench: Bench) -> None:
    """What the metadata says counts for more than what the controller was started with, until it says so no more."""
    told = {"num_partitions": "4", "default_replication_factor": "3", "min_insync_replicas": "3"}
    assert alter(bench, ALL_BROKERS, **told).error is ErrorCode.NONE
    for is_anew in (False, True):
        if is_anew:
            bench.restart()
        name = f"topic-{bench.next_offset}"
        assert bench.ask(m.CreateTopicRequest(name=name), m.CreateTopicResponse).error is ErrorCode.NONE
        topic = bench.committed.topics[name]
        assert topic.configs == {"min.insync.replicas": "3"}
        assert [len(each.replicas) for each in topic.partitions.values()] == [3, 3, 3, 3]
    alter(bench, ALL_BROKERS, **dict.fromkeys(told))
    bench.ask(m.CreateTopicRequest(name="last"), m.CreateTopicResponse)
    assert len(bench.committed.topics["last"].partitions) == 1


@pytest.mark.parametrize(("told_ms", "is_fenced"), [(SESSION_MS, True), (2 * SESSION_MS, False)])
def test_a_session_is_as_long_as_it_is_told(bench: Bench, told_ms: int, is_fenced: bool) -> None:
    """Counted from when a broker was heard, also of sessions that have begun before."""
    alter(bench, ALL_BROKERS, broker_session_timeout_ms=str(told_ms))
    bench.pass_ms(SESSION_MS)
    assert bench.broker(1).fenced is is_fenced


def test_an_unclean_election_is_held_at_once(bench: Bench) -> None:
    """Once it is let happen by default, the next look for leaders is not waited for."""
    bench.create((1, 2))
    bench.silence(2, 1)
    bench.come_back(2, clean=False)
    leader_before = bench.partition().leader_id
    alter(bench, ALL_BROKERS, unclean_leader_election_enable="true")
    bench.tick()
    assert (leader_before, bench.partition().leader_id) == (None, 2)


def test_a_broker_that_is_forgotten_leaves_no_settings(bench: Bench) -> None:
    """Who comes with its id later is told nothing that was meant for it."""
    alter(bench, broker_resource(ReplicaId(3)), log_level="debug")
    bench.silence(3)
    bench.ask(m.UnregisterBrokerRequest(broker_id=ReplicaId(3)), m.UnregisterBrokerResponse)
    assert bench.committed.configs == {}


def test_nothing_is_written_before_all_replicas_know_such_records() -> None:
    """A replica of a release without feature levels would stop at the record."""
    bench = Bench(level=1)
    bench.start(1)
    assert alter(bench, ONE, log_level="debug").error is ErrorCode.UNSUPPORTED_VERSION
    assert bench.records == ()
