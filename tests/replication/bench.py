"""A whole cluster on a bench: production cores on production storage in a calm simulated world.

Owns the words in which scenarios are written: topics are created, records produced and read, brokers killed, stopped
and started, leaders moved. Time passes only when a scenario waits for something, and a wait that is in vain fails the
test. Every promise of the cluster is judged after every step, as in the simulator's sweeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nemesis.simulator.invariants import Invariants
from nemesis.simulator.metadata_invariants import MetadataInvariants
from nemesis.simulator.node import Node
from nemesis.simulator.partition_habits import PartitionHabits
from nemesis.simulator.partition_invariants import PartitionInvariants
from nemesis.simulator.queue import US_PER_MS
from nemesis.simulator.world import Observer
from replica.core import messages as m
from replica.core.config import BrokerConfig, ControllerConfig, MetadataConfig
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import PartitionRegistration
from replica.core.metadata.replay import METADATA_LOG, MetadataReplay
from replica.core.partition import Partition
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import Epoch, Offset, ReplicaId, TopicId, TopicPartition
from replica.records import RecordBatch, decode_records, encode_batch, parse_batches
from tests.replication.stage import FAST_BROKER, FAST_CONTROLLER, RARE_SNAPSHOTS, StagedWorld

WAIT_MS_MAX = 60_000
LOOK_MS = 10
R = TypeVar("R", bound=m.Response)
OnCommit = Callable[[RecordBatch], None]


def topic_partition(name: str, partition: int = 0) -> TopicPartition:
    """Name a partition."""
    return TopicPartition(name, partition)


def both(first: OnCommit, second: OnCommit) -> OnCommit:
    """Two who are told of what is committed, as one."""

    def tell(batch: RecordBatch) -> None:
        first(batch)
        second(batch)

    return tell


class Cluster:
    """``brokers`` combined brokers and controllers with ids from 1, up and unfenced; ``puppets`` are brokers besides.

    Its promises are judged unless puppets, or a disk that is tampered with, must break them.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        puppets: tuple[int, ...] = (),
        broker: BrokerConfig = FAST_BROKER,
        controller: ControllerConfig = FAST_CONTROLLER,
        metadata: MetadataConfig = RARE_SNAPSHOTS,
        observers: tuple[Observer, ...] = (),
        is_judged: bool = True,
        rules: Callable[[], Rules] = Rules,
        stage: type[StagedWorld] = StagedWorld,
    ) -> None:
        self.world = stage(
            voters=brokers, puppets=puppets, broker=broker, controller=controller, metadata=metadata, rules=rules
        )
        self.world.observers += observers
        if is_judged and not puppets:
            partitions = PartitionInvariants(self.world.nodes, is_durable=True, may_forget=False, may_be_unclean=True)
            snapshots = MetadataInvariants(self.world.newest_levels)
            told = {METADATA_LOG: both(partitions.on_metadata, snapshots.on_metadata)}
            voters = self.world.base_voters
            logs = Invariants(
                self.world.logs, self.world.nodes, lying_disks=False, initial_voters=voters, on_commit=told
            )
            snapshots.books = logs.books
            self.world.observers += [logs, snapshots, partitions, PartitionHabits()]
        self.topic_ids: dict[str, TopicId] = {}
        """Of the topics that were created here."""
        self.world.start_all()
        self.wait(lambda: len(self._unfenced()) == brokers, "all brokers are up")

    # --- time -------------------------------------------------------------------------------------------------------

    def pass_ms(self, milliseconds: int) -> None:
        """Let time pass, whatever happens."""
        self.world.queue.run_until(self.world.now_us + milliseconds * US_PER_MS)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Let time pass until ``condition`` holds; fail where it does not come to."""
        end_ms = self.world.now_ms + WAIT_MS_MAX
        while not condition():
            assert self.world.now_ms < end_ms, f"in vain: {what}"
            self.pass_ms(LOOK_MS)

    # --- asking -----------------------------------------------------------------------------------------------------

    def begin(self, broker_id: int, request: m.Request) -> list[m.Response | None]:
        """Ask one broker; its answer, when it comes, is put into the list."""
        answers: list[m.Response | None] = []
        self.world.ask(ReplicaId(broker_id), request, answers.append)
        return answers

    def ask(self, broker_id: int, request: m.Request, kind: type[R]) -> R:
        """Ask one broker and wait for its answer, of the kind that is expected."""
        answers = self.begin(broker_id, request)
        self.wait(lambda: bool(answers), f"{broker_id} answers {request}")
        (answer,) = answers
        assert isinstance(answer, kind), answer
        return answer

    def create(self, name: str, *replicas: tuple[int, ...], **configs: str) -> TopicPartition:
        """Create a topic with just these assignments, wait until all replicas serve it, and name its first partition.

        Settings are given with underscores for dots.
        """
        request = m.CreateTopicRequest(
            name=name,
            assignment=tuple(tuple(ReplicaId(replica) for replica in assigned) for assigned in replicas),
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        answer = self.ask(self.controller_id, request, m.CreateTopicResponse)
        assert answer.error is ErrorCode.NONE, answer
        for number, assigned in enumerate(replicas):
            name_of = TopicPartition(name, number)
            hosts = [broker for broker in assigned if broker in self.world.nodes]
            self.wait(lambda: all(name_of in self._partitions(broker) for broker in hosts), f"{name_of} is hosted")  # noqa: B023 - called before the next turn
        self.topic_ids[name] = self.image.topics[name].topic_id
        return TopicPartition(name, 0)

    def reassign(self, name: TopicPartition, *target: int) -> m.ReassignedPartition:
        """Begin to move a partition to other replicas."""
        return self._alter_reassignment(name, tuple(ReplicaId(replica) for replica in target))

    def cancel_reassignment(self, name: TopicPartition) -> m.ReassignedPartition:
        """Have a partition go back to the replicas of before."""
        return self._alter_reassignment(name, None)

    def _alter_reassignment(self, name: TopicPartition, target: tuple[ReplicaId, ...] | None) -> m.ReassignedPartition:
        wish = m.ReassignablePartition(topic_partition=name, replicas=target)
        request = m.AlterPartitionReassignmentsRequest(partitions=(wish,))
        (outcome,) = self.ask(self.controller_id, request, m.AlterPartitionReassignmentsResponse).partitions
        return outcome

    def send(
        self, name: TopicPartition, *values: bytes, acks: int = -1, to: int | None = None, timeout_ms: int = 5000
    ) -> m.ProduceResponse:
        """Send a batch of these values to the leader, or to ``to``."""
        leader_id = self.leader(name) if to is None else to
        request = m.ProduceRequest(
            topic_partition=name, acks=acks, timeout_ms=timeout_ms, records=encode_batch(list(values)).data
        )
        return self.ask(leader_id, request, m.ProduceResponse)

    def produce(self, name: TopicPartition, *values: bytes, acks: int = -1) -> Offset:
        """Send a batch that must be acknowledged; return where it stands."""
        answer = self.send(name, *values, acks=acks)
        assert answer.error is ErrorCode.NONE, answer
        assert answer.base_offset is not None, answer
        return answer.base_offset

    def send_numbered(self, name: TopicPartition, sequence: int, *, producer_epoch: int = 0) -> m.ProduceResponse:
        """Send a batch of one record, by producer 7, to the leader."""
        batch = encode_batch([b"v"], producer_id=7, producer_epoch=producer_epoch, base_sequence=sequence)
        request = m.ProduceRequest(topic_partition=name, acks=-1, timeout_ms=5000, records=batch.data)
        return self.ask(self.leader(name), request, m.ProduceResponse)

    def delete_records(self, name: TopicPartition, offset: int) -> m.DeleteRecordsResponse:
        """Have the leader forget what lies below an offset."""
        request = m.DeleteRecordsRequest(topic_partition=name, offset=Offset(offset), timeout_ms=5000)
        return self.ask(self.leader(name), request, m.DeleteRecordsResponse)

    def fetch(
        self,
        name: TopicPartition,
        offset: int = 0,
        *,
        at: int | None = None,
        epoch: int | None = None,
        max_wait_ms: int = 0,
    ) -> m.FetchedPartition:
        """Read as a consumer from the leader, or from ``at``; ``epoch`` is the one that the consumer believes in."""
        part = m.FetchPartition(
            topic_partition=name,
            fetch_offset=Offset(offset),
            current_leader_epoch=None if epoch is None else Epoch(epoch),
        )
        request = m.FetchRequest(partitions=(part,), max_wait_ms=max_wait_ms)
        answer = self.ask(self.leader(name) if at is None else at, request, m.FetchResponse)
        assert answer.error is ErrorCode.NONE, answer
        return answer.partitions[0]

    def values(self, name: TopicPartition, *, at: int | None = None) -> list[bytes | None]:
        """Read all that a consumer may."""
        batches = parse_batches(self.fetch(name, at=at).records)
        return [record.value for batch in batches for record in decode_records(batch)]

    def epoch_end(
        self, broker_id: int, name: TopicPartition, epoch: int, current: int | None = None
    ) -> m.OffsetForLeaderEpochResponse:
        """Ask where an epoch ends, as a consumer that believes to be in ``current``."""
        request = m.OffsetForLeaderEpochRequest(
            topic_partition=name,
            leader_epoch=Epoch(epoch),
            current_leader_epoch=None if current is None else Epoch(current),
        )
        return self.ask(broker_id, request, m.OffsetForLeaderEpochResponse)

    # --- coming and going -------------------------------------------------------------------------------------------

    def kill(self, broker_id: int) -> None:
        """End a process; it stays away."""
        self.world.hold_down(ReplicaId(broker_id), broker_id)
        self.node(broker_id).kill()

    def lose_power(self, broker_id: int) -> None:
        """End a machine with all that was not flushed; it stays away."""
        self.world.hold_down(ReplicaId(broker_id), broker_id)
        self.node(broker_id).lose_power()

    def stop(self, broker_id: int) -> None:
        """Stop a process gracefully and wait until it has ended; it stays away."""
        self.world.hold_down(ReplicaId(broker_id), broker_id)
        self.node(broker_id).stop()
        self.wait(lambda: not self.node(broker_id).is_up, f"{broker_id} stops")

    def start(self, broker_id: int) -> None:
        """Let a process begin, and wait until the controller has let it in."""
        self.world.release(ReplicaId(broker_id), broker_id)
        self.wait(lambda: broker_id in self._unfenced(), f"{broker_id} is back")

    def bounce(self, broker_id: int) -> None:
        """Stop a process gracefully and let it begin again."""
        self.stop(broker_id)
        self.start(broker_id)

    # --- looking ----------------------------------------------------------------------------------------------------

    def node(self, broker_id: int) -> Node:
        """One machine."""
        return self.world.nodes[ReplicaId(broker_id)]

    @property
    def metadata(self) -> MetadataReplay:
        """The metadata of the replica that has applied most of it."""
        cores = [node.core for node in self.world.up() if node.core is not None]
        return max((core.metadata for core in cores), key=lambda metadata: metadata.applied_offset)

    @property
    def image(self) -> MetadataImage:
        """What the cluster has decided."""
        return self.metadata.image

    @property
    def controller_id(self) -> int:
        """The active controller; waits until there is one."""

        def active() -> list[int]:
            return [
                node.replica_id
                for node in self.world.up()
                if node.core is not None and node.core.controller is not None and node.core.controller.is_active
            ]

        self.wait(lambda: len(active()) == 1, "one controller is active")
        return active()[0]

    def registration(self, name: TopicPartition) -> PartitionRegistration:
        """What is decided about a partition."""
        registration = self.image.partition(name)
        assert registration is not None, name
        return registration

    def leader(self, name: TopicPartition) -> int:
        """Who leads, by the metadata, and knows it; waits until somebody does."""

        def leads() -> bool:
            leader_id = self.registration(name).leader_id
            return (
                leader_id is not None
                and name in self._partitions(leader_id)
                and self.replica(leader_id, name).is_leader
            )

        self.wait(leads, f"{name} has a leader")
        leader_id = self.registration(name).leader_id
        assert leader_id is not None, name
        return leader_id

    def replica(self, broker_id: int, name: TopicPartition) -> Partition:
        """One replica of a partition."""
        return self._partitions(broker_id)[name]

    def cache(self, broker_id: int, name: TopicPartition) -> list[tuple[int, int]]:
        """The epoch cache of one replica."""
        return [(entry.epoch, entry.start_offset) for entry in self.replica(broker_id, name).log.epochs.entries]

    def batches(self, broker_id: int, name: TopicPartition) -> tuple[RecordBatch, ...]:
        """The log of one replica, as it stands on its disk."""
        store = self.node(broker_id).stores[name]
        return parse_batches(store.read(store.log_start_offset, store.log_end_offset, 1 << 30))

    def wait_for_isr(self, name: TopicPartition, *members: int) -> None:
        """Wait until just these replicas are in sync."""
        self.wait(lambda: set(self.registration(name).isr) == set(members), f"the ISR of {name} is {members}")

    def wait_for_replicas(self, name: TopicPartition, *replicas: int) -> None:
        """Wait until a partition is on these replicas, in this order, and not on its way."""

        def settled() -> bool:
            registration = self.registration(name)
            return registration.replicas == replicas and not registration.is_reassigned

        self.wait(settled, f"{name} is on {replicas}")

    def hosts(self, name: TopicPartition) -> set[int]:
        """Who of those that are up has a log of this partition on its disk."""
        return {node.replica_id for node in self.world.up() if name in node.stores}

    def wait_for_same_logs(self, name: TopicPartition, *brokers: int) -> None:
        """Wait until these replicas have equal logs, committed to their ends."""

        def same() -> bool:
            replicas = [self.replica(broker, name) for broker in brokers]
            ends = {(replica.log.log_end_offset, replica.high_watermark) for replica in replicas}
            return len(ends) == 1 and all(replica.high_watermark == replica.log.log_end_offset for replica in replicas)

        self.wait(same, f"{brokers} agree about {name}")
        assert len({self.batches(broker, name) for broker in brokers}) == 1

    def _partitions(self, broker_id: int) -> dict[TopicPartition, Partition]:
        core = self.node(broker_id).core
        return {} if core is None or core.broker is None else dict(core.broker.partitions)

    def _unfenced(self) -> set[int]:
        up = {node.replica_id: f"{node.replica_id}.{node.incarnation}" for node in self.world.up()}
        image = self.image if up else MetadataImage()
        return {
            broker.broker_id
            for broker in image.brokers.values()
            if not broker.fenced and up.get(broker.broker_id) == broker.incarnation_id
        }
