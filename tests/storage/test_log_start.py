"""Where a log begins: raising it, dropping segments below it, beginning anew, and what a restart makes of it."""

from __future__ import annotations

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.ids import Offset
from replica.storage import LogConfig, OffsetOutOfRangeError
from tests.storage.disks import append, batch, close, entries, flip, formatted, held, offsets
from tests.storage.partitions import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION,
    PARTITION_PATH,
    crashed,
    create_partition,
    filled_partition,
    open_partition,
    reopened,
    segment_bases,
)


def test_reads_below_the_log_start_are_out_of_range() -> None:
    """What lies below is not read any more, in whichever part of a segment the log begins; the rest is."""
    for log_start in range(13):
        _, _, log = filled_partition()
        log.raise_log_start(Offset(log_start))
        assert [found.base_offset for found in held(log)] == list(range(log_start, 12))
        if log_start:
            with pytest.raises(
                OffsetOutOfRangeError, match=rf"at offset {log_start - 1}: it holds \[{log_start}, 12\]"
            ):
                log.read(Offset(log_start - 1), Offset(12), 100)


def test_a_log_may_begin_inside_a_batch(files: SimulatedFiles) -> None:
    """The batch that holds the log start is read whole, whatever its epoch, also after a restart."""
    directory, log = create_partition(files)
    log.append([batch(0, count=3), batch(3, epoch=2, count=3), batch(6, epoch=4)])
    log.store_epochs(entries((2, 4), (4, 6)))
    log.raise_log_start(Offset(4))
    assert offsets(log.read(Offset(4), Offset(7), 1 << 20)) == [3, 6]
    log, recovered = reopened(files, directory, log)
    assert (recovered.log_start_offset, recovered.epochs) == (4, entries((2, 4), (4, 6)))
    assert offsets(log.read(Offset(4), Offset(7), 1 << 20)) == [3, 6]
    assert crashed(files)[1].epochs == entries((2, 4), (4, 6))


def test_what_lies_below_the_log_start_is_not_kept_in_memory() -> None:
    """The tail of a log is no longer than the log; the batch that holds the log start stays in it."""
    _, log = create_partition(formatted(), LogConfig())
    log.append([batch(offset, count=2) for offset in range(0, 12, 2)])
    for log_start in range(1, 13):
        log.raise_log_start(Offset(log_start))
        first = log_start - log_start % 2
        assert [log.is_in_memory(Offset(offset)) for offset in (first - 1, first)] == [False, True], log_start


def test_the_log_start_only_rises() -> None:
    """At or below the log start nothing happens; above the log end is an error of the caller."""
    _, _, log = filled_partition()
    log.raise_log_start(Offset(7))
    log.raise_log_start(Offset(3))
    assert log.log_start_offset == 7
    with pytest.raises(OffsetOutOfRangeError, match=r"raise the start of .* at offset 13: it holds \[7, 12\]"):
        log.raise_log_start(Offset(13))
    assert log.log_start_offset == 7


@pytest.mark.parametrize(("log_start", "kept"), [(4, [0, 5, 10]), (5, [5, 10]), (9, [5, 10]), (10, [10]), (12, [10])])
def test_segments_wholly_below_the_log_start_go(log_start: int, kept: list[int]) -> None:
    """A segment goes when its end is at or below the log start; the last one never does."""
    files, _, log = filled_partition()
    log.raise_log_start(Offset(log_start))
    assert segment_bases(files) == kept
    deleted = [name for name in files.names(PARTITION_PATH) if name.endswith(".log.deleted")]
    assert len(deleted) == 3 - len(kept)
    recovered = crashed(files)[1]
    assert recovered.log_start_offset == log_start
    assert recovered.log_end_offset == 12


def test_the_log_start_is_durable_before_segments_go() -> None:
    """The checkpoint is on the platter before the first segment loses its name."""
    files, _, log = filled_partition()
    files.calls.clear()
    log.raise_log_start(Offset(7))
    stored = files.calls.index("rename log-start-offset-checkpoint")
    first = min(at for at, call in enumerate(files.calls) if call.endswith(".deleted"))
    assert stored < files.calls.index("fsync_directory data") < first
    assert files.content(LOG_STARTS) == b"0\n1\nmy-topic 3 7\n"


