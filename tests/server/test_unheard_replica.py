"""A replica that nobody listens to: its log lines cannot be taken, or the terminal that it was started in is gone."""

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
    lone: LocalCluster, unwritable: Callable[[], AbstractContextManager[BinaryIO]]
) -> None:
    """A replica that cannot write log lines leads, acknowledges and stops cleanly all the same."""
    with unwritable() as lines:
        process = subprocess.Popen(command(*lone.start_arguments(ONE)), stderr=lines)
    lone.processes[ONE] = process
    async with Topics(lone.addresses) as topics:
        await topics.create(partitions=1, replication_factor=1, min_isr=1)
        await topics.write(0, "kept")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_SECONDS) == 0
    assert (lone.data_dir(ONE) / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("is_ignored", [False, True], ids=["terminal", "nohup"])
async def test_a_terminal_that_goes_away_stops_a_replica_cleanly(lone: LocalCluster, is_ignored: bool) -> None:
    """SIGHUP is a controlled shutdown, unless whoever started the replica has asked that it be ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    try:
        lone.start(ONE)
    finally:
        signal.signal(signal.SIGHUP, before)
    topics = Topics(lone.addresses)
    await topics.create(partitions=1, replication_factor=1, min_isr=1)
    lone.processes[ONE].send_signal(signal.SIGHUP)
    if is_ignored:
        await topics.write(0, "kept")
        assert lone.is_alive(ONE)
        assert lone.stop(ONE) == 0
    await topics.close()
    assert lone.processes[ONE].wait(PATIENCE_SECONDS) == 0
    assert (lone.data_dir(ONE) / ".kafka_cleanshutdown").exists()
