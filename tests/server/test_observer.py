"""What an operator sees: the log lines that exist, when they come, and the numbers on the metrics page."""

from __future__ import annotations

from prometheus_client import generate_latest
from structlog.testing import capture_logs

from replica.core.effects import Append, ApplyRetention, CreateLog, DeleteLog, InstallSnapshot, StartLogAt, Truncate
from replica.core.events import PeerRefused, ResponseReceived, Started, Ticked
from replica.core.log.recovered import StoredSnapshot
from replica.core.messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse, CurrentLeader
from replica.core.metadata.replay import METADATA_LOG
from replica.errors import ErrorCode
from replica.ids import CorrelationId, Epoch, Offset, ReplicaId, SnapshotId, TopicId, TopicPartition
from replica.records import encode_batch
from replica.server.metrics import Metrics
from replica.server.observer import ReplicaObserver
from replica.voters import VoterEntry
from tests.core.harness import voters_of
from tests.server.driver_fakes import LOG
from tests.server.observer_fakes import TWO, FakeEnd, FakeGroup, FakeReplica, FakeRole, FakeView, observer_of_replica

BEGIN = BeginQuorumEpochRequest(topic_partition=LOG, leader_id=ReplicaId(1), leader_epoch=Epoch(3))


def observer_of(view: FakeView, *, with_steps: bool = False) -> tuple[ReplicaObserver, Metrics]:
    return observer_of_replica(FakeReplica(logs={LOG: view}), with_steps=with_steps)


def test_a_change_of_leadership_is_one_line() -> None:
    """role_changed comes when role, epoch or leader differ from the last step, and not otherwise."""
    view = FakeView()
    observer, _ = observer_of(view)
    with capture_logs() as lines:
        observer.on_step(Started(), (), 1)
        observer.on_step(Ticked(), (), 2)
        view.role, view.leader_epoch, view.leader_id = FakeRole("unattached"), Epoch(4), None
        observer.on_step(Ticked(), (), 3)
    assert [(line["event"], line["role"], line["epoch"], line["leader_id"]) for line in lines] == [
        ("role_changed", "follower", 3, 2),
        ("role_changed", "unattached", 4, None),
    ]


def test_the_end_of_a_peers_process_is_one_line() -> None:
    """peer_refused comes once, and again only for a peer that has answered meanwhile."""
    observer, _ = observer_of(FakeView())
    refused = PeerRefused(replica_id=TWO, refused_at_ms=1)
    answered = ResponseReceived(
        correlation_id=CorrelationId(1), replica_id=TWO, response=BeginQuorumEpochResponse(error=ErrorCode.NONE)
    )
    with capture_logs() as lines:
        for event in (refused, refused, answered, refused):
            observer.on_step(event, (), 1)
    assert [line["peer"] for line in lines if line["event"] == "peer_refused"] == [TWO, TWO]


def test_a_change_of_voters_is_one_line() -> None:
    """voters_changed says who votes and by which record; a set that is taken back is followed by the one before."""
    view = FakeView()
    before = view.voter_history
    added = VoterEntry(offset=Offset(8), voters=voters_of(1, TWO, 3))
    observer, _ = observer_of(view)
    with capture_logs() as lines:
        for view.voter_history in (before, before.extended([added]), before.extended([added]), before):
            observer.on_step(Ticked(), (), 1)
    told = [line for line in lines if line["event"] == "voters_changed"]
    assert [(line["log"], line["offset"], line["role"], line["voters"]) for line in told] == [
        ("log-0", 8, "follower", [1, 2, 3]),
        ("log-0", None, "follower", [1, 2]),
    ]


def test_a_leader_that_cannot_be_is_a_warning() -> None:
    """leader_refused names who was called the leader of an epoch that another leads; a repetition is no news."""
    view = FakeView()
    observer, _ = observer_of(view)
    with capture_logs() as lines:
        for refused_id in (1, 1, 5):
            view.refused_leader = CurrentLeader(leader_id=ReplicaId(refused_id), leader_epoch=Epoch(3))
            observer.on_step(Ticked(), (), 1)
    told = [line for line in lines if line["event"] == "leader_refused"]
    assert [(line["log_level"], line["refused_id"], line["epoch"], line["leader_id"]) for line in told] == [
        ("warning", 1, 3, 2),
        ("warning", 5, 3, 2),
    ]


