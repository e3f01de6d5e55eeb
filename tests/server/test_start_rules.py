"""The rules that a process is started with are those by which its logs are recovered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from replica.core.metadata.replay import METADATA_LOG
from replica.ids import ReplicaId, TopicId, TopicPartition
from replica.storage import LogTable, format_directory, open_directory
from replica.voters import VoterSet
from tests.storage.disks import batch

PARTITION = TopicPartition("orders", 0)
PROGRAM = """
import sys
from pathlib import Path
from replica.core.rules import Rules
from replica.server.main import serve
from replica.server.options import ServerOptions
from replica.storage import StorageError

class Refusing(Rules):
    def epoch_is_recovered(self, *, epoch):
        raise StorageError(f"asked about epoch {epoch}")

options = ServerOptions(data_dir=Path(sys.argv[1]), listen="192.0.2.1:9", voters={1: "127.0.0.1:1"})
sys.exit(serve(options, rules=Refusing()))
"""
"""Whoever does not ask this rule fails a moment later: there is no such address to listen on."""


@pytest.mark.slow
def test_logs_are_recovered_by_the_rules_of_the_process(tmp_path: Path) -> None:
    """A wrong rule about recovery has its effect in a process that is started with it."""
    format_directory(tmp_path / "data", cluster_id="c", replica_id=ReplicaId(1), initial_voters=VoterSet(()))
    directory = open_directory(tmp_path / "data")
    directory.create_log(PARTITION, TopicId(7))
    table = LogTable.open(directory, (METADATA_LOG,))
    table.stores[PARTITION].append([batch(0, epoch=3)])
    table.stores[PARTITION].flush()
    table.abandon()

    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, "replica: cannot start: asked about epoch 3")
