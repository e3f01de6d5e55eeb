"""Back-up and restore of a topic, between simulated clusters: the same records in the same order, once each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from msgspec.structs import replace

from replica.cli.topic_backup import copy_topic, restore_topic
from replica.client.admin import Admin
from replica.client.cluster_view import ClusterView, ViewConfig
from replica.client.failures import ReadFailedError
from replica.core import messages as m
from replica.ids import Epoch, Offset, TopicPartition
from replica.records import Compression, Record, RecordBatch, decode_records, encode_batch
from replica.storage.topic_backup import (
    PartitionBackup,
    SegmentWriter,
    TopicBackup,
    check_whole,
    read_manifest,
    write_manifest,
)
from tests.client.virtual import ClusterConnections, bootstrap
from tests.replication.bench import Cluster

VIEW = ViewConfig(request_timeout_ms=2000, api_timeout_ms=20_000)
TOPIC = TopicPartition("orders", 0)


class Clients:
    """What the commands use, on a simulated cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.connections = ClusterConnections(cluster)
        others: Any = {"connections": self.connections, "clock": self.connections.clock}
        self.admin = Admin(bootstrap(cluster), VIEW, **others)
        self.view = ClusterView(bootstrap(cluster), VIEW, **others)

    async def copy(self, folder: Path) -> TopicBackup:
        """Back up ``orders``."""
        return await copy_topic(self.admin, self.view, "orders", folder)

    async def restore(self, folder: Path, name: str = "orders") -> None:
        """Restore it."""
        backup = read_manifest(folder)
        assert backup is not None
        assert check_whole(folder, backup) == sum(one.end_offset - one.base_offset for one in backup.partitions)
        await restore_topic(self.admin, self.view, folder, backup, name, 2)


def write(cluster: Cluster, batch: RecordBatch, name: TopicPartition = TOPIC) -> None:
    """Let the leader append a batch, as a client has made it."""
    cluster.wait(lambda: cluster.registration(name).leader_id is not None, "a leader")
    request = m.ProduceRequest(topic_partition=name, acks=-1, timeout_ms=1000, records=batch.data)
    answer = cluster.ask(cluster.leader(name), request, m.ProduceResponse)
    assert answer.base_offset is not None, answer


def records_of(cluster: Cluster, name: TopicPartition) -> list[Record]:
    """What a partition holds, as it stands in the leader's log from where it begins."""
    leader = cluster.leader(name)
    start = cluster.replica(leader, name).log.log_start_offset
    return [
        record for batch in cluster.batches(leader, name) for record in decode_records(batch) if record.offset >= start
    ]


def without_offsets(records: list[Record]) -> list[Record]:
    """The same, but for where they stand."""
    return [replace(record, offset=Offset(0)) for record in records]


def some_records(cluster: Cluster, count: int = 12) -> None:
    """Write batches of one to three records with keys, headers and times, some compressed, one by a producer."""
    for number in range(count):
        records = [
            Record(
                offset=Offset(delta),
                timestamp_ms=1_000_000_000_000 + number * 1000 - delta,
                key=None if number % 3 == 0 else b"key-%d" % number,
                value=None if delta == 1 else b"value-%d" % number * 20,
                headers=(("h", b"%d" % number), ("empty", None)) if number % 2 else (),
            )
            for delta in range(1 + number % 3)
        ]
        codec = (Compression.NONE, Compression.LZ4, Compression.ZSTD)[number % 3]
        write(cluster, encode_batch(records, compression=codec))
    write(cluster, encode_batch([b"idempotent"], producer_id=0, producer_epoch=0, base_sequence=0))


def restored_of(source: Cluster) -> Cluster:
    """A fresh cluster, whose producer ids are given away anew."""
    assert source.controller_id
    return Cluster(2)


