"""Producer snapshots: Kafka's ProducerStateManagerTest as far as it is of files, and a log that forgets nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.log.recovered import ProducerBatch, ProducerEntry
from replica.core.partition.producer_state import scan
from replica.ids import Epoch, Offset
from replica.records import RecordBatch
from replica.storage import LogStore
from replica.storage.files import atomic_write
from replica.storage.producer_snapshots import decode_snapshot, encode_snapshot
from tests.storage.disks import close, entries, flip, formatted, held
from tests.storage.partitions import (
    PARTITION_PATH,
    crashed,
    create_partition,
    open_partition,
    produced,
    segment_bases,
)
from tests.storage.test_partition_power_loss import interrupted

COUNT = 12
"""Batches of one record each in ``filled``; its segments begin at 0, 5 and 10."""


def sent(count: int = COUNT, *, since: int = 0) -> list[RecordBatch]:
    """What three producers have sent in turn."""
    return [produced(at, producer_id=at % 3, sequence=at // 3) for at in range(since, count)]


def known(end_offset: int) -> tuple[ProducerEntry, ...]:
    """The producers of all that was ever sent below ``end_offset``."""
    return scan(sent(end_offset))


def filled(count: int = COUNT) -> tuple[SimulatedFiles, LogStore, Callable[[], None]]:
    """A flushed log of ``sent`` batches, and how to stop it cleanly."""
    files = formatted()
    directory, log = create_partition(files)
    for batch in sent(count):
        log.append([batch])
    log.store_epochs(entries((1, 0)))
    log.flush()
    log.note_recovery_point()
    directory.store_checkpoints()
    return files, log, lambda: close(directory, log)


def snapshots_of(files: SimulatedFiles) -> list[int]:
    """Where the partition has snapshots."""
    return [int(name[:-9]) for name in files.names(PARTITION_PATH) if name.endswith(".snapshot")]


def snapshot_at(offset: int) -> str:
    return f"{offset:020d}.snapshot"


def without_its_head() -> tuple[SimulatedFiles, Callable[[], None]]:
    """A log that began at 0 and begins at 10 now, its older segments gone for good; producer 1 was only in those."""
    files = formatted()
    directory, log = create_partition(files)
    for batch in [*sent(9), *(produced(at, producer_id=0, sequence=at - 6) for at in range(9, COUNT))]:
        log.append([batch])
    log.flush()
    log.raise_log_start(Offset(10))
    log.store_epochs(entries((1, 10)))
    directory.delete_expired(0)
    directory.delete_expired(1 << 40)
    assert segment_bases(files) == [10]
    return files, lambda: close(directory, log)


# --- when a snapshot is taken -----------------------------------------------------------------------------------------


def test_take_snapshot() -> None:
    """There is one where each segment begins but the first, and one more where the log is closed."""
    files, _, stop = filled()
    assert snapshots_of(files) == [5, 10]
    stop()
    assert snapshots_of(files) == [5, 10, COUNT]
    for offset in (5, 10, COUNT):
        assert decode_snapshot(files.content(PARTITION_PATH / snapshot_at(offset))) == known(offset)


def test_an_append_does_not_wait_for_a_snapshot(files: SimulatedFiles) -> None:
    """A segment that is begun costs the append no sync: the next flush stores the snapshot."""
    _, log = create_partition(files)
    files.calls.clear()
    for batch in sent():
        log.append([batch])
    assert not [call for call in files.calls if "snapshot" in call or call.startswith("fsync")]
    log.flush()
    assert snapshots_of(files) == [5, 10]


def test_snapshots_that_are_not_needed_go() -> None:
    """After a start, those stay that a segment begins at, and the newest."""
    files, _, stop = filled()
    stop()
    _, log, _ = open_partition(files)
    log.append(sent(14, since=COUNT))
    log.flush()
    log.close(clean=True)
    assert snapshots_of(files) == [5, 10, COUNT, 14]
    crashed(files)
    assert snapshots_of(files) == [5, 10, 14]


def test_truncate_and_reload_removes_out_of_range_snapshots() -> None:
    """A truncation removes what tells of batches that it cuts; what is found above the end or below the start goes."""
    files, log, _ = filled()
    log.truncate(Offset(7))
    assert snapshots_of(files) == [5]
    assert log.scan_producers() == known(7)
    for stray in (2, 9):
        atomic_write(files, PARTITION_PATH / snapshot_at(stray), encode_snapshot(known(3)))
    log, recovered = crashed(files)
    assert snapshots_of(files) == [5]
    assert recovered.producers == log.scan_producers() == known(7)


def test_a_snapshot_goes_with_its_segment() -> None:
    """Of a log that begins at a segment, no snapshot below is left: the batches behind it are gone."""
    files, _ = without_its_head()
    assert snapshots_of(files) == [10]
    atomic_write(files, PARTITION_PATH / snapshot_at(5), encode_snapshot(known(5)))
    crashed(files)
    assert snapshots_of(files) == [10]


@pytest.mark.parametrize("keeps_producers", [True, False])
def test_a_log_that_is_begun_anew(keeps_producers: bool) -> None:
    """What is known of producers goes with the records, unless all of them are committed below the new start."""
    files, log, _ = filled()
    log.start_at(Offset(7), keeps_producers=keeps_producers)
    expected = known(7) if keeps_producers else ()
    assert log.scan_producers() == expected
    log.append([produced(7, producer_id=9, sequence=0)])
    log.flush()
    assert crashed(files)[1].producers == (*expected, *scan([produced(7, producer_id=9, sequence=0)]))


def test_a_batch_across_a_new_start_is_not_remembered(files: SimulatedFiles) -> None:
    """Its end lies above, where nothing of the old log is kept: the leader sends the whole batch again."""
    _, log = create_partition(files)
    log.append([*sent(4), produced(4, producer_id=9, sequence=0, count=2)])
    log.flush()
    log.start_at(Offset(5), keeps_producers=True)
    assert log.scan_producers() == known(4)


def test_a_snapshot_that_was_not_stored_in_time_is_dropped(files: SimulatedFiles) -> None:
    """A segment begins, the log is cut below it and filled otherwise before anything is flushed."""
    _, log = create_partition(files)
    log.append(sent())
    log.truncate(Offset(7))
    anew = [produced(at, producer_id=9, sequence=at - 7) for at in range(7, COUNT)]
    log.append(anew)
    log.flush()
    assert snapshots_of(files) == [5]
    assert crashed(files)[1].producers == scan([*sent(7), *anew])


@pytest.mark.slow
def test_a_log_that_recovery_begins_anew_has_no_snapshots() -> None:
    """Its records below its start are lost, and may have been of another history than the leader's.

    That holds wherever the power is lost on the way, once the segment is empty: nothing of the old log comes back.
    """

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, log, stop = filled()
        log.raise_log_start(Offset(COUNT))
        log.store_epochs(())
        stop()
        flip(files, PARTITION_PATH / f"{10:020d}.log", 50)
        return files, lambda: open_partition(files)

    for outcome in interrupted(prepare):
        _, _, recovered = open_partition(outcome.files)
        assert (recovered.log_start_offset, recovered.log_end_offset) == (COUNT, COUNT)
        assert (recovered.producers, snapshots_of(outcome.files)) == ((), [])


# --- what is remembered -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_producers_of_deleted_records_are_remembered(clean: bool) -> None:
    """A batch whose record was deleted is recognised after either kind of stop, and after a truncation."""
    files, stop = without_its_head()
    if clean:
        stop()
    log, recovered = crashed(files)
    newest = {entry.producer_id: entry.batches[-1].base_offset for entry in recovered.producers}
    assert newest == {1: 7, 2: 8, 0: 11}
    log.truncate(Offset(11))
    assert {entry.producer_id: entry.batches[-1].base_offset for entry in log.scan_producers()} == {1: 7, 2: 8, 0: 10}


def test_producers_below_a_start_inside_a_segment_are_remembered(files: SimulatedFiles) -> None:
    """Where no segment goes, nothing is forgotten, not even across a change of epochs below the start."""
    _, log = create_partition(files)
    for batch in sent(5):
        log.append([batch.stamped(base_offset=batch.base_offset, leader_epoch=Epoch(1 + batch.base_offset // 2))])
    log.flush()
    log.raise_log_start(Offset(3))
    log.truncate(Offset(4))
    assert log.scan_producers() == known(4)
    assert crashed(files)[1].producers == known(4)


def test_a_clean_start_reads_no_batch_twice() -> None:
    """What the closing snapshot tells of is not read: damage there is found by its reader, and served to none."""
    files, _, stop = filled()
    stop()
    flip(files, PARTITION_PATH / f"{0:020d}.log", 50)
    assert open_partition(files)[2].producers == known(COUNT)


def cut(content: bytes) -> bytes:
    return content[:-3]


def turned(content: bytes) -> bytes:
    return content[:9] + bytes([content[9] ^ 1]) + content[10:]


def damaged_and_loaded(damage: Callable[[bytes], bytes], *, clean: bool) -> None:
    """Damage the newest snapshots of a stopped log, open it, and find everything and none of the damaged files."""
    files, _, stop = filled()
    stop()
    for offset in (10, COUNT):
        path = PARTITION_PATH / snapshot_at(offset)
        files.overwrite(path, damage(files.content(path)))
    if not clean:
        files.remove(PARTITION_PATH.parent / ".kafka_cleanshutdown")
    log, recovered = crashed(files)
    assert recovered.producers == log.scan_producers() == known(COUNT)
    assert snapshots_of(files) == [5]
    log.close(clean=True)
    assert snapshots_of(files) == [5, COUNT]


@pytest.mark.parametrize("clean", [True, False])
def test_load_from_corrupt_snapshot_file(clean: bool) -> None:
    """The snapshot before it and the batches from there on say the same; the damaged file goes."""
    damaged_and_loaded(turned, clean=clean)


@pytest.mark.parametrize("clean", [True, False])
def test_load_from_truncated_snapshot_file(clean: bool) -> None:
    """A snapshot that was cut is passed over like a damaged one."""
    damaged_and_loaded(cut, clean=clean)


@pytest.mark.parametrize("clean", [True, False])
def test_load_from_empty_snapshot_file(clean: bool) -> None:
    """An empty snapshot does not say that there are no producers, and neither does one of zeros."""
    damaged_and_loaded(lambda _: b"", clean=clean)
    damaged_and_loaded(lambda content: bytes(len(content)), clean=clean)


@pytest.mark.parametrize("clean", [True, False])
def test_a_snapshot_of_another_version_is_passed_over(clean: bool) -> None:
    """What this code cannot read it does not believe."""
    damaged_and_loaded(lambda content: b"\x00\x02" + content[2:], clean=clean)


def test_a_damaged_snapshot_is_rebuilt_before_its_segments_go() -> None:
    """What the oldest segments say of producers is in a sound snapshot before they are deleted."""
    files, log, _ = filled()
    path = PARTITION_PATH / snapshot_at(10)
    files.overwrite(path, turned(files.content(path)))
    log.raise_log_start(Offset(11))
    assert decode_snapshot(files.content(path)) == known(10)
    assert crashed(files)[1].producers == known(COUNT)


def test_a_segment_that_begins_with_the_log_forgets_nobody(files: SimulatedFiles) -> None:
    """Everything is deleted, and what is appended next is in a new segment: a kill before its flush forgets nobody."""
    directory, log = create_partition(files)
    log.append(sent(10))
    log.raise_log_start(Offset(10))
    log.append([produced(10, producer_id=9, sequence=0)])
    log.close(clean=False)
    directory.close(clean=False)
    _, _, recovered = open_partition(files)
    assert (segment_bases(files), recovered.log_start_offset) == ([10], 10)
    assert recovered.producers == (*known(10), *scan([produced(10, producer_id=9, sequence=0)]))


def test_no_stop_makes_a_deletion_forget() -> None:
    """The snapshot that replaces the deleted segments is there before anything says that they are."""

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, log, _ = filled(10)
        log.append(sent(12, since=10))
        log.flush()
        for offset in (5, 10):
            path = PARTITION_PATH / snapshot_at(offset)
            files.overwrite(path, cut(files.content(path)))
        return files, lambda: log.raise_log_start(Offset(10))

    for outcome in interrupted(prepare):
        assert open_partition(outcome.files)[2].producers == known(12)


def test_a_snapshot_that_was_misread_once_is_removed_with_the_others() -> None:
    """A truncation removes what it must, whatever was found in it: the disk may read better the next time."""
    files, log, _ = filled()
    path = PARTITION_PATH / snapshot_at(10)
    sound = files.content(path)
    files.overwrite(path, turned(sound))
    log.truncate(Offset(11))
    assert log.scan_producers() == known(11)
    files.overwrite(path, sound)
    log.truncate(Offset(7))
    anew = [produced(at, producer_id=9, sequence=at - 7) for at in range(7, COUNT)]
    log.append(anew)
    log.flush()
    assert crashed(files)[1].producers == scan([*sent(7), *anew])


# --- the file ---------------------------------------------------------------------------------------------------------

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
BATCHES = st.builds(
    ProducerBatch,
    base_sequence=INT32,
    last_sequence=INT32,
    base_offset=INT64.map(Offset),
    end_offset=INT64.map(Offset),
    max_timestamp_ms=INT64,
)
ENTRIES = st.lists(
    st.builds(
        ProducerEntry,
        producer_id=INT64,
        producer_epoch=st.integers(-(1 << 15), (1 << 15) - 1),
        batches=st.lists(BATCHES, max_size=5).map(tuple),
    ),
    max_size=4,
).map(tuple)


@given(entries=ENTRIES)
def test_what_is_stored_is_read(entries: tuple[ProducerEntry, ...]) -> None:
    """Every field survives, and the order of the producers, which says who has been idle longest."""
    assert decode_snapshot(encode_snapshot(entries)) == entries


@given(entries=ENTRIES, at=st.integers(0), bit=st.integers(0, 7))
def test_no_flipped_bit_is_believed(entries: tuple[ProducerEntry, ...], at: int, bit: int) -> None:
    """A snapshot with one wrong bit, wherever it is, is worth nothing."""
    content = bytearray(encode_snapshot(entries))
    content[at % len(content)] ^= 1 << bit
    assert decode_snapshot(bytes(content)) is None


# --- power loss -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_power_loss_makes_a_producer_forgotten() -> None:
    """Before any operation of a roll, a deletion, a truncation, another append and a stop: all of the log is known.

    The batch at 12 and those behind it are sent anew after the truncation, by other producers.
    """
    second = [produced(at, producer_id=7 + at % 2, sequence=(at - 12) // 2) for at in range(12, 22)]

    def prepare() -> tuple[SimulatedFiles, Callable[[], object]]:
        files, log, stop = filled(18)

        def act() -> None:
            log.raise_log_start(Offset(11))
            log.truncate(Offset(12))
            for batch in second:
                log.append([batch])
            log.flush()
            stop()

        return files, act

    for outcome in interrupted(prepare):
        _, log, recovered = open_partition(outcome.files)
        end = recovered.log_end_offset
        again = any(batch.producer_id >= 7 for batch in held(log))
        assert recovered.producers == (scan([*sent(12), *second[: end - 12]]) if again else known(end))
        assert snapshots_of(outcome.files)[:1] in ([5], [10]), "the first segment has lost its snapshot"
