"""Whole quorums on real log stores over disks that lose their power at any file operation.

The simulated cluster supplies time, network, client and promises; here each replica's disk is a ``LogStore`` over the
forgetful disk, flushed as a server flushes: one flush at a time, requests made meanwhile become one, and the log grows
while it runs. A failing seed is repeated with ``pytest tests/storage/test_cluster_power_loss.py -k seed``.
"""

from __future__ import annotations

import heapq
from random import Random

import pytest

from nemesis.disks.simulated_files import PowerLossError, SimulatedFiles
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.log.recovered import RecoveredLog
from replica.ids import Offset, ReplicaId, TopicPartition
from replica.records import parse_batches
from replica.storage import DataDirectory, LogConfig, LogStore, format_directory, open_directory
from replica.voters import VoterSet
from tests.core.harness import LOG
from tests.core.simulated import SimulatedCluster
from tests.core.virtual import Climate, Disk, Node, PromiseBrokenError
from tests.depth import seeds
from tests.storage.disks import DATA

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=300, tail_bytes_max=4000)
ROUGH = Climate(loss=0.02, duplication=0.02, disk_ms=(1, 30))


class StoreDisk(Disk):
    """A disk of the simulated cluster with a real log store on it; ``batches`` is the model it is compared with."""

    def __init__(self, replica_id: ReplicaId, chance: Random) -> None:
        super().__init__()
        self.files = SimulatedFiles()
        self.chance = chance
        format_directory(
            DATA, cluster_id="simulated", replica_id=replica_id, initial_voters=VoterSet(()), files=self.files
        )
        self.states: list[fx.QuorumState | None] = [None]
        self.power_losses = 0
        self._directory: DataDirectory | None = None
        self._store: LogStore | None = None
        self._recovered: RecoveredLog | None = None

    @property
    def store(self) -> LogStore:
        assert self._store is not None
        return self._store

    def endanger(self, operations: int) -> None:
        """Let the power go before one of the next file operations."""
        self.files.power_fails_before = self.files.operations + self.chance.randrange(operations)

    def boot(self) -> None:
        """Open the log, losing the power some more times on the way. A store that refuses to open fails the test."""
        while True:
            if self.chance.random() < 0.3:
                self.endanger(60)
            try:
                self._directory = open_directory(DATA, files=self.files)
                self._store, self._recovered = LogStore.open(self._directory, LOG, config=CONFIG)
            except PowerLossError:
                self.power_losses += 1
                self.files.crash(self.chance)
                continue
            break
        self.files.power_fails_before = None
        self._check_survivors(self._recovered)

    def _check_survivors(self, recovered: RecoveredLog) -> None:
        found = list(parse_batches(self.store.read(Offset(0), recovered.log_end_offset, 1 << 30)))
        written = [batch.data for batch in self.batches]
        assert [batch.data for batch in found] == written[: len(found)], "what came back was never written"
        if recovered.log_end_offset < self.flushed_end:
            raise PromiseBrokenError(f"flushed to {self.flushed_end}, recovered to {recovered.log_end_offset}")
        assert recovered.quorum_state in self.states, (recovered.quorum_state, self.states)
        self.states = [recovered.quorum_state]
        self.batches, self.flushed_end = found, recovered.log_end_offset
        assert recovered.epochs == super().recover().epochs

    def recover(self) -> RecoveredLog:
        assert self._recovered is not None
        return self._recovered

    def lose_unflushed(self, random: Random) -> None:
        """Lose the power: of what is pending, nothing survives, or each part by its own coin."""
        self.power_losses += 1
        self.files.crash(random if random.random() < 0.7 else None)

    def close(self, *, clean: bool) -> None:
        """End the process, not the power: what it wrote stays in the page cache. ``clean`` as a graceful stop does."""
        assert self._directory is not None
        self.store.close(clean=clean)
        self._directory.close(clean=clean)

    def perform(self, effect: fx.StoreQuorumState | fx.StoreEpochs | fx.Append | fx.Truncate) -> None:
        """Do it to the model as far as it may have come, then to the store, then to the model as it must be."""
        match effect:
            case fx.StoreQuorumState(state=state):
                self.states.append(state)
                self.store.store_quorum_state(state)
                self.states = [state]
            case fx.StoreEpochs(entries=entries):
                self.store.store_epochs(entries)
            case fx.Append(batches=batches):
                self.batches += batches
                self.store.append(batches)
            case fx.Truncate(end_offset=end_offset):
                self.flushed_end = min(self.flushed_end, end_offset)
                self.store.truncate(end_offset)
                self.truncate(end_offset)

    def read(self, start: Offset, end: Offset, max_bytes: int) -> bytes:
        return self.store.read(start, end, max_bytes)


