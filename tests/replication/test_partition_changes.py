"""What a replica makes of the controller's decisions about a partition, early, late or repeated: Kafka's PartitionTest.

Broker 1 is a whole replica; the scenario is the controller, and the brokers 8 and 9.
"""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.partition.roles import Follower, Leader, RemoteReplica
from replica.errors import ErrorCode
from replica.ids import Epoch, EpochEndOffset, Offset, PartitionEpoch, ReplicaId
from replica.records import encode_batch
from tests.replication.decided import BROKER, NEWS_MS, OTHER, THIRD, TOPIC, DecidedCluster, fetched_of
from tests.replication.puppets import fetched
from tests.replication.stage import FAST_BROKER, Heard

PATIENT = dataclasses.replace(FAST_BROKER, replica_socket_timeout_ms=30_000)
"""A follower waits for one answer all the time."""


def leading(records: int = 6) -> DecidedCluster:
    """Broker 1 leads a partition with so many records, which 9 follows and has fetched."""
    cluster = DecidedCluster()
    cluster.assign(BROKER, OTHER)
    cluster.append(records)
    cluster.fetch_as(OTHER, records)
    assert cluster.high_watermark == records
    return cluster


def following() -> tuple[DecidedCluster, Heard]:
    """Broker 1 follows 9 with one record; it has fetched again, and waits for the answer."""
    cluster = DecidedCluster(broker=PATIENT)
    cluster.assign(OTHER, BROKER, THIRD)
    cluster.world.heard[OTHER].popleft().answer(
        fetched(TOPIC, records=encode_batch([b"v"], leader_epoch=0).data, high_watermark=0)
    )
    cluster.pass_ms(NEWS_MS)
    return cluster, cluster.world.heard[OTHER].popleft()


def asked(cluster: DecidedCluster, leader_id: ReplicaId) -> list[tuple[int, int | None]]:
    """The fetches that wait at a leader: their offsets and leader epochs."""
    fetches = [heard.request for heard in cluster.world.heard[leader_id]]
    assert all(isinstance(request, m.FetchRequest) for request in fetches), fetches
    parts = [request.partitions[0] for request in fetches if isinstance(request, m.FetchRequest)]
    return [(part.fetch_offset, part.current_leader_epoch) for part in parts]


# --- who is a replica -----------------------------------------------------------------------------------------------


def test_fetch_from_unrecognized_follower() -> None:
    """A broker that the leader does not know as a replica is refused until the leader hears that it is one."""
    cluster = leading()
    assert cluster.fetch_as(THIRD, 0) is ErrorCode.UNKNOWN_LEADER_EPOCH

    cluster.change(replicas=(BROKER, OTHER, THIRD))

    assert cluster.fetch_as(THIRD, 0) is ErrorCode.NONE
    assert cluster.fetch_as(THIRD, 6) is ErrorCode.NONE
    proposal, _ = cluster.take_proposal()
    assert [member.broker_id for member in proposal.new_isr] == [BROKER, OTHER, THIRD]


# --- older than what is known ---------------------------------------------------------------------------------------


def test_ignore_leader_partition_state_change_with_older_partition_epoch() -> None:
    """A leader that hears late of another leader, ISR and assignment leads on, and counts as before."""
    cluster = leading()
    late = replace(cluster.present, leader_id=OTHER, leader_epoch=Epoch(1), isr=(OTHER,), replicas=(BROKER, OTHER))
    cluster.change(partition_epoch=PartitionEpoch(5), replicas=(BROKER, OTHER, THIRD))

    for partition_epoch in (0, 4):
        cluster.repeat(replace(late, partition_epoch=PartitionEpoch(partition_epoch)))

    assert cluster.isrs == ({BROKER, OTHER}, {BROKER, OTHER})
    cluster.append(1)
    assert cluster.high_watermark == 6
    assert cluster.fetch_as(THIRD, 0) is ErrorCode.NONE
    assert cluster.fetch_as(OTHER, 7) is ErrorCode.NONE
    assert (cluster.high_watermark, cluster.replica(BROKER, TOPIC).leader_epoch) == (7, 0)


