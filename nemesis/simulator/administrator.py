"""Whoever creates the topics of a simulated cluster: once at its beginning, and as often as it takes.

Owns the asking until every topic is there. That a topic exists already is as good as having created it, since an answer
may have been lost.

Source: Kafka's ``KafkaAdminClient``.
"""

from __future__ import annotations

from random import Random

from nemesis.simulator.asking import Caller
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.errors import ErrorCode

RETRY_MS = 100
_DONE = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})
_NOT_YET = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REPLICATION_FACTOR})
"""Somebody else is to be asked, or too few brokers are active."""


class Administrator:
    """Creates the topics of a climate, one after the other."""

    def __init__(self, world: World, cluster: ClusterClimate, dice: Random) -> None:
        self._world = world
        self._cluster = cluster
        self._caller = Caller(world, dice)
        self._names = list(cluster.names)

    @property
    def is_done(self) -> bool:
        """Whether all topics are there."""
        return not self._names

    def start(self) -> None:
        """Ask for the first topic that is not there yet; repeat until all are."""
        if self.is_done:
            return
        request = m.CreateTopicRequest(
            name=self._names[0],
            partition_count=self._cluster.partitions,
            replication_factor=self._cluster.replication_factor,
            configs=self._cluster.topic_configs,
        )
        self._caller.ask(request, self._on_reply, self._on_silence)

    def _on_reply(self, response: m.Response | None) -> None:
        assert isinstance(response, m.CreateTopicResponse | None), response
        if response is None:
            self._caller.turn()
        elif response.error in _DONE:
            del self._names[0]
        elif response.error in _NOT_YET:
            self._caller.follow(response.current_leader)
        else:
            raise AssertionError(f"topic {self._names[0]} was refused: {response}")
        self._world.queue.after(RETRY_MS * US_PER_MS, self.start)

    def _on_silence(self) -> None:
        self._caller.turn()
        self.start()
