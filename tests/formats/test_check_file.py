"""``nemesis check FILE``: what it says, what it writes, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nemesis.cli.__main__ import cli
from nemesis.cli.check_file import FORMATS, KEY_PAIRS
from nemesis.cli.exit import Exit, exit_code_of
from nemesis.formats.keyed import KeyPairs
from nemesis.formats.recognise import Format
from nemesis.verdict import Verdict
from tests.formats.histories import ALL_SAMPLES, Sample, written

STALE = (
    '{"process":0,"type":"invoke","f":"write","value":1}\n{"process":0,"type":"ok","f":"write","value":1}\n'
    '{"process":1,"type":"invoke","f":"read","value":null}\n{"process":1,"type":"ok","f":"read","value":null}\n'
)


def run(*arguments: str) -> tuple[int, str]:
    """How a command ends, and what it prints to both outputs together."""
    runner = CliRunner()
    results: list[Result] = []

    def command() -> object:
        results.append(runner.invoke(cli, arguments, standalone_mode=False))
        if results[0].exception is not None:
            raise results[0].exception
        return results[0].return_value

    code = exit_code_of(command)
    return int(code), results[0].output


def code_and_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """How a command ends that ends badly, and its last line."""
    code, _ = run(*arguments)
    return code, capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize("sample", ALL_SAMPLES, ids=lambda sample: sample.name)
def test_every_sample_is_judged(sample: Sample) -> None:
    """A file of each format is judged by its model, and the exit code is the verdict."""
    option = ["--failed-cas-is-read"] if sample.failed_cas_is_read else []

    code, said = run("check", str(sample.path), "--model", sample.model, "--format", sample.format.value, *option)

    assert said.splitlines()[-1] == f"verdict: {sample.verdict}"
    assert code == {"valid": Exit.VALID, "invalid": Exit.INVALID}[sample.verdict]


def test_a_bad_key_is_told_with_its_operations(tmp_path: Path) -> None:
    """One line for the key, one for each operation with its line in the file, the summary last."""
    code, said = run("check", str(written(tmp_path, STALE)), "--model", "register")
    lines = said.splitlines()

    assert code == Exit.INVALID
    assert lines[0].startswith("key: invalid (")
    assert "  line 1: process 0 write 1 -> ok" in lines
    assert "  line 3: process 1 read -> nil" in lines
    assert lines[-4:] == [
        "history: history (json), 4 events",
        "judged as register: 2 operations of 2 processes",
        "keys: 0 valid, 1 invalid, 0 unknown",
        "verdict: invalid",
    ]


def test_the_result_as_json(tmp_path: Path) -> None:
    """The file has what was said, and the counterexample by its lines."""
    target = tmp_path / "result.json"

    code, _ = run("check", str(written(tmp_path, STALE)), "--model", "register", "--output", str(target))
    result = json.loads(target.read_text(encoding="utf-8"))

    assert code == Exit.INVALID
    assert (result["verdict"], result["format"], result["model"], result["events"]) == (
        "invalid",
        "json",
        "register",
        4,
    )
    [key] = result["keys"]
    assert (key["key"], key["verdict"], key["operations"]) == (None, "invalid", 2)
    assert {operation["line"] for operation in key["counterexample"]["operations"]} == {1, 3}


def test_a_budget_that_runs_out_is_unknown(tmp_path: Path) -> None:
    """What could not be searched to its end is neither valid nor invalid."""
    begins = [{"process": p, "type": "invoke", "f": "enqueue", "value": p} for p in range(12)]
    ends = [{"process": p, "type": "ok", "f": "enqueue", "value": p} for p in range(12)]
    takes = [
        {"process": 20, "type": kind, "f": "dequeue", "value": value if kind == "ok" else None}
        for value in (*range(5, 12), *range(5))
        for kind in ("invoke", "ok")
    ]
    text = "".join(json.dumps(event) + "\n" for event in begins + ends + takes)

    code, said = run("check", str(written(tmp_path, text)), "--model", "queue", "--budget", "3")

    assert code == Exit.UNKNOWN
    assert said.splitlines()[0].startswith("key: unknown (")
    assert said.splitlines()[-1] == "verdict: unknown"


@pytest.mark.parametrize(
    ("content", "arguments", "what"),
    [
        (STALE, [], "a file is judged by a model"),
        (STALE, ["--model", "toaster"], "no model 'toaster'"),
        (STALE, ["--model", "no.such:Model"], "no model at"),
        (STALE, ["--model", "queue"], "history: line 1: the model queue has no operation 'write'"),
        (STALE, ["--model", "register", "--failed-cas-is-read"], "register does not take --failed-cas-is-read"),
        (STALE, ["--model", "queue", "--initial", "1"], "queue does not take --initial"),
        (STALE, ["--model", "text-kv", "--initial", "1"], "takes neither --initial"),
        (STALE, ["--model", "register", "--initial", "[1"], "[1 is not one value in EDN"),
        (STALE, ["--model", "register", "--initial", "1 2"], "1 2 is not one value in EDN"),
        (STALE, ["--model", "register", "--format", "edn"], "history:1: "),
        (STALE, ["--model", "register", "--key-pairs", "yes"], "history:1: the value is '1', which is no pair"),
        (STALE, ["--model", "register", "--budget", "0"], "0 is not in the range"),
        (STALE, ["--model", "register", "--engine", "local"], "--engine: for a run"),
        (STALE, ["--model", "register", "--output", "/no/such/folder/x"], "No such file or directory"),
        (STALE[:-20], ["--model", "register"], "history:4: "),
        ("", ["--model", "register"], "the file is empty"),
        ("what?\n", ["--model", "register"], "name its format with --format"),
    ],
)
def test_what_cannot_be_judged_is_a_bad_argument(
    content: str, arguments: list[str], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken file, a model that it is not of, and options that make no sense end with 254, and are named."""
    code, error = code_and_error(capsys, "check", str(written(tmp_path, content)), *arguments)

    assert (code, what in error) == (Exit.BAD_ARGUMENTS, True), error


