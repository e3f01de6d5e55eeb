"""``nemesis serve`` as a process: it listens where it says, and ends when it is told to."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from nemesis.cli.serve import serve


@pytest.mark.slow
def test_it_serves_until_it_is_interrupted(store: Path) -> None:
    """It tells its address, answers there and to no foreign name, and ends by itself after Ctrl-C."""
    words = [sys.executable, "-m", "nemesis.cli", "serve", "--store", str(store), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        assert address is not None
        with urllib.request.urlopen(address[0], timeout=30) as answer:
            assert b"3 runs" in answer.read()
        foreign = urllib.request.Request(address[0], headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="421"):
            urllib.request.urlopen(foreign, timeout=30)
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=30)

    assert (process.returncode, complaints) == (0, "")


def test_help_says_what_an_open_address_means() -> None:
    """Whoever thinks of 0.0.0.0 reads first who can then read what."""
    told = " ".join(CliRunner().invoke(serve, ["--help"]).output.split())

    assert "[default: 127.0.0.1]" in told
    assert "With 0.0.0.0 everybody who can reach this machine can read every run" in told
    assert "there is no password" in told


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    """A store that is not there, and a port that somebody else has."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = CliRunner().invoke(serve, ["--store", str(tmp_path), "--port", port])
    absent = CliRunner().invoke(serve, ["--store", str(tmp_path / "none")])

    assert (told.exit_code, "cannot be listened on" in told.output) == (2, True)
    assert (absent.exit_code, "is no store" in absent.output) == (2, True)
