"""The commands as a user would start them."""

from __future__ import annotations

import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from nemesis.cli.__main__ import main

TIMEOUT_S = 110.0


def nemesis(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``nemesis`` to its end in this process, which has imported already what it needs: what it said, how it ended.

    Where the end of a process is what is looked at, or a session of Spark is asked for, use ``nemesis_process``.
    """
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(arguments)
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out.getvalue(), err.getvalue())


def nemesis_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``nemesis`` in a process of its own, and return what it printed and how it ended."""
    command = [sys.executable, "-m", "nemesis.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