def test_ignore_follower_partition_state_change_with_older_partition_epoch() -> None:
    """A follower that hears late of another leader follows on, and does not take up the earlier epoch."""
    cluster, waiting = following()
    cluster.change(partition_epoch=PartitionEpoch(5), leader_epoch=Epoch(3))
    waiting.answer(fetched(TOPIC, error=ErrorCode.FENCED_LEADER_EPOCH))
    cluster.pass_ms(NEWS_MS)
    assert asked(cluster, OTHER) == [(1, 3)]

    for leader_id, partition_epoch in ((THIRD, 4), (BROKER, 4), (THIRD, 0)):
        cluster.repeat(
            replace(
                cluster.present,
                leader_id=leader_id,
                leader_epoch=Epoch(2),
                partition_epoch=PartitionEpoch(partition_epoch),
            )
        )

    assert (asked(cluster, THIRD), asked(cluster, OTHER)) == ([], [(1, 3)])
    replica = cluster.replica(BROKER, TOPIC)
    assert (replica.leader_epoch, replica.leader_id) == (3, OTHER)
    cluster.world.heard[OTHER].popleft().answer(
        fetched(TOPIC, records=encode_batch([b"v"], base_offset=1, leader_epoch=3).data)
    )
    cluster.pass_ms(NEWS_MS)
    assert asked(cluster, OTHER) == [(2, 3)]


# --- the same leader epoch ------------------------------------------------------------------------------------------


def leadership(cluster: DecidedCluster) -> Leader:
    """What the broker knows as a leader."""
    role = cluster.replica(BROKER, TOPIC).role
    assert isinstance(role, Leader), role
    return role


def test_do_not_reset_replica_state_if_leader_epoch_is_not_bumped() -> None:
    """Another ISR in the same leader epoch takes nothing from what the leader knows of its followers."""
    cluster = leading()
    known = leadership(cluster).remotes[OTHER]
    assert known.log_end_offset == 6
    cluster.change(isr=(BROKER,))
    assert leadership(cluster).remotes[OTHER] == known


def test_do_not_update_epoch_start_offset_if_leader_epoch_is_not_bumped() -> None:
    """The leader's epoch began where it began, in its memory and in its cache, whatever else changes in it."""
    cluster = leading()
    cluster.change(isr=(BROKER,))
    assert leadership(cluster).epoch_start_offset == 0
    assert cluster.cache(BROKER, TOPIC) == [(0, 0)]
    cluster.change(leader_epoch=Epoch(1))
    assert leadership(cluster).epoch_start_offset == 6
    assert cluster.cache(BROKER, TOPIC) == [(0, 0), (1, 6)]


def test_make_follower_with_no_leader_id_change() -> None:
    """A follower whose leader and leader epoch stay goes on waiting for the same answer, and takes it."""
    cluster, waiting = following()
    cluster.change(isr=(OTHER, BROKER))
    cluster.pass_ms(NEWS_MS)
    assert asked(cluster, OTHER) == []

    waiting.answer(fetched(TOPIC, records=encode_batch([b"v"], base_offset=1, leader_epoch=0).data))
    cluster.pass_ms(NEWS_MS)

    assert asked(cluster, OTHER) == [(2, 0)]


# --- another leader epoch -------------------------------------------------------------------------------------------


def test_follower_should_not_have_any_remote_replica_states() -> None:
    """A leader that becomes a follower forgets the others: when it leads again, nothing that they had counts."""
    cluster = leading()
    cluster.change(leader_id=OTHER, leader_epoch=Epoch(1))
    assert isinstance(cluster.replica(BROKER, TOPIC).role, Follower)
    cluster.change(leader_id=BROKER, leader_epoch=Epoch(2))

    known = leadership(cluster).remotes[OTHER]
    assert known == RemoteReplica(last_caught_up_ms=known.last_caught_up_ms)
    cluster.append(1)
    assert cluster.high_watermark == 6


