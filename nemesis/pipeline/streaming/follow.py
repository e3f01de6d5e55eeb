"""The way in: follow one run folder with the engine of the caller's choice.

Owns the choice, and what a follower is to whoever asks it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

from nemesis.checks.check import Row
from nemesis.history.errors import HistoryError
from nemesis.pipeline.engine import EngineName
from nemesis.pipeline.session import EngineUnavailableError, is_remote, spark_session
from nemesis.pipeline.streaming.in_process import InProcessFollower
from nemesis.pipeline.streaming.on_spark import SparkFollower, warm_up
from nemesis.workload.catalogue import workload_of
from nemesis.workload.objects import ObjectWorkload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Follower(Protocol):
    """Tells each anomaly of a growing run once. All calls come one after the other, from any thread."""

    def look(self) -> list[Row]:
        """What has come to be known since the last call, soon; rows of ``ANOMALY_SCHEMA``, the earliest first."""
        ...

    def catch_up(self) -> list[Row]:
        """The same, when everything that is written by now has been judged."""
        ...

    def close(self) -> None:
        """Stop working; nothing is found any more."""
        ...


def check_can_follow(engine: EngineName | str, master: str) -> None:
    """Raise ``EngineUnavailableError`` where an engine could judge, but hand nothing back while it follows."""
    if EngineName(engine) is EngineName.SPARK and is_remote(master):
        raise EngineUnavailableError(
            f"{master} is a Spark Connect server: a run is followed by a session of this process, or without"
        )


@contextmanager
def following(folder: Path, *, engine: EngineName | str, master: str = "local[*]") -> Iterator[Follower]:
    """Follow the run in ``folder``, which may be still to come.

    With Spark the session is there when this begins and stays to the end, so that the run can be judged with it too.
    Raises ``EngineUnavailableError`` when Spark cannot run here, or runs where it can hand nothing back while it does,
    ``HistoryError`` for a run on objects, which is judged when it is over.
    """
    if issubclass(workload := workload_of(folder), ObjectWorkload):
        raise HistoryError(f"{folder} is of the workload {workload.name}: judge it when it is over, without --follow")
    match EngineName(engine):
        case EngineName.LOCAL:
            yield InProcessFollower(folder)
        case EngineName.SPARK:
            check_can_follow(engine, master)
            with _quiet_session(master) as spark:
                warm_up(spark)
                follower = SparkFollower(spark, folder)
                try:
                    yield follower
                finally:
                    follower.close()
        case other:
            assert_never(other)


@contextmanager
def _quiet_session(master: str) -> Iterator[SparkSession]:
    """A session that leaves Ctrl-C to whoever had it: Spark's own handler would break into the running loop."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    with spark_session(master) as spark:
        if is_main:
            signal.signal(signal.SIGINT, before)
        yield spark
