"""What tasks read of files, and rows as bytes on their way to a bucket: all of them arrive, each once."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nemesis.formats.errors import HistoryError
from nemesis.pipeline.corpora.pieces import blobs, pieces_of, read, rows_of_blobs
from nemesis.pipeline.corpora.schemas import OPERATION_ROWS
from nemesis.pipeline.corpora.store import batches_of, files_of
from tests.pipeline.stores import mixed, write_rows, write_store


@pytest.mark.parametrize("held_bytes", [1, 2_000, 10**9])
@pytest.mark.parametrize("blob_bytes_max", [1, 300, 10**9])
def test_each_bucket_gets_its_rows_once(held_bytes: int, blob_bytes_max: int) -> None:
    """However much is held and however small blobs are, every row comes back, in the order in which it was dealt."""
    random = Random(held_bytes)
    dealt, expected = [], defaultdict[int, list[tuple[int, str | None]]](list)
    for piece in range(10):
        numbers = [random.randrange(-1, 6) for _ in range(40)]
        rows = [(piece * 40 + place, None if place % 7 else f"text {place}") for place in range(40)]
        for number, row in zip(numbers, rows, strict=True):
            if number >= 0:
                expected[number].append(row)
        line, text = zip(*rows, strict=True)
        dealt.append((pa.table({"line": line, "text": pa.array(text)}), np.array(numbers)))

    found: defaultdict[int, list[pa.RecordBatch]] = defaultdict(list)
    for batch in blobs(dealt, held_bytes=held_bytes, blob_bytes_max=blob_bytes_max):
        blob = rows_of_blobs([batch])
        assert blob.num_rows == 1 or blob.nbytes <= blob_bytes_max
        found[batch.column("bucket")[0].as_py()].append(batch)

    whole = {bucket: rows_of_blobs(batches).to_pylist() for bucket, batches in found.items()}
    assert {bucket: [tuple(row.values()) for row in rows] for bucket, rows in whole.items()} == expected


def test_no_rows_are_no_blobs() -> None:
    """Where there are no rows, or none for any bucket, there is no blob."""
    assert list(blobs([])) == []
    assert list(blobs([(pa.table({"line": [1]}), np.array([-1]))])) == []


def test_pieces_are_all_row_groups(tmp_path: Path) -> None:
    """The pieces of files with many row groups have the rows that the files have."""
    files = files_of(write_store(tmp_path, mixed(30)))
    for file in files:
        pq.write_table(pq.read_table(file), file, row_group_size=97)

    pieces = pieces_of(files)

    assert pieces.num_rows > 3 * len(files)
    assert pieces.column("number").to_pylist() == list(range(pieces.num_rows))
    found = pa.concat_tables(read(pieces.to_batches(), OPERATION_ROWS.names))
    assert found.to_pylist() == pa.concat_tables(batches_of(files)).to_pylist()


def test_only_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    """They are as declared: null where the file has none of that name, and nothing more where it has others."""
    store = write_rows(tmp_path, [{"function": 2, "argument": 5}])
    (file,) = files_of(store)
    rows = pq.read_table(file).drop_columns(["text", "records"])
    pq.write_table(rows.append_column("other", pa.array(["?"])), file)

    (found,) = read(pieces_of([file]).to_batches(), ["object", "argument", "text"])

    assert found.schema == pa.schema([OPERATION_ROWS.field(name) for name in ("object", "argument", "text")])
    assert found.to_pylist() == [{"object": 0, "argument": 5, "text": None}]


def test_a_task_refuses_what_is_damaged(tmp_path: Path) -> None:
    """A changed bit in a page with a checksum, and a file that has gone, are errors that name the file."""
    (file,) = files_of(write_rows(tmp_path, [{"function": 2, "argument": 5}]))
    pq.write_table(pq.read_table(file), file, write_page_checksum=True, compression="none", use_dictionary=False)
    pieces = pieces_of([file]).to_batches()
    column = pq.ParquetFile(file).metadata.row_group(0).column(5)
    end = column.data_page_offset + column.total_compressed_size
    damaged = bytearray(file.read_bytes())
    damaged[damaged.rindex((5).to_bytes(8, "little"), 0, end)] ^= 1
    file.write_bytes(damaged)
    assert pq.read_table(file).column("argument").to_pylist() == [4]

    with pytest.raises(HistoryError, match=r"part-000000\.parquet: the file is no Parquet or damaged"):
        list(read(pieces, ["argument"]))
    file.unlink()
    with pytest.raises(HistoryError, match=r"part-000000\.parquet: the file is no Parquet or damaged"):
        list(read(pieces, ["argument"]))