def test_deleted_segments_go_after_the_delay() -> None:
    """The files stay under their new names until they have waited, and the log needs them no more."""
    files, directory, log = filled_partition()
    log.raise_log_start(Offset(10))
    for now_ms, count in ((1000, 7), (60_999, 7), (61_000, 0)):
        directory.delete_expired(now_ms)
        assert len([name for name in files.names(PARTITION_PATH) if name.endswith(".deleted")]) == count
    assert offsets(log.read(Offset(10), Offset(12), 1 << 20)) == [10, 11]


@pytest.mark.parametrize("clean", [True, False])
def test_deleted_segments_go_at_the_next_start(clean: bool) -> None:
    """A start of either kind removes what waits, and leaves the rest."""
    files, directory, log = filled_partition()
    log.raise_log_start(Offset(10))
    recovered = (reopened(files, directory, log) if clean else crashed(files))[1]
    assert (recovered.log_start_offset, recovered.log_end_offset) == (10, 12)
    assert segment_bases(files) == [10]
    assert not [name for name in files.names(PARTITION_PATH) if name.endswith(".deleted")]


def test_the_log_start_never_falls_back() -> None:
    """What was forgotten stays so over a crash, with or without a segment that went for it."""
    files, _, log = filled_partition()
    log.raise_log_start(Offset(2))
    log.raise_log_start(Offset(4))
    assert crashed(files)[1].log_start_offset == 4


def test_a_clean_stop_stores_the_log_start() -> None:
    """The log begins after a clean stop where it began before."""
    files, directory, log = filled_partition()
    log.raise_log_start(Offset(4))
    assert reopened(files, directory, log)[1].log_start_offset == 4
    assert files.content(LOG_STARTS) == b"0\n1\nmy-topic 3 4\n"


def test_only_log_starts_above_the_first_segment_are_stored() -> None:
    """An entry that says no more than the first segment's name is taken out."""
    files, directory, log = filled_partition()
    log.raise_log_start(Offset(5))
    log.note_log_start()
    directory.store_checkpoints()
    assert files.content(LOG_STARTS) == b"0\n0\n"
    assert reopened(files, directory, log)[1].log_start_offset == 5


def test_segments_below_the_log_start_are_not_looked_at() -> None:
    """A deletion that was cut short may leave any of them, or damage in them: none of it matters."""
    for left in ([0], [5], [0, 5]):
        files, _, _ = filled_partition(17)
        files.crash()
        files.overwrite(LOG_STARTS, b"0\n1\nmy-topic 3 12\n")
        for base in {0, 5} - set(left):
            files.remove(PARTITION_PATH / f"{base:020d}.log")
        flip(files, PARTITION_PATH / f"{left[0]:020d}.log", 90)
        recovered = crashed(files)[1]
        assert (recovered.log_start_offset, recovered.log_end_offset) == (12, 17)
        assert segment_bases(files) == [10, 15]


def test_log_end_less_than_start_after_reopen() -> None:
    """Damage below the log start that leaves a log ending below it: all is deleted, and the log is empty there."""
    files, directory, log = filled_partition(4)
    log.raise_log_start(Offset(4))
    log.note_log_start()
    directory.store_checkpoints()
    files.crash()
    flip(files, PARTITION_PATH / f"{0:020d}.log", 90)
    log, recovered = crashed(files)
    assert (recovered.log_start_offset, recovered.log_end_offset, recovered.epochs) == (4, 4, ())
    assert segment_bases(files) == [4]
    append(log, count=2, epoch=3)
    log.flush()
    log, recovered = crashed(files)
    assert (recovered.log_start_offset, recovered.log_end_offset) == (4, 6)
    assert [found.base_offset for found in held(log)] == [4, 5]


