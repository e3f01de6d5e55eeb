"""The page of a Kafka workload shows the worst first, says what clients saw, and runs nothing that was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemesis.cli.__main__ import cli
from nemesis.cli.check_kafka import judged_as_kafka
from nemesis.cli.exit import Exit, exit_code_of
from nemesis.report.conviction_kafka import SHOWN_MAX, SHOWN_PER_KIND_MAX, seen_at, write_kafka_page
from tests.report.test_report_page import HOSTILE, Page


def history(folder: Path, *operations: tuple[int, str, Any, Any]) -> Path:
    """A history of operations one after the other: process, function, what is asked, what comes back."""
    path = folder / "history.jsonl"
    events = [
        {"process": process, "type": kind, "f": f, "value": value}
        for process, f, asked, told in operations
        for kind, value in (("invoke", asked), ("ok", told))
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    return path


def send(key: str, value: int, offset: int, process: int = 0) -> tuple[int, str, Any, Any]:
    return process, "send", [["send", key, value]], [["send", key, [offset, value]]]


def poll(key: str, *records: tuple[int, int], process: int = 1) -> tuple[int, str, Any, Any]:
    return process, "poll", [["poll"]], [["poll", {key: [list(record) for record in records]}]]


def page_of(path: Path) -> Page:
    result, operations = judged_as_kafka(path, None)
    write_kafka_page(path.with_suffix(".html"), result, operations)
    return Page(path.with_suffix(".html").read_text(encoding="utf-8"))


def test_two_values_at_one_offset_are_seen_with_who_saw_them(tmp_path: Path) -> None:
    """Offset by offset: what was acknowledged, what was polled and by how many; a row differs where that is not one."""
    path = history(
        tmp_path, send("7", 10, 0), send("7", 11, 1), poll("7", (0, 10), (1, 12)), poll("7", (0, 10), process=2)
    )
    _, operations = judged_as_kafka(path, None)
    table = seen_at(operations, "7", [1])
    assert table is not None
    assert [(row.offset, row.is_named, row.differs, row.cells) for row in table.rows[:2]] == [
        (0, False, False, ["10 (acknowledged by T0)", "10 (polled by T4 and 1 more)"]),
        (1, True, True, ["11 (acknowledged by T2)", "12 (polled by T4)"]),
    ]
    assert seen_at(operations, "", [1]) is None


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``nemesis check --model kafka --html`` says where the page is, and what is lost comes first on it."""
    path = history(tmp_path, send("7", 10, 0), send("7", 11, 1), send("7", 12, 2), poll("7", (0, 10), (2, 12)))
    target = tmp_path / "why.html"
    words = ["check", str(path), "--model", "kafka", "--html", str(target)]
    assert exit_code_of(lambda: cli.main(words, standalone_mode=False)) == Exit.INVALID
    assert f"page: {target}" in capsys.readouterr().out
    page = Page(target.read_text(encoding="utf-8"))
    assert page.words.index("lost-write violation") < page.words.index("skip violation")
    assert "11 (acknowledged by T2)" in page.words


def test_a_page_of_many_anomalies_is_bounded_and_counts_the_rest(tmp_path: Path) -> None:
    """So many of each kind are shown, however many there are, and the page says how many are not."""
    lost = [send("7", value, value) for value in range(100)]
    path = history(tmp_path, *lost, poll("7", *((value, value) for value in range(0, 100, 2))))
    page = page_of(path)
    found = len(judged_as_kafka(path, None)[0]["anomalies"])
    shown = page.tags.count("article")
    assert found > SHOWN_MAX > shown >= SHOWN_PER_KIND_MAX
    assert f"{found - shown} more are in the result of --output" in page.words


def test_a_key_that_is_markup_is_a_text_on_the_page(tmp_path: Path) -> None:
    """Nothing of a history becomes an element of the page, or a script."""
    path = history(tmp_path, send(HOSTILE, 10, 0), send(HOSTILE, 11, 1), poll(HOSTILE, (0, 12), (1, 11)))
    page = page_of(path)
    assert HOSTILE in page.text
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)
