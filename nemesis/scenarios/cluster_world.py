"""A simulated cluster for stories: brokers, and a controller on a machine of its own.

Owns what is special about it. The controller is the one voter of the metadata log, so that no fault of a broker
disturbs it. And what a follower asks of its leader can be held back on its way, so that a story can let one round of
fetching pass and no more; a request that is held has not been sent as far as time-outs are concerned.

What one cluster of a story is like: how many brokers, which replicas, and what is switched on.

Who judges the world of a partition's story.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from nemesis.scenarios.stage import CALM
from nemesis.simulator.climate import Climate
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.disk import NodeDisk
from nemesis.simulator.invariants import Invariants
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.world import Observer, World, first_voters, initial_voters_of
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.metadata.replay import METADATA_LOG
from replica.core.replica import Replica
from replica.core.rules import Rules
from replica.ids import CorrelationId, ReplicaId
from replica.storage import LogTable
from replica.voters import VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A follower's request that waits to be let through, of one incarnation of its broker."""

    incarnation: int
    effect: fx.Send


class CalmDisk(NodeDisk):
    """A disk from which a power loss takes all that was not flushed, and never a part of it."""

    def lose_power(self) -> None:
        self.files.crash()


class ClusterWorld(World):
    """``climate.voters - 1`` brokers with ids from 1, and the controller, which has the last id."""

    def __init__(self, *, seed: int | str, climate: Climate, rules: Callable[[], Rules]) -> None:
        self.controller_id = ReplicaId(climate.voters)
        super().__init__(seed=seed, climate=climate, rules=rules)
        self.holding: set[ReplicaId] = set()
        """The followers whose requests are held back."""
        self._new_rules = rules
        self._held: dict[ReplicaId, list[Held]] = {}
        self._out: dict[ReplicaId, set[tuple[int, CorrelationId]]] = {}

    @property
    def base_voters(self) -> VoterSet:
        """See ``World``: the controller alone."""
        return first_voters([self.controller_id])

    def _new_node(self, replica_id: ReplicaId) -> Node:
        node = super()._new_node(replica_id)
        initial_voters = initial_voters_of(self.base_voters, replica_id)
        node.disk = CalmDisk(replica_id, self.logs, Random(replica_id), initial_voters=initial_voters)
        return node

    def new_core(self, node: Node, opened: LogTable) -> Replica:
        """See ``World``: of all machines only the last has a vote, and it alone is no broker."""
        config = super().new_core(node, opened).config
        is_controller = node.replica_id == self.controller_id
        return Replica(
            config=replace(
                config,
                voters=(self.controller_id,),
                identity=None if is_controller else config.identity,
                controller=config.controller if is_controller else None,
            ),
            logs=opened.recovered,
            random=Random(f"{node.replica_id} {node.incarnation}"),
            rules=self._new_rules(),
        )

    # --- holding back -----------------------------------------------------------------------------------------------

    def send(self, node: Node, effect: fx.Send) -> None:
        if not _is_of_a_follower(effect.request):
            super().send(node, effect)
        elif node.replica_id in self.holding:
            self._held.setdefault(node.replica_id, []).append(Held(incarnation=node.incarnation, effect=effect))
        else:
            self._pass_on(node, effect)

    def held(self, node: Node) -> tuple[Held, ...]:
        """The requests of this follower that are held back, oldest first."""
        return tuple(held for held in self._held.get(node.replica_id, ()) if held.incarnation == node.incarnation)

    def is_asking(self, node: Node) -> bool:
        """Whether a request of this follower is under way, or waits at its leader."""
        return any(incarnation == node.incarnation for incarnation, _ in self._out.get(node.replica_id, ()))

    def let_through(self, node: Node) -> None:
        """Send what is held back of this follower."""
        held = self.held(node)
        self._held.pop(node.replica_id, None)
        for one in held:
            self._pass_on(node, one.effect)

    def drop(self, node: Node, dropped: Callable[[fx.Send], bool]) -> None:
        """Lose those of its requests that are held back and answer the description; it learns so at once."""
        held = self.held(node)
        self._held[node.replica_id] = [one for one in held if not dropped(one.effect)]
        for one in held:
            if dropped(one.effect):
                failed = ev.SendFailed(correlation_id=one.effect.correlation_id, replica_id=one.effect.replica_id)
                node.submit(failed)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``World``; an answer that has come, or has not come in time, is owed no more."""
        match step.event:
            case ev.ResponseReceived(correlation_id=correlation_id) | ev.SendFailed(correlation_id=correlation_id):
                self._out.get(node.replica_id, set()).discard((node.incarnation, correlation_id))
            case _:
                pass
        super().on_step(node, step)

    def _pass_on(self, node: Node, effect: fx.Send) -> None:
        self._out.setdefault(node.replica_id, set()).add((node.incarnation, effect.correlation_id))
        super().send(node, effect)


def _is_of_a_follower(request: m.PeerRequest) -> bool:
    if isinstance(request, m.FetchRequest):
        return all(part.topic_partition != METADATA_LOG for part in request.partitions)
    return isinstance(request, m.ListOffsetsRequest) and request.topic_partition != METADATA_LOG


NEVER_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """What is special about one cluster; ``replicas`` is the assignment of its partition, preferred leader first.

    ``lag_ms`` is ``replica.lag.time.max.ms``. ``fsync`` is off where records reach the disk when the system pleases.
    """

    brokers: int
    replicas: tuple[int, ...]
    min_isr: int = 1
    lag_ms: int = 30_000
    elr: bool = True
    fsync: bool = True
    seed: int = 1
    rules: Callable[[], Rules] = Rules

    @property
    def cluster(self) -> ClusterClimate:
        """The brokers, the controller and the topic; otherwise as the simulator has them."""
        return ClusterClimate(
            min_insync_replicas=self.min_isr,
            elr_enable=self.elr,
            fsync=self.fsync,
            replica_lag_time_max_ms=self.lag_ms,
            leader_imbalance_check_interval_seconds=NEVER_S,
        )

    @property
    def climate(self) -> Climate:
        """The whole world: the brokers, and one machine more for the controller."""
        return replace(CALM, voters=self.brokers + 1, cluster=self.cluster)


def judges_of(world: ClusterWorld, *, is_durable: bool) -> tuple[Observer, ...]:
    """The judges, in the order in which they are told of a step."""
    controllers = {world.controller_id: world.nodes[world.controller_id]}
    partitions = PartitionInvariants(world.nodes, is_durable=is_durable, may_forget=not is_durable, may_be_unclean=True)
    quorum = Invariants(
        world.logs,
        controllers,
        lying_disks=False,
        initial_voters=world.base_voters,
        on_commit={METADATA_LOG: partitions.on_metadata},
    )
    return Only(quorum, controllers), partitions


class Only(Observer):
    """A judge who is told of some machines only."""

    def __init__(self, judge: Observer, nodes: Mapping[ReplicaId, Node]) -> None:
        self._judge = judge
        self._nodes = nodes

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        if node.replica_id in self._nodes:
            self._judge.on_boot(node, torn_bytes)

    def on_step(self, node: Node, step: Step) -> None:
        if node.replica_id in self._nodes:
            self._judge.on_step(node, step)

    def on_down(self, node: Node, crash: Crash) -> None:
        if node.replica_id in self._nodes:
            self._judge.on_down(node, crash)
