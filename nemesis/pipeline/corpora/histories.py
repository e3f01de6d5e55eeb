"""A corpus of histories, judged file by file: every file of any known format, each with all of its objects.

Owns what a task does with a file, and the two drivers, which give equal rows. A file that cannot be read, or does not
fit the model, is one *unknown* object without a key, with the reason, and stops no other. No object is in two files,
so nothing is moved between tasks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import pyarrow as pa

from nemesis.formats.edn_text import edn_text
from nemesis.formats.errors import HistoryError
from nemesis.formats.keyed import KeyPairs
from nemesis.formats.reading import read_history_file
from nemesis.formats.recognise import Format
from nemesis.linearizability.model import Model, ModelError, check_fits
from nemesis.linearizability.models.key_value import KeyValue
from nemesis.linearizability.models.text_store import TextStore
from nemesis.pipeline.corpora.bucket import Task, judge_bucket, judge_sorted
from nemesis.pipeline.corpora.encoding import rows_of
from nemesis.pipeline.corpora.engine import Session
from nemesis.pipeline.corpora.pieces import in_tasks
from nemesis.pipeline.corpora.plan import Sizes
from nemesis.pipeline.corpora.results import Results, results_of
from nemesis.pipeline.corpora.schemas import JUDGEMENT_ROWS, OBJECT_ROWS
from nemesis.pipeline.engine import EngineName
from nemesis.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OBJECT_BITS = 32
"""An object is numbered by its file, and within it by the order of first operations in so many bits."""
FILES_A_TASK_MAX = 50
SUFFIXES = frozenset({".jsonl", ".json", ".edn", ".log", ".parquet", ".kv", ".porcupine", ".txt", ".gz"})
NAMED_ROWS = pa.schema([*JUDGEMENT_ROWS, OBJECT_ROWS.field("run_id"), OBJECT_ROWS.field("key")])
_FILE_ROWS = pa.schema([pa.field("number", pa.int64()), pa.field("run_id", pa.string()), pa.field("path", pa.string())])
File = tuple[int, str, str]
"""Number, name, path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How files are read and judged. ``format`` None: as each begins."""

    task: Task
    format: Format | None = None
    key_pairs: KeyPairs = KeyPairs.AUTO


def files_in(paths: Sequence[Path]) -> list[Path]:
    """The files, and those in the folders with a suffix that histories have; each once, hidden ones left out.

    Links are followed, and each folder is looked into once. A link to nothing, a file that is gone by now and what is
    no file are among them: that they cannot be read is to be told. Raises HistoryError for a folder that nobody may
    look into, and for a name that no result could have.
    """
    found: dict[Path, None] = {}
    looked: set[Path] = set()
    for path in paths:
        for file in _below(path, looked) if path.is_dir() else [path]:
            found.setdefault(file.resolve() if file.exists() else file.absolute())
    for file in found:
        _check_name(file)
    return list(found)


def _check_name(file: Path) -> None:
    name = os.fsencode(file).decode("utf-8", "backslashreplace")
    if name != str(file):
        raise HistoryError(Path(name), None, "the name is no UTF-8", "rename the file")


def _below(folder: Path, looked: set[Path]) -> Iterator[Path]:
    """What may be histories in a folder and in those below it, in the order of their paths; not twice in one folder."""
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        if not path.is_dir():
            yield path
            continue
        if path.resolve() in looked:
            continue
        looked.add(path.resolve())
        try:
            entries = sorted(path.iterdir(), reverse=True)
        except OSError as error:
            raise HistoryError(
                path, None, f"the folder cannot be read ({error})", "allow it, or move it away"
            ) from error
        waiting += [entry for entry in entries if not _is_hidden(entry) and (entry.is_dir() or _is_named(entry))]


def _is_hidden(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def _is_named(path: Path) -> bool:
    return path.suffix in SUFFIXES


def judge_histories(
    files: Sequence[Path],
    reading: Reading,
    *,
    engine: EngineName | str = EngineName.SPARK,
    master: str = "local[*]",
    spark: Session | None = None,
) -> Results:
    """Judge all files, on Spark in one job; the runs of the results are the files. See ``judge_store``."""
    judge = partial(judge_file, reading=reading)
    found = each_judged(files, judge, NAMED_ROWS, engine=engine, master=master, spark=spark)
    judgements, names = found.select(JUDGEMENT_ROWS.names), found.select(OBJECT_ROWS.names)
    return results_of(judgements.cast(JUDGEMENT_ROWS), names.cast(OBJECT_ROWS), reading.task.model.name)


def each_judged(
    files: Sequence[Path],
    judge: Callable[[File], pa.Table],
    schema: pa.Schema,
    *,
    engine: EngineName | str,
    master: str,
    spark: Session | None,
) -> pa.Table:
    """What ``judge`` says of each file, as rows of ``schema``: on Spark in one job, or in this process."""
    numbered = [(number, str(path), str(path)) for number, path in enumerate(files)]
    match EngineName(engine):
        case EngineName.LOCAL:
            return pa.concat_tables([schema.empty_table(), *map(judge, numbered)])
        case EngineName.SPARK:
            return _each_on_spark(numbered, judge, schema, master, spark)
        case other:
            assert_never(other)


def _each_on_spark(
    files: Sequence[File], judge: Callable[[File], pa.Table], schema: pa.Schema, master: str, spark: Session | None
) -> pa.Table:
    from pyspark.sql.pandas.types import from_arrow_schema

    from nemesis.pipeline.session import spark_session

    with spark_session(master) if spark is None else nullcontext(spark) as session:
        judged = file_frame(session, files).mapInArrow(partial(_judge_batches, judge=judge), from_arrow_schema(schema))
        return judged.toArrow().cast(schema)


def file_frame(spark: SparkSession, files: Sequence[File]) -> DataFrame:
    """One row a file, in tasks of at most ``FILES_A_TASK_MAX``."""
    columns = list(zip(*files, strict=True)) if files else [(), (), ()]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _FILE_ROWS, strict=True)]
    return in_tasks(spark, pa.table(arrays, schema=_FILE_ROWS), FILES_A_TASK_MAX)


def _judge_batches(batches: Iterator[pa.RecordBatch], judge: Callable[[File], pa.Table]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            yield from judge((row["number"], row["run_id"], row["path"])).to_batches()


def judge_file(file: File, reading: Reading) -> pa.Table:
    """The judgements of all objects in a file (``NAMED_ROWS``)."""
    number, run_id, path = file
    first = number << OBJECT_BITS
    try:
        history = read_history_file(Path(path), format=reading.format, key_pairs=reading.key_pairs)
        operations = history.operations()
        model = _model_for(reading.task.model, history.format)
        check_fits(operations, model)
    except Exception as error:  # one file's fault must not end the job; nothing is said of what is in it
        return _named(_unreadable(first, reason_of(error)), run_id, {first: ""})
    keys = {key: first + place for place, key in enumerate(dict.fromkeys(op.key for op in operations))}
    judged = _doubted(_judged(rows_of(operations, keys), replace(reading.task, model=model)), history.doubt)
    return _named(judged, run_id, {place: "" if key is None else edn_text(key) for key, place in keys.items()})


def reason_of(error: Exception) -> str:
    """Why a file is unknown: what is wrong with it, or what went wrong with reading it."""
    return str(error) if isinstance(error, HistoryError | ModelError) else f"{type(error).__name__}: {error}"


def _judged(rows: pa.Table, task: Task) -> pa.Table:
    """The judgements of all objects of a file, of which no call takes too many."""
    if rows.num_rows <= Sizes().bucket:
        return judge_bucket(rows, task)
    in_order = rows.sort_by("object").to_batches()
    return pa.concat_tables(judge_sorted(in_order, task, Sizes().bucket))


def _doubted(judged: pa.Table, doubt: str | None) -> pa.Table:
    """The judgements, where convictions are none because of a doubt."""
    if doubt is None:
        return judged
    rows = judged.to_pylist()
    for row in rows:
        if row["verdict"] == Verdict.INVALID.value:
            row |= {"verdict": Verdict.UNKNOWN.value, "reason": f"{row['reason']}; {doubt}"}
    return pa.Table.from_pylist(rows, schema=judged.schema)


def _model_for(model: Model, format: Format) -> Model:
    """The store that Porcupine's format is of holds texts, and ``append`` makes them longer."""
    return TextStore() if format is Format.PORCUPINE_KV and type(model) is KeyValue else model


def _unreadable(number: int, reason: str) -> pa.Table:
    counts = ("window", "operations", "unknown_outcomes", "judged", "decided", "configurations")
    row = {
        "object": number,
        "kernel": "",
        "verdict": Verdict.UNKNOWN.value,
        "reason": reason,
        **dict.fromkeys(counts, 0),
    }
    return pa.Table.from_pylist([row], schema=JUDGEMENT_ROWS)


def _named(judged: pa.Table, run_id: str, keys: dict[int, str]) -> pa.Table:
    names = [keys[number] for number in judged.column("object").to_pylist()]
    columns = {"run_id": [run_id] * len(names), "key": names}
    for name, values in columns.items():
        judged = judged.append_column(name, pa.array(values, pa.string()))
    return judged.cast(NAMED_ROWS)
