"""Whoever creates a topic, writes to it and deletes it, again and again, always under the same name.

Owns the asking. No history is of this topic, for what is deleted cannot be read in the end: each step is judged. A
broker that was away meanwhile comes back with the log of a topic that is gone, and finds another of that name.

Source: KIP-516, topics have ids.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from nemesis.simulator.asking import Caller
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.session import ACKS_ALL, PRODUCE_TIMEOUT_MS
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.records import encode_batch

NAME = "passing"
PAUSE_MS = (20, 1500)
WRITES_MAX = 8
_DONE = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Of a creation and a deletion: an answer before this one may have been lost."""


class PassingTopic:
    """One request after the other, each to whoever may know, until it is stopped."""

    def __init__(self, world: World, cluster: ClusterClimate, dice: Random) -> None:
        self.is_stopped = False
        self._world = world
        self._cluster = cluster
        self._dice = dice
        self._controller, self._leader = Caller(world, dice), Caller(world, dice)

    def start(self) -> None:
        """Create the topic, and go on from there."""
        request = m.CreateTopicRequest(
            name=NAME,
            partition_count=1,
            replication_factor=self._cluster.replication_factor,
            configs=self._cluster.topic_configs,
        )
        self._decide(request, lambda: self._write(self._dice.randint(0, WRITES_MAX)))

    def _write(self, writes: int) -> None:
        """Write so many times, whatever comes of it, and delete the topic."""
        if not writes:
            self._decide(m.DeleteTopicRequest(name=NAME), self.start)
            return
        batch = encode_batch([b"0"] * self._dice.randint(1, 3), timestamp_ms=self._world.now_ms)
        request = m.ProduceRequest(
            topic_partition=TopicPartition(NAME, 0), acks=ACKS_ALL, timeout_ms=PRODUCE_TIMEOUT_MS, records=batch.data
        )
        self._ask(self._leader, request, lambda _: self._write(writes - 1))

    def _decide(self, request: m.CreateTopicRequest | m.DeleteTopicRequest, then: Callable[[], None]) -> None:
        """Ask until the controller has decided."""

        def on_end(error: ErrorCode | None) -> None:
            if error in _DONE:
                then()
            else:
                self._decide(request, then)

        self._ask(self._controller, request, on_end)

    def _ask(self, caller: Caller, request: m.Request, then: Callable[[ErrorCode | None], None]) -> None:
        """Ask once, after a pause; tell ``then`` the error that was the answer, or None."""

        def on_reply(response: m.Response | None) -> None:
            assert isinstance(response, m.CreateTopicResponse | m.DeleteTopicResponse | m.ProduceResponse | None)
            if response is None or response.error is not ErrorCode.NONE:
                caller.follow(None if response is None else response.current_leader)
            then(None if response is None else response.error)

        def on_silence() -> None:
            caller.turn()
            then(None)

        def ask() -> None:
            if not self.is_stopped:
                caller.ask(request, on_reply, on_silence)

        self._world.queue.after(self._dice.randint(*PAUSE_MS) * US_PER_MS, ask)