def test_a_truncation_is_one_line_with_what_was_lost() -> None:
    """log_truncated names the end before the step and the end after it, and whom the replica follows in which epoch."""
    view = FakeView()
    observer, metrics = observer_of(view)
    observer.on_step(Started(), (), 1)
    view.log = FakeEnd(Offset(8))
    with capture_logs() as lines:
        observer.on_step(Ticked(), (Truncate(topic_partition=LOG, end_offset=Offset(7)),), 2)
    assert [(line["event"], line["from_offset"], line["end_offset"]) for line in lines] == [("log_truncated", 10, 7)]
    assert [(line["epoch"], line["leader_id"]) for line in lines] == [(3, 2)]
    assert b'replica_truncations_total{partition="0",topic="log"} 1.0' in generate_latest(metrics.registry)


def test_each_step_is_a_debug_line_where_wanted() -> None:
    """At debug level there is one step line per step, with the event, the effects and the state after it."""
    observer, _ = observer_of(FakeView(), with_steps=True)
    with capture_logs() as lines:
        observer.on_step(Ticked(), (Truncate(topic_partition=LOG, end_offset=Offset(7)),), 5)
    (step,) = [line for line in lines if line["event"] == "step"]
    assert (step["log_level"], step["received"], step["effects"]) == ("debug", "Ticked", ["Truncate"])
    assert step["logs"]["log-0"]["log_end_offset"] == 10


def test_an_unreachable_peer_is_said_once() -> None:
    """A peer that does not answer earns one line, however often it is tried, and one when it answers again."""
    observer, _ = observer_of(FakeView())
    observer.on_step(Started(), (), 1)
    answer = BeginQuorumEpochResponse(error=ErrorCode.NONE)
    with capture_logs() as lines:
        for _ in range(3):
            observer.on_peer_unreachable(TWO, BEGIN, "refused")
        for _ in range(2):
            event = ResponseReceived(correlation_id=CorrelationId(0), replica_id=TWO, response=answer)
            observer.on_step(event, (), 2)
    assert [line["event"] for line in lines] == ["peer_unreachable", "peer_reachable"]


def test_a_leader_without_an_address_is_a_warning_once() -> None:
    """A log that follows a leader that no table names stands still: one line a leader, again if it was found since."""
    addresses: set[ReplicaId] = set()
    replica = FakeReplica(logs={LOG: FakeView(leader_id=TWO), METADATA_LOG: FakeView(leader_id=None)})
    observer, _ = observer_of_replica(replica, addresses=addresses)
    answer = BeginQuorumEpochResponse(error=ErrorCode.NONE)
    answered = ResponseReceived(correlation_id=CorrelationId(0), replica_id=TWO, response=answer)
    observer.on_step(Started(), (), 1)
    with capture_logs() as lines:
        for _ in range(3):
            observer.on_peer_unreachable(TWO, BEGIN, "no address is known")
        observer.on_step(answered, (), 2)
        addresses.add(TWO)
        observer.on_peer_unreachable(TWO, BEGIN, "refused")
        addresses.remove(TWO)
        observer.on_peer_unreachable(TWO, BEGIN, "no address is known")
        observer.on_peer_unreachable(ReplicaId(3), BEGIN, "no address is known")
    told = [line for line in lines if line["event"] == "leader_address_unknown"]
    assert [(line["log_level"], line["leader_id"], line["logs"]) for line in told] == [("warning", 2, ["log-0"])] * 2


def test_the_metrics_page_shows_the_state_at_the_scrape() -> None:
    """Offsets, epoch and role are read when the page is asked for; appends and flushes are counted."""
    view = FakeView()
    observer, metrics = observer_of(view)
    batches = (encode_batch([b"a"]), encode_batch([b"b"]))
    observer.on_step(Started(), (Append(topic_partition=LOG, batches=batches),), 1)
    observer.on_flushed(LOG, Offset(11), 0.002)
    view.high_watermark, view.log = Offset(11), FakeEnd(Offset(12))
    page = generate_latest(metrics.registry).decode()
    assert 'replica_log_end_offset{partition="0",topic="log"} 12.0' in page
    assert 'replica_high_watermark{partition="0",topic="log"} 11.0' in page
    assert 'replica_leader_epoch{partition="0",topic="log"} 3.0' in page
    assert 'replica_role{partition="0",role="follower",topic="log"} 1.0' in page
    assert 'replica_appended_batches_total{partition="0",topic="log"} 2.0' in page
    assert 'replica_flush_seconds_count{partition="0",topic="log"} 1.0' in page
    assert "replica_steps_total 1.0" in page


