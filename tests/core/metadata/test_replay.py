"""The committed log applied to the image: what was asked for before a snapshot came, and what a snapshot is of."""

from __future__ import annotations

import pytest

from replica.core.events import LogRead
from replica.core.metadata.encoding import CorruptMetadataRecordError, metadata_batch
from replica.core.metadata.records import FeatureLevelRecord, ProducerIdsRecord
from replica.core.metadata.replay import METADATA_LOG, MetadataReplay
from replica.ids import Epoch, Offset, SnapshotId
from replica.machines import CorruptSnapshotError, ForeignSnapshotError, Snapshot
from replica.records import RecordBatch


def batch(number: int, epoch: int = 1) -> RecordBatch:
    """The batch at an offset: so many producer ids are given away by then."""
    return metadata_batch([ProducerIdsRecord(next_producer_id=number + 1)], Offset(number), Epoch(epoch))


def read(*numbers: int, epoch: int = 1) -> LogRead:
    records = b"".join(batch(number, epoch).data for number in numbers)
    return LogRead(topic_partition=METADATA_LOG, start_offset=Offset(numbers[0]), records=records)


def replayed(*numbers: int) -> MetadataReplay:
    replay = MetadataReplay(read_max_bytes=1000)
    replay.next_read(Offset(len(numbers)))
    replay.on_read(read(*numbers))
    return replay


def test_a_snapshot_is_of_all_that_was_applied() -> None:
    """It has the name of the last record: where that ends, and its epoch."""
    replay = replayed(0, 1)
    replay.next_read(Offset(3))
    assert replay.on_read(read(2, epoch=4)) == batch(2, 4).size_bytes
    snapshot = replay.view().encoded()
    assert snapshot.id == SnapshotId(Offset(3), Epoch(4))
    restored = MetadataReplay(read_max_bytes=1000)
    restored.restore(snapshot)
    assert (restored.image, restored.applied_offset, restored.applied_epoch) == (replay.image, 3, 4)
    assert restored.view().encoded() == snapshot


def test_what_is_applied_later_does_not_show_in_a_view() -> None:
    """It is of the image as it was, under the name of then, whenever it is encoded."""
    replay, expected = replayed(0, 1), replayed(0, 1).view().encoded()
    view = replay.view()
    replay.next_read(Offset(4))
    replay.on_read(read(2, 3))
    assert view.encoded() == expected != replay.view().encoded()


def test_what_was_asked_for_before_a_snapshot_came_is_in_it() -> None:
    """A read that is out when a snapshot is restored brings nothing, and the next one is asked for from its end."""
    behind, snapshot = replayed(0), replayed(0, 1, 2).view().encoded()
    assert behind.next_read(Offset(2)) is not None
    behind.restore(snapshot)
    asked = behind.next_read(Offset(4))
    assert asked is not None
    assert asked.range.start_offset == 3
    assert behind.on_read(read(1)) == 0
    assert (behind.applied_offset, behind.image.next_producer_id) == (3, 3)
    assert behind.on_read(read(3)) > 0
    assert (behind.applied_offset, behind.image.next_producer_id) == (4, 4)


def test_a_snapshot_that_cannot_be_restored_changes_nothing() -> None:
    """It is restored whole or not at all."""
    replay, ahead = replayed(0), replayed(0, 1).view().encoded()
    before = (replay.image, replay.applied_offset, replay.applied_epoch)
    with pytest.raises(CorruptSnapshotError):
        replay.restore(Snapshot(id=ahead.id, data=ahead.data[:-1]))
    assert (replay.image, replay.applied_offset, replay.applied_epoch) == before
    assert replay.failure is None


def test_a_snapshot_that_is_behind_is_our_own_mistake() -> None:
    """Nothing that was applied is ever taken back."""
    with pytest.raises(AssertionError):
        replayed(0, 1).restore(replayed(0).view().encoded())


def test_a_level_that_is_not_known_changes_nothing() -> None:
    """An older release reads it, from the log or from a snapshot, and goes no further."""
    raised = metadata_batch([FeatureLevelRecord(level=2)], Offset(0), Epoch(1))
    event = LogRead(topic_partition=METADATA_LOG, start_offset=Offset(0), records=raised.data)
    newer, older = MetadataReplay(read_max_bytes=1000), MetadataReplay(read_max_bytes=1000, newest_level=1)
    for replay in (newer, older):
        replay.next_read(Offset(1))
    newer.on_read(event)
    with pytest.raises(CorruptMetadataRecordError, match="at feature level 2, and this release knows none above 1"):
        older.on_read(event)
    with pytest.raises(ForeignSnapshotError, match="at feature level 2, and this release knows none above 1"):
        older.restore(newer.view().encoded())
    assert (older.image.level, older.applied_offset) == (1, 0)
