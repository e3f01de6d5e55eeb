"""An image as bytes: there and back, in one form, and what is wrong with bytes that are none."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from replica.core.metadata.encoding import VERSION, encode_record
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.levels import NEWEST_LEVEL
from replica.core.metadata.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    LeaderRecoveryState,
    MetadataRecord,
    PartitionRecord,
    PartitionRegistration,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    ResourceConfigRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from replica.core.metadata.resources import ALL_BROKERS, ConfigResource, ConfigResourceType, broker_resource
from replica.core.metadata.snapshots import decode_image, encode_image, records_of_image
from replica.ids import BrokerEpoch, Epoch, Offset, PartitionEpoch, ReplicaId, SnapshotId, TopicId
from replica.machines import CorruptSnapshotError, ForeignSnapshotError, Snapshot
from replica.machines.snapshots import sealed, unsealed
from tests.core.metadata.test_acls import entry

AT = SnapshotId(Offset(40), Epoch(3))


def registered(
    broker_id: int, epoch: int, rack: str | None = None, last_active: int | None = None
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=ReplicaId(broker_id),
        broker_epoch=BrokerEpoch(epoch),
        incarnation_id=f"{broker_id}.{epoch}",
        directory_id=f"disk-{broker_id}",
        flushes=True,
        address=f"broker-{broker_id}:9092",
        rack=rack,
        last_active_epoch=None if last_active is None else BrokerEpoch(last_active),
    )


def changed(broker_id: int, epoch: int, *, fenced: bool, leaving: bool) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=ReplicaId(broker_id),
        broker_epoch=BrokerEpoch(epoch),
        fenced=fenced,
        in_controlled_shutdown=leaving,
    )


def partition(topic_id: int, number: int, leader_epoch: int) -> PartitionRecord:
    registration = PartitionRegistration(
        replicas=(ReplicaId(2), ReplicaId(1), ReplicaId(3)),
        isr=(ReplicaId(1),),
        elr=(ReplicaId(2),),
        last_known_leader=ReplicaId(2),
        leader_id=ReplicaId(1),
        leader_epoch=Epoch(leader_epoch),
        partition_epoch=PartitionEpoch(leader_epoch + 2),
        leader_recovery_state=LeaderRecoveryState.RECOVERING,
        adding_replicas=(ReplicaId(3),),
        removing_replicas=(ReplicaId(2),),
    )
    return PartitionRecord(topic_id=TopicId(topic_id), partition=number, registration=registration)


SHOP = ConfigResource(resource_type=ConfigResourceType.USER, name="shop")

RECORDS: tuple[MetadataRecord, ...] = (
    registered(1, 5, rack="a", last_active=5),
    changed(1, 5, fenced=False, leaving=True),
    registered(2, 11, last_active=11),
    changed(2, 11, fenced=False, leaving=False),
    registered(3, 14, last_active=8),
    TopicRecord(name="zebra", topic_id=TopicId(20)),
    ConfigRecord(topic_id=TopicId(20), name="min.insync.replicas", value="2"),
    ConfigRecord(topic_id=TopicId(20), name="retention.ms", value="7"),
    partition(20, 0, 4),
    partition(20, 1, 9),
    TopicRecord(name="ant", topic_id=TopicId(30)),
    partition(30, 0, 0),
    ProducerIdsRecord(next_producer_id=17),
    AccessControlEntryRecord(acl=entry("allow User:a read topic orders")),
    AccessControlEntryRecord(acl=entry("deny User:a write topic orders*")),
    ResourceConfigRecord(resource=ALL_BROKERS, name="log_level", value="debug"),
    ResourceConfigRecord(resource=ALL_BROKERS, name="num_partitions", value="6"),
    ResourceConfigRecord(resource=broker_resource(ReplicaId(2)), name="log_level", value="info"),
    ResourceConfigRecord(resource=SHOP, name="request_rate", value="7"),
)
"""Of everything something, in the order in which an image is written down behind its level."""

LEVEL = FeatureLevelRecord(level=NEWEST_LEVEL)
IMAGE = MetadataImage().apply_all([LEVEL, *RECORDS])


def written(*records: MetadataRecord, snapshot_id: SnapshotId = AT) -> Snapshot:
    """A snapshot of these records, whether they are an image or not."""
    named = snapshot_id.end_offset.to_bytes(8) + snapshot_id.epoch.to_bytes(8)
    content = (
        bytes([VERSION]) + named + len(records).to_bytes(4) + b"".join(encode_record(record)[1:] for record in records)
    )
    return Snapshot(id=AT, data=sealed(content))


def cut(snapshot: Snapshot) -> Snapshot:
    """The same, sealed, without its last byte."""
    return Snapshot(id=snapshot.id, data=sealed(unsealed(snapshot.data)[:-1]))


def test_an_image_comes_back_whole() -> None:
    """All that a registration, a topic, a partition and the producer ids can say is in a snapshot."""
    assert decode_image(encode_image(IMAGE, AT)) == IMAGE
    assert decode_image(encode_image(MetadataImage(), AT)) == MetadataImage()


def test_an_image_is_written_down_as_the_records_that_rebuild_it() -> None:
    """In one order, each as the metadata log has it."""
    assert tuple(records_of_image(IMAGE)) == (LEVEL, *RECORDS)
    assert encode_image(IMAGE, AT) == written(LEVEL, *RECORDS)
    assert next(records_of_image(MetadataImage().apply_all(RECORDS))) == RECORDS[0]  # As releases without levels do.


def test_equal_images_are_equal_bytes() -> None:
    """Whatever came first: brokers in any order, settings in any order, what is gone and what was once otherwise."""
    brokers = (registered(1, 5), registered(2, 11), registered(3, 14))
    topic = TopicRecord(name="t", topic_id=TopicId(20))
    configs = tuple(
        ConfigRecord(topic_id=TopicId(20), name=name, value="1") for name in ("retention.ms", "retention.bytes")
    )
    expected = encode_image(MetadataImage().apply_all([*brokers, topic, *configs]), AT)
    gone = (TopicRecord(name="gone", topic_id=TopicId(1)), RemoveTopicRecord(topic_id=TopicId(1)))
    for order in permutations(brokers):
        once = changed(order[0].broker_id, order[0].broker_epoch, fenced=False, leaving=False)
        image = MetadataImage().apply_all([*order, once, *gone, order[0], topic, *reversed(configs)])
        assert encode_image(image, AT) == expected
        assert repr(decode_image(expected)) == repr(image)


@pytest.mark.parametrize("place", range(0, len(encode_image(IMAGE, AT).data), 41))
def test_damage_is_noticed(place: int) -> None:
    """No byte can be another without the checksum telling."""
    data = bytearray(encode_image(IMAGE, AT).data)
    data[place] ^= 1
    with pytest.raises(CorruptSnapshotError, match="checksum"):
        decode_image(Snapshot(id=AT, data=bytes(data)))


@pytest.mark.parametrize(
    ("snapshot", "message"),
    [
        pytest.param(Snapshot(id=AT, data=b""), "checksum", id="empty"),
        pytest.param(Snapshot(id=AT, data=sealed(b"")), "1 bytes are due, 0 are left", id="nothing"),
        pytest.param(written(snapshot_id=SnapshotId(Offset(41), Epoch(3))), "is a snapshot of", id="other end"),
        pytest.param(written(snapshot_id=SnapshotId(Offset(40), Epoch(2))), "is a snapshot of", id="other epoch"),
        pytest.param(cut(written(RECORDS[0])), "are left", id="cut"),
        pytest.param(written(RECORDS[2], RECORDS[0]), "no image is written down as", id="another order"),
        pytest.param(written(RECORDS[0], RECORDS[0]), "no image is written down as", id="twice"),
        pytest.param(written(RECORDS[0], LEVEL), "no image is written down as", id="the level behind it"),
        pytest.param(written(RECORDS[1]), "has not named", id="a broker of nowhere"),
        pytest.param(written(RECORDS[8]), "has not named", id="a partition of nowhere"),
        pytest.param(written(RECORDS[6]), "has not named", id="a setting of nowhere"),
        pytest.param(written(RemoveTopicRecord(topic_id=TopicId(20))), "takes something away", id="a removal"),
        pytest.param(
            written(UnregisterBrokerRecord(broker_id=ReplicaId(1), broker_epoch=BrokerEpoch(5))),
            "takes something away",
            id="a broker that is gone",
        ),
        pytest.param(
            written(RemoveAccessControlEntryRecord(acl=entry("allow User:a read topic orders"))),
            "takes something away",
            id="an entry that is gone",
        ),
        pytest.param(written(RECORDS[-5], RECORDS[-6]), "no image is written down as", id="entries in another order"),
        pytest.param(written(RECORDS[-1], RECORDS[-2]), "no image is written down as", id="settings in another order"),
        pytest.param(
            written(ResourceConfigRecord(resource=SHOP, name="request_rate", value=None)),
            "takes something away",
            id="a quota taken back",
        ),
        pytest.param(
            written(RECORDS[5], ConfigRecord(topic_id=TopicId(20), name="retention.ms", value=None)),
            "takes something away",
            id="a setting taken back",
        ),
        pytest.param(
            written(TopicRecord(name="t", topic_id=TopicId(1)), TopicRecord(name="t", topic_id=TopicId(2))),
            "no image is written down as",
            id="two topics of one name",
        ),
        pytest.param(written(ProducerIdsRecord(next_producer_id=0)), "no image", id="what need not be said"),
        pytest.param(
            written(RECORDS[0], changed(1, 6, fenced=False, leaving=False)),
            "another incarnation",
            id="one that left",
        ),
    ],
)
def test_what_no_image_is_written_down_as_is_refused(snapshot: Snapshot, message: str) -> None:
    """The checksum may fit: what leads to no image, or not in the one way that there is, was not written by us."""
    with pytest.raises(CorruptSnapshotError, match=message):
        decode_image(snapshot)


@pytest.mark.parametrize(
    "of_a_later_release",
    [
        pytest.param(lambda data: bytes([VERSION + 1]) + data[1:], id="another version"),
        pytest.param(lambda data: data.replace(b"\0\0\0\1\4", b"\0\0\0\1\x63"), id="another record"),
        pytest.param(lambda data: data + b"\7", id="more behind it"),
    ],
)
def test_what_a_later_release_may_write_is_refused(of_a_later_release: Callable[[bytes], bytes]) -> None:
    """It is not guessed at, nor fetched again: another copy would say the same."""
    data = unsealed(written(RECORDS[5]).data)
    assert of_a_later_release(data) != data
    with pytest.raises(ForeignSnapshotError, match="no metadata"):
        decode_image(Snapshot(id=AT, data=sealed(of_a_later_release(data))))


def test_the_level_of_a_later_release_is_what_is_said_of_its_snapshot() -> None:
    """It comes before the kinds of records that are not known here, one of which would say less."""
    later = unsealed(written(FeatureLevelRecord(level=NEWEST_LEVEL + 1), RECORDS[5]).data)
    unknown = later.replace(encode_record(RECORDS[5])[1:], b"\xff")
    assert unknown != later
    with pytest.raises(ForeignSnapshotError, match=f"feature level {NEWEST_LEVEL + 1}, and this release knows none"):
        decode_image(Snapshot(id=AT, data=sealed(unknown)))


def without_brokers(image: MetadataImage) -> list[MetadataRecord]:
    return [record for record in records_of_image(image) if not isinstance(record, BrokerRegistrationChangeRecord)]


def without_producer_ids(image: MetadataImage) -> list[MetadataRecord]:
    return [record for record in records_of_image(image) if not isinstance(record, ProducerIdsRecord)]


def without_settings(image: MetadataImage) -> list[MetadataRecord]:
    return [record for record in records_of_image(image) if not isinstance(record, ResourceConfigRecord)]


@pytest.mark.parametrize("left_out", [without_brokers, without_producer_ids, without_settings])
def test_what_is_left_out_is_missed(left_out: Callable[[MetadataImage], list[MetadataRecord]]) -> None:
    """A snapshot that says less is another image: nothing of it follows from the rest."""
    assert decode_image(written(*left_out(IMAGE))) != IMAGE
