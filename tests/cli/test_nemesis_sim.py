"""``nemesis sim`` and ``nemesis convict``: what they print, what they write, and how they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from nemesis.cli.__main__ import main
from nemesis.cli.exit import Exit
from nemesis.cli.sim import exit_of
from nemesis.simulator.rare import rares_of
from nemesis.variants.catalogue import ALL, BUILT
from nemesis.variants.worlds import WorldKind

WRONG = ("--variant", "ack-before-replication", "--time-limit", "12")
PATIENCE_S = 60.0


def nemesis(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    """Run ``nemesis`` in this process; its exit code and what it printed."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def test_one_valid_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """A valid seed is told with its reasons and its rare events, needs no repeating, and exits with 0."""
    code, out, _ = nemesis(capsys, "sim", "--seed", "5", "--time-limit", "12")

    assert code == Exit.VALID
    assert out.startswith("seed 5: valid\n")
    assert "keep every promise" in out
    assert "rare events: " in out
    assert "repeat" not in out


def test_one_failing_seed_is_repeated_by_the_command_that_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """A conviction exits with 1 and prints one command, which gives the same output again."""
    code, out, _ = nemesis(capsys, "sim", "--seed", "2", *WRONG)
    (command,) = [line.removeprefix("repeat: ") for line in out.splitlines() if line.startswith("repeat: ")]

    assert code == Exit.INVALID
    assert command == "nemesis sim --seed 2 --variant ack-before-replication --time-limit 12"
    assert nemesis(capsys, *command.split()[1:])[:2] == (code, out)


def test_a_trace_is_printed_or_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """``--trace`` prints the story before the result, with a file name it writes the same story there."""
    arguments = ("sim", "--seed", "2", *WRONG)
    code, printed, _ = nemesis(capsys, *arguments, "--trace")
    same_code, result, _ = nemesis(capsys, *arguments, "--trace", str(tmp_path / "story"))
    story = (tmp_path / "story").read_text()

    assert (code, printed) == (same_code, story + result)
    assert code == Exit.INVALID
    assert story.splitlines()[-1].startswith("invalid: acknowledged-is-committed: ")
    assert result.splitlines()[-1].startswith(f"trace: {len(story.splitlines())} lines, sha256 ")


@pytest.mark.slow
def test_a_sweep_is_told_and_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Counts, the table of rare events and the speed are printed, and stand in the document with versions."""
    output, corpus = tmp_path / "new" / "sim.json", tmp_path / "corpus"
    options = ("--time-limit", "8", "--jobs", "1", "--output", str(output), "--corpus", str(corpus))
    code, out, _ = nemesis(capsys, "sim", "--seeds", "4-6,9,5", *options)
    document = json.loads(output.read_text())

    assert code == Exit.VALID
    assert out.startswith("verdicts: 4 valid, 0 invalid, 0 unknown, 0 error\n")
    assert all(f"\n{name.value} " in out for name in rares_of(WorldKind.QUORUM))
    assert "seeds a minute" in out
    assert document["verdicts"] == {"valid": 4, "invalid": 0, "unknown": 0, "error": 0}
    assert (document["seeds"], document["failures"], document["interrupted"]) == (4, [], False)
    assert document["rare"].keys() == set(rares_of(WorldKind.QUORUM))
    assert "highwater-log" in document["versions"]
    assert pq.read_table(corpus / "runs").column("seed").to_pylist() == [4, 5, 6, 9]


