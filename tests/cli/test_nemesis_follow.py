"""``nemesis check RUN --follow``: another process tells what goes wrong in a run before it is over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nemesis.cli.check import check
from nemesis.cli.exit import UnsupportedError
from nemesis.cli.follow import follow_and_tell
from nemesis.cli.run import record_and_judge
from nemesis.runner import RunOptions
from nemesis.schedules.directed import DEMO
from tests.cli.commands import nemesis
from tests.pipeline.prefixes import Growing
from tests.pipeline.recorded import record_run
from tests.pipeline.test_streaming import CLEAN, WRONG

FOLLOW = ("--follow", "--engine", "local")


@pytest.mark.slow
def test_an_anomaly_is_told_before_the_run_is_over(tmp_path: Path) -> None:
    """The first line comes while the run has no end; when it has one, the verdict is that of the whole."""
    growing = Growing(tmp_path / "run", WRONG)
    growing.write(8)
    command = [sys.executable, "-m", "nemesis.cli", "check", str(tmp_path / "run"), *FOLLOW]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("anomaly: "), first
        assert process.poll() is None, "it goes on as long as the run"
        growing.finish()
        rest = process.stdout.read()
        assert process.wait() == 1
    assert "anomaly: two-leaders of log-0" in rest
    assert "verdict: invalid" in rest
    assert not (tmp_path / "run/results.json").exists(), "it only watches"


@pytest.mark.slow
def test_a_run_that_is_over_is_followed_to_its_end(tmp_path: Path) -> None:
    """A stored run that keeps its promises is valid, with nothing told on the way."""
    done = nemesis("check", str(record_run(tmp_path / "run", CLEAN)), *FOLLOW)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("verdict: valid")


@pytest.mark.slow
def test_a_run_that_nobody_goes_on_with_is_unknown(tmp_path: Path) -> None:
    """A run without an end that does not grow is judged as it is, when its time is up, and is unknown at best."""
    folder = record_run(tmp_path / "run", CLEAN, shard_rows=1, complete=False)
    done = nemesis("check", str(folder), *FOLLOW, "--patience", "0")
    assert done.returncode == 2, done.stdout
    assert "nothing was added to the run for 0 s" in done.stderr


@pytest.mark.slow
def test_a_run_that_cannot_be_followed_is_judged_all_the_same(tmp_path: Path) -> None:
    """A damaged shard ends the following, and what that is worth the judgement says."""
    folder = record_run(tmp_path / "run", CLEAN)
    (folder / "events/part-00000.parquet").write_bytes(b"PAR1")
    done = nemesis("check", str(folder), *FOLLOW)
    assert "no longer judged while it goes on" in done.stderr
    assert done.returncode == 2, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("words", [("FILE",), ("RUN", "RUN"), ("RUN", "--model", "log"), ("FOLDER",)])
def test_what_is_no_run_cannot_be_followed(words: tuple[str, ...], tmp_path: Path) -> None:
    """A file, two runs, a model for histories and a folder without a run are bad arguments."""
    places = {"FILE": tmp_path / "file", "RUN": record_run(tmp_path / "run", CLEAN), "FOLDER": tmp_path}
    places["FILE"].touch()
    done = nemesis("check", *(str(places.get(word, word)) for word in words), *FOLLOW)
    assert done.returncode == 254, done.stderr


@pytest.mark.parametrize("words", [("--patience", "3"), ("--follow", "--patience", "nan")])
def test_patience_is_seconds_of_following(words: tuple[str, ...], tmp_path: Path) -> None:
    """Without following it means nothing, and what is no number would never be over."""
    folder = record_run(tmp_path / "run", CLEAN)
    done = CliRunner().invoke(check, [str(folder), *words, "--engine", "local"], standalone_mode=False)
    assert isinstance(done.exception, click.UsageError)
    assert "patience" in done.exception.format_message() or "nan" in done.exception.format_message()


def test_a_run_that_is_taken_away_is_said_to_be_gone(tmp_path: Path) -> None:
    """Its folder may be deleted while somebody waits for more of it."""
    with pytest.raises(click.ClickException, match="is gone"):
        follow_and_tell(tmp_path / "run", engine="local", master="local[1]", patience_s=1.0)


def test_a_run_that_could_not_be_followed_is_not_begun(tmp_path: Path) -> None:
    """A Spark Connect server is refused before there is a folder."""
    with pytest.raises(UnsupportedError, match="Spark Connect"):
        record_and_judge(
            RunOptions(seed=1), DEMO, store=tmp_path, engine="spark", master="sc://nowhere:1", stop_at_anomaly=True
        )
    assert list(tmp_path.iterdir()) == []
