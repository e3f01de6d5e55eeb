"""Histories that are made up: the same for the same seed, told truly by their manifest, refused where none can be."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.synth.__main__ import synth
from benchmarks.synth.build import build
from benchmarks.synth.plan import Plan, PlanError, SynthModel, counted, placings


def plan(**fields: object) -> Plan:
    """A small history of logs."""
    known: dict[str, object] = {"model": SynthModel.KAFKA, "operations": 200, "keys": 6, "anomalies": {}, "seed": 3}
    return Plan(**(known | fields))  # type: ignore[arg-type]  # the fields of a plan


@pytest.mark.parametrize("name", ["h.jsonl", "h.edn", "h.parquet"])
def test_one_seed_gives_one_history(name: str, tmp_path: Path) -> None:
    """The same plan gives the same bytes, another seed gives others."""
    written = []
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        target = tmp_path / folder / name
        target.parent.mkdir()
        build(plan(seed=seed, anomalies={"phantom-read": 1}), target)
        written.append((target.read_bytes(), target.with_name(f"{name}.manifest").read_bytes()))
    assert written[0] == written[1]
    assert written[0] != written[2]


def test_the_manifest_names_what_was_planted(tmp_path: Path) -> None:
    """Operations and offsets of the manifest are those of the file, and nobody else touches the log meanwhile."""
    target = tmp_path / "h.jsonl"
    manifest = build(plan(anomalies={"duplicate": 1, "phantom-read": 2}), target)
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [line["index"] for line in lines] == list(range(manifest.events))
    phantoms = [one for one in manifest.planted if one.anomaly == "phantom-read"]
    assert len({key for one in manifest.planted for key in one.keys}) == len(manifest.planted) == 3
    begun = [line for line in lines if line["f"] == "txn" and line["type"] == "invoke"]
    sent = {micro[2] for line in begun for micro in line["value"] if micro[0] == "send"}
    for one in phantoms:
        [index] = one.op_indexes
        polled = lines[index + 1]["value"][0][1][one.keys[0]]
        assert [record[1] not in sent for record in polled if record[0] == one.offsets[0]] == [True]
    document = json.loads((tmp_path / "h.jsonl.manifest").read_text(encoding="utf-8"))
    assert [one["anomaly"] for one in document["planted"]] == [one.anomaly for one in manifest.planted]


def test_each_anomaly_has_its_keys_for_itself() -> None:
    """No key is given to two anomalies; one too many is refused."""
    asked = plan(keys=6, anomalies={"G0": 2, "duplicate": 2})
    widths = {"G0": 2, "duplicate": 1}
    placed = placings(asked, widths)
    assert sorted(len(one.keys) for one in placed) == [1, 1, 2, 2]
    assert len({key for one in placed for key in one.keys}) == 6
    with pytest.raises(PlanError, match="need 6 keys"):
        placings(plan(keys=5, anomalies=asked.anomalies), widths)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {}),
        (["a"], {"a": 1}),
        (["a:2", "b:1", "a"], {"a": 3, "b": 1}),
        (["all:2"], {"a": 2, "b": 2}),
        (["a:0"], {"a": 0}),
    ],
)
def test_anomalies_are_counted(words: list[str], expected: dict[str, int]) -> None:
    """``NAME:COUNT``, ``NAME`` and ``all:COUNT`` add up."""
    assert counted(words, ("a", "b")) == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "register", "--anomaly", "G0:1", "--output", "h.jsonl"], "register has no anomaly G0"),
        (["--model", "register", "--anomaly", "stale-read:x", "--output", "h.jsonl"], "stale-read:x is no NAME:COUNT"),
        (["--model", "register", "--anomaly", "stale-read:11", "--output", "h.jsonl"], "need 11 keys"),
        (["--model", "register", "--output", "h.txt"], "is no file of a known kind"),
        (["--model", "register", "--output", "folder"], "is no file of a known kind"),
        (["--model", "list", "--output", "no/such/h.jsonl"], "No such file"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    """Bad arguments are told in one sentence, without a file."""
    *others, name = arguments
    result = CliRunner().invoke(synth, [*others, str(tmp_path / name)])
    assert result.exit_code == 2
    assert said in result.output
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_a_run(tmp_path: Path) -> None:
    """A folder is a run that ``nemesis check`` takes, with its manifest in it."""
    target = tmp_path / "run"
    arguments = [
        "--model",
        "kafka",
        "--operations",
        "100",
        "--keys",
        "3",
        "--anomaly",
        "duplicate",
        "--output",
        str(target),
    ]
    result = CliRunner().invoke(synth, arguments)
    assert result.output.endswith("1 anomalies planted\n")
    assert (target / "history" / "_COMPLETE").is_file()
    assert json.loads((target / "synth.manifest").read_text(encoding="utf-8"))["planted"][0]["anomaly"] == "duplicate"


def test_nothing_is_shared_with_the_judges(pytestconfig: pytest.Config) -> None:
    """What makes histories up imports of the project itself, and of what says how a run is written, only."""
    allowed = ("benchmarks.synth", "nemesis.history.events", "nemesis.history.writer", "replica.cli.help")
    shared = [
        f"{path.name}: {name}"
        for path in sorted((pytestconfig.rootpath / "benchmarks" / "synth").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in imported(node)
        if name.startswith(("benchmarks", "nemesis", "replica")) and not name.startswith(allowed)
    ]
    assert shared == []


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
