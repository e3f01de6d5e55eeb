"""Whoever moves the partitions of a simulated cluster to other brokers while they are used (KIP-455).

Owns the choice: a move is begun, given another target while it is under way, or cancelled, at any time and in all
weathers, towards brokers that may be down. One request comes after the other; what became of one without an answer is
never known. A target has as many replicas as the topic was created with, or one more: with fewer a world might lose
with one disk what it must not. Whether what the controller makes of it is right, the judges see.

Source: Kafka's ``kafka-reassign-partitions.sh``.
"""

from __future__ import annotations

from random import Random
from typing import Any

from nemesis.history import EventType
from nemesis.simulator.asking import Caller
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.record import Record
from nemesis.simulator.world import World
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition

MINUTE_MS = 60_000
RETRY_MS = 100
ATTEMPTS_MAX = 6
CANCELS = 0.25
"""The share of requests that cancel, whether anything is under way or not."""
FOLLOWS_UP = 0.5
"""How often the partition of the last request is that of the next, so that a move is met while it is under way."""
ONE_MORE = 0.2
"""The share of targets with one replica more than the topic was created with."""


class Reassigner:
    """Reassigns partitions, one request after the other, until it is stopped."""

    def __init__(self, world: World, cluster: ClusterClimate, record: Record, dice: Random) -> None:
        assert cluster.reassignments > 0, cluster
        self.is_stopped = False
        self._world = world
        self._cluster = cluster
        self._pause_ms = int(MINUTE_MS / cluster.reassignments)
        self._record = record
        self._dice = dice
        self._caller = Caller(world, dice)
        self._last = dice.choice(cluster.topic_partitions)

    def start(self) -> None:
        """Ask for something after a pause, and then for the next thing."""
        self._after(self._dice.randint(1, 2 * self._pause_ms), self._act)

    def _act(self) -> None:
        if self._dice.random() >= FOLLOWS_UP:
            self._last = self._dice.choice(self._cluster.topic_partitions)
        target = None if self._dice.random() < CANCELS else self._draw_target()
        self._ask(m.ReassignablePartition(topic_partition=self._last, replicas=target), ATTEMPTS_MAX)

    def _draw_target(self) -> tuple[ReplicaId, ...]:
        size = self._cluster.replication_factor + (self._dice.random() < ONE_MORE)
        brokers = list(self._world.nodes)
        return tuple(self._dice.sample(brokers, min(size, len(brokers))))

    def _ask(self, wish: m.ReassignablePartition, attempts: int) -> None:
        """Ask until a controller has decided, and then go on."""
        f, detail = _told(wish)
        self._record.nemesis(EventType.INVOKE, f, detail)

        def on_reply(response: m.Response | None) -> None:
            assert isinstance(response, m.AlterPartitionReassignmentsResponse | None), response
            error = _error_of(response)
            self._record.nemesis(EventType.INFO, f, detail, error=None if error is ErrorCode.NONE else error)
            self._caller.follow(None if response is None else response.current_leader)
            if error is ErrorCode.NOT_CONTROLLER and attempts > 1:
                self._after(RETRY_MS, lambda: self._ask(wish, attempts - 1))
            else:
                self.start()

        def on_silence() -> None:
            self._record.nemesis(EventType.INFO, f, detail, error="no answer in time")
            self._caller.turn()
            self.start()

        request = m.AlterPartitionReassignmentsRequest(partitions=(wish,))
        self._caller.ask(request, on_reply, on_silence, only_in_time=True)

    def _after(self, delay_ms: int, action: Any) -> None:
        def unless_stopped() -> None:
            if not self.is_stopped:
                action()

        self._world.queue.after(delay_ms * US_PER_MS, unless_stopped)


def _error_of(response: m.AlterPartitionReassignmentsResponse | None) -> ErrorCode:
    if response is None:
        return ErrorCode.NOT_CONTROLLER
    return response.partitions[0].error if response.partitions else response.error


def _told(wish: m.ReassignablePartition) -> tuple[str, dict[str, Any]]:
    """What the history calls it."""
    log: TopicPartition = wish.topic_partition
    if wish.replicas is None:
        return "cancel-reassignment", {"log": f"{log}"}
    return "reassign", {"log": f"{log}", "replicas": list(wish.replicas)}