@pytest.mark.slow
def test_failing_seeds_are_rows_with_their_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A sweep of a wrong protocol exits with 1, and names each seed with the one command that repeats it."""
    output = tmp_path / "sim.json"
    code, out, _ = nemesis(capsys, "sim", "--seeds", "2", "--jobs", "2", *WRONG, "--output", str(output))
    commands = [line.removeprefix("  repeat: ") for line in out.splitlines() if line.startswith("  repeat: ")]
    failures = json.loads(output.read_text())["failures"]

    assert code == Exit.INVALID
    assert commands == [f"nemesis sim --seed {seed} {' '.join(WRONG)}" for seed in (1, 2)]
    assert [failure["command"] for failure in failures] == commands
    assert {failure["violation"] for failure in failures} == {"acknowledged-is-committed"}


@pytest.mark.slow
def test_a_sweep_may_end_with_the_first_violations(capsys: pytest.CaptureFixture[str]) -> None:
    """``--stop-after`` reports the seeds up to that violation, however many were under way."""
    code, out, _ = nemesis(capsys, "sim", "--seeds", "50", "--jobs", "2", "--stop-after", "3", *WRONG)

    assert code == Exit.INVALID
    assert out.startswith("verdicts: 0 valid, 3 invalid, 0 unknown, 0 error\n")


@pytest.mark.parametrize(
    ("endings", "code"),
    [
        ([], Exit.VALID),
        (["valid", "unknown"], Exit.UNKNOWN),
        (["error", "unknown"], Exit.INTERNAL_ERROR),
        (["error", "invalid", "unknown"], Exit.INVALID),
    ],
)
def test_the_worst_seed_decides(endings: list[str], code: Exit) -> None:
    """A violation is a violation whatever else happened; an error of the harness is never taken for a verdict."""
    assert exit_of(endings) is code


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seeds", "1-x"),
        ("--seeds", "0"),
        ("--seeds", ""),
        ("--seeds", "5-3"),
        ("--seeds", "1000001"),
        ("--seeds", "-5"),
        ("--seed", "1", "--seeds", "2"),
        ("--seeds", "2", "--trace"),
        ("--seed", "1", "--trace", "--master", "local[2]"),
        ("--seeds", "2", "--stop-after", "1", "--master", "local[2]"),
        ("--variant", "perfect"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is simulated, and standard error says what is wrong."""
    code, out, err = nemesis(capsys, "sim", *arguments)

    assert (code, out) == (Exit.BAD_ARGUMENTS, "")
    assert "Error: " in err


def test_a_corpus_is_not_written_over(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A folder that holds a corpus is refused."""
    (tmp_path / "runs").mkdir()
    code, _, err = nemesis(capsys, "sim", "--seed", "1", "--time-limit", "2", "--corpus", str(tmp_path))

    assert code == Exit.BAD_ARGUMENTS
    assert "exists already" in err


def test_the_variants_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """One name a line, each of which ``--variant`` takes."""
    code, out, _ = nemesis(capsys, "sim", "--list-variants")

    assert (code, out.splitlines()) == (Exit.VALID, list(BUILT))


def workers_of(parent: psutil.Process) -> list[psutil.Process]:
    """The processes of a sweep that simulate."""
    return [child for child in parent.children(recursive=True) if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.slow
def test_an_interrupted_sweep_tells_what_it_has(tmp_path: Path) -> None:
    """Ctrl-C ends all processes with code 130; what was done until then is told and written."""
    output = tmp_path / "sim.json"
    command = [sys.executable, "-m", "nemesis.cli", "sim", "--seeds", "100000", "--jobs", "2", "--time-limit", "2"]
    # Tests that a shell runs in the background ignore Ctrl-C, and what they start would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [*command, "--output", str(output)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stderr is not None
    first = process.stderr.readline()
    workers = workers_of(psutil.Process(process.pid))
    for one in (*workers, psutil.Process(process.pid)):
        one.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    document: dict[str, Any] = json.loads(output.read_text())

    assert process.returncode == Exit.INTERRUPTED, err
    assert "of 100000 seeds: " in first
    assert "Traceback" not in err
    assert len(workers) == 2
    assert "interrupted after" in err
    assert document["interrupted"]
    assert out.startswith(f"verdicts: {document['verdicts']['valid']} valid, ")
    assert document["verdicts"]["valid"] > 0
    assert psutil.wait_procs(workers, timeout=PATIENCE_S)[1] == []


def test_convictions_are_measured_and_made_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One command measures, writes the result and the page; the page can be made again from the result alone."""
    output, table, again = tmp_path / "variants.json", tmp_path / "docs" / "variants.md", tmp_path / "again.md"
    options = ("--trials", "2", "--jobs", "1", "--output", str(output))
    code, out, _ = nemesis(capsys, "convict", *WRONG, *options, "--table", str(table))
    (row,) = json.loads(output.read_text())["variants"]

    assert code == Exit.VALID
    assert "ack-before-replication: convicted 2 times in 2 seeds, median 1" in out
    assert (row["variant"], row["trials"], row["violations"]) == (WRONG[1], [1, 1], {"acknowledged-is-committed": 2})
    assert all(f"`{mutant.name}`" in table.read_text() for mutant in ALL)
    assert nemesis(capsys, "convict", "--read", str(output), "--table", str(again))[0] == Exit.VALID
    assert again.read_text() == table.read_text()


def test_a_variant_that_gets_away_is_unknown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A harness that does not convict every wrong protocol does not exit as if it did."""
    options = ("--time-limit", "1", "--seeds-max", "1", "--jobs", "1", "--output", str(tmp_path / "variants.json"))
    code, out, _ = nemesis(capsys, "convict", "--variant", "truncate-below-high-watermark", *options)

    assert (code, "not convicted in 1 seeds" in out) == (Exit.UNKNOWN, True)
