"""A cluster in one thread: machines, their network, virtual time, and whoever watches.

Owns the machines and the way of messages between them and to clients. It performs faults when told and decides nothing:
what happens when is the schedule's and the climate's business, what it means is the observers'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from nemesis.faults.links import CLIENTS
from nemesis.simulator.climate import QUICK_LANE_MS, Climate
from nemesis.simulator.disk import CLUSTER_ID, NodeDisk, directory_id_for
from nemesis.simulator.network import Network
from nemesis.simulator.node import Crash, Node, Step
from nemesis.simulator.queue import US_PER_MS, Action, EventQueue, NodeClock
from nemesis.simulator.record import Record
from nemesis.simulator.violations import BrokenInvariantError
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.config import BrokerConfig, BrokerIdentity, GroupConfig, MetadataConfig, QuorumConfig, ReplicaConfig
from replica.core.lanes import Lane
from replica.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PeerResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from replica.core.metadata.levels import FIRST_LEVEL, NEWEST_LEVEL
from replica.core.metadata.replay import METADATA_LOG
from replica.core.replica import Replica
from replica.core.rules import Rules
from replica.ids import CorrelationId, ReplicaId, TopicPartition
from replica.storage import CorruptCheckpointError, CorruptLogError, LogTable, StorageError
from replica.voters import ReplicaKey, Voter, VoterSet

LOG = TopicPartition("log", 0)
LOG_DIRS = 2
"""How many log directories a machine has in a world that loses such."""
REFUSED_START_MS = 1000
"""How long a supervisor waits at least when the storage would not open."""
PERIL_WEIGHT = 10
"""How much likelier a process dies in a step of an election, or where a log gives way to a snapshot."""
PUTS_BACK = 0.3
"""How many machines that have lost a disk before get an earlier one back the next time."""

CONTROLLER_SHARE = 0.4
"""How often "the leader" of a cluster is the controller, and not whoever leads one of the partitions."""


class Observer:
    """Whoever watches a world. Each call comes after the fact; what a watcher does not care for, it leaves as it is."""

    def on_begin(self, world: World, record: Record) -> None:
        """The world is made, and nothing has happened in it; ``record`` is where its history will be."""

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """A process has opened its logs, cut so much of a torn tail, and is about to start."""

    def on_step(self, node: Node, step: Step) -> None:
        """A step was taken."""

    def on_down(self, node: Node, crash: Crash) -> None:
        """A process has ended."""

    def on_disk_changed(self, node: Node) -> None:
        """A machine has another disk than the last of ``node.lost``, an empty or earlier one; no process runs on it."""

    def on_refused_start(self, node: Node, error: StorageError) -> None:
        """A process could not open its storage."""


class World:
    """``climate.voters`` machines with ids from 1, then those without a vote. All dice are thrown from ``seed``."""

    def __init__(
        self,
        *,
        seed: int | str,
        climate: Climate,
        rules: Callable[[], Rules] = Rules,
        logs: Sequence[TopicPartition] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.queue = EventQueue()
        self.climate = climate
        self.logs = tuple(logs if logs is not None else _logs_of(climate))
        self.observers = list(observers)
        self.network = Network(self.queue, climate, f"{seed}")
        self._seed = seed
        self._rules = rules
        self._late_hearers: dict[int, tuple[frozenset[ReplicaId], int]] = {}
        self._held_down: dict[ReplicaId, set[int]] = {}
        without_vote = 0 if climate.cluster is None else climate.cluster.observers
        replica_ids = tuple(ReplicaId(number) for number in range(1, climate.voters + without_vote + 1))
        self.voters = replica_ids[: climate.voters]
        """Those that can have a vote."""
        self.newest_levels = dict.fromkeys(replica_ids, NEWEST_LEVEL)
        """The newest feature level that the release on each machine knows."""
        self.nodes = {replica_id: self._new_node(replica_id) for replica_id in replica_ids}
        self._quorum = QuorumConfig(
            election_timeout_ms=climate.election_timeout_ms,
            election_backoff_max_ms=climate.election_timeout_ms,
            fetch_timeout_ms=climate.fetch_timeout_ms,
            request_timeout_ms=climate.fetch_timeout_ms,
            fetch_max_wait_ms=climate.fetch_max_wait_ms,
            fetch_max_bytes=climate.fetch_max_bytes,
        )
        self._broker = BrokerConfig()
        if climate.cluster is not None:
            self._broker = climate.cluster.broker_config

    def _new_node(self, replica_id: ReplicaId) -> Node:
        dice = Random(f"{self._seed} node {replica_id}")
        drift_ppm = self.climate.drift_ppm
        clock = NodeClock(offset_ms=dice.randrange(1_000_000), drift_ppm=dice.randint(-drift_ppm, drift_ppm))
        initial_voters = initial_voters_of(self.base_voters, replica_id)
        disk = NodeDisk(
            replica_id, self.logs, dice, self._rules(), initial_voters=initial_voters, log_dirs=self.log_dirs
        )
        if self.climate.lying:
            disk.lie(lambda: dice.random() < self.climate.lying)
        return Node(replica_id, self, disk, clock, dice)

    @property
    def log_dirs(self) -> int:
        """How many log directories each machine has: with none, all is on one disk."""
        cluster = self.climate.cluster
        return LOG_DIRS if cluster is not None and cluster.directory_losses else 0

    @property
    def base_voters(self) -> VoterSet:
        """The voters of every quorum log at first."""
        return base_voters(self.climate)

    @property
    def quorum_log(self) -> TopicPartition:
        """The log of a quorum that the world has, or the first: that of its clients, or of the cluster's metadata."""
        return self.logs[0]

    @property
    def used_logs(self) -> tuple[TopicPartition, ...]:
        """What clients append to and read: the one log, or all partitions of all topics."""
        cluster = self.climate.cluster
        return self.logs if cluster is None else cluster.topic_partitions

    @property
    def now_us(self) -> int:
        """The world's time, in microseconds since it began."""
        return self.queue.now_us

    @property
    def now_ms(self) -> int:
        """The world's time, in whole milliseconds since it began."""
        return self.queue.now_us // US_PER_MS

    def up(self) -> list[Node]:
        """The machines with a process on them."""
        return [node for node in self.nodes.values() if node.is_up]

    def leader(self, dice: Random) -> ReplicaId | None:
        """Who leads the quorum; in a cluster, that or the leader of any partition. Nobody, while there is none."""
        cores = [(node.replica_id, node.core) for node in self.up() if node.core is not None]
        name = self.quorum_log if len(self.logs) == 1 else dice.choice(self.logs)
        leading = [(log.leader_epoch, replica_id) for replica_id, core in cores if (log := core.logs[name]).is_leader]
        leader = max(leading)[1] if leading else None
        if self.climate.cluster is None or dice.random() < CONTROLLER_SHARE:
            return leader
        partitions = [
            replica_id
            for replica_id, core in cores
            if core.broker is not None
            for partition in core.broker.partitions.values()
            if partition.is_leader
        ]
        return dice.choice(partitions) if partitions else leader

    def start_all(self) -> None:
        """Begin, in the order of ids."""
        for node in self.nodes.values():
            self._start(node)

    # --- holding machines down --------------------------------------------------------------------------------------

    def hold_down(self, replica_id: ReplicaId, key: int) -> None:
        """Let nobody start this machine until it is released under the same key."""
        self._held_down.setdefault(replica_id, set()).add(key)

    def release(self, replica_id: ReplicaId, key: int) -> None:
        """Take a hold back; with the last one gone, the process starts."""
        self._held_down.get(replica_id, set()).discard(key)
        self._start(self.nodes[replica_id])

    def _start(self, node: Node) -> None:
        if not node.is_up and not node.is_retired and not self._held_down.get(node.replica_id):
            node.start()

    def _supervise(self, node: Node, *, at_least_ms: int = 0) -> None:
        delay_ms = max(at_least_ms, node.dice.randint(*self.climate.restart_ms))
        self.queue.after(delay_ms * US_PER_MS, lambda: self._start(node))

    def replace_disk(self, node: Node, dice: Random) -> None:
        """Let a machine lose its disk, and have an empty one, or at times one that it had before, as it was then."""
        is_earlier = bool(node.lost) and dice.random() < PUTS_BACK
        self.change_disk(node, dice.choice(list(node.lost)) if is_earlier else None)

    def change_disk(self, node: Node, earlier: ReplicaKey | None = None) -> None:
        """Let a machine lose its disk, and have an empty one, or an earlier one: it is somebody else from then on."""
        node.change_disk(earlier)
        for observer in self.observers:
            observer.on_disk_changed(node)

    # --- messages ---------------------------------------------------------------------------------------------------

    def send(self, node: Node, effect: fx.Send) -> None:
        """Carry a request to a peer and its answer back; exactly one of answer and failure reaches the sender."""
        source, target, correlation_id = node.replica_id, effect.replica_id, effect.correlation_id
        incarnation = node.incarnation
        outstanding: set[CorrelationId] = {correlation_id}

        def back(event: ev.ResponseReceived | ev.SendFailed) -> None:
            if correlation_id in outstanding and node.incarnation == incarnation:
                outstanding.discard(correlation_id)
                node.submit(event)

        failed = ev.SendFailed(correlation_id=correlation_id, replica_id=target)

        def answer(response: Response) -> None:
            assert isinstance(response, PeerResponse), response
            event = ev.ResponseReceived(correlation_id=correlation_id, replica_id=target, response=response)
            if self.climate.cluster is not None and _fetches_metadata(effect.request):
                self.network.deliver(target, source, lambda: self._hear(source, lambda: back(event)))
            else:
                self.network.deliver(target, source, lambda: back(event))

        def arrive() -> None:
            peer = self.nodes[target]
            if peer.is_up:
                peer.call(effect.request, answer)
            elif self.climate.refuses:
                self.network.deliver(target, source, lambda: back(failed))

        self.network.deliver(source, target, arrive)
        self.queue.after(effect.timeout_ms * US_PER_MS, lambda: back(failed))

    def hear_late(self, key: int, replica_ids: Iterable[ReplicaId], delay_ms: int) -> None:
        """Hold up what arrives there of the metadata log, each answer for so long, until ``hear_in_time(key)``."""
        self._late_hearers[key] = (frozenset(replica_ids), delay_ms)

    def hear_in_time(self, key: int) -> None:
        """Take back what was done under ``key``; what is held up comes when it is due."""
        self._late_hearers.pop(key, None)

    def _hear(self, replica_id: ReplicaId, action: Action) -> None:
        delay_ms = max((delay_ms for late, delay_ms in self._late_hearers.values() if replica_id in late), default=0)
        if delay_ms:
            self.queue.after(delay_ms * US_PER_MS, action)
        else:
            action()

    def ask(
        self,
        target: ReplicaId,
        request: Request,
        on_reply: Callable[[Response | None], None],
        *,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Let a client ask a node; ``on_reply`` gets the answer, or None at once from a machine without a process.

        A lost message gets no answer at all: waiting is the client's business. A request that is not wanted any more
        when it comes, does not come.
        """

        def answer(response: Response | None) -> None:
            self.network.deliver(target, CLIENTS, lambda: on_reply(response))

        def arrive() -> None:
            node = self.nodes[target]
            if not is_wanted():
                return
            if node.is_up:
                node.call(request, answer)
            elif self.climate.refuses:
                answer(None)

        self.network.deliver(CLIENTS, target, arrive)

    # --- what nodes need (Surroundings) -----------------------------------------------------------------------------

    def new_core(self, node: Node, opened: LogTable) -> Replica:
        """A core on what was recovered, with dice of its own for each incarnation."""
        cluster, group = self.climate.cluster, self.climate.group
        return Replica(
            config=ReplicaConfig(
                cluster_id=CLUSTER_ID,
                replica_id=node.replica_id,
                directory_id=opened.directory.directory_id,
                # Who puts in an empty disk names all machines: those that had a vote at first may have none any more.
                voters=tuple(self.nodes) if node.disk.is_replaced else self.voters,
                initial_voters=opened.directory.initial_voters,
                quorum=self._quorum,
                metadata=MetadataConfig() if cluster is None else cluster.metadata_config,
                group=GroupConfig() if group is None else group.config,
                identity=self._identity(node, opened),
                broker=self._broker,
                controller=None if cluster is None else cluster.controller_config,
                initial_level=FIRST_LEVEL if cluster is None else cluster.initial_level,
                newest_level=self.newest_levels[node.replica_id],
            ),
            logs=opened.recovered,
            random=Random(f"{self._seed} core {node.replica_id} {node.incarnation}"),
            rules=self._rules(),
            groups={} if group is None else group.new_machines(),
        )

    def _identity(self, node: Node, opened: LogTable) -> BrokerIdentity | None:
        if self.climate.cluster is None:
            return None
        return BrokerIdentity(
            incarnation_id=f"{node.replica_id}.{node.incarnation}",
            address=f"replica-{node.replica_id}:9092",
            previous_broker_epoch=opened.directory.clean_broker_epoch,
        )

    def crash_point(self, node: Node, event: ev.Event, effects: int) -> int | None:
        """Throw the dice for a death between two effects, or before a file operation of this step.

        Elections and snapshots are few among the steps and have most to lose: there death is likelier.
        """
        climate = self.climate
        if not effects or not (climate.power_in_step or climate.crash_in_step):
            return None
        weight = PERIL_WEIGHT if _is_of_an_election(event) or _is_of_a_snapshot(event) else 1
        if node.dice.random() < climate.power_in_step * weight:
            node.disk.endanger(6)
        if node.dice.random() < climate.crash_in_step * weight:
            return node.dice.randrange(effects + 1)
        return None

    def flush_us(self, node: Node) -> int:
        """Draw how long a flush takes."""
        low_ms, high_ms = self.climate.flush_ms
        return int((low_ms + (high_ms - low_ms) * node.dice.random()) * US_PER_MS * node.disk.slow_factor)

    def lane_us(self, node: Node, lanes: frozenset[Lane]) -> int:
        """Draw how long an effect waits for the disk. Some lanes are slow, as long as the process lives."""
        climate = self.climate
        if not climate.slow_lanes:
            return 0
        low_ms, high_ms = QUICK_LANE_MS
        for lane in sorted(lanes, key=str):
            if node.slow_lanes.setdefault(lane, node.dice.random() < climate.slow_lanes):
                low_ms, high_ms = climate.slow_lane_ms
        return int((low_ms + (high_ms - low_ms) * node.dice.random()) * US_PER_MS * node.disk.slow_factor)

    def report_us(self, node: Node) -> int:
        """Draw how long a read takes of the log of a state machine; other reads take no time."""
        group = self.climate.group
        if group is None or not group.read_ms:
            return 0
        return int(group.read_ms * node.dice.random() * US_PER_MS)

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """Tell the observers."""
        for observer in self.observers:
            observer.on_boot(node, torn_bytes)

    def on_step(self, node: Node, step: Step) -> None:
        """Tell the observers."""
        for observer in self.observers:
            observer.on_step(node, step)

    def on_down(self, node: Node, crash: Crash) -> None:
        """Tell the observers, and have the process started again some time, unless somebody holds it down."""
        for observer in self.observers:
            observer.on_down(node, crash)
        self._supervise(node)

    def on_refused_start(self, node: Node, error: StorageError) -> None:
        """Tell the observers, and try again some time. Data that was flushed and is gone without damage convicts."""
        for observer in self.observers:
            observer.on_refused_start(node, error)
        if isinstance(error, _LOST) and self.climate.lying:
            node.is_retired = True
        elif isinstance(error, _LOST) and not node.is_retired:
            raise BrokenInvariantError("flushed-data-lost", f"replica {node.replica_id}: {error}")
        else:
            node.losses.check_provoked(str(error))
        self._supervise(node, at_least_ms=REFUSED_START_MS)


def voter_of(replica_id: ReplicaId, directory_id: str) -> Voter:
    """A machine, on a disk, as a voter."""
    return Voter(replica_id=replica_id, directory_id=directory_id, address=f"replica-{replica_id}:9092")


def base_voters(climate: Climate) -> VoterSet:
    """The voters of every log at first: all that can have a vote, but where some are to join later."""
    group, count = climate.group, climate.voters
    if group is not None and group.changing_voters:
        count = max(1, min(group.initial_voters, count))
    return first_voters(ReplicaId(number) for number in range(1, count + 1))


def first_voters(replica_ids: Iterable[ReplicaId]) -> VoterSet:
    """These machines, each on its first disk, as voters."""
    return VoterSet.of(voter_of(replica_id, directory_id_for(replica_id)) for replica_id in replica_ids)


def initial_voters_of(base: VoterSet, replica_id: ReplicaId) -> VoterSet:
    """The voters that a machine's disk is formatted with: none where it has no vote at first."""
    return base if base.find(replica_id) is not None else VoterSet(())


def _logs_of(climate: Climate) -> tuple[TopicPartition, ...]:
    """The logs that are kept by a quorum."""
    if climate.group is not None:
        return climate.group.logs
    return (LOG,) if climate.cluster is None else (METADATA_LOG,)


def _fetches_metadata(request: Request) -> bool:
    match request:
        case FetchRequest(partitions=partitions):
            return any(part.topic_partition == METADATA_LOG for part in partitions)
        case FetchSnapshotRequest(topic_partition=log):
            return log == METADATA_LOG
        case _:
            return False


def _is_of_an_election(event: ev.Event) -> bool:
    match event:
        case ev.RequestReceived(request=VoteRequest() | BeginQuorumEpochRequest() | EndQuorumEpochRequest()):
            return True
        case ev.ResponseReceived(response=VoteResponse()):
            return True
        case _:
            return False


def _is_of_a_snapshot(event: ev.Event) -> bool:
    match event:
        case ev.SnapshotStored() | ev.ResponseReceived(response=FetchSnapshotResponse()):
            return True
        case _:
            return False


_LOST = (CorruptLogError, CorruptCheckpointError)
