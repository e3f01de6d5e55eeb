"""What happened to the snapshots of the metadata in a cluster world, and to brokers that began with one.

Owns the counting. Judges nothing.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from nemesis.simulator.node import Node, Step
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import Epoch, ReplicaId


class MetadataRare(StrEnum):
    """Events that a sweep over clusters should have seen, of the snapshots of their metadata."""

    METADATA_SNAPSHOT_STORED = "metadata-snapshot-stored"
    METADATA_SNAPSHOT_INSTALLED = "metadata-snapshot-installed"
    METADATA_SNAPSHOT_IN_PIECES = "metadata-snapshot-in-pieces"
    METADATA_SNAPSHOT_GONE = "metadata-snapshot-gone"
    METADATA_SNAPSHOT_ON_NEW_DISK = "metadata-snapshot-on-new-disk"
    METADATA_SNAPSHOT_NEW_TO_HOST = "metadata-snapshot-new-to-host"
    METADATA_RESTORED_AT_START = "metadata-restored-at-start"
    CONTROLLER_AFTER_RESTORE = "controller-after-restore"


class MetadataCensus(Observer):
    """Counts ``MetadataRare`` events of one world."""

    def __init__(self) -> None:
        self.counts: Counter[MetadataRare] = Counter()
        self._new_disks: set[ReplicaId] = set()
        self._restored: set[ReplicaId] = set()
        """Whose present process has begun with a snapshot, or loaded one."""
        self._controllers: set[tuple[ReplicaId, Epoch]] = set()
        self._images: dict[ReplicaId, MetadataImage] = {}

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """See ``Observer``."""
        del torn_bytes
        self._restored.discard(node.replica_id)
        self._images.pop(node.replica_id, None)
        if node.recovered[METADATA_LOG].snapshots:
            self.counts[MetadataRare.METADATA_RESTORED_AT_START] += 1
            self._restored.add(node.replica_id)

    def on_wiped(self, node: Node) -> None:
        """See ``Observer``."""
        self._new_disks.add(node.replica_id)

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        self._on_event(step.event)
        before = self._images.get(node.replica_id)
        if node.core is not None:
            self._images[node.replica_id] = node.core.metadata.image
        if fx.InstallSnapshot in step.kinds:
            self._on_installed(node, before or MetadataImage())
        if node.core is not None and node.core.controller is not None and node.core.controller.is_active:
            activity = (node.replica_id, node.core.logs[METADATA_LOG].leader_epoch)
            if activity not in self._controllers:
                self._controllers.add(activity)
                self.counts[MetadataRare.CONTROLLER_AFTER_RESTORE] += node.replica_id in self._restored

    def _on_event(self, event: ev.Event | None) -> None:
        match event:
            case ev.SnapshotStored():
                self.counts[MetadataRare.METADATA_SNAPSHOT_STORED] += 1
            case ev.ResponseReceived(response=m.FetchSnapshotResponse() as response):
                self.counts[MetadataRare.METADATA_SNAPSHOT_IN_PIECES] += response.position > 0
                self.counts[MetadataRare.METADATA_SNAPSHOT_GONE] += response.error is ErrorCode.SNAPSHOT_NOT_FOUND
            case _:
                pass

    def _on_installed(self, node: Node, before: MetadataImage) -> None:
        """Count a snapshot that was loaded: on an empty disk, or with news of what its broker hosts already."""
        self.counts[MetadataRare.METADATA_SNAPSHOT_INSTALLED] += 1
        self._restored.add(node.replica_id)
        if node.replica_id in self._new_disks:
            self._new_disks.discard(node.replica_id)
            self.counts[MetadataRare.METADATA_SNAPSHOT_ON_NEW_DISK] += 1
        if node.core is not None and node.core.broker is not None:
            after = node.core.metadata.image
            told = any(before.partition(log) != after.partition(log) for log in node.core.broker.partitions)
            self.counts[MetadataRare.METADATA_SNAPSHOT_NEW_TO_HOST] += told
