"""The commands as a user would start them."""

from __future__ import annotations

import subprocess
import sys

TIMEOUT_S = 110.0


def nemesis(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``nemesis`` to its end and return what it printed and how it ended."""
    command = [sys.executable, "-m", "nemesis.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
