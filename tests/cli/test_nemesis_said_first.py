"""What is known is told before anything that may fail, and what is small does not wait for Spark."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import click
import pytest

from nemesis.cli.check import check
from nemesis.cli.exit import Exit
from nemesis.cli.progress import judging_shown
from nemesis.cli.verdicts import LOCAL, SMALL_BYTES_MAX, SPARK, TEXT_RATIO, are_small, choose_engine
from tests.cli.test_nemesis_cli import code_of, stored_run

SAMPLES = Path(__file__).parents[1] / "formats" / "samples"
FULL = Path("/dev/full")
needs_full_disk = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")


@needs_full_disk
def test_a_full_disk_hides_no_verdict_on_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the result cannot be written, the verdict is on the terminal, and the exit code is that of an error."""
    code = code_of("check", SAMPLES / "stale.edn", "--model", "register", "--output", FULL)

    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "verdict: invalid"
    assert "No space left on device" in said.err
    assert code not in (Exit.VALID, Exit.INVALID, Exit.UNKNOWN)


@needs_full_disk
def test_a_full_disk_hides_no_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    """So it is with the document of a sweep."""
    code = code_of("sim", "--seeds", "1", "--time-limit", "2", "--jobs", "1", "--output", FULL)

    said = capsys.readouterr()
    assert said.out.startswith("verdicts: 1 valid")
    assert "the result cannot be written: [Errno 28] No space left on device" in said.err
    assert code == Exit.INTERNAL_ERROR


def test_results_that_cannot_be_written_hide_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict on a run is told before its results.json is written."""
    run = stored_run(tmp_path / "run", read=[])
    (run / "results.json").mkdir()

    assert code_of("check", run) == Exit.INTERNAL_ERROR
    said = capsys.readouterr()
    assert said.out.startswith("verdict: invalid\n")
    assert "the verdict stands, but its results.json cannot be written" in said.err


def test_histories_of_porcupine_are_found_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is called as Porcupine's are is one of a corpus."""
    shutil.copy(SAMPLES / "store.porcupine", tmp_path)

    code = code_of("check", tmp_path, "--model", "text-kv")
    assert code in (Exit.VALID, Exit.INVALID)
    assert "operations on" in capsys.readouterr().out


def chosen(asked: str | None, *arguments: str, is_small: bool) -> str:
    """What is chosen in a command with these arguments."""
    with click.Context(check, info_name="check") as context:
        check.parse_args(context, [*arguments, __file__])
        return choose_engine(asked, is_small=is_small)


def test_what_is_small_is_judged_here() -> None:
    """Unless Spark is asked for, or a master is named."""
    spark = chosen(None, is_small=False)

    assert spark in (SPARK, LOCAL)
    assert chosen(None, is_small=True) == LOCAL
    assert chosen(LOCAL, is_small=False) == LOCAL
    assert chosen(None, "--master", "local[2]", is_small=True) == spark


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("history.parquet", SMALL_BYTES_MAX, True),
        ("history.parquet", SMALL_BYTES_MAX + 1, False),
        ("history.edn", SMALL_BYTES_MAX * TEXT_RATIO, True),
        ("history.edn", (SMALL_BYTES_MAX + 1) * TEXT_RATIO, False),
    ],
)
def test_smallness_is_a_matter_of_bytes(name: str, size: int, expected: bool, tmp_path: Path) -> None:
    """Of a run's history, of a file, and of all that lies in a folder; what has a URL is not looked at."""
    folder = tmp_path / "run" / "history"
    folder.mkdir(parents=True)
    with (folder / name).open("wb") as file:
        file.truncate(size)
    (tmp_path / "run" / "nodes").mkdir()

    assert are_small([tmp_path / "run"]) is expected
    assert are_small([folder / name]) is expected
    assert not are_small(["hdfs://host/store/append/1"])


def test_who_waits_for_a_judge_sees_for_how_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it judges a line comes now and then on standard error, and none when it is over."""
    monkeypatch.setattr("nemesis.cli.progress.PLAIN_S", 0.01)
    with judging_shown(SPARK):
        deadline = time.monotonic() + 10
        said = ""
        while said.count("\n") < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
            said += capsys.readouterr().err

    lines = said.splitlines()
    assert lines[0] == "judging with spark"
    assert lines[1].startswith("judging with spark: ")
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""
