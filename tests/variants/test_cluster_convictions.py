"""A whole cluster convicts wrong protocols of partitions by name, each in a short story that the right one passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nemesis.simulator.violations import BrokenInvariantError
from nemesis.variants.catalogue import BUILT
from replica.core import messages as m
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.records import encode_batch
from tests.replication.bench import Cluster
from tests.replication.stage import FAST_CONTROLLER
from tests.variants.stories_of_late_news import a_follower_that_missed_an_epoch, a_follower_two_epochs_behind

MakeRules = Callable[[], Rules]


def a_replica_that_begins_again(rules: MakeRules) -> None:
    """It comes back with what it knew to be committed."""
    cluster = Cluster(3, rules=rules)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"a")
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.bounce(2)
    cluster.wait_for_isr(topic, 1, 2)


def a_follower_that_is_gone(rules: MakeRules) -> None:
    """Whoever waits for it is answered as soon as it is out of the ISR."""
    cluster = Cluster(3, rules=rules)
    topic = cluster.create("topic", (1, 2), min_insync_replicas="1")
    cluster.wait_for_isr(topic, 1, 2)
    cluster.kill(2)
    cluster.produce(topic, b"a")


def a_follower_that_is_silent(rules: MakeRules) -> None:
    """As long as it lacks nothing it stays in the ISR."""
    patient = replace(FAST_CONTROLLER, broker_session_timeout_ms=30_000)
    cluster = Cluster(3, controller=patient, rules=rules)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"a")
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.kill(2)
    cluster.pass_ms(10_000)
    assert set(cluster.registration(topic).isr) == {1, 2}


def one_of_three_that_is_gone(rules: MakeRules) -> None:
    """Nothing is committed that it lacks until it is out of the ISR."""
    cluster = Cluster(3, rules=rules)
    topic = cluster.create("topic", (1, 2, 3))
    cluster.wait_for_isr(topic, 1, 2, 3)
    cluster.kill(3)
    cluster.produce(topic, b"a")


def the_last_of_three(rules: MakeRules) -> None:
    """What it writes alone is not committed, for another may be elected."""
    cluster = Cluster(3, rules=rules)
    topic = cluster.create("topic", (1, 2), min_insync_replicas="2")
    cluster.wait_for_isr(topic, 1, 2)
    cluster.kill(2)
    cluster.wait_for_isr(topic, 1)
    cluster.produce(topic, b"a", acks=1)
    cluster.pass_ms(500)


def a_batch_that_is_sent_to_two_leaders(rules: MakeRules) -> None:
    """The second knows what the first has appended."""
    cluster = Cluster(3, rules=rules)
    topic = cluster.create("topic", (1, 2), min_insync_replicas="1")
    batch = encode_batch([b"a"], producer_id=5, producer_epoch=0, base_sequence=0)
    request = m.ProduceRequest(topic_partition=topic, acks=-1, timeout_ms=5000, records=batch.data)

    def send(leader: int) -> None:
        cluster.wait(lambda: cluster.leader(topic) == leader, f"{leader} leads")
        answer = cluster.ask(leader, request, m.ProduceResponse)
        assert (answer.error, answer.base_offset) == (ErrorCode.NONE, 0), answer
        cluster.wait_for_same_logs(topic, 1, 2)

    send(1)
    cluster.bounce(1)
    cluster.wait_for_isr(topic, 1, 2)
    send(2)
    assert cluster.replica(2, topic).log.log_end_offset == 1


def a_former_leader_that_never_wrote(rules: MakeRules) -> None:
    """It forgets its empty epoch and follows."""
    cluster = Cluster(3, rules=rules)
    topic = cluster.create("topic", (1, 2))
    cluster.produce(topic, b"a")
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.bounce(1)
    cluster.wait_for_isr(topic, 1, 2)
    request = m.ElectLeaderRequest(topic_partition=topic, election_type=m.ElectionType.PREFERRED)
    assert cluster.ask(cluster.controller_id, request, m.ElectLeaderResponse).error is ErrorCode.NONE
    cluster.wait(lambda: cluster.leader(topic) == 1, "1 leads")
    cluster.produce(topic, b"b")
    cluster.wait_for_same_logs(topic, 1, 2)


STORIES = [
    ("high-watermark-forgotten-at-start", a_replica_that_begins_again, "forgotten-high-watermark"),
    ("no-high-watermark-after-shrink", a_follower_that_is_gone, "late-high-watermark"),
    ("churn-at-equal-ends", a_follower_that_is_silent, "needless-shrink"),
    ("high-watermark-of-isr-majority", one_of_three_that_is_gone, "core-assertion"),
    ("high-watermark-below-min-isr", the_last_of_three, "leader-candidate-completeness"),
    ("producer-state-not-rebuilt", a_batch_that_is_sent_to_two_leaders, "duplicate-sequence"),
    ("unfenced-fetch", a_follower_two_epochs_behind, "committed-truncated"),
    ("same-leader-needs-no-truncation", a_follower_that_missed_an_epoch, "in vain: "),
    ("truncation-keeps-empty-epochs", a_former_leader_that_never_wrote, "in vain: .* agree"),
]


@pytest.mark.parametrize(("name", "story", "convicted_of"), STORIES, ids=[name for name, _, _ in STORIES])
def test_a_story_convicts_a_wrong_protocol_and_no_right_one(
    name: str, story: Callable[[MakeRules], None], convicted_of: str
) -> None:
    """The right protocol comes to the end of the story, and the wrong one is convicted by name on the way."""
    story(Rules)

    with pytest.raises((BrokenInvariantError, AssertionError), match=convicted_of):
        story(BUILT[name].rules)
