"""SQL over one run's tables, asked by whoever sees the page: bounded in time, rows, bytes and memory.

Owns the bounds, and the process in which a query runs (``sql_process``): it is ended when its time is over, whatever it
does. That process is told the shards of one run and nothing else of the store.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import BoundedSemaphore

import msgspec

from nemesis.history.schemas import Kind
from nemesis.serve.sql_process import START_S_MAX, Answer, Question
from nemesis.serve.store import shards

QUERY_CHARACTERS_MAX = 10_000
QUERY_S_MAX = 10.0
QUERIES_MAX = 2
"""So many run side by side; another one is refused."""
ROWS_MAX = 1000
PROCESS = "nemesis.serve.sql_process"
EXAMPLES: Mapping[str, str] = {
    "outcomes by function": "SELECT f, type, count(*) AS events FROM history GROUP BY ALL ORDER BY ALL",
    "what the nemesis did": "SELECT time_ns / 1e9 AS s, type, f, detail FROM history WHERE process = -1",
    "the slowest operations": (
        'SELECT b."index", b.process, b.f, a.type, (a.time_ns - b.time_ns) / 1e6 AS ms FROM history a '
        'JOIN history b ON a.invoked = b."index" WHERE b.process >= 0 ORDER BY ms DESC LIMIT 20'
    ),
    "elections and truncations": (
        'SELECT time_ns / 1e9 AS s, replica_id, topic_partition, event, epoch, "offset" FROM events '
        "WHERE event IN ('became-leader', 'truncated', 'unclean-election') ORDER BY s"
    ),
    "the ends of the final logs": (
        "SELECT topic_partition, replica_id, max(log_end_offset) AS log_end_offset, max(high_watermark) AS "
        "high_watermark FROM logs GROUP BY ALL ORDER BY ALL"
    ),
}
"""Queries that can be had with one click."""


class Sql:
    """Answers queries, a few at a time."""

    def __init__(self, *, time_s: float = QUERY_S_MAX, rows: int = ROWS_MAX) -> None:
        self._time_s = time_s
        self._rows = rows
        self._free = BoundedSemaphore(QUERIES_MAX)

    def ask(self, folder: Path, query: str) -> Answer:
        """The answer to one query about the run in ``folder``, or why there is none."""
        if len(query) > QUERY_CHARACTERS_MAX:
            return Answer(error=f"The query is longer than {QUERY_CHARACTERS_MAX} characters.")
        with self._turn() as has_turn:
            if not has_turn:
                return Answer(error=f"{QUERIES_MAX} queries are running: try again when one of them has ended.")
            return self._run(folder, query)

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        has_turn = self._free.acquire(blocking=False)
        try:
            yield has_turn
        finally:
            if has_turn:
                self._free.release()

    def _run(self, folder: Path, query: str) -> Answer:
        tables = {kind.value: [str(path) for path in shards(folder, kind)] for kind in Kind}
        question = Question(tables=tables, query=query, rows_max=self._rows, time_s=self._time_s)
        try:
            ended = subprocess.run(
                (sys.executable, "-P", "-m", PROCESS),  # What lies in the working directory is not imported.
                input=msgspec.json.encode(question),
                capture_output=True,
                timeout=START_S_MAX + self._time_s + 1,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(error=f"The query was ended: it took longer than {self._time_s:g} s.")
        try:
            return msgspec.json.decode(ended.stdout, type=Answer)
        except msgspec.MsgspecError:
            return Answer(error=_why_ended(ended.returncode, self._time_s))


def _why_ended(code: int, time_s: float) -> str:
    if code == -signal.SIGALRM:
        return f"The query was ended: it took longer than {time_s:g} s."
    return f"The query's process ended with {code}: perhaps it needed more memory than it may have."


def examples() -> Sequence[tuple[str, str]]:
    """Each example with what it shows."""
    return tuple(EXAMPLES.items())
