"""How much there is of a topic-partition, and how much of one is judged: the same whoever judges it.

Owns the measure: rows, the records and values in them, and one more for each so many bytes of texts. It does not depend
on the pieces in which the rows come, so that both engines refuse the same with the same words.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

WEIGHT_MAX = 1_000_000
"""How much of one topic-partition is judged where nobody says another number: it fits a worker of 1 GiB."""
BYTES_OF_WEIGHT = 1000


class Weight:
    """What the rows weigh that it was given so far."""

    def __init__(self, tables: Iterable[pa.Table] = ()) -> None:
        self._rows = self._text_bytes = 0
        for table in tables:
            self.add(table)

    def add(self, rows: pa.Table) -> None:
        """More rows."""
        self._rows += rows.num_rows
        for column in rows.columns:
            if pa.types.is_list(column.type):
                self._rows += pc.sum(pc.list_value_length(column)).as_py() or 0
            elif pa.types.is_string(column.type):
                self._text_bytes += pc.sum(pc.binary_length(column)).as_py() or 0

    @property
    def total(self) -> int:
        """All of it."""
        return self._rows + self._text_bytes // BYTES_OF_WEIGHT

    def why_not(self, weight_max: int) -> str | None:
        """Why it is not judged; None where it is."""
        if self.total <= weight_max:
            return None
        return f"{self.total} rows and records are more than are judged at once, {weight_max}"
