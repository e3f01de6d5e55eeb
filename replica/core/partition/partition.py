"""One replica of a partition as a machine: a call and the time in, effects out.

Owns the table of requests and nothing else. The broker calls it with what concerns this partition, emits its effects
with those of the other partitions in the order in which they were asked for, and carries what it wants of others:
fetches of a follower, proposals of a leader. Fetches that wait are with the broker, since one waits for many
partitions; after any other call it asks ``look`` again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from replica.core import messages as m
from replica.core.earliest import earliest
from replica.core.log import inspecting
from replica.core.log.producing import expire_produces
from replica.core.log.recovered import ProducerEntry
from replica.core.log.serving import Read
from replica.core.metadata.configs import TopicConfig
from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.records import PartitionRegistration
from replica.core.partition import deleting, fetching, following, invariants, isr, producing, retention, transitions
from replica.core.partition.fetching import ConsumersView
from replica.core.partition.following import Asked
from replica.core.partition.roles import Leader
from replica.core.partition.state import PartitionState
from replica.core.partition.watermark import acknowledge_committed, maybe_advance_high_watermark
from replica.core.refusals import refusal
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, CallId, Offset, ReplicaId

P = ParamSpec("P")
T = TypeVar("T")


def _checked(
    method: Callable[Concatenate[Partition, P], T],
) -> Callable[Concatenate[Partition, P], T]:
    """Check all invariants after a call, in debug builds."""
    if not __debug__:
        return method

    @wraps(method)
    def call(self: Partition, /, *args: P.args, **kwargs: P.kwargs) -> T:
        before = invariants.observe(self)
        result = method(self, *args, **kwargs)
        invariants.check_state(self, before)
        invariants.check_call(before, self)
        return result

    return call


def _refuse(p: PartitionState, call_id: CallId, request: m.LogRequest, _now_ms: int) -> None:
    p.reply(call_id, refusal(request, ErrorCode.INVALID_REQUEST))


PARTITION_REQUESTS: Mapping[type[m.LogRequest], Callable[[PartitionState, CallId, Any, int], None]] = {
    m.ProduceRequest: producing.on_produce,
    m.OffsetForLeaderEpochRequest: inspecting.on_offset_for_leader_epoch,
    m.ListOffsetsRequest: inspecting.on_list_offsets,
    m.DeleteRecordsRequest: deleting.on_delete_records,
    m.DescribeReplicaRequest: inspecting.on_describe_replica,
    m.DumpLogRequest: inspecting.on_dump_log,
}
"""Who answers what; the rest only a quorum log understands."""


class Partition(PartitionState):
    """One replica of a partition. Not reentrant; between two calls it is at rest. Times are monotonic milliseconds."""

    # --- metadata and time --------------------------------------------------------------------------------------------

    @_checked
    def apply_metadata(
        self,
        registration: PartitionRegistration,
        brokers: Mapping[ReplicaId, BrokerRegistration],
        topic: TopicConfig,
        now_ms: int,
    ) -> None:
        """Act on committed metadata: whenever the registration, its brokers or the topic's settings have changed."""
        transitions.apply_metadata(self, registration, brokers, topic, now_ms)

    @_checked
    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        expire_produces(self, now_ms)
        deleting.expire_deletions(self, now_ms)
        if isinstance(self.role, Leader):
            self.role = isr.clear_retry(self.role, now_ms)
            if self.role.shrink_check_at_ms <= now_ms:
                isr.maybe_shrink_isr(self, self.role, now_ms)
        retention.maybe_apply_retention(self, now_ms)

    @property
    def deadline_ms(self) -> int | None:
        """When ``tick`` is wanted at the latest; absent while only another call can change anything.

        A follower's pause before its next request is not in it (``fetch_deadline_ms``).
        """
        role = self.role
        of_role = (role.shrink_check_at_ms, role.retry_at_ms) if isinstance(role, Leader) else ()
        return earliest(self.produces.deadline_ms, self.deletions.deadline_ms, self.retention_check_at_ms, *of_role)

    @_checked
    def close(self) -> None:
        """Answer everything that waits, with an unknown outcome: the partition is gone, or no longer kept here."""
        transitions.close(self)

    # --- requests -----------------------------------------------------------------------------------------------------

    def on_request(self, call_id: CallId, request: m.LogRequest, now_ms: int) -> None:
        """Answer a request about this partition, or park it. What only a quorum log understands is refused.

        Checked as any call is, but in place: a write passes no function that only hands on.
        """
        assert request.topic_partition == self.topic_partition, (request, self.topic_partition)
        before = invariants.observe(self)
        PARTITION_REQUESTS.get(type(request), _refuse)(self, call_id, request, now_ms)
        if __debug__:
            invariants.check_state(self, before)
            invariants.check_call(before, self)

    @_checked
    def fetch(
        self,
        part: m.FetchPartition,
        *,
        replica_id: ReplicaId | None,
        broker_epoch: BrokerEpoch | None,
        rack_id: str | None,
        now_ms: int,
    ) -> Read:
        """Take a fetch, which from a replica is also its acknowledgement, and tell what it would get now.

        ``replica_id`` and ``broker_epoch`` are absent for a consumer, ``rack_id`` for any other.
        """
        return fetching.fetch(
            self, part, replica_id=replica_id, broker_epoch=broker_epoch, rack_id=rack_id, now_ms=now_ms
        )

    def look(self, part: m.FetchPartition, *, replica_id: ReplicaId | None, rack_id: str | None) -> Read:
        """Tell what a fetch that was taken before would get now, without taking it again. Changes nothing."""
        return fetching.look(self, part, replica_id=replica_id, rack_id=rack_id)

    @property
    def consumers_view(self) -> ConsumersView:
        """All that ``look`` goes by for a consumer of no rack: while it stays the same, so does what it is told."""
        return fetching.consumers_view(self)

    # --- a leader's proposals -----------------------------------------------------------------------------------------

    def alter_partition_proposal(self, now_ms: int) -> m.AlterPartition | None:
        """Say which ISR is to be proposed to the controller now, if any. Changes nothing."""
        return isr.alter_partition_proposal(self, now_ms)

    @_checked
    def on_proposal_sent(self) -> None:
        """Note that the proposal that was due is on its way."""
        isr.on_proposal_sent(self)

    @_checked
    def on_altered(self, proposal: m.AlterPartition, result: m.AlteredPartition | None, now_ms: int) -> None:
        """Take what became of a proposal; None where nobody knows (no answer, or the whole request was refused)."""
        if isr.on_altered(self, proposal, result, now_ms) and self.rules.high_watermark_is_checked_after_isr_change():
            maybe_advance_high_watermark(self, now_ms)

    # --- a follower's requests ----------------------------------------------------------------------------------------

    @_checked
    def next_request(self, now_ms: int) -> Asked | None:
        """Say what this follower wants of its leader now, if anything."""
        return following.next_request(self, now_ms)

    @property
    def fetch_deadline_ms(self) -> int | None:
        """When a follower's pause ends, after which ``next_request`` has something to say; absent where it has none."""
        return following.fetch_deadline_ms(self)

    @_checked
    def on_fetched(self, asked: m.FetchPartition, answer: m.FetchedPartition, now_ms: int) -> None:
        """Take the leader's answer to a fetch."""
        following.on_fetched(self, asked, answer, now_ms)
        if self.produces:  # By the right rules nothing waits on a follower.
            acknowledge_committed(self)

    @_checked
    def on_leader_offset(self, asked: m.ListOffsetsRequest, answer: m.ListOffsetsResponse, now_ms: int) -> None:
        """Take the leader's answer to where its log ends or begins."""
        following.on_leader_offset(self, asked, answer, now_ms)

    @_checked
    def on_ask_failed(self, asked: Asked, now_ms: int) -> None:
        """Note that no answer came."""
        following.on_ask_failed(self, asked, now_ms)

    # --- storage ------------------------------------------------------------------------------------------------------

    @_checked
    def on_flushed(self, end_offset: Offset, now_ms: int) -> None:
        """Note that everything below ``end_offset`` is on stable storage, which may commit records."""
        self.log.flushed(end_offset)
        maybe_advance_high_watermark(self, now_ms)

    @_checked
    def on_producers_scanned(self, entries: Iterable[ProducerEntry]) -> None:
        """Take the idempotent producers that the log was found to have after it was cut."""
        self.producers.replace_all(entries)

    @_checked
    def on_batch_found(self, offset: Offset, base_offset: Offset) -> None:
        """Cut the log where the batch begins that the leader's log does not share."""
        following.on_batch_found(self, offset, base_offset)

    @_checked
    def on_log_start_moved(self, offset: Offset) -> None:
        """Forget what retention has found to be old enough."""
        self.maybe_raise_log_start(offset)
