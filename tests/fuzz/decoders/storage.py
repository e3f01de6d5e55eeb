"""The decoders of a data directory: segments, indexes, checkpoints, snapshots of producers, and all small files."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import CDLL
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from nemesis.disks.simulated_files import SimulatedFiles
from replica.core.effects import QuorumState
from replica.core.log.epoch_cache import LeaderEpochCache
from replica.core.partition.producer_state import ProducerScan
from replica.ids import BrokerEpoch, Epoch, Offset, ReplicaId, SnapshotId, TopicId, TopicPartition
from replica.records.checksum import checksum
from replica.records.walking import library
from replica.storage.checkpoints import OffsetCheckpoint, PlacesCheckpoint, read_epochs, write_epochs
from replica.storage.clean_shutdown import read_clean_shutdown, write_clean_shutdown
from replica.storage.dump import dump_segment
from replica.storage.errors import StorageError
from replica.storage.files import OpenMode, read_file
from replica.storage.group_backup import MAGIC, CorruptBackupError, decode_backup, encode_backup
from replica.storage.log_directories import topic_partition_of
from replica.storage.log_scan import LogScan
from replica.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from replica.storage.partition_metadata import read_partition_metadata, write_partition_metadata
from replica.storage.producer_snapshots import decode_snapshot, encode_snapshot
from replica.storage.quorum_state_file import read_quorum_state, write_quorum_state
from replica.storage.segment import LOG_SUFFIX, Segment, base_offset_of
from replica.storage.snapshots import checkpoint_name, snapshot_id_of
from replica.storage.topic_backup import (
    CorruptTopicBackupError,
    decode_manifest,
    encode_manifest,
    read_partition,
    segment_path,
)
from replica.storage.voter_files import (
    read_initial_voters,
    read_voter_entries,
    write_initial_voters,
    write_voter_entries,
)
from replica.voters import VoterEntry
from tests.fuzz.decoder import Decoder, SaidNoError, of_bytes, of_text, there
from tests.fuzz.decoders.records import VOTERS, reseal
from tests.storage.disks import RECOVERY_POINTS, SMALL, close, entries
from tests.storage.partitions import PARTITION_PATH, open_partition
from tests.storage.test_group_backup import backup as group_backup
from tests.storage.test_producer_snapshots import filled, known
from tests.storage.test_topic_backup import FOLDER, NAME
from tests.storage.test_topic_backup import made as topic_backup

FILE = Path("/file")
CLEAN = Path("/data/.kafka_cleanshutdown")
GONE = b"gone"
"""In place of the content of a file that is not there."""
LINES = (b"0\n", b"1\n", b" ", b"-1", b"=", b": ", b"version", b"topic_id")
JSON_WORDS = (b'"', b"{", b"}", b"[", b"]", b":", b",", b"null", b"true", b'"data_version":1', b"-1", b'""')


# --- a whole log ----------------------------------------------------------------------------------------------------


@cache
def _closed() -> Mapping[str, bytes]:
    """A partition of three segments with producers, as a clean stop has left it."""
    files, _, stop = filled()
    stop()
    return files.tree()


def _disk(tree: Mapping[str, bytes]) -> SimulatedFiles:
    """A disk with these files."""
    files = SimulatedFiles(remember_calls=False)
    for path, content in tree.items():
        for folder in [*reversed(Path(path).parents)][1:]:
            if not files.exists(folder):
                files.mkdir(folder)
        files.close(files.open(Path(path), OpenMode.CREATE))
        files.overwrite(Path(path), content)
    return files


@cache
def _closed_disk() -> bytes:
    """The disk that the clean stop has left, to be read back for each input."""
    return pickle.dumps(_disk(_closed()))


def _name(number: int, suffix: str) -> str:
    """Of the files of a segment, in the order of their names."""
    names = sorted(name for name in _closed() if name.startswith(str(PARTITION_PATH)) and name.endswith(suffix))
    return names[number]


def _open_with(changed: Callable[[bytes], Mapping[str, bytes]], content: bytes) -> None:
    """Open the log with other files, and read all of it: once as a whole, and from each offset on."""
    files: SimulatedFiles = pickle.loads(_closed_disk())
    for name, held in changed(content).items():
        files.remove(Path(name)) if held == GONE else files.overwrite(Path(name), held)
    directory, log, _ = open_partition(files)
    try:
        log.read(log.log_start_offset, log.log_end_offset, 1 << 20)
        for offset in range(log.log_start_offset, min(log.log_end_offset, log.log_start_offset + 20)):
            log.read(Offset(offset), log.log_end_offset, 1)
    finally:
        close(directory, log)


def _unclean(recovery_point: int) -> dict[str, bytes]:
    """What a crash leaves of the marker and the indexes, with everything below the recovery point flushed."""
    kept = f"0\n1\nmy-topic 3 {recovery_point}\n".encode()
    return {str(CLEAN): GONE, str(RECOVERY_POINTS): kept}


def _segment(number: int, others: Mapping[str, bytes]) -> Callable[[bytes], Mapping[str, bytes]]:
    return lambda content: {_name(number, LOG_SUFFIX): content, **others}


def _right(number: int, suffix: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [_closed()[_name(number, suffix)]]


LOGS: tuple[Decoder, ...] = tuple(
    Decoder(
        name=name,
        decode=of_bytes(partial(_open_with, changed)),
        right=right,
        refusals=refusals,
        reseal=sealed,
        memory_bytes=8 << 20,
        memory_per_byte=400,
        cost=20,
    )
    for name, changed, right, sealed, refusals in (
        ("segment-torn", _segment(2, _unclean(0)), _right(2, LOG_SUFFIX), reseal, ()),
        ("segment-flushed", _segment(0, _unclean(12)), _right(0, LOG_SUFFIX), reseal, (StorageError,)),
        ("segment-closed", _segment(2, {}), _right(2, LOG_SUFFIX), reseal, (StorageError,)),
        ("offset-index", lambda content: {_name(0, ".index"): content}, _right(0, ".index"), None, ()),
        (
            "time-index",
            lambda content: {_name(0, ".timeindex"): content},
            _right(0, ".timeindex"),
            lambda content, _: _seal_behind(content, 2, _closed()[_name(0, ".index")]),
            (),
        ),
    )
)


def _seal_behind(content: bytearray, at: int, before: bytes = b"") -> None:
    """Let the checksum that stands there be that of ``before`` and all that follows."""
    if len(content) >= at + 4:
        content[at : at + 4] = checksum(before + bytes(content[at + 4 :])).to_bytes(4, "big")


# --- one segment ----------------------------------------------------------------------------------------------------


def _scanned(native: CDLL | None, content: bytes) -> list[Any]:
    """All that one search of a segment finds."""
    files = _one_file(Path("/00000000000000000000.log"), content)
    segment = Segment.open(files, Path("/"), Offset(0), SMALL)
    scan = LogScan(
        config=SMALL,
        log_start_offset=Offset(0),
        recovery_point=Offset(0),
        written_in=LeaderEpochCache(()),
        end_offset=Offset(0),
        producers=ProducerScan(()),
        native=native,
    )
    scan.search([segment])
    assert scan.producers is not None
    found = [scan.end_offset, scan.kept_bytes, scan.epochs, str(scan.damage), scan.producers.entries]
    index, times = segment.index, segment.time_index
    marks = [(index.start_of(at), times.first_from(at, 0)) for at in range(len(index) + 1)]
    return [*found, marks, index.last_position, times.open_ms, times.max_timestamp_ms]


def _scan_twice(content: bytes) -> None:
    """Search a segment with the library in C and without: both find the same."""
    assert _scanned(library(), content) == _scanned(None, content), "the search in C finds something else"


def _dump(content: bytes) -> None:
    for _ in dump_segment(FILE, files=_one_file(FILE, content)):
        pass


# --- small files ----------------------------------------------------------------------------------------------------


def _one_file(path: Path, content: bytes) -> SimulatedFiles:
    files = SimulatedFiles(remember_calls=False)
    files.close(files.open(path, OpenMode.CREATE))
    files.overwrite(path, content)
    return files


def _small(
    name: str,
    read: Callable[[Any, Path], object],
    *write: Callable[[SimulatedFiles], object],
    words: tuple[bytes, ...] = LINES,
) -> Decoder:
    """A small file: how it is read, and who writes it."""

    def right() -> Iterator[bytes]:
        for each in write:
            files = SimulatedFiles()
            each(files)
            yield read_file(files, FILE)

    return Decoder(
        name=name,
        decode=of_bytes(lambda content: read(_one_file(FILE, content), FILE)),
        right=lambda: list(right()),
        refusals=(StorageError,),
        words=words,
        memory_per_byte=400,
    )


def _stored_offsets(files: SimulatedFiles) -> None:
    OffsetCheckpoint(files, FILE, {}).put_all({TopicPartition("a-b", 0): Offset(7), TopicPartition("c", 12): Offset(0)})


def _stored_places(files: SimulatedFiles) -> None:
    PlacesCheckpoint(files, FILE, {}).put(TopicPartition("a-b", 0), "AAAAAAAAAAAAAAAAAAAAAQ")


STATES = (
    QuorumState(leader_epoch=Epoch(3), leader_id=ReplicaId(2)),
    QuorumState(leader_epoch=Epoch(0), voted_id=ReplicaId(1), voted_directory_id="AAAAAAAAAAAAAAAAAAAAAQ"),
)
META = MetaProperties(
    cluster_id="cluster", replica_id=ReplicaId(1), directory_id="AAAAAAAAAAAAAAAAAAAAAQ", feature_level=2
)
SMALL_FILES = (
    _small("leader-epochs", read_epochs, lambda files: write_epochs(files, FILE, entries((1, 0), (4, 9), (7, 120)))),
    _small("offset-checkpoint", OffsetCheckpoint.load, _stored_offsets),
    _small("places-checkpoint", PlacesCheckpoint.load, _stored_places),
    _small("meta-properties", read_meta_properties, lambda files: write_meta_properties(files, FILE, META)),
    _small("partition-metadata", read_partition_metadata, lambda f: write_partition_metadata(f, FILE, TopicId(17))),
    _small(
        "quorum-state",
        read_quorum_state,
        *(partial(write_quorum_state, path=FILE, state=state) for state in STATES),
        words=JSON_WORDS,
    ),
    _small("initial-voters", read_initial_voters, lambda f: write_initial_voters(f, FILE, VOTERS), words=JSON_WORDS),
    _small(
        "quorum-voters",
        read_voter_entries,
        lambda files: write_voter_entries(files, FILE, [VoterEntry(offset=Offset(5), voters=VOTERS)]),
        words=JSON_WORDS,
    ),
    _small(
        "clean-shutdown",
        read_clean_shutdown,
        lambda files: write_clean_shutdown(files, FILE, BrokerEpoch(8)),
        lambda files: write_clean_shutdown(files, FILE, None),
        words=JSON_WORDS,
    ),
)


def _read_names(text: str) -> object:
    """What a name in a data directory stands for: a log, a segment, an index, a snapshot, or nothing."""
    found = [base_offset_of(text, suffix) for suffix in (LOG_SUFFIX, ".index", ".timeindex", ".snapshot")]
    known = [*found, snapshot_id_of(text), topic_partition_of(text)]
    return there(next((each for each in known if each is not None), None))


def _seal_snapshot(content: bytearray, _: Random) -> None:
    _seal_behind(content, 2)


# --- back-ups -------------------------------------------------------------------------------------------------------


def _seal_backup(content: bytearray, _: Random) -> None:
    """Let the checksum at the end be that of all between it and the magic."""
    if len(content) >= len(MAGIC) + 4:
        content[-4:] = checksum(bytes(content[len(MAGIC) : -4])).to_bytes(4, "big")


def _seal_manifest(content: bytearray, _: Random) -> None:
    """Let the checksum be that of the manifest, where both still stand."""
    found = re.match(rb'\{"checksum":\d+,"manifest":(.*)\}', content, re.DOTALL)
    if found is not None:
        content[:] = b'{"checksum":%d,"manifest":%b}' % (checksum(found[1]), found[1])


def _read_backed_up(content: bytes) -> None:
    """Read a segment of a back-up, whose manifest says that it is as it is."""
    files, segment = topic_backup()
    path = segment_path(FOLDER, NAME, 0)
    files.overwrite(path, content)
    (one, *_) = segment.partitions
    (first, *_) = one.segments
    said = replace(first, size_bytes=len(content), checksum=checksum(content))
    list(read_partition(FOLDER, segment, replace(one, segments=(said,)), files))


def _backed_up() -> list[bytes]:
    files, _ = topic_backup()
    return [files.content(segment_path(FOLDER, NAME, 0))]


BACKUPS = (
    Decoder(
        name="group-backup",
        decode=of_bytes(decode_backup),
        right=lambda: [encode_backup(group_backup())],
        refusals=(CorruptBackupError,),
        reseal=_seal_backup,
    ),
    Decoder(
        name="topic-backup-manifest",
        decode=of_bytes(decode_manifest),
        right=lambda: [encode_manifest(topic_backup()[1])],
        refusals=(CorruptTopicBackupError,),
        reseal=_seal_manifest,
        words=JSON_WORDS,
    ),
    Decoder(
        name="topic-backup-segment",
        decode=of_bytes(_read_backed_up),
        right=_backed_up,
        refusals=(CorruptTopicBackupError,),
        reseal=reseal,
        memory_bytes=8 << 20,
        cost=5,
    ),
)


DECODERS = (
    *LOGS,
    *BACKUPS,
    Decoder(
        name="segment-scan",
        decode=of_bytes(_scan_twice),
        right=lambda: [_closed()[_name(number, LOG_SUFFIX)] for number in (0,)],
        reseal=reseal,
        memory_bytes=8 << 20,
        cost=5,
    ),
    Decoder(name="segment-dump", decode=of_bytes(_dump), right=_right(1, LOG_SUFFIX), reseal=reseal),
    *SMALL_FILES,
    Decoder(
        name="producer-snapshot",
        decode=of_bytes(lambda content: there(decode_snapshot(content))),
        right=lambda: [encode_snapshot(known(12)), encode_snapshot(())],
        refusals=(SaidNoError,),
        reseal=_seal_snapshot,
    ),
    Decoder(
        name="log-file-names",
        decode=of_text(_read_names),
        right=lambda: [
            *(b"my-topic-3", b"00000000000000000005.log", b"00000000000000000005.snapshot"),
            checkpoint_name(SnapshotId(Offset(9), Epoch(2))).encode(),
        ],
        refusals=(SaidNoError,),
        words=(b"-", b".log", b"0", b".index", b".checkpoint"),
    ),
)
