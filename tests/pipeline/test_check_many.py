"""``nemesis check`` of many histories, of folders of operations and of several runs."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pyarrow.parquet as pq
import pytest

from benchmarks.synth.build import build
from benchmarks.synth.plan import Plan, SynthModel
from nemesis.cli.__main__ import cli
from nemesis.cli.exit import Exit, exit_code_of
from nemesis.linearizability.judgement import Budget
from nemesis.linearizability.models.register import Register
from nemesis.linearizability.operations import Operation, Value
from nemesis.pipeline.corpora.bucket import Task
from nemesis.pipeline.corpora.histories import Reading, judge_histories
from nemesis.verdict import Verdict
from tests.pipeline.corpora import write_corpus
from tests.pipeline.stores import mixed, sequence, write_store


def code_of(*arguments: object) -> int:
    """The exit code of the command in this process."""
    return exit_code_of(lambda: cli.main([str(word) for word in arguments], standalone_mode=False))


def test_a_corpus_is_one_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of histories: a line for each object that is not valid, the evidence in Parquet, the worst verdict."""
    files = write_corpus(tmp_path)
    output = tmp_path / "out"

    code = code_of("check", tmp_path, "--model", "cas-register", "--engine", "local", "--output", output)

    said = capsys.readouterr().out
    keys = pq.read_table(output / "keys").to_pylist()
    assert code == Exit.INVALID
    assert "verdict: invalid" in said
    assert {row["run_id"] for row in keys} == {str(file) for file in files}
    assert {(row["run_id"], row["key"], row["verdict"]) for row in keys if "broken" in row["run_id"]} == {
        (str(tmp_path / "broken.jsonl"), "", "unknown")
    }
    assert "broken.jsonl:1: this is no JSON" in said
    assert pq.read_table(output / "anomalies").num_rows == sum(row["verdict"] != "valid" for row in keys)


@pytest.mark.parametrize(
    ("spoiled", "unknown", "code"), [(False, -1, Exit.VALID), (True, -1, Exit.INVALID), (False, 2, Exit.VALID)]
)
def test_a_folder_of_operations(tmp_path: Path, spoiled: bool, unknown: int, code: int) -> None:
    """What was written as operations is judged by the verdict's exit code."""
    store = write_store(tmp_path, [sequence(0, 40), sequence(1, 40, spoiled=spoiled, unknown_at=unknown)])

    assert code_of("check", store, "--model", "register", "--engine", "local") == code


def test_an_unreadable_history_is_unknown(tmp_path: Path) -> None:
    """One broken file among right ones is no verdict on the others, and no pass for itself."""
    files = [path for path in write_corpus(tmp_path) if path.name in ("other.edn", "broken.jsonl")]

    assert code_of("check", *files, "--model", "cas-register", "--engine", "local") == Exit.UNKNOWN


class Faulty(Register):
    """A user's model with a mistake of its own."""

    def step(self, state: Value, operation: Operation) -> NoReturn:
        """Fail at every operation."""
        raise ZeroDivisionError("a mistake")


def test_a_model_that_fails_makes_its_histories_unknown(tmp_path: Path) -> None:
    """What judging itself did wrong is told of the file at hand, and is no end of the job."""
    files = [path for path in write_corpus(tmp_path) if path.name in ("other.edn", "broken.jsonl")]

    results = judge_histories(files, Reading(task=Task(model=Faulty(), budget=Budget())), engine="local")

    reasons = {Path(row["run_id"]).name: row["reason"] for row in results.anomalies.to_pylist()}
    assert results.verdict is Verdict.UNKNOWN
    assert reasons["other.edn"] == "ZeroDivisionError: a mistake"
    assert "this is no JSON" in reasons["broken.jsonl"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "is a file: give --model"),
        (["--model", "no-such-model"], "no model"),
        (["--model", "register", "--output", "here"], "exists already"),
    ],
)
def test_bad_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], problem: str) -> None:
    """What cannot be judged so is said before any work."""
    (tmp_path / "other").mkdir()
    files = write_corpus(tmp_path / "other")[:2]
    given = [str(tmp_path / "other") if word == "here" else word for word in options]

    assert code_of("check", *files, *given, "--engine", "local") == Exit.BAD_ARGUMENTS
    assert problem in capsys.readouterr().err


def test_operations_take_no_options_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of operations has no format to be told."""
    store = write_store(tmp_path, mixed(2))

    code = code_of("check", store, "--model", "cas-register", "--format", "json", "--engine", "local")

    assert (code, "without --format" in capsys.readouterr().err) == (Exit.BAD_ARGUMENTS, True)


def test_without_java_this_process_judges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Spark is preferred and cannot run, the same is judged here, and that is said."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    store = write_store(tmp_path / "store", [sequence(0, 20)])

    assert code_of("check", store, "--model", "register", "--master", "local[2]") == Exit.VALID
    assert "Spark cannot run here, so this process judges" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["register", "kafka"])
def test_a_corpus_that_was_made_up_is_checked_without_its_manifests(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No history has the name of a manifest, so a folder is checked without; one of nothing else holds no history."""
    build(Plan(model=SynthModel(model), operations=40, anomalies={}), tmp_path / "1.jsonl")
    words = ("check", tmp_path, "--model", model, "--engine", "local")

    assert code_of(*words) == Exit.VALID
    assert "0 invalid, 0 unknown" in capsys.readouterr().out
    (tmp_path / "1.jsonl").unlink()
    assert len(list(tmp_path.iterdir())) == 1
    assert code_of(*words) == Exit.BAD_ARGUMENTS
