"""Which Python Spark's workers run: the one that has this distribution, or a sentence at once.

Spark takes ``python3`` from the path where nobody says otherwise, also for planning on this machine. Without this
package there, a query would end in a Java trace half a minute later. Source: ``pyspark.SparkContext.pythonExec``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from replica.spark.errors import TopicTableError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

IMPORT_S_MAX = 60
PACKAGE = "replica.spark"


class WorkerPythonError(TopicTableError):
    """The Python of Spark's workers lacks this distribution, or what it needs."""

    def __init__(self, python: str, why: str) -> None:
        super().__init__(python, why)
        self.python, self.why = python, why

    def __str__(self) -> str:
        return (
            f"Spark's workers run {self.python!r}, which cannot import {PACKAGE} ({self.why}); set PYSPARK_PYTHON to a "
            f"Python that has highwater-log, such as {sys.executable}, before the session is made"
        )


def choose_worker_python(spark: SparkSession) -> None:
    """Let a session on this machine run this Python, unless another was chosen. Raises WorkerPythonError.

    A session of Spark Connect has workers of its own, about which nothing can be said here.
    """
    context: SparkContext | None = getattr(spark, "_sc", None)
    if context is None or context.pythonExec == sys.executable:
        return
    if "PYSPARK_PYTHON" not in os.environ and str(context.master).startswith("local"):
        context.pythonExec = sys.executable
        return
    check_python(context.pythonExec)


def check_python(python: str) -> None:
    """Raise WorkerPythonError unless this Python imports the package. Planning runs it on this machine in any case."""
    command = [python, "-c", f"import {PACKAGE}, pyarrow, grpc"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkerPythonError(python, str(error)) from error
    if ended.returncode != 0:
        raise WorkerPythonError(python, ended.stderr.strip().rpartition("\n")[2] or f"status {ended.returncode}")
