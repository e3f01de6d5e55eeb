"""A whole quorum in one thread, for tests of the core: virtual time, a lossy network, disks that forget.

Drives the production core and nothing else of the product. Every random choice comes from one seed, so a failing test
is repeated by its seed. After every step the cluster-wide promises are checked (``Promises``); what concerns one
replica alone, the core checks itself.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import QuorumConfig, ReplicaConfig
from replica.core.log.recovered import RecoveredLog, StoredSnapshot
from replica.core.quorum import QuorumLog
from replica.core.reading import read_ranges
from replica.core.replica import Replica
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import CallId, CorrelationId, EpochEntry, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.records import RecordBatch, encode_batch
from replica.voters import VoterEntry
from tests.core.harness import disk_id, voters_of

LOG = TopicPartition("log", 0)
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
class Disk:
    """What one replica has written; ``flushed`` batches survive a crash, any suffix of the others may not."""

    batches: list[RecordBatch] = field(default_factory=list)
    flushed_end: Offset = BEGINNING
    quorum_state: fx.QuorumState | None = None
    start: Offset = BEGINNING
    snapshots: dict[SnapshotId, bytes] = field(default_factory=dict)
    voters: tuple[VoterEntry, ...] = ()

    @property
    def end(self) -> Offset:
        return self.batches[-1].end_offset if self.batches else self.start

    def truncate(self, end_offset: Offset) -> None:
        self.batches = [batch for batch in self.batches if batch.end_offset <= end_offset]
        assert self.end == end_offset, (self.end, end_offset)
        self.flushed_end = min(self.flushed_end, end_offset)

    def lose_unflushed(self, random: Random) -> None:
        kept_end = random.choice([batch.end_offset for batch in self.batches] + [self.start])
        kept_end = max(kept_end, self.flushed_end)
        self.truncate(kept_end)
        self.flushed_end = kept_end

    def between(self, start: Offset, end: Offset) -> Iterator[RecordBatch]:
        """Walk the batches that lie in ``[start, end)``, beginning with the one that holds ``start``."""
        for index in range(bisect_left(self.batches, start, key=lambda batch: batch.last_offset), len(self.batches)):
            if self.batches[index].end_offset > end:
                return
            yield self.batches[index]

    def read(self, start: Offset, end: Offset, max_bytes: int) -> bytes:
        data = b""
        for batch in self.between(start, end):
            if data and len(data) + batch.size_bytes > max_bytes:
                break
            data += batch.data
        return data

    def begin_at(self, start: Offset) -> None:
        self.batches = [batch for batch in self.batches if batch.end_offset > start]
        self.start = start

    def install(self, snapshot_id: SnapshotId, data: bytes) -> None:
        self.snapshots, self.batches = {snapshot_id: data}, []
        self.start = self.flushed_end = snapshot_id.end_offset

    def drop_snapshots(self, end_offset: Offset) -> None:
        self.snapshots = {known: data for known, data in self.snapshots.items() if known.end_offset >= end_offset}

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
        self.voters = tuple(entry for entry in self.voters if entry.offset < self.end)
        entries: list[EpochEntry] = []
        for batch in self.batches:
            if not entries or entries[-1].epoch != batch.leader_epoch:
                entries.append(EpochEntry(batch.leader_epoch, batch.base_offset))
        return RecoveredLog(
            log_start_offset=self.start,
            log_end_offset=self.end,
            epochs=tuple(entries),
            quorum_state=self.quorum_state,
            snapshots=tuple(
                StoredSnapshot(id=snapshot_id, size_bytes=len(self.snapshots[snapshot_id]))
                for snapshot_id in sorted(self.snapshots)
            ),
            snapshot=self.snapshots[max(self.snapshots)] if self.snapshots else b"",
            voters=self.voters,
        )


@dataclass
class Node:
    """One replica: its disk for ever, its core for one incarnation."""

    replica_id: ReplicaId
    disk: Disk
    core: Replica | None = None
    incarnation: int = 0
    timer_ms: int | None = None
    flush_done_ms: int = 0

    @property
    def log(self) -> QuorumLog:
        assert self.core is not None, self.replica_id
        return self.core.logs[LOG]


class Promises:
    """What must hold across replicas, checked as the cluster goes along."""

    def __init__(self) -> None:
        self.committed: dict[Offset, tuple[int, bytes]] = {}
        self.acknowledged: dict[Offset, bytes] = {}
        self._leaders: dict[int, ReplicaId] = {}
        self._checked: dict[tuple[ReplicaId, int], Offset] = {}

    @property
    def high_watermark(self) -> int:
        return len(self.committed)

    def check(self, node: Node, nodes: dict[ReplicaId, Node]) -> None:
        self._single_leader(node)
        self._consistent_committed_data(node)
        self._majority_holds_the_high_watermark(nodes)
        self._leader_has_everything_committed(node)

    def _fail(self, promise: str, detail: object) -> None:
        raise PromiseBrokenError(f"{promise}: {detail}")

    def _single_leader(self, node: Node) -> None:
        log = node.log
        if log.role.name == "leader" and self._leaders.setdefault(log.leader_epoch, node.replica_id) != node.replica_id:
            self._fail("one leader an epoch", (log.leader_epoch, self._leaders[log.leader_epoch], node.replica_id))

    def _consistent_committed_data(self, node: Node) -> None:
        high_watermark = node.log.log.high_watermark or Offset(0)
        key = (node.replica_id, node.incarnation)
        start = self._checked.get(key, Offset(0))
        for batch in node.disk.between(start, high_watermark):
            here = (batch.leader_epoch, batch.data)
            for offset in range(batch.base_offset, batch.end_offset):
                if self.committed.setdefault(Offset(offset), here) != here:
                    self._fail("committed data is the same everywhere", (offset, node.replica_id))
        self._checked[key] = max(start, high_watermark)

    def _majority_holds_the_high_watermark(self, nodes: dict[ReplicaId, Node]) -> None:
        holding = sum(node.disk.end >= self.high_watermark for node in nodes.values())
        if holding <= len(nodes) // 2:
            self._fail("a majority holds the high watermark", (self.high_watermark, holding))

    def _leader_has_everything_committed(self, node: Node) -> None:
        leads = node.log.role.name == "leader" and node.log.leader_epoch == max(self._leaders)
        if leads and node.disk.end < self.high_watermark:
            self._fail("a leader has everything committed", (node.disk.end, self.high_watermark))

    def check_acknowledged(self, node: Node, *, below: Offset) -> None:
        """Check that every write acknowledged below this offset stands there in the replica's log."""
        held = {batch.base_offset: batch for batch in node.disk.batches}
        for offset, records in self.acknowledged.items():
            data = held[offset].data if offset in held else b""
            if offset < node.disk.start:  # It is in a snapshot.
                _, data = self.committed[offset]
            if offset < below and data[61:] != records:
                self._fail("an acknowledged write is never lost", (offset, node.replica_id))


