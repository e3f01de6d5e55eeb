"""How much of a file is in memory: as little as it takes, and no more than the limits say, whatever the file says."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nemesis.cli.__main__ import main
from nemesis.formats import events, kafka_operations
from nemesis.formats import parquet as parquet_module
from nemesis.formats.errors import HistoryError
from nemesis.formats.kafka_operations import micro_operations
from nemesis.formats.keyed import KeyPairs
from nemesis.formats.parquet import _values
from nemesis.formats.reading import read_history_file
from tests.formats.histories import written

LONG = "a" * 100_000
EVENTS = 4_000
EVENT_BYTES_MAX = 120
"""Far more than columns take for an event, and less than half of what an object takes."""
KAFKA_EVENT_BYTES_MAX = 150
"""The same of a Kafka workload, with its rows in batches: an operation in a dictionary takes ten times as much."""
FEW_ROWS = 100
"""How many rows of a Kafka workload are in a batch here: a small part of all of them."""
ROW_BYTES_MAX = 6_000
"""What a row takes while it is a dictionary, as those of one batch are."""


def events_of(values: list[Any]) -> dict[str, Any]:
    """The columns of writes of these values, all by one process."""
    count = 2 * len(values)
    doubled = [value for value in values for _ in range(2)]
    return {"process": [0] * count, "type": ["invoke", "ok"] * len(values), "f": ["write"] * count, "value": doubled}


def bomb(folder: Path, values: pa.Array) -> Path:
    """A Parquet file with these values, each once if it stands in many rows."""
    columns = {name: pa.array(column) for name, column in events_of([None] * (len(values) // 2)).items()}
    path = folder / "bomb.parquet"
    pq.write_table(pa.table(columns | {"value": values}), path, compression="zstd", write_statistics=False)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("value", [LONG, [LONG, LONG + "b"], [1, 2, LONG]], ids=["text", "pair", "list"])
def test_a_text_of_many_rows_is_in_memory_once(tmp_path: Path, value: object) -> None:
    """A file of kilobytes whose rows come to 200 MB takes less than the text of ten of them."""
    path = bomb(tmp_path, pa.array([json.dumps(value)] * 2000))
    assert path.stat().st_size < 10_000
    read_history_file(path)
    tracemalloc.start()
    try:
        history = read_history_file(path)
        assert len(history.operations()) == 1000
        assert tracemalloc.get_traced_memory()[1] < 10 * len(LONG)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "array",
    [
        pa.array([["a", "b"], None, [], ["a", None]]),
        pa.array([["a", "b"], None, ["a"]], pa.large_list(pa.string())),
        pa.array([[("k", "a")], None, [("k", None), ("l", "a")]], pa.map_(pa.string(), pa.string())),
        pa.array([{"x": "a", "y": ["a", "b"]}, None, {"x": None, "y": None}]),
        pa.array([[["a"], ["a", "b"]], [None]]),
        pa.array(["a", None, "a"]),
        pa.array([1, None, 2]),
        pa.array([b"a", b"b"]),
    ],
    ids=lambda array: str(array.type),
)
def test_entries_are_those_of_arrow(tmp_path: Path, array: pa.Array) -> None:
    """Read by dictionary or not, whole or in slices, lists, maps and structs have the entries that were written."""
    path = tmp_path / "values.parquet"
    pq.write_table(pa.table({"value": array}), path)
    with pq.ParquetFile(path) as file:
        texts = parquet_module._texts(file.metadata)
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        (batch,) = file.iter_batches()
    assert list(_values(batch.column(0))) == array.to_pylist()
    assert list(_values(batch.slice(1).column(0))) == array.to_pylist()[1:]


@pytest.mark.parametrize("name", ["FILE_BYTES_MAX", "GROUP_BYTES_MAX"])
def test_too_large_a_parquet_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The end of the file tells how large it is: of its pages, which are damaged here, nothing is read."""
    path = bomb(tmp_path, pa.array([json.dumps(LONG)] * 2000))
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 100 + content[104:])
    with pytest.raises(HistoryError, match="damaged"):
        read_history_file(path)
    monkeypatch.setattr(parquet_module, name, len(LONG))

    with pytest.raises(HistoryError, match=rf"bomb\.parquet: .* has \d+ bytes .* more than {name}, {len(LONG)}; "):
        read_history_file(path)


@pytest.mark.parametrize("is_array", [False, True])
def test_values_that_take_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_array: bool) -> None:
    """Texts that differ are not shared: a small file of them is given up, with its name and size and what to do."""
    columns = events_of([f"{LONG}{number}" for number in range(20)])
    rows = [json.dumps(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    text = f"[{', '.join(rows)}]" if is_array else "\n".join(rows)
    path = written(tmp_path, gzip.compress(text.encode()))
    assert path.stat().st_size < 20_000
    assert len(read_history_file(path).events) == 40
    monkeypatch.setattr(events, "HELD_BYTES_MAX", 10 * len(LONG))

    with pytest.raises(HistoryError, match=rf"of {path.stat().st_size} bytes take more than HELD_BYTES_MAX") as caught:
        read_history_file(path)
    assert str(path) in str(caught.value)
    assert "cut the history into several" in str(caught.value)


def test_a_refusal_is_the_fault_of_the_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``nemesis check`` ends with the exit code of bad arguments, and says why."""
    path = bomb(tmp_path, pa.array([json.dumps(LONG)] * 2000))
    monkeypatch.setattr(parquet_module, "FILE_BYTES_MAX", len(LONG))

    with pytest.raises(SystemExit) as caught:
        main(["check", str(path), "--model", "register"])
    assert caught.value.code == 254
    assert "more than FILE_BYTES_MAX" in capsys.readouterr().err


@pytest.mark.parametrize("value", [None, 7, [1, 2]], ids=["nil", "number", "pair"])
def test_events_and_operations_are_columns(tmp_path: Path, value: Any) -> None:
    """What is held of many events is bounded by the bytes of a few numbers each, and of operations as well."""
    lines = []
    for number in range(EVENTS):
        kind = ("invoke", "ok")[number % 2]
        own = value if not isinstance(value, int) else value + 1000 * number
        event = {"index": number, "time": number * 10**9, "process": number // 2 % 9, "type": kind, "f": "write"}
        lines.append(json.dumps(event | {"value": own}))
    path = written(tmp_path, "\n".join(lines))
    tracemalloc.start()
    try:
        history = read_history_file(path, format=None)
        held = history.operations()
        assert tracemalloc.get_traced_memory()[1] < EVENTS * EVENT_BYTES_MAX * 1.5
        assert len(held) == EVENTS / 2
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_operations_of_a_kafka_workload_are_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of them are there as objects at a time: Arrow's columns are bounded, and so is what is made on the way."""
    monkeypatch.setattr(kafka_operations, "BATCH_ROWS", FEW_ROWS)
    lines = []
    for number in range(EVENTS):
        send = ["send", "a", number // 2 if number % 2 == 0 else [number // 2] * 2]
        event = {"index": number, "process": 0, "type": ("invoke", "ok")[number % 2], "f": "send", "value": [send]}
        lines.append(json.dumps(event))
    path = written(tmp_path, "\n".join(lines))
    history = read_history_file(path, key_pairs=KeyPairs.NO)
    tracemalloc.start()
    try:
        operations = micro_operations(history.events, path)
        taken = tracemalloc.get_traced_memory()[1] + operations.nbytes
    finally:
        tracemalloc.stop()
    assert operations.num_rows == EVENTS / 2
    assert taken < EVENTS * KAFKA_EVENT_BYTES_MAX + FEW_ROWS * ROW_BYTES_MAX
