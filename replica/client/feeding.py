"""How rows of one call become batches: who goes where, and which are encoded next.

Owns the division of rows among partitions. Knows neither room nor time: ``producer`` asks for the next batch when there
is room. Groups of several partitions take turns, so that none waits for all of another.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from replica.client.many import RowNumbers
from replica.client.partitioner import rows_by_partition
from replica.records import ColumnEncoder, Compression, EncodedRecords, RecordColumns


class Group:
    """Rows that go to one partition, or without one each batch to any; those up to ``place`` are taken."""

    def __init__(
        self, columns: RecordColumns, partition: int | None, rows: array[int] | None, compression: Compression
    ) -> None:
        self.partition = partition
        self._rows: RowNumbers = range(columns.values.count) if rows is None else rows
        self._encoder = ColumnEncoder(columns, rows=rows, compression=compression)
        self._place = 0

    @property
    def is_over(self) -> bool:
        """Whether all rows are taken."""
        return self._place == len(self._rows)

    def encode(self, limit_bytes: int) -> EncodedRecords:
        """The next batch: the same again until it is taken. Raises ValueError."""
        return self._encoder.encode(self._place, limit_bytes)

    def take(self, count: int) -> RowNumbers:
        """Take the next rows."""
        taken = self._rows[self._place : self._place + count]
        self._place += len(taken)
        return taken

    def take_all(self) -> RowNumbers:
        """Take all that are left."""
        return self.take(len(self._rows) - self._place)


def groups_of(
    columns: RecordColumns, partition: int | None, partitions: Sequence[int], keyless: int, compression: Compression
) -> list[Group]:
    """Divide rows; no group is empty.

    All go to ``partition`` if there is one, else those with a key among ``partitions`` by their keys. Rows without a
    key go to ``keyless`` where others have one, so that their order is kept, and else batch by batch to any.
    """
    if columns.values.count == 0:
        return []
    if partition is not None or columns.keys is None:
        return [Group(columns, partition, None, compression)]
    found = rows_by_partition(columns.keys, len(partitions), keyless)
    return [Group(columns, number, rows, compression) for number, rows in zip(partitions, found, strict=True) if rows]
