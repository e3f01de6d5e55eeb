"""``nemesis history`` shows the operations that are asked for, and ``export`` writes a trace of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemesis.cli.__main__ import main
from nemesis.cli.exit import Exit
from nemesis.history import EventType
from tests.report.conftest import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two appends and a poll; the second append was refused, with words that a terminal would obey."""
    made = RunFolder(tmp_path / "run")
    made.replica_event(1.0, 1, "became-leader", epoch=1)
    made.operation(2.0, 2.5, process=0, value=7, offset=0, leader_epoch=1, node=1)
    made.operation(3.0, 3.1, outcome=EventType.FAIL, process=1, value=8, error="no\x1b[31m leader")
    made.operation(4.0, None, f="poll", process=1)
    return made.write()


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    """The lines that ``nemesis history`` prints."""
    with pytest.raises(SystemExit) as ended:
        main(["history", *map(str, arguments)])
    assert ended.value.code == 0
    return capsys.readouterr().out.splitlines()


def test_operations_are_a_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each, with times since the run began, without the columns that nothing is in, and no escapes."""
    assert said(capsys, run) == [
        "index   time  duration_ms  process  function  key    value  offset  outcome  epoch  node  error",
        "    0  1.000      500.000        0  append    log-0      7       0  ok           1     1",
        "    2  2.000      100.000        1  append    log-0      8          fail                  no\\x1b[31m leader",
        "    4  3.000                     1  poll      log-0                 info",
        "3 operations",
    ]


def test_those_that_are_asked_for(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A condition chooses, and a limit says how many there were."""
    assert said(capsys, run, "--where", "value = 7 or value = 8", "--limit", 1)[1:] == [
        "    0  1.000      500.000        0  append    log-0      7       0  ok           1     1",
        "2 operations, 1 shown; --limit shows more",
    ]
    assert said(capsys, run, "--where", "partition = 'other'") == ["0 operations"]


def test_operations_are_json_lines(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object for each, without what is absent."""
    lines = said(capsys, run, "--json", "--where", "outcome = 'info'")
    assert [json.loads(line) for line in lines] == [
        {"index": 4, "time": 3.0, "process": 1, "function": "poll", "key": "log-0", "outcome": "info"}
    ]


def test_an_unknown_column_is_refused_with_those_there_are(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever mistypes a column learns the right names."""
    with pytest.raises(SystemExit) as ended:
        main(["history", str(run), "--where", "topic = 'a'"])
    assert ended.value.code == Exit.BAD_ARGUMENTS
    assert "the columns are index, time, duration_ms, process" in capsys.readouterr().err


def test_a_run_is_exported_as_a_trace(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The trace is one JSON document in a file of its own, and the command says how many events it has."""
    with pytest.raises(SystemExit) as ended:
        main(["export", str(run), "--format", "perfetto", "--output", str(tmp_path / "out")])
    assert ended.value.code == 0
    events = json.loads((tmp_path / "out" / "trace.json").read_text())["traceEvents"]
    assert capsys.readouterr().out == f"{tmp_path / 'out' / 'trace.json'}: {len(events)} events\n"
    assert {event["name"] for event in events if event["ph"] == "X"} >= {"append", "append (fail)", "poll (info)"}
