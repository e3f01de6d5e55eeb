"""One replica of a partition as a machine: a call and the time in, effects out.

Owns the table of requests and that of calls: what they do is in the modules beside it. The broker calls it with what
concerns this partition, emits its effects with those of the other partitions in the order in which they were asked for,
and carries what it wants of others: fetches of a follower, proposals of a leader. Fetches that wait are with the
broker, since one waits for many partitions; after any other call it asks ``look`` again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec.structs import replace

from replica.core import messages as m
from replica.core.config import BrokerConfig
from replica.core.earliest import earliest
from replica.core.log import inspecting
from replica.core.log.producing import expire_produces
from replica.core.log.recovered import ProducerEntry
from replica.core.partition import deleting, fetching, following, invariants, isr, producing, retention, transitions
from replica.core.partition.roles import Leader
from replica.core.partition.state import PartitionState
from replica.core.partition.watermark import maybe_advance_high_watermark
from replica.core.refusals import refusal
from replica.errors import ErrorCode
from replica.ids import CallId, Offset

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

    apply_metadata = _checked(transitions.apply_metadata)
    close = _checked(transitions.close)

    @_checked
    def configure(self, config: BrokerConfig, now_ms: int) -> None:
        """Go by other settings; what they make due sooner is due sooner."""
        self.config = config
        self.producers.expiration_ms = config.producer_id_expiration_ms
        if self.retention_check_at_ms is not None:
            check_at_ms = now_ms + config.log_retention_check_interval_ms
            self.retention_check_at_ms = min(self.retention_check_at_ms, check_at_ms)
        if isinstance(self.role, Leader):
            shrink_check_at_ms = now_ms + max(1, config.replica_lag_time_max_ms // 2)
            earlier_ms = min(self.role.shrink_check_at_ms, shrink_check_at_ms)
            self.role = replace(self.role, shrink_check_at_ms=earlier_ms)

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

    fetch = _checked(fetching.fetch)
    look = fetching.look
    consumers_view = property(fetching.consumers_view)

    # --- a leader's proposals, and a follower's requests --------------------------------------------------------------

    alter_partition_proposal = isr.alter_partition_proposal
    on_proposal_sent = _checked(isr.on_proposal_sent)

    @_checked
    def on_altered(self, proposal: m.AlterPartition, result: m.AlteredPartition | None, now_ms: int) -> None:
        """Take what became of a proposal; None where nobody knows (no answer, or the whole request was refused)."""
        if isr.on_altered(self, proposal, result, now_ms) and self.rules.high_watermark_is_checked_after_isr_change():
            maybe_advance_high_watermark(self, now_ms)

    next_request = _checked(following.next_request)
    fetch_deadline_ms = property(following.fetch_deadline_ms)
    on_fetched = _checked(following.on_fetched)
    on_leader_offset = _checked(following.on_leader_offset)
    on_ask_failed = _checked(following.on_ask_failed)

    # --- storage ------------------------------------------------------------------------------------------------------

    on_batch_found = _checked(following.on_batch_found)
    on_log_start_moved = _checked(PartitionState.maybe_raise_log_start)

    @_checked
    def on_flushed(self, end_offset: Offset, now_ms: int) -> None:
        """Note that everything below ``end_offset`` is on stable storage, which may commit records."""
        self.log.flushed(end_offset)
        maybe_advance_high_watermark(self, now_ms)

    @_checked
    def on_producers_scanned(self, entries: Iterable[ProducerEntry]) -> None:
        """Take the idempotent producers that the log was found to have after it was cut."""
        self.producers.replace_all(entries)
