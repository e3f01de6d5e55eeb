"""Nodes in containers: how they end, what the kernel does to the links between them, and what is left over."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemesis.cluster.containers import INSIDE, ContainersHost
from nemesis.cluster.containers_engine import Engine, find_engine
from nemesis.cluster.containers_network import why_not_entered
from nemesis.cluster.netns_probe import probed
from nemesis.errors import NodeFailedError, UnsupportedError
from nemesis.faults.impairments import Bandwidth, Loss, Reset
from nemesis.faults.links import CLIENTS, CONTROL, LinkMode
from nemesis.faults.targets import Role
from nemesis.history.reader import read_history
from nemesis.reaper import LABEL
from tests.cluster.netns_stage import DIALLER, SERVER

pytestmark = [pytest.mark.cluster, pytest.mark.containers, pytest.mark.xdist_group("containers")]

PATIENCE_S = 60.0
STARTED_S = 30.0
GRACE_S = 3.0
NODES = (1, 2, 3)
EVERYBODY = {(a, b): "answered" for a in (*NODES, CLIENTS, CONTROL) for b in NODES if a != b}
KILLED = 128 + signal.SIGKILL
HARNESS = """
import asyncio, sys
from pathlib import Path
from nemesis.cluster.containers import ContainersHost
from nemesis.cluster.containers_network import why_not_entered
from nemesis.faults.links import LinkMode

