"""Directed schedules: short scripts of faults, each told as the race that it forces.

Owns the scripts. Under the right protocol each of them ends valid; under a wrong one the script is what brings the
wrong decision about. They name whom they mean first and use the names afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nemesis.faults.links import LinkMode
from nemesis.faults.shapes import Shape
from nemesis.faults.targets import Role
from nemesis.faults.values import CutLink, Kill, Partition, Pause
from nemesis.schedule import AwaitLeader, Heal, Inject, Name, Schedule, Step

ISOLATED_LEADER = Schedule(
    name="isolated-leader",
    time_limit_s=8.0,
    steps=(
        Step(at_s=1.0, action=Name(name="a", target=Role.LEADER)),
        # 1. a leads, is cut off from the other replicas, and does not know it; clients still reach it, so it appends
        #    what it cannot commit.
        Step(at_s=1.5, action=Inject(fault_id=0, fault=Partition(shape=Shape.ISOLATE, target="@a"))),
        # 2. The others elect one of them, which commits other values at the same offsets.
        # 3. a comes back, and must give up its tail.
        Step(at_s=6.0, action=Heal(fault_id=0)),
    ),
)

SHORT_LOG_CANDIDATE = Schedule(
    name="short-log-candidate",
    time_limit_s=11.0,
    steps=(
        Step(at_s=1.0, action=Name(name="a", target=Role.LEADER)),
        Step(at_s=1.0, action=Name(name="b", target=Role.FOLLOWER)),
        Step(at_s=1.0, action=Name(name="c", target=Role.FOLLOWER)),
        # 1. c is cut off, and campaigns all the time. a and b acknowledge writes that c does not have.
        Step(at_s=1.0, action=Inject(fault_id=0, fault=Partition(shape=Shape.ISOLATE, target="@c"))),
        # 2. a and b die. c is heard again, but nobody is there.
        Step(at_s=3.5, action=Inject(fault_id=1, fault=Kill(target="@a"))),
        Step(at_s=3.5, action=Inject(fault_id=2, fault=Kill(target="@b"))),
        # 3. b will come back and may not ask c for its vote, so that c is the only one that can ask.
        Step(
            at_s=3.6,
            action=Inject(fault_id=3, fault=CutLink(source="@b", destination="@c", mode=LinkMode.RESET)),
        ),
        Step(at_s=3.6, action=Heal(fault_id=0)),
        Step(at_s=3.7, action=Heal(fault_id=2)),
        # 4. b compares logs and refuses c. A b that does not compare makes c the leader, and cuts its own log back.
        Step(at_s=3.7, action=AwaitLeader(target="@c", at_most_s=3.5)),
        Step(at_s=3.8, action=Heal(fault_id=3)),
        # 5. With a there again, whoever leads is obeyed by all.
        Step(at_s=9.0, action=Heal(fault_id=1)),
    ),
)

DEMO = Schedule(
    name="demo",
    time_limit_s=20.0,
    steps=(
        # 1. A leader that goes on alone: an election, and later the truncation of its uncommitted tail.
        Step(at_s=2.0, action=Inject(fault_id=0, fault=Partition(shape=Shape.ISOLATE, target=Role.LEADER))),
        Step(at_s=6.5, action=Heal(fault_id=0)),
        # 2. A leader that dies and comes back.
        Step(at_s=9.0, action=Inject(fault_id=1, fault=Kill(target=Role.LEADER))),
        Step(at_s=13.0, action=Heal(fault_id=1)),
        # 3. A leader that stands still and believes that no time has passed.
        Step(at_s=14.5, action=Inject(fault_id=2, fault=Pause(target=Role.LEADER))),
        Step(at_s=18.0, action=Heal(fault_id=2)),
    ),
)

DIRECTED: Mapping[str, Schedule] = MappingProxyType(
    {schedule.name: schedule for schedule in (ISOLATED_LEADER, SHORT_LOG_CANDIDATE, DEMO)}
)
"""What ``--schedule`` chooses from."""