async def test_a_restored_topic_has_the_same_records(tmp_path: Path) -> None:
    """Keys, values, headers and times, in the same order, and the settings: in another cluster, by another name too."""
    source = Cluster(3)
    source.create("orders", (1, 2), (2, 3), retention_ms="1000000", min_insync_replicas="2")
    some_records(source)
    source.produce(TopicPartition("orders", 1), b"other")
    made = await Clients(source).copy(tmp_path / "backup")
    assert [(one.start_offset, one.end_offset) for one in made.partitions] == [(0, 25), (0, 1)]

    target = restored_of(source)
    clients = Clients(target)
    for name in ("orders", "again"):
        await clients.restore(tmp_path / "backup", name)
        for number in (0, 1):
            there = records_of(target, TopicPartition(name, number))
            assert there == records_of(source, TopicPartition("orders", number))
        assert target.image.topics[name].configs == source.image.topics["orders"].configs
    with pytest.raises(click.ClickException, match="exists already; choose another name with --topic, or delete it"):
        await clients.restore(tmp_path / "backup")


async def test_a_producer_of_the_new_cluster_is_not_taken_for_an_old_one(tmp_path: Path) -> None:
    """Ids are given away anew there: a batch that was produced under the same id and number is no repetition."""
    source = Cluster(3)
    source.create("orders", (1, 2))
    some_records(source)
    await Clients(source).copy(tmp_path)
    target = restored_of(source)
    await Clients(target).restore(tmp_path)
    for producer_id in range(1, 3):
        before = len(records_of(target, TOPIC))
        write(target, encode_batch([b"new"], producer_id=producer_id, producer_epoch=0, base_sequence=0))
        assert len(records_of(target, TOPIC)) == before + 1


async def test_times_of_the_append_are_kept(tmp_path: Path) -> None:
    """A batch that bears the time of its append comes with that as the time of each record; leaders stamp on."""
    records = [Record(offset=Offset(5 + delta), timestamp_ms=7, key=None, value=b"v") for delta in range(2)]
    writer = SegmentWriter(tmp_path, TOPIC)
    writer.append(encode_batch(records, base_offset=5, leader_epoch=0, compression=Compression.LZ4).at_append_time(99))
    segment = writer.finish()
    assert segment is not None
    backup = TopicBackup(
        topic="orders",
        topic_id=1,
        cluster_id="c",
        release="1",
        taken_ms=0,
        configs={"message.timestamp.type": "LogAppendTime"},
        partitions=(PartitionBackup(partition=0, start_offset=5, segments=(segment,)),),
    )
    write_manifest(tmp_path, backup)
    target = Cluster(2)
    await Clients(target).restore(tmp_path)
    there = [(record.offset, record.timestamp_ms, record.value) for record in records_of(target, TOPIC)]
    assert there == [(0, 99, b"v"), (1, 99, b"v")]
    assert target.image.topics["orders"].configs["message.timestamp.type"] == "LogAppendTime"


async def test_deleted_records_stay_away_and_offsets_are_smaller(tmp_path: Path) -> None:
    """A partition that began later begins at its first batch's offset less; what was deleted of that batch is gone."""
    source = Cluster(3)
    source.create("orders", (1, 2))
    some_records(source)
    source.delete_records(TOPIC, Offset(5))
    source.wait(lambda: source.replica(source.leader(TOPIC), TOPIC).log.log_start_offset == 5, "a later beginning")
    made = await Clients(source).copy(tmp_path)
    (one,) = made.partitions
    assert (one.base_offset, one.start_offset) == (3, 5)
    target = restored_of(source)
    await Clients(target).restore(tmp_path)
    there = records_of(target, TOPIC)
    assert [record.offset for record in there] == [record.offset - 3 for record in records_of(source, TOPIC)]
    assert without_offsets(there) == without_offsets(records_of(source, TOPIC))


