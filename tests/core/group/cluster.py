"""A whole group of replicas in one thread: virtual time, a network that loses and repeats, disks that forget.

Drives the production core and nothing else of the product; every random choice comes from one seed. A replica hosts one
group or several, each with a log of its own; its clock may be fast or slow. It can be stopped (its messages wait in
buffers, and its clock goes on) and crashed after any prefix of an effect list. After every step the promise of state
machines is checked: who has applied equally much has the same state.
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
from replica.core.log.recovered import RecoveredLog, StoredSnapshot
from replica.core.quorum import QuorumLog
from replica.core.reading import read_ranges
from replica.core.replica import Replica
from replica.core.rules import Rules
from replica.ids import CallId, CorrelationId, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.machines import AppliedLog
from replica.records import RecordBatch
from replica.voters import VoterEntry
from tests.core.group.bench import counting
from tests.core.harness import LOG, disk_id, epochs_of, voters_of

BEGINNING = Offset(0)
CONFIG = QuorumConfig(
    election_timeout_ms=1000,
    election_backoff_max_ms=100,
    fetch_timeout_ms=3000,
    request_timeout_ms=3000,
    retry_backoff_ms=50,
    fetch_max_wait_ms=100,
)
GROUP = GroupConfig(snapshot_max_record_bytes_between=2000, tick_interval_ms=200, read_max_bytes=400)


class StatesDifferError(AssertionError):
    """Two replicas have applied equally much, and have different states."""


@dataclass
class Disk:
    """What one replica has written; what is not flushed a crash may take away."""

    start: Offset = BEGINNING
    batches: list[RecordBatch] = field(default_factory=list)
    flushed_end: Offset = BEGINNING
    quorum_state: fx.QuorumState | None = None
    snapshots: dict[SnapshotId, bytes] = field(default_factory=dict)
    voters: tuple[VoterEntry, ...] = ()

    @property
    def end(self) -> Offset:
        return self.batches[-1].end_offset if self.batches else self.start

    def cut(self, end_offset: Offset) -> None:
        self.batches = [batch for batch in self.batches if batch.end_offset <= end_offset]
        self.flushed_end = min(self.flushed_end, end_offset)

    def lose_unflushed(self, random: Random) -> None:
        ends = [batch.end_offset for batch in self.batches if batch.end_offset > self.flushed_end]
        self.cut(random.choice([*ends, max(self.flushed_end, self.start)]))
        self.flushed_end = self.end

    def read(self, start: Offset, end: Offset, max_bytes: int) -> bytes:
        data = b""
        for batch in self.batches:
            if start <= batch.last_offset and batch.end_offset <= end:
                if data and len(data) + batch.size_bytes > max_bytes:
                    break
                data += batch.data
        return data

    def recover(self) -> RecoveredLog:
        newest = max(self.snapshots, default=None)
        self.batches = [batch for batch in self.batches if batch.end_offset > self.start]
        self.voters = tuple(entry for entry in self.voters if entry.offset < self.end)
        return RecoveredLog(
            log_start_offset=self.start,
            log_end_offset=self.end,
            epochs=epochs_of(self.batches),
            quorum_state=self.quorum_state,
            snapshots=tuple(StoredSnapshot(id=id, size_bytes=len(self.snapshots[id])) for id in sorted(self.snapshots)),
            snapshot=b"" if newest is None else self.snapshots[newest],
            voters=self.voters,
        )


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
class Call:
    """One request of a client; ``response`` is absent until it is answered."""

    replica_id: ReplicaId
    asked_ms: int
    response: m.Response | None = None
    is_lost: bool = False


@dataclass
class Climate:
    """How hostile the world is."""

    loss: float = 0.0
    duplication: float = 0.0
    crash_in_step: float = 0.0
    latency_ms: tuple[int, int] = (2, 4)
    disk_ms: tuple[int, int] = (1, 6)


class GroupCluster:
    """Some replicas with one group, and their network."""

    def __init__(
        self,
        seed: int = 0,
        *,
        voters: int = 3,
        climate: Climate | None = None,
        rules: Callable[[], Rules] = Rules,
        group: GroupConfig = GROUP,
        machine: Callable[[], AppliedLog] = counting,
        config: QuorumConfig = CONFIG,
        names: Sequence[TopicPartition] = (LOG,),
    ) -> None:
        self.random = Random(seed)
        self.climate = climate or Climate()
        self.now_ms = 0
        self.cut: set[tuple[ReplicaId, ReplicaId]] = set()
        self.digests: dict[tuple[TopicPartition, Offset], str] = {}
        self.installed = 0
        """How many snapshots of others were loaded."""
        self._rules, self._group, self._machine, self._config = rules, group, machine, config
        self.names = names
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._replies: dict[CallId, Callable[[m.Response], None]] = {}
        self._open: list[Call] = []
        self.voters = tuple(ReplicaId(n) for n in range(voters))
        self.nodes = {voter: Node(voter, {name: Disk() for name in names}) for voter in self.voters}
        for voter in self.voters:
            self.start(voter)

    # --- time -------------------------------------------------------------------------------------------------------

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._sequence, action))

    def run(self, until: Callable[[], bool] = lambda: False, *, within_ms: int = 60_000) -> bool:
        """Let time pass until the condition holds; False if it does not within that time."""
        deadline_ms = self.now_ms + within_ms
        while not until():
            if not self._queue or self._queue[0][0] > deadline_ms:
                self.now_ms = deadline_ms
                return False
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
        return True

    # --- replicas ---------------------------------------------------------------------------------------------------

    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.core is not None]

    def leader(self) -> Node | None:
        """The replica whose machine leads the latest epoch."""
        leaders = [node for node in self.running() if node.group.machine_leads]
        return max(leaders, key=lambda node: node.log.leader_epoch, default=None)

    def wait_leader(self, *, other_than: Node | None = None) -> Node:
        def found() -> bool:
            return (leader := self.leader()) is not None and leader is not other_than

        assert self.run(found), "nobody leads"
        leader = self.leader()
        assert leader is not None
        return leader

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
            groups={name: self._machine() for name in self.names},
        )
        self.step(node, ev.Started())

    def crash(self, node: Node) -> None:
        """End it; what is not flushed may be gone, and whoever waits for it waits in vain."""
        node.core = None
        node.buffer.clear()
        node.is_stopped = False
        for disk in node.disks.values():
            disk.lose_unflushed(self.random)
        for call in self._open:
            call.is_lost |= call.replica_id == node.replica_id

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
        effects = node.core.step(event, self.now_ms * node.clock_percent // 100)
        if effects and self.random.random() < self.climate.crash_in_step:
            for effect in effects[: self.random.randrange(len(effects) + 1)]:
                self._perform(node, effect)
            self.crash(node)
            self.at(self.random.randrange(50, 3000), lambda: self._restart(node))
            return
        for effect in effects:
            self._perform(node, effect)
        self._check_states(node)
        self._arm_timer(node)

    def _restart(self, node: Node) -> None:
        if node.core is None:
            self.start(node.replica_id)

    def _check_states(self, node: Node) -> None:
        assert node.core is not None, node.replica_id
        for name, group in node.core.groups.items():
            offset, digest = group.applied_offset, group.digest()
            if self.digests.setdefault((name, offset), digest) != digest:
                raise StatesDifferError(f"{name}: at offset {offset} replica {node.replica_id} has another state")

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
            case fx.StoreVoters(topic_partition=name, entries=voters):
                node.disks[name].voters = voters
            case fx.Append(topic_partition=name, batches=batches):
                for batch in batches:
                    assert batch.base_offset == node.disks[name].end, (batch, node.disks[name].end)
                    node.disks[name].batches.append(batch)
            case fx.Truncate(topic_partition=name, end_offset=end_offset):
                node.disks[name].cut(end_offset)
            case fx.Flush(topic_partition=name, end_offset=end_offset):
                self._flush(node, name, end_offset)
            case fx.Send():
                self._send(node, effect)
            case fx.Reply(call_id=call_id, response=response):
                self._replies.pop(call_id)(response)
            case fx.ReplyWithRecords(call_id=call_id, response=response):
                records = read_ranges(effect, lambda name, *wanted: node.disks[name].read(*wanted))
                self._replies.pop(call_id)(response.with_records(records))
            case fx.ReadLog(range=wanted):
                name = wanted.topic_partition
                found = node.disks[name].read(wanted.start_offset, wanted.end_offset, wanted.max_bytes)
                read = ev.LogRead(topic_partition=name, start_offset=wanted.start_offset, records=found)
                self._later(node, read)
            case fx.Halt(reason=reason):
                raise AssertionError(f"replica {node.replica_id} halted: {reason}")
            case _:
                self._perform_on_snapshots(node, effect)

    def _perform_on_snapshots(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.StoreSnapshot():
                self._store(node, effect)
            case fx.InstallSnapshot(topic_partition=name, snapshot_id=snapshot_id, data=data):
                disk = node.disks[name]
                disk.snapshots, disk.batches = {snapshot_id: data}, []
                disk.start = disk.flushed_end = snapshot_id.end_offset
                self.installed += 1
            case fx.RaiseLogStart(topic_partition=name, log_start_offset=log_start_offset):
                disk = node.disks[name]
                disk.start = log_start_offset
                disk.batches = [batch for batch in disk.batches if batch.end_offset > log_start_offset]
            case fx.DropSnapshots(topic_partition=name, end_offset=end_offset):
                disk = node.disks[name]
                disk.snapshots = {id: data for id, data in disk.snapshots.items() if id.end_offset >= end_offset}
            case fx.ReplyWithSnapshot(call_id=call_id, response=response):
                whole = node.disks[effect.topic_partition].snapshots[effect.snapshot_id]
                data = whole[effect.position :][: effect.max_bytes]
                self._replies.pop(call_id)(response.with_data(data))
            case _:
                assert isinstance(effect, fx.StoreEpochs), effect  # Recovery here rebuilds them from the batches.

    def _later(self, node: Node, event: ev.Event) -> None:
        incarnation = node.incarnation
        self.at(
            self.random.randint(*self.climate.disk_ms),
            lambda: self.step(node, event) if node.incarnation == incarnation else None,
        )

    def _store(self, node: Node, effect: fx.StoreSnapshot) -> None:
        name, snapshot_id = effect.topic_partition, effect.snapshot_id
        incarnation, disk = node.incarnation, node.disks[name]

        def stored() -> None:
            if node.core is not None and node.incarnation == incarnation and snapshot_id.end_offset <= disk.end:
                data = disk.snapshots[snapshot_id] = effect.state.encode()
                stored = ev.SnapshotStored(topic_partition=name, snapshot_id=snapshot_id, size_bytes=len(data))
                self.step(node, stored)

        self.at(self.random.randint(*self.climate.disk_ms), stored)

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

        self._deliver(node.replica_id, receiver, lambda: self._put(self.nodes[receiver], effect.request, on_reply))
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

    def _put(self, node: Node, request: m.Request, on_reply: Callable[[m.Response], None]) -> None:
        self._sequence += 1
        call_id = CallId(self._sequence)
        self._replies[call_id] = on_reply
        self.step(node, ev.RequestReceived(call_id=call_id, request=request))

    # --- clients ----------------------------------------------------------------------------------------------------

    def ask(self, node: Node, request: m.Request) -> Call:
        """Put a client's request to a replica, now."""
        call = Call(node.replica_id, self.now_ms, is_lost=node.core is None)
        self._open = [other for other in self._open if other.response is None and not other.is_lost]
        self._open.append(call)

        def answered(response: m.Response) -> None:
            call.response = response

        self._put(node, request, answered)
        return call

    def answer(self, node: Node, request: m.Request, *, within_ms: int = 20_000) -> m.Response:
        """Put a request, and wait for its answer."""
        call = self.ask(node, request)
        assert self.run(lambda: call.response is not None, within_ms=within_ms), request
        assert call.response is not None
        return call.response
