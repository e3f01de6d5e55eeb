"""Leases: what keys are attached to, so that they go when their owner has gone.

Owns the leases, when each expires, and the keys of each. Knows nothing of values or revisions: what it says has ended,
its caller deletes.

Source: etcd's ``lease`` package. Time is log time here, which stands still while nobody leads; a lease that was kept
alive is an entry of the log, where etcd's leader remembers it alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from replica.deadlines import Deadlines
from replica.encoding import COUNT, POSITIVE, Fields
from replica.machines.key_value.values import LeaseId


class LeaseState(Struct, frozen=True, kw_only=True):
    """One lease as a snapshot holds it. Its keys are found by the keys."""

    lease_id: LeaseId
    ttl_ms: int
    expires_at_ms: int


LEASE = Fields(LeaseState, lease_id=POSITIVE, ttl_ms=POSITIVE, expires_at_ms=COUNT)


class LeasesView(Struct, frozen=True, kw_only=True):
    """All leases as they stood at one moment: of each what it was granted, and when it expires."""

    next_lease_id: LeaseId
    ttl_ms: Mapping[LeaseId, int]
    expires_at_ms: Mapping[int, int]

    def states(self) -> tuple[LeaseState, ...]:
        """All leases in the order of their ids."""
        return tuple(
            LeaseState(lease_id=lease_id, ttl_ms=self.ttl_ms[lease_id], expires_at_ms=self.expires_at_ms[lease_id])
            for lease_id in sorted(self.ttl_ms)
        )


class LeaseTable:
    """All leases that have not ended. ``next_lease_id`` was never given away."""

    def __init__(self) -> None:
        self.next_lease_id = LeaseId(1)
        self._ttl_ms: dict[LeaseId, int] = {}
        self._keys: dict[LeaseId, set[bytes]] = {}
        self._deadlines = Deadlines[int]()

    def __len__(self) -> int:
        return len(self._ttl_ms)

    def __contains__(self, lease_id: LeaseId) -> bool:
        return lease_id in self._ttl_ms

    def grant(self, *, ttl_ms: int, time_ms: int) -> LeaseId:
        """Make a lease."""
        lease_id = self.next_lease_id
        self.next_lease_id = LeaseId(lease_id + 1)
        self._add(LeaseState(lease_id=lease_id, ttl_ms=ttl_ms, expires_at_ms=time_ms + ttl_ms))
        return lease_id

    def keep_alive(self, lease_id: LeaseId, *, time_ms: int) -> int:
        """Let a lease live for its whole time from now on; how long that is."""
        self._deadlines.set(lease_id, time_ms + self._ttl_ms[lease_id])
        return self._ttl_ms[lease_id]

    def end(self, lease_id: LeaseId) -> list[bytes]:
        """Let a lease end. Its keys, in their order, are to be deleted."""
        self._deadlines.set(lease_id, None)
        del self._ttl_ms[lease_id]
        return sorted(self._keys.pop(lease_id))

    def expire(self, time_ms: int) -> list[LeaseId]:
        """Which leases have expired, in the order in which they did. They are still there, to be ended now."""
        return [LeaseId(lease_id) for lease_id in self._deadlines.take_due(time_ms)]

    def ttl_ms(self, lease_id: LeaseId) -> int:
        """What a lease was granted."""
        return self._ttl_ms[lease_id]

    def expires_at_ms(self, lease_id: LeaseId) -> int:
        """When a lease expires."""
        return self._deadlines.at_ms(lease_id)

    def keys(self, lease_id: LeaseId) -> tuple[bytes, ...]:
        """The keys of a lease, in their order."""
        return tuple(sorted(self._keys[lease_id]))

    def move(self, key: bytes, before: LeaseId | None, after: LeaseId | None) -> None:
        """Let a key belong to another lease, or to none. The one before may have ended."""
        if before is not None and before in self._keys:
            self._keys[before].discard(key)
        if after is not None:
            self._keys[after].add(key)

    def view(self) -> LeasesView:
        """All leases as they stand, by copies of what refers to their numbers."""
        return LeasesView(
            next_lease_id=self.next_lease_id, ttl_ms=self._ttl_ms.copy(), expires_at_ms=self._deadlines.all_ms()
        )

    def restore(self, next_lease_id: LeaseId, states: tuple[LeaseState, ...]) -> None:
        """Let these be all leases, without keys. Raises ValueError for one that was never given away."""
        self.next_lease_id = next_lease_id
        self._ttl_ms = {}
        self._keys = {}
        self._deadlines = Deadlines[int]()
        for state in states:
            if state.lease_id >= next_lease_id or state.lease_id in self:
                raise ValueError(f"lease {state.lease_id} with {next_lease_id} to come")
            self._add(state)

    def _add(self, state: LeaseState) -> None:
        self._ttl_ms[state.lease_id] = state.ttl_ms
        self._keys[state.lease_id] = set()
        self._deadlines.set(state.lease_id, state.expires_at_ms)
