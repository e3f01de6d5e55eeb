"""Replicas in one thread, for tests of the core: virtual time, a network that loses and repeats, disks that forget.

Drives the production core and nothing else of the product; every random choice comes from one seed, so a failing test
is repeated by its seed. A replica can be stopped (its messages wait in a buffer, and its clock goes on), crash, and
have a clock that is fast or slow. What is promised across replicas is for whoever builds on this to check, after every
step.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import GroupConfig, QuorumConfig, ReplicaConfig
from replica.core.group import Group
from replica.core.log.recovered import RecoveredLog
from replica.core.quorum import QuorumLog
from replica.core.reading import read_ranges
from replica.core.replica import Replica
from replica.core.rules import Rules
from replica.ids import CallId, CorrelationId, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.machines import AppliedLog
from tests.core.harness import LOG, QuorumDisk, disk_id, voters_of

BEGINNING = Offset(0)

CONFIG = QuorumConfig(
    election_timeout_ms=1000,
    election_backoff_max_ms=100,
    fetch_timeout_ms=3000,
    request_timeout_ms=3000,
    retry_backoff_ms=50,
    fetch_max_wait_ms=100,
)
"""The timing of Kafka's RaftEventSimulationTest."""


class PromiseBrokenError(AssertionError):
    """Something that the protocol promises across replicas did not hold."""


@dataclass
class Disk(QuorumDisk):
    """What one replica has written; ``flushed`` batches survive a crash, any suffix of the others may not."""

    def lose_unflushed(self, random: Random) -> None:
        kept_end = random.choice([batch.end_offset for batch in self.batches] + [self.start])
        kept_end = max(kept_end, self.flushed_end)
        self.cut(kept_end)
        self.flushed_end = kept_end

    def _holds(self, snapshot_id: SnapshotId) -> bool:
        """Whether the log has the very record with which a snapshot ends, and so all that is in it."""
        if snapshot_id.end_offset == self.start:
            return snapshot_id in self.snapshots and all(
                known == snapshot_id or known.end_offset != self.start for known in self.snapshots
            )
        below = list(self.between(Offset(snapshot_id.end_offset - 1), snapshot_id.end_offset))
        return [batch.leader_epoch for batch in below] == [snapshot_id.epoch]

    def recover(self) -> RecoveredLog:
        """Open the log. A crash within an installation leaves a snapshot that the log does not hold: it begins anew."""
        newest = max(self.snapshots, default=None)
        if newest is not None and not self._holds(newest):
            self.install(newest, self.snapshots[newest])
        self.drop_snapshots(self.start)
        return super().recover()


@dataclass
class Node:
    """One replica: its disk for ever, its core for one incarnation. ``buffer`` holds what comes while it is stopped."""

    replica_id: ReplicaId
    disks: dict[TopicPartition, Disk]
    core: Replica | None = None
    clock_percent: int = 100
    """How much its clock counts while 100 pass."""
    incarnation: int = 0
    timer_ms: int | None = None
    flush_done_ms: int = 0
    is_stopped: bool = False
    buffer: list[Callable[[], None]] = field(default_factory=list)

    @property
    def disk(self) -> Disk:
        return self.disks[LOG]

    @property
    def log(self) -> QuorumLog:
        assert self.core is not None, self.replica_id
        return self.core.logs[LOG]

    @property
    def group(self) -> Group:
        assert self.core is not None, self.replica_id
        return self.core.groups[LOG]


@dataclass
class Climate:
    """How hostile the world is."""

    loss: float = 0.0
    duplication: float = 0.0
    latency_ms: tuple[int, int] = (2, 4)
    disk_ms: tuple[int, int] = (1, 6)


