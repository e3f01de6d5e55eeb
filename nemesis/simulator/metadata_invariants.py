"""What must hold of the snapshots of a cluster's metadata, checked after every step of a simulated world.

Owns the promises about what is written down of the metadata and read back: it is the fold of the whole committed log,
under the name of a record that ends there, with the voters of then, and what is gone from a log is in a snapshot; and
that a replica goes by the settings that its metadata says. That
an image is the committed one at its offset, however it was come by, ``partition_invariants`` judges. The reference is
the fold record by record; a replica that begins with a snapshot never makes it.

Source: KIP-630; Kafka's ``RaftEventSimulationTest`` (SnapshotAtLogStart).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from nemesis.simulator.node import Node, Step
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.voter_book import VoterBook, check_snapshot_voters
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import events as ev
from replica.core.dynamic_settings import numbers_of, settings_in_force, with_values
from replica.core.log.recovered import StoredSnapshot
from replica.core.metadata.encoding import records_of
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.records import MetadataRecord, RegisterBrokerRecord
from replica.core.metadata.replay import METADATA_LOG
from replica.core.metadata.resources import Configs, told_to
from replica.core.metadata.snapshots import encode_image
from replica.core.replica import Replica
from replica.ids import Offset, ReplicaId, SnapshotId, TopicPartition
from replica.records import RecordBatch

_WRITTEN = frozenset[type]((fx.StoreSnapshot, fx.InstallSnapshot))


class MetadataInvariants(Observer):
    """The promises of metadata snapshots. It is told of committed batches before it is told of the step."""

    def __init__(self) -> None:
        self.books: Mapping[TopicPartition, VoterBook] = {}
        """Who votes in the metadata log by what is committed: given before anything happens."""
        self._image = MetadataImage()
        self._images: dict[SnapshotId, MetadataImage] = {}
        """What each committed batch has led to, by the id that a snapshot of it has."""
        self._looked: dict[ReplicaId, tuple[Offset, tuple[StoredSnapshot, ...]]] = {}
        """Log start and snapshots of each replica as they were looked at last."""
        self._configs: dict[ReplicaId, Configs] = {}
        """The settings of each replica's image as they were looked at last."""
        self._storing: dict[ReplicaId, fx.StoreSnapshot] = {}
        """The snapshot of each replica that is on its way."""

    def on_metadata(self, batch: RecordBatch) -> None:
        """A batch of the metadata log is committed now."""
        if not batch.is_control:
            before, records = self._image, records_of(batch)
            self._image = before.apply_all(records)
            _check_eligibility_is_kept(before, self._image, records)
        self._images[SnapshotId(batch.end_offset, batch.leader_epoch)] = self._image

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """What was written down is there again, or something older."""
        del torn_bytes
        self._looked.pop(node.replica_id, None)
        self._configs.pop(node.replica_id, None)
        self._storing.pop(node.replica_id, None)
        recovered = node.recovered[METADATA_LOG]
        if recovered.snapshots and not node.disk.is_damaged:
            self._check_content(node.replica_id, recovered.snapshots[-1].id, recovered.snapshot)

    def on_step(self, node: Node, step: Step) -> None:
        """Look at what is written down, then at where the log begins."""
        match step.event:
            case ev.SnapshotStored(topic_partition=name, snapshot_id=snapshot_id) if name == METADATA_LOG:
                # What was applied since it was taken must not have got into it.
                self._check_content(node.replica_id, snapshot_id, self._storing.pop(node.replica_id).state.encode())
            case _:
                pass
        for effect in () if step.kinds.isdisjoint(_WRITTEN) else step.effects:
            match effect:
                case fx.StoreSnapshot(snapshot_id=snapshot_id):
                    self._storing[node.replica_id] = effect
                    self._check_content(node.replica_id, snapshot_id, effect.state.encode())
                case fx.InstallSnapshot(snapshot_id=snapshot_id, data=data):
                    self._check_content(node.replica_id, snapshot_id, data)
                case _:
                    pass
        if node.core is not None and step.is_whole_of(METADATA_LOG):
            self._check_settings(node.core)
            log = node.core.logs[METADATA_LOG]
            looked = (log.log.log_start_offset, log.snapshots)
            if looked != self._looked.get(node.replica_id):
                self._looked[node.replica_id] = looked
                self._check_log_start(node.replica_id, *looked)

    def _check_settings(self, core: Replica) -> None:
        """What a replica goes by follows from its image and its start alone: two with one image go by the same."""
        configs, replica_id = core.metadata.image.configs, core.config.replica_id
        if configs is self._configs.get(replica_id):
            return
        self._configs[replica_id] = configs
        told = settings_in_force(numbers_of(core.config), told_to(configs, replica_id))
        is_followed = core.settings == told
        if core.broker is not None:
            config = with_values(core.config.broker, told.values)
            followed = [core.broker.config, *(partition.config for partition in core.broker.partitions.values())]
            is_followed &= all(each == config for each in followed)
        if not is_followed:
            _convict("settings-in-force", f"replica {replica_id} goes by other settings than its metadata says: {told}")

    def _check_content(self, replica_id: ReplicaId, snapshot_id: SnapshotId, data: bytes) -> None:
        """A snapshot is what the committed log leads to, under its own name: all of it, and in one form."""
        image = self._images.get(snapshot_id)
        if image is None:
            _convict(
                "snapshot-id", f"replica {replica_id} has {snapshot_id} of the metadata: no such record ends there"
            )
        voters_apart = check_snapshot_voters(replica_id, self.books, METADATA_LOG, snapshot_id.end_offset, data)
        if encode_image(image, snapshot_id).data != voters_apart:
            _convict(
                "snapshot-content",
                f"replica {replica_id} keeps other metadata at {snapshot_id.end_offset} than were committed by then",
            )

    def _check_log_start(self, replica_id: ReplicaId, start: Offset, snapshots: tuple[StoredSnapshot, ...]) -> None:
        """SnapshotAtLogStart: what is gone from the log is in a snapshot that ends just there."""
        stored = [snapshot.id for snapshot in snapshots]
        if start > 0 and (not stored or stored[0].end_offset != start):
            _convict(
                "snapshot-at-log-start",
                f"the metadata log of replica {replica_id} begins at {start}; it has {stored}",
            )
        for snapshot_id in stored:
            if snapshot_id not in self._images:
                _convict("snapshot-id", f"replica {replica_id} counts on {snapshot_id} of the metadata")


def _check_eligibility_is_kept(before: MetadataImage, after: MetadataImage, records: Sequence[MetadataRecord]) -> None:
    """Who comes back on the same disk, and had flushed all that it acknowledged, may lead whatever it might before.

    No world brings back an older copy of a disk, so that the same one always holds what was flushed to it.
    """
    for record in records:
        if not isinstance(record, RegisterBrokerRecord):
            continue
        known = before.brokers.get(record.broker_id)
        if known is None or not known.flushes or known.directory_id != record.directory_id:
            continue
        for name, registration in before.partitions():
            now = after.partition(name)
            was_eligible = known.broker_id in registration.elr
            if was_eligible and now is not None and known.broker_id not in (*now.isr, *now.elr):
                _convict("eligibility-is-kept", f"replica {known.broker_id} is back, whole, and may not lead {name}")


def _convict(name: str, detail: str) -> NoReturn:
    raise BrokenInvariantError(name, detail)
