"""Damage to the files of a run's folder: shards, the mark of the end, and the documents beside the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from tests.corruption.damages import DOUBTFUL, HARMLESS, MISSING, REFUSABLE, Damage

MARK = "history/_COMPLETE"


def shards_of(folder: Path, table: str) -> list[Path]:
    """The shards of a table in order."""
    return sorted((folder / table).glob("part-*.parquet"))


def of_shards() -> Iterator[Damage]:
    """A shard of each table is gone, cut short, empty, moved or there twice; or the mark counts other rows of it."""
    for table in ("history", "logs", "events"):
        for name, (way, allowed) in SHARDS.items():
            words = f"{table}/" if allowed == MISSING else ""
            yield on_files(f"{table}: {name}", partial(way, table=table), allowed, words)


def on_files(name: str, change: Callable[[Path], object], allowed: frozenset[str], words: str = "") -> Damage:
    """A damage that is done when the run is written."""
    return Damage(name, lambda run: run.to_files.append(change), allowed, words)


def remove(folder: Path, table: str, places: slice) -> None:
    """These shards are gone."""
    for path in shards_of(folder, table)[places]:
        path.unlink()


def cut(path: Path, end: int) -> None:
    """Keep the bytes up to ``end``."""
    path.write_bytes(path.read_bytes()[:end])


def swap(folder: Path, table: str) -> None:
    """Two shards have changed their names; a table that has but one is written as two before."""
    first, *others = shards_of(folder, table)
    if not others:
        rows = pq.read_table(first)
        others = [folder / table / "part-00001.parquet"]
        pq.write_table(rows.slice(0, 5), first)
        pq.write_table(rows.slice(5), others[0])
    kept = first.read_bytes()
    first.write_bytes(others[0].read_bytes())
    others[0].write_bytes(kept)


def without_column(folder: Path, table: str) -> None:
    """The first shard has no times, or no replicas."""
    path = shards_of(folder, table)[0]
    pq.write_table(pq.read_table(path).drop_columns(["replica_id" if table == "logs" else "time_ns"]), path)


def move(folder: Path, table: str) -> None:
    """The last shard has another number."""
    shards_of(folder, table)[-1].rename(folder / table / "part-00099.parquet")


def repeat(folder: Path, table: str) -> None:
    """The first shard is there again behind the last one."""
    first, *others = shards_of(folder, table)
    (folder / table / f"part-{len(others) + 1:05}.parquet").write_bytes(first.read_bytes())


def tell(folder: Path, table: str, by: int) -> None:
    """The mark of the end counts so many rows more."""
    told = json.loads((folder / MARK).read_text())
    (folder / MARK).write_text(json.dumps(told | {table: told[table] + by}))


def flip_a_bit(folder: Path) -> None:
    """One bit of the rows is another."""
    path = shards_of(folder, "history")[0]
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)


def writing(name: str, text: str) -> Callable[[Path], object]:
    """A file of the folder says this."""
    return lambda folder: (folder / name).write_text(text)


SHARDS: Mapping[str, tuple[Callable[..., object], frozenset[str]]] = {
    "the first shard is gone": (partial(remove, places=slice(0, 1)), MISSING),
    "the last shard is gone": (partial(remove, places=slice(-1, None)), MISSING),
    "all shards are gone": (partial(remove, places=slice(None)), MISSING),
    "a shard is cut short": (lambda folder, table: cut(shards_of(folder, table)[-1], -20), MISSING),
    "a shard is empty": (lambda folder, table: cut(shards_of(folder, table)[-1], 0), MISSING),
    "a shard has another number": (move, MISSING),
    "a shard is there twice": (repeat, MISSING),
    "shards are swapped": (swap, HARMLESS),
    "a shard lacks a column": (without_column, REFUSABLE),
    "the mark tells of more rows": (partial(tell, by=1), MISSING),
    "the mark tells of fewer rows": (partial(tell, by=-1), MISSING),
}
STOPPED = json.dumps(
    {
        "at_s": 1.0,
        "found": {"anomaly": "duplicate", "topic_partition": "x", "detail": "", "others": 0, "engine": "local"},
    }
)
NO_COUNT = "does not say how many rows"
FILES = (
    *of_shards(),
    on_files("a bit of a shard is another", flip_a_bit, REFUSABLE),
    on_files("the mark of the end is gone", lambda folder: (folder / MARK).unlink(), MISSING, "the history has no end"),
    on_files("the mark of the end is empty", writing(MARK, ""), MISSING, NO_COUNT),
    on_files("the mark of the end is no object", writing(MARK, "[1, 2, 3]"), MISSING, NO_COUNT),
    on_files("the mark of the end tells of one table", writing(MARK, '{"history": 99}'), MISSING, NO_COUNT),
    on_files("an unfinished shard is left", writing("history/.part-00009.parquet.unfinished", "PAR1"), HARMLESS),
    on_files("a foreign file is there", writing("logs/readme.txt", "hello"), HARMLESS),
    on_files("the schedule is gone", lambda folder: (folder / "schedule.json").unlink(), HARMLESS),
    on_files("test.json is gone", lambda folder: (folder / "test.json").unlink(), DOUBTFUL),
    on_files("test.json is torn", writing("test.json", '{"workload": "app'), DOUBTFUL),
    on_files(
        "test.json is of another workload", writing("test.json", '{"workload": "register"}'), MISSING, "not judged"
    ),
    on_files("test.json is of no workload", writing("test.json", '{"workload": "stack"}'), REFUSABLE),
    on_files(
        "test.json says that no logs are shown",
        writing("test.json", '{"workload": "append", "shows_logs": false}'),
        MISSING,
        "no replica's log is shown",
    ),
    on_files("stopped.json tells what the run does not show", writing("stopped.json", STOPPED), MISSING, "stopped at"),
    on_files("stopped.json cannot be read", writing("stopped.json", "{"), MISSING, "stopped.json does not say"),
)
"""Damage to the files of a run."""
