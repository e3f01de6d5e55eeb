"""What a log start that moves does to those that were away."""

from __future__ import annotations

from replica.core import messages as m
from replica.ids import ReplicaId
from replica.records import encode_batch
from tests.replication.bench import Cluster


def test_records_below_the_leaders_start_are_never_served_by_one_that_had_others() -> None:
    """A former leader comes back after the records in which it differs were deleted: it shows nothing of its own.

    1. Broker 1 is cut off and appends a record at offset 1. 2. Broker 2 leads, and offset 1 is another record.
    3. That is deleted, so that no comparison can tell. 4. Broker 1 catches up, is killed, comes back, and leads.
    """
    cluster = Cluster(5)
    topic = cluster.create("topic", (1, 2, 3))
    cluster.produce(topic, b"a")
    others = [ReplicaId(broker) for broker in (2, 3, 4, 5)]
    cut = {(ReplicaId(1), other) for other in others} | {(other, ReplicaId(1)) for other in others}
    cluster.world.network.cut(1, frozenset(cut))
    stray = m.ProduceRequest(topic_partition=topic, acks=1, timeout_ms=1000, records=encode_batch([b"stray"]).data)
    answers = cluster.begin(1, stray)
    cluster.wait(lambda: bool(answers), "1 takes a record of its own")
    cluster.wait(lambda: cluster.registration(topic).leader_id == 2, "2 leads")
    assert (cluster.produce(topic, b"good"), cluster.produce(topic, b"last")) == (1, 2)
    cluster.delete_records(topic, 2)
    cluster.world.network.heal(1)
    cluster.wait_for_isr(topic, 1, 2, 3)

    cluster.stop(2)
    cluster.stop(3)
    cluster.kill(1)
    cluster.start(1)

    assert cluster.leader(topic) == 1
    assert cluster.replica(1, topic).log.log_start_offset == 2
    cluster.start(2)
    cluster.start(3)
    cluster.wait_for_same_logs(topic, 1, 2, 3)
