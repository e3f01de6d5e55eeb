"""Real systems under real faults: what each promises is found kept, or found broken, and nothing is left running."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemesis.cli.exit import Exit
from nemesis.faults.partitions import Partition
from nemesis.faults.processes import Kill
from nemesis.faults.shapes import Shape
from nemesis.faults.targets import Role
from nemesis.schedules.schedule import Heal, Inject, Name, Schedule, Step
from tests.depth import at_night
from tests.systems.running import needs, needs_netns, run

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]
QUICK = ("--time-limit", "10", "--rate", "100", "--seed", "1")
ALONE = ("--cluster", "netns", "--schedule", "isolated-leader", "--rate", "100", "--seed", "1")
"""A leader goes on alone for some seconds, and clients still reach it."""
CROWD = ("--concurrency", "60", "--rate", "200")
"""So many that some always ask the one that is alone: a client goes elsewhere once that one has left it waiting."""
ALONE_AND_DEAD = Schedule(
    name="alone-and-dead",
    time_limit_s=13.0,
    steps=(
        Step(at_s=1.0, action=Name(name="a", target=Role.LEADER)),
        # 1. a leads alone: the others elect another, and clients that do not know it write to a.
        Step(at_s=2.0, action=Inject(fault_id=0, fault=Partition(shape=Shape.ISOLATE, target="@a"))),
        # 2. a dies, and finds on its return that its log has parted from that of the others.
        Step(at_s=8.0, action=Inject(fault_id=1, fault=Kill(target="@a"))),
        Step(at_s=8.1, action=Heal(fault_id=0)),
        Step(at_s=9.5, action=Heal(fault_id=1)),
    ),
)


@needs("etcd")
def test_etcd_is_linearizable_while_members_die_and_pause(tmp_path: Path) -> None:
    """Registers of etcd keep every promise under kills and pauses, on a cluster that needs no privileges."""
    done = run(tmp_path / "store", "--system", "etcd", "--workload", "register", "--nemesis", "kill,pause", *QUICK)

    assert done.returncode == Exit.VALID, done.stdout + done.stderr


@needs("etcd")
@needs_netns()
def test_etcd_is_linearizable_while_its_leader_is_alone(tmp_path: Path) -> None:
    """Registers of etcd keep every promise while the leader is cut off from the others and not from clients."""
    done = run(tmp_path / "store", "--system", "etcd", "--workload", "register", *ALONE)

    assert done.returncode == Exit.VALID, done.stdout + done.stderr
    assert "leader changes: 0" not in done.stdout


@needs("etcd")
@needs_netns()
def test_stale_reads_of_etcd_are_found(tmp_path: Path) -> None:
    """Reads that a member answers from what it has are not linearizable, and the same schedule shows that."""
    done = run(tmp_path / "store", "--system", "etcd", "--workload", "register", "--reads", "stale", *ALONE, *CROWD)

    assert done.returncode == Exit.INVALID, done.stdout + done.stderr
    assert "nonlinearizable" in done.stdout


@needs("redis")
@needs_netns()
def test_redis_loses_acknowledged_writes(tmp_path: Path) -> None:
    """What a master acknowledged alone is gone when another one was made master, and that is found."""
    done = run(tmp_path / "store", "--system", "redis", "--workload", "set", *ALONE)

    assert done.returncode == Exit.INVALID, done.stdout + done.stderr
    assert "nonlinearizable" in done.stdout
    assert "two-leaders" not in done.stdout


@needs("kafka")
@needs_netns()
@pytest.mark.parametrize(
    ("acks", "code", "told"),
    [
        pytest.param("all", Exit.VALID, "keep every promise", marks=at_night("has Java thrice, as the other case")),
        ("1", Exit.INVALID, "lost-write"),
    ],
)
def test_kafka_keeps_what_all_replicas_have(tmp_path: Path, acks: str, code: Exit, told: str) -> None:
    """Under one schedule a write that all in sync have stays, and one that the leader alone has is lost with it."""
    schedule = tmp_path / "alone-and-dead.json"
    schedule.write_text(ALONE_AND_DEAD.to_json(), encoding="utf-8")
    how = ("--acks", acks, *(["--strict-acks"] if acks == "1" else []), "--partitions", "1", "--concurrency", "5")
    where = ("--cluster", "netns", "--schedule", str(schedule), "--rate", "50", "--seed", "1")
    done = run(tmp_path / "store", "--system", "kafka", *where, *how)

    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stdout


@needs("etcd")
def test_links_of_another_system_are_not_cut_on_a_local_cluster(tmp_path: Path) -> None:
    """A schedule that cuts links is refused before anything is made, with the way to have it done."""
    words = ("--system", "etcd", "--workload", "register", "--schedule", "isolated-leader")
    done = run(tmp_path / "store", *words)

    assert done.returncode == Exit.UNSUPPORTED
    assert "use --cluster netns" in done.stderr
    assert not (tmp_path / "store").exists()
