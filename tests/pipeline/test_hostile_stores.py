"""Folders that are not what they should be: nothing that was not judged is valid, and nothing ends in a trace."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nemesis.cli.__main__ import cli
from nemesis.cli.exit import Exit, exit_code_of
from nemesis.formats.errors import HistoryError
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.models.register import CasRegister
from nemesis.linearizability.models.registry import load_model, model_names
from nemesis.pipeline.corpora.bucket import Task
from nemesis.pipeline.corpora.encoding import rows_of
from nemesis.pipeline.corpora.engine import judge_store, refusals_of_workers
from nemesis.pipeline.corpora.histories import files_in
from nemesis.pipeline.corpora.local import judge_locally
from nemesis.pipeline.corpora.plan import SLOTS, ChangedError, Sizes
from nemesis.pipeline.corpora.schemas import OBJECT_ROWS, OPERATION_ROWS
from nemesis.pipeline.corpora.store import batches_of, check_file, check_unchanged, files_of, stamps_of
from tests.pipeline.corpora import write_corpus
from tests.pipeline.stores import SMALL, sequence, write_rows, write_store

LEAST = -(2**63)
WRITE, READ, APPEND, FETCH = (dict[str, Any](function=code) for code in (2, 1, 4, 5))
TASK = Task(model=CasRegister(), budget=Budget())
NULLABLE = pa.schema([field.with_nullable(True) for field in OPERATION_ROWS])


def code_of(folder: Path) -> int:
    """The exit code of judging a folder in this process."""
    words = ["check", str(folder), "--model", "cas-register", "--engine", "local"]
    return exit_code_of(lambda: cli.main(words, standalone_mode=False))


def in_a_folder(store: Path) -> None:
    """Move the operations to where nobody reads."""
    (store / "operations" / "day=1").mkdir()
    (store / "operations" / "part-000000.parquet").rename(store / "operations" / "day=1" / "x.parquet")


def beside_a_folder(store: Path) -> None:
    """Hide some operations beside others."""
    in_a_folder(store)
    write_rows(store, [WRITE | {"argument": 1}])


def without_rows(store: Path) -> None:
    """A file with columns and no rows."""
    pq.write_table(OPERATION_ROWS.empty_table(), store / "operations" / "part-000000.parquet")


def linked_to_nothing(store: Path) -> None:
    """A link to nothing beside a good file."""
    (store / "operations" / "a.parquet").symlink_to(store / "gone.parquet")


def named_by_junk(store: Path) -> None:
    """Names that are no Parquet."""
    (store / "objects" / "part-000000.parquet").write_bytes(b"junk")


def named_by_others(store: Path) -> None:
    """Names with columns of something else."""
    pq.write_table(pa.table({"object": ["a"], "x": [1]}), store / "objects" / "part-000000.parquet")


def named_by_null(store: Path) -> None:
    """A name of no object."""
    columns = pa.schema([field.with_nullable(True) for field in OBJECT_ROWS])
    rows = pa.table({"object": [None], "run_id": ["r"], "key": ["k"]}, schema=columns)
    pq.write_table(rows, store / "objects" / "part-000000.parquet")


def named_twice(store: Path) -> None:
    """Two names of one object, in two files."""
    for number, key in enumerate(("a", "b")):
        rows = pa.table({"object": [0], "run_id": ["r"], "key": [key]}, schema=OBJECT_ROWS)
        pq.write_table(rows, store / "objects" / f"part-{number:06}.parquet")


def numbered_with_a_stride(store: Path) -> None:
    """Objects whose numbers leave one remainder, so that no dealing parts them."""
    write_rows(store, [WRITE | {"argument": 1, "object": SLOTS * number} for number in range(9)])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda store: (store / "operations" / "part-000000.parquet").unlink(), "no *.parquet file in it has an oper"),
        (without_rows, "no *.parquet file in it has an operation"),
        (in_a_folder, "day=1: a folder inside the folder is not read"),
        (beside_a_folder, "day=1: a folder inside the folder is not read"),
        (linked_to_nothing, "a.parquet: the file is no Parquet"),
        (named_by_junk, "objects/part-000000.parquet: the file is no Parquet"),
        (named_by_others, "objects/part-000000.parquet: column object is of type string"),
        (named_twice, "objects: object 0 has two names, 'a' and 'b'; give each object one"),
        (named_by_null, "objects/part-000000.parquet: column object has a null"),
    ],
)
def test_what_is_not_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None], words: str
) -> None:
    """A folder without operations, or with some that nobody would read, is an error that says what is wrong."""
    store = write_rows(tmp_path / "store", [WRITE | {"argument": 1}])
    spoil(store)

    assert code_of(store) == Exit.BAD_ARGUMENTS
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", [field.name for field in OPERATION_ROWS if not field.nullable])
@pytest.mark.parametrize("statistics", [True, False])
def test_null_is_no_number(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, statistics: bool) -> None:
    """Null in a column that must have a value is refused, with the file and the column, before either engine judges."""
    store = write_rows(tmp_path / "store", [WRITE | {"argument": 1}])
    (file,) = files_of(store)
    columns = pq.read_table(file).to_pydict() | {name: [None]}
    pq.write_table(pa.table(columns, schema=NULLABLE), file, write_statistics=statistics)

    assert code_of(store) == Exit.BAD_ARGUMENTS
    assert f"{file.name}: column {name} has a null" in capsys.readouterr().err
    with pytest.raises(Exception, match=f"column {name} has a null"):
        check_file(file)


@pytest.mark.parametrize("line", [None, 17])
def test_what_a_worker_refuses_is_said_as_it_said_it(line: int | None) -> None:
    """Of the trace that Spark passes on, the sentence about the file is what is left."""
    refused = HistoryError(Path("/store/a b.parquet"), line, "the file is damaged (x: y; z)", "write it again")
    trace = "".join(traceback.format_exception(refused))
    with pytest.raises(HistoryError) as told, refusals_of_workers():
        raise RuntimeError(f"An exception was thrown from the Python worker:\n{trace}\n\tat org.apache.spark.Task")
    assert str(told.value) == str(refused)
    assert (told.value.path, told.value.line) == (refused.path, line)


def test_what_else_goes_wrong_in_a_worker_is_left_as_it_is() -> None:
    """Nothing is taken for a fault of the file that is none."""
    with pytest.raises(RuntimeError, match="no space"), refusals_of_workers():
        raise RuntimeError("OSError: no space left on device")


@pytest.mark.parametrize("statistics", [True, False])
def test_a_good_file_is_refused_by_nothing(tmp_path: Path, statistics: bool) -> None:
    """Nulls where they may be are no fault, whether or not the end of the file tells of them."""
    store = write_rows(tmp_path / "store", [WRITE | {"argument": 1}, READ])
    (file,) = files_of(store)
    pq.write_table(pq.read_table(file), file, write_statistics=statistics)

    check_file(file)


def spoiling(store: Path, spoil: Callable[[], object], at_pass: int) -> Callable[[], Iterator[pa.Table]]:
    """The pieces of a folder, to which something happens before one of the passes."""
    passes = 0

    def pieces() -> Iterator[pa.Table]:
        nonlocal passes
        passes += 1
        if passes == at_pass:
            spoil()
        return batches_of(files_of(store))

    return pieces


@pytest.mark.parametrize("sizes", [Sizes(), SMALL], ids=["one bucket", "many buckets"])
@pytest.mark.parametrize("at_pass", [2, 3, 4])
def test_a_file_that_goes_between_the_passes(tmp_path: Path, sizes: Sizes, at_pass: int) -> None:
    """What was counted and is then not judged is an error, whichever pass misses it."""
    store = write_store(tmp_path, [sequence(number, 300) for number in range(4)])
    pieces = spoiling(store, files_of(store)[1].unlink, at_pass)
    if sizes is SMALL or at_pass == 2:
        with pytest.raises(ChangedError, match="operations were counted, and then"):
            judge_locally(pieces, TASK, sizes)


@pytest.mark.parametrize("at_pass", [2, 3])
def test_a_hot_object_that_goes(at_pass: int) -> None:
    """A hot object of which nothing is left is an error too, and no crash."""
    rows = rows_of(sequence(0, 300), {0: 0})
    left = [rows] * (at_pass - 1)
    with pytest.raises(ChangedError):
        judge_locally(lambda: iter([left.pop() if left else rows.slice(0, 0)]), TASK, SMALL)


def test_a_changed_folder_is_bad_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that changes is named, and its files are listed once: one that comes later is not half judged."""
    store = write_store(tmp_path, [sequence(0, 40)])
    listed: list[list[Path]] = []

    def vanishing(files: list[Path]) -> Iterator[pa.Table]:
        listed.append(files)
        return batches_of(files[: 2 if len(listed) > 1 else 3])

    monkeypatch.setattr("nemesis.pipeline.corpora.engine.batches_of", vanishing)

    assert code_of(store) == Exit.BAD_ARGUMENTS
    assert listed == [files_of(store)] * 2


