"""An earlier release beside this one: its sources from the history of the repository, and nodes that run either."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from nemesis.cluster.local import LocalHost
from nemesis.cluster.processes import NodeProcess
from nemesis.cluster.replica_options import ReplicaOptions

THIS = Path(__file__).resolve().parents[2]
EARLIER = "2350e038"
"""The last commit without feature levels."""
USUAL = ReplicaOptions().server
BUILD = """
import compileall
from pathlib import Path
import hatch_build as build
build.generate(Path.cwd())
for library in build.LIBRARIES:
    build.compile_library(Path.cwd(), library, Path.cwd() / library)
compileall.compile_dir("replica", quiet=1)  # Once, and not by each replica while it starts.
"""
BUILD_S_MAX = 300


def earlier_release(folder: Path) -> Path:
    """Build the earlier release in ``folder``, by its own recipe; without its history the test is skipped."""
    taken = subprocess.run(
        ["git", "-C", str(THIS), "archive", "--format=tar", EARLIER], capture_output=True, check=False
    )
    if taken.returncode != 0:
        reason = taken.stderr.decode(errors="replace").strip().splitlines()[-1:]
        pytest.skip(f"commit {EARLIER} is not in the history of {THIS}, which is whole in a full clone: {reason}")
    with tarfile.open(fileobj=io.BytesIO(taken.stdout)) as sources:
        sources.extractall(folder, filter="data")
    subprocess.run([sys.executable, "-c", BUILD], cwd=folder, check=True, timeout=BUILD_S_MAX)
    return folder


class TwoReleases(LocalHost):
    """Nodes each of which runs the release whose sources are in ``runs``, from its next start on."""

    def __init__(self, folder: Path, count: int, release: Path) -> None:
        super().__init__(folder, count)
        self.runs = dict.fromkeys(self.nodes, release)
        self.servers: dict[int, tuple[str, ...]] = {}
        """How Python starts the replicas that are not started as usual."""

    def _started(
        self, node: int, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None
    ) -> NodeProcess:
        # Safe path: else the working directory would come first, which has this release.
        of_release = {"PYTHONPATH": str(self.runs[node]), "PYTHONSAFEPATH": "1"}
        if node in self.servers and tuple(command[1 : 1 + len(USUAL)]) == USUAL:
            command = (command[0], *self.servers[node], *command[1 + len(USUAL) :])
        return super()._started(node, command, log_file, {**(environment or {}), **of_release})
