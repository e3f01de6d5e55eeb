"""The stage of a scenario about one partition: a calm cluster of brokers, a controller, and one topic.

Owns what only clusters have: rounds of fetching that are let through one by one, brokers that stop or are fenced, and
what an operator may ask of the controller. Knows no command and no file.

``ClientMemory`` has what a client of a story remembers: which of its records were acknowledged, and what it has read
where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nemesis.scenarios.cluster_world import ClusterShape, ClusterWorld, judges_of
from nemesis.scenarios.messages import ClusterDeliveries, Standing
from nemesis.scenarios.stage import HOLD, Stage
from nemesis.scenarios.views import Cell, ReplicaView, WorldView, look_at_cluster, look_at_partition, partition_of
from nemesis.simulator.node import Node, Step
from replica.core import effects as fx
from replica.core import messages as m
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition import Partition
from replica.core.partition.roles import Leader
from replica.errors import ErrorCode
from replica.ids import ReplicaId, TopicPartition

PARTITION = TopicPartition("topic", 0)
CONTROLLER = "controller"
"""What a scenario calls the controller's machine."""
ACKS_ALL = -1
PATIENCE_MS = 120_000
"""How long a condition may take to become true: an ISR shrinks after 45 s at the latest."""
ROUND_MS = 10
"""How long one round of fetching may take before the request counts as waiting at the leader."""
SETTLE_MS = 5
"""How long what follows from a step may take: a flush, and two messages."""


