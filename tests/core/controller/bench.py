"""A controller on a bench: requests in, answers out, with a metadata log of plain records under it.

Owns the log that the decisions go to, the clock, and the words that scenarios are written in. Checks by itself, after
every decision, that whoever replays the bytes of the log arrives at the image that the controller goes by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from replica.core import messages as m
from replica.core.config import ControllerConfig
from replica.core.controller.controller import Controller
from replica.core.metadata.encoding import metadata_batch, records_of
from replica.core.metadata.image import BrokerRegistration, MetadataImage
from replica.core.metadata.levels import NEWEST_LEVEL
from replica.core.metadata.records import LeaderRecoveryState, MetadataRecord, PartitionRegistration
from replica.core.metadata.replay import MetadataReplay
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, TopicId, TopicPartition
from tests.core.ruled import rules_now

CLUSTER = "cluster"
TOPIC = "topic"
SESSION_MS = 9000
CONFIG = ControllerConfig(broker_session_timeout_ms=SESSION_MS, min_insync_replicas=2)
WITHOUT_ELR = replace(CONFIG, elr_enable=False)

R = TypeVar("R")


def ids(*replica_ids: int) -> tuple[ReplicaId, ...]:
    """Name replicas."""
    return tuple(ReplicaId(replica_id) for replica_id in replica_ids)


def registration(
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    leader: int | None = 1,
    *,
    elr: tuple[int, ...] = (),
    last_known_leader: int | None = None,
    leader_epoch: int = 5,
    partition_epoch: int = 9,
    recovering: bool = False,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> PartitionRegistration:
    """Write down a partition; all its replicas are in sync unless something else is said."""
    return PartitionRegistration(
        replicas=ids(*replicas),
        isr=ids(*(replicas if isr is None else isr)),
        elr=ids(*elr),
        last_known_leader=None if last_known_leader is None else ReplicaId(last_known_leader),
        leader_id=None if leader is None else ReplicaId(leader),
        leader_epoch=Epoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        leader_recovery_state=LeaderRecoveryState.RECOVERING if recovering else LeaderRecoveryState.RECOVERED,
        adding_replicas=ids(*adding),
        removing_replicas=ids(*removing),
    )


class Bench:
    """One active controller, its log and its clock. ``records`` are those of the last decision.

    The cluster is at the newest feature level, unless another is given.
    """

    def __init__(
        self, config: ControllerConfig = CONFIG, rules: Rules | None = None, *, level: int = NEWEST_LEVEL
    ) -> None:
        self.config = config
        self.newest_levels: dict[ReplicaId, int] = {}
        """The newest feature level that each replica has said it knows."""
        self.controller = self._new_controller(rules or rules_now())
        self.now_ms = 1000
        self.next_offset = Offset(1)
        self.committed = MetadataImage(level=level)
        self.records: tuple[MetadataRecord, ...] = ()
        self.controller.activate(self.committed, self.now_ms)

    # --- what is decided --------------------------------------------------------------------------------------------

    def ask(self, request: m.ControllerRequest, answer: type[R]) -> R:
        """Have a request decided, write the decision down, and return the answer."""
        decision = self.controller.handle(request, self.now_ms, self.next_offset)
        self._write(decision.records)
        assert isinstance(decision.response, answer), decision.response
        return decision.response

    def tick(self) -> None:
        """Have decided what is due."""
        self._write(self.controller.tick(self.now_ms))

    def pass_ms(self, elapsed_ms: int) -> None:
        """Let time pass, and only that."""
        self.now_ms += elapsed_ms
        self.tick()

    def restart(self, config: ControllerConfig | None = None) -> None:
        """Make another controller the active one, perhaps with another configuration."""
        self.controller.deactivate()
        self.config = config or self.config
        self.controller = self._new_controller(rules_now())
        self.controller.activate(self.committed, self.now_ms)

    def _new_controller(self, rules: Rules) -> Controller:
        return Controller(
            cluster_id=CLUSTER,
            config=self.config,
            rules=rules,
            levels_known=lambda brokers: dict.fromkeys(brokers) | self.newest_levels,
        )

    def restart_from_snapshot(self) -> None:
        """Make another controller the active one, on a replica that has begun with a snapshot of all there is."""
        replay = MetadataReplay(read_max_bytes=1, rules=rules_now())
        replay.image, replay.applied_offset, replay.applied_epoch = self.committed, self.next_offset, Epoch(1)
        restored = MetadataReplay(read_max_bytes=1)
        restored.restore(replay.view().encoded())
        self.committed = restored.image
        self.restart()

    def _write(self, records: tuple[MetadataRecord, ...]) -> None:
        self.records = records
        if records:
            batch = metadata_batch(records, self.next_offset, Epoch(1))
            self.committed = self.committed.apply_all(records_of(batch))
            self.next_offset = batch.end_offset
        assert self.committed == self.controller.image, (self.committed, self.controller.image)

    # --- what stands ------------------------------------------------------------------------------------------------

    def broker(self, broker_id: int) -> BrokerRegistration:
        """A broker as it is registered."""
        return self.committed.brokers[ReplicaId(broker_id)]

    def epoch_of(self, broker_id: int) -> BrokerEpoch:
        """The broker epoch of the present incarnation."""
        return self.broker(broker_id).broker_epoch

    def _epoch_known_of(self, broker_id: int) -> BrokerEpoch | None:
        registered = self.committed.brokers.get(ReplicaId(broker_id))
        return None if registered is None else registered.broker_epoch

    def incarnation_of(self, broker_id: int) -> str:
        """What the present incarnation has registered with; of a broker that has not, something."""
        registered = self.committed.brokers.get(ReplicaId(broker_id))
        return "nobody" if registered is None else registered.incarnation_id

    def partition(self, number: int = 0, topic: str = TOPIC) -> PartitionRegistration:
        """A partition as it is registered."""
        found = self.committed.partition(TopicPartition(topic, number))
        assert found is not None, (topic, number)
        return found

    def topic_id(self, topic: str = TOPIC) -> TopicId:
        """The id of a topic."""
        found = self.committed.topic_id(topic)
        assert found is not None, topic
        return found

    def shape(self, number: int = 0) -> tuple[int | None, tuple[int, ...], tuple[int, ...]]:
        """Leader, ISR and ELR of a partition."""
        found = self.partition(number)
        return found.leader_id, found.isr, found.elr

    # --- words ------------------------------------------------------------------------------------------------------

    def register(
        self,
        broker_id: int,
        incarnation: str = "first",
        *,
        previous_broker_epoch: int | None = None,
        disk: str = "first",
        flushes: bool = False,
        metadata_end_offset: int | None = None,
        replaces: int | None = None,
    ) -> m.BrokerRegistrationResponse:
        """Have a broker process introduce itself, which knows what it replaces unless something else is said.

        Its disk has the whole metadata log unless something else is said.
        """
        request = m.BrokerRegistrationRequest(
            broker_id=ReplicaId(broker_id),
            cluster_id=CLUSTER,
            incarnation_id=f"{broker_id}-{incarnation}",
            directory_id=f"{broker_id}-{disk}",
            flushes=flushes,
            metadata_end_offset=self.next_offset if metadata_end_offset is None else Offset(metadata_end_offset),
            address=f"broker-{broker_id}:9092",
            previous_broker_epoch=None if previous_broker_epoch is None else BrokerEpoch(previous_broker_epoch),
            replaces=self._epoch_known_of(broker_id) if replaces is None else BrokerEpoch(replaces),
        )
        return self.ask(request, m.BrokerRegistrationResponse)

    def heartbeat(
        self,
        broker_id: int,
        *,
        want_shut_down: bool = False,
        metadata_offset: int | None = None,
        offline: tuple[m.OfflineReplica, ...] = (),
    ) -> m.BrokerHeartbeatResponse:
        """Have a broker say that it lives, and that it has applied all of the log unless something else is said."""
        request = m.BrokerHeartbeatRequest(
            broker_id=ReplicaId(broker_id),
            broker_epoch=self.epoch_of(broker_id),
            incarnation_id=self.incarnation_of(broker_id),
            cluster_id=CLUSTER,
            metadata_offset=self.next_offset if metadata_offset is None else Offset(metadata_offset),
            want_shut_down=want_shut_down,
            offline=offline,
        )
        return self.ask(request, m.BrokerHeartbeatResponse)

    def report_damage(self, broker_id: int, *, leader_epoch: int | None = None, topic_id: int | None = None) -> None:
        """Have a broker say that its log of the first partition is damaged, in the present leader epoch."""
        epoch = self.partition().leader_epoch if leader_epoch is None else Epoch(leader_epoch)
        known = self.topic_id() if topic_id is None else TopicId(topic_id)
        offline = m.OfflineReplica(topic_id=known, partition=0, leader_epoch=epoch)
        assert self.heartbeat(broker_id, offline=(offline,)).error is ErrorCode.NONE

    def start(self, *broker_ids: int, flushes: bool = False) -> None:
        """Register brokers and let them in."""
        for broker_id in broker_ids:
            assert self.register(broker_id, flushes=flushes).error is ErrorCode.NONE
            assert not self.heartbeat(broker_id).is_fenced

    def come_back(self, broker_id: int, *, clean: bool = True, disk: str = "first", is_damaged: bool = False) -> None:
        """Start a new process of a fenced broker, and let it in; its log of the first partition may be damaged."""
        previous = self.epoch_of(broker_id) if clean else None
        answer = self.register(
            broker_id,
            f"at-{self.next_offset}",
            previous_broker_epoch=previous,
            disk=disk,
            flushes=self.broker(broker_id).flushes,
        )
        assert answer.error is ErrorCode.NONE, answer
        if is_damaged:
            self.report_damage(broker_id)
        else:
            self.heartbeat(broker_id)

    def silence(self, *broker_ids: int) -> None:
        """Let the sessions of brokers run out, in this order, while all others are heard."""
        for broker_id in broker_ids:
            for _ in range(2):
                self.now_ms += SESSION_MS // 2
                for other in self.committed.brokers:
                    if other != broker_id and not self.broker(other).fenced:
                        self.heartbeat(other)
            self.tick()
            assert self.broker(broker_id).fenced

    def create(self, *assignment: tuple[int, ...], configs: Mapping[str, str] | None = None) -> m.CreateTopicResponse:
        """Create a topic with this assignment."""
        request = m.CreateTopicRequest(
            name=TOPIC, assignment=tuple(ids(*replicas) for replicas in assignment), configs=configs or {}
        )
        response = self.ask(request, m.CreateTopicResponse)
        assert response.error is ErrorCode.NONE, response
        return response

    def alter_topic(self, setting: str, value: str | None) -> m.AlterTopicResponse:
        """Change one setting."""
        return self.ask(m.AlterTopicRequest(name=TOPIC, configs={setting: value}), m.AlterTopicResponse)

    def proposal(self, *isr: int, number: int = 0) -> m.AlterPartition:
        """What the present leader would propose as ISR of a partition, in the present epochs."""
        found = self.partition(number)
        return m.AlterPartition(
            topic_id=self.topic_id(),
            partition=number,
            leader_epoch=found.leader_epoch,
            partition_epoch=found.partition_epoch,
            new_isr=tuple(
                m.IsrMember(broker_id=replica, broker_epoch=self.committed.brokers[replica].broker_epoch)
                if replica in self.committed.brokers
                else m.IsrMember(broker_id=replica)
                for replica in ids(*isr)
            ),
        )

    def propose(self, proposal: m.AlterPartition, *, sender: int | None = None) -> m.AlteredPartition:
        """Have the leader (or somebody else) send a proposal."""
        leader_id = self.partition(proposal.partition).leader_id if sender is None else ReplicaId(sender)
        assert leader_id is not None, self.partition(proposal.partition)
        request = m.AlterPartitionRequest(
            broker_id=leader_id,
            broker_epoch=self.epoch_of(leader_id),
            incarnation_id=self.incarnation_of(leader_id),
            cluster_id=CLUSTER,
            partitions=(proposal,),
        )
        response = self.ask(request, m.AlterPartitionResponse)
        assert response.error is ErrorCode.NONE, response
        (altered,) = response.partitions
        return altered

    def alter_isr(self, *isr: int, number: int = 0) -> None:
        """Have the leader change the ISR."""
        altered = self.propose(self.proposal(*isr, number=number))
        assert altered.error is ErrorCode.NONE, altered

    def elect(self, election_type: m.ElectionType, number: int = 0, *, leader_id: int | None = None) -> ErrorCode:
        """Have an operator ask for an election."""
        request = m.ElectLeaderRequest(
            topic_partition=TopicPartition(TOPIC, number),
            election_type=election_type,
            leader_id=None if leader_id is None else ReplicaId(leader_id),
        )
        return self.ask(request, m.ElectLeaderResponse).error

    def reassign(self, number: int, *target: int) -> m.ReassignedPartition:
        """Have an operator move a partition to other replicas."""
        return self._alter_reassignment(number, ids(*target))

    def cancel(self, number: int = 0) -> m.ReassignedPartition:
        """Have an operator take the move of a partition back."""
        return self._alter_reassignment(number, None)

    def _alter_reassignment(self, number: int, target: tuple[ReplicaId, ...] | None) -> m.ReassignedPartition:
        wish = m.ReassignablePartition(topic_partition=TopicPartition(TOPIC, number), replicas=target)
        request = m.AlterPartitionReassignmentsRequest(partitions=(wish,))
        (outcome,) = self.ask(request, m.AlterPartitionReassignmentsResponse).partitions
        return outcome

    def moving(self, *topics: str) -> dict[int, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """Replicas, those that come and those that go, of each partition that is being reassigned."""
        request = m.ListPartitionReassignmentsRequest(topics=topics or None)
        return {
            ongoing.topic_partition.partition: (ongoing.replicas, ongoing.adding_replicas, ongoing.removing_replicas)
            for ongoing in self.ask(request, m.ListPartitionReassignmentsResponse).partitions
        }


def three_replicas() -> Bench:
    """Brokers 1 to 3 are in sync, of which a write needs two."""
    bench = Bench()
    bench.start(1, 2, 3)
    bench.create((1, 2, 3), configs={"min.insync.replicas": "2"})
    return bench
