"""What all foreign systems share: starts that do not wait in vain, what is reported, what is refused."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random

import pytest

from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.cluster.store import Verb
from nemesis.errors import NodeFailedError
from nemesis.faults.breakable import ClusterState, PartitionState
from nemesis.faults.bursts import Burst
from nemesis.faults.disks import PowerLoss
from nemesis.faults.fault import Fault
from nemesis.faults.memory import LimitMemory
from nemesis.faults.moves import Course, Reassign
from nemesis.faults.partitions import CutClients, Partition
from nemesis.faults.processes import Kill, Pause, Stop
from nemesis.faults.replaced_disks import ReplaceDisk
from nemesis.faults.shapes import Shape
from nemesis.faults.simulated import Clog
from nemesis.faults.targets import Role
from nemesis.faults.timekeeping import JumpWallClock, StopClock
from nemesis.faults.voters import ChangeVoters, VoterChange
from nemesis.systems.foreign import ForeignSystem
from nemesis.systems.loopback import LoopbackHost
from nemesis.systems.offer import Offer

LOG = "log-0"
SLEEPER = (sys.executable, "-c", "import time; time.sleep(600)")


class Puppet(ForeignSystem):
    """Nodes that sleep; what they answer and who leads is set by the test."""

    offer = Offer(verbs=frozenset({Verb.GET, Verb.PUT, Verb.COMPARE_AND_SET}))
    started_s_max = 0.3

    def __init__(self, folder: Path) -> None:
        super().__init__(LoopbackHost(folder, 3, Random(1)), ReplicaOptions())
        self.silent: set[int] = set()
        self.program: Sequence[str] = SLEEPER
        self.leader: tuple[int | None, int] = (1, 1)

    @property
    def topic_partitions(self) -> tuple[str, ...]:
        return (LOG,)

    async def prepare(self, node: int) -> None:
        pass

    def command(self, node: int) -> Sequence[str]:
        return self.program

    async def answers(self, node: int) -> bool:
        return node not in self.silent

    async def look(self) -> ClusterState | None:
        leader, epoch = self.leader
        partition = PartitionState(replicas=self.nodes, isr=self.asked, leader=leader, leader_epoch=epoch)
        return ClusterState(controller=leader, active=frozenset(self.asked), partitions={LOG: partition})


@pytest.fixture
async def puppet(tmp_path: Path) -> AsyncIterator[Puppet]:
    """Three nodes that run, and end."""
    puppet = Puppet(tmp_path)
    await puppet.open()
    yield puppet
    await puppet.close()
    assert not any(puppet.is_running(node) for node in puppet.nodes)


async def test_a_node_that_does_not_serve_is_ended(puppet: Puppet) -> None:
    """While most nodes are up, one that does not answer in time has failed, and does not go on running."""
    await puppet.kill(1)
    puppet.silent = {1}

    with pytest.raises(NodeFailedError, match="node 1 does not serve"):
        await puppet.start(1)
    assert not puppet.is_running(1)


async def test_nobody_waits_for_a_node_that_is_alone(puppet: Puppet) -> None:
    """Where most nodes are down a start does not wait for an answer that cannot come."""
    for node in puppet.nodes:
        await puppet.kill(node)
    puppet.silent = {1, 2, 3}

    await puppet.start(1)

    assert puppet.is_running(1)


async def test_a_node_that_ends_at_once_has_failed(puppet: Puppet) -> None:
    """A program that ends is told with its exit code, and as dead when it is started again."""
    await puppet.kill(1)
    puppet.silent, puppet.program = {1}, (sys.executable, "-c", "raise SystemExit(3)")
    puppet.started_s_max = 30.0
    with pytest.raises(NodeFailedError, match="ended with 3"):
        await puppet.start(1)
    puppet.silent, puppet.program = set(), SLEEPER
    await puppet.start(1)

    assert [(report.node, report.detail) for report in puppet.reports() if report.event == "died"] == [
        (1, "exit code 3")
    ]


async def test_a_killed_node_did_not_die(puppet: Puppet) -> None:
    """What the harness has ended is not reported as having ended by itself."""
    await puppet.kill(2)
    await puppet.start(2)

    assert [report for report in puppet.reports() if report.event == "died"] == []


@pytest.mark.parametrize(("is_certain", "told"), [(False, [(1, 2), (3, 4)]), (True, [(1, 2), (3, 2), (3, 4)])])
async def test_a_leader_told_with_its_predecessors_epoch_convicts_nobody(
    puppet: Puppet, monkeypatch: pytest.MonkeyPatch, is_certain: bool, told: list[tuple[int, int]]
) -> None:
    """etcd's members tell the term of the last entry that they have applied, and may be led in a newer one."""
    monkeypatch.setattr(Puppet, "epochs_name_leaders", is_certain)
    for leader in ((1, 2), (3, 2), (3, 4)):
        puppet.leader = leader
        await puppet.replica_states()

    assert sorted((report.node, report.epoch) for report in puppet.reports()) == told


