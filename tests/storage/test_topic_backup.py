"""The folder of a topic's back-up: whole or refused, whatever is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.ids import TopicPartition
from replica.records import encode_batch
from replica.records.checksum import checksum
from replica.storage.topic_backup import (
    MANIFEST,
    CorruptTopicBackupError,
    PartitionBackup,
    SegmentFile,
    SegmentWriter,
    TopicBackup,
    check_whole,
    decode_manifest,
    encode_manifest,
    read_manifest,
    read_partition,
    segment_path,
    write_manifest,
)
from tests.depth import times

FOLDER = Path("/backup")
NAME = TopicPartition("orders", 0)


def write_segment(files: SimulatedFiles, base_offset: int, *, count: int = 3, epoch: int = 2) -> SegmentFile:
    """Batches of two records from there on."""
    writer = SegmentWriter(FOLDER, NAME, files)
    for number in range(count):
        writer.append(encode_batch([b"a", b"%d" % number], base_offset=base_offset + 2 * number, leader_epoch=epoch))
    segment = writer.finish()
    assert segment is not None
    return segment


def manifest(*segments: SegmentFile, start_offset: int = 0) -> TopicBackup:
    """A topic of one partition with these segments, and one that is empty."""
    return TopicBackup(
        topic="orders",
        topic_id=7,
        cluster_id="c",
        release="1.0",
        taken_ms=1_700_000_000_000,
        configs={"retention.ms": "1000"},
        partitions=(
            PartitionBackup(partition=0, start_offset=start_offset, segments=segments),
            PartitionBackup(partition=1, start_offset=9),
        ),
    )


def made() -> tuple[SimulatedFiles, TopicBackup]:
    """A back-up that was continued once, whose first record was deleted."""
    files = SimulatedFiles()
    backup = manifest(write_segment(files, 0), write_segment(files, 6), start_offset=1)
    write_manifest(FOLDER, backup, files)
    return files, backup


def test_a_back_up_is_read_as_it_was_written() -> None:
    """All batches in their order, also after a power loss."""
    files, backup = made()
    files.crash()
    assert read_manifest(FOLDER, files) == backup
    assert check_whole(FOLDER, backup, files) == 12
    batches = [*read_partition(FOLDER, backup, backup.partitions[0], files)]
    assert [batch.base_offset for batch in batches] == [0, 2, 4, 6, 8, 10]
    assert segment_path(FOLDER, NAME, 6).name == "00000000000000000006.log"


def test_damage_at_random_bytes_is_refused() -> None:
    """A flipped bit in any file, or a file that is cut or longer, is no back-up any more."""
    files, backup = made()
    paths = [FOLDER / MANIFEST, segment_path(FOLDER, NAME, 0), segment_path(FOLDER, NAME, 6)]
    for seed in range(times(300)):
        dice = Random(seed)
        path = dice.choice(paths)
        whole = files.content(path)
        at = dice.randrange(len(whole))
        flipped = whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :]
        files.overwrite(path, dice.choice([flipped, whole[:at], whole + b"x"]))
        with pytest.raises(CorruptTopicBackupError):
            found = read_manifest(FOLDER, files)
            assert found is not None
            check_whole(FOLDER, found, files)
            assert found == backup, "damage went unnoticed"
        files.overwrite(path, whole)


def test_a_missing_segment_is_named() -> None:
    """A file that is gone is damage too."""
    files, backup = made()
    files.unlink(segment_path(FOLDER, NAME, 6))
    with pytest.raises(CorruptTopicBackupError, match=r"00000000000000000006\.log is missing"):
        check_whole(FOLDER, backup, files)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1},
        {"topic": "../orders"},
        {"partitions": ()},
        {"partitions": (PartitionBackup(partition=1, start_offset=0),)},
    ],
    ids=str,
)
def test_a_manifest_that_cannot_be_is_refused(change: dict[str, object]) -> None:
    """Also where its checksum fits: no other version, no name that leads out of the folder, no partition missing."""
    _, backup = made()
    lied = replace(backup, **change)
    if change == {"partitions": ()}:
        assert decode_manifest(encode_manifest(lied)).partitions == ()
        return
    with pytest.raises(CorruptTopicBackupError):
        decode_manifest(encode_manifest(lied))


@pytest.mark.parametrize(
    "ends",
    [[(0, 6), (8, 12)], [(0, 6), (4, 12)], [(6, 6)], [(2, 6)], [(0, 1)]],
    ids=["gap", "twice", "empty", "late", "early"],
)
def test_segments_with_a_gap_are_refused(ends: list[tuple[int, int]]) -> None:
    """They follow each other, and the first holds the record where the partition begins."""
    files, backup = made()
    (one,) = backup.partitions[0].segments[:1]
    segments = tuple(replace(one, base_offset=base, end_offset=end) for base, end in ends)
    with pytest.raises(CorruptTopicBackupError, match="with a gap"):
        decode_manifest(encode_manifest(manifest(*segments, start_offset=1)))
    assert files.exists(FOLDER)


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b'{"checksum": 0, "manifest": 1}', b"\xff"], ids=len)
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    """Whatever it is instead, by one error."""
    with pytest.raises(CorruptTopicBackupError):
        decode_manifest(content)


def test_a_manifest_is_read_by_people() -> None:
    """It is JSON, with the checksum of the text of the manifest as it stands there."""
    text = encode_manifest(manifest()).decode()
    assert json.loads(text)["manifest"]["configs"] == {"retention.ms": "1000"}
    inner = text[text.index('"manifest":') + len('"manifest":') : text.rindex("}")]
    assert json.loads(text)["checksum"] == checksum(inner.encode())


def test_what_is_broken_off_is_not_part_of_it() -> None:
    """A power loss before any call of the disk leaves the back-up of before, whole, or the new one."""
    counted, backup = made()
    before = counted.operations
    longer = manifest(*backup.partitions[0].segments, write_segment(counted, 12), start_offset=1)
    write_manifest(FOLDER, longer, counted)
    for operation in range(before, counted.operations + 1):
        files, _ = made()
        files.power_fails_before = operation
        try:
            write_segment(files, 12)
            write_manifest(FOLDER, longer, files)
        except PowerLossError:
            pass
        files.crash()
        found = read_manifest(FOLDER, files)
        assert found in (backup, longer)
        assert found is not None
        check_whole(FOLDER, found, files)


def test_a_first_back_up_that_is_broken_off_is_none() -> None:
    """Without a manifest there is no back-up, whatever else there is."""
    files = SimulatedFiles()
    assert read_manifest(FOLDER, files) is None
    write_segment(files, 0)
    assert read_manifest(FOLDER, files) is None
