"""Start Spark, quietly and with the right Python, and stop it again.

Owns every setting, and what is said of a master that cannot be had. Workers run this interpreter and get the sources
of this distribution shipped, so that nothing need be installed on them but Python, numpy and pyarrow, crc32c and
sortedcontainers where they simulate. A local master binds to the loopback address only.

Whether Spark can run on this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
_SHIPPED = ("nemesis", "replica")
"""The packages whose sources the workers get: checks for those that judge, all of them for those that simulate."""
_STANDALONE = "spark://"
_OF_SHORT_JOBS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UseSerialGC",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""A JVM of this machine lives for a job of seconds, and Python does the work: what is optimised has to run ten times as
often first as it does elsewhere, and memory is collected without threads of its own."""
LISTING_TASKS_MAX = 64
"""In how many tasks Spark looks for the files of a corpus; it would use one for each file, up to ten thousand."""
CONNECT_S_MAX = 10.0
"""How long a master may take to answer at all. Spark itself would ask for a minute, a Spark Connect client for ten."""


class EngineUnavailableError(Exception):
    """Spark cannot run here; the message says what to install."""


class MasterError(EngineUnavailableError):
    """There is no session on the master that was named; the message says why."""

    def __init__(self, master: str, why: str) -> None:
        super().__init__(f"there is no session on {master}: {why}")


@contextmanager
def spark_session(master: str = "local[*]") -> Iterator[SparkSession]:
    """A session on ``master``, stopped at the end unless it was there before.

    ``sc://host:port`` is a Spark Connect server, whose workers run its own Python and must have numpy and pyarrow.
    Raises ``EngineUnavailableError`` when there is no Java that Spark can use, and ``MasterError`` for a master on
    another machine, or a Spark Connect server, that is not there or gives no session.
    """
    available, reason = _available(master)
    if not available:
        raise EngineUnavailableError(reason)
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    with tempfile.TemporaryDirectory(prefix="nemesis-spark-") as scratch:
        session = _session(master, Path(scratch))
        try:
            yield session
        finally:
            # A JVM that has died cannot be told to: what it has given stands, and what it owes is an error by itself.
            with suppress(Exception):
                session.stop()


def settings(master: str) -> dict[str, str]:
    """The configuration of a session on ``master``. A cluster keeps its own number of shuffle partitions."""
    common = {
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(LISTING_TASKS_MAX),
    }
    if not is_local(master):
        return common
    partitions = str(2 * (os.cpu_count() or 1))
    loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    java = {"spark.driver.extraJavaOptions": " ".join(_OF_SHORT_JOBS)}
    return common | loopback | java | {"spark.sql.shuffle.partitions": partitions}


def is_local(master: str) -> bool:
    """Whether everything runs on this machine."""
    return master.startswith("local")


def is_remote(master: str) -> bool:
    """Whether a Spark Connect server does all the work, so that this machine needs no Java."""
    return master.startswith("sc://")


def _available(master: str) -> tuple[bool, str]:
    """Whether a session on ``master`` can be had, or what to install."""
    if not is_remote(master):
        return java_available()
    is_there = find_spec("pyspark") is not None and find_spec("grpc_status") is not None
    return is_there, "Spark Connect needs more of pyspark: pip install 'pyspark[connect]'"


def _session(master: str, scratch: Path) -> SparkSession:
    """A new session. One of this machine that cannot be had is no fault of the master's name."""
    if is_local(master):
        return _start(master, scratch)
    try:
        if is_remote(master):
            _check_answers(master)
            return _connect(master, scratch)
        if master.startswith(_STANDALONE):
            _check_is_there(master)
        return _start(master, scratch)
    except Exception as error:
        raise MasterError(master, _why(error)) from error


def _check_is_there(master: str) -> None:
    """Raise OSError or ValueError where no machine of ``spark://host:port,host:port`` takes a connection."""
    failed: OSError | None = None
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not (host and port.isdecimal()):
            raise ValueError(f"{address!r} is no host:port")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S_MAX).close()
            return
        except OSError as error:
            failed = error
    assert failed is not None, master
    raise failed


def _check_answers(master: str) -> None:
    """Raise ConnectionError where nothing at ``sc://host:port`` speaks as a Spark Connect server does."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    is_ready = Event()
    with DefaultChannelBuilder(master).toChannel() as channel:
        # A server that is just starting refuses at first: the channel tries again until the time is over.
        channel.subscribe(lambda state: is_ready.set() if state.name == "READY" else None, try_to_connect=True)
        if not is_ready.wait(CONNECT_S_MAX):
            raise ConnectionError(f"no Spark Connect server has answered there for {CONNECT_S_MAX:g} s")


def _why(error: Exception) -> str:
    """The line of an error that says what is wrong: Java's follows a colon, below that of the call."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


def _connect(master: str, scratch: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(master).getOrCreate()
    session.addArtifacts(str(_package(scratch)), pyfile=True)
    return session


def _start(master: str, scratch: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    (scratch / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")
    environment = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if "SPARK_CONF_DIR" not in os.environ:
        environment["SPARK_CONF_DIR"] = str(scratch)
    if is_local(master):
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName("nemesis")
    for name, value in settings(master).items():
        builder = builder.config(name, value)
    with _environment(environment):
        session = builder.getOrCreate()
    session.sparkContext.addPyFile(str(_package(scratch)))
    return session


@contextmanager
def _environment(additions: Mapping[str, str]) -> Iterator[None]:
    """The JVM and its workers are started from these variables; the process keeps its own."""
    before = {name: os.environ.get(name) for name in additions}
    os.environ.update(additions)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _package(scratch: Path) -> Path:
    """The sources that workers import, as a zip file."""
    target = scratch / "highwater.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for name in _SHIPPED:
            found = find_spec(name)
            assert found is not None, name
            assert found.origin is not None, name
            root = Path(found.origin).parent
            for path in sorted(root.rglob("*.py")):
                archive.write(path, path.relative_to(root.parent))
    return target


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
