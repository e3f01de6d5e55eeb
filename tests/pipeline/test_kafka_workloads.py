"""A corpus of histories of Kafka workloads is judged as each file would be, here and on Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from benchmarks.synth.build import build
from benchmarks.synth.plan import Plan, SynthModel
from nemesis.cli.__main__ import cli
from nemesis.cli.exit import Exit, exit_code_of
from nemesis.pipeline.corpora.workloads import judge_workloads
from tests.pipeline.stores import sequence, write_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANTED = {
    "clean.jsonl": (),
    "allowed.edn": ("G0", "G0-process"),
    "cycles.jsonl": ("G1c-realtime", "G1c-process"),
    "lost.parquet": ("lost-write", "duplicate"),
    "unseen.jsonl": ("unseen",),
}
VERDICTS = {
    "clean.jsonl": "valid",
    "allowed.edn": "valid",
    "cycles.jsonl": "invalid",
    "lost.parquet": "invalid",
    "unseen.jsonl": "unknown",
    "cut.jsonl": "unknown",
    "register.jsonl": "unknown",
}
BEGUN = {"process": 0, "type": "invoke", "f": "send", "value": [["send", 1, 2]]}


def write_workloads(folder: Path) -> list[Path]:
    """A file for each of ``VERDICTS``, in the order of their names."""
    made = folder / "made"
    made.mkdir()
    for seed, (name, anomalies) in enumerate(PLANTED.items()):
        counts = dict.fromkeys(anomalies, 1)
        plan = Plan(model=SynthModel.KAFKA, operations=60, keys=8, anomalies=counts, seed=seed)
        build(plan, made / name)
        (made / name).replace(folder / name)
    (folder / "cut.jsonl").write_text(json.dumps(BEGUN) + '\n{"process"', encoding="utf-8")
    (folder / "register.jsonl").write_text(json.dumps(BEGUN | {"value": 1}), encoding="utf-8")
    for left in made.iterdir():
        left.unlink()
    made.rmdir()
    return sorted(folder.iterdir())


def code_of(*arguments: object) -> int:
    """The exit code of the command in this process."""
    return exit_code_of(lambda: cli.main([str(word) for word in arguments], standalone_mode=False))


@pytest.mark.slow
def test_each_file_has_the_verdict_that_it_has_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder gives of each file what the file gives by itself, but that what cannot be read stops no other."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    files = write_workloads(corpus)
    output = tmp_path / "out"

    code = code_of("check", corpus, "--model", "kafka", "--engine", "local", "--output", output)

    assert code == Exit.INVALID
    assert "files: 2 valid, 2 invalid, 3 unknown" in capsys.readouterr().out
    runs = {Path(row["run_id"]).name: row for row in pq.read_table(output / "runs").to_pylist()}
    assert {name: row["verdict"] for name, row in runs.items()} == VERDICTS
    anomalies = pq.read_table(output / "anomalies").to_pylist()
    for path in files:
        alone = tmp_path / "alone.json"
        if code_of("check", path, "--model", "kafka", "--output", alone) == Exit.BAD_ARGUMENTS:
            assert runs[path.name]["reasons"][0] in capsys.readouterr().err
            continue
        result = json.loads(alone.read_text(encoding="utf-8"))
        assert {name: result[name] for name in ("verdict", "reasons", "events", "topic_partitions")} == {
            name: runs[path.name][name] for name in ("verdict", "reasons", "events", "topic_partitions")
        }
        found = [(row["anomaly"], row["detail"]) for row in anomalies if row["run_id"] == str(path)]
        assert sorted(found) == sorted((row["anomaly"], row["detail"]) for row in result["anomalies"])


@pytest.mark.parametrize(
    ("name", "code"), [("allowed.edn", Exit.VALID), ("cut.jsonl", Exit.UNKNOWN), ("lost.parquet", Exit.INVALID)]
)
def test_the_worst_file_decides(tmp_path: Path, name: str, code: int) -> None:
    """Beside a clean one, what is allowed is valid, what cannot be read unknown, and a violation invalid."""
    write_workloads(tmp_path)

    files = tmp_path / "clean.jsonl", tmp_path / name
    assert code_of("check", *files, "--model", "kafka", "--engine", "local") == code


@pytest.mark.parametrize(
    ("options", "problem"),
    [(["--budget", "5"], "--budget: not with --model kafka"), (["--key-pairs", "no"], "--key-pairs: not with")],
)
def test_options_of_objects_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    """What is about objects is not passed over."""
    write_workloads(tmp_path)
    assert code_of("check", tmp_path, "--model", "kafka", "--engine", "local", *options) == Exit.BAD_ARGUMENTS
    assert problem in capsys.readouterr().err


def test_a_folder_of_operations_has_no_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Operations on objects are no history of sends and polls."""
    store = write_store(tmp_path, [sequence(0, 4)])
    assert code_of("check", store, "--model", "kafka", "--engine", "local") == Exit.BAD_ARGUMENTS
    assert "is a folder of operations on objects" in capsys.readouterr().err


def test_a_name_that_no_result_can_have_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results are texts, so a file's name must be one; which file it is can be seen."""
    (tmp_path / os.fsdecode(b"\xff.jsonl")).write_text("{}", encoding="utf-8")
    assert code_of("check", tmp_path, "--model", "kafka", "--engine", "local") == Exit.BAD_ARGUMENTS
    assert r"\xff.jsonl: the name is no UTF-8" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Files of several formats, two of them broken, give the same two tables on Spark, in one job."""
    files = write_workloads(tmp_path)

    here = judge_workloads(files, engine="local")
    there = judge_workloads(files, spark=spark)

    assert there.runs.to_pylist() == here.runs.to_pylist()
    assert there.anomalies.to_pylist() == here.anomalies.to_pylist()
    assert there.verdict is here.verdict
    assert {row["severity"] for row in here.anomalies.to_pylist()} == {"violation", "unknown", "allowed"}
