"""A follower whose leaders are puppets, which answer as the scenario says: Kafka's AbstractFetcherThreadTest.

Broker 1 follows. The leaders 8 and 9 take turns, so that epochs pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replica.core import messages as m
from replica.core.config import BrokerConfig
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.records import encode_batch
from tests.replication.bench import Cluster
from tests.replication.puppets import Puppet, fetched
from tests.replication.stage import FAST_BROKER
from tests.replication.tampering import write_log

EPOCH = 6
"""The leader epoch in which the scenarios begin that need older ones."""


class Stage:
    """Broker 1 with a replica of a partition whose leader is puppet 9, or by turns puppet 8."""

    def __init__(self, config: BrokerConfig = FAST_BROKER) -> None:
        self.cluster = Cluster(1, puppets=(8, 9), broker=config)
        self.puppets = {number: Puppet(self.cluster, number) for number in (8, 9)}
        self.topic = self.cluster.create("topic", (9, 8, 1))

    @property
    def leader(self) -> Puppet:
        """The present leader."""
        leader_id = self.cluster.registration(self.topic).leader_id
        assert leader_id is not None, self.topic
        return self.puppets[leader_id]

    @property
    def end(self) -> int:
        """Where the follower's log ends."""
        return self.cluster.replica(1, self.topic).log.log_end_offset

    @property
    def cache(self) -> list[tuple[int, int]]:
        """The follower's epoch cache."""
        return self.cluster.cache(1, self.topic)

    def change_leader(self) -> None:
        """Let the other puppet lead, in the next epoch; what waits at either of them is forgotten."""
        before = self.leader
        before.fall_silent()
        before.come_back(f"{self.cluster.world.now_ms}")
        self.leader.propose(self.leader.proposal(self.topic, 8, 9, 1))
        self.forget_requests()

    def forget_requests(self) -> None:
        """Let nothing wait for an answer any more."""
        for heard in self.cluster.world.heard.values():
            heard.clear()

    def with_log(self, *epochs_and_counts: tuple[int, int]) -> Stage:
        """Let epochs pass, and give the follower a log of some of them, written by hand."""
        while self.cluster.registration(self.topic).leader_epoch < EPOCH:
            self.change_leader()
        self.cluster.kill(1)
        self.forget_requests()
        write_log(self.cluster, 1, self.topic, *epochs_and_counts)
        self.cluster.start(1)
        return self

    def say(self, response: m.FetchResponse) -> m.FetchPartition:
        """Answer the fetch that waits; return it."""
        part, heard = self.leader.hear_fetch()
        heard.answer(response)
        self.cluster.pass_ms(20)
        return part


def batch(epoch: int, offset: int, records: int = 1) -> bytes:
    """One batch, as a fetch brings it."""
    return encode_batch([b"v"] * records, base_offset=offset, leader_epoch=epoch).data


def test_simple_fetch() -> None:
    """What the leader sends is appended, flushed and acknowledged with the next fetch; so is its high watermark."""
    stage = Stage()
    assert stage.say(fetched(stage.topic, records=batch(0, 0) + batch(0, 1))).fetch_offset == 0
    asked = stage.say(fetched(stage.topic, high_watermark=2))
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (2, 0)
    assert (stage.end, stage.cluster.replica(1, stage.topic).high_watermark) == (2, 2)


def test_fenced_fetch() -> None:
    """A follower in an epoch that is over stops, cuts nothing, and goes on with new metadata only."""
    stage = Stage()
    stage.say(fetched(stage.topic, records=batch(0, 0)))
    stage.say(fetched(stage.topic, error=ErrorCode.FENCED_LEADER_EPOCH))
    stage.cluster.pass_ms(2000)
    assert not stage.leader.is_asked
    assert stage.end == 1

    stage.change_leader()

    asked = stage.say(fetched(stage.topic))
    assert (asked.fetch_offset, asked.current_leader_epoch) == (1, 1)


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_unknown_leader_epoch_while_fetching(error: ErrorCode) -> None:
    """A leader that has not heard of its epoch yet is asked again after a pause; meanwhile nothing is cut."""
    stage = Stage()
    stage.say(fetched(stage.topic, records=batch(0, 0)))
    for _ in range(3):
        stage.say(fetched(stage.topic, error=error))
        assert not stage.leader.is_asked
        stage.cluster.pass_ms(FAST_BROKER.replica_fetch_backoff_ms)
        assert stage.leader.is_asked
    assert stage.end == 1
    stage.say(fetched(stage.topic, records=batch(0, 1)))
    assert stage.end == 2


