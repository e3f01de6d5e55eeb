"""``nemesis drift`` judges a recorded run by its folder alone."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nemesis.cli.__main__ import main
from nemesis.cli.exit import Exit
from nemesis.cluster.resources import RESOURCES_NAME
from tests.report.conftest import TEST, RunFolder

LIMIT_S = 600
BEGIN_S = 7.0
STEADY = {"resident_bytes": 80 << 20, "descriptors": 40, "threads": 20, "data_bytes": 1 << 20}


def recorded(folder: Path, *, limit_s: int = LIMIT_S, leak_bytes_s: int = 0, slower_ms_s: float = 0.0) -> Path:
    """A run of two replicas with an operation a second; replica 2 leaks, and operations take longer and longer."""
    made = RunFolder(folder)
    lines = []
    for second in range(limit_s):
        made.operation(BEGIN_S + second, BEGIN_S + second + 0.005 + slower_ms_s * second / 1000, value=second)
    for second in range(0, limit_s, 2):
        for node in (1, 2):
            leaked = {"resident_bytes": STEADY["resident_bytes"] + leak_bytes_s * second * (node == 2)}
            row = {"time_s": BEGIN_S + second, "node": node, "process": node, "processor_s": second / 10}
            lines.append(json.dumps({**row, **STEADY, **leaked}))
    written = made.write()
    made.document("test.json", {**TEST, "options": {**TEST["options"], "time_limit": limit_s}})
    (written / RESOURCES_NAME).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return written


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """How ``nemesis drift`` ends and what it prints."""
    with pytest.raises(SystemExit) as ended:
        main(["drift", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().out


def test_a_steady_run_has_no_drift_and_a_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0; the document has a row for each quantity of each replica, the chart a line for each life."""
    run, output, chart = recorded(tmp_path / "run"), tmp_path / "drift.json", tmp_path / "drift.svg"
    code, said = told(capsys, run, "--output", output, "--chart", chart)
    assert (code, said.splitlines()[0]) == (Exit.VALID, "verdict: no drift")
    document = json.loads(output.read_text())
    assert document["verdict"] == "no drift"
    assert len(document["judged"]) == 2 * 5 + 2
    lines = ElementTree.fromstring(chart.read_text()).findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * 5 + 2


def test_what_drifts_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1; the lines say which quantity of which replica drifts, and nothing else does."""
    code, said = told(capsys, recorded(tmp_path / "run", leak_bytes_s=1 << 16, slower_ms_s=0.1))
    assert (code, said.splitlines()[0]) == (Exit.INVALID, "verdict: drift")
    drifting = [line.split(",")[0].strip() for line in said.splitlines() if ": drift: " in line]
    assert drifting == ["resident memory of replica 2", "median latency", "99th percentile of latency"]


def test_a_run_that_shows_nothing_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 for a short run, and for one whose processes nobody looked at; each says why."""
    code, said = told(capsys, recorded(tmp_path / "short", limit_s=60))
    assert code == Exit.UNKNOWN
    assert "the workload lasted 60 s: drift takes 600 s or more to be seen" in said
    unseen = recorded(tmp_path / "unseen")
    (unseen / RESOURCES_NAME).unlink()
    code, said = told(capsys, unseen)
    assert code == Exit.UNKNOWN
    assert "it has no resources.jsonl" in said
