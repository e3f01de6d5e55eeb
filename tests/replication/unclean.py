"""An unclean election in two steps: what is to be lost, and its loss."""

from __future__ import annotations

from replica.ids import TopicPartition
from tests.replication.bench import Cluster


def cut(cluster: Cluster) -> TopicPartition:
    """A partition whose records from offset 1 on are lost by an unclean election, once ``lose`` is called."""
    topic = cluster.create("orders", (1, 2), unclean_leader_election_enable="true")
    cluster.produce(topic, b"a")
    cluster.wait_for_same_logs(topic, 1, 2)
    cluster.kill(2)
    cluster.wait_for_isr(topic, 1)
    cluster.produce(topic, b"b")
    cluster.produce(topic, b"c")
    return topic


def lose(cluster: Cluster, topic: TopicPartition, *replacements: bytes) -> None:
    """Let the other replica lead, without the records that it missed, and write others."""
    cluster.kill(1)
    cluster.start(2)
    cluster.wait(lambda: cluster.registration(topic).leader_id == 2, "2 is elected uncleanly")
    for value in replacements:
        cluster.produce(topic, value)