class StoreCluster(SimulatedCluster):
    """The simulated cluster, its replicas on ``StoreDisk``."""

    def __init__(self, seed: int, *, voters: int = 3) -> None:
        self._flushing: dict[ReplicaId, int] = {}
        self._wanted: dict[ReplicaId, Offset] = {}
        super().__init__(seed, voters=voters, climate=ROUGH, append_interval_ms=15)

    def _new_disk(self, replica_id: ReplicaId) -> Disk:
        return StoreDisk(replica_id, self.random)

    def disk(self, replica_id: ReplicaId) -> StoreDisk:
        disk = self.nodes[replica_id].disk
        assert isinstance(disk, StoreDisk)
        return disk

    def start(self, replica_id: ReplicaId) -> None:
        self._flushing.pop(replica_id, None)
        self._wanted.pop(replica_id, None)
        self.disk(replica_id).boot()
        super().start(replica_id)

    def end(self, replica_id: ReplicaId, *, clean: bool) -> None:
        """Let the process end by a signal, gracefully or not."""
        node = self.nodes[replica_id]
        if node.core is None:
            return
        try:
            self.disk(replica_id).close(clean=clean)
        except PowerLossError:
            self.crash(self.nodes[replica_id])
        node.core = None

    def step(self, node: Node, event: ev.Event) -> None:
        try:
            super().step(node, event)
        except PowerLossError:
            self._go_dark(node)

    def _go_dark(self, node: Node) -> None:
        self.crash(node)
        self.at(self.random.randrange(50, 2000), lambda: self._restart(node))

    def _perform(self, node: Node, effect: fx.Effect) -> None:
        match effect:
            case fx.Truncate() if node.replica_id in self._flushing:
                raise AssertionError("a log is truncated while a flush of it is owed")
            case fx.StoreQuorumState() | fx.StoreEpochs() | fx.Append() | fx.Truncate():
                self.disk(node.replica_id).perform(effect)
            case _:
                super()._perform(node, effect)

    # --- flushing, as a server does it ------------------------------------------------------------------------------

    def _flush(self, node: Node, name: TopicPartition, end_offset: Offset) -> None:
        self._wanted[node.replica_id] = end_offset
        if node.replica_id not in self._flushing:
            self._begin_flush(node)

    def _begin_flush(self, node: Node) -> None:
        del self._wanted[node.replica_id]
        incarnation = self._flushing[node.replica_id] = node.incarnation

        def run() -> None:
            if node.core is not None and node.incarnation == incarnation:
                self._run_flush(node)

        self.at(self.random.randint(*self.climate.disk_ms), run)

    def _run_flush(self, node: Node) -> None:
        disk, incarnation = self.disk(node.replica_id), node.incarnation
        disk.files.before_fsync = lambda: self._meanwhile(node, incarnation)
        try:
            end_offset = disk.store.flush()
        except PowerLossError:
            if node.core is not None and node.incarnation == incarnation:
                self._go_dark(node)
            return
        finally:
            disk.files.before_fsync = None
        disk.flushed_end = end_offset
        self.at(self.random.randrange(3), lambda: self._on_flushed(node, incarnation, end_offset))

    def _meanwhile(self, node: Node, incarnation: int) -> None:
        """Let other things happen while the platter turns, to this very log as well."""
        files = self.disk(node.replica_id).files
        hook, files.before_fsync = files.before_fsync, None
        for _ in range(self.random.randrange(4)):
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
        files.before_fsync = hook
        if node.core is None or node.incarnation != incarnation:
            raise PowerLossError("while it was flushing")

    def _on_flushed(self, node: Node, incarnation: int, end_offset: Offset) -> None:
        if node.core is None or node.incarnation != incarnation:
            return
        del self._flushing[node.replica_id]
        if self._wanted.get(node.replica_id, end_offset + 1) <= end_offset:
            del self._wanted[node.replica_id]
        self.step(node, ev.Flushed(topic_partition=LOG, end_offset=end_offset))
        if node.replica_id in self._wanted and node.replica_id not in self._flushing:
            self._begin_flush(node)


def harm(cluster: StoreCluster) -> None:
    """Do one bad thing: cut somebody off, take the power from one or from all, or end a process."""
    one = ReplicaId(cluster.random.randrange(len(cluster.nodes)))
    match cluster.random.choice(("isolate", "power", "power", "blackout", "kill", "stop")):
        case "isolate":
            cluster.isolate(one)
        case "power":
            cluster.disk(one).endanger(40)
        case "blackout":
            for replica_id in cluster.nodes:
                cluster.disk(replica_id).endanger(25)
        case "kill":
            cluster.end(one, clean=False)
        case _:
            cluster.resign(one)
            cluster.end(one, clean=True)


def restart_all(cluster: StoreCluster) -> None:
    for node in cluster.nodes.values():
        if node.core is None:
            cluster.start(node.replica_id)


def storm(seed: int, *, rounds: int = 14) -> StoreCluster:
    """Harm and heal for a while, then calm until every replica has the same committed log; check what it must hold."""
    cluster = StoreCluster(seed)
    for _ in range(rounds):
        harm(cluster)
        cluster.run(lambda: False, within_ms=cluster.random.randrange(100, 4000))
        cluster.heal()
        restart_all(cluster)
        cluster.run(lambda: False, within_ms=cluster.random.randrange(100, 2500))
    cluster.climate = Climate()
    for replica_id in cluster.nodes:
        cluster.disk(replica_id).files.power_fails_before = None
    restart_all(cluster)
    target = cluster.promises.high_watermark + 10
    assert cluster.run(lambda: _all_reached(cluster, target), within_ms=60_000), f"seed {seed}: no progress"
    for node in cluster.running():
        cluster.promises.check_acknowledged(node, below=Offset(target))
    return cluster


def _all_reached(cluster: StoreCluster, high_watermark: int) -> bool:
    return all((node.log.log.high_watermark or 0) >= high_watermark for node in cluster.running())


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2))
def test_acknowledged_writes_survive_power_loss(seed: int) -> None:
    """Whatever file operation the power goes at, every replica opens again and no acknowledged write is lost."""
    cluster = storm(seed)
    assert len(cluster.running()) == 3
    assert len(cluster.promises.acknowledged) > 100
    assert sum(cluster.disk(replica_id).power_losses for replica_id in cluster.nodes) > 5
