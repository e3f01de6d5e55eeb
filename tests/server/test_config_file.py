"""A real replica that is told everything by a file."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.server.local_cluster import PATIENCE_SECONDS, LocalCluster, command

pytestmark = pytest.mark.cluster


def test_a_file_is_all_that_a_replica_needs(tmp_path: Path) -> None:
    """It starts with the file's address, voters and level of logging, serves, and stops cleanly when it is asked to."""
    with LocalCluster(tmp_path, size=1) as cluster:
        cluster.format()
        (address,) = cluster.addresses.values()
        (data_dir,) = (cluster.data_dir(replica_id) for replica_id in cluster.ids)
        places = (
            f'data-dir = "{data_dir}"\nlisten = "{address}"\nadvertised-address = "{address}"\nlog-level = "info"\n'
        )
        (tmp_path / "replica.toml").write_text(f'{places}[voter]\n1 = "{address}"\n', encoding="utf-8")
        words = command("start", "--config", tmp_path / "replica.toml")
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            lines = (json.loads(line) for line in process.stderr)
            started = next(line for line in lines if line["event"] == "started")
            process.send_signal(signal.SIGTERM)
            left = [line["event"] for line in lines]
            assert process.wait(PATIENCE_SECONDS) == 0
    assert (started["address"], started["voters"]) == (address, [1])
    assert "stopped" in left
