"""The open log: append, roll, flush, truncate, read, and what happens when the disk fails."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from replica.core.effects import QuorumState
from replica.core.recovered import RecoveredLog
from replica.ids import Epoch, EpochEntry, Offset, ReplicaId
from replica.storage import (
    LogConfig,
    LogStore,
    OffsetOutOfRangeError,
    StorageError,
    format_directory,
    open_directory,
)
from tests.storage.disks import (
    FIRST_SEGMENT,
    LOG,
    LOG_PATH,
    ONE_SEGMENT,
    RECOVERY_POINTS,
    SMALL,
    append,
    batch,
    close,
    failing,
    formatted,
    held,
    offsets,
    open_log,
    reopen_log,
)

BATCH_BYTES = batch(0).size_bytes
IN_MEMORY = LogConfig(segment_bytes=400, index_interval_bytes=100, tail_bytes_max=3 * BATCH_BYTES)
BOTH = pytest.mark.parametrize("config", [SMALL, IN_MEMORY, LogConfig()], ids=["disk", "short tail", "all in memory"])


def test_a_new_log_is_empty() -> None:
    """A log that the directory never had begins at 0, without epochs and without a quorum state."""
    _, log, recovered = open_log(formatted())
    assert recovered == RecoveredLog(log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=())
    assert (log.log_start_offset, log.log_end_offset, log.flushed_end_offset) == (0, 0, 0)
    assert log.read(Offset(0), Offset(0), 100) == b""


@BOTH
def test_what_is_appended_is_read(config: LogConfig) -> None:
    """Batches come back byte for byte, across segments, from disk and from memory."""
    _, log, _ = open_log(formatted(), config)
    batches = [batch(0), batch(1, count=3), batch(4, epoch=2), batch(5, epoch=2, value=b"x" * 500), batch(6, epoch=2)]
    log.append(batches[:2])
    log.append(batches[2:])
    assert held(log) == batches
    assert log.log_end_offset == 7


@BOTH
def test_read_starts_with_the_batch_that_holds_the_offset(config: LogConfig) -> None:
    """An offset inside a batch, in whichever segment, yields that batch first."""
    _, log, _ = open_log(formatted(), config)
    for base_offset in range(0, 40, 4):
        log.append([batch(base_offset, count=4)])
    for offset in range(40):
        assert offsets(log.read(Offset(offset), Offset(40), 1)) == [offset // 4 * 4]


@BOTH
def test_read_with_too_small_max_length(config: LogConfig) -> None:
    """At least one whole batch is returned, further ones only while the sum stays within the limit."""
    _, log, _ = open_log(formatted(), config)
    append(log, count=12)
    assert offsets(log.read(Offset(2), Offset(12), 1)) == [2]
    assert offsets(log.read(Offset(2), Offset(12), 3 * BATCH_BYTES - 1)) == [2, 3]
    assert offsets(log.read(Offset(2), Offset(12), 3 * BATCH_BYTES)) == [2, 3, 4]
    assert offsets(log.read(Offset(9), Offset(12), 1 << 20)) == [9, 10, 11]


@BOTH
def test_read_stops_at_the_end_bound(config: LogConfig) -> None:
    """No batch that reaches beyond the bound is returned, not even as the first."""
    _, log, _ = open_log(formatted(), config)
    log.append([batch(0, count=3), batch(3, count=3), batch(6, count=3)])
    assert offsets(log.read(Offset(0), Offset(6), 1 << 20)) == [0, 3]
    assert offsets(log.read(Offset(0), Offset(5), 1 << 20)) == [0]
    assert log.read(Offset(3), Offset(5), 1 << 20) == b""


@BOTH
def test_read_out_of_range(config: LogConfig) -> None:
    """Reading at the log's end gives nothing; beyond it is an error of the caller, and the store stays usable."""
    _, log, _ = open_log(formatted(), config)
    append(log, count=5)
    assert log.read(Offset(5), Offset(5), 100) == b""
    for offset in (Offset(6), Offset(-1)):
        with pytest.raises(OffsetOutOfRangeError, match=rf"at offset {offset}: it holds \[0, 5\]"):
            log.read(offset, Offset(5), 100)
    assert offsets(log.read(Offset(4), Offset(5), 100)) == [4]