def test_corrupt_message() -> None:
    """A batch with a flipped bit is not appended; it is fetched again, and then taken."""
    stage = Stage()
    good = batch(0, 0)
    stage.say(fetched(stage.topic, records=good[:-2] + bytes([good[-2] ^ 1]) + good[-1:]))
    assert stage.end == 0

    assert stage.say(fetched(stage.topic, records=good)).fetch_offset == 0

    assert stage.end == 1


def test_leader_epoch_change_during_fetch() -> None:
    """What a leader of an earlier epoch has sent is not taken when it comes."""
    stage = Stage(replace(FAST_BROKER, replica_socket_timeout_ms=30_000))
    _, late = stage.leader.hear_fetch()
    stage.change_leader()
    late.answer(fetched(stage.topic, records=batch(0, 0), high_watermark=1))
    stage.cluster.pass_ms(50)
    assert stage.end == 0


def two_partitions() -> tuple[Stage, TopicPartition]:
    """Two partitions of one leader, with one record each on the follower."""
    stage = Stage()
    other = stage.cluster.create("other", (9, 1))
    stage.say(fetched(stage.topic, records=batch(0, 0)))
    request, heard = stage.leader.hear(m.FetchRequest)
    assert [part.topic_partition for part in request.partitions] == [other, stage.topic]
    heard.answer(both(fetched(other, records=batch(0, 0)), fetched(stage.topic)))
    stage.cluster.pass_ms(20)
    return stage, other


def both(one: m.FetchResponse, another: m.FetchResponse) -> m.FetchResponse:
    """One answer about two partitions."""
    return m.FetchResponse(partitions=one.partitions + another.partitions)


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID])
def test_partitions_in_error(error: ErrorCode) -> None:
    """A partition that is refused pauses; the one beside it goes on."""
    assert_pauses_alone(error=error)


def test_fetcher_thread_handling_partition_failure_during_appending() -> None:
    """A partition that is sent what it cannot append pauses; the one beside it goes on."""
    assert_pauses_alone(records=batch(0, 7))


def test_fetcher_thread_handling_partition_failure_during_truncation() -> None:
    """A partition that is told to cut in vain pauses; the one beside it goes on."""
    assert_pauses_alone(diverging=(0, 1))


def assert_pauses_alone(**trouble: Any) -> None:
    """Of two partitions the one in trouble is asked for again after a pause, the other at once."""
    stage, other = two_partitions()
    request, heard = stage.leader.hear(m.FetchRequest)
    assert len(request.partitions) == 2
    heard.answer(both(fetched(other, **trouble), fetched(stage.topic, records=batch(0, 1))))
    stage.cluster.pass_ms(20)

    assert stage.say(fetched(stage.topic)).topic_partition == stage.topic
    assert (stage.end, stage.cluster.replica(1, other).log.log_end_offset) == (2, 1)
    stage.cluster.pass_ms(FAST_BROKER.replica_fetch_backoff_ms)
    stage.say(fetched(stage.topic))
    request, _ = stage.leader.hear(m.FetchRequest)
    assert [part.topic_partition for part in request.partitions] == [other, stage.topic]


@pytest.mark.parametrize(
    ("diverging", "end"),
    [((4, 140), 140), ((4, 141), 141), ((3, 130), 129), ((3, 131), 129), ((2, 120), 119), ((2, 121), 119)],
)
def test_should_truncate_if_leader_replies_with_diverging_epoch_not_known_to_follower(
    diverging: tuple[int, int], end: int
) -> None:
    """The follower cuts to what both can share by its own epochs, and fetches on without asking for epochs."""
    logs = {4: ((4, 142), (5, 58)), 3: ((2, 129), (4, 13), (5, 58)), 2: ((1, 119), (4, 23), (5, 58))}
    stage = Stage().with_log(*logs[diverging[0]])
    asked = stage.say(fetched(stage.topic, diverging=diverging))
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (200, 5)
    assert stage.end == end
    assert stage.say(fetched(stage.topic)).fetch_offset == end
