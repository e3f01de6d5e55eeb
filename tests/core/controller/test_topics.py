"""Topics created, altered and deleted, where their replicas are placed, and numbers for producers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core import messages as m
from replica.core.controller.placement import placed
from replica.core.metadata.records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from replica.errors import ErrorCode
from replica.ids import TopicId
from tests.core.controller.bench import CONFIG, Bench, ids, registration


def started(*broker_ids: int) -> Bench:
    bench = Bench(replace(CONFIG, min_insync_replicas=1, num_partitions=2, default_replication_factor=2))
    bench.start(*broker_ids)
    return bench


def create(bench: Bench, name: str = "topic", **request: Any) -> m.CreateTopicResponse:
    return bench.ask(m.CreateTopicRequest(name=name, **request), m.CreateTopicResponse)


def test_create_topic() -> None:
    """A topic, its settings and its partitions are one decision; its id is the offset of its record."""
    bench = started(1, 2, 3)
    offset = TopicId(bench.next_offset)
    answer = create(bench, partition_count=3, replication_factor=3, configs={"retention.ms": "-1"})
    assert (answer.error, answer.topic_id, answer.message) == (ErrorCode.NONE, offset, "")
    assert [type(record) for record in bench.records] == [TopicRecord, ConfigRecord] + [PartitionRecord] * 3
    assert bench.topic_id() == offset
    assert bench.partition(0) == registration((1, 2, 3), leader_epoch=0, partition_epoch=0)
    assert [bench.partition(number).leader_id for number in range(3)] == [1, 2, 3]


def test_create_topic_by_default() -> None:
    """Counts that are left out are the cluster's."""
    bench = started(1, 2, 3)
    create(bench)
    assert [bench.partition(number).replicas for number in (0, 1)] == [(1, 2), (2, 3)]


def test_create_topic_by_hand() -> None:
    """An assignment is taken as it is; who is not active is not in sync, and the first that is leads."""
    bench = started(1, 2, 3)
    bench.silence(2)
    create(bench, assignment=(ids(2, 3, 1), ids(3, 1, 2)))
    assert bench.partition(0) == registration((2, 3, 1), (3, 1), 3, leader_epoch=0, partition_epoch=0)
    assert bench.partition(1) == registration((3, 1, 2), (3, 1), 3, leader_epoch=0, partition_epoch=0)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        pytest.param({"name": ""}, "INVALID_TOPIC_EXCEPTION", id="no_name"),
        pytest.param({"name": "."}, "INVALID_TOPIC_EXCEPTION", id="dot"),
        pytest.param({"name": ".."}, "INVALID_TOPIC_EXCEPTION", id="dots"),
        pytest.param({"name": "a/b"}, "INVALID_TOPIC_EXCEPTION", id="slash"),
        pytest.param({"name": "é"}, "INVALID_TOPIC_EXCEPTION", id="letter_of_another_alphabet"),
        pytest.param({"name": "n" * 250}, "INVALID_TOPIC_EXCEPTION", id="long_name"),
        pytest.param({"name": "__cluster_metadata"}, "INVALID_TOPIC_EXCEPTION", id="metadata"),
        pytest.param({"name": "known"}, "TOPIC_ALREADY_EXISTS", id="known"),
        pytest.param({"partition_count": 0}, "INVALID_PARTITIONS", id="no_partitions"),
        pytest.param({"partition_count": -1}, "INVALID_PARTITIONS", id="negative_partitions"),
        pytest.param({"partition_count": 9_999}, "INVALID_PARTITIONS", id="too_many_partitions"),
        pytest.param({"replication_factor": 0}, "INVALID_REPLICATION_FACTOR", id="no_replicas"),
        pytest.param({"replication_factor": 3}, "INVALID_REPLICATION_FACTOR", id="more_replicas_than_active_brokers"),
        pytest.param({"assignment": (ids(1, 1),)}, "INVALID_REPLICA_ASSIGNMENT", id="a_broker_twice"),
        pytest.param({"assignment": (ids(1, 9),)}, "INVALID_REPLICA_ASSIGNMENT", id="an_unknown_broker"),
        pytest.param({"assignment": ((),)}, "INVALID_REPLICA_ASSIGNMENT", id="a_partition_without_replicas"),
        pytest.param({"assignment": (ids(1, 2), ids(1))}, "INVALID_REPLICA_ASSIGNMENT", id="two_replication_factors"),
        pytest.param({"assignment": (ids(3),)}, "INVALID_REPLICA_ASSIGNMENT", id="nobody_active"),
        pytest.param({"assignment": (ids(1),), "partition_count": 1}, "INVALID_REQUEST", id="assignment_and_count"),
        pytest.param({"configs": {"retention": "1"}}, "INVALID_CONFIG", id="unknown_setting"),
        pytest.param({"configs": {"min.insync.replicas": "0"}}, "INVALID_CONFIG", id="bad_value"),
    ],
)
def test_refused_topics(request_: dict[str, Any], error: str) -> None:
    """What is wrong has its error and a message, and leaves no record."""
    bench = started(1, 2, 3)
    bench.silence(3)
    create(bench, "known")
    answer = create(bench, **request_)
    assert answer.error is ErrorCode(error)
    assert answer.message
    assert answer.topic_id is None
    assert bench.records == ()


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "log", "n" * 249])
def test_legal_names(name: str) -> None:
    """Letters, digits, dots, underscores and dashes, up to 249 of them."""
    assert create(started(1, 2), name).error is ErrorCode.NONE


