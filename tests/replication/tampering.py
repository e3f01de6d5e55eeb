"""What is done to the disk of a machine that is down: logs written by hand or cut, markers and checkpoints taken away.

Owns the names of the files. What was done to a log is also made believable: its recovery point is put below, as if it
had never been flushed, and the marker of a clean stop goes.
"""

from __future__ import annotations

from pathlib import Path

from nemesis.disks.simulated_files import SimulatedFiles
from nemesis.simulator.disk import DATA
from replica.ids import TopicPartition
from replica.records import RecordBatch, encode_batch
from replica.storage import LogStore, open_directory
from tests.replication.bench import Cluster

MARKER = DATA / ".kafka_cleanshutdown"
RECOVERY_POINTS = DATA / "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = DATA / "replication-offset-checkpoint"
LOG_STARTS = DATA / "log-start-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"


def files_of(cluster: Cluster, broker_id: int) -> SimulatedFiles:
    """The files of a machine that is down."""
    assert not cluster.node(broker_id).is_up, broker_id
    return cluster.node(broker_id).disk.files


def segments(cluster: Cluster, broker_id: int, name: TopicPartition) -> list[Path]:
    """The segments of a log, oldest first."""
    folder = DATA / str(name)
    names = cluster.node(broker_id).disk.files.names(folder)
    return sorted(folder / each for each in names if each.endswith(".log"))


def log_bytes(cluster: Cluster, broker_id: int, name: TopicPartition) -> bytes:
    """A log as it stands on disk."""
    files = cluster.node(broker_id).disk.files
    return b"".join(files.content(path) for path in segments(cluster, broker_id, name))


def cut_log(cluster: Cluster, broker_id: int, name: TopicPartition, size_bytes: int) -> None:
    """Keep so many bytes of a log, and stop it from being taken for whole."""
    files = files_of(cluster, broker_id)
    for path in segments(cluster, broker_id, name):
        content = files.content(path)
        files.overwrite(path, content[: max(0, size_bytes)])
        size_bytes -= len(content)
    forget(cluster, broker_id, name)


def write_log(cluster: Cluster, broker_id: int, name: TopicPartition, *epochs_and_counts: tuple[int, int]) -> None:
    """Let a log hold just so many records of each epoch, with values that tell epoch and offset."""
    epochs = [epoch for epoch, count in epochs_and_counts for _ in range(count)]
    write_batches(
        cluster,
        broker_id,
        name,
        *(
            encode_batch([b"e%d@%d" % (epoch, offset)], base_offset=offset, leader_epoch=epoch)
            for offset, epoch in enumerate(epochs)
        ),
    )


def write_batches(cluster: Cluster, broker_id: int, name: TopicPartition, *batches: RecordBatch) -> None:
    """Let a log hold just these batches."""
    files = files_of(cluster, broker_id)
    if not files.exists(DATA / str(name)):
        _make_log(cluster, broker_id, name)
    data = b"".join(batch.data for batch in batches)
    first, *others = segments(cluster, broker_id, name)
    files.overwrite(first, data)
    for path in others:
        files.remove(path)
    forget(cluster, broker_id, name)


def _make_log(cluster: Cluster, broker_id: int, name: TopicPartition) -> None:
    """Let a log that never had a record have files."""
    directory = open_directory(DATA, files=files_of(cluster, broker_id))
    directory.create_log(name, cluster.topic_ids[name.topic])
    log, _ = LogStore.open(directory, name)
    log.close(clean=False)
    directory.close(clean=False)


def forget(cluster: Cluster, broker_id: int, name: TopicPartition) -> None:
    """Let the process that begins next look through a whole log."""
    files = files_of(cluster, broker_id)
    if MARKER.name in files.names(DATA):
        files.remove(MARKER)
    entries = {log: offset for log, offset in checkpoint(cluster, broker_id, RECOVERY_POINTS).items() if log != name}
    lines = [f"{log.topic} {log.partition} {offset}" for log, offset in entries.items()]
    files.overwrite(RECOVERY_POINTS, "\n".join(["0", f"{len(lines)}", *lines, ""]).encode())


def checkpoint(cluster: Cluster, broker_id: int, path: Path) -> dict[TopicPartition, int]:
    """One of the files that hold an offset for each log."""
    lines = cluster.node(broker_id).disk.files.content(path).decode().splitlines()[2:]
    fields = [line.split() for line in lines]
    return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in fields}
