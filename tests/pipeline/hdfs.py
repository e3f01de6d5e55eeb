"""A file system of Hadoop's on this machine: one NameNode and one DataNode, out of the jar for small clusters."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from nemesis.pipeline.session import java_path
from tests.pipeline.jvms import started

_SERVERS = "org.apache.hadoop.hdfs.server"
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dlog4j2.level=INFO")


def minicluster_jar() -> Path:
    """The jar of the version that pyspark has, where Maven puts what it was asked for; skips where it is not."""
    (client,) = _jars().glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    name = "hadoop-client-minicluster"
    jar = Path.home() / ".m2/repository/org/apache/hadoop" / name / version / f"{name}-{version}.jar"
    if not jar.is_file():
        asked = f"mvn dependency:get -Dartifact=org.apache.hadoop:{name}:{version} -Dtransitive=false"
        pytest.skip(f"HDFS is not installed: {asked}")
    return jar


def _jars() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None, "the tests are installed with pyspark"
    assert spec.origin is not None, "pyspark is a package"
    return Path(spec.origin).parent / "jars"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hdfs:
    """A file system that runs, by its URL."""

    url: str
    command: tuple[str, ...]
    """How a class of Hadoop's is started."""

    def shell(self, *words: str) -> str:
        """What a command of the file system's own shell prints, such as ``-put`` or ``-cat``."""
        command = [*self.command, "org.apache.hadoop.fs.FsShell", *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout


@contextmanager
def hdfs(folder: Path) -> Iterator[Hdfs]:
    """A new file system, which keeps its blocks below ``folder``."""
    java = java_path()
    assert java is not None, "a test of Spark has looked for Java"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    conf = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{port}",
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
        "dfs.namenode.name.dir": (folder / "name").as_uri(),
        "dfs.namenode.http-address": "127.0.0.1:0",
        "dfs.datanode.data.dir": (folder / "data").as_uri(),
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in conf.items()
    )
    site = folder / "conf"
    site.mkdir()
    for name in ("core-site.xml", "hdfs-site.xml"):
        (site / name).write_text(f"<configuration>{properties}</configuration>")
    command = (java, *_OPTIONS, "-cp", f"{site}:{minicluster_jar()}:{_jars()}/*")
    name_node = [*command, f"{_SERVERS}.namenode.NameNode"]
    data_node = [*command, f"{_SERVERS}.datanode.DataNode"]
    done = subprocess.run([*name_node, "-format", "-nonInteractive"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    with (
        started(name_node, folder, "NameNode RPC up at"),
        started(data_node, folder, "successfully registered with NN"),
    ):
        yield Hdfs(url=conf["fs.defaultFS"], command=(*command[:-3], "-Dlog4j2.level=ERROR", *command[-2:]))
