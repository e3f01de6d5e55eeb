"""A broker whose every word is said by a scenario: registered and alive, but without a process and without a log.

Owns its registration, its heartbeats and the words in which it fetches. The cluster's promises are not judged where it
is part of them: what it acknowledges, nobody has.
"""

from __future__ import annotations

from typing import TypeVar

from nemesis.simulator.disk import CLUSTER_ID
from nemesis.simulator.queue import US_PER_MS
from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import OFFSET_MAX, BrokerEpoch, Epoch, EpochEndOffset, Offset, ReplicaId, TopicPartition
from tests.replication.bench import Cluster
from tests.replication.stage import Heard

HEARTBEAT_MS = 200

R = TypeVar("R", bound=m.PeerRequest)


class Puppet:
    """One such broker. It sends heartbeats by itself until it is told to be ``silent``."""

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.cluster = cluster
        self.broker_id = ReplicaId(broker_id)
        self.silent = False
        self.want_shut_down = False
        self.broker_epoch: BrokerEpoch | None = None
        self.register("first")
        self._keep_alive()
        self.wait_until_let_in()

    # --- its standing -----------------------------------------------------------------------------------------------

    def register(self, incarnation: str) -> None:
        """Introduce an incarnation of this broker, of which the last one has stopped cleanly."""
        request = m.BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=f"{self.broker_id}.{incarnation}",
            directory_id=f"disk-{self.broker_id}",
            flushes=True,
            metadata_end_offset=OFFSET_MAX,
            address=f"puppet-{self.broker_id}:9092",
            previous_broker_epoch=self.broker_epoch,
            replaces=self.broker_epoch,
        )
        answer = self.cluster.ask(self.cluster.controller_id, request, m.BrokerRegistrationResponse)
        assert answer.error is ErrorCode.NONE, answer
        assert answer.broker_epoch is not None, answer
        self.broker_epoch = answer.broker_epoch
        self._incarnation_id = request.incarnation_id

    def wait_until_let_in(self) -> None:
        """Wait until the controller counts this broker as alive."""
        self.cluster.wait(lambda: self._is_fenced() is False, f"{self.broker_id} is let in")

    def fall_silent(self) -> None:
        """Send no heartbeats any more, and wait until the controller has noticed."""
        self.silent = True
        self.cluster.wait(lambda: self._is_fenced() is True, f"{self.broker_id} is fenced")

    def shut_down(self) -> None:
        """Say with every heartbeat that this broker wants to leave."""
        self.want_shut_down = True

    def come_back(self, incarnation: str) -> None:
        """Begin again, as another process."""
        self.silent = False
        self.register(incarnation)
        self.wait_until_let_in()

    def _is_fenced(self) -> bool | None:
        registered = self.cluster.image.brokers.get(self.broker_id)
        return None if registered is None else registered.fenced

    def _keep_alive(self) -> None:
        world = self.cluster.world
        if not self.silent and self.broker_epoch is not None:
            request = m.BrokerHeartbeatRequest(
                broker_id=self.broker_id,
                broker_epoch=self.broker_epoch,
                incarnation_id=self._incarnation_id,
                cluster_id=CLUSTER_ID,
                metadata_offset=self.cluster.metadata.applied_offset,
                want_shut_down=self.want_shut_down,
            )
            world.ask(ReplicaId(self.cluster.controller_id), request, lambda _: None)
        world.queue.after(HEARTBEAT_MS * US_PER_MS, self._keep_alive)

    # --- as a follower ----------------------------------------------------------------------------------------------

    def fetch(
        self,
        name: TopicPartition,
        offset: int,
        *,
        epoch: int | None = None,
        last: int | None = 0,
        broker_epoch: int | None = None,
        at: int | None = None,
    ) -> m.FetchedPartition:
        """Fetch, in the leader's epoch and as the registered incarnation unless something else is said."""
        registered = self.cluster.registration(name).leader_epoch
        part = m.FetchPartition(
            topic_partition=name,
            fetch_offset=Offset(offset),
            current_leader_epoch=registered if epoch is None else Epoch(epoch),
            last_fetched_epoch=None if last is None else Epoch(last),
            log_start_offset=Offset(0),
        )
        request = m.FetchRequest(
            partitions=(part,),
            cluster_id=CLUSTER_ID,
            replica_id=self.broker_id,
            replica_directory_id=self.cluster.image.brokers[self.broker_id].directory_id,
            broker_epoch=self.broker_epoch if broker_epoch is None else BrokerEpoch(broker_epoch),
        )
        answer = self.cluster.ask(self.cluster.leader(name) if at is None else at, request, m.FetchResponse)
        assert answer.error is ErrorCode.NONE, answer
        return answer.partitions[0]

    # --- as a leader ------------------------------------------------------------------------------------------------

    def proposal(self, name: TopicPartition, *isr: int) -> m.AlterPartition:
        """The proposal of this ISR, in the epochs and with the incarnations that are committed."""
        registered, topic_id = self.cluster.registration(name), self.cluster.image.topic_id(name.topic)
        assert topic_id is not None, name
        brokers = self.cluster.image.brokers
        return m.AlterPartition(
            topic_id=topic_id,
            partition=name.partition,
            leader_epoch=registered.leader_epoch,
            partition_epoch=registered.partition_epoch,
            new_isr=tuple(
                m.IsrMember(broker_id=member, broker_epoch=brokers[member].broker_epoch if member in brokers else None)
                for member in map(ReplicaId, isr)
            ),
        )

    def propose(self, proposal: m.AlterPartition) -> m.AlteredPartition:
        """Ask the controller for an ISR; what becomes of this proposal."""
        answer = self.propose_all(proposal)
        assert answer.error is ErrorCode.NONE, answer
        return answer.partitions[0]

    def propose_all(
        self, *proposals: m.AlterPartition, broker_epoch: BrokerEpoch | None = None
    ) -> m.AlterPartitionResponse:
        """Ask the controller for ISRs, as this incarnation unless something else is said."""
        acting_as = self.broker_epoch if broker_epoch is None else broker_epoch
        assert acting_as is not None, self.broker_id
        request = m.AlterPartitionRequest(
            broker_id=self.broker_id,
            broker_epoch=acting_as,
            incarnation_id=self._incarnation_id,
            cluster_id=CLUSTER_ID,
            partitions=proposals,
        )
        answer = self.cluster.ask(self.cluster.controller_id, request, m.AlterPartitionResponse)
        self.cluster.pass_ms(50)
        return answer

    def hear(self, kind: type[R]) -> tuple[R, Heard]:
        """Take the oldest request that waits here, which must be of this kind, or wait for one."""
        heard = self.cluster.world.heard[self.broker_id]
        self.cluster.wait(lambda: bool(heard), f"{self.broker_id} is asked")
        oldest = heard.popleft()
        assert isinstance(oldest.request, kind), oldest.request
        return oldest.request, oldest

    def hear_fetch(self) -> tuple[m.FetchPartition, Heard]:
        """Take the oldest request, which must be a fetch of one partition."""
        request, heard = self.hear(m.FetchRequest)
        (part,) = request.partitions
        return part, heard


def fetched(
    name: TopicPartition,
    *,
    error: ErrorCode = ErrorCode.NONE,
    records: bytes = b"",
    high_watermark: int = 0,
    diverging: tuple[int, int] | None = None,
) -> m.FetchResponse:
    """Answer a fetch of one partition."""
    answer = m.FetchedPartition(
        topic_partition=name,
        error=error,
        high_watermark=Offset(high_watermark),
        log_start_offset=Offset(0),
        diverging_epoch=None if diverging is None else EpochEndOffset(Epoch(diverging[0]), Offset(diverging[1])),
        records=records,
    )
    return m.FetchResponse(partitions=(answer,))
