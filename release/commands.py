"""Starts other programs, and says what they said when they fail.

Where this process finds modules is not told to them: a package that lies beside this one must not be taken for one that
is installed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

COMMAND_TIMEOUT_S = 1800
"""An image takes longest: packages are installed in it."""
LINES_OF_A_FAILURE = 20
OF_THIS_PROCESS = ("PYTHONPATH", "PYTHONHOME")
"""Variables of the environment that other programs do not get."""


class ReleaseError(Exception):
    """There is no release, and the message says why in a sentence."""


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> str:
    """Run a program to its end, and return what it printed. ``env`` is added to the environment of this process.

    Raises ReleaseError, with the end of what the program said, if it is not there, fails or takes too long.
    """
    words = [str(word) for word in command]
    kept = {name: value for name, value in os.environ.items() if name not in OF_THIS_PROCESS} | dict(env or {})
    try:
        done = subprocess.run(
            words, cwd=cwd, env=kept, input=stdin, capture_output=True, check=True, timeout=COMMAND_TIMEOUT_S
        )
    except subprocess.CalledProcessError as error:
        said = (error.stdout + error.stderr).decode(errors="replace").strip().splitlines()
        told = "\n".join(said[-LINES_OF_A_FAILURE:])
        raise ReleaseError(f"{' '.join(words)} ended with status {error.returncode}:\n{told}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReleaseError(f"{' '.join(words)}: {error}") from error
    return done.stdout.decode()
