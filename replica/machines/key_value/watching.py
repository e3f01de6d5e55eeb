"""Watching: what has happened to the keys of a range from a revision on, as far as one answer reaches.

Owns where an answer ends. Knows nothing of who watches: an answer says from which revision to ask again, and asking
beyond the store's revision is answered with nothing and the same revision. Whoever serves watches asks again when the
store's revision has moved.

Source: etcd's ``watchableStore``. As there, what was compacted away cannot be watched.
"""

from __future__ import annotations

from replica.machines.key_value.commands import Watch
from replica.machines.key_value.results import Compacted, Event, WatchResult
from replica.machines.key_value.store import Store
from replica.machines.key_value.values import ANSWER_BYTES_MAX, WATCH_CHANGES_MAX


def watch(store: Store, request: Watch) -> WatchResult | Compacted:
    """The events from a revision on. Revisions are told whole, so the last one may go beyond the limits."""
    if request.from_revision < store.compact_revision:
        return Compacted(compact_revision=store.compact_revision)
    limit = request.limit or WATCH_CHANGES_MAX
    events: list[Event] = []
    looked_at = size_bytes = 0
    revision = request.from_revision
    while (
        revision <= store.revision
        and len(events) < limit
        and looked_at < WATCH_CHANGES_MAX
        and size_bytes < ANSWER_BYTES_MAX
    ):
        changed = store.changes_at(revision)
        found = [store.event(key, revision) for key in changed if request.keys.contains(key)]
        size_bytes += sum(event.size_bytes for event in found)
        looked_at += len(changed)
        events += found
        revision += 1
    return WatchResult(events=tuple(events), next_revision=revision)
