"""The life of a broker: it registers, is unfenced, sends heartbeats, leaves by its wish or by silence, is forgotten.

A registration is one incarnation. Accepting a new one takes everything from the old one in the same batch: nobody leads
in a leader epoch that was granted to an earlier incarnation. Otherwise a leader that has lost the tail of its log would
resume in its epoch, and its followers would truncate what was acknowledged. One with another disk holds nothing.

Source: KIP-631 (registration, fencing), KIP-858 (directory ids), KIP-966 (unclean stops); Kafka
``ClusterControlManager``, ``BrokerHeartbeatManager``, ``ReplicationControlManager.processBrokerHeartbeat``.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from replica.bounds import PARTITIONS_MAX
from replica.core.controller.elections import Lost, elect_with, give_up_damaged, remove_broker
from replica.core.controller.state import ControllerState
from replica.core.messages import (
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from replica.core.metadata.image import BrokerRegistration
from replica.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    ResourceConfigRecord,
    UnregisterBrokerRecord,
)
from replica.core.metadata.resources import broker_resource
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, ReplicaId


def on_registration(c: ControllerState, request: BrokerRegistrationRequest, now_ms: int) -> BrokerRegistrationResponse:
    """Give an incarnation its broker epoch; one that asks again gets the same."""
    registered = c.image.brokers.get(request.broker_id)
    if registered is not None and registered.incarnation_id == request.incarnation_id:
        c.refresh_session(request.broker_id, now_ms)
        return BrokerRegistrationResponse(error=ErrorCode.NONE, broker_epoch=registered.broker_epoch)
    error = _registration_error(c, registered, now_ms)
    if error is not None:
        return BrokerRegistrationResponse(error=error)
    if c.rules.registration_is_late(registered=registered, replaces=request.replaces):
        there = None if registered is None else registered.broker_epoch
        return BrokerRegistrationResponse(error=ErrorCode.STALE_BROKER_EPOCH, broker_epoch=there)
    broker_epoch = BrokerEpoch(c.next_offset)
    c.append(
        RegisterBrokerRecord(
            broker_id=request.broker_id,
            broker_epoch=broker_epoch,
            incarnation_id=request.incarnation_id,
            directory_id=request.directory_id,
            flushes=request.flushes,
            address=request.address,
            peer_address=request.peer_address,
            rack=request.rack,
            last_active_epoch=_last_active_epoch(registered, request),
        )
    )
    c.note_offline(request.broker_id, ())
    if registered is not None:
        remove_broker(c, request.broker_id, lost=_lost(c, registered, request))
    c.refresh_session(request.broker_id, now_ms)
    return BrokerRegistrationResponse(error=ErrorCode.NONE, broker_epoch=broker_epoch)


def _last_active_epoch(registered: BrokerRegistration | None, request: BrokerRegistrationRequest) -> BrokerEpoch | None:
    """Who was let in last on the disk that registers now: of another disk nothing is known."""
    is_known = registered is not None and registered.directory_id == request.directory_id
    return registered.last_active_epoch if registered is not None and is_known else None


def _lost(c: ControllerState, registered: BrokerRegistration, request: BrokerRegistrationRequest) -> Lost:
    """What a broker that is back may have lost of what its last incarnation has acknowledged."""
    if c.rules.has_another_disk(
        registered=registered, directory_id=request.directory_id, metadata_end_offset=request.metadata_end_offset
    ):
        return Lost.EVERYTHING
    kept = c.rules.holds_what_it_acknowledged(
        registered=registered, previous_broker_epoch=request.previous_broker_epoch
    )
    return Lost.NOTHING if kept else Lost.TAIL


def _registration_error(c: ControllerState, registered: BrokerRegistration | None, now_ms: int) -> ErrorCode | None:
    if registered is None:
        return ErrorCode.INVALID_REQUEST if len(c.image.brokers) >= c.config.brokers_max else None
    taken = c.rules.broker_id_is_taken(
        session_is_valid=c.has_session(registered.broker_id, now_ms),
        in_controlled_shutdown=registered.in_controlled_shutdown,
    )
    return ErrorCode.DUPLICATE_BROKER_REGISTRATION if taken else None


def on_heartbeat(c: ControllerState, request: BrokerHeartbeatRequest, now_ms: int) -> BrokerHeartbeatResponse:
    """Note that a broker is alive, and let it in or out when its time has come.

    One that is to be let out, and does not want that itself, is let in again: somebody has spoken in its name. So is
    one whose heartbeat comes late, after those that want it out; its next one says so again, or there is none, and it
    is fenced when its session ends, as any that stops.
    """
    registered = c.image.brokers.get(request.broker_id)
    if registered is None:
        return BrokerHeartbeatResponse(error=ErrorCode.BROKER_ID_NOT_REGISTERED)
    if not is_incarnation(registered, request):
        return BrokerHeartbeatResponse(error=ErrorCode.STALE_BROKER_EPOCH)
    c.refresh_session(request.broker_id, now_ms)
    if request.unix_ms is not None:
        c.clock_offsets_ms[request.broker_id] = request.unix_ms - now_ms
    c.note_offline(request.broker_id, request.offline)
    comes_back = registered.fenced or registered.in_controlled_shutdown
    if request.want_shut_down and not registered.in_controlled_shutdown:
        _change(c, registered, fenced=registered.fenced, in_controlled_shutdown=True)
        remove_broker(c, request.broker_id)
    elif comes_back and not request.want_shut_down and _has_caught_up(c, request):
        _change(c, registered, fenced=False, in_controlled_shutdown=False)
        elect_with(c, request.broker_id)
    give_up_damaged(c, request.broker_id, request.offline)
    now = c.image.brokers[request.broker_id]
    return BrokerHeartbeatResponse(
        error=ErrorCode.NONE,
        is_fenced=now.fenced,
        should_shut_down=now.in_controlled_shutdown and not _leads(c, request.broker_id),
        unix_ms=c.unix_ms(now_ms),
    )


def is_incarnation(registered: BrokerRegistration, request: BrokerHeartbeatRequest | AlterPartitionRequest) -> bool:
    """Tell whether a request comes from the very process that has registered."""
    named = (request.broker_epoch, request.incarnation_id)
    return named == (registered.broker_epoch, registered.incarnation_id)


def _has_caught_up(c: ControllerState, request: BrokerHeartbeatRequest) -> bool:
    return c.rules.may_unfence(metadata_offset=request.metadata_offset, broker_epoch=request.broker_epoch)


def _leads(c: ControllerState, broker_id: ReplicaId) -> bool:
    return any(registration.leader_id == broker_id for _, registration in c.image.partitions())


def _change(c: ControllerState, registered: BrokerRegistration, *, fenced: bool, in_controlled_shutdown: bool) -> None:
    c.append(
        BrokerRegistrationChangeRecord(
            broker_id=registered.broker_id,
            broker_epoch=registered.broker_epoch,
            fenced=fenced,
            in_controlled_shutdown=in_controlled_shutdown,
        )
    )


def on_unregister_broker(c: ControllerState, request: UnregisterBrokerRequest, now_ms: int) -> UnregisterBrokerResponse:
    """Forget a broker that is gone for good, and its settings. One that comes back all the same registers as a new one.

    Not while it is a replica of anything, where Kafka takes it out of the ISR and leaves it in the assignment: whether
    another replica has all that was acknowledged is decided by moving the partition, or by an unclean election. So
    whoever is named in an assignment is registered.
    """
    registered = c.image.brokers.get(request.broker_id)
    if registered is None:
        return UnregisterBrokerResponse(
            error=ErrorCode.BROKER_ID_NOT_REGISTERED, message=f"broker {request.broker_id} is not registered"
        )
    fault = _still_needed(c, registered, now_ms)
    if fault is not None:
        return UnregisterBrokerResponse(error=ErrorCode.INVALID_REQUEST, message=fault)
    c.session_deadlines_ms.pop(request.broker_id, None)
    c.note_offline(request.broker_id, ())
    resource = broker_resource(registered.broker_id)
    told = c.image.configs.get(resource, {})
    c.append(
        UnregisterBrokerRecord(broker_id=registered.broker_id, broker_epoch=registered.broker_epoch),
        *(ResourceConfigRecord(resource=resource, name=name, value=None) for name in told),
    )
    return UnregisterBrokerResponse(error=ErrorCode.NONE)


def _still_needed(c: ControllerState, registered: BrokerRegistration, now_ms: int) -> str | None:
    """Say why a broker cannot be forgotten; nothing if it can."""
    broker_id = registered.broker_id
    if not registered.fenced or c.has_session(broker_id, now_ms):
        return f"broker {broker_id} is alive; stop it first"
    held = [name for name, registration in c.image.partitions() if broker_id in registration.replicas]
    if not held:
        return None
    return (
        f"broker {broker_id} is a replica of {len(held)} partitions ({held[0]} is one); move them to others, or delete "
        "them, first"
    )


def fence_silent_brokers(c: ControllerState, now_ms: int) -> None:
    """Fence every broker whose session is over, then take them out, the one that fell silent first at first.

    So the last member of an ISR, where it stays in, is the one that was heard from last. All are fenced before the
    first leadership moves: otherwise it could move to one that is fenced a moment later in the same decision. Those for
    whom a decision is too small are left to the next one.
    """
    silent = _first_of(
        c,
        [
            broker_id
            for deadline_ms, broker_id in sorted(
                (at_ms, broker_id) for broker_id, at_ms in c.session_deadlines_ms.items()
            )
            if deadline_ms <= now_ms
        ],
    )
    for broker_id in silent:
        del c.session_deadlines_ms[broker_id]
    fenced = [broker_id for broker_id in silent if not c.image.brokers[broker_id].fenced]
    for broker_id in fenced:
        registered = c.image.brokers[broker_id]
        _change(c, registered, fenced=True, in_controlled_shutdown=registered.in_controlled_shutdown)
    for broker_id in fenced:
        remove_broker(c, broker_id)


def end_refused_session(c: ControllerState, broker_id: ReplicaId, refused_at_ms: int, now_ms: int) -> None:
    """End the session of a broker whose process has ended, unless it, or its next one, was heard from since."""
    deadline_ms = c.session_deadlines_ms.get(broker_id)
    if deadline_ms is None:
        return
    heard_ms = deadline_ms - c.config.broker_session_timeout_ms
    if c.rules.refusal_ends_session(refused_at_ms=refused_at_ms, heard_ms=heard_ms):
        c.session_deadlines_ms[broker_id] = min(deadline_ms, now_ms)


def _first_of(c: ControllerState, silent: list[ReplicaId]) -> list[ReplicaId]:
    """As many as one decision can carry, a record for each of their partitions; one at least, which has no more."""
    if len(silent) <= 1:
        return silent
    changes = Counter(
        member
        for _, registration in c.image.partitions()
        for member in {*registration.isr, *registration.elr, registration.leader_id}
    )
    totals = accumulate(changes[broker_id] for broker_id in silent)
    return [
        broker_id
        for number, (broker_id, total) in enumerate(zip(silent, totals, strict=True))
        if number == 0 or total <= PARTITIONS_MAX
    ]
