"""What is wrong with the folder of a run: the one error of whoever reads it."""

from __future__ import annotations


class HistoryError(Exception):
    """The folder is not a run folder, or its tables are not what their schema declares."""