class ClusterStage(Stage):
    """A cluster with one partition, whose replicas have all heard of their leader and fetched from it."""

    world: ClusterWorld
    patience_ms = PATIENCE_MS
    answer_ms = 20

    def __init__(self, shape: ClusterShape) -> None:
        world = ClusterWorld(seed=shape.seed, climate=shape.climate, rules=shape.rules)
        self._standing = Standing(PARTITION)
        world.observers.append(self._standing)
        super().__init__(world, PARTITION, ClusterDeliveries(self.name_of, self._standing))
        self._began_ms = 0
        self._is_durable = shape.fsync
        self._memory = ClientMemory()
        self._stopping: set[ReplicaId] = set()
        self._judges = judges_of(world, is_durable=shape.fsync)
        self._set_up(shape)

    def _set_up(self, shape: ClusterShape) -> None:
        self.world.start_all()
        brokers = [node for node in self.world.nodes.values() if node.replica_id != self.world.controller_id]
        self._wait(lambda: not any(self.is_fenced(node.replica_id) for node in brokers))
        assignment = tuple(map(ReplicaId, shape.replicas))
        self.ask_controller(
            m.CreateTopicRequest(name=PARTITION.topic, assignment=(assignment,), configs=shape.cluster.topic_configs)
        )
        self._wait(lambda: all(self.knows(replica) is not None for replica in shape.replicas[1:]))
        self.run(SETTLE_MS)
        self.deliveries.take()
        self._began_ms = self.world.now_ms

    def _wait(self, condition: Callable[[], bool]) -> None:
        assert self.run(self.patience_ms, condition), self.world.now_ms

    # --- looking ----------------------------------------------------------------------------------------------------

    def look(self) -> WorldView:
        return look_at_cluster(
            self.world,
            PARTITION,
            image=self.image,
            began_ms=self._began_ms,
            cuts=self.cuts,
            last=self.last_views,
        )

    def look_at(self, node: Node) -> ReplicaView | None:
        return look_at_partition(node, PARTITION)

    @property
    def last_number(self) -> int:
        """See ``Stage``; the controller has none."""
        return super().last_number - 1

    def node_named(self, name: str) -> Node | None:
        """See ``Stage``; the controller has a name instead of a number."""
        if name == CONTROLLER:
            return self.world.nodes[self.world.controller_id]
        node = super().node_named(name)
        return None if node is None or node.replica_id == self.world.controller_id else node

    def name_of(self, replica_id: int) -> str:
        return CONTROLLER if replica_id == self.world.controller_id else str(replica_id)

    @property
    def image(self) -> MetadataImage:
        """What the cluster has decided, by the machine that has applied most of it."""
        cores = [node.core for node in self.world.up() if node.core is not None]
        return max((core.metadata for core in cores), key=lambda metadata: metadata.applied_offset).image

    @property
    def registration(self) -> PartitionRegistration:
        """What the controller has decided about the partition."""
        registration = self.image.partition(PARTITION)
        assert registration is not None, PARTITION
        return registration

    def leader(self) -> Node | None:
        found = [
            (partition.leader_epoch, node)
            for node in self.world.up()
            if (partition := partition_of(node, PARTITION)) is not None and partition.is_leader
        ]
        return max(found, key=lambda pair: pair[0])[1] if found else None

    def knows(self, replica_id: int) -> int | None:
        leader = self.leader()
        partition = None if leader is None else partition_of(leader, PARTITION)
        role = None if partition is None else partition.role
        known = role.remotes.get(ReplicaId(replica_id)) if isinstance(role, Leader) else None
        return None if known is None else known.log_end_offset

    def has_agreed(self) -> bool:
        """Whether all that run have heard the latest decision, and have one log that they know to be committed."""
        decided = self.registration
        replicas = [partition_of(self.world.nodes[id_], PARTITION) for id_ in decided.replicas if self._is_up(id_)]
        known = [replica for replica in replicas if replica is not None]
        ends = {replica.log.log_end_offset for replica in known}
        return (
            len(ends) == 1
            and len(known) == len(replicas)
            and all(replica.partition_epoch == decided.partition_epoch and _is_settled(replica) for replica in known)
        )

    def _is_up(self, replica_id: ReplicaId) -> bool:
        node = self.world.nodes[replica_id]
        return node.is_up and not node.is_paused

    def is_isr(self, members: frozenset[ReplicaId]) -> bool:
        """Whether just these replicas are in sync, by the controller's decision."""
        return frozenset(self.registration.isr) == members

    def is_fenced(self, broker_id: ReplicaId) -> bool:
        """Whether the controller keeps the present process of this broker out."""
        if not any(node.is_up for node in self.world.nodes.values()):
            return True
        registered = self.image.brokers.get(broker_id)
        node = self.world.nodes[broker_id]
        return registered is None or not registered.is_active or registered.incarnation_id != _incarnation(node)

    # --- the client -------------------------------------------------------------------------------------------------

    def append(self, value: str, target: Node, *, acks: int = -1) -> None:
        """See ``Stage``; what the leader acknowledges alone has time to reach its disk."""
        super().append(value, target, acks=acks)
        if acks != ACKS_ALL:
            self.run(SETTLE_MS)

    def on_answer(self, value: str, acks: int, response: m.Response | None) -> None:
        if acks == ACKS_ALL and isinstance(response, m.ProduceResponse) and response.base_offset is not None:
            self._memory.acknowledge(value, response.base_offset)

    def on_read(self, cells: Sequence[Cell]) -> None:
        self._told += self._memory.compare(cells)

    # --- rounds of fetching -----------------------------------------------------------------------------------------

    def hold(self, nodes: Iterable[Node]) -> None:
        """Hold back what these followers ask from now on; a request that waits at its leader is answered first."""
        held = list(nodes)
        self.world.holding.update(node.replica_id for node in held)
        self.run(self.patience_ms, lambda: not any(self.world.is_asking(node) for node in held))

    def flow(self, nodes: Iterable[Node]) -> None:
        """Let everything of these followers through again."""
        for node in nodes:
            self.world.holding.discard(node.replica_id)
            self._forget_outdated(node)
            self.world.let_through(node)

    def fetch(self, node: Node) -> bool:
        """Let one request of a follower pass, and its answer; tell whether there was one.

        It is over when the follower has its next one ready; or, if the leader lets the request wait, after a while.
        """
        self._forget_outdated(node)
        if not self.run(self.patience_ms, lambda: bool(self.world.held(node))):
            return False
        self.world.let_through(node)
        self.run(ROUND_MS, lambda: bool(self.world.held(node)))
        return True

    def _forget_outdated(self, node: Node) -> None:
        """Lose requests of an earlier leader epoch: nobody would answer them but with a refusal."""
        partition = partition_of(node, PARTITION)
        if partition is not None:
            self.world.drop(node, lambda effect: self._epoch_of(node, effect) != partition.leader_epoch)

    def _epoch_of(self, node: Node, effect: fx.Send) -> int | None:
        match effect.request:
            case m.FetchRequest() as request:
                part = self._standing.wanted(node.replica_id, effect.replica_id, request)
                return None if part is None else part.current_leader_epoch
            case m.ListOffsetsRequest() as asked:
                return asked.current_leader_epoch
            case other:
                raise AssertionError(other)

    # --- brokers and the controller ---------------------------------------------------------------------------------

    def start(self, node: Node) -> None:
        """See ``Stage``; a broker has then been let in by the controller, and has heard of it."""
        super().start(node)
        if node.replica_id == self.world.controller_id:
            return
        if not self.run(self.patience_ms, lambda: not node.is_up or not self.is_fenced(node.replica_id)):
            self._told.append(f"the controller does not let broker {node.replica_id} in")
        self.run(SETTLE_MS)

    def end(self, node: Node, *, power: bool) -> None:
        """See ``Stage``; where records are not flushed nothing is promised of them after a power loss."""
        super().end(node, power=power)
        if power and not self._is_durable and self._judges:
            self._judges = ()
            self._told.append("what the system had not brought to disk is gone; from here on no promise is judged")

    def stop(self, node: Node) -> None:
        """Stop a broker cleanly and wait until it has ended: the controller moves away what it leads."""
        self._stopping.add(node.replica_id)
        self.world.hold_down(node.replica_id, HOLD)
        node.stop()
        if not self.run(self.patience_ms, lambda: not node.is_up):
            self._told.append(f"broker {node.replica_id} does not come to its end")
        self._stopping.discard(node.replica_id)

    def flush(self, node: Node) -> None:
        """Let the system write a replica's log to the disk."""
        store = node.stores[PARTITION]
        store.flush()
        node.flushed_end[PARTITION] = store.flushed_end_offset

    def ask_controller(self, request: m.AdminRequest) -> str:
        """Ask the controller as an operator does; in words, what it says."""
        answers: list[m.Response | None] = []
        self.world.ask(self.world.controller_id, request, answers.append)
        self._wait(lambda: bool(answers))
        (answer,) = answers
        assert isinstance(answer, m.CreateTopicResponse | m.AlterTopicResponse | m.ElectLeaderResponse), answer
        self.run(SETTLE_MS)
        return "ok" if answer.error is ErrorCode.NONE else f"{answer.error}, {answer.message}"

    # --- watching (Observer) ----------------------------------------------------------------------------------------

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``; of a broker that stops, its last look is kept."""
        super().on_step(node, step)
        if node.replica_id in self._stopping:
            self._remember(node, flushed_only=False)


def _incarnation(node: Node) -> str:
    return f"{node.replica_id}.{node.incarnation}"


def _is_settled(partition: Partition) -> bool:
    return partition.log.is_flushed and partition.high_watermark == partition.log.log_end_offset


LOST = "LOST"
INCONSISTENT = "INCONSISTENT"


class ClientMemory:
    """Of one partition."""

    def __init__(self) -> None:
        self._acknowledged: dict[str, int] = {}
        self._read: dict[int, str] = {}

    def acknowledge(self, value: str, offset: int) -> None:
        """A record was acknowledged with ``acks=all``."""
        self._acknowledged[value] = offset

    def compare(self, cells: Iterable[Cell]) -> list[str]:
        """Take what a read has found; in words, what contradicts it. Each record is missed once."""
        found: list[str] = []
        for cell in cells:
            for value in self._missing(cell):
                del self._acknowledged[value]
                found.append(f"{LOST} {value}: it was acknowledged at offset {cell.offset}, where {cell.value} is")
            before = self._read.setdefault(cell.offset, cell.value)
            if before != cell.value:
                found.append(
                    f"{INCONSISTENT} at offset {cell.offset}: a consumer has read {before}, and now {cell.value}"
                )
        return found

    def _missing(self, cell: Cell) -> list[str]:
        """What was acknowledged at this offset and is not this record."""
        return [value for value, at in self._acknowledged.items() if at == cell.offset and value != cell.value]
