"""Snapshots of the metadata in simulated clusters: what convicts, what is counted, and who may lose a disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import force_setattr, replace

from nemesis.schedules.schedule import Schedule
from nemesis.simulator.climate import CALM, Climate
from nemesis.simulator.cluster_climate import ClusterClimate
from nemesis.simulator.cluster_seeds import draw_cluster_climate
from nemesis.simulator.node import Node, Step
from nemesis.simulator.rare import Rare, rares_of
from nemesis.simulator.run import Run, SimOptions, simulate
from nemesis.simulator.world import Observer
from nemesis.verdict import Verdict
from replica.core import effects as fx
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.replay import METADATA_LOG
from replica.core.metadata.snapshots import decode_image, encode_image
from replica.core.quorum.snapshot_header import split_snapshot
from replica.ids import BrokerEpoch, Epoch, ReplicaId, SnapshotId
from replica.machines import EncodedState, Snapshot
from tests.simulator.test_group_invariants import Thawing

OFTEN: dict[str, Any] = {
    "metadata_log_max_record_bytes_between_snapshots": 1,
    "metadata_log_max_snapshot_interval_ms": 1000,
}
ONE = ReplicaId(1)


def calm_run(*observers: Observer, variant: str | None = None, hostile_s: float = 12, **cluster: Any) -> Run:
    """A short run of a calm cluster that takes its metadata down often."""
    climate = dataclasses.replace(CALM, rate=10.0, cluster=dataclasses.replace(ClusterClimate(**OFTEN), **cluster))
    schedule = Schedule(name="simulated", time_limit_s=hostile_s, steps=())
    options = SimOptions(seed=1, time_limit_s=hostile_s + 4, climate=climate, schedule=schedule, variant=variant)
    return simulate(options, observers)


def test_a_calm_cluster_takes_its_metadata_down() -> None:
    """Nothing goes wrong by it, and it is counted."""
    run = calm_run()
    assert run.outcome.verdict is Verdict.VALID, run.outcome.reasons
    assert run.outcome.rare[Rare.METADATA_SNAPSHOT_STORED] >= 3
    assert Rare.METADATA_SNAPSHOT_STORED in rares_of(CALM_CLUSTER.world)


CALM_CLUSTER: Climate = dataclasses.replace(CALM, cluster=ClusterClimate())


class Forger(Observer):
    """Lets one replica write down other metadata than it has applied: the judges are told so."""

    def __init__(self, forge: Callable[[MetadataImage, SnapshotId], tuple[MetadataImage, SnapshotId]]) -> None:
        self._forge = forge
        self.is_done = False

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        for effect in step.effects:
            if isinstance(effect, fx.StoreSnapshot) and node.replica_id == ONE and not self.is_done:
                data = effect.state.encode()
                _, content = split_snapshot(data)
                image = decode_image(Snapshot(id=effect.snapshot_id, data=content))
                if not image.brokers or (image, effect.snapshot_id) == self._forge(image, effect.snapshot_id):
                    continue
                image, snapshot_id = self._forge(image, effect.snapshot_id)
                forged = encode_image(image, snapshot_id)
                header = data.removesuffix(content)
                force_setattr(effect, "state", EncodedState(header + forged.data))  # Before it is judged.
                force_setattr(effect, "snapshot_id", forged.id)
                self.is_done = True


def other_producer_ids(image: MetadataImage, snapshot_id: SnapshotId) -> tuple[MetadataImage, SnapshotId]:
    return replace(image, next_producer_id=image.next_producer_id + 1), snapshot_id


def without_a_broker(image: MetadataImage, snapshot_id: SnapshotId) -> tuple[MetadataImage, SnapshotId]:
    return replace(image, brokers=dict(list(image.brokers.items())[1:])), snapshot_id


def another_broker_epoch(image: MetadataImage, snapshot_id: SnapshotId) -> tuple[MetadataImage, SnapshotId]:
    brokers = {one: replace(broker, broker_epoch=BrokerEpoch(0)) for one, broker in image.brokers.items()}
    return replace(image, brokers=brokers), snapshot_id


def without_settings(image: MetadataImage, snapshot_id: SnapshotId) -> tuple[MetadataImage, SnapshotId]:
    return replace(image, configs={}), snapshot_id


def another_end(image: MetadataImage, snapshot_id: SnapshotId) -> tuple[MetadataImage, SnapshotId]:
    return image, replace(snapshot_id, epoch=Epoch(snapshot_id.epoch + 1))


@pytest.mark.parametrize(
    ("forge", "name"),
    [
        (other_producer_ids, "snapshot-content"),
        (without_a_broker, "snapshot-content"),
        (another_broker_epoch, "snapshot-content"),
        (without_settings, "snapshot-content"),
        (another_end, "snapshot-id"),
    ],
)
def test_a_snapshot_of_other_metadata_convicts(
    forge: Callable[[MetadataImage, SnapshotId], tuple[MetadataImage, SnapshotId]], name: str
) -> None:
    """Whatever it says that the committed log does not lead to."""
    forger = Forger(forge)
    run = calm_run(forger, setting_changes=120.0)
    assert forger.is_done
    assert run.outcome.violation is not None
    assert run.outcome.violation.name == name


class Thawer(Observer):
    """Lets one replica's metadata go on while they are written down."""

    def __init__(self) -> None:
        self.views = 0

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        for effect in step.effects:
            if isinstance(effect, fx.StoreSnapshot) and node.replica_id == ONE:
                force_setattr(effect, "state", Thawing(effect.state))
                self.views += 1


def test_a_snapshot_that_what_is_applied_later_gets_into_convicts() -> None:
    """It was right when it was taken, and is another when it is stored."""
    thawer = Thawer()
    run = calm_run(thawer)
    assert thawer.views == 1
    assert run.outcome.violation is not None
    assert run.outcome.violation.name == "snapshot-content"


class Beginner(Observer):
    """Lets one log claim to begin where no snapshot ends."""

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``."""
        log = None if node.core is None else node.core.logs[METADATA_LOG].log
        if step.is_whole and node.replica_id == ONE and log is not None and len(log.snapshots) == 2:
            log.snapshots = log.snapshots[1:]


def test_a_log_that_begins_without_a_snapshot_convicts() -> None:
    """What is gone from it must be in one."""
    run = calm_run(Beginner())
    assert run.outcome.violation is not None
    assert run.outcome.violation.name == "snapshot-at-log-start"


def test_who_leaves_something_out_is_convicted() -> None:
    """The variant whose snapshots forget which producer ids are given away, in a world where some are."""
    run = calm_run(variant="producer-ids-not-in-snapshot", idempotent=1.0)
    assert run.outcome.violation is not None
    assert run.outcome.violation.name == "snapshot-content"


def test_seeds_differ_in_their_snapshots() -> None:
    """In some worlds all is kept, in most the log gives way; brokers without a vote are in some."""
    drawn = [draw_cluster_climate(Random(seed)) for seed in range(300)]
    clusters = [climate.cluster for climate in drawn if climate.cluster is not None]
    often = [one for one in clusters if one.metadata_log_max_record_bytes_between_snapshots < 1 << 20]
    assert 150 < len(often) < 270
    assert {one.observers for one in clusters} == {0, 1, 2}
    pieces = {climate.fetch_max_bytes for climate in drawn if climate.cluster in often}
    assert 1 not in pieces
