"""The file of epochs beside a log, as it is cut and as it is missing, on a follower whose leader is a puppet."""

from __future__ import annotations

import pytest

from nemesis.simulator.disk import DATA
from replica.core import messages as m
from replica.ids import Epoch, EpochEntry, Offset
from replica.records import encode_batch
from replica.storage.checkpoints import read_epochs, write_epochs
from tests.replication.bench import Cluster
from tests.replication.puppets import Puppet, fetched
from tests.replication.tampering import EPOCHS, files_of, forget, write_log

LOG = ((1, 2), (3, 4), (5, 1))
"""Epoch 1 from 0 on, 3 from 2 on, 5 from 6 to 7."""
EPOCH = 6
"""The leader epoch in which the scenarios begin that need older ones."""


class Stage:
    """Broker 1 with a replica of a partition whose leader is puppet 9, or by turns puppet 8."""

    def __init__(self) -> None:
        self.cluster = Cluster(1, puppets=(8, 9))
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


def stored(stage: Stage) -> list[tuple[int, int]]:
    """What the file says, of a follower that has died just now."""
    stage.cluster.lose_power(1)
    entries = read_epochs(files_of(stage.cluster, 1), DATA / str(stage.topic) / EPOCHS)
    return [(entry.epoch, entry.start_offset) for entry in entries]


@pytest.mark.parametrize(
    ("diverging", "end", "expected"),
    [
        pytest.param((3, 6), 6, [(1, 0), (3, 2)], id="on_the_boundary_of_an_epoch"),
        pytest.param((3, 5), 5, [(1, 0), (3, 2)], id="within_an_epoch"),
        pytest.param((3, 2), 2, [(1, 0)], id="two_epochs_go"),
        pytest.param((0, 0), 0, [], id="all_go"),
    ],
)
def test_should_truncate_leader_epoch_checkpoint_file_when_truncating_log(
    diverging: tuple[int, int], end: int, expected: list[tuple[int, int]]
) -> None:
    """A log that is cut takes its epochs along, in memory and, when the next fetch goes out, on the platter."""
    stage = Stage().with_log(*LOG)
    assert stage.cache == [(1, 0), (3, 2), (5, 6)]
    stage.say(fetched(stage.topic, diverging=diverging))
    assert (stage.end, stage.cache) == (end, expected)
    part, _ = stage.leader.hear_fetch()
    assert part.fetch_offset == end

    assert stored(stage) == expected


def test_should_write_checkpoint_on_truncation() -> None:
    """What a leader forgets at the start of its log its file has forgotten too, when the answer is out."""
    cluster = Cluster(1)
    topic = cluster.create("topic", (1,))
    cluster.produce(topic, b"0")
    cluster.produce(topic, b"1")
    cluster.bounce(1)
    cluster.produce(topic, b"2")
    known = cluster.cache(1, topic)
    assert [start for _, start in known] == [0, 2]

    cluster.delete_records(topic, 1)
    assert cluster.cache(1, topic) == [(0, 1), known[1]]
    cluster.delete_records(topic, 3)
    assert cluster.cache(1, topic) == [(known[1][0], 3)]
    cluster.lose_power(1)

    entries = read_epochs(files_of(cluster, 1), DATA / str(topic) / EPOCHS)
    assert entries == (EpochEntry(Epoch(known[1][0]), Offset(3)),)


def test_truncate_to_high_watermark_if_leader_epoch_info_not_available() -> None:
    """A follower never falls back to its high watermark: epochs that its file has lost are found in the batches.

    (Kafka's follower does, where the format of its records has no epochs: that is how committed records are lost,
    KAFKA-3919.)
    """
    stage = Stage().with_log(*LOG)
    stage.cluster.kill(1)
    write_epochs(files_of(stage.cluster, 1), DATA / str(stage.topic) / EPOCHS, [])
    forget(stage.cluster, 1, stage.topic)
    stage.forget_requests()
    stage.cluster.start(1)
    replica = stage.cluster.replica(1, stage.topic)
    assert (replica.high_watermark, stage.end, stage.cache) == (0, 7, [(1, 0), (3, 2), (5, 6)])

    asked = stage.say(fetched(stage.topic, records=encode_batch([b"v"], base_offset=7, leader_epoch=6).data))
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (7, 5)
    assert stage.end == 8
