"""What stands in a follower's session of fetches: a fetch that names nothing means what was named before it."""

from __future__ import annotations

import pytest

from nemesis.scenarios.messages import Standing
from nemesis.scenarios.play import play
from nemesis.scenarios.stage import CALM
from nemesis.simulator.node import Node, Step
from nemesis.simulator.scenario_files import parse_scenario
from nemesis.simulator.world import World
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import CorrelationId, Offset, ReplicaId, TopicPartition

OURS, OTHER = TopicPartition("topic", 0), TopicPartition("other", 0)
FOLLOWER, LEADER, NEXT_LEADER = ReplicaId(2), ReplicaId(1), ReplicaId(3)


class Followed:
    """One follower, what it sends and what it is answered."""

    def __init__(self) -> None:
        self.standing = Standing(OURS)
        self._node: Node = World(seed=1, climate=CALM).nodes[FOLLOWER]

    def send(self, epoch: int, *offsets: int, to: ReplicaId = LEADER) -> int | None:
        """Let it fetch, the first time with epoch 0; tell from where its fetch means to read our partition."""
        request = m.FetchRequest(
            partitions=tuple(m.FetchPartition(topic_partition=OURS, fetch_offset=Offset(it)) for it in offsets),
            session_id=1,
            session_epoch=epoch,
        )
        send = fx.Send(replica_id=to, correlation_id=CorrelationId(epoch), request=request, timeout_ms=1)
        self._take(ev.Ticked(), send)
        wanted = self.standing.wanted(FOLLOWER, to, request)
        return None if wanted is None else wanted.fetch_offset

    def hear(self, *names: TopicPartition, source: ReplicaId = LEADER) -> None:
        """Let it be answered about these partitions."""
        parts = tuple(m.FetchedPartition(topic_partition=name, error=ErrorCode.NONE) for name in names)
        response = m.FetchResponse(partitions=parts)
        self._take(ev.ResponseReceived(correlation_id=CorrelationId(0), replica_id=source, response=response))

    def _take(self, event: ev.Event, *effects: fx.Effect) -> None:
        step = Step(event=event, effects=effects, answers={}, interrupted=None, is_whole=True)
        self.standing.on_step(self._node, step)


@pytest.mark.parametrize("names", [(), (OTHER,)], ids=["nothing", "another"])
def test_what_is_not_answered_stands(names: tuple[TopicPartition, ...]) -> None:
    """A fetch that names nothing means what was named before, until there is an answer about the partition."""
    followed = Followed()
    assert followed.send(0, 5) == 5
    followed.hear(*names)
    assert followed.send(1) == 5
    followed.hear(OURS)
    assert followed.send(2) is None
    assert followed.send(3, 6) == 6


def test_a_session_begins_with_what_it_names() -> None:
    """A new session has nothing of the one before it."""
    followed = Followed()
    followed.send(0, 5)

    assert followed.send(0) is None


def test_each_leader_has_its_own_session() -> None:
    """A late answer of the leader before takes nothing away that stands with the present one."""
    followed = Followed()
    followed.send(0, 5)
    followed.send(0, 6, to=NEXT_LEADER)
    followed.hear(OURS)

    assert followed.send(1, to=NEXT_LEADER) == 6
    assert followed.send(1) is None


def test_a_fetch_outside_of_a_session_means_what_it_names() -> None:
    """A fetch of another log by itself, as that of the metadata log is, says nothing of the partition."""
    followed = Followed()
    followed.send(0, 5)
    alone = m.FetchRequest(partitions=(m.FetchPartition(topic_partition=OTHER, fetch_offset=Offset(0)),))

    assert followed.standing.wanted(FOLLOWER, LEADER, alone) is None


def test_the_words_say_that_it_stands() -> None:
    """A fetch that names nothing is told as one that goes on, and an answer without partitions as one without news."""
    text = "cluster brokers=2\n----\n\nrun 2s\n----\n\nmessages\n----\n"
    words = play(parse_scenario(text))[-1].directive.output.splitlines()

    assert "2 -> 1  Fetch as before, from offset 0 in epoch 0: no last epoch, high watermark 0" in words
    assert "1 -> 2  Fetch: nothing new" in words
