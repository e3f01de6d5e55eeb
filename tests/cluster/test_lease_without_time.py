"""Answers by lease rely on clocks: where one stands still they are old, and the harness says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.cli.exit import Exit
from tests.depth import at_night
from tests.systems.running import run

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("reads", "code", "told"),
    [
        ("lease", Exit.INVALID, "nonlinearizable"),
        pytest.param("linearizable", Exit.VALID, "keep every promise", marks=at_night("as with clocks that run")),
    ],
)
def test_a_lease_does_not_end_by_a_clock_that_stands_still(tmp_path: Path, reads: str, code: Exit, told: str) -> None:
    """A leader that is cut off while its clock stands still answers what is old by lease, and nothing otherwise."""
    words = ("--workload", "register", "--reads", reads, "--schedule", "lease-without-time", "--seed", "1")

    done = run(tmp_path / "store", *words)

    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stdout
