"""Every version of every key that is not forgotten, in the order of keys and of revisions.

Owns versions, the store's revision, which keys changed at which revision, and compaction. Knows nothing of commands,
leases or time.

Changes are made at the next revision, all of a command's at the same one, and none of them writes a key twice; then
``commit`` makes that revision the store's. With n keys, to find, put or delete one costs O(log n). A range costs what
lies in it, keys that are deleted and not compacted away included. Compaction costs what has changed up to its revision
since the last one.

Source: etcd's ``mvcc`` (``index``, ``keyIndex``, ``kvstore_compaction``). As there, the versions of the compact
revision itself stay, a tombstone too, so that a watch from it on misses nothing.

Versions never change, and the list of a key's versions only grows: compaction puts another in its place. So a view has
the lists that there were, and what has come behind in them since is known by its revision.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct
from sortedcontainers import SortedList

from replica.machines.key_value.results import Event
from replica.machines.key_value.values import ANSWER_BYTES_MAX, KeyRange, KeyValue, LeaseId, Tombstone

FIRST_REVISION = 1
"""The revision of the empty store: the first change makes it 2, as in etcd."""

_revision_of = attrgetter("mod_revision")


class StoreView(Struct, frozen=True, kw_only=True):
    """Every version as it stood at ``revision``. The lists of ``versions`` may have grown since."""

    revision: int
    compact_revision: int
    keys: Sequence[bytes]
    """In their order."""
    versions: Mapping[bytes, list[Event]]

    def events(self) -> Iterator[Event]:
        """All versions: key by key in their order, and in the order of revisions."""
        for key in self.keys:
            for version in self.versions[key].copy():
                if version.mod_revision > self.revision:
                    break
                yield version


class Store:
    """The versions. ``compact_revision`` is the first that can be read, 0 while nothing has been forgotten."""

    def __init__(self) -> None:
        self.revision = FIRST_REVISION
        self.compact_revision = 0
        self.live_keys = 0
        self._versions: dict[bytes, list[Event]] = {}
        self._keys = SortedList()
        self._changes: list[tuple[bytes, ...]] = [()]
        self._pending: list[bytes] = []

    @property
    def next_revision(self) -> int:
        """The revision of changes that are made now."""
        return self.revision + 1

    @property
    def first_revision(self) -> int:
        """The first revision whose changes are known."""
        return max(self.compact_revision, FIRST_REVISION)

    def get(self, key: bytes, revision: int | None = None) -> KeyValue | None:
        """A key as it is, changes of the next revision included; or as it was at a revision that can be read."""
        versions = self._versions.get(key)
        return None if versions is None else _live_at(versions, revision)

    def range(
        self, keys: KeyRange, *, limit: int, revision: int | None = None, bytes_max: int = ANSWER_BYTES_MAX
    ) -> tuple[tuple[KeyValue, ...], bool]:
        """The keys of a range in their order, and whether it goes on behind them: at ``limit``, or too many bytes."""
        found: list[KeyValue] = []
        size_bytes = 0
        for current in self._walk(keys, revision):
            if len(found) == limit or size_bytes >= bytes_max:
                return tuple(found), True
            found.append(current)
            size_bytes += current.size_bytes
        return tuple(found), False

    def keys_in(self, keys: KeyRange) -> list[bytes]:
        """The keys of a range that are there now, in their order."""
        return [current.key for current in self._walk(keys, None)]

    def put(self, key: bytes, value: bytes, lease_id: LeaseId | None) -> KeyValue:
        """Let a key be, at the next revision."""
        before = self.get(key)
        self.live_keys += before is None
        current = KeyValue(
            key=key,
            value=value,
            create_revision=self.next_revision if before is None else before.create_revision,
            mod_revision=self.next_revision,
            version=1 if before is None else before.version + 1,
            lease_id=lease_id,
        )
        self._append(key, current)
        return current

    def delete(self, key: bytes) -> None:
        """Let a key that is there not be, at the next revision."""
        assert self.get(key) is not None, key
        self.live_keys -= 1
        self._append(key, Tombstone(key=key, mod_revision=self.next_revision))

    def commit(self) -> None:
        """Make the next revision the store's, if anything has changed."""
        if self._pending:
            self._changes.append(tuple(sorted(self._pending)))
            self._pending = []
            self.revision += 1

    def changes_at(self, revision: int) -> tuple[bytes, ...]:
        """The keys that changed at a revision whose changes are known, in their order."""
        assert self.first_revision <= revision <= self.revision, (revision, self.first_revision, self.revision)
        return self._changes[revision - self.first_revision]

    def event(self, key: bytes, revision: int) -> Event:
        """What a key became at a revision at which it changed."""
        versions = self._versions[key]
        found = versions[bisect_left(versions, revision, key=_revision_of)]
        assert found.mod_revision == revision, (found, revision)
        return found

    def compact(self, revision: int) -> None:
        """Forget what cannot be seen at ``revision`` or later."""
        assert self.compact_revision < revision <= self.revision, (revision, self.compact_revision, self.revision)
        assert not self._pending, self._pending
        forgotten = revision - self.first_revision
        touched = dict.fromkeys(key for keys in self._changes[: forgotten + 1] for key in keys)
        del self._changes[:forgotten]
        self.compact_revision = revision
        for key in touched:
            self._trim(key, revision)

    def view(self) -> StoreView:
        """All versions as they stand. Costs a copy of the references: of a million keys a tenth of a second."""
        assert not self._pending, self._pending
        return StoreView(
            revision=self.revision,
            compact_revision=self.compact_revision,
            keys=list(self._keys),
            versions=self._versions.copy(),
        )

    def restore(self, *, revision: int, compact_revision: int, events: Sequence[Event]) -> None:
        """Let these be all versions. Raises ValueError if they can not be."""
        first = max(compact_revision, FIRST_REVISION)
        if not first <= revision <= first + len(events):  # at each revision behind the first something has changed
            raise ValueError(f"{len(events)} versions from revision {first} to {revision}")
        _check_ordered(events, revision)
        changes: list[list[bytes]] = [[] for _ in range(first, revision + 1)]
        by_key: dict[bytes, list[Event]] = {}
        for event in events:
            by_key.setdefault(event.key, []).append(event)
            if event.mod_revision >= first:
                changes[event.mod_revision - first].append(event.key)
        self.revision = revision
        self.compact_revision = compact_revision
        self.live_keys = sum(isinstance(versions[-1], KeyValue) for versions in by_key.values())
        self._versions = by_key
        self._keys = SortedList(by_key)
        self._changes = [tuple(keys) for keys in changes]
        self._pending = []

    def live(self) -> Iterator[KeyValue]:
        """All keys that are there, in their order."""
        return self._walk(KeyRange(start=b"", end=None), None)

    def _walk(self, keys: KeyRange, revision: int | None) -> Iterator[KeyValue]:
        for key in self._keys.irange(keys.start, keys.end, inclusive=(True, False)):
            current = _live_at(self._versions[key], revision)
            if current is not None:
                yield current

    def _append(self, key: bytes, event: Event) -> None:
        versions = self._versions.get(key)
        if versions is None:
            self._versions[key] = [event]
            self._keys.add(key)
        else:
            assert versions[-1].mod_revision <= self.revision, versions[-1]
            versions.append(event)
        self._pending.append(key)

    def _trim(self, key: bytes, revision: int) -> None:
        versions = self._versions[key]
        keep = bisect_left(versions, revision, key=_revision_of)
        changed_then = keep < len(versions) and versions[keep].mod_revision == revision
        if not changed_then and keep > 0 and isinstance(versions[keep - 1], KeyValue):
            keep -= 1
        if keep == len(versions):
            del self._versions[key]
            self._keys.remove(key)
        elif keep > 0:
            self._versions[key] = versions[keep:]


def _live_at(versions: Sequence[Event], revision: int | None) -> KeyValue | None:
    """Which version could be read at a revision: absent if there was no such key."""
    position = len(versions) if revision is None else bisect_right(versions, revision, key=_revision_of)
    found = versions[position - 1] if position else None
    return found if isinstance(found, KeyValue) else None


def _check_ordered(events: Iterable[Event], revision: int) -> None:
    """Raise ValueError unless keys, and the revisions of each, ascend up to the store's."""
    before: tuple[bytes, int] | None = None
    for event in events:
        place = (event.key, event.mod_revision)
        if before is not None and place <= before:
            raise ValueError(f"the version of {event.key!r:.80} at {event.mod_revision} is out of order")
        if event.mod_revision > revision:
            raise ValueError(f"a version of {event.key!r:.80} at {event.mod_revision}, ahead of {revision}")
        before = place
