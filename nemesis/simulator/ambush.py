"""Strike a new leader just after its election, where protocols are weakest.

Owns the choice of the blow and its moment. What is half done then (an epoch that one replica knows, a record that one
replica holds) is what the rules of elections and reconciliation are about, and random faults seldom hit it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from nemesis.faults.shapes import isolate
from nemesis.history import EventType
from nemesis.simulator.node import Node, Step
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.record import Record
from nemesis.simulator.world import Observer, World
from replica.core.metadata.image import MetadataImage
from replica.core.quorum.roles import Leader
from replica.core.replica import Replica
from replica.ids import Epoch, ReplicaId, TopicPartition

FIRST_KEY = 1_000_000
"""Above the ids of a schedule's faults."""
LASTS_MS = (50, 1500)
LASTS_MS_MAX = 10_000


class Ambush(Observer):
    """Isolates, kills, pauses or darkens new leaders, as often as the world's climate says.

    In most worlds a blow lasts until the next leader is struck: then leadership swings to and fro between
    replicas of which each has missed what the other did, as in figure 8 of the Raft paper.
    """

    def __init__(self, world: World, record: Record, dice: Random) -> None:
        self._world = world
        self._record = record
        self._dice = dice
        self._swings = dice.random() < 0.75
        self._led: dict[tuple[ReplicaId, TopicPartition], Epoch] = {}
        self._images: dict[ReplicaId, MetadataImage] = {}
        self._next_key = FIRST_KEY
        self._relent: Callable[[], None] = _nothing

    def on_step(self, node: Node, step: Step) -> None:
        if node.core is None or not step.is_whole:
            return
        for name in self._world.logs:
            log = node.core.logs[name]
            if isinstance(log.role, Leader):
                self._maybe_strike(node, name, log.leader_epoch)
        if node.core.metadata.image is not self._images.get(node.replica_id):
            self._images[node.replica_id] = node.core.metadata.image
            self._look_at_partitions(node, node.core)

    def _look_at_partitions(self, node: Node, core: Replica) -> None:
        """A partition gets its leader by new metadata only."""
        for name, partition in {} if core.broker is None else core.broker.partitions.items():
            if partition.is_leader:
                self._maybe_strike(node, name, partition.leader_epoch)

    def _maybe_strike(self, node: Node, log: TopicPartition, epoch: Epoch) -> None:
        """Strike a leader whose epoch is new, if the dice say so."""
        if self._led.get((node.replica_id, log)) == epoch:
            return
        self._led[node.replica_id, log] = epoch
        if self._dice.random() < self._world.climate.ambush:
            delay_ms = self._dice.random() * self._beginning_ms()
            self._world.queue.after(int(delay_ms * US_PER_MS), lambda: self._strike(node))

    def _beginning_ms(self) -> float:
        """How long the beginning of a leadership takes: some messages to and fro, some flushes."""
        climate = self._world.climate
        return 5 * climate.latency_ms[1] + 2 * climate.flush_ms[1]

    def _strike(self, node: Node) -> None:
        """Do it, and undo it after a while; not in a world that is healed by now."""
        if not self._world.climate.ambush or not node.is_up:
            return
        blow = self._dice.choice(("isolate", "isolate", "isolate", "kill", "power", "pause"))
        cluster = self._world.climate.cluster
        if blow == "power" and cluster is not None and not cluster.fsync:
            blow = "kill"
        key, self._next_key = self._next_key, self._next_key + 1
        detail = {"replicas": [node.replica_id]}
        self._record.nemesis(EventType.INVOKE, f"ambush-{blow}", detail)
        relent = self._blow(blow, node, key)
        self._record.nemesis(EventType.INFO, f"ambush-{blow}", detail)
        lasts_ms = self._dice.randint(*LASTS_MS)
        if self._swings:
            self._relent()
            self._relent, lasts_ms = relent, LASTS_MS_MAX
        self._world.queue.after(lasts_ms * US_PER_MS, relent)

    def _blow(self, blow: str, node: Node, key: int) -> Callable[[], None]:
        """Strike, and return how to undo it, which does no harm when it is done twice."""
        match blow:
            case "isolate":
                self._world.network.cut(key, isolate(tuple(self._world.nodes), (node.replica_id,)))
                return lambda: self._world.network.heal(key)
            case "kill" | "power":
                self._world.hold_down(node.replica_id, key)
                node.kill() if blow == "kill" else node.lose_power()
                return lambda: self._world.release(node.replica_id, key)
            case _:
                node.pause(key)
                return lambda: node.resume(key)


def _nothing() -> None:
    """There is nothing to undo."""
