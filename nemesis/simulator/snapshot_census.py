"""What becomes of snapshots, of a cluster's metadata or of state machines, and of those who begin with one.

Owns the counting. Judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.simulator.node import Node, Step
from nemesis.simulator.rare import Rare
from nemesis.simulator.record import Record
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """How what happens to snapshots is called, by what they are of."""

    stored: Rare
    installed: Rare
    in_pieces: Rare
    gone: Rare
    at_start: Rare


OF_MACHINES = Names(
    stored=Rare.SNAPSHOT_STORED,
    installed=Rare.SNAPSHOT_INSTALLED,
    in_pieces=Rare.SNAPSHOT_IN_PIECES,
    gone=Rare.SNAPSHOT_GONE,
    at_start=Rare.RESTORED_AT_START,
)
OF_METADATA = Names(
    stored=Rare.METADATA_SNAPSHOT_STORED,
    installed=Rare.METADATA_SNAPSHOT_INSTALLED,
    in_pieces=Rare.METADATA_SNAPSHOT_IN_PIECES,
    gone=Rare.METADATA_SNAPSHOT_GONE,
    at_start=Rare.METADATA_RESTORED_AT_START,
)


class SnapshotCensus(Observer):
    """Counts the snapshots of some logs."""

    def __init__(self, record: Record, logs: Sequence[TopicPartition], names: Names) -> None:
        self.restored: set[ReplicaId] = set()
        """Whose present process has begun with a snapshot, or loaded one."""
        self._rare = record.rare
        self._logs = logs
        self._names = names

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """See ``Observer``."""
        del torn_bytes
        self.restored.discard(node.replica_id)
        if any(node.recovered[log].snapshots for log in self._logs):
            self._rare[self._names.at_start] += 1
            self.restored.add(node.replica_id)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        match step.event:
            case ev.SnapshotStored():
                self._rare[self._names.stored] += 1
            case ev.ResponseReceived(response=m.FetchSnapshotResponse() as response):
                self._rare[self._names.in_pieces] += response.position > 0
                self._rare[self._names.gone] += response.error is ErrorCode.SNAPSHOT_NOT_FOUND
            case _:
                pass
        if fx.InstallSnapshot in step.kinds:
            self._rare[self._names.installed] += 1
            self.restored.add(node.replica_id)


class MetadataCensus(SnapshotCensus):
    """Counts what snapshots of the metadata bring about beside that: on new disks, to hosts, and for controllers."""

    def __init__(self, record: Record) -> None:
        super().__init__(record, (METADATA_LOG,), OF_METADATA)
        self._new_disks: set[ReplicaId] = set()
        self._controllers: set[tuple[ReplicaId, Epoch]] = set()
        self._images: dict[ReplicaId, MetadataImage] = {}

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """See ``Observer``."""
        super().on_boot(node, torn_bytes)
        self._images.pop(node.replica_id, None)

    def on_wiped(self, node: Node) -> None:
        """See ``Observer``."""
        self._new_disks.add(node.replica_id)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        super().on_step(node, step)
        before = self._images.get(node.replica_id)
        if node.core is not None:
            self._images[node.replica_id] = node.core.metadata.image
        if fx.InstallSnapshot in step.kinds:
            self._on_installed(node, before or MetadataImage())
        if node.core is not None and node.core.controller is not None and node.core.controller.is_active:
            activity = (node.replica_id, node.core.logs[METADATA_LOG].leader_epoch)
            if activity not in self._controllers:
                self._controllers.add(activity)
                self._rare[Rare.CONTROLLER_AFTER_RESTORE] += node.replica_id in self.restored

    def _on_installed(self, node: Node, before: MetadataImage) -> None:
        """Count a snapshot that was loaded on an empty disk, or with news of what its broker hosts already."""
        if node.replica_id in self._new_disks:
            self._new_disks.discard(node.replica_id)
            self._rare[Rare.METADATA_SNAPSHOT_ON_NEW_DISK] += 1
        if node.core is not None and node.core.broker is not None:
            after = node.core.metadata.image
            told = any(before.partition(log) != after.partition(log) for log in node.core.broker.partitions)
            self._rare[Rare.METADATA_SNAPSHOT_NEW_TO_HOST] += told
