"""The open log: append, roll, flush, truncate, and what is durable when."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.effects import QuorumState
from replica.core.log.recovered import RecoveredLog
from replica.ids import Epoch, EpochEntry, Offset, ReplicaId
from replica.storage import LogConfig, LogStore, StorageError, format_directory, open_directory
from replica.voters import VoterSet
from tests.storage.disks import (
    FIRST_SEGMENT,
    IN_MEMORY,
    LOG,
    LOG_PATH,
    RECOVERY_POINTS,
    SMALL,
    append,
    batch,
    close,
    formatted,
    held,
    open_log,
    reopen_log,
)


def test_a_new_log_is_empty() -> None:
    """A log that the directory never had begins at 0, without epochs and without a quorum state."""
    _, log, recovered = open_log(formatted())
    assert recovered == RecoveredLog(log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=())
    assert (log.log_start_offset, log.log_end_offset, log.flushed_end_offset) == (0, 0, 0)
    assert log.read(Offset(0), Offset(0), 100) == b""


def test_segments_roll_at_their_size(files: SimulatedFiles) -> None:
    """A segment is never longer than segment_bytes, unless one batch alone is."""
    _, log, _ = open_log(files, SMALL)
    log.append([batch(0), batch(1, value=b"x" * 1000), *(batch(offset) for offset in range(2, 12))])
    sizes = {name: len(content) for name, content in files.tree().items() if name.endswith(".log")}
    assert list(sizes) == [f"/data/log-0/{base:020d}.log" for base in (0, 1, 2, 7)]
    assert sizes[f"/data/log-0/{1:020d}.log"] > 1000
    assert max(size for size in sizes.values() if size < 1000) <= 400


def test_append_with_out_of_order_offsets_is_refused(files: SimulatedFiles) -> None:
    """A batch that does not continue the log is refused before a byte is written."""
    for base_offset in (0, 2):
        _, log, _ = open_log(files)
        append(log)
        before = files.content(FIRST_SEGMENT)
        with pytest.raises(StorageError, match=f"at offset {base_offset} cannot be appended .* at offset 1"):
            log.append([batch(base_offset)])
        assert files.content(FIRST_SEGMENT) == before
        files.crash()


def test_unflushed_records_lost_after_reopen(files: SimulatedFiles) -> None:
    """A power loss takes exactly what no flush has covered."""
    _, log, _ = open_log(files, SMALL)
    append(log, count=10)
    assert log.flush() == 10
    append(log, count=10)
    assert (log.flushed_end_offset, log.log_end_offset) == (10, 20)
    files.crash()
    assert reopen_log(files, SMALL)[1].log_end_offset == 10


def test_flush_covers_segments_that_were_finished_since(files: SimulatedFiles) -> None:
    """One flush makes everything durable, however many segments were rolled, names included."""
    _, log, _ = open_log(files, SMALL)
    append(log, count=50)
    assert log.flush() == 50
    files.crash()
    log, recovered = reopen_log(files, SMALL)
    assert recovered.log_end_offset == 50
    assert [found.base_offset for found in held(log)] == list(range(50))


def test_flush_without_new_data_costs_nothing(files: SimulatedFiles) -> None:
    """A second flush does not touch the disk."""
    _, log, _ = open_log(files)
    append(log)
    log.flush()
    before = files.operations
    assert log.flush() == 1
    assert files.operations == before


def test_flush_reports_the_end_at_which_it_began(files: SimulatedFiles) -> None:
    """What is appended while the platter turns is not claimed, and the next flush covers it."""
    _, log, _ = open_log(files)
    append(log, count=3)
    files.before_fsync = lambda: append(log)
    assert log.flush() == 3
    files.before_fsync = None
    assert (log.flushed_end_offset, log.log_end_offset) == (3, 4)
    assert log.flush() == 4
    files.crash()
    assert reopen_log(files)[1].log_end_offset == 4


def test_flush_goes_on_while_another_thread_appends(tmp_path: Path) -> None:
    """Appends by one thread and flushes by another, on a real disk: offsets only grow, and nothing is lost."""
    format_directory(tmp_path, cluster_id="c", replica_id=ReplicaId(1), initial_voters=VoterSet(()))
    directory = open_directory(tmp_path)
    log, _ = LogStore.open(directory, LOG, config=LogConfig(segment_bytes=2000, index_interval_bytes=200))
    log.store_quorum_state(QuorumState(leader_epoch=Epoch(1)))
    flushed: list[int] = []
    done = threading.Event()

    def flush_until_done() -> None:
        while not done.is_set():
            flushed.append(log.flush())

    flusher = threading.Thread(target=flush_until_done)
    flusher.start()
    try:
        append(log, count=500)
        log.truncate(Offset(400))
        append(log, count=100, epoch=2)
    finally:
        done.set()
        flusher.join()
    assert log.flush() == 500
    assert len(flushed) > 1
    assert [found.base_offset for found in held(log)] == list(range(500))
    close(directory, log)
    assert LogStore.open(open_directory(tmp_path), LOG)[1].log_end_offset == 500


def test_truncate_drops_the_suffix() -> None:
    """After a truncation the log ends there, reads and appends go on, and later segments are gone."""
    for end_offset in range(0, 13):
        files = formatted()
        _, log, _ = open_log(files, IN_MEMORY)
        append(log, count=12)
        log.truncate(Offset(end_offset))
        assert log.log_end_offset == end_offset
        append(log, count=3, epoch=2)
        expected = [(offset, 1 if offset < end_offset else 2) for offset in range(end_offset + 3)]
        assert [(found.base_offset, found.leader_epoch) for found in held(log)] == expected
        log.flush()
        files.crash()
        log, _ = reopen_log(files, IN_MEMORY)
        assert [(found.base_offset, found.leader_epoch) for found in held(log)] == expected


def test_truncate_is_durable_when_it_returns(files: SimulatedFiles) -> None:
    """A truncated suffix, flushed before or not, never comes back, and what remains is on the platter."""
    _, log, _ = open_log(files, SMALL)
    append(log, count=12)
    log.truncate(Offset(7))
    assert log.flushed_end_offset == 7
    files.crash()
    assert reopen_log(files, SMALL)[1].log_end_offset == 7


def test_truncate_at_or_beyond_the_end_does_nothing(files: SimulatedFiles) -> None:
    """Truncating to the log's end or above changes nothing on disk."""
    _, log, _ = open_log(files)
    append(log, count=3)
    before = files.tree()
    log.truncate(Offset(3))
    log.truncate(Offset(9))
    assert (files.tree(), log.log_end_offset) == (before, 3)