async def test_each_leader_is_reported_once(puppet: Puppet) -> None:
    """Whoever asks for the state sees to it that each new leader and epoch is told, and nobody who leads nothing."""
    for leader in ((1, 1), (1, 1), (None, 2), (2, 2), (1, 3), (2, 2)):
        puppet.leader = leader
        await puppet.replica_states()

    told = [(report.node, report.epoch) for report in puppet.reports() if report.event == "became-leader"]
    assert sorted(told) == [(1, 1), (1, 3), (2, 2)]


async def test_a_run_does_not_begin_before_all_are_there(puppet: Puppet) -> None:
    """Without a leader, or with a node behind, the nodes are of no use yet."""
    puppet.opened_s_max = 0.2
    await puppet.create_logs()
    await puppet.pause(3)
    with pytest.raises(NodeFailedError, match="nodes behind in \\['log-0'\\]"):
        await puppet.create_logs()
    puppet.leader = (None, 1)
    with pytest.raises(NodeFailedError, match="no leader of \\['log-0'\\]"):
        await puppet.create_logs()


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Kill(target=Role.ONE), None),
        (Pause(target=Role.ONE), None),
        (Stop(target=Role.ONE), None),
        (Partition(shape=Shape.ISOLATE, target=Role.LEADER), "use --cluster netns"),
        (CutClients(target=Role.ONE), "use --cluster netns"),
        (ChangeVoters(change=VoterChange.REMOVE, target=Role.ONE), "cannot be changed"),
        (Reassign(course=Course.MOVE), "who has the logs of another system"),
        (ReplaceDisk(target=Role.ONE), "cannot be changed"),
        (LimitMemory(target=Role.ONE, percent=50), "without memory is not known"),
        (PowerLoss(target=Role.ONE), "what it has not flushed is not known"),
        (Clog(shape=Shape.HALVES), "in the simulator only"),
        (JumpWallClock(target=Role.ONE, by_ms=1), "nobody has said that libfaketime reaches"),
        (StopClock(target=Role.ONE), "a clock that cannot be set"),
        (Burst(factor=2), None),
    ],
)
def test_what_cannot_be_done_is_said_before(tmp_path: Path, fault: Fault, why: str | None) -> None:
    """Processes can be struck, links and voters cannot, and each refusal says why."""
    said = Puppet(tmp_path).lacks(fault.need)

    assert (said is None) if why is None else (said is not None and why in said)


def test_two_runs_have_addresses_of_their_own(tmp_path: Path) -> None:
    """Nodes of one host differ, and another host has other addresses for the same ports."""
    first, second = (set(LoopbackHost(tmp_path, 3, Random(seed)).addresses(-1, 2379).values()) for seed in (1, 2))

    assert len(first | second) == 6
    assert all(address.startswith("127.") for address in first | second)
