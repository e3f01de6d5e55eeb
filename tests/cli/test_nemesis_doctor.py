"""``nemesis doctor``: what it says is what clusters say, and nothing that is missing is missing without a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nemesis.cli.doctor import told
from nemesis.cluster.kinds import ClusterKind, new_host
from nemesis.doctor import Examined, examined
from nemesis.errors import UnsupportedError
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Fault
from tests.cli.commands import TIMEOUT_S, nemesis


@pytest.mark.slow
def test_every_cluster_is_asked_about_every_fault() -> None:
    """The answers are those by which a run is refused."""
    found = examined()

    assert set(found.clusters) == set(ClusterKind)
    for kind, answers in found.clusters.items():
        assert set(answers) == set(FAULTS)
        assert answers == {word: why_not(ClusterKind(kind), fault) for word, fault in FAULTS.items()}


def why_not(kind: ClusterKind, fault: type[Fault]) -> str | None:
    """The answer by which a run would be refused."""
    try:
        return new_host(kind, Path(), 3).lacks(fault.need)
    except UnsupportedError as error:
        return str(error)


def test_what_cannot_be_done_is_told_with_its_reason() -> None:
    """The tables have a cell for each cluster and fault and for each system; each reason stands below them once."""
    found = Examined(
        clusters={"local": {"kill": None, "delay": None}, "netns": {"kill": "no\n nft", "delay": "no\n nft"}},
        machine={"rules": None, "netem": "no such kernel"},
        systems={"etcd": "not there", "highwater": None},
    )

    assert list(told(found)) == [
        "fault local netns",
        "kill  yes   no",
        "delay yes   no",
        "",
        "system    --system",
        "etcd      no",
        "highwater yes",
        "",
        "not with --cluster netns:",
        "  kill, delay: no nft",
        "",
        "not on this machine:",
        "  netem: no such kernel",
        "",
        "not as --system:",
        "  etcd: not there",
    ]


@pytest.mark.slow
def test_the_command_always_ends_well() -> None:
    """It is no verdict: the exit code is 0, also where little can be done."""
    done = nemesis("doctor", "--json")

    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"clusters", "machine", "systems"}


def test_a_machine_without_the_programs_is_told_so(tmp_path: Path) -> None:
    """Where the programs are not found, no cluster in namespaces is promised, and what to install is said."""
    # Nothing is on the path; where programs of the system are looked for otherwise is told by the module.
    bare = "import nemesis.cluster.netns_tools as tools; tools.SYSTEM_PATH = ''; "
    environment = {**os.environ, "PATH": ""}

    def python(program: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-c", bare + program)
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path
        )

    done = python("from nemesis.cluster import netns_probe; netns_probe.main()")
    assert done.returncode == 0, done.stderr
    assert "install" in json.loads(done.stdout)["network"] or "namespace" in json.loads(done.stdout)["network"]
