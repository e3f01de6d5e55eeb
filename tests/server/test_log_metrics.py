"""What the page tells of logs: who leads them, how far their followers are, and how often roles have changed."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from replica.core.events import Ticked
from replica.core.partition.roles import CommittedIsr, RemoteReplica
from replica.core.partition.roles import Leader as PartitionLeader
from replica.core.quorum.roles import Leader as QuorumLeader
from replica.core.quorum.roles import ReplicaProgress
from replica.ids import Epoch, Offset, ReplicaId, TopicPartition
from replica.server.metrics import Metrics
from replica.server.view import NamedRole
from replica.voters import ReplicaKey
from tests.core.harness import voters_of
from tests.server.driver_fakes import LOG
from tests.server.observer_fakes import (
    FakeEnd,
    FakePartition,
    FakeReplica,
    FakeRole,
    FakeView,
    observer_of_replica,
)

TWO, THREE, FOUR = ReplicaId(2), ReplicaId(3), ReplicaId(4)
PARTITION = TopicPartition("orders", 0)


def progress(end_offset: int | None) -> ReplicaProgress:
    """What a leader knows of one that has fetched up to here."""
    return ReplicaProgress(
        log_end_offset=None if end_offset is None else Offset(end_offset), last_fetch_ms=0, announce_at_ms=0
    )


VOTED = QuorumLeader(
    epoch_start_offset=Offset(0),
    voter_set=voters_of(1, 2, 3),
    voters={TWO: progress(7), THREE: progress(None)},
    observers={ReplicaKey(FOUR, "d"): progress(12)},
)
APPOINTED = PartitionLeader(
    epoch_start_offset=Offset(0),
    isr_state=CommittedIsr(isr=frozenset({TWO})),
    remotes={
        TWO: RemoteReplica(log_end_offset=Offset(7)),
        THREE: RemoteReplica(),
        FOUR: RemoteReplica(log_end_offset=Offset(12)),
    },
    shrink_check_at_ms=0,
)


def replica_with(role: NamedRole, *, of_partition: bool) -> tuple[FakeReplica, TopicPartition]:
    """A replica that has this role in one log, which ends at 10."""
    if of_partition:
        return FakeReplica(logs={}, partitions={PARTITION: FakePartition(role=role)}), PARTITION
    return FakeReplica(logs={LOG: FakeView(role=role)}), LOG


def lags(replica: FakeReplica, log: TopicPartition) -> dict[ReplicaId, float | None]:
    """What the page says of each follower."""
    registry = Metrics(replica).registry
    labels = {"topic": log.topic, "partition": str(log.partition)}
    return {
        follower: registry.get_sample_value("replica_follower_lag", {**labels, "follower": str(follower)})
        for follower in (TWO, THREE, FOUR)
    }


@pytest.mark.parametrize(("role", "of_partition"), [(VOTED, False), (APPOINTED, True)], ids=["quorum", "partition"])
def test_a_leader_tells_how_far_each_follower_is(role: NamedRole, *, of_partition: bool) -> None:
    """Lag is what a follower has not fetched: unknown before its first fetch, and never less than none."""
    assert lags(*replica_with(role, of_partition=of_partition)) == {TWO: 3, THREE: None, FOUR: 0}


def test_a_follower_tells_of_nobodys_lag() -> None:
    """Only the leader knows."""
    assert set(lags(*replica_with(FakeRole("follower"), of_partition=True)).values()) == {None}


def test_the_page_tells_where_logs_begin_and_whether_they_are_led() -> None:
    """Of each log, quorum's or partition's; a log whose leader nobody knows has 0, and not nothing."""
    begins = FakeEnd(log_start_offset=Offset(4))
    replica = FakeReplica(logs={LOG: FakeView(leader_id=None, log=begins)}, partitions={PARTITION: FakePartition()})
    registry = Metrics(replica).registry
    assert registry.get_sample_value("replica_log_start_offset", {"topic": "log", "partition": "0"}) == 4
    assert registry.get_sample_value("replica_has_leader", {"topic": "log", "partition": "0"}) == 0
    replica.logs[LOG].leader_id = TWO
    assert registry.get_sample_value("replica_has_leader", {"topic": "log", "partition": "0"}) == 1
    assert registry.get_sample_value("replica_has_leader", {"topic": "orders", "partition": "0"}) == 0


def test_each_change_of_role_is_counted_by_the_new_role() -> None:
    """As many as there are lines role_changed: a second candidacy, in another epoch, is one more."""
    view = FakeView()
    observer, metrics = observer_of_replica(FakeReplica(logs={LOG: view}))
    with capture_logs() as lines:
        for role, epoch in (("candidate", 4), ("candidate", 5), ("leader", 5), ("leader", 5)):
            view.role, view.leader_epoch = FakeRole(role), Epoch(epoch)
            observer.on_step(Ticked(), (), 1)
    counted = {
        role: metrics.registry.get_sample_value(
            "replica_role_changes_total", {"topic": "log", "partition": "0", "role": role}
        )
        for role in ("candidate", "leader", "follower")
    }
    assert counted == {"candidate": 2, "leader": 1, "follower": None}
    assert len([line for line in lines if line["event"] == "role_changed"]) == 3
    metrics.forget(LOG)
    assert metrics.role_changes == {}


def test_the_page_names_the_replica_and_its_process() -> None:
    """The id is a label of replica_info; memory, descriptors and processor time have the names of all programs."""
    registry = Metrics(FakeReplica(replica_id=THREE)).registry
    assert registry.get_sample_value("replica_info", {"replica_id": "3"}) == 1
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"):
        assert registry.get_sample_value(name)