def test_delta_follower_stop_fetcher_before_creating_initial_fetch_offset() -> None:
    """What the leader sent in the epoch before is not appended any more once the next epoch's fetch has its offset."""
    cluster, waiting = following()
    cluster.change(leader_epoch=Epoch(1))

    waiting.answer(fetched(TOPIC, records=encode_batch([b"v"], base_offset=1, leader_epoch=0).data, high_watermark=2))
    cluster.pass_ms(NEWS_MS)

    replica = cluster.replica(BROKER, TOPIC)
    assert (replica.log.log_end_offset, replica.high_watermark) == (1, 0)
    assert asked(cluster, OTHER) == [(1, 1)]


# --- fetches that wait (Kafka's DelayedFetchTest) -------------------------------------------------------------------


def waiting_fetch(cluster: DecidedCluster, asker: ReplicaId | None) -> list[m.Response | None]:
    """A fetch at the end of the log, by a replica or a consumer, that waits for long."""
    if asker is not None:
        answers = cluster.begin_fetch(asker, 6, max_wait_ms=20_000)
    else:
        part = m.FetchPartition(topic_partition=TOPIC, fetch_offset=Offset(6), current_leader_epoch=Epoch(0))
        answers = cluster.begin(BROKER, m.FetchRequest(partitions=(part,), max_wait_ms=20_000))
    cluster.pass_ms(1000)
    assert answers == []
    return answers


@pytest.mark.parametrize("asker", [OTHER, None], ids=["replica", "consumer"])
def test_fetch_with_fenced_epoch(asker: ReplicaId | None) -> None:
    """A fetch that waits is answered at once when its leader epoch is over, though the leader stays."""
    cluster = leading()
    answers = waiting_fetch(cluster, asker)
    cluster.change(leader_epoch=Epoch(1))
    assert fetched_of(answers).error is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("asker", [OTHER, None], ids=["replica", "consumer"])
def test_not_leader_or_follower(asker: ReplicaId | None) -> None:
    """A fetch that waits is answered at once when its partition is moved away: others have it."""
    cluster = leading()
    answers = waiting_fetch(cluster, asker)
    cluster.change(replicas=(OTHER,), isr=(OTHER,), leader_id=OTHER, leader_epoch=Epoch(1))
    assert fetched_of(answers).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("last_fetched_epoch", [Epoch(0), None], ids=["test_diverging_epoch", "log_cut_below_offset"])
def test_diverging_epoch(last_fetched_epoch: Epoch | None) -> None:
    """A fetch that waits on a log that is cut below it is answered at once: with where the logs part, if it can tell.

    (The log is that of a leader that has come to follow another one.)
    """
    cluster = leading()
    cluster.change(leader_id=OTHER, leader_epoch=Epoch(1))
    part = m.FetchPartition(topic_partition=TOPIC, fetch_offset=Offset(6), last_fetched_epoch=last_fetched_epoch)
    answers = cluster.begin(BROKER, m.FetchRequest(partitions=(part,), max_wait_ms=20_000))
    cluster.pass_ms(200)
    assert answers == []

    cluster.world.heard[OTHER][-1].answer(fetched(TOPIC, diverging=(0, 4)))
    cluster.pass_ms(NEWS_MS)

    told = fetched_of(answers)
    if last_fetched_epoch is None:
        assert told.error is ErrorCode.OFFSET_OUT_OF_RANGE
    else:
        assert (told.error, told.diverging_epoch) == (ErrorCode.NONE, EpochEndOffset(Epoch(0), Offset(4)))
    assert cluster.replica(BROKER, TOPIC).log.log_end_offset == 4