def test_no_broker_no_topic() -> None:
    """Where nobody is active nothing can be placed."""
    assert create(Bench()).error is ErrorCode.INVALID_REPLICATION_FACTOR


def test_delete_topic() -> None:
    """A deleted topic is gone; one of the same name has another id."""
    bench = started(1, 2)
    first = create(bench).topic_id
    answer = bench.ask(m.DeleteTopicRequest(name="topic"), m.DeleteTopicResponse)
    assert first is not None
    assert (answer.error, bench.records) == (ErrorCode.NONE, (RemoveTopicRecord(topic_id=first),))
    assert bench.committed.topics == {}
    again = bench.ask(m.DeleteTopicRequest(name="topic"), m.DeleteTopicResponse)
    assert again.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert create(bench).topic_id not in (None, first)


def test_alter_topic() -> None:
    """Settings change one by one; one that is absent returns to its default; what stays writes nothing."""
    bench = started(1, 2)
    create(bench, configs={"retention.ms": "5", "retention.bytes": "6"})
    assert bench.ask(
        m.AlterTopicRequest(name="topic", configs={"retention.ms": None, "max.message.bytes": "7"}),
        m.AlterTopicResponse,
    ) == m.AlterTopicResponse(error=ErrorCode.NONE)
    assert bench.committed.topics["topic"].configs == {"retention.bytes": "6", "max.message.bytes": "7"}
    assert len(bench.records) == 2


@pytest.mark.parametrize(("setting", "value"), [("retention.bytes", "6"), ("retention.ms", None)])
def test_settings_that_stay(setting: str, value: str | None) -> None:
    """A setting that is told what it is already writes nothing."""
    bench = started(1, 2)
    create(bench, configs={"retention.bytes": "6"})
    assert bench.alter_topic(setting, value).error is ErrorCode.NONE
    assert bench.records == ()


def test_settings_are_kept_in_one_way_of_writing() -> None:
    """However a value is written, the metadata keep it as a plain number or word, and the same value is no news."""
    bench = started(1, 2)
    create(bench, configs={"min.insync.replicas": " +2", "unclean.leader.election.enable": "TRUE "})
    kept = {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}
    assert bench.committed.topics["topic"].configs == kept
    assert bench.alter_topic("min.insync.replicas", "02").error is ErrorCode.NONE
    assert bench.records == ()
    assert bench.alter_topic("retention.ms", "\t05").error is ErrorCode.NONE
    assert bench.committed.topics["topic"].configs == {**kept, "retention.ms": "5"}


@pytest.mark.parametrize("configs", [{"nonsense": None}, {"retention.ms": "5", "retention.bytes": "much"}])
def test_refused_settings(configs: dict[str, str | None]) -> None:
    """One wrong setting refuses all of them, and the message names it."""
    bench = started(1, 2)
    create(bench)
    answer = bench.ask(m.AlterTopicRequest(name="topic", configs=configs), m.AlterTopicResponse)
    assert answer.error is ErrorCode.INVALID_CONFIG
    assert list(configs)[-1] in answer.message
    assert bench.records == ()


def test_alter_unknown_topic() -> None:
    """A topic that does not exist has no settings."""
    assert started(1).alter_topic("retention.ms", "1").error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_wrong_cluster() -> None:
    """A request that names another cluster is refused; one that names none is taken."""
    bench = started(1, 2)
    assert create(bench, cluster_id="another").error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert create(bench).error is ErrorCode.NONE


def test_producer_ids_are_given_once() -> None:
    """Every producer id is new, also to the next controller, which may have begun with a snapshot."""
    bench = Bench()
    given = []
    for go_on in (bench.restart, bench.restart, bench.restart_from_snapshot, bench.restart):
        answer = bench.ask(m.InitProducerIdRequest(), m.InitProducerIdResponse)
        assert (answer.error, answer.producer_epoch) == (ErrorCode.NONE, 0)
        given.append(answer.producer_id)
        go_on()
    assert given == [0, 1, 2, 3]


# --- placement ------------------------------------------------------------------------------------------------------


@given(
    brokers=st.sets(st.integers(0, 20), min_size=1, max_size=7).map(sorted),
    rounds=st.integers(1, 4),
    first=st.integers(0, 30),
    data=st.data(),
)
def test_placement_is_even(brokers: list[int], rounds: int, first: int, data: st.DataObject) -> None:
    """In whole rounds every broker leads equally often, and stands equally often at every place."""
    replication_factor = data.draw(st.integers(1, len(brokers)))
    partitions = placed(
        ids(*brokers),
        partition_count=rounds * len(brokers),
        replication_factor=replication_factor,
        first_partition=first,
    )
    assert all(len(set(replicas)) == replication_factor for replicas in partitions)
    for place in range(replication_factor):
        counts = Counter(replicas[place] for replicas in partitions)
        if place == 0 or first % len(brokers) == 0:
            assert counts == dict.fromkeys(brokers, rounds)


def test_second_replicas_of_one_leader_differ() -> None:
    """The partitions of one leader have their second replicas on different brokers."""
    partitions = placed(ids(1, 2, 3, 4), partition_count=12, replication_factor=2, first_partition=0)
    assert {replicas[1] for replicas in partitions if replicas[0] == 1} == {2, 3, 4}


def test_topics_go_on_where_the_last_one_ended() -> None:
    """Many small topics spread their leaders over all brokers."""
    bench = started(1, 2, 3)
    for number in range(6):
        create(bench, f"topic-{number}", partition_count=1, replication_factor=1)
    leaders = [bench.partition(0, f"topic-{number}").leader_id for number in range(6)]
    assert leaders == [1, 2, 3, 1, 2, 3]
