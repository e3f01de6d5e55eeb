"""What must hold of the snapshots of a cluster's metadata, checked after every step of a simulated world.

Owns the promises about what is written down of the metadata and read back: it is the fold of the whole committed log,
under the name of a record that ends there, with the voters of then, and what is gone from a log is in a snapshot; and
that a replica goes by the settings that its metadata says, its controller by those that it has decided. That
an image is the committed one at its offset, however it was come by, ``partition_invariants`` judges. The reference is
the fold record by record; a replica that begins with a snapshot never makes it.

Source: KIP-630; Kafka's ``RaftEventSimulationTest`` (SnapshotAtLogStart).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn, assert_never

from nemesis.simulator.node import Node, Step
from nemesis.simulator.violations import BrokenInvariantError
from nemesis.simulator.voter_book import VoterBook, check_snapshot_voters
from nemesis.simulator.world import Observer
from replica.core import effects as fx
from replica.core import events as ev
from replica.core import messages as m
from replica.core.config import ControllerConfig
from replica.core.dynamic_settings import numbers_of, settings_in_force, with_values
from replica.core.log.recovered import StoredSnapshot
from replica.core.metadata.encoding import records_of
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.levels import level_of
from replica.core.metadata.records import FeatureLevelRecord, MetadataRecord, RegisterBrokerRecord
from replica.core.metadata.replay import METADATA_LOG
from replica.core.metadata.resources import ALL_BROKERS, Configs, told_to
from replica.core.metadata.snapshots import encode_image
from replica.core.replica import Replica
from replica.errors import ErrorCode
from replica.ids import CallId, Offset, ReplicaId, SnapshotId, TopicPartition
from replica.records import RecordBatch

_WRITTEN = frozenset[type]((fx.StoreSnapshot, fx.InstallSnapshot, fx.Reply))
_Change = m.AlterConfigsRequest | m.AlterTopicRequest | m.UpdateFeaturesRequest
_Changed = m.AlterConfigsResponse | m.AlterTopicResponse | m.UpdateFeaturesResponse


class MetadataInvariants(Observer):
    """The promises of metadata snapshots. It is told of committed batches before it is told of the step."""

    def __init__(self, newest_levels: Mapping[ReplicaId, int]) -> None:
        self._newest_levels = newest_levels
        """The newest feature level that the release on each machine knows now."""
        self.books: Mapping[TopicPartition, VoterBook] = {}
        """Who votes in the metadata log by what is committed: given before anything happens."""
        self._image = MetadataImage()
        self._images: dict[SnapshotId, MetadataImage] = {}
        """What each committed batch has led to, by the id that a snapshot of it has."""
        self._history = [self._image]
        """What was committed, image by image."""
        self._asked: dict[tuple[ReplicaId, CallId], int] = {}
        """How long the history was when a replica was asked for a change."""
        self._looked: dict[ReplicaId, tuple[Offset, tuple[StoredSnapshot, ...]]] = {}
        """Log start and snapshots of each replica as they were looked at last."""
        self._configs: dict[ReplicaId, Configs] = {}
        """The settings of each replica's image as they were looked at last."""
        self._decided: dict[ReplicaId, Configs] = {}
        """Those of the image of each controller that is active."""
        self._storing: dict[ReplicaId, fx.StoreSnapshot] = {}
        """The snapshot of each replica that is on its way."""

    def on_metadata(self, batch: RecordBatch) -> None:
        """A batch of the metadata log is committed now."""
        if not batch.is_control:
            before, records = self._image, records_of(batch)
            self._check_levels(before, records)
            self._image = before.apply_all(records)
            _check_eligibility_is_kept(before, self._image, records)
        self._images[SnapshotId(batch.end_offset, batch.leader_epoch)] = self._image
        self._history.append(self._image)

    def _check_levels(self, before: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        """The level only rises, once every broker runs a release that knows it, and no record comes before its level.

        Nobody is given an older release again, so that who knows a level once, knows it when its record is committed.
        """
        level = before.level
        for record in records:
            if isinstance(record, FeatureLevelRecord):
                if record.level <= level:
                    _convict("level-fell", f"the feature level went from {level} to {record.level}")
                level = record.level
                older = [broker for broker in before.brokers if self._newest_levels[broker] < level]
                if older:
                    _convict("level-unknown", f"the feature level is {level}, which brokers {older} do not know")
            elif level_of(record) > level:
                _convict("record-before-its-level", f"the feature level is {level}, and there is {record}")

    def on_boot(self, node: Node, torn_bytes: int) -> None:
        """What was written down is there again, or something older."""
        del torn_bytes
        self._looked.pop(node.replica_id, None)
        self._configs.pop(node.replica_id, None)
        self._decided.pop(node.replica_id, None)
        self._storing.pop(node.replica_id, None)
        recovered = node.recovered[METADATA_LOG]
        if recovered.snapshots and not node.disk.is_damaged:
            self._check_content(node.replica_id, recovered.snapshots[-1].id, recovered.snapshot)

    def on_step(self, node: Node, step: Step) -> None:
        """Look at what is written down, then at where the log begins."""
        match step.event:
            case ev.RequestReceived(call_id=call_id, request=request) if isinstance(request, _Change):
                self._asked[node.replica_id, call_id] = len(self._history)
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
                case fx.Reply(call_id=call_id, response=response) if isinstance(response, _Changed):
                    if response.error is ErrorCode.NONE:
                        self._check_acknowledged(node, call_id)
                case _:
                    pass
        if node.core is not None and step.is_whole_of(METADATA_LOG):
            self._check_settings(node.core, is_hosting=fx.CreateLog in step.kinds)
            self._check_controller(node.core)
            log = node.core.logs[METADATA_LOG]
            looked = (log.log.log_start_offset, log.snapshots)
            if looked != self._looked.get(node.replica_id):
                self._looked[node.replica_id] = looked
                self._check_log_start(node.replica_id, *looked)

    def _check_settings(self, core: Replica, *, is_hosting: bool) -> None:
        """What a replica goes by follows from its image and its start alone: two with one image go by the same."""
        image, replica_id = core.metadata.image, core.config.replica_id
        if image.configs is self._configs.get(replica_id) and not is_hosting:
            return
        self._configs[replica_id] = image.configs
        told = settings_in_force(numbers_of(core.config), told_to(image.configs, replica_id))
        is_followed = core.settings == told
        if core.broker is not None:
            config = with_values(core.config.broker, told.values)
            followed = [core.broker.config, *(partition.config for partition in core.broker.partitions.values())]
            is_followed &= all(each == config for each in followed)
        if not is_followed:
            _convict("settings-in-force", f"replica {replica_id} goes by other settings than its metadata says: {told}")

    def _check_controller(self, core: Replica) -> None:
        """A controller goes by what it has decided; one that begins, by what is committed, whoever decided that."""
        replica_id = core.config.replica_id
        if core.controller is None or not core.controller.is_active:
            self._decided.pop(replica_id, None)
            return
        controller = core.controller.controller
        configs = controller.image.configs
        if configs is self._decided.get(replica_id):
            return
        self._decided[replica_id] = configs
        told = settings_in_force(numbers_of(core.config), configs.get(ALL_BROKERS, {}))
        if controller.config != with_values(core.config.controller or ControllerConfig(), told.values):
            _convict("settings-in-force", f"controller {replica_id} goes by other settings than it has decided: {told}")

    def _check_acknowledged(self, node: Node, call_id: CallId) -> None:
        """What a controller has acknowledged was committed as it was asked for, since it was asked."""
        request, asked = node.requests[call_id], self._asked[node.replica_id, call_id]
        assert isinstance(request, _Change), request
        if not any(_holds(request, image) for image in self._history[asked - 1 :]):
            _convict("acknowledged-change", f"replica {node.replica_id} acknowledged what was not committed: {request}")

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


def _holds(request: _Change, image: MetadataImage) -> bool:
    """Whether what is asked for is so."""
    match request:
        case m.AlterConfigsRequest(resource=resource, configs=wanted):
            configs = image.configs.get(resource, {})
        case m.AlterTopicRequest(name=name, configs=wanted):
            topic = image.topics.get(name)
            if topic is None:
                return False
            configs = topic.configs
        case m.UpdateFeaturesRequest(feature_level=level):
            return image.level == level
        case _:
            assert_never(request)
    return all(configs.get(name) == value for name, value in wanted.items())


def _convict(name: str, detail: str) -> NoReturn:
    raise BrokenInvariantError(name, detail)