def test_segments_roll_at_their_size() -> None:
    """A segment is never longer than segment_bytes, unless one batch alone is."""
    files = formatted()
    _, log, _ = open_log(files, SMALL)
    log.append([batch(0), batch(1, value=b"x" * 1000), *(batch(offset) for offset in range(2, 12))])
    sizes = {name: len(content) for name, content in files.tree().items() if name.endswith(".log")}
    assert list(sizes) == [f"/data/log-0/{base:020d}.log" for base in (0, 1, 2, 7)]
    assert sizes[f"/data/log-0/{1:020d}.log"] > 1000
    assert max(size for size in sizes.values() if size < 1000) <= 400


def test_append_with_out_of_order_offsets_is_refused() -> None:
    """A batch that does not continue the log is refused before a byte is written."""
    files = formatted()
    for base_offset in (0, 2):
        _, log, _ = open_log(files)
        append(log)
        before = files.content(FIRST_SEGMENT)
        with pytest.raises(StorageError, match=f"at offset {base_offset} cannot be appended .* at offset 1"):
            log.append([batch(base_offset)])
        assert files.content(FIRST_SEGMENT) == before
        files.crash()


def test_unflushed_records_lost_after_reopen() -> None:
    """A power loss takes exactly what no flush has covered."""
    files = formatted()
    _, log, _ = open_log(files, SMALL)
    append(log, count=10)
    assert log.flush() == 10
    append(log, count=10)
    assert (log.flushed_end_offset, log.log_end_offset) == (10, 20)
    files.crash()
    assert reopen_log(files, SMALL)[1].log_end_offset == 10


def test_flush_covers_segments_that_were_finished_since() -> None:
    """One flush makes everything durable, however many segments were rolled, names included."""
    files = formatted()
    _, log, _ = open_log(files, SMALL)
    append(log, count=50)
    assert log.flush() == 50
    files.crash()
    log, recovered = reopen_log(files, SMALL)
    assert recovered.log_end_offset == 50
    assert [found.base_offset for found in held(log)] == list(range(50))


def test_flush_without_new_data_costs_nothing() -> None:
    """A second flush does not touch the disk."""
    files = formatted()
    _, log, _ = open_log(files)
    append(log)
    log.flush()
    before = files.operations
    assert log.flush() == 1
    assert files.operations == before


def test_flush_reports_the_end_at_which_it_began() -> None:
    """What is appended while the platter turns is not claimed, and the next flush covers it."""
    files = formatted()
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
    format_directory(tmp_path, cluster_id="c", replica_id=ReplicaId(1))
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


def test_truncate_is_durable_when_it_returns() -> None:
    """A truncated suffix, flushed before or not, never comes back, and what remains is on the platter."""
    files = formatted()
    _, log, _ = open_log(files, SMALL)
    append(log, count=12)
    log.truncate(Offset(7))
    assert log.flushed_end_offset == 7
    files.crash()
    assert reopen_log(files, SMALL)[1].log_end_offset == 7


def test_truncate_at_or_beyond_the_end_does_nothing() -> None:
    """Truncating to the log's end or above changes nothing on disk."""
    files = formatted()
    _, log, _ = open_log(files)
    append(log, count=3)
    before = files.tree()
    log.truncate(Offset(3))
    log.truncate(Offset(9))
    assert (files.tree(), log.log_end_offset) == (before, 3)


def test_truncate_inside_a_batch_is_refused() -> None:
    """A truncation that would cut a batch in two changes nothing and is an error."""
    files = formatted()
    for end_offset in (4, 5):
        _, log, _ = open_log(files)
        log.append([batch(log.log_end_offset, count=6 - log.log_end_offset)] if log.log_end_offset < 6 else [])
        log.truncate(Offset(6))
        log.flush()
        before = files.content(FIRST_SEGMENT)
        with pytest.raises(StorageError, match=f"to offset {end_offset}, which is inside a batch"):
            log.truncate(Offset(end_offset))
        assert files.content(FIRST_SEGMENT) == before
        files.crash()


def test_truncate_lowers_the_recovery_point_first() -> None:
    """The recovery point goes down durably before any data does, and stays below what was cut."""
    files = formatted()
    _, log, _ = open_log(files, SMALL)
    append(log, count=12)
    log.flush()
    log.checkpoint_recovery_point()
    files.calls.clear()
    log.truncate(Offset(3))
    assert files.content(RECOVERY_POINTS) == b"0\n1\nlog 0 3\n"
    lowered = files.calls.index("rename recovery-point-offset-checkpoint")
    cut = min(at for at, call in enumerate(files.calls) if call.startswith(("unlink", "ftruncate 0")))
    assert lowered < files.calls.index("fsync_directory data") < cut


