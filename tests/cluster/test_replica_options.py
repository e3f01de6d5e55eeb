"""What a local cluster is made of, without any process."""

from __future__ import annotations

import pytest

from nemesis.cluster.replica_options import ReplicaOptions, Timing, TopicOptions
from nemesis.cluster.topic_client import ClientOptions, decode_value, encode_value, named
from replica.cli.start import start_command
from replica.ids import TopicPartition


def test_replicas_take_every_option_of_the_timing() -> None:
    """Each is a number that ``replica start`` knows by that name."""
    known = {option for parameter in start_command().params for option in parameter.opts}
    arguments = Timing().arguments

    assert set(arguments[::2]) <= known
    assert all(int(value) > 0 for value in arguments[1::2])


def test_topics_are_alike() -> None:
    """Each topic has the same partitions, and each name leads back to its topic and number."""
    options = TopicOptions(topic_count=2, partitions=2)

    assert options.names == ("topic1-0", "topic1-1", "topic2-0", "topic2-1")
    assert [named(name) for name in options.names[1:3]] == [TopicPartition("topic1", 1), TopicPartition("topic2", 0)]


def test_topics_are_created_with_their_settings() -> None:
    """Settings bear Kafka's names; unclean elections are allowed where that was asked for, and nowhere else."""
    assert TopicOptions(min_insync_replicas=1, unclean_leader_election=True).configs == {
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "true",
    }
    assert TopicOptions().configs["unclean.leader.election.enable"] == "false"


@pytest.mark.parametrize(
    ("topics", "nodes"),
    [
        (TopicOptions(replication_factor=4), 3),
        (TopicOptions(replication_factor=2, min_insync_replicas=3), 3),
    ],
)
def test_what_cannot_be_is_refused(topics: TopicOptions, nodes: int) -> None:
    """There are at least as many nodes as replicas, and as many replicas as must be in sync."""
    with pytest.raises(ValueError, match="must not fall"):
        ReplicaOptions(nodes=nodes, topics=topics)


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_only_all_acks_can_be_idempotent(acks: str) -> None:
    """A producer numbers its batches with ``acks`` of all, and is refused that otherwise."""
    assert not ClientOptions(acks=acks, idempotence=False).producer_config().is_idempotent
    if acks == "all":
        assert ClientOptions(acks=acks).producer_config().is_idempotent
    else:
        with pytest.raises(ValueError, match="idempotence needs acks ALL"):
            ClientOptions(acks=acks).producer_config()


@pytest.mark.parametrize(("data", "value"), [(encode_value(7), 7), (b"", -1), (b"seven", -1), (b"-7", -1), (None, -1)])
def test_a_record_is_a_value_or_none_of_ours(data: bytes | None, value: int) -> None:
    """What was never written by the workload is told from what was."""
    assert decode_value(data) == value
