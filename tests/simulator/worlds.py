"""Small calm worlds for tests of the simulator: watched by its judges, used by its clients."""

from __future__ import annotations

from random import Random

from nemesis.history import APPEND, EventType
from nemesis.simulator.census import Census
from nemesis.simulator.clients import Clients
from nemesis.simulator.climate import Climate
from nemesis.simulator.climate_fields import with_calm_fields
from nemesis.simulator.injector import SimulatedInjector
from nemesis.simulator.invariants import Invariants
from nemesis.simulator.node import Node
from nemesis.simulator.queue import US_PER_S
from nemesis.simulator.record import Record
from nemesis.simulator.recovery import has_converged
from nemesis.simulator.seeds import climate_of
from nemesis.simulator.world import LOG, Observer, World
from nemesis.variants.worlds import WorldKind
from replica.core.messages import Request
from replica.core.quorum.roles import Leader
from replica.ids import CallId, ReplicaId

USED = Climate(rate=20.0)
"""Nothing goes wrong, and clients have much to do."""


class Liar(Observer):
    """Writes into the history that a value was acknowledged, which nobody has ever appended."""

    def on_begin(self, world: World, record: Record) -> None:
        """Say so some time, of a place that no log of a short run reaches."""

        def lie() -> None:
            log, number = world.used_logs[0], 1 << 20
            placed = {"offset": number, "leader_epoch": 0, "node": 1}
            record.client(number, EventType.INVOKE, APPEND, topic_partition=log, value=number)
            record.client(number, EventType.OK, APPEND, topic_partition=log, value=number, **placed)

        world.queue.after(5 * US_PER_S, lie)


class Absence(Observer):
    """Kills machine 2, and keeps it from starting again for a while, or for ever."""

    def __init__(self, from_s: float, *, until_s: float | None = None) -> None:
        self._from_s, self._until_s = from_s, until_s

    def on_begin(self, world: World, record: Record) -> None:
        """See ``Observer``."""
        del record
        world.queue.at(int(self._from_s * US_PER_S), lambda: self._take(world))
        if self._until_s is not None:
            world.queue.at(int(self._until_s * US_PER_S), lambda: world.release(ReplicaId(2), -1))

    @staticmethod
    def _take(world: World) -> None:
        world.hold_down(ReplicaId(2), -1)
        world.nodes[ReplicaId(2)].kill()


class Silence(Observer):
    """Has machine 2 owe an answer that it does not know of."""

    def __init__(self, asked: Request, from_s: float) -> None:
        self._asked, self._from_s = asked, from_s

    def on_begin(self, world: World, record: Record) -> None:
        """See ``Observer``."""
        del record
        requests = world.nodes[ReplicaId(2)].requests
        world.queue.at(int(self._from_s * US_PER_S), lambda: requests.update({CallId(1 << 40): self._asked}))


class Stage:
    """A world that has begun, with everything that a run has around it."""

    def __init__(self, climate: Climate = USED, *, seed: int = 1) -> None:
        self.world = World(seed=seed, climate=climate)
        self.record = Record(self.world.queue)
        self.census = Census(self.record)
        self.invariants = Invariants(
            self.world.logs,
            self.world.nodes,
            lying_disks=climate.lying > 0,
            initial_voters=self.world.base_voters,
        )
        self.world.observers += [self.census, self.invariants]
        self.clients = Clients(self.world, self.record, climate, Random(f"{seed} clients"))
        self.injector = SimulatedInjector(self.world, self.record)
        self.world.start_all()
        self.clients.start()

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.world.queue.run_until(self.world.now_us + int(seconds * US_PER_S))

    def converge(self) -> None:
        """Stop the clients and let the replicas agree."""
        self.clients.is_stopped = True
        for _ in range(200):
            self.run(0.1)
            if has_converged(self.world):
                return
        raise AssertionError("the replicas do not agree")

    def node(self, number: int) -> Node:
        """The machine with that id."""
        return self.world.nodes[ReplicaId(number)]

    @property
    def leader(self) -> Node:
        """Who leads."""
        (leader,) = [
            node for node in self.world.up() if node.core is not None and isinstance(node.core.logs[LOG].role, Leader)
        ]
        return leader

    def follower(self) -> Node:
        """Somebody who does not lead."""
        return next(node for node in self.world.up() if node is not self.leader)


def recorded_climate(seed: int) -> Climate:
    """The climate of a seed's cluster before settings and releases were drawn as well: what an old record means."""
    return with_calm_fields(climate_of(seed, WorldKind.CLUSTER), ("setting_changes", "upgrades"))
