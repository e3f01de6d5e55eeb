"""A history that code under test records into, and its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemesis.history import HARNESS_PROCESS, NEMESIS_PROCESS
from nemesis.history.reader import read_history
from nemesis.history.recorder import Clock, Recorder
from nemesis.history.writer import HistoryWriter


class Recording:
    """A history in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer = HistoryWriter(folder)
        self.clock = Clock()
        self.recorder = Recorder(self.writer, self.clock)

    def rows(self) -> list[dict[str, Any]]:
        """The events so far, without the columns that are absent in them."""
        self.writer.flush()
        found = read_history(self.folder).to_pylist()
        return [{name: value for name, value in row.items() if value is not None} for row in found]

    def client_rows(self) -> list[dict[str, Any]]:
        """Those of clients."""
        return [row for row in self.rows() if row["process"] >= 0]

    def nemesis_rows(self) -> list[tuple[str, str, str | None]]:
        """Those of the nemesis: (f, type, detail)."""
        return self._described(NEMESIS_PROCESS)

    def harness_rows(self) -> list[tuple[str, str, str | None]]:
        """Those of the harness itself: (f, type, detail)."""
        return self._described(HARNESS_PROCESS)

    def _described(self, process: int) -> list[tuple[str, str, str | None]]:
        return [(row["f"], row["type"], row["detail"]) for row in self.rows() if row["process"] == process]
