"""A recorded run is found again as it was written, and a damaged folder says what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nemesis.history import (
    APPEND,
    NEMESIS_PROCESS,
    POLL,
    EventType,
    HistoryError,
    HistoryEvent,
    PolledRecord,
    ReplicaEvent,
    ReplicaLogBatch,
)
from nemesis.history import reader as reader_module
from nemesis.history.reader import (
    ShardListing,
    is_complete,
    list_shards,
    read_history,
    read_replica_events,
    read_replica_logs,
    read_table,
)
from nemesis.history.schemas import HISTORY_SCHEMA, REPLICA_EVENT_SCHEMA, REPLICA_LOG_SCHEMA, Kind
from nemesis.history.tables import export_jsonl
from nemesis.history.writer import HistoryWriter
from tests.depth import is_night


def event(index: int, **fields: Any) -> HistoryEvent:
    """One event of the history; by default the invocation of an append."""
    known: dict[str, Any] = {"process": 0, "type": EventType.INVOKE, "f": APPEND} | fields
    return HistoryEvent(index=index, time_ns=index * 10, **known)


def batch(base_offset: int | None) -> ReplicaLogBatch:
    """A batch of one value."""
    return ReplicaLogBatch(
        replica_id=1,
        topic_partition="log-0",
        base_offset=base_offset,
        last_offset=base_offset,
        leader_epoch=1,
        crc=7,
        is_control=False,
        values=(5,),
        high_watermark=3,
        log_end_offset=3,
        complete=True,
    )


def test_rows_come_back_as_written(tmp_path: Path) -> None:
    """All three tables hold what was written, in order, with the declared columns."""
    with HistoryWriter(tmp_path) as writer:
        writer.write(event(0, value=4, topic_partition="log-0"))
        writer.write(event(1, type=EventType.OK, f=POLL, records=(PolledRecord(offset=3, value=4),), limited=True))
        writer.write(event(2, process=NEMESIS_PROCESS, f="kill", detail="{}"))
        writer.write(batch(2))
        writer.write(ReplicaEvent(time_ns=5, replica_id=1, event="truncated", epoch=2, offset=9))
    history = read_history(tmp_path)
    assert history.schema == HISTORY_SCHEMA
    assert history.column("index").to_pylist() == [0, 1, 2]
    assert history.column("type").to_pylist() == ["invoke", "ok", "invoke"]
    assert history.column("records").to_pylist() == [None, [{"offset": 3, "value": 4}], None]
    logs, events = read_replica_logs(tmp_path), read_replica_events(tmp_path)
    assert (logs.schema, events.schema) == (REPLICA_LOG_SCHEMA, REPLICA_EVENT_SCHEMA)
    assert logs.column("values").to_pylist() == [[5]]
    assert events.column("offset").to_pylist() == [9]
    assert is_complete(tmp_path)
    assert not list(tmp_path.rglob("*.unfinished"))


def test_full_shards_are_on_disk_before_the_end(tmp_path: Path) -> None:
    """A full shard can be read while the run goes on, and the rest follows at a flush."""
    writer = HistoryWriter(tmp_path, shard_rows=2)
    for index in range(5):
        writer.write(event(index))
    assert read_history(tmp_path).num_rows == 4
    writer.flush()
    assert read_history(tmp_path).num_rows == 5
    assert not is_complete(tmp_path)


def test_a_run_that_raises_is_not_complete(tmp_path: Path) -> None:
    """An exception keeps what was recorded and leaves out the marker."""
    writer = HistoryWriter(tmp_path)
    with pytest.raises(ValueError, match="event 7"), writer:
        writer.write(event(7))
    writer = HistoryWriter(tmp_path / "other")
    writer.write(event(0))
    writer.abandon()
    assert read_history(tmp_path / "other").num_rows == 1
    assert not is_complete(tmp_path)
    assert not is_complete(tmp_path / "other")


def test_indexes_have_no_gaps(tmp_path: Path) -> None:
    """An index that is not the next one is refused, and the next one is still accepted."""
    writer = HistoryWriter(tmp_path)
    writer.write(event(0))
    with pytest.raises(ValueError, match="event 2 follows 0"):
        writer.write(event(2))
    writer.write(event(writer.next_index))


def test_nothing_after_the_end(tmp_path: Path) -> None:
    """A closed history takes nothing more, and closing it again is harmless."""
    writer = HistoryWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write(event(0))


def test_a_recorded_run_is_not_overwritten(tmp_path: Path) -> None:
    """A folder that holds a history is refused for a new run."""
    with HistoryWriter(tmp_path) as writer:
        writer.write(event(0))
    with pytest.raises(FileExistsError, match="already holds"):
        HistoryWriter(tmp_path)


@pytest.mark.parametrize("shard_rows", [0, -1, 10_000_001])
def test_shard_rows_are_bounded(tmp_path: Path, shard_rows: int) -> None:
    """A shard size outside its bounds is refused."""
    with pytest.raises(ValueError, match="shard_rows"):
        HistoryWriter(tmp_path, shard_rows=shard_rows)


def write_shards(folder: Path) -> None:
    """A complete history of four shards with one event each."""
    with HistoryWriter(folder, shard_rows=1) as writer:
        for index in range(4):
            writer.write(event(index))


def test_a_gap_ends_the_history(tmp_path: Path) -> None:
    """Shards after a missing one are left out, and the missing one is named."""
    write_shards(tmp_path)
    (tmp_path / "history/part-00001.parquet").unlink()
    listing = list_shards(tmp_path, Kind.HISTORY)
    assert [path.name for path in listing.paths] == ["part-00000.parquet"]
    assert "part-00001.parquet is missing" in listing.problems[0]


@pytest.mark.parametrize("kind", list(Kind))
def test_missing_last_shards_are_noticed(kind: Kind, tmp_path: Path) -> None:
    """The marker of a complete history tells how many rows each table has, so none can be cut off at its end."""
    with HistoryWriter(tmp_path, shard_rows=1) as writer:
        for index in range(2):
            writer.write(event(index))
            writer.write(batch(index))
            writer.write(ReplicaEvent(time_ns=index, replica_id=1, event="truncated", epoch=2, offset=9))
    assert [list_shards(tmp_path, every).problems for every in Kind] == [(), (), ()]
    for left in (1, 0):
        (tmp_path / kind / f"part-{left:05d}.parquet").unlink()
        (problem,) = list_shards(tmp_path, kind).problems
        assert problem == f"{kind}/ has {left} rows, and history/_COMPLETE says that it had 2"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"history": null}', "{"])
def test_a_marker_that_tells_nothing_is_noticed(text: str, tmp_path: Path) -> None:
    """A marker without the number of rows cannot vouch for them."""
    write_shards(tmp_path)
    (tmp_path / "history/_COMPLETE").write_text(text)
    (problem,) = list_shards(tmp_path, Kind.HISTORY).problems
    assert "does not say how many rows history/ has" in problem


def test_a_torn_shard_ends_the_history(tmp_path: Path) -> None:
    """A shard cut short is named, and the shards before it are kept; unfinished ones are not looked at."""
    write_shards(tmp_path)
    torn = tmp_path / "history/part-00002.parquet"
    torn.write_bytes(torn.read_bytes()[:-20])
    (tmp_path / "history/.part-00004.parquet.unfinished").write_bytes(b"PAR1")
    listing = list_shards(tmp_path, Kind.HISTORY)
    assert len(listing.paths) == 2
    assert "part-00002.parquet cannot be read" in listing.problems[0]
    assert read_history(tmp_path).num_rows == 2


@pytest.mark.slow
def test_a_changed_bit_is_noticed(tmp_path: Path) -> None:
    """Wherever a bit of the rows has changed on the disk, the shard is refused, and never read as something else."""
    write_shards(tmp_path)
    path = tmp_path / "history/part-00001.parquet"
    whole, rows = path.read_bytes(), read_history(tmp_path)
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    refused, places = 0, range(4, footer, 1 if is_night() else 3)
    for at in places:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            assert read_history(tmp_path) == rows, f"byte {at}"
        except HistoryError:
            refused += 1
    assert refused > len(places) // 4


@pytest.mark.slow
def test_a_shard_that_explodes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard of kilobytes in which many rows have one long text is refused by what it would come to."""
    with HistoryWriter(tmp_path) as writer:
        for index in range(2000):
            writer.write(event(index, detail="x" * 100_000))
    (path,) = list_shards(tmp_path, Kind.HISTORY).paths
    pq.write_table(pq.read_table(path), path, compression="zstd", write_statistics=False)
    assert path.stat().st_size < 40_000
    assert read_history(tmp_path).num_rows == 2000
    monkeypatch.setattr(reader_module, "SHARD_BYTES_MAX", 100_000_000)

    with pytest.raises(HistoryError, match=r"part-00000\.parquet comes to \d+ bytes .* SHARD_BYTES_MAX"):
        read_history(tmp_path)


