"""What systems that are not ours have in common: a process for each node of a host, and nothing that only ours can do.

Owns the start and the end of the processes, and the words for what is missing. A system says how a node is prepared and
started, when it serves, and who leads, as far as it can tell; and it has clients for at least one kind of workload. All
else has an answer here that claims nothing: nobody's log is shown, nobody's vote can be changed, no disk wiped.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from nemesis.cluster.closing import closed_by
from nemesis.cluster.faketime import OFFSET_NAME, faked_by, set_offset, why_no_faketime
from nemesis.cluster.host import Host, death_of
from nemesis.cluster.kinds import ClusterKind, new_host
from nemesis.cluster.replica_options import ReplicaOptions
from nemesis.cluster.store import StoreClient
from nemesis.cluster.system import Dump, LogClient, ReplicaState, Report
from nemesis.errors import NodeFailedError, UnsupportedError
from nemesis.faults.breakable import ClusterState, SystemLinks, SystemVoters
from nemesis.faults.dials import Dials
from nemesis.faults.links import CLIENTS, CONTROL
from nemesis.faults.needs import Need
from nemesis.systems.loopback import LoopbackHost
from nemesis.systems.offer import Offer

STOPPED_S_MAX = 5.0
BECAME_LEADER = "became-leader"
_POLL_S = 0.05


class ForeignVoters:
    """Voters of whom nothing is known and who cannot be changed."""

    @property
    def logs(self) -> tuple[str, ...]:
        """None."""
        return ()

    async def of(self, log: str) -> tuple[int, ...] | None:
        """Nobody is known to vote."""
        del log
        return None

    async def add(self, log: str, node: int) -> None:
        """Refuse. Raises UnsupportedError."""
        raise UnsupportedError(f"node {node} cannot be made a voter of {log}, nor no voter")

    async def remove(self, log: str, node: int) -> None:
        """Refuse. Raises UnsupportedError."""
        raise UnsupportedError(f"node {node} cannot be made a voter of {log}, nor no voter")

    async def transfer(self, log: str, node: int) -> None:
        """Refuse. Raises UnsupportedError."""
        raise UnsupportedError(f"node {node} cannot be made the leader of {log}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """Who was seen to lead a log in which epoch."""

    topic_partition: str
    node: int
    epoch: int


class ForeignSystem(ABC):
    """A ``System`` of somebody else's processes on a ``host``. ``open`` it before use, ``close`` it whatever happens.

    ``options`` are those of our own replicas, of which a system takes what it knows: how many nodes, the topics, how
    clients write and read. ``started_s_max`` bounds a node's start, and ``opened_s_max`` the time until all of them are
    of use together.
    """

    offer: ClassVar[Offer]
    """What it can be used for, and what must be installed."""
    epochs_name_leaders: ClassVar[bool] = False
    """Whether an epoch that is told with a leader is certainly that leader's: then two leaders in one are a violation.

    Else an epoch counts once, for whoever was seen first in it: a new leader may be told with its predecessor's epoch.
    """
    started_s_max = 20.0
    opened_s_max = 30.0

    def __init__(self, host: Host, options: ReplicaOptions) -> None:
        self.host = host
        self.options = options
        self._led: dict[Led, Report] = {}
        self._deaths: list[Report] = []

    @classmethod
    def on(cls, kind: ClusterKind, folder: Path, options: ReplicaOptions) -> Self:
        """Nodes on a host of that kind. Raises UnsupportedError where they would not see the programs of this machine.

        On the kind ``local`` nodes dial each other directly: what would stand between them is for our replicas only.
        """
        match kind:
            case ClusterKind.LOCAL:
                return cls(LoopbackHost(folder, options.nodes), options)
            case ClusterKind.NETNS:
                return cls(new_host(kind, folder, options.nodes), options)
            case _:
                raise UnsupportedError("its nodes are programs of this machine: use --cluster local or netns")

    # --- what each system says ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def topic_partitions(self) -> tuple[str, ...]:
        """The names of its logs, at least one: whoever leads one is who a fault on "the leader" hits."""

    @abstractmethod
    async def prepare(self, node: int) -> None:
        """Make what a node needs before its first start, and not again before later ones. Raises NodeFailedError."""

    @abstractmethod
    def command(self, node: int) -> Sequence[str]:
        """The command that starts a node, its program by its full path."""

    @abstractmethod
    async def answers(self, node: int) -> bool:
        """Whether a node serves, asked once and through links that no fault touches."""

    @abstractmethod
    async def look(self) -> ClusterState | None:
        """Who leads, asked once and through links that no fault touches; absent if nobody says."""

    async def close_looking(self) -> None:
        """Give back the connections that ``answers`` and ``look`` have taken, if they have."""
        return None

    def store(self) -> StoreClient:
        """A new client of objects, where there are any."""
        raise UnsupportedError(f"{type(self).__name__} has no objects")

    def client(self) -> LogClient:
        """A new client of logs, where there are any."""
        raise UnsupportedError(f"{type(self).__name__} has no logs to append to")

    # --- processes ----------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[int, ...]:
        """The host's."""
        return self.host.nodes

    @property
    def shows_logs(self) -> bool:
        return self.offer.shows_logs

    @property
    def links(self) -> SystemLinks:
        """The host's."""
        return self.host.links

    @property
    def voters(self) -> SystemVoters:
        """Nobody's vote can be changed."""
        return ForeignVoters()

    def lacks(self, need: Need) -> str | None:
        """What the system lacks, and what the host cannot do."""
        if need in self.offer.lacks:
            return self.offer.lacks[need]
        return why_no_faketime() if need is Need.WALL_CLOCKS else self.host.lacks(need)

    async def open(self) -> None:
        """Make the network, prepare every node and start it. Raises NodeFailedError."""
        await self.host.open()
        await asyncio.gather(*(self.prepare(node) for node in self.nodes))
        await asyncio.gather(*(self.start(node) for node in self.nodes))

    async def close(self) -> None:
        """End every node and take the network down. All was read: nobody waits for an orderly end."""
        async with closed_by(self._kill_all, self.close_looking, self.host.close):
            await self.links.heal_all()

    async def _kill_all(self) -> None:
        await asyncio.gather(*(self.kill(node) for node in self.nodes))

    async def start(self, node: int) -> None:
        """Start a node and wait until it serves. Raises NodeFailedError.

        Nobody waits while most nodes are down: many a system serves nothing then, and would not say that it is there.
        """
        if self.is_running(node):
            return
        self._note_death(node)
        await self.host.run(node, self.command(node), self.log_file(node), self._environment(node))
        try:
            async with asyncio.timeout(self.started_s_max):
                while self._is_majority_up() and not await self.answers(node):
                    self._check_alive(node)
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            await self.host.kill(node)
            where = self.log_file(node)
            raise NodeFailedError(f"node {node} does not serve after {self.started_s_max} s: see {where}") from None

    async def stop(self, node: int) -> bool:
        """Ask a node to stop, and kill it if it does not."""
        self._note_death(node)
        return await self.host.stop(node, STOPPED_S_MAX)

    async def kill(self, node: int) -> bool:
        """SIGKILL."""
        self._note_death(node)
        return await self.host.kill(node)

    async def wipe(self, node: int) -> None:
        """Refuse: who has lost its disk would have to be told to the others. Raises NodeFailedError."""
        raise NodeFailedError(f"the disk of node {node} cannot be wiped in another system")

    async def pause(self, node: int) -> bool:
        """SIGSTOP."""
        return await self.host.pause(node)

    async def resume(self, node: int) -> bool:
        """SIGCONT."""
        return await self.host.resume(node)

    def is_running(self, node: int) -> bool:
        """Whether the node's process is there."""
        return self.host.is_running(node)

    def set_clocks(self, node: int, dials: Dials) -> None:
        """Set the wall clock; timers are out of reach."""
        set_offset(self.host.folder(node) / OFFSET_NAME, dials.wall_ms)

    def _environment(self, node: int) -> Mapping[str, str]:
        if not self.options.clocks_in_hand or self.lacks(Need.WALL_CLOCKS):
            return {}
        return faked_by(self.host.inside(node) / OFFSET_NAME)

    def log_file(self, node: int) -> Path:
        """Where the node's output goes."""
        return self.host.folder(node) / "node.log"

    def _check_alive(self, node: int) -> None:
        if not self.is_running(node):
            code = self.host.exit_code(node)
            raise NodeFailedError(f"node {node} ended with {code}: see {self.log_file(node)}")

    def _is_majority_up(self) -> bool:
        return 2 * sum(self.is_running(node) and not self.host.is_paused(node) for node in self.nodes) > len(self.nodes)

    def _note_death(self, node: int) -> None:
        """Remember that a node's process was found ended and nobody here had done it."""
        death = death_of(self.host, node)
        if death is not None:
            self._deaths.append(death)

    # --- addresses ----------------------------------------------------------------------------------------------------

    def advertised(self, node: int, port: int) -> str:
        """The address under which a node is known to clients and to its peers."""
        return self.host.addresses(CLIENTS, port)[node]

    def controlled(self, node: int, port: int) -> str:
        """The address at which the harness looks at a node."""
        return self.host.addresses(CONTROL, port)[node]

    @property
    def asked(self) -> tuple[int, ...]:
        """The nodes that can be asked: asking a paused one would only take time."""
        return tuple(node for node in self.nodes if self.is_running(node) and not self.host.is_paused(node))

    # --- looking ------------------------------------------------------------------------------------------------------

    async def create_logs(self) -> None:
        """Wait until somebody leads each log and all nodes are there. Raises NodeFailedError."""
        missing = "nobody says who leads"
        try:
            async with asyncio.timeout(self.opened_s_max):
                while missing := self._missing(await self.cluster_state()):
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise NodeFailedError(f"the nodes are of no use after {self.opened_s_max} s: {missing}") from None

    def _missing(self, state: ClusterState | None) -> str:
        """What keeps the nodes from being of use."""
        if state is None:
            return "nobody says who leads"
        absent = [name for name in self.topic_partitions if name not in state.partitions]
        leaderless = [name for name, partition in state.partitions.items() if partition.leader is None]
        out = [name for name, of in state.partitions.items() if set(of.isr) != set(of.replicas)]
        return (
            f"no word of {absent}, no leader of {leaderless}, nodes behind in {out}"
            if absent + leaderless + out
            else ""
        )

    async def cluster_state(self) -> ClusterState | None:
        """Who leads now; each leader that was not seen before is reported."""
        state = await self.look()
        for name, partition in () if state is None else state.partitions.items():
            if partition.leader is not None:
                led = Led(topic_partition=name, node=partition.leader, epoch=partition.leader_epoch)
                if self.epochs_name_leaders or not self._is_led(name, partition.leader_epoch):
                    self._led.setdefault(led, _led_report(led))
        return state

    def _is_led(self, topic_partition: str, epoch: int) -> bool:
        """Whether somebody was seen to lead in that epoch."""
        return any((seen.topic_partition, seen.epoch) == (topic_partition, epoch) for seen in self._led)

    async def replica_states(self) -> tuple[ReplicaState, ...]:
        """Nothing of the nodes' logs; but whoever asks for it again and again sees to it that leaders are reported."""
        await self.cluster_state()
        return ()

    async def dumps(self, node: int) -> tuple[Dump, ...]:
        """Nobody's log is shown."""
        del node
        return ()

    def reports(self) -> Sequence[Report]:
        """Who was seen to lead, and who died."""
        return sorted((*self._led.values(), *self._deaths), key=lambda report: (report.monotonic_ns, report.node))


def _led_report(led: Led) -> Report:
    return Report(
        node=led.node,
        monotonic_ns=time.monotonic_ns(),
        event=BECAME_LEADER,
        epoch=led.epoch,
        topic_partition=led.topic_partition,
        detail="seen from outside",
    )
