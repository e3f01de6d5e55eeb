"""Whether Spark can run on this machine.

Owns finding Java and reading its version, the way Spark's own launcher looks for it: ``JAVA_HOME``, then the path.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

JAVA_MAJOR_MIN = 17
"""Spark 4 runs on Java 17 and later."""
_VERSION_SECONDS_MAX = 30
_ADVICE = f"install Java {JAVA_MAJOR_MIN} or later (Debian: apt-get install openjdk-17-jre-headless)"


def java_available() -> tuple[bool, str]:
    """Whether Spark can run, and one sentence: which Java was found, or what to install."""
    if find_spec("pyspark") is None:
        return False, "Spark is not installed: pip install 'highwater-log[spark]'"
    java = java_path()
    if java is None:
        return False, f"Java was not found on the path or under JAVA_HOME: {_ADVICE}"
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_VERSION_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, f"{java} does not start ({error}): {_ADVICE}"
    return _judged(java, answer.stderr + answer.stdout)


def java_path() -> str | None:
    """The Java that Spark would start; ``None`` when there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=str(Path(home) / "bin"))
    return shutil.which("java")


def java_major(version_text: str) -> int | None:
    """The major version in the answer of ``java -version``: 17 for "17.0.2", 8 for "1.8.0"; ``None`` for neither."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', version_text)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major


def _judged(java: str, answer: str) -> tuple[bool, str]:
    major = java_major(answer)
    if major is None:
        return False, f"{java} does not tell its version: {_ADVICE}"
    if major < JAVA_MAJOR_MIN:
        return False, f"{java} is Java {major}, too old for Spark: {_ADVICE}"
    return True, f"Java {major} at {java}"
