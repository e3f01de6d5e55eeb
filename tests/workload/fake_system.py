"""A system under test that is lists: two logs, three nodes that agree, clients that fail on command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from nemesis.cluster.system import Appended, Dump, Polled, ReplicaState, Report
from nemesis.disks.damage import Damage, DiskPart
from nemesis.disks.hindrance import Hindrance
from nemesis.errors import NodeFailedError
from nemesis.faults.breakable import (
    ClusterState,
    HasCertificates,
    HasMemory,
    HasMoves,
    PartitionState,
    PowerLost,
    Registration,
)
from nemesis.faults.crash_points import Order
from nemesis.faults.dials import Dials
from nemesis.faults.impairments import NetworkFault
from nemesis.faults.links import Link, LinkMode
from nemesis.faults.needs import Need
from tests.workload.fake_store import FakeStore, FakeStoreClient
from tests.workload.fake_voters import FakeVoters

NAMES = ("orders-0", "orders-1")


def always(f: str, value: int) -> None:
    """Every operation succeeds."""


@dataclass
class FakeLinks:
    """Remembers what is cut and what is impaired."""

    cuts: dict[str, tuple[frozenset[Link], LinkMode]] = field(default_factory=dict)
    impaired: dict[str, tuple[frozenset[Link], NetworkFault]] = field(default_factory=dict)

    async def cut(self, key: str, links: frozenset[Link], mode: LinkMode) -> None:
        self.cuts[key] = (links, mode)

    async def impair(self, key: str, links: frozenset[Link], fault: NetworkFault, draw: int) -> None:
        self.impaired[key] = (links, fault)

    def tally(self, key: str) -> Mapping[str, int]:
        return {"bytes": 7} if key in self.impaired else {}

    async def heal(self, key: str) -> None:
        self.cuts.pop(key, None)
        self.impaired.pop(key, None)

    async def heal_all(self) -> None:
        self.cuts.clear()
        self.impaired.clear()


class FakeClient:
    """Appends to one of the system's lists at once; ``outcome`` is called first and may raise."""

    def __init__(self, system: FakeSystem) -> None:
        self._system = system
        self.is_closed = False

    async def append(self, topic_partition: str, value: int) -> Appended:
        self._system.outcome("append", value)
        log = self._system.logs[topic_partition]
        log.append(value)
        return Appended(offset=len(log) - 1, leader_epoch=1)

    async def poll(self, topic_partition: str, offset: int) -> Polled:
        self._system.outcome("poll", offset)
        log = self._system.logs[topic_partition]
        end = min(len(log), offset + self._system.poll_records_max)
        records = tuple((position, log[position]) for position in range(offset, end))
        return Polled(records=records, high_watermark=len(log), next_offset=end, node=self._system.leader)

    async def close(self) -> None:
        self.is_closed = True


class FakeDisks:
    """Disks of which is remembered what was done to them; ``ended`` are nodes that a disk has ended."""

    def __init__(self, system: FakeSystem) -> None:
        self._system = system
        self.lost: list[tuple[int, int]] = []
        self.hindered: dict[tuple[int, int], Hindrance] = {}
        self.ended: set[int] = set()
        self.damaged: dict[int, tuple[DiskPart, str, int]] = {}
        self.goes_unnoticed = False
        self.is_left_alone = False
        self.why_not_repaired: str | None = None

    async def lose_power(self, node: int, draw: int) -> PowerLost:
        self.lost.append((node, draw))
        return PowerLost(ran=await self._system.kill(node), lost=node != 1)

    def hinder(self, node: int, key: int, hindrance: Hindrance) -> None:
        self.hindered[node, key] = hindrance

    def relieve(self, node: int, key: int) -> None:
        self.hindered.pop((node, key), None)

    async def damage(self, node: int, part: DiskPart, how: str, draw: int) -> Damage | None:
        if not await self._system.kill(node):
            return None
        self.damaged[node] = (part, how, draw)
        if not self.goes_unnoticed and not self.is_left_alone:
            self._system.refuses_start.add(node)
            self.ended.add(node)
        return Damage(file="topic1-0/0.log", how=how, position=7, changed_bytes=1, size_bytes=99, was=0, now=1)

    def is_damaged(self, node: int) -> bool:
        return node in self.damaged

    async def repair(self, node: int) -> str | None:
        self.damaged.pop(node, None)
        self._system.refuses_start.discard(node)
        self.ended.discard(node)
        return self.why_not_repaired

    def replaced(self, node: int) -> None:
        self.damaged.pop(node, None)

    def last_words(self, node: int) -> str | None:
        if self.is_left_alone and node in self.damaged:
            return "/data/topic1-0/0.log at byte 7 holds a corrupt batch"
        return "it is damaged" if node in self.ended else None

    def ended_by_itself(self, node: int) -> bool:
        return node in self.ended


