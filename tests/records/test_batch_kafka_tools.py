"""Our batches read by Kafka's own tool (``DumpLogSegments``), which checks every CRC and goes into every record."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from nemesis.errors import UnsupportedError
from nemesis.systems.kafka.jars import resolve_jars
from nemesis.systems.kafka.system import java_command
from nemesis.systems.programs import full_path
from replica.ids import Epoch, Offset, ReplicaId
from replica.records import Compression, Record, RecordBatch, encode_batch, leader_change_batch

TIME_MS = 1_700_000_000_000
DUMPED_S_MAX = 120.0

RECORDS = (
    Record(offset=Offset(0), timestamp_ms=TIME_MS, key=b"k", value=b"v", headers=(("h", b"1"), ("n", None))),
    Record(offset=Offset(1), timestamp_ms=TIME_MS + 777, key=None, value=b"no-key"),
    Record(offset=Offset(2), timestamp_ms=TIME_MS - 1, key=b"tombstone", value=None),
    Record(offset=Offset(3), timestamp_ms=TIME_MS, key=b"x" * 64, value=b"y" * 20_000),
)


def from_offset(offset: int) -> tuple[Record, ...]:
    """The same records behind others."""
    return tuple(
        Record(
            offset=Offset(offset + at),
            timestamp_ms=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        for at, record in enumerate(RECORDS)
    )


BATCHES: tuple[RecordBatch, ...] = (
    encode_batch(RECORDS, leader_epoch=1),
    encode_batch(from_offset(4), base_offset=4, leader_epoch=1, compression=Compression.LZ4),
    encode_batch(from_offset(8), base_offset=8, leader_epoch=2, compression=Compression.ZSTD),
    encode_batch(from_offset(12), base_offset=12, leader_epoch=2, producer_id=7, producer_epoch=3, base_sequence=41),
    leader_change_batch(
        leader_id=ReplicaId(2),
        voters=(ReplicaId(1), ReplicaId(2)),
        granting_voters=(ReplicaId(2),),
        base_offset=Offset(16),
        leader_epoch=Epoch(3),
    ),
)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Mapping[str, str]]:
    """What Kafka's tool says of a segment with all batches: a row for each batch and each record."""
    try:
        jars = resolve_jars()
        java = full_path("java")
    except UnsupportedError as missing:
        pytest.skip(f"Kafka's tools cannot be had here: {missing}")
    return dump(tmp_path_factory.mktemp("kafka"), java, jars, b"".join(bytes(batch.data) for batch in BATCHES))


def dump(folder: Path, java: str, jars: Path, segment: bytes) -> Sequence[Mapping[str, str]]:
    """Run Kafka's tool over one segment."""
    path = folder / "00000000000000000000.log"
    path.write_bytes(segment)
    words = ("--files", str(path), "--print-data-log", "--deep-iteration")
    command = java_command(java, jars, "kafka.tools.DumpLogSegments", *words)
    told = subprocess.run(command, capture_output=True, text=True, timeout=DUMPED_S_MAX, check=True).stdout
    lines = [line for line in told.splitlines() if line.startswith(("baseOffset:", "| offset:"))]
    return [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines]


@pytest.mark.slow
def test_kafka_finds_every_batch_where_and_as_we_wrote_it(dumped: Sequence[Mapping[str, str]]) -> None:
    """Offsets, epochs, producers, codecs and CRCs of all batches, one of them a control batch."""
    found = [row for row in dumped if "baseOffset" in row]
    assert [(int(row["baseOffset"]), int(row["lastOffset"]), int(row["count"])) for row in found] == [
        (batch.base_offset, batch.last_offset, batch.last_offset - batch.base_offset + 1) for batch in BATCHES
    ]
    assert [int(row["partitionLeaderEpoch"]) for row in found] == [1, 1, 2, 2, 3]
    assert [row["compresscodec"].lower() for row in found] == ["none", "lz4", "zstd", "none", "none"]
    assert [(row["producerId"], row["producerEpoch"], row["baseSequence"]) for row in found] == [
        *[("-1", "-1", "-1")] * 3,
        ("7", "3", "41"),
        ("-1", "-1", "-1"),
    ]
    assert [row["isControl"] for row in found] == ["false"] * 4 + ["true"]
    assert {row["isvalid"] for row in found} == {"true"}
    assert [int(row["size"]) for row in found] == [batch.size_bytes for batch in BATCHES]


def test_kafka_reads_every_record_as_we_wrote_it(dumped: Sequence[Mapping[str, str]]) -> None:
    """Keys, values, times, sequence numbers and headers, whatever the codec; -1 is the size of what is not there."""
    found = [row for row in dumped if "baseOffset" not in row][: 4 * len(RECORDS)]
    for at, row in enumerate(found):
        record = RECORDS[at % len(RECORDS)]
        assert (int(row["offset"]), int(row["CreateTime"])) == (at, record.timestamp_ms)
        assert int(row["keySize"]) == (-1 if record.key is None else len(record.key))
        assert int(row["valueSize"]) == (-1 if record.value is None else len(record.value))
        assert int(row["sequence"]) == (-1 if at < 12 else 41 + at % len(RECORDS))
        if record.value:
            assert row["payload"] == record.value.decode()
        if record.key:
            assert row["key"] == record.key.decode()
    assert [row["headerKeys"] for row in found] == ["[h,n]", "[]", "[]", "[]"] * 4


@pytest.mark.slow
def test_kafka_sees_a_flipped_bit(dumped: Sequence[Mapping[str, str]], tmp_path: Path) -> None:
    """The tool does look: of a batch whose value was changed it says that the CRC is wrong."""
    assert dumped
    damaged = bytearray(BATCHES[0].data)
    damaged[-100] ^= 1
    (found,) = [row for row in dump(tmp_path, full_path("java"), resolve_jars(), bytes(damaged)) if "isvalid" in row]
    assert found["isvalid"] == "false"
