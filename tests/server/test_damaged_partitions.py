"""Real processes whose partitions' logs are damaged: the broker goes on, and the log is fetched anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.core import messages as m
from replica.errors import ErrorCode
from replica.ids import Offset, ReplicaId
from tests.server.local_cluster import LocalCluster
from tests.server.test_partitions import running
from tests.server.topics import Topics, all_in_sync

pytestmark = pytest.mark.cluster

TWO = ReplicaId(2)
VALUE = "v" * 1000
COUNT = 20


async def written(topics: Topics) -> None:
    """A topic of two partitions, with much more in the first than is looked at when a log was closed cleanly."""
    await topics.create(partitions=2, replication_factor=3, min_isr=2)
    await topics.wait_partitions(all_in_sync)
    for _ in range(COUNT):
        await topics.write(0, VALUE)
    await topics.write(1, VALUE)
    await topics.wait_same_copies(topics.log(0))


def flip_a_bit(cluster: LocalCluster, topics: Topics) -> None:
    """Flip one bit of the first record of the first partition, on the disk of broker 2."""
    path = cluster.segment(TWO, topics.log(0))
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)


def told(cluster: LocalCluster, event: str) -> list[tuple[str, int]]:
    """Of which partitions broker 2 has told this."""
    return [(line["topic"], line["partition"]) for line in cluster.lines(TWO) if line["event"] == event]


async def assert_repaired(cluster: LocalCluster, topics: Topics) -> None:
    """All copies are whole again, which broker 2 has fetched anew, and it has never halted."""
    await topics.wait_same_copies(topics.log(0))
    await topics.wait_partitions(all_in_sync)
    assert list((await topics.read(0)).values()) == [VALUE] * COUNT
    await topics.wait_same_copies(topics.log(1))
    assert cluster.is_alive(TWO)
    assert {line["level"] for line in cluster.lines(TWO) if line["event"] == "log_damaged"} == {"error"}
    assert told(cluster, "log_damaged") == told(cluster, "damaged_log_replaced") == [("t", 0)]
    assert [line for line in cluster.lines(TWO) if line["event"] == "halted"] == []
    assert len(list(cluster.data_dir(TWO).glob("t-0.*-damaged"))) == 1


async def test_a_flipped_bit_that_a_start_finds(tmp_path: Path) -> None:
    """After a kill all logs are searched: the one that is damaged is offline, the broker starts all the same."""
    options = ("--log-flush-offset-checkpoint-interval-ms", "100")
    async with running(tmp_path, options=options) as (cluster, topics):
        await written(topics)
        cluster.stop(TWO)
        flip_a_bit(cluster, topics)
        (cluster.data_dir(TWO) / ".kafka_cleanshutdown").unlink()
        cluster.start(TWO)
        await assert_repaired(cluster, topics)


async def test_a_flipped_bit_that_a_consumer_reads(tmp_path: Path) -> None:
    """After a clean stop nobody looks; the consumer that does is told so, and only of this partition."""
    async with running(tmp_path) as (cluster, topics):
        await written(topics)
        cluster.stop(TWO)
        flip_a_bit(cluster, topics)
        cluster.start(TWO)
        await topics.wait_partitions(all_in_sync)
        assert told(cluster, "log_damaged") == []
        names = (topics.log(0), topics.log(1))
        parts = tuple(m.FetchPartition(topic_partition=name, fetch_offset=Offset(0)) for name in names)
        answer = await topics.ask(TWO, m.FetchRequest(partitions=parts))
        assert isinstance(answer, m.FetchResponse)
        assert [part.error for part in answer.partitions] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        assert answer.partitions[1].records
        await assert_repaired(cluster, topics)
