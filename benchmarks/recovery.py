"""How fast a replica is back after kill -9: the bytes of its logs that it reads, checks and indexes a second.

Owns the measurement and its figures in ``store/bench-recovery.json``. The logs are of one idempotent producer, flushed
and in the page cache, so that neither the platter nor a producer is measured; nothing says that they were closed
cleanly. The best of some rounds counts, since the machine may be busy.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from nemesis.runner import versions
from replica.ids import Offset, ReplicaId, TopicId, TopicPartition
from replica.records import RecordBatch, encode_batch
from replica.storage import LogStore, LogTable, format_directory, open_directory
from replica.storage.segment import log_file_name
from replica.voters import VoterSet

MEBIBYTE = 1 << 20
OVERHEAD_BYTES = 70
"""What a batch of one record takes beside its value, to a few bytes."""
WRITTEN_AT_A_TIME = 4 * MEBIBYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """So many partitions, of batches of about this size."""

    partitions: int
    batch_bytes: int


CASES = [Logs(partitions=count, batch_bytes=size) for count in (1, 64) for size in (170, 16 << 10, 64 << 10)]


def write(path: Path, logs: Logs, size_bytes: int) -> int:
    """Make a data directory that was not closed, with about so many bytes in its logs; how many there are."""
    format_directory(path, cluster_id="bench", replica_id=ReplicaId(1), initial_voters=VoterSet(()))
    directory = open_directory(path)
    written = 0
    for number in range(logs.partitions):
        name = TopicPartition("bench", number)
        directory.create_log(name, TopicId(1))
        LogStore.open(directory, name)[0].close(clean=False)
        with (directory.log_path(name) / log_file_name(Offset(0))).open("wb") as file:
            for part in parts(logs.batch_bytes, size_bytes // logs.partitions):
                written += file.write(part)
            os.fsync(file.fileno())
    directory.close(clean=False)
    return written


def parts(batch_bytes: int, size_bytes: int) -> Iterator[bytes]:
    """The content of a log of so many bytes, some batches at a time."""
    value = os.urandom(batch_bytes - OVERHEAD_BYTES)
    batch = encode_batch([value], timestamp_ms=1, producer_id=1, producer_epoch=0, base_sequence=0)
    count, at_a_time = size_bytes // batch.size_bytes, WRITTEN_AT_A_TIME // batch.size_bytes
    for base_offset in range(0, count, at_a_time):
        yield b"".join(stamped(batch, offset) for offset in range(base_offset, min(base_offset + at_a_time, count)))


def stamped(batch: RecordBatch, base_offset: int) -> bytes:
    """The bytes of a batch at this offset in epoch 0; quicker than by the way on which a leader does it."""
    return base_offset.to_bytes(8, "big") + batch.data[8:12] + b"\0\0\0\0" + batch.data[16:]


def recover(path: Path) -> tuple[float, float]:
    """Open the directory as after kill -9; how long that takes, and how much processor time, in seconds."""
    begun_s, used_s = time.perf_counter(), time.process_time()
    table = LogTable.open(open_directory(path), ())
    took_s, used_s = time.perf_counter() - begun_s, time.process_time() - used_s
    table.abandon()
    return took_s, used_s


def measure(logs: Logs, size_bytes: int, rounds: int, scratch: Path | None) -> Mapping[str, object]:
    """The best of some recoveries of the same logs."""
    with tempfile.TemporaryDirectory(prefix="recovery-", dir=scratch) as folder:
        written = write(Path(folder) / "data", logs, size_bytes)
        took = [recover(Path(folder) / "data") for _ in range(rounds)]
    took_s, used_s = (min(times) for times in zip(*took, strict=True))
    return {
        "partitions": logs.partitions,
        "batch_bytes": logs.batch_bytes,
        "megabytes": round(written / 1e6),
        "took_s": round(took_s, 3),
        "cpu_s": round(used_s, 3),
        "megabytes_per_s": round(written / 1e6 / took_s),
        "megabytes_per_cpu_s": round(written / 1e6 / used_s),
    }


@click.command()
@click.option("--mebibytes", type=click.IntRange(64), default=1024, show_default=True, help="What each case reads.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--scratch", type=click.Path(file_okay=False, path_type=Path), help="Where the logs are written.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("store/bench-recovery.json"))
def main(mebibytes: int, rounds: int, scratch: Path | None, output: Path) -> None:
    """Measure recoveries of logs of several kinds, print the figures and write them as JSON."""
    found = []
    for logs in CASES:
        found.append(measure(logs, mebibytes * MEBIBYTE, rounds, scratch))
        click.echo(json.dumps(found[-1]))
    output.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "machine": platform.machine()}
    figures = {"versions": versions(), "machine": machine, "recovery": found}
    output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    click.echo(f"result: {output}")


if __name__ == "__main__":
    main()
