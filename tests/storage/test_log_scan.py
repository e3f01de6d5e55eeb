"""The search of a log in runs: whatever is in it, runs find what looking at each batch by itself finds."""

from __future__ import annotations

from ctypes import CDLL
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.partition.producer_state import ProducerScan
from replica.ids import Epoch, EpochEntry, Offset
from replica.records import Compression, RecordBatch, encode_batch
from replica.storage import LogConfig
from replica.storage.log_scan import LogScan
from replica.storage.segment import Segment
from tests.records.compiled import compiled, needs_compiler

pytestmark = needs_compiler

FOLDER = Path("/log")


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    """What finds runs."""
    return compiled(tmp_path_factory.mktemp("native"))


@st.composite
def logs(draw: st.DrawFn) -> list[RecordBatch]:
    """Batches that follow one another from offset 100 on, of few producers, most of them plain."""
    batches: list[RecordBatch] = []
    offset, epoch = 100, draw(st.integers(0, 1))
    for sequence in range(draw(st.integers(1, 30))):
        epoch += draw(st.sampled_from((0, 0, 0, 0, 0, 0, 1)))
        is_control = draw(st.sampled_from((False, False, False, False, True)))
        producer_id = -1 if is_control else draw(st.sampled_from((-1, 1, 1, 1, 2, 4097)))
        count = draw(st.sampled_from((1, 1, 2, 9)))
        batch = encode_batch(
            [b"value"] * count,
            base_offset=offset,
            leader_epoch=epoch,
            timestamp_ms=draw(st.integers(-1, 9)),
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else draw(st.sampled_from((0, 0, 0, 1))),
            base_sequence=-1 if producer_id < 0 else sequence,
            is_control=is_control,
            compression=Compression.NONE if is_control else draw(st.sampled_from(Compression)),
        )
        batches.append(batch)
        offset += count
    return batches


@st.composite
def epochs_of(draw: st.DrawFn, batches: list[RecordBatch]) -> LeaderEpochCache:
    """The epochs of a log as they may be stored: those of its batches, or not quite, or only the last ones."""
    epochs = LeaderEpochCache()
    for batch in batches:
        epochs.assign(batch.leader_epoch, batch.base_offset)
    if draw(st.booleans()):
        epochs.assign(Epoch(draw(st.integers(0, 9))), Offset(draw(st.integers(100, batches[-1].end_offset))))
    epochs.truncate_from_start(Offset(draw(st.integers(-1, batches[-1].end_offset))))
    return epochs


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with some bits flipped, or some bytes missing at the end."""
    found = bytearray(data)
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2)))):
        found[draw(st.integers(0, len(found) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(found[: max(1, len(found) - draw(st.sampled_from((0, 0, 0, 1, 90))))])


def what_is_found(scan: LogScan, *parts: tuple[Offset, bytes]) -> tuple[object, ...]:
    """All that a search leaves, in segments that begin at these offsets and hold these bytes."""
    files = SimulatedFiles()
    files.mkdir(FOLDER)
    segments = []
    for base_offset, content in parts:
        segment = Segment.create(files, FOLDER, base_offset, scan.config)
        files.overwrite(segment.path, content)
        segments.append(Segment.open(files, FOLDER, base_offset, scan.config))
    scan.search(segments)
    for segment in segments:
        segment.store_indexes()
    indexes = {name: files.content(FOLDER / name) for name in files.names(FOLDER) if not name.endswith(".log")}
    damage = None if scan.damage is None else (scan.damage[0], scan.damage[1].position, scan.damage[1].reason)
    producers = None if scan.producers is None else scan.producers.entries
    newest = [(segment.max_timestamp_ms, segment.time_index.open_ms) for segment in segments]
    return scan.end_offset, scan.kept, scan.kept_bytes, scan.epochs, damage, producers, indexes, newest


@pytest.mark.slow
@given(st.data())
def test_runs_find_what_single_batches_say(native: CDLL, data: st.DataObject) -> None:
    """With runs and without, a log ends at the same byte, for the same reason, with the same indexes and producers."""
    batches = data.draw(logs())
    second = data.draw(st.integers(1, len(batches)))
    parts = [
        (held[0].base_offset, data.draw(damaged(b"".join(batch.data for batch in held))))
        for held in (batches[:second], batches[second:])
        if held
    ]
    written_in = data.draw(epochs_of(batches))
    recovery_point, log_start, producers_from = (
        Offset(data.draw(st.integers(95, batches[-1].end_offset + 1))) for _ in range(3)
    )
    config = LogConfig(index_interval_bytes=data.draw(st.sampled_from((1, 150, 400))), batch_bytes_max=300)
    found = [
        what_is_found(
            LogScan(
                config=config,
                log_start_offset=log_start,
                recovery_point=recovery_point,
                written_in=written_in,
                end_offset=Offset(100),
                producers=ProducerScan(),
                producers_from=producers_from,
                native=each,
            ),
            *parts,
        )
        for each in (native, None)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("log_start", "epoch_2_from", "refused_from"),
    [(0, 6, 6), (0, 7, 8), (6, 6, 6), (7, 7, 6)],
    ids=["at a batch", "inside a batch", "at the log start", "at a log start inside a batch"],
)
def test_an_epoch_that_was_not_written_is_found_within_a_run(
    log_start: int, epoch_2_from: int, refused_from: int, native: CDLL
) -> None:
    """Below the recovery point a batch is refused whose epoch is in order, but was over when it was written."""
    batches = [encode_batch([b"value"] * 2, base_offset=offset, leader_epoch=1) for offset in range(0, 20, 2)]
    written_in = LeaderEpochCache([EpochEntry(Epoch(1), Offset(0)), EpochEntry(Epoch(2), Offset(epoch_2_from))])
    scan = LogScan(
        config=LogConfig(),
        log_start_offset=Offset(log_start),
        recovery_point=Offset(20),
        written_in=written_in,
        end_offset=Offset(0),
        native=native,
    )
    what_is_found(scan, (Offset(0), b"".join(batch.data for batch in batches)))
    assert scan.end_offset == refused_from
    assert scan.damage is not None
    assert scan.damage[1].reason == "holds a batch of epoch 1 that was written in epoch 2"
