"""What the followers want of a story's partition, also where a fetch does not say it.

Owns what stands in the sessions of fetches (KIP-227): what a follower has named and its leader has not answered yet. A
fetch that names nothing means just that. Knows one partition, and no words.
"""

from __future__ import annotations

from nemesis.simulator.node import Node, Step
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.ids import ReplicaId, TopicPartition


class Standing(Observer):
    """What stands of one partition, by follower and leader."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._topic_partition = topic_partition
        self._wanted: dict[tuple[ReplicaId, ReplicaId], m.FetchPartition] = {}

    def wanted(self, follower_id: ReplicaId, leader_id: ReplicaId, request: m.FetchRequest) -> m.FetchPartition | None:
        """Tell what a follower's latest fetch means for the partition: what it names, or what stands in its session."""
        named = _named(request, self._topic_partition)
        if named is None and request.session_id is not None:
            return self._wanted.get((follower_id, leader_id))
        return named

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``: an answer takes away what it is about, and a session that begins has only what it names."""
        match step.event:
            case ev.ResponseReceived(replica_id=leader_id, response=m.FetchResponse() as response):
                if any(part.topic_partition == self._topic_partition for part in response.partitions):
                    self._wanted.pop((node.replica_id, leader_id), None)
            case _:
                pass
        for effect in step.effects:
            if isinstance(effect, fx.Send) and isinstance(effect.request, m.FetchRequest):
                self._note(node.replica_id, effect.replica_id, effect.request)

    def _note(self, follower_id: ReplicaId, leader_id: ReplicaId, request: m.FetchRequest) -> None:
        named = _named(request, self._topic_partition)
        if request.session_id is not None and request.session_epoch == 0:
            self._wanted.pop((follower_id, leader_id), None)
        if named is not None:
            self._wanted[follower_id, leader_id] = named


def _named(request: m.FetchRequest, topic_partition: TopicPartition) -> m.FetchPartition | None:
    return next((part for part in request.partitions if part.topic_partition == topic_partition), None)