class FakeSystem:
    """Nodes 1 to 3; node 1 leads all and controls while it runs unpaused, else the next that does."""

    def __init__(self, outcome: Callable[[str, int], None] | None = None, objects: FakeStore | None = None) -> None:
        self.outcome = outcome or always
        self.logs: Mapping[str, list[int]] = {name: [] for name in NAMES}
        self.poll_records_max = 1000
        self.links = FakeLinks()
        self.clients: list[FakeClient] = []
        self.running = {1, 2, 3}
        self.paused: set[int] = set()
        self.refuses_start: set[int] = set()
        self.wiped = Counter[int]()
        self.out_of_sync: set[int] = set()
        self.unregistered: set[int] = set()
        """Those of whom nobody knows yet that they have another disk than their first."""
        self.is_active = True
        self.has_logs = True
        self.calls: list[tuple[str, int]] = []
        self.objects = objects or FakeStore(Random(1))
        self.voters = FakeVoters()
        self.disks = FakeDisks(self)
        self.orders: dict[int, Order] = {}
        self.standing: set[int] = set()
        self.dials: dict[int, list[Dials]] = {}

    @property
    def nodes(self) -> tuple[int, ...]:
        return (1, 2, 3)

    @property
    def topic_partitions(self) -> tuple[str, ...]:
        return NAMES

    @property
    def shows_logs(self) -> bool:
        return self.has_logs

    @property
    def leader(self) -> int:
        return min(self.running - self.paused, default=0)

    def lacks(self, need: Need) -> str | None:
        offered = {Need.MEMORY: HasMemory, Need.MOVES: HasMoves, Need.CERTIFICATES: HasCertificates}
        lacks_it = need is Need.SIMULATOR or (need in offered and not isinstance(self, offered[need]))
        return f"a fake has no {need}" if lacks_it else None

    async def start(self, node: int) -> None:
        self.calls.append(("start", node))
        if node in self.refuses_start:
            self.running.discard(node)
            raise NodeFailedError(f"replica {node} ended with 1")
        self.running.add(node)

    async def stop(self, node: int) -> bool:
        self.calls.append(("stop", node))
        was_there = node in self.running
        self.running.discard(node)
        self.paused.discard(node)
        return was_there

    async def kill(self, node: int) -> bool:
        self.calls.append(("kill", node))
        was_there = node in self.running
        self.running.discard(node)
        self.paused.discard(node)
        return was_there

    async def wipe(self, node: int) -> None:
        self.calls.append(("wipe", node))
        if node in self.running:
            raise NodeFailedError(f"replica {node} runs")
        self.wiped[node] += 1
        self.voters.replaced(node)

    async def pause(self, node: int) -> bool:
        if node not in self.running or node in self.paused:
            return False
        self.paused.add(node)
        return True

    async def resume(self, node: int) -> bool:
        was_paused = node in self.paused
        self.paused.discard(node)
        return was_paused

    def order(self, node: int, order: Order) -> None:
        self.orders[node] = order

    def take_back(self, node: int) -> None:
        self.orders.pop(node, None)

    def stands_still(self, node: int) -> bool:
        return node in self.standing

    def set_clocks(self, node: int, dials: Dials) -> None:
        self.dials.setdefault(node, []).append(dials)

    def is_running(self, node: int) -> bool:
        return node in self.running

    def client(self) -> FakeClient:
        self.clients.append(FakeClient(self))
        return self.clients[-1]

    def store(self) -> FakeStoreClient:
        return self.objects.client()

    @property
    def answering(self) -> tuple[int, ...]:
        return tuple(sorted(self.running - self.paused))

    async def create_logs(self) -> None:
        pass

    async def cluster_state(self) -> ClusterState | None:
        if not self.answering:
            return None
        isr = tuple(node for node in self.answering if node not in self.out_of_sync)
        partition = PartitionState(replicas=self.nodes, isr=isr, leader=self.leader, leader_epoch=1)
        return ClusterState(
            controller=self.leader,
            active=frozenset(self.answering if self.is_active else ()),
            partitions=dict.fromkeys(NAMES, partition),
            registrations={
                node: Registration(number=number, disk=f"{node}.{number}")
                for node in self.nodes
                for number in [0 if node in self.unregistered else self.wiped[node]]
            },
        )

    async def replica_states(self) -> tuple[ReplicaState, ...]:
        return tuple(
            ReplicaState(
                node=node,
                topic_partition=name,
                role="leader" if node == self.leader else "follower",
                epoch=1,
                leader_id=self.leader,
                high_watermark=len(log),
                log_end_offset=len(log),
            )
            for name, log in self.logs.items()
            for node in self.answering
        )

    async def dumps(self, node: int) -> tuple[Dump, ...]:
        if node not in self.running:
            raise NodeFailedError(f"the logs of replica {node} cannot be read")
        return tuple(
            Dump(
                node=node,
                topic_partition=name,
                batches=(),
                high_watermark=None,
                log_start_offset=0,
                log_end_offset=0,
                complete=True,
            )
            for name in NAMES
        )

    def reports(self) -> Sequence[Report]:
        return ()
