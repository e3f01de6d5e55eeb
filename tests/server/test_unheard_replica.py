"""A replica whose log lines nobody can take: a full disk under them, or a pipe without a reader."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from replica.ids import ReplicaId
from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster, command
from tests.server.topics import Topics

pytestmark = pytest.mark.cluster

ONE = ReplicaId(1)


@contextmanager
def full_disk() -> Iterator[BinaryIO]:
    """Where every write fails for want of space."""
    with Path("/dev/full").open("wb", buffering=0) as full:
        yield full


@contextmanager
def pipe_without_a_reader() -> Iterator[BinaryIO]:
    """Where every write fails because nobody will ever read it."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as pipe:
        yield pipe


@pytest.mark.parametrize("unwritable", [full_disk, pipe_without_a_reader])
async def test_a_replica_serves_though_its_lines_cannot_be_written(
    tmp_path: Path, unwritable: Callable[[], AbstractContextManager[BinaryIO]]
) -> None:
    """A replica that cannot write log lines leads, acknowledges and stops cleanly all the same."""
    cluster = LocalCluster(tmp_path, size=1)
    cluster.format()
    with unwritable() as lines:
        process = subprocess.Popen(command(*cluster.start_arguments(ONE)), stderr=lines)
    cluster.processes[ONE] = process
    try:
        topics = Topics(cluster.addresses)
        await topics.create(partitions=1, replication_factor=1, min_isr=1)
        await topics.write(0, "kept")
        await topics.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
        assert (cluster.data_dir(ONE) / ".kafka_cleanshutdown").exists()
    finally:
        cluster.close()