def test_truncate_inside_a_batch_is_refused() -> None:
    """A truncation that would cut a batch in two changes nothing and is an error."""
    for end_offset in (1, 5):
        files = formatted()
        _, log, _ = open_log(files)
        log.append([batch(0, count=3), batch(3, count=3)])
        before = files.tree()
        with pytest.raises(StorageError, match=f"to offset {end_offset}, which is inside a batch"):
            log.truncate(Offset(end_offset))
        assert files.tree() == before


def test_truncate_lowers_the_recovery_point_first(files: SimulatedFiles) -> None:
    """The recovery point goes down durably before any data does, and stays below what was cut."""
    directory, log, _ = open_log(files, SMALL)
    append(log, count=12)
    log.flush()
    log.note_recovery_point()
    directory.store_checkpoints()
    files.calls.clear()
    log.truncate(Offset(3))
    assert files.content(RECOVERY_POINTS) == b"0\n1\nlog 0 3\n"
    lowered = files.calls.index("rename recovery-point-offset-checkpoint")
    cut = min(at for at, call in enumerate(files.calls) if call.startswith(("unlink", "ftruncate 0")))
    assert lowered < files.calls.index("fsync_directory data") < cut


def test_truncate_waits_for_a_flush_under_way(files: SimulatedFiles) -> None:
    """A truncation that comes while another thread syncs lets it finish, and its result stands."""
    _, log, _ = open_log(files)
    append(log, count=10)
    syncing, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        syncing.set()
        assert go_on.wait(10)

    files.before_fsync = hold
    flusher = threading.Thread(target=log.flush)
    flusher.start()
    assert syncing.wait(10)
    files.before_fsync = None
    truncater = threading.Thread(target=log.truncate, args=(Offset(4),))
    truncater.start()
    assert log.log_end_offset == 10
    go_on.set()
    flusher.join()
    truncater.join()
    assert (log.log_end_offset, log.flushed_end_offset) == (4, 4)
    append(log, count=2, epoch=2)
    assert log.flushed_end_offset == 4


def test_stored_state_is_durable_on_return(files: SimulatedFiles) -> None:
    """Quorum state and epochs survive a power loss right after they were stored."""
    _, log, _ = open_log(files)
    append(log, count=2)
    log.flush()
    state = QuorumState(leader_epoch=Epoch(9), voted_id=ReplicaId(2), voted_directory_id="d")
    log.store_quorum_state(state)
    log.store_epochs([EpochEntry(Epoch(1), Offset(0))])
    files.crash()
    recovered = reopen_log(files)[1]
    assert recovered.quorum_state == state
    assert recovered.epochs == (EpochEntry(Epoch(1), Offset(0)),)


def test_the_recovery_point_is_what_was_flushed(files: SimulatedFiles) -> None:
    """The checkpoint never claims more than a flush has covered."""
    directory, log, _ = open_log(files)
    append(log, count=3)
    log.note_recovery_point()
    directory.store_checkpoints()
    assert files.content(RECOVERY_POINTS) == b"0\n1\nlog 0 0\n"
    log.flush()
    append(log)
    log.note_recovery_point()
    directory.store_checkpoints()
    assert files.content(RECOVERY_POINTS) == b"0\n1\nlog 0 3\n"


def test_the_recovery_point_moves_when_a_segment_is_finished(files: SimulatedFiles) -> None:
    """The flush that follows a roll puts all of the finished segment below the recovery point."""
    _, log, _ = open_log(files, SMALL)
    append(log, count=6)
    log.flush()
    assert files.content(RECOVERY_POINTS) == b"0\n1\nlog 0 6\n"
    assert files.exists(LOG_PATH / "00000000000000000000.index")


@pytest.mark.parametrize(
    "limits",
    [{"segment_bytes": 0}, {"index_interval_bytes": 0}, {"tail_bytes_max": -1}, {"segment_bytes": 1 << 32}],
)
def test_impossible_limits_are_refused(limits: dict[str, int]) -> None:
    """A limit that no log can be stored under is refused by name."""
    with pytest.raises(ValueError, match=next(iter(limits))):
        LogConfig(
            segment_bytes=limits.get("segment_bytes", 1),
            index_interval_bytes=limits.get("index_interval_bytes", 1),
            tail_bytes_max=limits.get("tail_bytes_max", 1),
        )
