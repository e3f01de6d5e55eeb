"""Histories of Kafka workloads, as Jepsen writes them and as this harness exports its own, are judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nemesis.checks import judge_transactions
from nemesis.cli.__main__ import cli
from nemesis.cli.exit import Exit
from nemesis.formats.errors import HistoryError
from nemesis.formats.kafka_edn import export_kafka_edn
from nemesis.formats.kafka_operations import micro_operations
from nemesis.formats.keyed import KeyPairs
from nemesis.formats.reading import read_history_file
from nemesis.history.reader import read_history
from nemesis.history.schemas import REPLICA_EVENT_SCHEMA, REPLICA_LOG_SCHEMA
from nemesis.pipeline.local import judge_tables
from tests.checks.simulation import Run, simulate
from tests.formats.histories import written
from tests.pipeline.recorded import record_run

SENT = (
    "{:index 0, :time 1, :type :invoke, :process 0, :f :txn, :value [[:send 1 10] [:send 2 20]]}\n"
    "{:index 1, :time 2, :type :ok, :process 0, :f :txn, :value [[:send 1 [0 10]] [:send 2 [nil 20]]]}\n"
)
POLLED = (
    "{:index 4, :time 5, :type :invoke, :process 1, :f :poll, :value [[:poll]]}\n"
    "{:index 5, :time 6, :type :ok, :process 1, :f :poll, :value [[:poll {1 [[0 10]], 2 [[0 20]]}]]}\n"
)
TAKEN = (
    "{:index 2, :time 3, :type :invoke, :process 1, :f :assign, :value [1 2], :seek-to-beginning? true}\n"
    "{:index 3, :time 4, :type :ok, :process 1, :f :assign, :value [1 2], :seek-to-beginning? true}\n"
)
OTHERS = (
    "{:index 6, :time 7, :type :info, :process :nemesis, :f :kill, :value nil}\n"
    "{:index 7, :time 8, :type :invoke, :process 0, :f :debug-topic-partitions, :value [1 2]}\n"
    "{:index 8, :time 9, :type :ok, :process 0, :f :debug-topic-partitions, :value {1 {:a 1}}}\n"
    "{:index 9, :time 10, :type :invoke, :process 0, :f :crash, :value nil}\n"
    "{:index 10, :time 11, :type :info, :process 0, :f :crash, :value nil}\n"
)
ALL = SENT + TAKEN + POLLED + OTHERS


def rows_of(folder: Path, text: str) -> list[dict[str, Any]]:
    """The operations of a history, by the names of their columns."""
    path = written(folder, text, "history.edn")
    history = read_history_file(path, key_pairs=KeyPairs.NO)
    return list(micro_operations(history.events, path).to_pylist())


def test_micro_operations_become_rows(tmp_path: Path) -> None:
    """One row for each send, one for each log that was polled; what is neither is left out."""
    rows = rows_of(tmp_path, ALL)
    shown = [(r["topic_partition"], r["f"], r["type"], r["value"], r["offset"], r["place"], r["seek"]) for r in rows]
    assert shown == [
        ("1", "append", "ok", 10, 0, 0, False),
        ("2", "append", "ok", 20, None, 1, False),
        ("1", "poll", "ok", None, None, 0, False),
        ("2", "poll", "ok", None, None, 0, False),
    ]
    assert [row["records"] for row in rows[2:]] == [[{"offset": 0, "value": 10}], [{"offset": 0, "value": 20}]]
    assert {(row["invoke_index"], row["return_index"]) for row in rows} == {(0, 1), (4, 5)}


AGAIN = POLLED.replace(":index 4", ":index 20").replace(":index 5", ":index 21")


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("", (False, False)),
        ("{:index 11, :type :invoke, :process 1, :f :subscribe, :value [1]}\n"
         "{:index 12, :type :ok, :process 1, :f :subscribe, :value [1]}\n", (False, True)),
        ("{:index 11, :type :invoke, :process 1, :f :assign, :value [1]}\n"
         "{:index 12, :type :fail, :process 1, :f :assign, :value [1]}\n", (False, False)),
        ("{:index 11, :type :invoke, :process 1, :f :assign, :value [1 2], :seek-to-beginning? true}\n", (True, True)),
        ("{:index 11, :type :invoke, :process 1, :f :assign, :value []}\n"
         "{:index 12, :type :info, :process 1, :f :assign, :value []}\n", (True, True)),
        ("{:index 11, :type :invoke, :process 1, :f :subscribe, :value [1 2]}\n"
         "{:index 12, :type :ok, :process 1, :f :subscribe, :value [1 2]}\n"
         "{:index 13, :type :invoke, :process 1, :f :assign, :value [1 2]}\n"
         "{:index 14, :type :ok, :process 1, :f :assign, :value [1 2]}\n", (True, True)),
    ],
    ids=["nothing", "one taken away", "failed", "sought", "all taken away", "a group's before"],
)  # fmt: skip
def test_what_is_taken_away_or_sought_begins_anew(between: str, expected: tuple[bool, ...], tmp_path: Path) -> None:
    """A consumer reads on in a log that it keeps, and anywhere in one that it was given anew."""
    if ":seek" in between:
        between += between.replace(":index 11", ":index 12").replace(":invoke", ":ok")
    rows = rows_of(tmp_path, SENT + TAKEN + POLLED + between + AGAIN)
    assert tuple(row["seek"] for row in rows if row["invoke_index"] == 20) == expected


def test_rebalanced_keys_are_marked(tmp_path: Path) -> None:
    """The keys of the completion's rebalance-log, and no others."""
    text = ALL.replace("2 [[0 20]]}]]}", "2 [[0 20]]}]], :rebalance-log [{:keys [2], :type :assigned}]}")
    assert [(row["topic_partition"], row["rebalanced"]) for row in rows_of(tmp_path, text)[2:]] == [
        ("1", False),
        ("2", True),
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[:send 1 [0 10]]", "[:send 1 [0 11]]", "completes a send of"),
        ("[:send 1 [0 10]]", "[:send 1 [-1 10]]", "the offset '-1'"),
        ("[:send 1 [0 10]]", "[:send 1 [9223372036854775807 10]]", "the offset"),
        ("[:send 1 [0 10]] ", "", "completes other micro-operations"),
        ("{1 [[0 10]], 2 [[0 20]]}", "{1 [[0 :ten]]}", "the value"),
        ("[:send 1 10]", "[:sned 1 10]", "the micro-operation"),
        ("[:send 1 10]", "[:send 1]", "the micro-operation"),
        ("[[:poll {1 [[0 10]], 2 [[0 20]]}]]", "[[:poll [[0 10]]]]", "a poll returned"),
        ("{1 [[0 10]], 2 [[0 20]]}", "{1 [[0 10 3]]}", "returned the record"),
        ("{1 [[0 10]], 2 [[0 20]]}", "{1 7}", "a poll returned"),
        ("{1 [[0 10]], 2 [[0 20]]}", "{1 [[0 nil]]}", "returned the record"),
        (":assign, :value [1 2], :seek", ":assign, :value 7, :seek", "assign of"),
        (
            "{:index 1,",
            "{:index 11, :type :ok, :process 7, :f :poll, :value []}\n{:index 12,",
            "what it has not invoked",
        ),
        (":process 1, :f :poll, :value [[:poll]]", ":process :one, :f :poll, :value [[:poll]]", "has no number"),
        ("[[:poll {1", "[[:poll {1 [[0 10]]}] [:poll {1", "completes other micro-operations"),
    ],
)
def test_what_no_workload_writes_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    """A clear error with its line, and no verdict."""
    assert old in ALL
    text = ALL.replace(old, new, 1)
    lines = text if "index 11," not in new else SENT.replace(old, new, 1)
    with pytest.raises(HistoryError, match=r"history\.edn:\d+: ") as error:
        rows_of(tmp_path, lines)
    assert said in str(error.value)


