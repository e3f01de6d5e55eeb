"""Folders of operations are judged in parts as they are judged as a whole, in bounded memory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nemesis.formats.errors import HistoryError
from nemesis.linearizability.arrays.columns import NIL
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.kernel import judge
from nemesis.linearizability.models.register import CasRegister
from nemesis.linearizability.models.registry import load_model
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.pipeline.corpora.bucket import Task, judge_bucket, judge_sorted
from nemesis.pipeline.corpora.encoding import columns_of, operations_of, rows_of
from nemesis.pipeline.corpora.engine import judge_store
from nemesis.pipeline.corpora.hot import Cutter
from nemesis.pipeline.corpora.plan import SLOTS, Sizes, TooManyError, planned
from nemesis.pipeline.corpora.results import write_results
from nemesis.verdict import Verdict
from tests.linearizability.histories import ASK, Shape, random_history
from tests.pipeline.stores import SMALL, mixed, sequence, write_store

TASK = Task(model=CasRegister(), budget=Budget())


@pytest.mark.parametrize("workload", sorted(ASK))
def test_operations_come_back_as_they_were(workload: str) -> None:
    """What is written as rows and read again is equal, but for the times, which keep their order."""
    shape = Shape(operations=30, processes=4, values=3, unknown=0.1, failed=0.2, spoiled=1)
    for number in range(20):
        history = random_history(workload, Random(number), shape)
        found = operations_of(rows_of(history, {None: 7}))
        moments = sorted(moment for op in history for moment in (op.invoked, op.returned) if moment is not None)
        place = {moment: index for index, moment in enumerate(moments)}
        for one, other in zip(history, found, strict=True):
            assert (one.process, one.f, one.argument, one.result, one.outcome, one.line) == (
                *(other.process, other.f, other.argument, other.result, other.outcome, other.line),
            )
            assert other.key == 7
            assert place[one.invoked] == other.invoked
            assert (one.returned is None) == (other.returned is None)


@pytest.mark.parametrize("argument", [(), (1,), (1, 2, 3, 4), (None, 1), ((1,), 2), (1, 2, False)])
def test_a_fetch_of_another_shape_is_text(argument: Value) -> None:
    """What asks for no offset and limit comes back as it was, as any operation that no column holds."""
    op = Operation(
        process=0, f="fetch", key=0, argument=argument, result=None, outcome=Outcome.OK, invoked=0, returned=1, line=1
    )
    assert operations_of(rows_of([op], {0: 0}))[0].argument == argument


def test_a_folder_is_judged_as_each_object_alone(tmp_path: Path) -> None:
    """Buckets and windows change no verdict; what fits a bucket has the evidence of its object alone."""
    parts = mixed(200)
    results = judge_store(write_store(tmp_path, parts), CasRegister(), sizes=SMALL, engine="local")

    rows = {row["object"]: row for row in results.keys.to_pylist()}
    evidence = {row["object"]: row for row in results.anomalies.to_pylist()}
    assert len(rows) == len(parts)
    for number, part in enumerate(parts):
        (expected,) = judge(part, CasRegister())
        row = rows[number]
        assert (row["verdict"], row["operations"]) == (expected.verdict.value, len(part))
        assert (row["judged"], row["decided"]) == (expected.operations, expected.decided)
        if expected.counterexample is not None:
            found = evidence[number]
            assert found["last_line"] == expected.counterexample.last.line
            if row["windows"] == 1:
                assert [op["line"] for op in found["conflict"]] == [
                    op.line for op in expected.counterexample.operations
                ]
                assert (row["kernel"], row["configurations"]) == (expected.kernel, expected.configurations)
    assert [rows[number]["windows"] > 1 for number in range(200, 204)] == [True, True, True, False]
    assert results.verdict is Verdict.INVALID
    assert set(evidence) == {number for number, row in rows.items() if row["verdict"] != "valid"}
    assert evidence[201]["window"] > 0


def test_names_are_told(tmp_path: Path) -> None:
    """An object with a name has its run and key, another one is its number."""
    results = judge_store(write_store(tmp_path, mixed(4)), CasRegister(), engine="local")

    named = {row["object"]: (row["run_id"], row["key"]) for row in results.keys.to_pylist()}
    assert (named[2], named[3]) == (("run", "k2"), ("", "3"))


def test_what_cannot_be_cut_is_unknown(tmp_path: Path) -> None:
    """An object with more operations than a call takes, after a write of unknown outcome, is unknown and says why."""
    sizes = Sizes(bucket=100, hot=50, window=40, call=200)
    parts = [sequence(0, 20), sequence(1, 600, unknown_at=10), sequence(2, 600)]
    results = judge_store(write_store(tmp_path, parts), CasRegister(), sizes=sizes, engine="local")

    assert results.counts == {"valid": 2, "unknown": 1}
    (row,) = results.anomalies.to_pylist()
    assert row["object"] == 1
    assert "at most 200 are judged at once" in row["reason"]


def test_results_are_written(tmp_path: Path) -> None:
    """Rows and evidence are Parquet, partitioned by verdict, and never written over."""
    results = judge_store(write_store(tmp_path / "in", mixed(20)), CasRegister(), engine="local")
    write_results(results, tmp_path / "out")

    assert pq.read_table(tmp_path / "out" / "keys").num_rows == results.keys.num_rows
    invalid = pq.read_table(tmp_path / "out" / "anomalies" / "verdict=invalid").to_pylist()
    assert sorted(row["object"] for row in invalid) == sorted(results.anomalies.column("object").to_pylist())
    assert all(row["conflict"] for row in invalid)
    with pytest.raises(FileExistsError):
        write_results(results, tmp_path / "out")


def test_malformed_operations_are_unknown() -> None:
    """An operation that ends before it begins, or of no known kind, makes its object unknown and no other."""
    rows = rows_of([op for number in range(4) for op in sequence(number, 8)], {n: n for n in range(4)}).to_pydict()
    rows["returned"][3] = rows["invoked"][3] - 1
    rows["function"][9] = 17
    rows["returned"][17] = None
    judged = judge_bucket(pa.table(rows).cast(rows_of([], {}).schema), TASK)

    assert judged.column("verdict").to_pylist() == ["unknown", "unknown", "unknown", "valid"]
    assert judged.column("reason").to_pylist()[0].startswith("line 4:")


def test_a_folder_that_is_none_says_so(tmp_path: Path) -> None:
    """A file with other columns, or a damaged one, is an error that names the file."""
    (tmp_path / "operations").mkdir()
    file = tmp_path / "operations" / "part-0.parquet"
    pq.write_table(pa.table({"object": [1]}), file)
    with pytest.raises(HistoryError, match="there is no column process"):
        judge_store(tmp_path, CasRegister(), engine="local")
    file.write_bytes(b"PAR1 and no more")
    with pytest.raises(HistoryError, match="no Parquet or damaged"):
        judge_store(tmp_path, CasRegister(), engine="local")


@pytest.mark.parametrize("batch", [1, 7, 100, 5_000])
def test_cuts_do_not_depend_on_batches(batch: int) -> None:
    """However the rows come, windows are the same, and have as many rows as they must."""
    rows = rows_of(sequence(0, 700), {0: 0})
    cutter = Cutter(NIL, 40)
    windows = []
    for begin in range(0, rows.num_rows, batch):
        part = rows.slice(begin, batch)
        windows += cutter.cut(columns_of(part, np.zeros(part.num_rows, dtype=np.int64), 1))[0].tolist()

    sizes = np.bincount(windows)
    assert windows == sorted(windows)
    assert sizes[:-1].min() >= 40
    assert sizes.max() <= 48


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_what_is_pending_is_pending_in_the_next_batch(batch: int) -> None:
    """Where operations overlap, cuts and the values at them are those of all rows at once."""
    shape = Shape(operations=300, processes=3, values=0, unknown=0, failed=0.05, spoiled=0, begin=0.3)
    rows = rows_of(random_history("cas-register", Random(8), shape), {None: 0})
    whole, apart = Cutter(NIL, 3), Cutter(NIL, 3)
    expected = np.stack(whole.cut(columns_of(rows, np.zeros(rows.num_rows, dtype=np.int64), 1)))
    parts = [rows.slice(begin, batch) for begin in range(0, rows.num_rows, batch)]
    found = [np.stack(apart.cut(columns_of(part, np.zeros(part.num_rows, dtype=np.int64), 1))) for part in parts]

    assert np.concatenate(found, axis=1).tolist() == expected.tolist()
    assert expected[0].max() > 5


def test_there_is_no_cut_after_an_unknown_write() -> None:
    """A write of unknown outcome may still happen in any later window, so there is none."""
    rows = rows_of(sequence(0, 700, unknown_at=100), {0: 0})
    windows, _ = Cutter(NIL, 40).cut(columns_of(rows, np.zeros(700, dtype=np.int64), 1))

    assert set(windows[101:].tolist()) == {windows[100]}
    assert windows[100] >= 2


@pytest.mark.slow
def test_windows_together_are_the_whole() -> None:
    """Windows of a few operations, each begun with the value at its cut, are right exactly if the history is."""
    several: Counter[str] = Counter()
    for seed in range(60):
        unknown = 0.02 if seed % 3 else 0
        shape = Shape(
            operations=60, processes=2, values=seed % 3, unknown=unknown, failed=0.05, spoiled=seed % 2, begin=0.2
        )
        history = random_history("cas-register", Random(f"windows {seed}"), shape)
        rows = rows_of(history, {None: 0})
        windows, begins = Cutter(NIL, 3).cut(columns_of(rows, np.zeros(rows.num_rows, dtype=np.int64), 1))
        cut = rows.append_column("window", pa.array(windows.astype(np.int32)))
        cut = cut.append_column("begins_with", pa.array(begins, mask=begins == NIL))

        judged = pa.concat_tables(judge_sorted(cut.to_batches(max_chunksize=7), TASK, 10))

        (expected,) = judge(history, CasRegister())
        assert ("invalid" in judged.column("verdict").to_pylist()) == (expected.verdict is Verdict.INVALID), seed
        several[expected.verdict] += judged.num_rows > 3
    assert several["valid"] >= 40
    assert several["invalid"] >= 10


def test_a_plan_fits_calls() -> None:
    """Buckets never hold more than a call takes, however uneven the slots are; beyond that there is an error."""
    sizes = Sizes(bucket=1_000, hot=500, window=100, call=2_000)
    uneven = {slot: 900 if slot % 7 == 0 else 1 for slot in range(SLOTS)}
    plan = planned(uneven, {}, [], sizes, parallelism=4)

    weights = np.bincount(plan.buckets_of(np.array(list(uneven))), weights=list(uneven.values()))
    assert weights.max() <= 2_000
    with pytest.raises(TooManyError, match="8190093 operations do not fit 4093 buckets of 2000"):
        planned(dict.fromkeys(range(SLOTS), 2_001), {}, [], sizes, parallelism=4)


def test_a_log_can_be_hot(tmp_path: Path) -> None:
    """A log that is too large for a bucket is judged in windows."""
    shape = Shape(operations=200, processes=3, values=0, unknown=0, failed=0, spoiled=0)
    history = random_history("log", Random(4), shape)
    (tmp_path / "operations").mkdir()
    rows = rows_of(history, {None: 5})
    pq.write_table(rows, tmp_path / "operations" / "part-0.parquet")

    results = judge_store(
        tmp_path, load_model("log"), sizes=Sizes(bucket=50, hot=50, window=10, call=1_000), engine="local"
    )

    (row,) = results.keys.to_pylist()
    assert (row["object"], row["kernel"], row["verdict"], row["operations"]) == (5, "logs", "valid", 200)
    assert row["windows"] > 3