@pytest.mark.parametrize(("initial", "code"), [("nil", Exit.INVALID), ("7", Exit.VALID)])
def test_what_a_register_holds_at_first(initial: str, code: Exit, tmp_path: Path) -> None:
    """A read before the first write returns what was there, which the file does not say."""
    text = "{:process 0, :type :invoke, :f :read} {:process 0, :type :ok, :f :read, :value 7}"

    assert run("check", str(written(tmp_path, text)), "--model", "register", "--initial", initial)[0] == code


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "valid"),
        (["valid", "valid"], "valid"),
        (["valid", "unknown"], "unknown"),
        (["unknown", "invalid", "valid"], "invalid"),
    ],
)
def test_the_worst_key_decides(verdicts: list[str], expected: str) -> None:
    """One key that is not valid makes the history so; a violation that was found outranks what was not searched."""
    assert Verdict.worst(verdicts) == expected


def test_what_is_no_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there, a pipe that has no end, and a folder with nothing in it are bad arguments."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()

    assert code_and_error(capsys, "check", str(tmp_path / "nothing"), "--model", "register")[0] == Exit.BAD_ARGUMENTS
    assert code_and_error(capsys, "check", str(tmp_path / "pipe"), "--model", "register")[0] == Exit.BAD_ARGUMENTS
    code, error = code_and_error(capsys, "check", str(tmp_path / "empty"), "--model", "register")
    assert (code, "holds no run and no history" in error) == (Exit.BAD_ARGUMENTS, True)


def test_options_of_files_are_no_options_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run is judged as a log, whatever model is asked for, so that asking is refused."""
    (tmp_path / "history").mkdir()

    code, error = code_and_error(capsys, "check", str(tmp_path), "--model", "register", "--budget", "5")

    assert (code, "--model, --budget: for a file" in error) == (Exit.BAD_ARGUMENTS, True)


def test_the_choices_are_those_of_the_formats() -> None:
    """The command line repeats two lists, so that it starts without what they need."""
    assert tuple(Format) == FORMATS
    assert tuple(KeyPairs) == KEY_PAIRS


LOADED = """
import sys
from nemesis.cli.__main__ import main
try:
    main(sys.argv[1:])
finally:
    heavy = {"grpc", "numpy", "pyarrow", "nemesis.simulator", "nemesis.variants", "asyncio"} & set(sys.modules)
    print(len(sys.modules), *sorted(heavy))
"""
MODULES_MAX = 330
"""About 290 are loaded for a small text file: the interpreter's own, click, the reader and the kernels."""


@pytest.mark.parametrize("sample", ALL_SAMPLES, ids=lambda sample: sample.name)
def test_for_a_small_file_little_is_loaded(sample: Sample) -> None:
    """What it does not need is not loaded, of Arrow, numpy, the simulator: most of a start is imports."""
    command = (sys.executable, "-c", LOADED, "check", str(sample.path), "--model", sample.model)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    modules, *heavy = done.stdout.splitlines()[-1].split()
    is_parquet = sample.format is Format.PARQUET
    assert heavy == (["numpy", "pyarrow"] if is_parquet else [])
    assert is_parquet or int(modules) <= MODULES_MAX


def test_a_page_shows_the_conviction(tmp_path: Path) -> None:
    """``--html`` writes a page beside what is printed, and the verdict stays what it is."""
    history, page = tmp_path / "stale.json", tmp_path / "why.html"
    history.write_text(STALE, encoding="utf-8")

    code, said = run("check", str(history), "--model", "register", "--html", str(page))

    assert code == Exit.INVALID
    assert f"page: {page}" in said.splitlines()
    assert "the read of nil began after 1 had replaced it: stale read" in page.read_text(encoding="utf-8")


def test_a_page_is_of_one_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of many histories no page is written, and the command says so before it judges any."""
    for name in ("one.json", "two.json"):
        (tmp_path / name).write_text(STALE, encoding="utf-8")

    code, said = code_and_error(capsys, "check", str(tmp_path), "--model", "register", "--html", str(tmp_path / "x"))

    assert code == Exit.BAD_ARGUMENTS
    assert "--html: for one history" in said