def test_damage_below_the_log_start_that_costs_promised_records_is_refused() -> None:
    """If flushed records above the log start cannot be reached any more, the log is not begun anew."""
    files, directory, log = filled_partition(5)
    log.raise_log_start(Offset(3))
    log.note_log_start()
    directory.store_checkpoints()
    files.crash()
    flip(files, PARTITION_PATH / f"{0:020d}.log", 90)
    before = files.tree()
    with pytest.raises(Exception, match=r"\(offset 1\) .* everything below offset 5 was flushed"):
        open_partition(files)
    assert files.tree() == before


@pytest.mark.parametrize("offset", [0, 3, 5, 7, 10, 12, 40])
def test_truncate_fully_and_start_at(offset: int) -> None:
    """Whatever the log held, it is empty at the offset, durably, and goes on from there."""
    files, _, log = filled_partition()
    log.raise_log_start(Offset(6))
    log.start_at(Offset(offset))
    assert (log.log_start_offset, log.log_end_offset, log.flushed_end_offset) == (offset, offset, offset)
    assert log.read(Offset(offset), Offset(offset), 100) == b""
    log, recovered = crashed(files)
    assert (recovered.log_start_offset, recovered.log_end_offset, recovered.epochs) == (offset, offset, ())
    append(log, count=7, epoch=2)
    log.flush()
    assert segment_bases(files) == [offset, offset + 5]
    log, recovered = crashed(files)
    assert [(found.base_offset, found.leader_epoch) for found in held(log)] == [(offset + at, 2) for at in range(7)]
    assert recovered.epochs == entries((2, offset))


def test_truncating_to_a_log_start_inside_a_batch_begins_anew(files: SimulatedFiles) -> None:
    """Nothing of the log stays, although no file can be cut in the middle of a batch."""
    _, log = create_partition(files)
    log.append([batch(0, count=3), batch(3, count=3), batch(6)])
    log.flush()
    log.raise_log_start(Offset(4))
    log.truncate(Offset(4))
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    append(log, epoch=2)
    log.flush()
    assert [(found.base_offset, found.leader_epoch) for found in held(crashed(files)[0])] == [(4, 2)]


@pytest.mark.parametrize("how", ["truncate", "start_at"])
def test_the_stored_high_watermark_never_speaks_of_other_records(how: str) -> None:
    """What is dropped takes its high watermark along: records that come in its place were not committed by it."""
    files, directory, log = filled_partition()
    directory.store_high_watermarks({PARTITION: Offset(11)})
    log.truncate(Offset(8)) if how == "truncate" else log.start_at(Offset(8))
    append(log, count=6, epoch=2)
    log.flush()
    assert crashed(files)[1].high_watermark == 8


def test_a_log_that_is_empty_above_zero_reopens_cleanly() -> None:
    """A clean stop at the log start is believed, without anything written."""
    files, directory, log = filled_partition()
    log.store_epochs(())
    log.raise_log_start(Offset(12))
    close(directory, log)
    files.remove(PARTITION_PATH / f"{0:020d}.log.deleted")
    files.remove(PARTITION_PATH / f"{5:020d}.log.deleted")
    files.remove(PARTITION_PATH / f"{0:020d}.index.deleted")
    files.remove(PARTITION_PATH / f"{5:020d}.index.deleted")
    files.remove(PARTITION_PATH / f"{0:020d}.timeindex.deleted")
    files.remove(PARTITION_PATH / f"{5:020d}.timeindex.deleted")
    files.remove(PARTITION_PATH / f"{5:020d}.snapshot.deleted")
    files.calls.clear()
    _, log, recovered = open_partition(files)
    assert (recovered.log_start_offset, recovered.log_end_offset) == (12, 12)
    assert files.calls == ["unlink .kafka_cleanshutdown", "fsync_directory data"]
    append(log, epoch=3)
    assert offsets(log.read(Offset(12), Offset(13), 100)) == [12]


def test_log_starts_go_along_with_a_high_watermark() -> None:
    """What is stored for one log leaves the others' entries as they are."""
    files, directory, log = filled_partition()
    directory.store_high_watermarks({PARTITION: Offset(12)})
    log.raise_log_start(Offset(7))
    recovered = crashed(files)[1]
    assert (recovered.log_start_offset, recovered.high_watermark) == (7, 12)
    assert files.content(HIGH_WATERMARKS) == b"0\n1\nmy-topic 3 12\n"