@dataclass
class Climate:
    """How hostile the world is."""

    loss: float = 0.0
    duplication: float = 0.0
    crash_in_step: float = 0.0
    latency_ms: tuple[int, int] = (2, 4)
    flush_ms: tuple[int, int] = (1, 6)


class SimulatedCluster:
    """Some replicas, their network and one client that appends, all driven by ``run``."""

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        climate: Climate | None = None,
        rules: Callable[[], Rules] = Rules,
        config: QuorumConfig = CONFIG,
        append_interval_ms: int = 5,
    ) -> None:
        self.random = Random(seed)
        self.climate = climate or Climate()
        self.promises = Promises()
        self.now_ms = 0
        self.cut: set[tuple[ReplicaId, ReplicaId]] = set()
        self._rules, self._config = rules, config
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._calls: dict[CallId, tuple[ReplicaId, Callable[[m.Response], None]]] = {}
        self._voters = tuple(ReplicaId(n) for n in range(voters))
        self._make_nodes()
        self.nodes = {voter: Node(voter, Disk()) for voter in self._voters}
        for voter in self._voters:
            self.start(voter)
        self.at(append_interval_ms, lambda: self._append(append_interval_ms))

    def _make_nodes(self) -> None:
        """Choose other replicas, and other promises, before any replica starts; here these are right."""

    # --- time -------------------------------------------------------------------------------------------------------

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._sequence, action))

    def run(self, until: Callable[[], bool], *, within_ms: int) -> bool:
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

    def leader(self) -> Node | None:
        leaders = [node for node in self.running() if node.log.role.name == "leader"]
        return max(leaders, key=lambda node: node.log.leader_epoch, default=None)

    def start(self, replica_id: ReplicaId) -> None:
        node = self.nodes[replica_id]
        node.incarnation += 1
        node.timer_ms = None
        node.core = Replica(
            config=self._config_of(node),
            logs={LOG: node.disk.recover()},
            random=Random(self.random.random()),
            rules=self._rules(),
        )
        self._step(node, ev.Started())

    def _config_of(self, node: Node) -> ReplicaConfig:
        return ReplicaConfig(
            cluster_id="simulated",
            replica_id=node.replica_id,
            directory_id=disk_id(node.replica_id),
            voters=self._voters,
            initial_voters=voters_of(*self._voters),
            quorum=self._config,
        )

    def crash(self, replica_id: ReplicaId) -> None:
        node = self.nodes[replica_id]
        node.core = None
        node.disk.lose_unflushed(self.random)

    def resign(self, replica_id: ReplicaId) -> None:
        self._step(self.nodes[replica_id], ev.ResignRequested())

    def isolate(self, *group: int) -> None:
        inside = {ReplicaId(n) for n in group}
        self.cut = {(a, b) for a in self._voters for b in self._voters if (a in inside) != (b in inside)}

    def heal(self) -> None:
        self.cut = set()

    def _step(self, node: Node, event: ev.Event) -> None:
        if node.core is None:
            return
        self._perform_all(node, node.core.step(event, self.now_ms))
        if node.core is not None:
            self.promises.check(node, self.nodes)
            self._settle(node)
        if node.core is not None:
            self._arm_timer(node)

    def _settle(self, node: Node) -> None:
        """Give whom the log is replayed for its turn; here it is nobody."""

    def _perform_all(self, node: Node, effects: tuple[fx.Effect, ...]) -> None:
        """Perform the effects, or crash after some of them."""
        if not effects or self.random.random() >= self.climate.crash_in_step:
            for effect in effects:
                self._perform(node, effect)
            return
        for effect in effects[: self.random.randrange(len(effects) + 1)]:
            self._perform(node, effect)
        self.crash_for_a_while(node)

    def crash_for_a_while(self, node: Node) -> None:
        self.crash(node.replica_id)
        self.at(self.random.randrange(50, 3000), lambda: self._restart(node))

    def _restart(self, node: Node) -> None:
        if node.core is None:
            self.start(node.replica_id)

    def _arm_timer(self, node: Node) -> None:
        assert node.core is not None, node.replica_id
        due_ms = node.core.deadline_ms
        if due_ms is None or node.timer_ms == due_ms:
            return
        node.timer_ms = due_ms
        incarnation = node.incarnation

        def tick() -> None:
            if node.incarnation == incarnation and node.timer_ms == due_ms:
                node.timer_ms = None
                self._step(node, ev.Ticked())

        self.at(max(0, due_ms - self.now_ms), tick)

    # --- effects ----------------------------------------------------------------------------------------------------

    def _perform(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.StoreQuorumState(state=state):
                node.disk.quorum_state = state
            case fx.StoreEpochs():
                pass  # Recovery here always rebuilds the epochs from the batches.
            case fx.StoreVoters(entries=voters):
                node.disk.voters = voters
            case fx.Append(batches=batches):
                for batch in batches:
                    assert batch.base_offset == node.disk.end, (batch, node.disk.end)
                    node.disk.batches.append(batch)
            case fx.Truncate(end_offset=end_offset):
                node.disk.truncate(end_offset)
            case fx.Flush(end_offset=end_offset):
                self._flush(node, end_offset)
            case fx.Send():
                self._send(node, effect)
            case fx.Reply(call_id=call_id, response=response):
                self._reply(node, call_id, response)
            case fx.ReplyWithRecords(call_id=call_id, response=response):
                records = read_ranges(effect, lambda _, *wanted: node.disk.read(*wanted))
                self._reply(node, call_id, response.with_records(records))
            case fx.Halt(reason=reason):
                raise PromiseBrokenError(f"replica {node.replica_id} halted: {reason}")
            case _:
                self._perform_on_snapshots(node, effect)

    def _perform_on_snapshots(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.StoreSnapshot():
                self._store_snapshot(node, effect)
            case fx.InstallSnapshot(snapshot_id=snapshot_id, data=data):
                node.disk.install(snapshot_id, data)
            case fx.RaiseLogStart(log_start_offset=log_start_offset):
                node.disk.begin_at(log_start_offset)
            case fx.DropSnapshots(end_offset=end_offset):
                node.disk.drop_snapshots(end_offset)
            case fx.ReplyWithSnapshot(call_id=call_id, response=response, position=position):
                data = node.disk.snapshots[effect.snapshot_id]
                self._reply(node, call_id, response.with_data(data[position : position + effect.max_bytes]))
            case _:
                raise AssertionError(f"a quorum log never asks for {effect}")

    def _store_snapshot(self, node: Node, effect: fx.StoreSnapshot) -> None:
        """Store it after a while, long enough that an installation may come first."""
        incarnation = node.incarnation

        def stored() -> None:
            if node.core is not None and node.incarnation == incarnation:
                data = node.disk.snapshots[effect.snapshot_id] = effect.state.encode()
                stored = ev.SnapshotStored(topic_partition=LOG, snapshot_id=effect.snapshot_id, size_bytes=len(data))
                self._step(node, stored)

        self.at(self.random.randint(1, 200), stored)

    def _flush(self, node: Node, end_offset: Offset) -> None:
        incarnation = node.incarnation

        def flushed() -> None:
            if node.core is not None and node.incarnation == incarnation:
                node.disk.flushed_end = max(node.disk.flushed_end, min(end_offset, node.disk.end))
                self._step(node, ev.Flushed(topic_partition=LOG, end_offset=end_offset))

        # Flushes of one log end in the order in which they were asked for; drivers owe the core that.
        node.flush_done_ms = max(node.flush_done_ms, self.now_ms + self.random.randint(*self.climate.flush_ms))
        self.at(node.flush_done_ms - self.now_ms, flushed)

    def _send(self, node: Node, effect: fx.Send) -> None:
        incarnation, correlation_id, receiver = node.incarnation, effect.correlation_id, effect.replica_id
        answered: set[CorrelationId] = set()

        def back(event: ev.ResponseReceived | ev.SendFailed) -> None:
            if correlation_id not in answered and node.incarnation == incarnation:
                answered.add(correlation_id)
                self._step(node, event)

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
        self._step(node, ev.RequestReceived(call_id=call_id, request=request))

    def _reply(self, node: Node, call_id: CallId, response: m.Response) -> None:
        replica_id, on_reply = self._calls.pop(call_id)
        assert replica_id == node.replica_id, call_id
        on_reply(response)

    # --- the client -------------------------------------------------------------------------------------------------

    def _append(self, interval_ms: int) -> None:
        """Append one record through some replica that believes it leads, and note it if it is acknowledged."""
        self.at(interval_ms, lambda: self._append(interval_ms))
        leaders = [node for node in self.running() if node.log.role.name == "leader"]
        if not leaders:
            return
        batch = encode_batch([str(self._sequence).encode()], timestamp_ms=self.now_ms)

        def on_reply(response: m.Response) -> None:
            assert isinstance(response, m.ProduceResponse), response
            if response.error is ErrorCode.NONE:
                assert response.base_offset is not None, response
                self.promises.acknowledged[response.base_offset] = batch.data[61:]

        request = m.ProduceRequest(topic_partition=LOG, acks=-1, timeout_ms=1000, records=batch.data)
        self._call(self.random.choice(leaders), request, on_reply)
