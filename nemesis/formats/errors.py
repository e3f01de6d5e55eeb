"""What is wrong with a file, where, and what to do about it: the one error of every reader.

A file that cannot be understood in full is not judged at all: a line that is left out could be the one that explains
all others.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn


class HistoryError(Exception):
    """The file is no history of its format.

    ``line`` counts from 1, or is None where the file as a whole is meant; of Parquet it is the row, counted from 1.
    """

    def __init__(self, path: Path, line: int | None, problem: str, remedy: str) -> None:
        place = f"{path}" if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {problem}; {remedy}")
        self.path = path
        self.line = line
        self.problem = problem
        self.remedy = remedy


def refuse(path: Path, line: int | None, problem: str, remedy: str) -> NoReturn:
    """Raise the error; for the places where it ends a branch."""
    raise HistoryError(path, line, problem, remedy)


def excerpt(text: str, length: int = 60) -> str:
    """A piece of the file as it may be shown on a terminal: short, on one line, without control characters."""
    shown = ascii(text if len(text) <= length else text[:length])
    return shown if len(text) <= length else f"{shown}..."
