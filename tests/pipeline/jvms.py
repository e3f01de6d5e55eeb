"""Processes of Spark and of Hadoop, each a JVM of its own that is ended with the test."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nemesis.pipeline import java_available

SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For JVMs of one small job each, up to eight at a time: to optimise their code is most of what they would do."""


@contextmanager
def started(command: list[str], folder: Path, ready: str, **environment: str) -> Iterator[str]:
    """A process of Spark's; what its log says where it says that it is ready.

    It is ended at the end, with all that it has started: some of Spark's scripts wait for a JVM of theirs.
    """
    log = folder / f"{len(list(folder.glob('*.log')))}.log"
    settings = (
        os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"} | SHORT_LIVED | environment
    )
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=settings, cwd=folder, start_new_session=True) as process,
    ):
        try:
            deadline = time.monotonic() + 300
            while (said := re.search(ready, log.read_text())) is None:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            yield said.group()
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def spark_class() -> str:
    """The script that starts Spark's own processes; skips where there is no Java for them."""
    available, reason = java_available()
    if not available:
        pytest.skip(reason)
    found = shutil.which("spark-class", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found is not None, "pyspark brings spark-class"
    return found