class VirtualReplicas:
    """Some replicas, each with a log or several, and their network, all driven by ``run``."""

    def __init__(
        self,
        seed: int,
        *,
        voters: int,
        climate: Climate | None,
        rules: Callable[[], Rules],
        config: QuorumConfig,
        group: GroupConfig | None = None,
        names: Sequence[TopicPartition] = (LOG,),
    ) -> None:
        self.random = Random(seed)
        self.climate = climate or Climate()
        self.now_ms = 0
        self.cut: set[tuple[ReplicaId, ReplicaId]] = set()
        self.installed = 0
        """How many snapshots of others were loaded."""
        self._rules, self._config, self._group = rules, config, group or GroupConfig()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._calls: dict[CallId, tuple[ReplicaId, Callable[[m.Response], None]]] = {}
        self.voters = tuple(ReplicaId(n) for n in range(voters))
        self.nodes = {voter: Node(voter, {name: Disk() for name in names}) for voter in self.voters}
        for voter in self.voters:
            self.start(voter)

    # --- for those who build on this --------------------------------------------------------------------------------

    def _machines(self) -> dict[TopicPartition, AppliedLog]:
        """The state machines of a replica that starts, by their logs."""
        return {}

    def _stepped(self, node: Node) -> None:
        """Check what is promised, and give whom the log is replayed for its turn."""

    # --- time -------------------------------------------------------------------------------------------------------

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._sequence, action))

    def run(self, until: Callable[[], bool] = lambda: False, *, within_ms: int = 60_000) -> bool:
        """Let time pass until the condition holds; False if it does not within that time."""
        deadline_ms = self.now_ms + within_ms
        while self._queue and not until():
            if self._queue[0][0] > deadline_ms:
                return False
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
        return until()

    # --- replicas ---------------------------------------------------------------------------------------------------

    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.core is not None]

    def start(self, replica_id: ReplicaId) -> None:
        node = self.nodes[replica_id]
        node.incarnation += 1
        node.timer_ms = None
        node.core = Replica(
            config=ReplicaConfig(
                cluster_id="simulated",
                replica_id=replica_id,
                directory_id=disk_id(replica_id),
                voters=self.voters,
                initial_voters=voters_of(*self.voters),
                quorum=self._config,
                group=self._group,
            ),
            logs={name: disk.recover() for name, disk in node.disks.items()},
            random=Random(self.random.random()),
            rules=self._rules(),
            groups=self._machines(),
        )
        self.step(node, ev.Started())

    def crash(self, node: Node) -> None:
        """End it; what is not flushed may be gone, and whoever waits for it waits in vain."""
        node.core = None
        node.buffer.clear()
        node.is_stopped = False
        for disk in node.disks.values():
            disk.lose_unflushed(self.random)

    def stop(self, node: Node) -> None:
        """Let it do nothing, and know nothing of that; what comes waits in buffers."""
        node.is_stopped = True

    def resume(self, node: Node) -> None:
        """Let it go on with what is in the buffers, in order."""
        node.is_stopped = False
        waiting, node.buffer = node.buffer, []
        for action in waiting:
            action()

    def isolate(self, *group: int) -> None:
        inside = {ReplicaId(n) for n in group}
        self.cut = {(a, b) for a in self.voters for b in self.voters if (a in inside) != (b in inside)}

    def heal(self) -> None:
        self.cut = set()

    def step(self, node: Node, event: ev.Event) -> None:
        """Hand in an event now, or let it wait while the replica is stopped."""
        incarnation = node.incarnation
        if node.is_stopped:
            node.buffer.append(lambda: self.step(node, event) if node.incarnation == incarnation else None)
            return
        if node.core is None:
            return
        for effect in node.core.step(event, self.now_ms * node.clock_percent // 100):
            self._perform(node, effect)
        self._stepped(node)
        self._arm_timer(node)

    def _arm_timer(self, node: Node) -> None:
        assert node.core is not None, node.replica_id
        due_ms = node.core.deadline_ms
        if due_ms is None or node.timer_ms == due_ms:
            return
        node.timer_ms, incarnation = due_ms, node.incarnation

        def tick() -> None:
            if node.incarnation == incarnation and node.timer_ms == due_ms:
                node.timer_ms = None
                self.step(node, ev.Ticked())

        self.at(max(0, -(-due_ms * 100 // node.clock_percent) - self.now_ms), tick)

    # --- effects ----------------------------------------------------------------------------------------------------

    def _perform(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.StoreQuorumState(topic_partition=name, state=state):
                node.disks[name].quorum_state = state
            case fx.StoreEpochs():
                pass  # Recovery here always rebuilds the epochs from the batches.
            case fx.StoreVoters(topic_partition=name, entries=voters):
                node.disks[name].voters = voters
            case fx.Append(topic_partition=name, batches=batches):
                node.disks[name].append(batches)
            case fx.Truncate(topic_partition=name, end_offset=end_offset):
                node.disks[name].cut(end_offset)
            case fx.Flush(topic_partition=name, end_offset=end_offset):
                self._flush(node, name, end_offset)
            case fx.Send():
                self._send(node, effect)
            case fx.Reply(call_id=call_id, response=response):
                self._reply(node, call_id, response)
            case fx.ReplyWithRecords(call_id=call_id, response=response):
                records = read_ranges(effect, lambda name, *wanted: node.disks[name].read(*wanted))
                self._reply(node, call_id, response.with_records(records))
            case fx.ReadLog(range=wanted):
                name = wanted.topic_partition
                found = node.disks[name].read(wanted.start_offset, wanted.end_offset, wanted.max_bytes)
                read = ev.LogRead(topic_partition=name, start_offset=wanted.start_offset, records=found)
                incarnation = node.incarnation
                self._disk_time(lambda: self.step(node, read) if node.incarnation == incarnation else None)
            case fx.Halt(reason=reason):
                raise PromiseBrokenError(f"replica {node.replica_id} halted: {reason}")
            case _:
                self._perform_on_snapshots(node, effect)

    def _perform_on_snapshots(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.StoreSnapshot():
                self._store_snapshot(node, effect)
            case fx.InstallSnapshot(topic_partition=name, snapshot_id=snapshot_id, data=data):
                node.disks[name].install(snapshot_id, data)
                self.installed += 1
            case fx.RaiseLogStart(topic_partition=name, log_start_offset=log_start_offset):
                node.disks[name].begin_at(log_start_offset)
            case fx.DropSnapshots(topic_partition=name, end_offset=end_offset):
                node.disks[name].drop_snapshots(end_offset)
            case fx.ReplyWithSnapshot(topic_partition=name, call_id=call_id, response=response, position=position):
                data = node.disks[name].snapshots[effect.snapshot_id]
                self._reply(node, call_id, response.with_data(data[position : position + effect.max_bytes]))
            case _:
                raise AssertionError(f"a quorum log never asks for {effect}")

    def _disk_time(self, action: Callable[[], None]) -> None:
        self.at(self.random.randint(*self.climate.disk_ms), action)

    def _store_snapshot(self, node: Node, effect: fx.StoreSnapshot) -> None:
        """Store it after a while, long enough that an installation may come first."""
        name, incarnation, disk = effect.topic_partition, node.incarnation, node.disks[effect.topic_partition]

        def stored() -> None:
            if node.core is not None and node.incarnation == incarnation:
                data = disk.snapshots[effect.snapshot_id] = effect.state.encode()
                stored = ev.SnapshotStored(topic_partition=name, snapshot_id=effect.snapshot_id, size_bytes=len(data))
                self.step(node, stored)

        self.at(self.random.randint(1, 200), stored)

    def _flush(self, node: Node, name: TopicPartition, end_offset: Offset) -> None:
        incarnation, disk = node.incarnation, node.disks[name]

        def flushed() -> None:
            if node.core is not None and node.incarnation == incarnation:
                disk.flushed_end = max(disk.flushed_end, min(end_offset, disk.end))
                self.step(node, ev.Flushed(topic_partition=name, end_offset=end_offset))

        # Flushes of one log end in the order in which they were asked for; drivers owe the core that.
        node.flush_done_ms = max(node.flush_done_ms, self.now_ms + self.random.randint(*self.climate.disk_ms))
        self.at(node.flush_done_ms - self.now_ms, flushed)

    # --- the network ------------------------------------------------------------------------------------------------

    def _send(self, node: Node, effect: fx.Send) -> None:
        incarnation, correlation_id, receiver = node.incarnation, effect.correlation_id, effect.replica_id
        answered: set[CorrelationId] = set()

        def back(event: ev.ResponseReceived | ev.SendFailed) -> None:
            if correlation_id not in answered and node.incarnation == incarnation:
                answered.add(correlation_id)
                self.step(node, event)

        def on_reply(response: m.Response) -> None:
            assert isinstance(response, m.PeerResponse), response
            event = ev.ResponseReceived(correlation_id=correlation_id, replica_id=receiver, response=response)
            self._deliver(receiver, node.replica_id, lambda: back(event))

        def on_request() -> None:
            self._call(self.nodes[receiver], effect.request, on_reply)

        self._deliver(node.replica_id, receiver, on_request)
        failed = ev.SendFailed(correlation_id=correlation_id, replica_id=receiver)
        self.at(effect.timeout_ms, lambda: back(failed))

    def _deliver(self, source: ReplicaId, target: ReplicaId, action: Callable[[], None]) -> None:
        def arrive() -> None:
            if (source, target) not in self.cut:
                action()

        copies = 0 if self.random.random() < self.climate.loss else 1
        copies += self.random.random() < self.climate.duplication
        for _ in range(copies):
            self.at(self.random.randint(*self.climate.latency_ms), arrive)

    def _call(self, node: Node, request: m.Request, on_reply: Callable[[m.Response], None]) -> None:
        self._sequence += 1
        call_id = CallId(self._sequence)
        self._calls[call_id] = (node.replica_id, on_reply)
        self.step(node, ev.RequestReceived(call_id=call_id, request=request))

    def _reply(self, node: Node, call_id: CallId, response: m.Response) -> None:
        replica_id, on_reply = self._calls.pop(call_id)
        assert replica_id == node.replica_id, call_id
        on_reply(response)
