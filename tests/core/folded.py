"""A simulated quorum whose replicas fold their logs into a running digest, and take snapshots of it at random.

The digest is the simplest state machine: two replicas that have applied equally much have the same one, or have not
applied the same records. So a snapshot of the wrong records, or records upon the wrong snapshot, show at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from replica.core import effects as fx
from replica.core import events as ev
from replica.core.config import QuorumConfig
from replica.core.quorum.roles import Follower
from replica.core.quorum.snapshot_header import split_snapshot
from replica.core.rules import Rules
from replica.ids import Epoch, Offset, ReplicaId, SnapshotId
from replica.machines import EncodedState, Snapshot, SnapshotView
from replica.records import RecordBatch
from tests.core.simulated import SimulatedCluster
from tests.core.virtual import BEGINNING, CONFIG, Climate, Disk, Node, PromiseBrokenError

SNAPSHOT_REPEATS = 5
"""So that a snapshot, of some 300 bytes, comes in several pieces where a fetch brings 100."""


@dataclass
class Fold:
    """What the records below ``offset`` come to."""

    offset: Offset = BEGINNING
    epoch: Epoch = Epoch(0)  # noqa: RUF009 (a NewType call, immutable)
    digest: str = ""

    def apply(self, batch: RecordBatch) -> None:
        assert batch.base_offset == self.offset, (batch.base_offset, self.offset)
        self.digest = sha256(self.digest.encode() + batch.data).hexdigest()
        self.offset, self.epoch = batch.end_offset, batch.leader_epoch

    def view(self) -> SnapshotView:
        state = EncodedState(self.digest.encode() * SNAPSHOT_REPEATS)
        return SnapshotView(id=SnapshotId(self.offset, self.epoch), state=state)


def restored(snapshot_id: SnapshotId, data: bytes) -> Fold:
    """Load a snapshot."""
    digest = data[: len(data) // SNAPSHOT_REPEATS].decode()
    assert data == digest.encode() * SNAPSHOT_REPEATS, ("a torn snapshot", snapshot_id)
    return Fold(snapshot_id.end_offset, snapshot_id.epoch, digest)


def _may_store(node: Node, fold: Fold) -> bool:
    """Whether there is something new, and nothing on its way."""
    newest = max([0, *[known.id.end_offset for known in node.log.snapshots]])
    is_new = not node.log.is_storing_snapshot and fold.offset > newest
    return is_new and node.log.may_store(fold.view().id)


class FoldedCluster(SimulatedCluster):
    """A simulated quorum that takes snapshots: in every step of a replica with the probability ``snapshots``."""

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        snapshots: float = 0.02,
        rules: Callable[[], Rules] = Rules,
        climate: Climate | None = None,
        config: QuorumConfig = CONFIG,
        append_interval_ms: int = 60,
    ) -> None:
        self.snapshots = snapshots
        self.folds: dict[ReplicaId, Fold] = {}
        self.digests: dict[Offset, str] = {}
        self.seen: Counter[str] = Counter()
        super().__init__(
            seed,
            voters=voters,
            rules=rules,
            climate=climate,
            config=config,
            append_interval_ms=append_interval_ms,
        )

    def start(self, replica_id: ReplicaId) -> None:
        disk = self.nodes[replica_id].disk
        disk.recover()
        self.folds[replica_id] = self._fold_of(disk)
        super().start(replica_id)

    def _fold_of(self, disk: Disk) -> Fold:
        newest = max(disk.snapshots, default=None)
        return Fold() if newest is None else restored(newest, split_snapshot(disk.snapshots[newest])[1])

    def _stepped(self, node: Node) -> None:
        super()._stepped(node)
        log, fold = node.log, self.folds[node.replica_id]
        for batch in list(node.disk.between(fold.offset, log.log.high_watermark or BEGINNING)):
            fold.apply(batch)
        if self.digests.setdefault(fold.offset, fold.digest) != fold.digest:
            raise PromiseBrokenError(f"at offset {fold.offset} replica {node.replica_id} has another state")
        received = log.received_snapshot
        if received is not None:
            self._load(node, received)
        elif self.random.random() < self.snapshots and _may_store(node, fold):
            self.seen["stored"] += 1
            self._act(node, log.store_snapshot(fold.view(), self.now_ms))

    def _load(self, node: Node, received: Snapshot) -> None:
        """Load a snapshot, but sometimes find that it cannot be loaded, as if it were damaged."""
        if self.random.random() < 0.2:
            self.seen["rejected"] += 1
            self._act(node, node.log.reject_snapshot(self.now_ms))
            return
        if self.climate.crash_in_step and self.random.random() < 0.3:
            self.seen["half installed"] += 1
            self._half_install(node, received.id)
            return
        self.seen["installed"] += 1
        self.seen["installed while storing"] += node.log.is_storing_snapshot
        self.folds[node.replica_id] = restored(received.id, received.data)
        self._act(node, node.log.install_snapshot(self.now_ms))

    def _half_install(self, node: Node, received_id: SnapshotId) -> None:
        assert isinstance(node.log.role, Follower), node.log.role
        assert node.log.role.received is not None, received_id
        node.disk.snapshots[received_id] = node.log.role.received.data  # It is durable before the log is dropped.
        self.crash_for_a_while(node)

    def _act(self, node: Node, effects: tuple[fx.Effect, ...]) -> None:
        self._perform_all(node, effects)
        self.step(node, ev.Ticked())


def everyone_applied(cluster: FoldedCluster, offset: int) -> Callable[[], bool]:
    """Build the condition that every replica runs and has applied so much."""
    return lambda: (
        len(cluster.running()) == len(cluster.nodes)
        and all(cluster.folds[node.replica_id].offset >= offset for node in cluster.running())
    )