async def main():
    host = ContainersHost(Path(sys.argv[1]), 3)
    try:
        await host.open()
        await host.run(1, ("sleep", "infinity"), host.folder(1) / "log")
        if why_not_entered() is None:
            await host.links.cut("a", frozenset({(1, 2)}), LinkMode.BLACKHOLE)
        await host.pause(1)
        print(host.run_id, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    finally:
        await host.close()

asyncio.run(main())
"""


class Stage:
    """Three nodes that echo, and whoever dials them."""

    def __init__(self, folder: Path) -> None:
        self.host = ContainersHost(folder, len(NODES), memory="128m")
        self.engine = find_engine()

    def open(self) -> None:
        asyncio.run(self.host.open())
        for node in NODES:
            self.start(node)

    def start(self, node: int) -> None:
        """Start a node that echoes, and wait until it does."""
        port = int(self.host.listen_address(node).rpartition(":")[2])
        self.run(node, self.host.python, "-c", SERVER.format(port=port))
        deadline = time.monotonic() + STARTED_S
        while self.dialled(CONTROL, node) != "answered":
            assert time.monotonic() < deadline, self.log(node)

    def run(self, node: int, *command: str) -> None:
        asyncio.run(self.host.run(node, command, self.host.folder(node) / "log"))

    def log(self, node: int) -> str:
        return (self.host.folder(node) / "log").read_text()

    def ended(self, node: int) -> int | None:
        """Wait until the node's process has ended; its exit code."""
        deadline = time.monotonic() + STARTED_S
        while self.host.is_running(node):
            assert time.monotonic() < deadline, self.log(node)
            time.sleep(0.02)
        return self.host.exit_code(node)

    def cut(self, key: str, *links: tuple[int, int], mode: LinkMode = LinkMode.BLACKHOLE) -> None:
        asyncio.run(self.host.links.cut(key, frozenset(links), mode))

    def heal(self, key: str) -> None:
        asyncio.run(self.host.links.heal(key))

    def map(self) -> dict[tuple[int, int], str]:
        """How everyone fares who dials anyone."""
        dialling = {(a, b): self._dial(a, b) for a, b in EVERYBODY}
        return {pair: said(one)[0] for pair, one in dialling.items()}

    def dialled(self, source: int, destination: int) -> str:
        return said(self._dial(source, destination))[0]

    def transfer_s(self, source: int, destination: int, size: int) -> float:
        """How long it takes to send so many bytes and have them back."""
        answer, seconds = said(self._dial(source, destination, size=size, at_most_s=30.0))
        assert answer == "answered"
        return float(seconds)

    def linger(self, source: int, destination: int) -> subprocess.Popen[str]:
        """Connect, and say nothing for now."""
        one = self._dial(source, destination, lingers=True)
        assert one.stdout is not None
        assert one.stdout.readline().strip() == "connected"
        return one

    def _dial(
        self, source: int, destination: int, *, size: int = 1, at_most_s: float = 2.0, lingers: bool = False
    ) -> subprocess.Popen[str]:
        host, _, port = self.host.addresses(source)[destination].rpartition(":")
        program = DIALLER.format(host=host, port=port, size=size, at_most_s=at_most_s, lingers=lingers)
        before = () if source in (CLIENTS, CONTROL) else ("nsenter", "-t", self._pid(source), "-n", "--")
        return subprocess.Popen(
            (*before, sys.executable, "-I", "-S", "-c", program),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _pid(self, node: int) -> str:
        """A process that is in the network of a node, whether the node's own runs or not."""
        holder = self.engine.call(
            *("ps", "--quiet", "--filter", f"label={LABEL}={self.host.run_id}", "--filter", f"name=holder-{node}$")
        )
        return self.engine.call("inspect", "--format", "{{.State.Pid}}", holder)


def said(one: subprocess.Popen[str], told: str = "") -> list[str]:
    return one.communicate(told, timeout=PATIENCE_S)[0].split()


@pytest.fixture(scope="module")
def engine() -> Engine:
    """The engine of this machine, which has the image."""
    try:
        found = find_engine()
    except UnsupportedError as error:
        pytest.skip(str(error))
    if not found.has_image("highwater-replica"):
        pytest.skip("the engine has no image highwater-replica: `make images` builds it")
    return found


@pytest.fixture(scope="module")
def stage(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage whose links are all whole, and whose nodes all run."""
    made = Stage(tmp_path_factory.mktemp("containers"))
    try:
        made.open()
        yield made
    finally:
        asyncio.run(made.host.close())


@pytest.fixture
def may_cut() -> None:
    """Not everybody may enter the network of a container."""
    if why_not := why_not_entered():
        pytest.skip(why_not)


@pytest.mark.usefixtures("may_cut")
def test_everybody_reaches_everybody(stage: Stage) -> None:
    """Nodes reach each other, clients and the harness reach all of them."""
    assert stage.map() == EVERYBODY


@pytest.mark.usefixtures("may_cut")
@pytest.mark.parametrize(
    ("links", "silent"),
    [
        # A handshake needs both directions, so that who dials either way hears nothing.
        ([(1, 2)], [(1, 2), (2, 1)]),
        ([(1, 2), (2, 1), (1, 3), (3, 1)], [(1, 2), (2, 1), (1, 3), (3, 1)]),
        ([(CLIENTS, 3)], [(CLIENTS, 3)]),
        ([(3, CLIENTS)], [(CLIENTS, 3)]),
    ],
)
def test_a_cut_is_silent_and_heals(stage: Stage, links: list[tuple[int, int]], silent: list[tuple[int, int]]) -> None:
    """Who dials over a link that is cut hears nothing, all others do not notice, nor does who looks; it heals."""
    stage.cut("a", *links)

    assert stage.map() == EVERYBODY | dict.fromkeys(silent, "silent")
    stage.heal("a")
    assert stage.map() == EVERYBODY


@pytest.mark.usefixtures("may_cut")
@pytest.mark.parametrize("source", [1, CLIENTS])
def test_a_reset_link_refuses_what_its_source_dials(stage: Stage, source: int) -> None:
    """New connections are refused and old ones reset in the one direction of dialling, and in no other."""
    dialled, others = stage.linger(source, 2), stage.linger(2, 1)

    stage.cut("a", (source, 2), mode=LinkMode.RESET)
    assert [said(one, "go on\n")[0] for one in (dialled, others)] == ["reset", "answered"]
    assert stage.map() == EVERYBODY | {(source, 2): "reset"}
    stage.heal("a")
    assert stage.map() == EVERYBODY


@pytest.mark.usefixtures("may_cut")
@pytest.mark.parametrize("source", [1, CLIENTS])
def test_a_narrow_link_is_slow(stage: Stage, source: int) -> None:
    """What passes it takes longer than it would, nothing is missing of it, and others are as quick as ever."""
    if why_not := probed()["throttle"]:
        pytest.skip(why_not)
    narrow = Bandwidth(rate_bytes_per_s=50_000, target=Role.ALL)
    asyncio.run(stage.host.links.impair("a", frozenset({(source, 2)}), narrow, 1))

    slow_s, other_s = stage.transfer_s(source, 2, 100_000), stage.transfer_s(source, 3, 100_000)
    stage.heal("a")

    assert slow_s > 1.0
    assert max(other_s, stage.transfer_s(source, 2, 100_000)) < slow_s / 2


@pytest.mark.usefixtures("may_cut")
@pytest.mark.parametrize("link", [(1, 2), (2, CLIENTS)])
def test_packets_are_lost(stage: Stage, link: tuple[int, int]) -> None:
    """A link that loses nearly all packets is silent, either way of dialling it, and nobody else notices."""
    if why_not := probed()["dice"]:
        pytest.skip(why_not)
    asyncio.run(stage.host.links.impair("a", frozenset({link}), Loss(percent=99, target=Role.ALL), 1))

    # One or two of a thousand who dial over it are lucky and hear an answer, hardly ever twice in a row.
    over_it = {link, link[::-1]} & set(EVERYBODY)
    first, second = stage.map(), stage.map()
    for pair in EVERYBODY:
        heard = {first[pair], second[pair]}
        assert ("silent" in heard) if pair in over_it else (heard == {"answered"}), pair
    stage.heal("a")


@pytest.mark.usefixtures("may_cut")
def test_connections_are_reset_at_once(stage: Stage) -> None:
    """Those that are open break, and new ones are let through."""
    if why_not := probed()["reset"]:
        pytest.skip(why_not)
    over_it, beside_it = stage.linger(CLIENTS, 2), stage.linger(CLIENTS, 3)

    async def reset() -> None:
        await stage.host.links.impair("a", frozenset({(CLIENTS, 2)}), Reset(target=Role.ALL), 1)
        async with asyncio.timeout(PATIENCE_S):
            while not stage.host.links.tally("a"):
                await asyncio.sleep(0.01)

    asyncio.run(reset())
    assert [said(one, "go on\n")[0] for one in (over_it, beside_it)] == ["reset", "answered"]
    stage.heal("a")
    assert stage.map() == EVERYBODY


@pytest.mark.usefixtures("may_cut")
def test_a_cut_outlasts_the_process(stage: Stage) -> None:
    """A node that is killed and started again has the same address, and is behind the same cut."""
    before = dict(stage.host.addresses(CONTROL))
    stage.cut("a", (1, 2))

    assert asyncio.run(stage.host.kill(2))
    stage.start(2)

    assert dict(stage.host.addresses(CONTROL)) == before
    assert stage.dialled(1, 2) == "silent"
    stage.heal("a")
    assert stage.dialled(1, 2) == "answered"


def test_a_paused_node_is_silent_and_can_be_killed(stage: Stage) -> None:
    """What is paused does not answer and is still there; resumed it answers; it can be killed while it is paused."""
    assert asyncio.run(stage.host.pause(3))
    assert (asyncio.run(stage.host.pause(3)), stage.host.is_running(3), stage.host.is_paused(3)) == (False, True, True)
    assert stage.dialled(CONTROL, 3) == "silent"
    assert asyncio.run(stage.host.resume(3))
    assert stage.dialled(CONTROL, 3) == "answered"

    assert asyncio.run(stage.host.pause(3))
    assert asyncio.run(stage.host.kill(3))
    assert (stage.host.exit_code(3), stage.host.died(3)) == (KILLED, False)
    assert (asyncio.run(stage.host.pause(3)), asyncio.run(stage.host.resume(3)), asyncio.run(stage.host.kill(3))) == (
        False,
        False,
        False,
    )
    stage.start(3)


def test_a_process_is_told_to_stop(stage: Stage) -> None:
    """SIGTERM comes first, and SIGKILL to who does not mind it; who is paused hears it as well."""
    minds = "trap 'exit 7' TERM; touch minds; while :; do sleep 0.1; done"
    assert asyncio.run(stage.host.stop(3, GRACE_S))
    assert stage.host.exit_code(3) == KILLED
    stage.run(3, "sh", "-c", f"cd {INSIDE} && {minds}")
    wait_file(stage.host.folder(3) / "minds")

    assert asyncio.run(stage.host.pause(3))
    assert asyncio.run(stage.host.stop(3, GRACE_S))
    assert (stage.host.exit_code(3), stage.host.died(3)) == (7, False)
    assert not asyncio.run(stage.host.stop(3, GRACE_S))
    stage.start(3)


def test_a_node_that_dies_by_itself_is_found(stage: Stage) -> None:
    """Its exit code is its own; and so it is killed by the kernel when it takes more memory than it may."""
    asyncio.run(stage.host.kill(3))
    stage.run(3, "sh", "-c", "echo gone; exit 3")
    assert (stage.ended(3), stage.host.died(3)) == (3, True)
    assert stage.log(3).endswith("gone\n")

    stage.run(3, stage.host.python, "-c", "one = bytearray(1 << 29); print('has it')")
    assert (stage.ended(3), stage.host.died(3)) == (KILLED, True)
    stage.start(3)


def test_a_program_that_is_not_in_the_image_is_told(stage: Stage) -> None:
    """It is no process that died, and the engine's words are in the log."""
    asyncio.run(stage.host.kill(3))
    with pytest.raises(NodeFailedError, match="does not start: see"):
        stage.run(3, "no-such-program")
    assert "no-such-program" in stage.log(3)
    stage.start(3)


def test_a_command_runs_once_in_the_place_of_a_node(stage: Stage) -> None:
    """Its exit code is told, its files are the harness's, and it is ended when it takes too long."""
    host, log_file = stage.host, stage.host.folder(1) / "once.log"
    touch = ("touch", str(host.inside(1) / "made"))
    assert asyncio.run(host.run_once(1, touch, log_file, at_most_s=STARTED_S)) == 0
    (host.folder(1) / "made").unlink()
    assert asyncio.run(host.run_once(1, ("sh", "-c", "exit 4"), log_file, at_most_s=STARTED_S)) == 4

    with pytest.raises(TimeoutError):
        asyncio.run(host.run_once(1, ("sleep", "infinity"), log_file, at_most_s=2.0))
    assert "sleep" not in stage.engine.call("ps", "--format", "{{.Command}}", "--filter", "name=node-1-")


@pytest.mark.parametrize("ending", ["end", "SIGINT", "SIGKILL"])
def test_nothing_is_left_over(ending: str, engine: Engine, tmp_path: Path) -> None:
    """However the harness ends, its containers and its networks are gone soon after, and those of others are not."""
    harness = subprocess.Popen(
        (sys.executable, "-c", HARNESS, str(tmp_path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert harness.stdout is not None
    run = harness.stdout.readline().strip()
    assert len(left_of(engine, run)) == 6

    if ending != "end":
        harness.send_signal(signal.Signals[ending])
    harness.communicate(timeout=PATIENCE_S)

    deadline = time.monotonic() + PATIENCE_S
    while left := left_of(engine, run):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def left_of(engine: Engine, run: str) -> list[str]:
    label = f"label={LABEL}={run}"
    containers = engine.call("ps", "--all", "--quiet", "--filter", label)
    networks = engine.call("network", "ls", "--quiet", "--filter", label)
    return [*containers.split(), *networks.split()]


def wait_file(path: Path) -> None:
    deadline = time.monotonic() + STARTED_S
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


@pytest.mark.usefixtures("may_cut", "engine")
def test_a_run_in_containers_is_valid(tmp_path: Path) -> None:
    """A run under partitions, kills and pauses of containers is valid, and its faults have bitten."""
    faults = ("--nemesis", "partition,kill,pause", "--nemesis-interval", "1", "--time-limit", "9", "--seed", "89")
    load = ("--rate", "50", "--concurrency", "4")
    where = ("--cluster", "containers", "--engine", "local", "--store", str(tmp_path))
    command = (sys.executable, "-m", "nemesis.cli", "run", *faults, *load, *where)
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)

    assert (done.returncode, done.stdout.splitlines()[:1]) == (0, ["verdict: valid"]), done.stderr
    run = tmp_path / "append" / "latest"
    assert json.loads((run / "results.json").read_text())["faults_bit"] is True
    assert json.loads((run / "test.json").read_text())["options"]["cluster"] == "containers"
    assert {"partition", "kill", "pause"} <= {f.partition("-")[0] for f in read_history(run).column("f").to_pylist()}
