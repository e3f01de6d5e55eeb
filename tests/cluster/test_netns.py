"""Links between network namespaces: what the kernel does to them, as seen by those who dial, and what is left over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from nemesis.cluster.netns_probe import probed, why_no_clusters
from nemesis.faults.fault import Fault
from nemesis.faults.impairments import Bandwidth, Delay, Loss, Reset
from nemesis.faults.links import CLIENTS, CONTROL
from nemesis.faults.targets import Role
from nemesis.history.reader import read_history
from tests.depth import at_night

PATIENCE_S = 60.0
NODES = (1, 2, 3)
WITHOUT_RIGHTS = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
"""Makes an ordinary user of us, also where we are root: then a user namespace has to do."""
EVERYBODY = {f"{a} {b}": "answered" for a in (*NODES, CLIENTS, CONTROL) for b in NODES if a != b}


class Stage:
    """A stage in another process."""

    def __init__(self, folder: Path, *before: str) -> None:
        folder.mkdir()
        command = (*before, sys.executable, "-m", "tests.cluster.netns_stage", str(folder))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = self._answer()
        self.pids = [self.process.pid, *said["pids"].values()]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**given: Any) -> Any:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps({"do": name, **given}) + "\n")
            self.process.stdin.flush()
            return self._answer()

        return call

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the stage is gone"
        return json.loads(line)

    def end(self) -> None:
        """Let it end, if it has not."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def namespaces(self) -> set[int]:
        return {_network_of(pid) for pid in self.pids}


@pytest.fixture(autouse=True)
def _has_namespaces() -> None:
    """Not everybody may have a network of his own."""
    if why_not := why_no_clusters():
        pytest.skip(why_not)


