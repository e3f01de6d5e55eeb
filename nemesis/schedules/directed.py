"""Directed schedules: short scripts of faults, each told as the race that it forces.

Owns the scripts. Under the right protocol each of them ends valid, unless the topic allows what loses records; under a
wrong one the script is what brings the wrong decision about. They name whom they mean first and use the names
afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nemesis.faults.disks import PowerLoss
from nemesis.faults.links import LinkMode
from nemesis.faults.partitions import CutLink, Partition
from nemesis.faults.processes import Kill, Pause, Stop
from nemesis.faults.rolling import RollingRestart
from nemesis.faults.shapes import Shape
from nemesis.faults.targets import Role
from nemesis.faults.timekeeping import StopClock
from nemesis.schedules.schedule import AwaitLeader, Heal, Inject, Name, Schedule, Step

ISOLATED_LEADER = Schedule(
    name="isolated-leader",
    time_limit_s=13.0,
    steps=(
        Step(at_s=1.0, action=Name(name="a", target=Role.LEADER)),
        # 1. a leads, is cut off from the other replicas, and does not know it; clients still reach it, so it appends
        #    what it cannot commit.
        Step(at_s=1.5, action=Inject(fault_id=0, fault=Partition(shape=Shape.ISOLATE, target="@a"))),
        # 2. Its session ends, and another is elected, which commits other values at the same offsets.
        # 3. a comes back, and must give up its tail.
        Step(at_s=9.0, action=Heal(fault_id=0)),
    ),
)

SHORT_LOG_CANDIDATE = Schedule(
    name="short-log-candidate",
    time_limit_s=14.0,
    steps=(
        Step(at_s=1.0, action=Name(name="a", target=Role.CONTROLLER)),
        Step(at_s=1.0, action=Name(name="b", target=Role.OTHER)),
        Step(at_s=1.0, action=Name(name="c", target=Role.OTHER)),
        # 1. c is cut off, and campaigns all the time. Its session ends: what a and b decide then, c does not have.
        Step(at_s=1.0, action=Inject(fault_id=0, fault=Partition(shape=Shape.ISOLATE, target="@c"))),
        # 2. a and b die. c is heard again, but nobody is there.
        Step(at_s=6.0, action=Inject(fault_id=1, fault=Kill(target="@a"))),
        Step(at_s=6.0, action=Inject(fault_id=2, fault=Kill(target="@b"))),
        # 3. b will come back and may not ask c for its vote, so that c is the only one that can ask.
        Step(
            at_s=6.1,
            action=Inject(fault_id=3, fault=CutLink(source="@b", destination="@c", mode=LinkMode.RESET)),
        ),
        Step(at_s=6.1, action=Heal(fault_id=0)),
        Step(at_s=6.2, action=Heal(fault_id=2)),
        # 4. b compares logs and refuses c. A b that does not compare makes c the controller, and cuts its own log back.
        Step(at_s=6.2, action=AwaitLeader(target="@c", of_metadata=True, at_most_s=4.0)),
        Step(at_s=6.3, action=Heal(fault_id=3)),
        # 5. With a there again, whoever controls is obeyed by all.
        Step(at_s=11.0, action=Heal(fault_id=1)),
    ),
)

FOLLOWER_RESTART = Schedule(
    name="follower-restart",
    time_limit_s=20.0,
    # What b stores, and a when nobody follows it any more, takes its time after each step, however late that was.
    keeps_distances=True,
    steps=(
        Step(at_s=1.0, action=Name(name="a", target=Role.LEADER)),
        Step(at_s=1.0, action=Name(name="b", target=Role.FOLLOWER)),
        Step(at_s=1.0, action=Name(name="c", target=Role.FOLLOWER)),
        # 1. c stops, and will be behind. b stands still. The answer to b's fetch comes meanwhile, with records, and
        #    waits for it; what a sends after that does not reach it.
        Step(at_s=1.5, action=Inject(fault_id=0, fault=Stop(target="@c"))),
        Step(at_s=3.0, action=Inject(fault_id=1, fault=Pause(target="@b"))),
        Step(at_s=3.4, action=Inject(fault_id=2, fault=CutLink(source="@a", destination="@b"))),
        # 2. b goes on, stores the records, and fetches behind them. So a calls them committed, and acknowledges them; b
        #    does not hear that: its high watermark is behind.
        Step(at_s=3.5, action=Heal(fault_id=1)),
        # 3. b stops gracefully. The ISR falls below the minimum, so nothing more is acknowledged, and the controller
        #    may elect b all the same: it has everything.
        Step(at_s=4.0, action=Inject(fault_id=3, fault=Stop(target="@b"))),
        # 4. b comes back. One that cuts its log at its own high watermark drops what was acknowledged, and a, which
        #    does not reach it, cannot give it back.
        Step(at_s=4.2, action=Heal(fault_id=3)),
        # 5. a dies, once it has stored how far its log is committed. b is elected, and with c it commits other records
        #    at the offsets of those that are lost.
        Step(at_s=10.0, action=Inject(fault_id=4, fault=Kill(target="@a"))),
        Step(at_s=10.1, action=Heal(fault_id=2)),
        Step(at_s=10.1, action=AwaitLeader(target="@b", at_most_s=6.0)),
        Step(at_s=10.2, action=Heal(fault_id=0)),
        # 6. a comes back, and its high watermark is beyond the place where the two logs part: it keeps its own records.
        Step(at_s=16.0, action=Heal(fault_id=4)),
    ),
)

UNCLEAN_ELECTION = Schedule(
    name="unclean-election",
    time_limit_s=28.0,
    steps=(
        Step(at_s=1.0, action=Name(name="a", target=Role.LEADER)),
        Step(at_s=1.0, action=Name(name="b", target=Role.FOLLOWER)),
        Step(at_s=1.0, action=Name(name="c", target=Role.FOLLOWER)),
        # 1. b and c cannot dial a, so they fetch nothing of it. a can dial them: the controller hears it, which is b or
        #    c now if it was not before, and no session ends.
        Step(
            at_s=2.0,
            action=Inject(fault_id=0, fault=CutLink(source="@b", destination="@a", mode=LinkMode.RESET)),
        ),
        Step(
            at_s=2.0,
            action=Inject(fault_id=1, fault=CutLink(source="@c", destination="@a", mode=LinkMode.RESET)),
        ),
        # 2. They have lagged for too long, and a proposes an ISR of itself. From then on it acknowledges alone.
        # 3. a dies. b and c are alive and not in sync: either one of them leads all the same, and what a had
        #    acknowledged alone is lost, or nobody does.
        Step(at_s=13.5, action=Inject(fault_id=2, fault=Kill(target="@a"))),
        Step(at_s=14.0, action=Heal(fault_id=0)),
        Step(at_s=14.0, action=Heal(fault_id=1)),
        # 4. a comes back: to cut its log, or to lead again with everything in it.
        Step(at_s=21.0, action=Heal(fault_id=2)),
    ),
)

LEASE_WITHOUT_TIME = Schedule(
    name="lease-without-time",
    time_limit_s=12.0,
    steps=(
        Step(at_s=1.0, action=Name(name="a", target=Role.LEADER)),
        # 1. a leads the store and has a lease. Its clock stands still, as that of a machine does that is suspended, and
        #    it works on: by its clock the lease does not end any more.
        Step(at_s=1.5, action=Inject(fault_id=0, fault=StopClock(target="@a"))),
        # 2. It is cut off from the others, and clients still reach it.
        Step(at_s=2.0, action=Inject(fault_id=1, fault=Partition(shape=Shape.ISOLATE, target="@a"))),
        # 3. Another is elected and changes what is stored. Whoever asks a by lease is answered what was stored before.
        Step(at_s=9.0, action=Heal(fault_id=1)),
        Step(at_s=9.0, action=Heal(fault_id=0)),
    ),
)

POWER_LOSS = Schedule(
    name="power-loss",
    time_limit_s=16.0,
    steps=(
        # 1. Clients append, and are told that all in-sync replicas have it. Then it goes dark everywhere at once: what
        #    no replica has flushed, nobody has.
        Step(at_s=4.0, action=Inject(fault_id=0, fault=PowerLoss(target=Role.ALL), draw=1)),
        # 2. They come back, and go on from what is on their disks. A replica that acknowledged before it flushed has
        #    lost what it had promised, and others stand at its offsets soon.
        Step(at_s=5.0, action=Heal(fault_id=0)),
        # 3. Once more, now that there is something that survived before: that must be flushed as well.
        Step(at_s=12.0, action=Inject(fault_id=1, fault=PowerLoss(target=Role.ALL), draw=2)),
        Step(at_s=13.0, action=Heal(fault_id=1)),
    ),
)

DEMO = Schedule(
    name="demo",
    time_limit_s=34.0,
    steps=(
        # 1. A leader that goes on alone: an election, and later the truncation of its uncommitted tail.
        Step(at_s=2.0, action=Inject(fault_id=0, fault=Partition(shape=Shape.ISOLATE, target=Role.LEADER))),
        Step(at_s=8.0, action=Heal(fault_id=0)),
        # 2. A leader that dies and comes back.
        Step(at_s=10.5, action=Inject(fault_id=1, fault=Kill(target=Role.LEADER))),
        Step(at_s=14.5, action=Heal(fault_id=1)),
        # 3. A controller that stands still and believes that no time has passed.
        Step(at_s=16.5, action=Inject(fault_id=2, fault=Pause(target=Role.CONTROLLER))),
        Step(at_s=20.0, action=Heal(fault_id=2)),
        # 4. A new version is rolled out.
        Step(at_s=22.0, action=Inject(fault_id=3, fault=RollingRestart())),
        Step(at_s=32.0, action=Heal(fault_id=3)),
    ),
)

DIRECTED: Mapping[str, Schedule] = MappingProxyType(
    {
        schedule.name: schedule
        for schedule in (
            ISOLATED_LEADER,
            SHORT_LOG_CANDIDATE,
            FOLLOWER_RESTART,
            UNCLEAN_ELECTION,
            LEASE_WITHOUT_TIME,
            POWER_LOSS,
            DEMO,
        )
    }
)
"""What ``--schedule`` chooses from."""

SHAPES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        FOLLOWER_RESTART.name: {
            # Five, so that a majority of voters lives while two of the three replicas are away.
            **{"nodes": 5, "topics": 1, "partitions": 1, "replication_factor": 3, "min_insync_replicas": 2},
            # Records must be on their way all the time, or the last answer that b gets may have a high watermark alone.
            **{"concurrency": 40, "rate": 800},
        },
        LEASE_WITHOUT_TIME.name: {
            # So many clients that ask so seldom that some have read only, and asked nobody else, when another leads.
            **{"concurrency": 60, "rate": 25, "keys": 2},
        },
        UNCLEAN_ELECTION.name: {
            **{"topics": 1, "partitions": 1, "replication_factor": 3, "min_insync_replicas": 1},
            # So slow that every lost record is named: of each anomaly, a hundred are.
            **{"concurrency": 5, "rate": 20},
        },
    }
)
"""What a schedule is written for, by the names of the options, where it is not the usual: topics and load."""
