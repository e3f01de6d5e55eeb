"""The runs of clusters that README and docs show: each ends as the page says, on less time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.depth import at_night
from tests.docs.test_commands import ROOT, SHOWN

LEFT_OUT = {
    r"--cluster containers": "needs the image that make images builds, with which CI does the same",
    r"forgetful:": "the system is written on that page: test_how_tos runs it",
    r"nightly\.toml": "the file stands on that page: tests/plugin reads it",
    r"--variant brokers-by-id-alone": "only some runs show it, as the page says: tests/cluster directs one that does",
}
"""What is not run here, and why."""
INVALID = (
    r"--variant |--log-flush os|--reads lease$|--strict-acks|--reads stale|[^o]-unclean-leader-election$"
    r"|--no-idempotence|--system redis"
)
"""What the pages say must be convicted, or may lose."""
LESS = {"nemesis run": ("--time-limit", "15"), "nemesis soak": ("--seeds", "1-1", "--time-limit", "10")}
OK, CONVICTED, UNKNOWN, NOT_HERE = 0, 1, 2, 3


def runs() -> list[tuple[str, ...]]:
    """Each command that starts a cluster, once."""
    found = (words for shown in SHOWN for words in shown.commands if re.match(r"nemesis (run|soak)\b", " ".join(words)))
    return [words for words in dict.fromkeys(found) if not any(re.search(each, " ".join(words)) for each in LEFT_OUT)]


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(400)
@at_night("two dozen runs of clusters")
@pytest.mark.parametrize("words", runs(), ids=" ".join)
def test_a_run_ends_as_the_page_says(words: tuple[str, ...], tmp_path: Path) -> None:
    """Wrong protocols are convicted, the right one is not; where no fault struck in so short a time, it is unknown."""
    text = " ".join(words)
    less = () if "--schedule" in words or "--variant" in words else LESS[" ".join(words[:2])]
    done = subprocess.run(
        (sys.executable, "-m", "nemesis.cli", *words[1:], *less, "--store", str(tmp_path / "store")),
        cwd=tmp_path,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == NOT_HERE:
        pytest.skip(done.stderr.strip() or done.stdout.strip())
    expected = (CONVICTED,) if re.search(INVALID, text) else (OK, UNKNOWN)
    assert done.returncode in expected, f"{text} ended with {done.returncode}\n{done.stdout}{done.stderr}"


def test_nothing_is_left_out_that_no_page_shows() -> None:
    """Each reason belongs to a line."""
    texts = [" ".join(words) for shown in SHOWN for words in shown.commands]
    assert [each for each in LEFT_OUT if not any(re.search(each, text) for text in texts)] == []
