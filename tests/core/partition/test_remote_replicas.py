"""What a leader assumes of a follower as leaderships begin and time passes: Kafka's ReplicaTest."""

from __future__ import annotations

from msgspec.structs import replace

from replica.core.partition.roles import Leader, RemoteReplica
from replica.ids import Offset, ReplicaId
from tests.core.partition.bench import PartitionBench, registration

FOLLOWER = 2
LAG_MS = 30_000


def a_leader(*isr: int) -> PartitionBench:
    """Broker 1, which leads epoch 5 with six records, of which the follower has five."""
    bench = PartitionBench(log=[(4, 6)])
    bench.metadata(registration(1, 5, isr=isr))
    bench.fetch(FOLLOWER, 5)
    bench.elapse(500)
    return bench


def noted(bench: PartitionBench) -> RemoteReplica:
    """What is noted of the follower."""
    role = bench.partition.role
    assert isinstance(role, Leader), role
    return role.remotes[ReplicaId(FOLLOWER)]


def stays(bench: PartitionBench) -> bool:
    """Whether the follower is still in sync after the check for those who lag."""
    bench.elapse(LAG_MS // 2)
    return bench.proposal() is None


# --- what a leadership begins with ----------------------------------------------------------------------------------


def test_reset_replica_state_when_leader_is_reelected_and_replica_is_in_sync() -> None:
    """A leader that leads on in the next epoch knows where the follower is, and gives it its whole time anew."""
    bench = a_leader(1, 2)
    known = noted(bench)
    bench.metadata(registration(1, 6, isr=(1, 2)))
    assert noted(bench) == replace(
        known,
        last_fetch_leader_log_end_offset=Offset(6),
        last_fetch_ms=bench.now_ms,
        last_caught_up_ms=bench.now_ms,
    )
    assert noted(bench).log_end_offset == 5


def test_reset_replica_state_when_leader_is_reelected_and_replica_is_not_in_sync() -> None:
    """A follower that is not in sync keeps its place in the log, and has to show that it has caught up."""
    bench = a_leader(1, 3)
    known = noted(bench)
    bench.metadata(registration(1, 6, isr=(1, 3)))
    assert noted(bench) == replace(
        known, last_fetch_leader_log_end_offset=Offset(6), last_fetch_ms=None, last_caught_up_ms=None
    )
    assert noted(bench).log_end_offset == 5


def test_reset_replica_state_when_new_leader_is_elected_and_replica_is_in_sync() -> None:
    """A new leader knows nothing of the follower, even if it knew it as a leader before; it gives it its time."""
    bench = a_leader(1, 2)
    bench.metadata(registration(FOLLOWER, 6, isr=(1, 2)))
    bench.metadata(registration(1, 7, isr=(1, 2)))
    assert noted(bench) == RemoteReplica(last_caught_up_ms=bench.now_ms)


def test_reset_replica_state_when_new_leader_is_elected_and_replica_is_not_in_sync() -> None:
    """A new leader gives no time to a follower that is not in sync."""
    bench = a_leader(1, 3)
    bench.metadata(registration(3, 6, isr=(1, 3)))
    bench.metadata(registration(1, 7, isr=(1, 3)))
    assert noted(bench) == RemoteReplica()


# --- who has caught up ----------------------------------------------------------------------------------------------


def test_is_caught_up_when_replica_is_caught_up_to_log_end() -> None:
    """A follower at the log's end has caught up for as long as nothing is appended."""
    bench = a_leader(1, 2)
    bench.fetch(FOLLOWER, 6)
    bench.elapse(10 * LAG_MS)
    assert stays(bench)


def test_is_caught_up_when_replica_is_not_caught_up_to_log_end() -> None:
    """One that is behind has caught up until the limit has passed since it last had all; then it has not."""
    bench = a_leader(1, 2)
    bench.fetch(FOLLOWER, 6)
    bench.fill(1)
    bench.elapse(LAG_MS // 2)
    assert stays(bench)
    assert not stays(bench)