def test_an_unknown_high_watermark_is_absent() -> None:
    """While the high watermark is unknown the page has no value for it, rather than a false one."""
    _, metrics = observer_of(FakeView())
    assert "replica_high_watermark{" not in generate_latest(metrics.registry).decode()


def test_the_metrics_page_shows_groups() -> None:
    """How far each machine has applied, whether it leads, and what its newest snapshot contains, if there is one."""
    replica = FakeReplica(groups={LOG: FakeGroup(applied_offset=Offset(7), machine_leads=True)})
    _, metrics = observer_of_replica(replica)
    page = generate_latest(metrics.registry).decode()
    assert 'replica_group_applied_offset{partition="0",topic="log"} 7.0' in page
    assert 'replica_group_machine_leads{partition="0",topic="log"} 1.0' in page
    assert "replica_group_snapshot_end_offset{" not in page
    older, newest = (StoredSnapshot(id=SnapshotId(Offset(end), Epoch(1)), size_bytes=9) for end in (3, 6))
    replica.logs[LOG].snapshots = (older, newest)
    page = generate_latest(metrics.registry).decode()
    assert 'replica_group_snapshot_end_offset{partition="0",topic="log"} 6.0' in page


def test_a_log_that_a_snapshot_replaces_ends_where_that_ends() -> None:
    """InstallSnapshot has a line of its own, and the next truncation is told from its end."""
    observer, _ = observer_of(FakeView())
    observer.on_step(Started(), (), 1)
    snapshot_id = SnapshotId(Offset(20), Epoch(4))
    with capture_logs() as lines:
        observer.on_step(Ticked(), (InstallSnapshot(topic_partition=LOG, snapshot_id=snapshot_id, data=b"s"),), 2)
        observer.on_step(Ticked(), (Truncate(topic_partition=LOG, end_offset=Offset(15)),), 3)
    assert [line["event"] for line in lines] == ["snapshot_installed", "log_truncated"]
    assert (lines[0]["end_offset"], lines[1]["from_offset"]) == (20, 20)


def test_a_log_that_begins_anew_is_truncated() -> None:
    """StartLogAt loses what was there: it is told as a truncation to the new start."""
    observer, _ = observer_of(FakeView())
    observer.on_step(Started(), (), 1)
    with capture_logs() as lines:
        observer.on_step(Ticked(), (StartLogAt(topic_partition=LOG, start_offset=Offset(20)),), 2)
    assert [(line["event"], line["from_offset"], line["end_offset"]) for line in lines] == [("log_truncated", 10, 20)]


def test_clocks_that_cannot_be_believed_are_told_once() -> None:
    """However many logs keep what is old meanwhile, there is one warning, and one line when it is over."""
    observer, _ = observer_of(FakeView())
    observer.on_step(Started(), (), 1)
    with capture_logs() as lines:
        for unix_ms in (5, None, None, 6, 7):
            check = ApplyRetention(
                topic_partition=LOG, high_watermark=Offset(1), unix_ms=unix_ms, retention_ms=1, retention_bytes=None
            )
            observer.on_step(Ticked(), (check, check), 2)
        by_size = ApplyRetention(
            topic_partition=LOG, high_watermark=Offset(1), unix_ms=None, retention_ms=None, retention_bytes=1
        )
        observer.on_step(Ticked(), (by_size,), 3)
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("time_not_believed", "warning"),
        ("time_believed", "info"),
    ]


def test_logs_that_come_and_go_by_one_step_are_one_line() -> None:
    """However many partitions a topic has, its creation and its deletion are one line each; its numbers go with it."""
    names = [TopicPartition("t", number) for number in range(50)]
    observer, metrics = observer_of(FakeView())
    observer.on_step(Started(), (), 1)
    with capture_logs() as lines:
        observer.on_step(Ticked(), tuple(CreateLog(topic_partition=name, topic_id=TopicId(5)) for name in names), 2)
        observer.on_flushed(names[0], Offset(1), 0.001)
        assert b'replica_flush_seconds_count{partition="0",topic="t"} 1.0' in generate_latest(metrics.registry)
        observer.on_step(Ticked(), tuple(DeleteLog(topic_partition=name) for name in names), 3)
    assert [(line["event"], len(line["logs"])) for line in lines] == [("logs_created", 50), ("logs_deleted", 50)]
    assert b'topic="t"' not in generate_latest(metrics.registry)