async def test_a_back_up_is_continued(tmp_path: Path) -> None:
    """The second time only what is new is read and written; one that breaks off in between changes nothing."""
    source = Cluster(3)
    source.create("orders", (1, 2))
    some_records(source, 3)
    clients = Clients(source)
    first = await clients.copy(tmp_path)
    some_records_again = 4
    for number in range(some_records_again):
        write(source, encode_batch([b"more-%d" % number]))

    (tmp_path / "orders-0" / "segment.tmp").write_bytes(b"broken off")
    assert read_manifest(tmp_path) == first
    asked = len(clients.connections.calls)
    second = await clients.copy(tmp_path)
    fetched = [request for _, request in clients.connections.calls[asked:] if isinstance(request, m.FetchRequest)]
    assert {part.fetch_offset for request in fetched for part in request.partitions} == {first.partitions[0].end_offset}
    assert second.partitions[0].segments[:-1] == first.partitions[0].segments
    assert replace(await clients.copy(tmp_path), taken_ms=second.taken_ms) == second
    target = restored_of(source)
    await Clients(target).restore(tmp_path)
    assert records_of(target, TOPIC) == records_of(source, TOPIC)


async def test_a_topic_of_the_same_name_is_another(tmp_path: Path) -> None:
    """What was deleted and created anew is not added to the back-up of the first."""
    source = Cluster(3)
    source.create("orders", (1, 2))
    some_records(source, 2)
    clients = Clients(source)
    await clients.copy(tmp_path)
    await clients.admin.delete_topic("orders")
    source.create("orders", (1, 2))
    some_records(source, 2)
    with pytest.raises(click.ClickException, match="holds a back-up of topic orders with id"):
        await Clients(source).copy(tmp_path)


async def test_a_gap_is_refused(tmp_path: Path) -> None:
    """Where records were deleted that the back-up has not got, it cannot go on."""
    source = Cluster(3)
    source.create("orders", (1, 2))
    some_records(source, 2)
    clients = Clients(source)
    (one,) = (await clients.copy(tmp_path)).partitions
    some_records(source, 2)
    source.delete_records(TOPIC, Offset(one.end_offset + 1))
    with pytest.raises(click.ClickException, match="begins at offset 5 now, and the back-up ends at 4"):
        await Clients(source).copy(tmp_path)


async def test_a_log_that_was_cut_is_not_continued(tmp_path: Path) -> None:
    """After an unclean election other records stand where the back-up ends: it is not continued with those."""
    source = Cluster(3)
    source.create("orders", (1, 2))
    some_records(source, 1)
    made = await Clients(source).copy(tmp_path)
    ends = made.partitions[0]
    lied = replace(made, partitions=(replace(ends, segments=(replace(ends.segments[0], last_epoch=Epoch(77)),)),))
    write(source, encode_batch([b"more"]))
    write_manifest(tmp_path, lied)
    with pytest.raises(ReadFailedError):
        await Clients(source).copy(tmp_path)


@pytest.mark.parametrize("lost", [3, 4, 5, 11])
async def test_lost_answers_write_nothing_twice(tmp_path: Path, lost: int) -> None:
    """Every so many answers to a Produce are lost: the batch is sent again, and stands there once."""
    source = Cluster(3)
    source.create("orders", (1, 2))
    some_records(source)
    await Clients(source).copy(tmp_path)
    target = restored_of(source)
    clients = Clients(target)
    produced = iter(range(1 << 20))
    clients.connections.lose = lambda _, request: isinstance(request, m.ProduceRequest) and next(produced) % lost == 0
    await clients.restore(tmp_path)
    assert records_of(target, TOPIC) == records_of(source, TOPIC)


async def test_a_stranger_s_records_are_noticed(tmp_path: Path) -> None:
    """Where somebody else writes meanwhile, the restore ends and says so."""
    source = Cluster(3)
    source.create("orders", (1, 2))
    some_records(source)
    await Clients(source).copy(tmp_path)
    target = restored_of(source)
    clients = Clients(target)

    answered = iter(range(1 << 20))

    def stranger(_: object, request: m.Request) -> bool:
        if isinstance(request, m.ProduceRequest) and next(answered) == 4:
            write(target, encode_batch([b"stranger"]))
        return False

    clients.connections.lose = stranger
    with pytest.raises(click.ClickException, match=r"somebody else writes to it: .* orders is not whole: delete it"):
        await clients.restore(tmp_path)