def test_many_shards_that_explode_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of which each may be read are refused where all of a table come to too much, before the rest is read."""
    write_shards(tmp_path)
    paths = list_shards(tmp_path, Kind.HISTORY).paths
    sizes = [pq.read_table(path).nbytes for path in paths]
    assert len(sizes) > 1
    paths[-1].write_bytes(b"never read")
    monkeypatch.setattr(reader_module, "TABLE_BYTES_MAX", sizes[0] // 2)

    with pytest.raises(HistoryError, match=r"history/ comes to more than TABLE_BYTES_MAX, \d+ .* --engine spark"):
        read_table(ShardListing(kind=Kind.HISTORY, paths=paths, problems=()))


def test_foreign_columns_are_refused(tmp_path: Path) -> None:
    """A shard without the declared columns is an error that names it."""
    write_shards(tmp_path)
    path = tmp_path / "history/part-00000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["process"]), path)
    with pytest.raises(HistoryError, match=r"part-00000.parquet has columns"):
        read_history(tmp_path)


def test_a_folder_without_history_is_refused(tmp_path: Path) -> None:
    """A folder that is no run folder is an error that names it."""
    with pytest.raises(HistoryError, match="is not a run folder"):
        read_history(tmp_path)


def test_json_lines(tmp_path: Path) -> None:
    """The export has one object a row and leaves out what is absent."""
    write_shards(tmp_path)
    target = tmp_path / "history.jsonl"
    assert export_jsonl(tmp_path, target) == 4
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert lines[3] == {"index": 3, "time_ns": 30, "process": 0, "type": "invoke", "f": "append"}


def test_the_history_is_there_when_the_other_tables_are(tmp_path: Path) -> None:
    """A folder is known for a run by its history: whoever sees that may watch all the tables."""
    (tmp_path / "events").touch()
    with pytest.raises(FileExistsError):
        HistoryWriter(tmp_path)
    assert not (tmp_path / "history").exists()
