"""Which runs are judged: their folders, their names, their usable shards.

Owns what both engines must agree on before they read a row. Does not know what the rows mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from nemesis.checks.replica_events import ANY
from nemesis.checks.schemas import RUN_EVENT_SCHEMA
from nemesis.history.document import logs_of, logs_that_are, shows_logs
from nemesis.history.errors import HistoryError
from nemesis.history.events import DUE, GAPLESS, TRIMMED
from nemesis.history.reader import ShardListing, is_complete, list_shards
from nemesis.history.schemas import Kind
from nemesis.history.stopped import Stopped, read_stopped
from nemesis.workload.catalogue import USUAL, workload_of
from nemesis.workload.workload import Workload

RUNS_MAX = 100_000
OPENED_AT_ONCE = 16
"""So many folders are looked into at a time."""
Listing = Callable[[Path, Kind], ShardListing]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """One recorded run: the shards that count, what is wrong with the others, and whether it has its end.

    ``shows_logs`` says that the nodes' logs should be among them, ``logs`` which these are, each with the replicas that
    are known to have it, ``gapless`` in which of them every offset holds a client's record, and ``trimmed`` of which
    retention may delete the beginning. ``stopped`` says what ended it before its time, if anything did;
    ``stopped_problem`` why that cannot be read.
    """

    run_id: str
    folder: Path
    shards: dict[Kind, ShardListing]
    complete: bool
    workload: type[Workload] = USUAL
    shows_logs: bool = True
    logs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    gapless: tuple[str, ...] = ()
    trimmed: tuple[str, ...] = ()
    stopped: Stopped | None = None
    stopped_problem: str | None = None

    @property
    def history_whole(self) -> bool:
        """Whether nothing can have happened that the usable shards do not tell."""
        return self.complete and not self.shards[Kind.HISTORY].problems

    @property
    def is_evident(self) -> bool:
        """Whether all that it tells of logs must be there, in whatever state its files are."""
        return self.complete and self.shows_logs

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each thing that is wrong with the files of the run."""
        of_shards = tuple(problem for kind in Kind for problem in self.shards[kind].problems)
        return of_shards if self.stopped_problem is None else (*of_shards, self.stopped_problem)


def declared_logs(run: RunFolder) -> pa.Table:
    """What a run says of its logs before it begins, as events (``RUN_EVENT_SCHEMA``): which there must be, if it has
    its end, and which are gapless or trimmed."""
    told = run.logs.items() if run.is_evident else ()
    due = [(name, DUE, replica_id) for name, replicas in told for replica_id in (*replicas, ANY)]
    said = [(name, what, ANY) for what, names in ((GAPLESS, run.gapless), (TRIMMED, run.trimmed)) for name in names]
    return log_events(run.run_id, [*due, *said])


def log_events(run_id: str, told: Iterable[tuple[str, str, int]]) -> pa.Table:
    """Events that no replica told (``RUN_EVENT_SCHEMA``): each a log, what is said of it, and of which replica."""
    rows = [
        {"run_id": run_id, "time_ns": 0, "replica_id": replica_id, "event": event, "topic_partition": name}
        for name, event, replica_id in told
    ]
    return pa.Table.from_pylist(rows, schema=RUN_EVENT_SCHEMA)


def open_runs(folders: Sequence[Path], listing: Listing = list_shards) -> tuple[RunFolder, ...]:
    """The runs in these folders, in this order; a folder given twice counts once.

    A run is called by the name of its folder, with as many parents as it takes to tell it from the others. Raises
    ``HistoryError`` for a folder that holds no run, ``ValueError`` for none or too many of them.
    """
    resolved = list(dict.fromkeys(folder.resolve() for folder in folders))
    if not 1 <= len(resolved) <= RUNS_MAX:
        raise ValueError(f"{len(resolved)} runs to judge: give 1 to {RUNS_MAX} run folders")
    # Each of them waits for its file system some dozen times, which may be a network away.
    with ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
        return tuple(pool.map(partial(_opened, listing=listing), resolved, _names(resolved)))


def _opened(folder: Path, run_id: str, listing: Listing) -> RunFolder:
    # Before the shards are listed: a run that ends in between would be judged by its beginning as if that were all.
    complete = is_complete(folder)
    shards = {kind: listing(folder, kind) for kind in Kind}
    stopped, problem = _stopped(folder)
    return RunFolder(
        run_id=run_id,
        folder=folder,
        shards=shards,
        complete=complete,
        workload=workload_of(folder),
        shows_logs=shows_logs(folder),
        logs=logs_of(folder),
        gapless=logs_that_are(folder, GAPLESS),
        trimmed=logs_that_are(folder, TRIMMED),
        stopped=stopped,
        stopped_problem=problem,
    )


def _stopped(folder: Path) -> tuple[Stopped | None, str | None]:
    """What stopped the run, or what is wrong with the file that should tell it."""
    try:
        return read_stopped(folder), None
    except HistoryError as error:
        return None, str(error)


def _names(folders: Sequence[Path]) -> list[str]:
    deepest = max(len(folder.parts) for folder in folders)
    names = [folder.name for folder in folders]
    for depth in range(1, deepest + 1):
        names = ["/".join(folder.parts[-depth:]) for folder in folders]
        if max(Counter(names).values()) == 1:
            break
    return names
