"""The whole state of the key-value store: keys, leases and time, which change together.

Owns that a key and its lease never disagree, and what a snapshot holds. Knows nothing of commands.
"""

from __future__ import annotations

from msgspec import Struct

from replica.encoding import COUNT, POSITIVE, Fields, Format, Row
from replica.machines.key_value.encoding import EVENT
from replica.machines.key_value.leases import LEASE, LeaseState, LeasesView, LeaseTable
from replica.machines.key_value.results import Event
from replica.machines.key_value.store import Store, StoreView
from replica.machines.key_value.values import KeyRange, KeyValue, LeaseId
from replica.machines.machine import CorruptSnapshotError


class _Snapshot(Struct, frozen=True, kw_only=True):
    """Which keys a lease has, and which changed at a revision, follows from the versions."""

    time_ms: int
    revision: int
    compact_revision: int
    next_lease_id: LeaseId
    leases: tuple[LeaseState, ...]
    events: tuple[Event, ...]


_FORMAT = Format(
    Fields(
        _Snapshot,
        time_ms=COUNT,
        revision=POSITIVE,
        compact_revision=COUNT,
        next_lease_id=POSITIVE,
        leases=Row(LEASE),
        events=Row(EVENT),
    )
)


class KeyValueView(Struct, frozen=True, kw_only=True):
    """The whole state as it stood at one moment."""

    time_ms: int
    store: StoreView
    leases: LeasesView

    def encode(self) -> bytes:
        """Write all down. With n versions it takes O(n) time and memory: microseconds and a hundred bytes for each."""
        return _FORMAT.encode(
            _Snapshot(
                time_ms=self.time_ms,
                revision=self.store.revision,
                compact_revision=self.store.compact_revision,
                next_lease_id=self.leases.next_lease_id,
                leases=self.leases.states(),
                events=tuple(self.store.events()),
            )
        )


class KeyValueState:
    """Keys in ``store``, ``leases``, and log time."""

    def __init__(self) -> None:
        self.store = Store()
        self.leases = LeaseTable()
        self.time_ms = 0

    def put(self, key: bytes, value: bytes, lease_id: LeaseId | None) -> KeyValue:
        """Put a key, attached to a lease that is there, or to none."""
        before = self.store.get(key)
        self.leases.move(key, None if before is None else before.lease_id, lease_id)
        return self.store.put(key, value, lease_id)

    def delete(self, keys: KeyRange) -> int:
        """Delete what is in a range; how many keys that were."""
        doomed = self.store.keys_in(keys)
        for key in doomed:
            self._delete_key(key)
        return len(doomed)

    def end_lease(self, lease_id: LeaseId) -> int:
        """End a lease and delete its keys; how many those were."""
        doomed = self.leases.end(lease_id)
        for key in doomed:
            self._delete_key(key)
        return len(doomed)

    def advance(self, time_ms: int) -> None:
        """Let it be ``time_ms``: the leases that have expired end, each with a revision of its own."""
        assert time_ms >= self.time_ms, (time_ms, self.time_ms)
        self.time_ms = time_ms
        for lease_id in self.leases.expire(time_ms):
            self.end_lease(lease_id)
            self.store.commit()

    def view(self) -> KeyValueView:
        """All as it stands."""
        return KeyValueView(time_ms=self.time_ms, store=self.store.view(), leases=self.leases.view())

    def restore(self, data: bytes) -> None:
        """Let this be all. Raises CorruptSnapshotError."""
        try:
            snapshot = _FORMAT.decode(data)
            self.time_ms = snapshot.time_ms
            self.store.restore(
                revision=snapshot.revision, compact_revision=snapshot.compact_revision, events=snapshot.events
            )
            self.leases.restore(snapshot.next_lease_id, snapshot.leases)
            self._attach_all()
        except ValueError as error:  # malformed, or what cannot be
            raise CorruptSnapshotError(str(error)) from error

    def _attach_all(self) -> None:
        for current in self.store.live():
            if current.lease_id is not None:
                if current.lease_id not in self.leases:
                    raise ValueError(f"{current.key!r:.80} has lease {current.lease_id}, which is not there")
                self.leases.move(current.key, None, current.lease_id)

    def _delete_key(self, key: bytes) -> None:
        before = self.store.get(key)
        assert before is not None, key
        self.leases.move(key, before.lease_id, None)
        self.store.delete(key)
