"""Rows dealt by a number, at once or into files: what a table is too large for is put on disk and read part by part.

Owns the files and how many of them are open at once. Knows nothing of what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from nemesis.linearizability.arrays.columns import Ints
from nemesis.pipeline.corpora.encoding import with_readable_texts

OPEN_MAX = 256
"""How many files are open at once; a process may have a thousand."""

Part = tuple[Path, ...]
"""The files of one number, in the order in which their rows came."""


def parted(rows: pa.Table, numbers: Ints) -> Iterator[tuple[int, pa.Table]]:
    """Each number that is not -1, in order, and its rows, in theirs."""
    # Short numbers are sorted by their digits, which takes a fraction of comparing them.
    keys = numbers.astype(np.int16) if numbers.max(initial=0) < 2**15 else numbers
    dealt = rows.take(pa.array(np.argsort(keys, kind="stable")))
    ends = np.cumsum(np.bincount(numbers + 1))
    for number, (begin, end) in enumerate(pairwise(ends.tolist())):
        if end > begin:
            yield number, dealt.slice(begin, end - begin)


class Dealer:
    """Files for each number. At most ``open_max`` are open; a number that comes again later gets a further one."""

    def __init__(self, scratch: Path, *, open_max: int = OPEN_MAX) -> None:
        self._scratch = scratch
        self._open_max = open_max
        self._parts: dict[int, Part] = {}
        self._writers: dict[int, pa.RecordBatchFileWriter] = {}

    def deal(self, rows: pa.Table, numbers: Ints) -> None:
        """Append each row to a file of its number; rows of -1 nowhere."""
        for number, part in parted(rows, numbers):
            self._writer(number, rows.schema).write_table(part)

    def close(self) -> list[Part]:
        """The files of each number, in the order of the numbers."""
        self._close_writers()
        return [self._parts[number] for number in sorted(self._parts)]

    def _writer(self, number: int, schema: pa.Schema) -> pa.RecordBatchFileWriter:
        if number not in self._writers:
            if len(self._writers) >= self._open_max:
                self._close_writers()
            paths = self._parts.get(number, ())
            path = self._scratch / f"{number:06}-{len(paths)}.arrow"
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writers[number] = pa.ipc.new_file(path, schema, options=options)
            self._parts[number] = (*paths, path)
        return self._writers[number]

    def _close_writers(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


def take(part: Part) -> pa.Table:
    """Read the rows of one number, in the order in which they came, and remove its files."""
    rows = pa.concat_tables([_read(path) for path in part])
    for path in part:
        path.unlink()
    return readable(rows)


def readable(rows: pa.Table) -> pa.Table:
    """The same rows in one piece, texts as a kernel reads them."""
    return with_readable_texts(rows).combine_chunks()


def _read(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()