@pytest.fixture(scope="module", params=["as we are", "without rights"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage whose links are all whole."""
    if why_not := why_no_clusters():
        pytest.skip(why_not)
    before: tuple[str, ...] = ()
    if request.param == "without rights":
        before = WITHOUT_RIGHTS
    made = Stage(tmp_path_factory.mktemp("netns") / "stage", *before)
    yield made
    made.end()


def test_everybody_reaches_everybody(stage: Stage) -> None:
    """Nodes reach each other, clients and the harness reach all of them."""
    assert stage.map() == EVERYBODY


@pytest.mark.parametrize(
    ("links", "silent"),
    [
        # A handshake needs both directions, so that who dials either way hears nothing.
        ([(1, 2)], ["1 2", "2 1"]),
        ([(1, 2), (2, 1), (1, 3), (3, 1)], ["1 2", "2 1", "1 3", "3 1"]),
        ([(CLIENTS, 3)], [f"{CLIENTS} 3"]),
        ([(3, CLIENTS)], [f"{CLIENTS} 3"]),
    ],
)
def test_a_cut_is_silent_and_heals(stage: Stage, links: list[tuple[int, int]], silent: list[str]) -> None:
    """Who dials over a link that is cut hears nothing, all others do not notice, nor does who looks; it heals."""
    stage.cut(key="a", links=links, mode="blackhole")

    assert stage.map() == EVERYBODY | dict.fromkeys(silent, "silent")
    stage.heal(key="a")
    assert stage.map() == EVERYBODY


def test_one_direction_of_a_connection_is_cut(stage: Stage) -> None:
    """Of two connections across a link that is cut one way, neither goes on; both do when it heals, late but whole."""
    assert [stage.linger(source=1, destination=2), stage.linger(source=2, destination=1)] == ["connected"] * 2

    stage.cut(key="a", links=[(1, 2)], mode="blackhole")
    assert stage.speak() == ["silent", "silent"]
    stage.heal(key="a")

    stage.linger(source=1, destination=2)
    assert stage.speak() == ["answered"]


def test_a_reset_link_refuses_what_its_source_dials(stage: Stage) -> None:
    """New connections are refused and old ones reset in the one direction of dialling, and in no other."""
    stage.linger(source=1, destination=2)
    stage.linger(source=2, destination=1)

    stage.cut(key="a", links=[(1, 2)], mode="reset")
    assert stage.speak() == ["reset", "answered"]
    assert stage.map() == EVERYBODY | {"1 2": "reset"}
    stage.heal(key="a")
    assert stage.map() == EVERYBODY


def test_cuts_overlap(stage: Stage) -> None:
    """A link passes again when nobody cuts it any more."""
    stage.cut(key="a", links=[(1, 2)], mode="blackhole")
    stage.cut(key="b", links=[(1, 2), (CLIENTS, 1)], mode="blackhole")
    stage.heal(key="a")

    assert stage.map()["1 2"] == "silent"
    stage.heal(key="b")
    assert stage.map() == EVERYBODY


def quickest_s(stage: Stage, source: int, destination: int) -> float:
    """The best of three: a link that is slow is so always, and a machine that has much to do only now and then."""
    return min(float(stage.transfer_s(source=source, destination=destination, size=100_000)) for _ in range(3))


@pytest.mark.parametrize(
    ("fault", "trial"),
    [
        (Bandwidth(rate_bytes_per_s=200_000, target=Role.ALL), "throttle"),
        (Delay(latency_ms=300, target=Role.ALL), "netem"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.kind,
)
def test_an_impaired_link_is_slow(stage: Stage, fault: Fault, trial: str) -> None:
    """What passes it takes longer than it would, nothing is missing of it, and others are as quick as ever."""
    if why_not := probed()[trial]:
        pytest.skip(why_not)
    usual_s = stage.transfer_s(source=1, destination=2, size=100_000)
    stage.impair(key="a", links=[(1, 2)], fault=fault.to_json())

    slow_s = stage.transfer_s(source=1, destination=2, size=100_000)
    other_s = quickest_s(stage, 1, 3)
    stage.heal(key="a")
    healed_s = quickest_s(stage, 1, 2)

    assert slow_s > 0.2, usual_s
    assert max(other_s, healed_s) < 0.2, usual_s


def test_connections_are_reset_at_once(stage: Stage) -> None:
    """Those that are open break, and new ones are let through."""
    if why_not := probed()["reset"]:
        pytest.skip(why_not)
    stage.linger(source=1, destination=2)
    stage.linger(source=1, destination=3)
    stage.impair(key="a", links=[(1, 2)], fault=Reset(target=Role.ALL).to_json())

    assert stage.speak() == ["reset", "answered"]
    assert stage.map() == EVERYBODY
    stage.heal(key="a")


def test_packets_are_lost_by_chance(stage: Stage) -> None:
    """On a lossy link an exchange has to wait for what is sent again, sooner or later, and on no other."""
    if why_not := probed()["dice"]:
        pytest.skip(why_not)
    stage.impair(key="a", links=[(1, 2)], fault=Loss(percent=30, target=Role.ALL).to_json())

    # Four packets or more, each lost in three cases of ten: fewer than one exchange of four goes well, so that all of
    # twenty do is a case of 10^-12, and fifteen of them one of 10^-5. A busy machine may be late now and then.
    assert any(stage.transfer_s(source=1, destination=2, size=1) > 0.15 for _ in range(20))
    assert sum(stage.transfer_s(source=1, destination=3, size=1) < 0.15 for _ in range(20)) >= 15
    stage.heal(key="a")
    assert stage.map() == EVERYBODY


@pytest.mark.parametrize("ending", ["end", "SIGINT", "SIGKILL"])
def test_nothing_is_left_over(ending: str, tmp_path: Path) -> None:
    """However the harness ends, its processes and its namespaces are gone, and with them all that was in them."""
    stage = Stage(tmp_path / "stage")
    stage.cut(key="a", links=[(1, 2)], mode="blackhole")
    namespaces, pids = stage.namespaces(), stage.pids
    assert len(namespaces) == 4
    assert not namespaces & {_network_of(os.getpid())}

    try:
        if ending != "end":
            stage.process.send_signal(signal.Signals[ending])
            stage.process.wait(timeout=PATIENCE_S)
    finally:
        stage.end()

    deadline = time.monotonic() + PATIENCE_S
    while left := [pid for pid in pids if psutil.pid_exists(pid)] or namespaces & _all_networks():
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
    assert not {"service", "control", "service1", "control1"} & set(psutil.net_if_addrs())


def _network_of(pid: int) -> int:
    return os.stat(f"/proc/{pid}/ns/net").st_ino


def _all_networks() -> set[int]:
    """The networks that any process is in that we may look at."""
    found = set()
    for pid in psutil.pids():
        try:
            found.add(_network_of(pid))
        except OSError:
            continue
    return found


JUDGE = """
import socket
from nemesis.cluster.netns_enter import enter
socket.sethostname("nowhere.invalid")
enter()
from nemesis.pipeline.session import spark_session
with spark_session("local[1]") as spark:
    print(spark.range(7).count())
"""
WITH_A_NAME_OF_ITS_OWN = ("unshare", "--user", "--map-root-user", "--uts")


@pytest.mark.cluster
def test_spark_judges_in_a_namespace_where_no_name_is_known() -> None:
    """Spark needs nothing of the network but the loopback address: neither this machine's name nor who resolves it."""
    command = (*WITH_A_NAME_OF_ITS_OWN, sys.executable, "-c", JUDGE)
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.parametrize(
    "before",
    [
        pytest.param((), id="as we are", marks=at_night("runs of systems that are not ours begin so")),
        pytest.param(WITHOUT_RIGHTS, id="without rights"),
    ],
)
def test_a_run_in_namespaces_is_valid(before: tuple[str, ...], tmp_path: Path) -> None:
    """A run under partitions, kills and pauses that the kernel does is valid, and its faults have bitten."""
    faults = ("--nemesis", "partition,kill,pause", "--nemesis-interval", "1", "--time-limit", "9", "--seed", "89")
    load = ("--rate", "50", "--concurrency", "4")
    where = ("--cluster", "netns", "--engine", "local", "--store", str(tmp_path))
    command = (*before, sys.executable, "-m", "nemesis.cli", "run", *faults, *load, *where)
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)

    assert (done.returncode, done.stdout.splitlines()[:1]) == (0, ["verdict: valid"]), done.stderr
    run = tmp_path / "append" / "latest"
    assert json.loads((run / "results.json").read_text())["faults_bit"] is True
    assert json.loads((run / "test.json").read_text())["options"]["cluster"] == "netns"
    assert {"partition", "kill", "pause"} <= {f.partition("-")[0] for f in read_history(run).column("f").to_pylist()}
