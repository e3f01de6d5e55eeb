"""What a log start that moves does to those that were away."""

from __future__ import annotations

import pytest

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition
from replica.records import encode_batch
from tests.replication.bench import Cluster

TOPIC = TopicPartition("topic", 0)


def append_alone(cluster: Cluster, stray: m.ProduceRequest, leader_id: int = 1) -> None:
    """Cut this leader off, let it append something that nobody else will have, and wait until 2 leads."""
    leader, everybody = ReplicaId(leader_id), [ReplicaId(broker) for broker in (1, 2, 3, 4, 5)]
    cut = {link for other in everybody if other != leader for link in ((leader, other), (other, leader))}
    cluster.world.network.cut(1, frozenset(cut))
    answers = cluster.begin(leader_id, stray)
    cluster.wait(lambda: bool(answers), "it takes a record of its own")
    cluster.wait(lambda: cluster.registration(TOPIC).leader_id == 2, "2 leads")


def strayed(cluster: Cluster, stray: m.ProduceRequest) -> TopicPartition:
    """A topic of which broker 1 has another history than the leader, below where the leader's log begins.

    1. Broker 1 is cut off and appends ``stray`` at offset 1. 2. Broker 2 leads, and offset 1 is another record.
    3. That is deleted, so that no comparison can tell. 4. Broker 1 is back in the ISR.
    """
    topic = cluster.create("topic", (1, 2, 3))
    cluster.produce(topic, b"a")
    append_alone(cluster, stray)
    assert (cluster.produce(topic, b"good"), cluster.produce(topic, b"last")) == (1, 2)
    cluster.delete_records(topic, 2)
    cluster.world.network.heal(1)
    cluster.wait_for_isr(topic, 1, 2, 3)
    return topic


def test_records_below_the_leaders_start_are_never_served_by_one_that_had_others() -> None:
    """A former leader that comes back, is killed, comes back again and leads, shows nothing of its own."""
    cluster = Cluster(5)
    stray = m.ProduceRequest(topic_partition=TOPIC, acks=1, timeout_ms=1000, records=encode_batch([b"stray"]).data)
    topic = strayed(cluster, stray)
    cluster.stop(2)
    cluster.stop(3)
    cluster.kill(1)
    cluster.start(1)

    assert cluster.leader(topic) == 1
    assert cluster.replica(1, topic).log.log_start_offset == 2
    cluster.start(2)
    cluster.start(3)
    cluster.wait_for_same_logs(topic, 1, 2, 3)


def test_one_that_had_others_below_the_leaders_start_is_in_sync_only_once_it_has_forgotten_them() -> None:
    """All is deleted, so that it stands at the high watermark when it comes back; elected then it would serve them.

    Its first fetch arrives, and the answer is lost, by which it would hear where the leader's log begins.
    """
    cluster = Cluster(5)
    topic = cluster.create("topic", (3, 2))
    cluster.produce(topic, b"a")
    stray = m.ProduceRequest(topic_partition=TOPIC, acks=1, timeout_ms=1000, records=encode_batch([b"stray"]).data)
    append_alone(cluster, stray, leader_id=3)
    assert cluster.produce(topic, b"good") == 1
    cluster.delete_records(topic, 2)
    cluster.world.network.cut(2, frozenset({(ReplicaId(2), ReplicaId(3))}))
    cluster.world.network.heal(1)
    cluster.pass_ms(3000)
    assert cluster.registration(topic).isr == (2,)
    cluster.world.network.heal(2)
    cluster.wait_for_isr(topic, 2, 3)
    assert cluster.replica(3, topic).log.log_start_offset == 2


def test_a_follower_that_lags_by_one_answer_remembers_producers() -> None:
    """The records below its end are deleted before it hears that they are committed: a repetition is recognised.

    The last fetch of broker 2 arrives, so that the record is committed; its answer is lost, so that 2 does not know.
    """
    cluster = Cluster(3)
    topic = cluster.create("topic", (1, 2))
    cluster.send_numbered(topic, 0)
    cluster.pass_ms(3000)
    batch = encode_batch([b"v"], producer_id=7, producer_epoch=0, base_sequence=1)
    answers = cluster.begin(1, m.ProduceRequest(topic_partition=topic, acks=-1, timeout_ms=5000, records=batch.data))
    follower = cluster.replica(2, topic)
    while follower.log.log_end_offset < 2:
        cluster.world.queue.run_until(cluster.world.now_us + 20)
    cluster.world.network.cut(1, frozenset({(ReplicaId(1), ReplicaId(2))}))
    cluster.wait(lambda: bool(answers), "1 has acknowledged")
    assert follower.high_watermark == 1
    cluster.delete_records(topic, 2)
    cluster.world.network.heal(1)
    cluster.pass_ms(2000)
    cluster.kill(1)
    cluster.wait(lambda: cluster.registration(topic).leader_id == 2, "2 leads")
    assert cluster.send_numbered(topic, 1).base_offset == 1


def test_a_log_cut_to_where_the_leaders_begins_remembers_committed_producers() -> None:
    """A former leader drops a record of its own, and with it the whole log, but not who wrote what was committed."""
    cluster = Cluster(5)
    topic = cluster.create("topic", (1, 2, 3))
    for sequence in (0, 1):
        cluster.send_numbered(topic, sequence)
    cluster.pass_ms(2000)
    stray = m.ProduceRequest(topic_partition=TOPIC, acks=1, timeout_ms=1000, records=encode_batch([b"stray"]).data)
    append_alone(cluster, stray)
    cluster.delete_records(topic, 2)
    cluster.world.network.heal(1)
    cluster.wait_for_isr(topic, 1, 2, 3)
    assert cluster.replica(1, topic).log.log_start_offset == cluster.replica(1, topic).log.log_end_offset == 2
    cluster.stop(2)
    cluster.stop(3)
    assert cluster.leader(topic) == 1
    assert cluster.send_numbered(topic, 1).base_offset == 1


@pytest.mark.parametrize("killed", [False, True])
def test_a_batch_that_was_only_in_another_history_is_no_duplicate(killed: bool) -> None:
    """A producer whose batch was lost with an old leader sends it again to that very broker: it is written, now.

    To answer that it is in the log, at an offset below the log's start, would acknowledge what no replica has.
    """
    cluster = Cluster(5)
    batch = encode_batch([b"stray"], producer_id=77, producer_epoch=0, base_sequence=0)
    stray = m.ProduceRequest(topic_partition=TOPIC, acks=1, timeout_ms=1000, records=batch.data)
    topic = strayed(cluster, stray)
    cluster.stop(2)
    cluster.stop(3)
    if killed:
        cluster.kill(1)
        cluster.start(1)
    assert cluster.leader(topic) == 1
    answer = cluster.ask(1, stray, m.ProduceResponse)
    assert (answer.error, answer.base_offset) == (ErrorCode.NONE, 3)
    assert cluster.replica(1, topic).log.log_end_offset == 4