def test_truncate_waits_for_a_flush_under_way() -> None:
    """A truncation that comes while another thread syncs lets it finish, and its result stands."""
    files = formatted()
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


def test_a_failed_fsync_is_never_retried() -> None:
    """After one failed fsync every call raises the same failure, and no fsync is asked for again."""
    files = formatted()
    directory, log, _ = open_log(files)
    append(log)
    files.fault = failing("fsync")
    with pytest.raises(StorageError, match="cannot flush log /data/log-0: input/output error"):
        log.flush()
    files.fault = None
    files.calls.clear()
    state = QuorumState(leader_epoch=Epoch(2))
    for call in (
        log.flush,
        lambda: append(log),
        lambda: log.truncate(Offset(0)),
        lambda: log.read(Offset(0), Offset(1), 1),
        lambda: log.store_epochs([]),
        lambda: log.store_quorum_state(state),
        log.checkpoint_recovery_point,
        lambda: log.close(clean=True),
    ):
        with pytest.raises(StorageError, match="cannot flush log /data/log-0: input/output error"):
            call()
    directory.close(clean=True)
    assert files.calls == []
    assert log.flushed_end_offset == 0


def test_a_short_write_stops_the_store() -> None:
    """A partial write is a failure; what it left behind is cut at the next start."""
    files = formatted()
    _, log, _ = open_log(files)
    append(log, count=3)
    log.flush()
    files.short_writes = True
    with pytest.raises(StorageError, match=r"cannot append to log .* bytes were written"):
        append(log)
    files.short_writes = False
    with pytest.raises(StorageError, match="cannot append to log"):
        log.flush()
    log.close(clean=False)
    files.crash()
    assert reopen_log(files)[1].log_end_offset == 3


@pytest.mark.parametrize("call", ["pwrite", "fsync", "rename", "fsync_directory"])
def test_a_failed_state_file_stops_the_store(call: str) -> None:
    """A vote or an epoch that could not be stored is an error, and the store refuses to go on."""
    files = formatted()
    _, log, _ = open_log(files)
    files.fault = failing(call)
    with pytest.raises(StorageError, match="cannot store the quorum state"):
        log.store_quorum_state(QuorumState(leader_epoch=Epoch(2)))
    files.fault = None
    with pytest.raises(StorageError, match="cannot store the quorum state"):
        append(log)


def test_stored_state_is_durable_on_return() -> None:
    """Quorum state and epochs survive a power loss right after they were stored."""
    files = formatted()
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


@pytest.mark.parametrize("at", [0, 8, 12, 16, 17, 21, 57, BATCH_BYTES - 1])
def test_damage_on_disk_is_never_served(at: int) -> None:
    """A batch that was damaged under a running replica is an error with file and position, not an answer."""
    files = formatted()
    _, log, _ = open_log(files, ONE_SEGMENT)
    append(log, count=5, value=b"payload")
    log.flush()
    content = bytearray(files.content(FIRST_SEGMENT))
    position = len(content) // 5 * 2
    content[position + at] ^= 0x40
    files.overwrite(FIRST_SEGMENT, bytes(content))
    assert offsets(log.read(Offset(0), Offset(2), 1 << 20)) == [0, 1]
    if at == 12:
        # The epoch lies outside the CRC: only recovery, which sees the order of epochs, can doubt it.
        return
    with pytest.raises(StorageError, match=f"{FIRST_SEGMENT} at byte {position} "):
        log.read(Offset(2), Offset(5), 1 << 20)


def test_a_closed_store_refuses_everything() -> None:
    """After a close every call says so; a second close does nothing."""
    files = formatted()
    directory, log, _ = open_log(files)
    close(directory, log)
    close(directory, log)
    with pytest.raises(StorageError, match="it is closed"):
        append(log)


def test_the_recovery_point_is_what_was_flushed() -> None:
    """The checkpoint never claims more than a flush has covered."""
    files = formatted()
    _, log, _ = open_log(files)
    append(log, count=3)
    log.checkpoint_recovery_point()
    assert files.content(RECOVERY_POINTS) == b"0\n1\nlog 0 0\n"
    log.flush()
    append(log)
    log.checkpoint_recovery_point()
    assert files.content(RECOVERY_POINTS) == b"0\n1\nlog 0 3\n"


def test_the_recovery_point_moves_when_a_segment_is_finished() -> None:
    """The flush that follows a roll puts all of the finished segment below the recovery point."""
    files = formatted()
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