def check(folder: Path, text: str, *options: str) -> tuple[int, str]:
    """How ``nemesis check`` ends, and what it prints."""
    path = written(folder, text, "history.edn")
    result = CliRunner().invoke(cli, ["check", str(path), "--model", "kafka", *options], standalone_mode=False)
    return result.return_value, result.output


def test_the_command_judges(tmp_path: Path) -> None:
    """Valid, invalid and unknown, with what was found; the JSON has it all."""
    target = tmp_path / "result.json"
    assert check(tmp_path, ALL)[0] == Exit.VALID
    code, said = check(tmp_path, ALL.replace("[[0 20]]", "[[0 20] [1 99]]"), "--output", str(target))
    assert code == Exit.INVALID
    assert said.splitlines()[0].startswith("2: phantom-read: value 99 at offset 1")
    assert json.loads(target.read_text(encoding="utf-8"))["anomalies"][0]["evidence"]["value"] == 99
    assert check(tmp_path, SENT)[0] == Exit.UNKNOWN
    assert check(tmp_path, TAKEN + POLLED.replace("{1 [[0 10]], 2 [[0 20]]}", "{}"))[0] == Exit.UNKNOWN


def without_run(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the name of the run."""
    return [{name: value for name, value in row.items() if name != "run_id"} for row in rows]


@pytest.mark.parametrize("block", range(2))
def test_an_exported_run_is_judged_as_the_run(block: int, tmp_path: Path) -> None:
    """What the operations of a run show, its export shows: row by row, with all evidence."""
    shown = set()
    for seed in range(block * 8, block * 8 + 8):
        run = simulate(seed, 3)
        folder = record_run(tmp_path / str(seed), Run(operations=run.operations, logs=[], events=[], gapless=False))
        history = read_history(folder)
        tables = REPLICA_LOG_SCHEMA.empty_table(), REPLICA_EVENT_SCHEMA.empty_table()
        expected = judge_tables("run", history, *tables, whole=True)[1].anomalies.to_pylist()
        target = tmp_path / f"{seed}.edn"
        export_kafka_edn(folder, target)
        read = read_history_file(target, key_pairs=KeyPairs.NO)
        rows = judge_transactions(micro_operations(read.events, target)).anomalies.to_pylist()
        assert without_run(rows) == without_run(expected), f"simulate({seed}, 3)"
        shown |= {row["anomaly"] for row in rows}
    assert len(shown) > 3