@pytest.mark.parametrize("at_pass", [2, 3, 4])
def test_a_file_that_is_written_again_with_as_many_rows(tmp_path: Path, at_pass: int) -> None:
    """The same number of other rows between two passes is a change too."""
    store = write_store(tmp_path, [sequence(number, 300) for number in range(4)])
    (file, *_) = files = files_of(store)
    other = pq.read_table(file).to_pydict()
    other["line"] = [line + 1 for line in other["line"]]
    before = stamps_of(files)
    check_unchanged(files, before)

    pieces = spoiling(store, lambda: pq.write_table(pa.table(other, schema=OPERATION_ROWS), file), at_pass)
    judge_locally(pieces, TASK, SMALL)

    with pytest.raises(ChangedError, match=r"part-000000\.parquet was written again"):
        check_unchanged(files, before)


def test_a_folder_that_is_written_to_is_bad_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says of a file that was written again that it was."""
    store = write_store(tmp_path, [sequence(0, 40)])

    def rewriting(files: list[Path]) -> Iterator[pa.Table]:
        yield from batches_of(files)
        pq.write_table(pq.read_table(files[0]), files[0])

    monkeypatch.setattr("nemesis.pipeline.corpora.engine.batches_of", rewriting)

    assert code_of(store) == Exit.BAD_ARGUMENTS


def test_what_no_bucket_takes_is_refused(tmp_path: Path) -> None:
    """Objects that cannot be parted, and are too many for a call together, are an error of the folder."""
    store = tmp_path / "store"
    numbered_with_a_stride(store)
    assert judge_store(store, CasRegister(), sizes=Sizes(bucket=2, hot=2, call=9), engine="local").counts == {
        "valid": 9
    }
    with pytest.raises(HistoryError, match=r"9 operations do not fit 4093 buckets of 4, .*; judge it in parts"):
        judge_store(store, CasRegister(), sizes=Sizes(bucket=2, hot=2, call=4), engine="local")


@pytest.mark.parametrize("model", sorted(set(model_names()) - {"register", "cas-register", "kv"}))
def test_an_operation_that_the_model_does_not_have(tmp_path: Path, model: str) -> None:
    """Its object is unknown and the reason has the line; the job goes on, and so does the command."""
    rows = [WRITE | {"argument": 1, "object": 3}, {"function": 0, "text": '[0 "frobnicate" [[1] 2] nil]', "object": 5}]
    results = judge_store(write_rows(tmp_path / "store", rows), load_model(model), engine="local")

    assert [row["verdict"] for row in results.keys.to_pylist()] == ["unknown", "unknown"]
    reasons = [row["reason"] for row in results.anomalies.to_pylist()]
    assert [f"line {line}" in reason for line, reason in enumerate(reasons, start=1)] == [True, True]


def verdicts(folder: Path, model: str = "cas-register") -> list[tuple[Any, ...]]:
    """Object and verdict of each, in order."""
    keys = judge_store(folder, load_model(model), engine="local").keys.to_pylist()
    return sorted((row["object"], row["verdict"]) for row in keys)


def test_the_least_number_is_not_nil(tmp_path: Path) -> None:
    """-2**63 is a value like others, though it stands for nil in columns."""
    rows = [
        READ | {"object": 0, "result": LEAST},
        READ | {"object": 1, "result": None},
        WRITE | {"object": 2, "argument": LEAST},
        READ | {"object": 2, "result": LEAST},
        WRITE | {"object": 3, "argument": LEAST},
        READ | {"object": 3, "result": None},
    ]

    found = verdicts(write_rows(tmp_path / "store", rows))

    assert found == [(0, "invalid"), (1, "valid"), (2, "valid"), (3, "invalid")]


@pytest.mark.parametrize("foreign", [None, LEAST])
def test_records_that_columns_do_not_hold(tmp_path: Path, foreign: int | None) -> None:
    """A fetch of nil, or of the number that stands for it, is judged: nobody appended that."""
    rows: list[dict[str, Any]] = []
    for number, record in enumerate((7, foreign, 7)):
        rows.append({"object": number, "argument": 7, "result": 0, **APPEND})
        rows.append({"object": number, "argument": 0, "records": [record], **FETCH})

    found = verdicts(write_rows(tmp_path / "store", rows), "log")

    assert found == [(0, "valid"), (1, "invalid"), (2, "valid")]


@pytest.mark.parametrize("text", [None, "", '[0 "wri', '[0 "write" 1]', '[0 "write" 1 nil] 2', "7", "[0 1 2 3]"])
@pytest.mark.parametrize("sizes", [Sizes(), Sizes(bucket=2, hot=1, window=1, call=10)], ids=["cold", "hot"])
def test_a_text_that_nobody_can_read(tmp_path: Path, text: str | None, sizes: Sizes) -> None:
    """Its object is unknown and says the line; all others are judged."""
    good = [{"object": 1} | WRITE | {"argument": 1}, {"object": 1} | READ | {"result": 1}]
    store = write_rows(tmp_path / "store", [{"function": 0, "text": text}, READ, *good])

    results = judge_store(store, CasRegister(), sizes=sizes, engine="local")

    assert results.counts == {"unknown": 1, "valid": 1}
    (row,) = results.anomalies.to_pylist()
    assert (row["object"], row["reason"].startswith("line 1: ")) == (0, True)


def test_times_from_end_to_end(tmp_path: Path) -> None:
    """A hot object may use all the times that a number can be."""
    first = WRITE | {"argument": 1, "invoked": LEAST, "returned": LEAST + 1}
    last = READ | {"result": 1, "invoked": 2**63 - 3, "returned": 2**63 - 2}
    middle = [READ | {"result": 1, "invoked": time, "returned": time} for time in range(-50, 50)]
    store = write_rows(tmp_path / "store", [first, *middle, last])

    results = judge_store(store, CasRegister(), sizes=Sizes(bucket=50, hot=50, window=10, call=1_000), engine="local")

    assert results.counts == {"valid": 1}
    assert results.keys.column("windows").to_pylist()[0] > 1


def test_a_link_to_nothing_is_unknown(tmp_path: Path) -> None:
    """A history that is not there, beside good ones, is an unknown object."""
    for path in write_corpus(tmp_path):
        if path.name != "other.edn":
            path.unlink()
    assert code_of(tmp_path) == Exit.VALID
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere.jsonl")

    assert [path.name for path in files_in([tmp_path])] == ["gone.jsonl", "other.edn"]
    assert code_of(tmp_path) == Exit.UNKNOWN


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    """A folder is found by its link, and a link that leads back up does no harm."""
    (tmp_path / "corpus" / "sub").mkdir(parents=True)
    (tmp_path / "far").mkdir()
    for name in ("corpus/a.jsonl", "corpus/sub/b.jsonl", "far/c.jsonl"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    (tmp_path / "corpus" / "up").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus" / "linked").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "back").symlink_to(tmp_path / "corpus" / "sub")
    (tmp_path / "corpus" / "round.jsonl").symlink_to(tmp_path / "corpus" / "round.jsonl")

    found = [path.name for path in files_in([tmp_path / "corpus"])]

    assert sorted(found) == ["a.jsonl", "b.jsonl", "c.jsonl", "round.jsonl"]


def test_a_pipe_is_no_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a corpus it is an unknown object; nobody waits for what may never come."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert code_of(tmp_path) == Exit.UNKNOWN
    assert "this is no file with an end" in capsys.readouterr().out
